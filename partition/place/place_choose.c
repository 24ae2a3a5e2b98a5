// Chooses the sharding of one node from its request and the settled shardings of its arguments.
//
// Each axis gets at most one slot: a dim of the result, or a reduced dim, which the node sums. A
// slot is claimed by a hard rule (a rule that is not soft) or by an argument that is split along
// it. The claimed slot for which arguments and result send the fewest bytes wins. An axis without a
// claimed slot follows a soft rule. A hard rule may lose to a reduced dim: the node then computes
// partial sums, and a reduce-scatter splits the result as the rule asks.
//
//   hidden[b, h] = contract(x[b/rows, d], w[d, h/cols])   split by b/rows, h/cols
//   y[b, o] = contract(hidden[b/rows, h/cols], v[h/cols, o])   b/rows, partial over cols
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// -- claims: reasons why an axis splits a slot ----------------------------------------------------

// A slot is a dim that an axis can split: a result dim, or a dim that the node sums. Slots of
// result dims have the first numbers.
enum { MAX_SLOTS = 2 * MAX_RANK };

typedef struct Choice {
  const Placer *placer;
  const Graph *g;
  NodeId id;
  const Node *n;
  int ndims, nslots;
  int nsources; // number of values whose splits the node may follow: its arguments, and the next
                // value of a carry while place_settle_carries runs
  Axes wanted[MAX_SLOTS]; // [slot] axes that split the argument dims that become the slot
  Axes hard[MAX_RANK];    // [result dim] axes of hard rules that the node can follow
  int slot[MAX_AXES];     // [axis] chosen slot, -1: none
  bool sized;             // a cost was asked for that depends on the slots chosen for other axes
} Choice;

static int slot_of(const Choice *c, DimRole r) {
  return r.kind == ROLE_KEEP ? r.at : r.kind == ROLE_INNER ? c->ndims + r.at : -1;
}

// Returns whether splitting the reduced dim by `split` sends less than gathering the argument of n.
// Only top_k, which sends candidates, and windows whose results are summed are compared; other
// nodes return true.
static bool owners_pay(const Graph *g, const Node *n, Axes split) {
  if ((n->op != OP_TOP_K && op_row((Op)n->op)->cls != WINDOW) || !n->attr->nto) return true;
  const Node *x = graph_node(g, n->args[0]);
  int64_t size = dim_get(g->dims, n->attr->dims[0])->size,
          k = dim_get(g->dims, n->attr->to[0])->size;
  if (n->op != OP_TOP_K) return 2 * k <= size;
  int64_t block = block_length(g->mesh, size, split);
  return (k < block ? k : block) * axes_size(g->mesh, split) * dtype_bytes(TYPE_U64) <
         size * dtype_bytes((Dtype)x->type);
}

static NodeId source_of(const Choice *c, int i) {
  return i < c->n->nargs ? c->n->args[i] : c->placer->graph->next[c->id];
}

static int source_slot(const Choice *c, int i, int j) {
  if (i < c->n->nargs) return slot_of(c, placed_role(c->placer, c->id, i, j));
  return dims_index(c->n->dims, graph_node(c->g, source_of(c, i))->dims->at[j]);
}

// Returns the dim of source i that the axis splits, -1: none.
static int split_dim(const Choice *c, int i, int axis) {
  return settled_dim(c->placer, source_of(c, i), axis);
}

// Fills c->wanted (axes that split arguments) and c->hard (axes of hard rules) for the dims that
// the node may split. Returns whether a rule or an argument has any axis.
static bool collect(Choice *c) {
  const Request *w = c->placer->request[c->id];
  bool any = false;
  for (int i = 0; i < c->nsources; i++) {
    NodeId arg = source_of(c, i);
    for (int j = 0; j < graph_node(c->g, arg)->dims->n; j++) {
      Axes split = c->placer->result.settled[arg]->split[j];
      if (!split.n) continue;
      int slot = source_slot(c, i, j);
      any = true;
      if (slot < 0 || (slot >= c->ndims && !owners_pay(c->g, c->n, split))) continue;
      axes_join(&c->wanted[slot],
                slot < c->ndims ? split_allowed(c->g, c->id, slot, split) : split);
    }
  }
  for (int k = 0; k < c->ndims; k++) {
    any |= w->hard[k].n || w->soft[k].n;
    if (w->hard[k].n) c->hard[k] = split_allowed(c->g, c->id, k, w->hard[k]);
  }
  return any;
}

