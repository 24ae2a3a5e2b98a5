// Local search: moves that change the shardings of several nodes together.
//
// place_choose decides node by node. A move changes one choice, lets the nodes that depend on it
// choose again (improve_trial.c), and estimates the bytes of all affected values before and after
// (improve_cost.c). The move is kept if it saves enough; moves like those that failed are tried
// less often (improve_alike.c). A conversion that several users share costs only once, so changing
// several nodes can save bytes where changing one cannot. The moves:
//
//   settle  a value is split as some of its users read it; its other users, e.g. the norm of a
//           gradient or the mean of a row, then work on blocks
//   slot    a contraction or a lookup is split along another dim of its result or another dim that
//           it sums; its arguments are exchanged (all_to_all) if they are not split so
//   gather  all users of a value, e.g. three projections, choose as if it were replicated
//   repeat  all contractions and lookups that read a value compute their whole results on every
//           processor
//   carry   a carry of a loop is split along another dim, or along none (improve_carry.c)
//
//   q, k, v = contract(n[t/cols], w_i[heads/cols])   split by t, each of the three gathers w_i and
//                                                    exchanges its result; it sends less to gather
//                                                    n once and to split all three by heads
//
// The first moves must save more bytes than a link transfers during the latency of a call, and add
// few flops. The fine moves, which follow, may save less, and add work that takes much less time
// than they save. Whether a few bytes are worth a call is beyond an estimate of single values. So
// fine moves are also judged together, all of one kind over one axis, by the bytes and calls of the
// whole placement (place_sent.c).
//
// The last moves begin with the best placement of the others, so that it is never lost. They may
// save any number of bytes, add redundant work, and change carries. Slot moves then let any node,
// also a reshape or a reduction, compute its whole result on every processor. The last moves are
// judged as fine moves are, and by the work of the whole placement, too (place_seconds.c); one by
// one if they are not kept together.
//
//   take[v](table[v/cols, d], ids[b])    summing the rows that each processor found sends twice the
//                                        bytes of b rows; to gather a table of fewer than 2 b rows
//                                        sends less
#include "partition/place/improve_internal.h"

#include <string.h>

// The nodes that all trials may visit: so many, and so many for each node of the graph. Time thus
// grows in proportion to the graph.
enum { MIN_VISITS = 1 << 14, VISITS_A_NODE = 48 };
// Largest share of all flops that all moves together may add. What a move must save is not a share
// of all bytes: the layers of a deep model are placed like those of a shallow one.
static const double SMALL = 1.0 / 256;

// -- moves --------------------------------------------------------------------------------------

// Tries to split dim k of n over the axis, in the settled sharding and, unless n is partial over
// the axis, in the computed one. Returns whether the change was kept.
static bool move_settled(Improve *m, NodeId n, int axis, int k) {
  Placer *p = m->p;
  Sharding at = *p->result.computed[n], settled = *p->result.settled[n];
  Axes split = settled.split[k];
  axes_append(&split, axis);
  if (!axes_has(at.partial, axis) && !axes_equal(split_allowed(m->g, n, k, split), split))
    return false;
  if (!trial_begin(m, (Move){MOVE_SETTLE, n, axis, k})) return false;
  trial_save(m, n);
  settled.split[k] = split;
  place_settle(p, n, &settled); // some readers read it as it is settled
  settled.rule[axis] = place_reader_rule(p, n, k, axis);
  place_settle(p, n, &settled);
  if (!axes_has(at.partial, axis) && axes_starts(split, at.split[k])) {
    at.split[k] = split;
    at.rule[axis] = settled.rule[axis];
    place_compute(p, n, &at);
  }
  crowds_note(p, n);
  trial_wait_users(m, n);
  return trial_end(m, true);
}

// Returns a bit for each dim of n along which some user reads n split over the axis. Users of
// pointwise users of n count too. Sets *replicated to whether some user reads n replicated.
static uint32_t wanted_splits(const Improve *m, NodeId n, int axis, bool *replicated) {
  const Placer *p = m->p;
  const Dims *dims = graph_node(m->g, n)->dims;
  Reads r;
  improve_needs(m, n, &r);
  uint32_t splits = r.axis[axis].splits;
  *replicated = r.axis[axis].replicated;
  for (const Read *u = reads_of(p, n); u->node; u++) {
    const Node *user = graph_node(m->g, u->node);
    if (op_row((Op)user->op)->cls != POINTWISE) continue;
    improve_needs(m, u->node, &r);
    for (int k = 0; k < user->dims->n; k++) {
      int at = dims_index(dims, user->dims->at[k]);
      if (at >= 0 && r.axis[axis].splits >> k & 1) splits |= 1u << at;
    }
  }
  return splits;
}

// Tries to split n, in its settled sharding, over the axis along a dim along which some user reads
// n so. Tries one such dim after the other until a trial is kept.
static void try_settled(Improve *m, NodeId n, int axis) {
  const Placer *p = m->p;
  const Node *node = graph_node(m->g, n);
  bool replicated;
  if (node->attr->decl || !trial_is_free(m, n) || trial_is_shown(m, n) ||
      settled_dim(p, n, axis) >= 0)
    return;
  uint32_t splits = wanted_splits(m, n, axis, &replicated);
  for (int k = 0; k < node->dims->n && replicated && trial_has_room(m); k++)
    if (splits >> k & 1 && !p->request[n]->replicated[k] && move_settled(m, n, axis, k)) return;
}

static bool has_slots(const Improve *m, NodeId u) {
  OpClass cls = op_row((Op)graph_node(m->g, u)->op)->cls;
  return cls == CONTRACT || cls == GATHER;
}

static int slot_now(const Improve *m, NodeId u, int axis) {
  const Node *node = graph_node(m->g, u);
  for (int i = 0; i < node_inner(node); i++)
    if (axes_has(m->p->inner[u][i], axis)) return node->dims->n + i;
  return computed_dim(m->p, u, axis);
}

static bool can_split(const Improve *m, NodeId u, int axis, int slot) {
  const Node *node = graph_node(m->g, u);
  if (slot >= 0 && slot < node->dims->n) return split_possible(m->p, u, slot, axis);
  return slot < 0 || dim_get(m->g->dims, node->attr->dims[slot - node->dims->n])->size >=
                         m->g->mesh->axis[axis].size;
}

static bool move_slot(Improve *m, NodeId u, int axis, int slot) {
  if (!trial_begin(m, (Move){MOVE_SLOT, u, axis, slot})) return false;
  uint8_t *forced = &m->p->forced[u * MAX_AXES + (uint32_t)axis], before = *forced;
  *forced = (uint8_t)(slot + FORCED_FIRST);
  bool kept = trial_end(m, trial_choose(m, u));
  if (kept)
    vec_push(m->scratch, m->unforce) = (Force){u * MAX_AXES + (uint32_t)axis, before};
  else
    *forced = before;
  return kept;
}

static void try_slots(Improve *m, NodeId u, int axis) {
  const Node *node = graph_node(m->g, u);
  int now = slot_now(m, u, axis), slots = m->repeating ? 0 : node->dims->n + node_inner(node);
  for (int s = -1; s < slots && trial_has_room(m); s++)
    if (s != now && can_split(m, u, axis, s) && move_slot(m, u, axis, s)) return;
}

// Tries a move in which all users of n choose their shardings as if n were replicated over the
// axis.
static void try_gather(Improve *m, NodeId n, int axis) {
  Placer *p = m->p;
  if (!trial_begin(m, (Move){MOVE_GATHER, n, axis, -1})) return;
  p->as_gathered = n, p->gathered_axis = axis;
  trial_wait_users(m, n);
  bool good = trial_spread(m);
  p->as_gathered = 0;
  if (!trial_end(m, good)) return;
  for (const Read *r = reads_of(p, n); r->node; r++) {
    uint32_t at = r->node * MAX_AXES + (uint32_t)axis;
    if (!has_slots(m, r->node)) continue;
    vec_push(m->scratch, m->unforce) = (Force){at, p->forced[at]};
    p->forced[at] = (uint8_t)(slot_now(m, r->node, axis) + FORCED_FIRST);
  }
}