// Returns whether a dim of source i becomes the slot. At most one does.
static bool has_slot(const Choice *c, int i, int slot) {
  int rank = graph_node(c->g, source_of(c, i))->dims->n;
  for (int j = 0; j < rank; j++)
    if (source_slot(c, i, j) == slot) return true;
  return false;
}

// Returns the bytes that the arguments send, in all steps of their loops, if `axis` splits `slot`
// (a result dim or a summed dim).
static double argument_cost(const Choice *c, int axis, int slot) {
  double p = (double)c->g->mesh->axis[axis].size, cost = 0;
  for (int i = 0; i < c->nsources; i++) {
    int have = split_dim(c, i, axis);
    if (have < 0 || source_slot(c, i, have) == slot) continue;
    NodeId arg = source_of(c, i);
    bool gathers = !has_slot(c, i, slot);
    if (gathers &&
        place_is_gathered(c->placer, arg, graph_node(c->g, arg)->dims->at[have], axis, c->id))
      continue;
    double bytes = (double)sharding_bytes(c->g, arg, c->placer->result.settled[arg]) *
                   (double)region_times(c->g, graph_node(c->g, arg)->region);
    cost += gathers ? (p - 1) * bytes : coll_sent_share(COLL_ALL_TO_ALL, p) * bytes;
  }
  return cost;
}

// Returns the bytes of one block of the result in all steps of its loop. The block is split by the
// axes that have chosen a result dim so far.
static double result_bytes(Choice *c) {
  c->sized = true;
  double bytes = (double)dtype_bytes((Dtype)c->n->type) * (double)region_times(c->g, c->n->region);
  for (int k = 0; k < c->ndims; k++) {
    double n = (double)dim_get(c->g->dims, c->n->dims->at[k])->size;
    for (int a = 0; a < c->g->mesh->naxes; a++)
      if (c->slot[a] == k) n /= (double)c->g->mesh->axis[a].size;
    bytes *= n;
  }
  return bytes;
}

static int soft_slot(const Choice *c, int axis) {
  const Request *w = c->placer->request[c->id];
  for (int k = 0; k < c->ndims; k++)
    if (w->soft[k].n && axes_has(split_allowed(c->g, c->id, k, w->soft[k]), axis)) return k;
  return -1;
}

// Why an axis may split a slot (a result dim or a summed dim), weakest reason first. RULE: a hard
// rule asks for it. NATURAL: the axis splits an argument dim that becomes the slot. MOVED: the axis
// splits arguments along other dims, and these arguments are exchanged first.
typedef enum Claim { CLAIM_NONE, CLAIM_MOVED, CLAIM_NATURAL, CLAIM_RULE } Claim;

// Returns the bytes that the result sends if `axis` splits `slot` (a result dim or a summed dim).
// The result sends to reduce partial sums, or to get the split that a rule asks for. `ruled`: a
// hard rule asks that the axis splits some result dim.
static double after_cost(Choice *c, int axis, int slot, Claim claim, bool ruled) {
  const Mesh *m = c->g->mesh;
  double p = (double)m->axis[axis].size;
  if (slot < c->ndims && claim != CLAIM_MOVED && (!ruled || claim == CLAIM_RULE)) return 0;
  double result = result_bytes(c);
  if (slot >= c->ndims &&
      c->n->op == OP_TOP_K) { // each processor sends its k largest as keys (lower_ordered.c)
    int64_t k = dim_get(c->g->dims, c->n->attr->to[0])->size,
            block = ceil_div(dim_get(c->g->dims, c->n->attr->dims[0])->size, m->axis[axis].size);
    return (p - 1) * result * (double)(k < block ? k : block) / (double)k *
           (double)dtype_bytes(TYPE_U64) / (double)dtype_bytes((Dtype)c->n->type);
  }
  int soft = soft_slot(c, axis);
  if (slot >= c->ndims)
    return coll_sent_share(ruled || soft >= 0 ? COLL_REDUCE_SCATTER : COLL_ALL_REDUCE, p) * result;
  bool back = (ruled && claim != CLAIM_RULE) || (claim == CLAIM_MOVED && soft >= 0 && soft != slot);
  return back ? coll_sent_share(COLL_ALL_TO_ALL, p) * result / p : 0;
}