static bool is_split_by(const Improve *m, NodeId u, int axis) {
  return has_slots(m, u) && slot_now(m, u, axis) >= 0;
}

// Tries a move in which all users of n that have slots compute whole results from all of n.
static void try_repeat(Improve *m, NodeId n, int axis) {
  uint32_t first = m->unforce.n;
  bool good = true;
  if (!trial_begin(m, (Move){MOVE_REPEAT, n, axis, -1})) return;
  for (const Read *r = reads_of(m->p, n); r->node && good; r++) {
    if (!is_split_by(m, r->node, axis)) continue;
    uint32_t at = r->node * MAX_AXES + (uint32_t)axis;
    vec_push(m->scratch, m->unforce) = (Force){at, m->p->forced[at]};
    m->p->forced[at] = FORCED_NONE;
    good = trial_choose(m, r->node);
  }
  if (trial_end(m, good)) return;
  while (m->unforce.n > first) {
    const Force *f = &m->unforce.at[--m->unforce.n];
    m->p->forced[f->at] = f->before;
  }
}

// Returns an upper limit of the bytes that a move can save at value n. A fine move saves at most
// what n sends after place_finish (trial_saved in improve_trial.c).
static double most_saved(Improve *m, NodeId n) {
  return m->fine ? m->sent[n].bytes : known_base(m, n)->sent.bytes;
}

// Returns whether u and its arguments together send so many bytes that a move could save m->least
// bytes.
static bool is_hot(Improve *m, NodeId u) {
  const Node *node = graph_node(m->g, u);
  double sum = most_saved(m, u);
  for (int i = 0; i < node->nargs && sum <= m->least; i++) sum += most_saved(m, node->args[i]);
  return sum > m->least;
}

// Moves of partial sums are kept if they save any byte.
static void move_sums(Improve *m, int axis) {
  const Graph *g = m->g;
  double least = m->least;
  m->least = 0;
  for (NodeId n = graph_count(g); n > 0 && trial_has_room(m); n--) {
    if (!improve_is_partial(m, n, axis)) continue;
    try_settled(m, n, axis);
    for (const Read *r = reads_of(m->p, n); r->node && trial_has_room(m); r++)
      if (op_row((Op)graph_node(g, r->node)->op)->cls == POINTWISE) try_settled(m, r->node, axis);
  }
  m->least = least;
}

static void move_gathers(Improve *m, int axis) {
  const Placer *p = m->p;
  for (NodeId n = 1; n <= graph_count(m->g) && trial_has_room(m); n++) {
    if (!reads_of(p, n)[0].node || !reads_of(p, n)[1].node || settled_dim(p, n, axis) < 0 ||
        most_saved(m, n) <= m->least)
      continue;
    try_gather(m, n, axis);
  }
}

static bool has_hot_user(Improve *m, NodeId n, int axis) {
  for (const Read *r = reads_of(m->p, n); r->node; r++)
    if (is_split_by(m, r->node, axis) && is_hot(m, r->node)) return true;
  return false;
}

static void try_repeats(Improve *m, int axis) {
  for (NodeId n = 1; n <= graph_count(m->g) && trial_has_room(m); n++) {
    if (!reads_of(m->p, n)[0].node || !reads_of(m->p, n)[1].node ||
        settled_dim(m->p, n, axis) < 0 || !has_hot_user(m, n, axis))
      continue;
    try_repeat(m, n, axis);
    improve_judge(m);
  }
}

static void move_slots(Improve *m, int axis) {
  for (NodeId n = 1; n <= graph_count(m->g) && trial_has_room(m); n++) {
    if (!(m->repeating ? trial_is_free(m, n) : has_slots(m, n)) || !is_hot(m, n)) continue;
    try_slots(m, n, axis);
    improve_judge(m);
  }
}