// Returns whether `axis` may split a dim of the result that no rule and no argument asks for
// (CLAIM_MOVED). This is so if the axis splits arguments, none of them a weight, and each dim that
// a rule or an argument asks for would need a conversion. Conversions of arguments count. Those of
// the result count only for lookups under a hard rule (`ruled`), ordered operations and matrices,
// because the partial sums of other results may be reduced later.
static bool is_displaced(Choice *c, int axis, bool ruled) {
  OpClass cls = op_row((Op)c->n->op)->cls;
  bool split = false,
       moves = (cls == GATHER && ruled) || cls == ORDERED ||
               cls == MATRIX; // else partial sums may be reduced later
  for (int i = 0; i < c->nsources; i++) {
    if (split_dim(c, i, axis) < 0) continue;
    split = true;
    if (!c->placer->graph->fed[source_of(c, i)]) return false;
  }
  for (int s = 0; s < c->nslots && split; s++) {
    bool rule = s < c->ndims && axes_has(c->hard[s], axis);
    if (!rule && !axes_has(c->wanted[s], axis)) continue;
    double cost = argument_cost(c, axis, s);
    if (moves) cost += after_cost(c, axis, s, rule ? CLAIM_RULE : CLAIM_NATURAL, ruled);
    if (cost <= 0) return false;
  }
  return split;
}

// Returns whether other users need the node's arguments, gathered over `axis`, too. This holds for
// contractions, whose gradients read the factors again. It holds for weights that the axis splits,
// which the backward pass reads again.
static bool gathers_once(const Choice *c, int axis) {
  if (c->n->op == OP_CONTRACT) return true;
  for (int i = 0; i < c->n->nargs; i++) {
    if (!c->placer->graph->fed[c->n->args[i]] && split_dim(c, i, axis) >= 0) return true;
  }
  return false;
}

bool split_possible(const Placer *p, NodeId n, int k, int axis) {
  Axes one = {.n = 1, .at = {(uint8_t)axis}};
  return dim_get(p->g->dims, graph_node(p->g, n)->dims->at[k])->size >=
             p->g->mesh->axis[axis].size &&
         !p->request[n]->replicated[k] && split_allowed(p->g, n, k, one).n;
}

static Claim claim_of(const Choice *c, int axis, int slot, bool displaced) {
  if (slot < c->ndims && axes_has(c->hard[slot], axis)) return CLAIM_RULE;
  if (axes_has(c->wanted[slot], axis)) return CLAIM_NATURAL;
  if (slot >= c->ndims || !displaced) return CLAIM_NONE;
  return split_possible(c->placer, c->id, slot, axis) ? CLAIM_MOVED : CLAIM_NONE;
}

// A slot (a result dim or a summed dim) that an axis may split, and why.
typedef struct Claimed {
  int slot;
  Claim claim;
} Claimed;

// Lists the slots that are claimed for the axis. displaced: see is_displaced. Returns their number.
static int find_claims(const Choice *c, int axis, bool displaced, Claimed out[MAX_SLOTS]) {
  int n = 0;
  for (int s = 0; s < c->nslots; s++) {
    Claim claim = claim_of(c, axis, s, displaced);
    if (claim != CLAIM_NONE) out[n++] = (Claimed){s, claim};
  }
  return n;
}

// Returns the slot of lowest cost of the n claimed ones. At equal costs a summed dim wins if a hard
// rule asks for the axis: a reduce-scatter then splits the result. Next come the stronger claim
// (enum Claim) and the first slot.
static int cheapest_slot(Choice *c, int axis, bool ruled, int n, const Claimed *of) {
  int best = -1, rank = 0;
  double least = 0;
  bool shared = gathers_once(c, axis);
  for (int i = 0; i < n; i++) {
    int s = of[i].slot;
    double moved = argument_cost(c, axis, s),
           cost = moved + after_cost(c, axis, s, of[i].claim, ruled);
    if (shared && ruled && of[i].claim != CLAIM_RULE && moved > 0) cost *= 2;
    int strength = ruled && s >= c->ndims ? CLAIM_RULE + 1 : (int)of[i].claim;
    if (best < 0 || cost < least || (cost <= least && strength > rank))
      best = s, least = cost, rank = strength;
  }
  return best;
}

// Returns the slot that a rule or an argument asks `axis` to split, or -1. A single one is taken
// whatever it costs.
static int claimed_slot(Choice *c, int axis) {
  bool ruled = false;
  Claimed of[MAX_SLOTS];
  for (int k = 0; k < c->ndims; k++) ruled |= axes_has(c->hard[k], axis);
  int n = find_claims(c, axis, is_displaced(c, axis, ruled), of);
  return n > 1 ? cheapest_slot(c, axis, ruled, n, of) : n ? of[0].slot : -1;
}

static int asked_slot(Choice *c, int axis) {
  int slot = claimed_slot(c, axis);
  return slot < 0 ? soft_slot(c, axis) : slot;
}

static void choose_slot(Choice *c, int axis) {
  const Placer *p = c->placer;
  c->slot[axis] = -1;
  uint8_t forced = p->forced[c->id * MAX_AXES + (uint32_t)axis];
  if (p->repeated_loop && c->n->region == p->repeated_loop && axis == p->repeated_axis)
    forced = FORCED_NONE;
  if (c->g->mesh->axis[axis].size > 1)
    c->slot[axis] = forced ? forced - FORCED_FIRST : asked_slot(c, axis);
}

// Chooses for each axis the slot (the result dim or summed dim) that it splits. Where the slots of
// other axes matter, a second pass chooses again, when all are known.
static void choose_slots(Choice *c) {
  const Mesh *m = c->g->mesh;
  int axes = 0;
  for (int a = 0; a < m->naxes; a++) axes += m->axis[a].size > 1;
  for (int a = 0; a < m->naxes; a++) choose_slot(c, a);
  for (int a = 0; a < m->naxes && axes > 1 && c->sized; a++) choose_slot(c, a);
}

// Returns 1 + index of the layout rule that causes `axis` to split its chosen dim; 0: none. A rule
// for the node comes first, then that of an argument split along this dim, then that of any
// argument that the axis splits.
static uint16_t axis_rule(const Choice *c, int axis) {
  const Request *w = c->placer->request[c->id];
  int slot = c->slot[axis];
  if (slot < c->ndims && axes_has(w->hard[slot], axis)) return w->rule[slot];
  if (slot < c->ndims && axes_has(w->soft[slot], axis)) return w->soft_rule[axis];
  uint16_t other = 0;
  for (int i = 0; i < c->nsources; i++) {
    const Sharding *s = c->placer->result.settled[source_of(c, i)];
    int k = split_dim(c, i, axis);
    if (k < 0 || !s->rule[axis]) continue;
    if (source_slot(c, i, k) == slot) return s->rule[axis];
    if (!other) other = s->rule[axis];
  }
  return other;
}

// Returns a bit for each slot that some axis splits.
static uint32_t chosen_slots(const Choice *c) {
  uint32_t chosen = 0;
  _Static_assert(MAX_SLOTS <= 32, "a bit for each slot");
  for (int axis = 0; axis < c->g->mesh->naxes; axis++)
    if (c->slot[axis] >= 0) chosen |= 1u << c->slot[axis];
  return chosen;
}

// Returns the axes that split `slot` (a result dim or a summed dim), outermost first. Their order
// is that of the lists `first` (hard rules), `second` (arguments) and `third` (soft rules).
static Axes ordered(const Choice *c, int slot, Axes first, Axes second, Axes third) {
  Axes all = first, out = {0};
  int naxes = c->g->mesh->naxes;
  axes_join(&all, second);
  axes_join(&all, third);
  for (int axis = 0; axis < naxes; axis++)
    if (c->slot[axis] == slot)
      axes_append(&all, axis); // an axis with CLAIM_MOVED is in none of the three lists
  for (int i = 0; i < all.n; i++)
    if (c->slot[all.at[i]] == slot) axes_append(&out, all.at[i]);
  return out;
}

// -- from slots to shardings ------------------------------------------------------------------

static void put_axis(Sharding *s, int k, int axis, Axes order) {
  if (axes_equal(s->split[k], order)) return;
  sharding_remove(s, axis);
  Axes out = {0};
  for (int i = 0; i < order.n; i++)
    if (order.at[i] == axis || axes_has(s->split[k], order.at[i])) axes_append(&out, order.at[i]);
  axes_join(&out, s->split[k]);
  s->split[k] = out;
}

// Returns the settled sharding, which readers see, of value n computed in sharding `at`. The
// settled sharding has no partial sums, and has the splits that the rules ask for.
static Sharding settled_of(const Placer *p, NodeId n, const Sharding *at) {
  const Node *node = graph_node(p->g, n);
  const Request *w = p->request[n];
  Sharding settled = *at;
  settled.partial = (Axes){0};
  settled.monoid = MONOID_NONE;
  for (int k = 0; k < node->dims->n; k++)
    if (w->replicated[k]) settled.split[k] = (Axes){0};
  bool taken[MAX_AXES] = {false};
  for (int k = 0; k < node->dims->n; k++)
    for (int i = 0; i < w->hard[k].n; i++) {
      int axis = w->hard[k].at[i];
      int other = sharding_dim_of(at, axis);
      bool rival = other >= 0 && other != k && axes_has(w->hard[other], axis);
      Axes one = {.n = 1, .at = {(uint8_t)axis}};
      if (other >= 0 && !split_allowed(p->g, n, k, one).n)
        continue;                         // the node cannot compute such blocks
      if (taken[axis] || rival) continue; // the axis keeps splitting the dim that has it
      put_axis(&settled, k, axis, w->hard[k]);
      settled.rule[axis] = w->rule[k];
      taken[axis] = true;
    }
  request_add_soft(w, &settled);
  return settled;
}