// Makes moves of one kind over one axis. If they are not better together, some may be so alone.
static void make_repeating(Improve *m, Placer *best, void move(Improve *, int), int axis) {
  move(m, axis);
  uint32_t kept = m->kept;
  if (!improve_end_group(m, best) || kept < 2) return;
  alike_forget(m);
  m->apart = best;
  move(m, axis);
  m->apart = NULL;
}

// Makes moves that save more than a call takes.
static void improve(Improve *m, Placer *best) {
  for (int a = 0; a < m->g->mesh->naxes; a++) {
    if (m->g->mesh->axis[a].size < 2) continue;
    move_sums(m, a);
    move_gathers(m, a);
    move_slots(m, a);
  }
  improve_end_group(m, best);
}

// Makes moves that save less. In programs of few bytes no others exist.
static void improve_finely(Improve *m, Placer *best) {
  static void (*const move[])(Improve *, int) = {move_gathers, move_slots};
  m->fine = true;
  m->least = 0;
  alike_forget(m);
  for (int a = 0; a < m->g->mesh->naxes; a++)
    for (size_t k = 0; k < countof(move) && m->g->mesh->axis[a].size > 1; k++) {
      move[k](m, a);
      improve_end_group(m, best);
    }
}

// Makes moves that add redundant work or change carries.
static void improve_by_repeating(Improve *m, Placer *best) {
  static void (*const move[])(Improve *, int) = {improve_carries, try_repeats, move_slots};
  m->repeating = true;
  alike_forget(m);
  for (int a = 0; a < m->g->mesh->naxes; a++)
    for (size_t k = 0; k < countof(move) && m->g->mesh->axis[a].size > 1; k++)
      make_repeating(m, best, move[k], a);
}

// Returns the state of a search that moves values of `now`, a copy of p before place_finish.
static Improve *improve_new(Arena *a, const Placer *p, Placer *now) {
  uint32_t n = graph_count(p->g) + 1;
  double latency = p->machine->latency, bandwidth = p->machine->bandwidth;
  Improve *m = arena_new_of(a, Improve);
  *m = (Improve){.p = now,
                 .g = p->g,
                 .scratch = a,
                 .pending = arena_array(a, NodeId, n),
                 .waits = arena_array(a, bool, n),
                 .seen = arena_array(a, uint32_t, n),
                 .changed = arena_array(a, uint32_t, n),
                 .pulled = arena_array(a, uint64_t, n),
                 .changes = 1,
                 .epoch = 1,
                 .base = arena_array(a, Base, n),
                 .failed_of = arena_array(a, uint32_t, n),
                 .partial = arena_array(a, uint8_t, n),
                 .sent = arena_array(a, Sent, n),
                 .most = MIN_VISITS + VISITS_A_NODE * (uint64_t)improve_nodes(p),
                 .call = latency * bandwidth,
                 .least = latency * bandwidth};
  for (int x = 0; x < p->g->mesh->naxes; x++)
    m->weight[x] = bandwidth / machine_link(p->machine, p->g->mesh->axis[x].name).bandwidth;
  vec_push(a, m->failed) = (Failed){0}; // index 0 says that there is none
  return m;
}

static void make_all_moves(Improve *m, Placer *p) {
  improve_partial(m);
  m->work = improve_work(p);
  alike_find(m);
  for (NodeId u = 1; u <= graph_count(m->g); u++) m->spare += SMALL * place_work(m->p, u);
  improve(m, p);
  improve_finely(m, p);
  improve_by_repeating(m, p);
}

static void keep_modest(Placer *p, Placer *modest) {
  place_marks(modest);
  p->result.modest = &modest->result;
  modest->result.full = &p->result;
}

void place_improve(Placer *p) {
  Placer now = improve_copy(p);
  now.crowds = p->crowds; // place_finish ends the counts of p
  place_finish(p);
  bool waits = p->waits;
  Arena *scratch = arena_new();
  Improve *m = improve_new(scratch, p, &now);
  if (improve_find_sent(m, p) > 0) {
    make_all_moves(m, p);
    if (m->modest) keep_modest(p, m->modest);
  }
  p->waits |= waits;
  improve_release(&now);
  arena_free(scratch);
}