// Returns whether every reader of n is a node that needs all of dim k, as a sort does.
static bool only_read_whole(const Placer *p, NodeId n, int k) {
  const Read *r = reads_of(p, n);
  for (; r->node; r++)
    if (placed_role(p, r->node, r->arg, k).kind != ROLE_FULL) return false;
  return !r->output;
}

// A source is computed in the sharding that the rules ask for. Numbers that are not stored, such as
// draws, are not split along a dim of which all readers need all: each processor computes them.
static void choose_source(Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  Sharding none = {0}, want = settled_of(p, n, &none);
  for (int k = 0; k < node->dims->n && !node->attr->decl; k++)
    while (want.split[k].n && only_read_whole(p, n, k)) sharding_remove(&want, want.split[k].at[0]);
  if (!node->attr->decl && node->op != OP_INDEX && !op_is_draw((Op)node->op)) return;
  place_compute(p, n, &want);
  place_settle(p, n, &want);
}

// Gives n the sharding that a pin, `layout(...)` in the model, states. The rules of the layout do
// not apply to n.
static void choose_pin(Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  Sharding at = *p->result.computed[n];
  for (int i = 0; i < node->attr->ndims; i++)
    if (p->g->mesh->axis[node->attr->axes.at[i]].size > 1)
      axes_append(&at.split[dims_index(node->dims, node->attr->dims[i])], node->attr->axes.at[i]);
  place_compute(p, n, &at);
  place_settle(p, n, &at);
}

// A final is what its carry is after a step: it has the sharding of the value that it takes over.
static void choose_final(Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  p->result.computed[n] = p->result.computed[node->args[1]];
  Sharding settled = settled_of(p, n, p->result.computed[n]);
  place_settle(p, n, &settled);
}

static void choice_begin(Choice *c, Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  *c = (Choice){.placer = p,
                .g = p->g,
                .id = n,
                .n = node,
                .ndims = node->dims->n,
                .nslots = node->dims->n + node_inner(node)};
  c->nsources = node->nargs + (p->settling && p->graph->next[n] != 0);
  if (c->nslots > c->ndims) p->inner[n] = arena_array(p->arena, Axes, c->nslots - c->ndims);
  for (int a = 0; a < MAX_AXES; a++) c->slot[a] = -1;
}

// Sets the splits of the result and of the loops inside the node, and the rules that decided. A
// reduction whose loops are split leaves partial results.
static void set_splits(const Choice *c, Sharding *at) {
  const Placer *p = c->placer;
  uint32_t chosen = chosen_slots(c);
  for (int k = 0; k < c->ndims; k++) {
    at->split[k] = (Axes){0};
    if (!(chosen >> k & 1)) continue;
    Axes split = ordered(c, k, c->hard[k], c->wanted[k], p->request[c->id]->soft[k]);
    at->split[k] = split_allowed(p->g, c->id, k, split);
  }
  for (int s = c->ndims; s < c->nslots; s++) {
    Axes *inner = &p->inner[c->id][s - c->ndims];
    *inner = ordered(c, s, c->wanted[s], (Axes){0}, (Axes){0});
    if (node_monoid(c->n)) axes_join(&at->partial, *inner);
  }
  at->partial = axes_sorted(at->partial);
  at->monoid = at->partial.n ? node_monoid(c->n) : MONOID_NONE;
  for (int axis = 0; axis < MAX_AXES; axis++)
    at->rule[axis] = c->slot[axis] < 0 ? 0 : axis_rule(c, axis);
}

// Chooses among the shardings that the rules and the node's sources ask for.
static void choose_asked(Placer *p, NodeId n) {
  Choice c;
  choice_begin(&c, p, n);
  if (!collect(&c)) {
    place_whole(p, n);
    return;
  }
  choose_slots(&c);
  Sharding at = *p->result.computed[n];
  set_splits(&c, &at);
  Sharding settled = settled_of(p, n, &at);
  // Each step of a loop would convert a carry that is computed in another sharding.
  place_compute(p, n, c.n->op == OP_CARRY ? &settled : &at);
  place_settle(p, n, &settled);
}

void place_choose(Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  if (op_row((Op)node->op)->cls == SOURCE)
    choose_source(p, n);
  else if (node->op == OP_PIN)
    choose_pin(p, n);
  else if (node->op == OP_FINAL)
    choose_final(p, n);
  else
    choose_asked(p, n);
}
