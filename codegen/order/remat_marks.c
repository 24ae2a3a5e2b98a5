// Chooses the forward values that are rematerialised: by checkpoints, and under a memory budget
// level by level, cheapest first.
//
//   a forward value            is rematerialised
//   between checkpoints        always, but for reductions to a few bytes
//   pointwise, a draw          from level 1, if its arguments are kept for gradients, or small
//   gathered parameters        from level 2, as in ZeRO-3
//   other gathers, halos       from level 3: those of sequence parallelism, of images
//   of the first k segments    at level 3 + k, if only the segment reads it and no collective
//                              computes it; of each micro-batch the first k segments
//   of all segments            at the last level but one; loops also compute contractions over
//                              all iterations step by step (remat_unhoist.c)
//   results of collectives     at the last level
//
// A segment of the forward pass ends where nodes pass few bytes to later ones: between layers, not
// within. A loop is in one segment. Values that a loop collects follow these rules, too. From level
// 1, pointwise work on other values of an iteration is rematerialised. With its segment, the whole
// iteration is rematerialised, from its carries, from values outside the loop and from values that
// something reads for all iterations together.
#include "codegen/order/remat_internal.h"
#include "codegen/values/values_internal.h"

enum {
  CHEAP = 1,
  GATHERS,
  ALL_GATHERS
}; // levels that choose kinds of values; the last is REMAT_BASE_LEVELS
enum {
  NEAR = 8,  // a segment ends where no node within this distance passes on fewer bytes
  SMALL = 64 // clones may read values of at most this many bytes, which are kept
};
// A segment: it ends with node `end`, and is number `number` of its micro-batch, from 0.
typedef struct Segment {
  NodeId end;
  uint32_t number;
} Segment;
typedef struct Marks {
  Arena *a;
  const Graph *g;
  const RematLoops *loops;
  uint32_t count;
  bool *marked;
  bool *read; // by node: a gradient reads its value, which is kept unless it is rematerialised
  // By node of a loop: something reads its values of all iterations together.
  bool *of_all_iterations;
  bool *data;           // by node: it depends on an input
  const uint32_t *part; // by node: its micro-batch (graph_micro_batches), or NULL
  // By node: the last forward node that reads it, directly or through views. Of a node that belongs
  // to no micro-batch only readers in the first one count: the others have clones.
  NodeId *last;
  VEC(Segment) segment; // those of each micro-batch without the last one
} Marks;

static bool is_source(const Node *n) {
  return op_row((Op)n->op)->cls == SOURCE && !op_is_draw((Op)n->op);
}

// Returns whether n is a collective that sends data to other processors.
static bool is_moved(const Node *n) {
  return op_row((Op)n->op)->cls == COLLECTIVE && n->op != OP_SLICE_OWN && n->op != OP_TO_PARTIAL;
}

// Returns whether n reduces a value to a few bytes.
static bool is_tiny(const Marks *m, NodeId n) {
  const Node *x = graph_node(m->g, n);
  return op_row((Op)x->op)->cls == REDUCE && !x->region && node_bytes(m->g, n) <= SMALL;
}

static bool may_repeat(const Marks *m, NodeId id) {
  const Node *n = graph_node(m->g, id);
  bool kept =
      n->op == OP_CHECKPOINT || is_moved(n) || op_row((Op)n->op)->cls == REGION || is_source(n);
  return !kept && remat_forward(m->g, m->loops, id);
}

// Returns whether the readers of node n allow that n is rematerialised. They do if n is outside
// loops. Inside a loop they do if the loop has a backward loop and nothing reads the values of all
// iterations together.
static bool may_leave(const Marks *m, NodeId n) {
  RegionId r = graph_node(m->g, n)->region;
  return !r || (m->loops->backed[r] && !m->of_all_iterations[n]);
}

static void mark_checkpoints(Marks *m) {
  bool *before = arena_array(m->a, bool, m->count + 1);
  for (NodeId n = m->count; n >= 1; n--) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < node->nargs && (before[n] || node->op == OP_CHECKPOINT); i++)
      before[node->args[i]] = true;
    m->marked[n] = before[n] && !node->region && may_repeat(m, n) && !is_tiny(m, n);
  }
}

static uint32_t part_of(const Marks *m, NodeId n) { return m->part ? m->part[n] : 0; }

// -- which nodes read a value ------------------------------------------------------------------

// Returns the place of n in the forward pass, as a node number. It is n itself or, for a node in
// loops, the SCAN that ends the outermost of them.
static NodeId place_of(const Marks *m, NodeId n) {
  NodeId place = n;
  for (RegionId r = graph_node(m->g, n)->region; r; r = region_get(m->g, r)->parent)
    if (m->loops->scan[r]) place = m->loops->scan[r];
  return place;
}

static void read_by(Marks *m, NodeId n, NodeId arg) {
  const Node *node = graph_node(m->g, n);
  bool view = op_is_view((Op)node->op), backward = !remat_forward(m->g, m->loops, n),
       mirrors = m->loops->mirror[n];
  m->read[arg] |= backward || ((view || node->op == OP_COLLECT) && m->read[n]);
  if (!mirrors)
    m->of_all_iterations[arg] |=
        view || node->op == OP_COLLECT ? m->of_all_iterations[n] : backward;
  bool other = part_of(m, n) > 1 && !part_of(m, arg);
  NodeId by = backward || other ? 0 : view ? m->last[n] : place_of(m, n);
  if (by > m->last[arg]) m->last[arg] = by;
}

static void find_readers(Marks *m) {
  m->read = arena_array(m->a, bool, m->count + 1);
  m->of_all_iterations = arena_array(m->a, bool, m->count + 1);
  m->data = arena_array(m->a, bool, m->count + 1);
  m->last = arena_array(m->a, NodeId, m->count + 1);
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    m->data[n] = node->op == OP_INPUT || node->region;
    for (int i = 0; i < node->nargs; i++) m->data[n] |= m->data[node->args[i]];
  }
  for (NodeId n = m->count; n >= 1; n--) {
    const Node *node = graph_node(m->g, n);
    NodeId of = m->loops->mirror[n];
    if (of && graph_node(m->g, of)->op == OP_COLLECT)
      // n reads what an inner loop collects in `of`
      m->of_all_iterations[of] |= m->of_all_iterations[n];
    for (int i = 0; i < node->nargs; i++) read_by(m, n, node->args[i]);
  }
}

// -- levels 1 to 3: kinds of values ------------------------------------------------------------

// Returns whether a clone, a rematerialised node, can read the value of `arg`. It can if arg is
// kept for gradients, is a source, is small, or is rematerialised itself.
static bool at_hand(const Marks *m, NodeId arg) {
  const Node *x = graph_node(m->g, arg);
  bool small = !x->region && node_bytes(m->g, arg) <= SMALL;
  return is_source(x) || m->marked[arg] || m->read[arg] || small ||
         (x->op == OP_AT && at_hand(m, x->args[0]));
}

static void mark_cheap(Marks *m) {
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    const OpRow *row = op_row((Op)node->op);
    bool cheap = (row->cls == POINTWISE && !(row->flags & CHECKS)) || node->op == OP_BROADCAST ||
                 op_is_alias((Op)node->op) || op_is_draw((Op)node->op) ||
                 (row->cls == COLLECTIVE && !is_moved(node));
    if (!cheap || !may_repeat(m, n) || !may_leave(m, n)) continue;
    bool all = true;
    for (int i = 0; i < node->nargs; i++) all &= at_hand(m, node->args[i]);
    m->marked[n] |= all;
  }
}

static bool is_gather(const Node *n) { return n->op == OP_ALL_GATHER || n->op == OP_HALO; }

static void mark_gathers(Marks *m, bool all) {
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    if (is_gather(node) && remat_forward(m->g, m->loops, n) && may_leave(m, n) &&
        (all || !m->data[n]))
      m->marked[n] = true;
  }
}

// -- levels above 3: segments ------------------------------------------------------------------

// Returns for each node n the bytes of the forward values that nodes up to n compute and forward
// nodes after n read. Values that do not depend on an input do not count.
static int64_t *crossing_bytes(const Marks *m) {
  int64_t *bytes = arena_array(m->a, int64_t, m->count + 2), live = 0;
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    if (!m->data[n] || node->origin->backward || is_source(node) || op_is_view((Op)node->op))
      continue;
    if (node->region || m->last[n] <= n) continue;
    bytes[n] += node_bytes(m->g, n);
    bytes[m->last[n]] -= node_bytes(m->g, n);
  }
  for (NodeId n = 1; n <= m->count; n++) bytes[n] = live += bytes[n];
  return bytes;
}

static bool is_narrow(const Marks *m, const int64_t *bytes, NodeId n) {
  if (!bytes[n] || !m->data[n] || graph_node(m->g, n)->region ||
      graph_node(m->g, n)->origin->backward)
    return false;
  for (NodeId k = n > NEAR ? n - NEAR : 1; k <= n + NEAR && k <= m->count; k++)
    if (bytes[k] && bytes[k] < bytes[n]) return false;
  return true;
}

static void find_segments(Marks *m) {
  const int64_t *bytes = crossing_bytes(m);
  for (NodeId n = 1; n <= m->count; n++) {
    const Segment *last = m->segment.n ? &m->segment.at[m->segment.n - 1] : NULL;
    if (!is_narrow(m, bytes, n) || (last && n <= last->end + NEAR)) continue;
    bool same = last && part_of(m, last->end) == part_of(m, n);
    Segment next = {n, same ? last->number + 1 : 0};
    vec_push(m->a, m->segment) = next;
  }
}

// Returns the largest number of segments of a micro-batch, without the last one.
static uint32_t most_segments(const Marks *m) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < m->segment.n; k++)
    if (m->segment.at[k].number >= most) most = m->segment.at[k].number + 1;
  return most;
}

// Returns whether node n, which comes before the end of segment k, is in one of the first
// `segments` segments of its micro-batch and read by no forward node behind it. A loop may end in a
// later segment. What belongs to no micro-batch is in the first one.
static bool is_inside(const Marks *m, NodeId n, uint32_t k, uint32_t segments) {
  bool loop = graph_node(m->g, n)->region;
  NodeId to = loop ? place_of(m, n) : m->last[n];
  while (loop && k < m->segment.n && m->segment.at[k].end < to) k++;
  if (k == m->segment.n || m->segment.at[k].number >= segments) return false;
  uint32_t part = part_of(m, n) ? part_of(m, n) : 1;
  return to <= m->segment.at[k].end && (!m->part || part == part_of(m, m->segment.at[k].end));
}

static void mark_segments(Marks *m, uint32_t segments, bool collectives) {
  for (NodeId n = 1, k = 0; n <= m->count; n++) {
    while (k < m->segment.n && m->segment.at[k].end < n) k++;
    if (k == m->segment.n) return;
    bool moved = is_moved(graph_node(m->g, n)) && remat_forward(m->g, m->loops, n);
    if (is_inside(m, n, k, segments) && may_leave(m, n) &&
        (may_repeat(m, n) || (collectives && moved)))
      m->marked[n] = true;
  }
}

static Marks marks_new(Arena *a, const Graph *g, const RematLoops *l, bool *marked) {
  Marks m = {.a = a,
             .g = g,
             .loops = l,
             .count = graph_count(g),
             .marked = marked,
             .part = graph_micro_batches(a, g)};
  find_readers(&m);
  return m;
}

static bool has_gradients(const Marks *m) {
  bool any = false;
  for (NodeId n = 1; n <= m->count && !any; n++)
    any = graph_node(m->g, n)->origin->backward && !graph_node(m->g, n)->attr->decl;
  return any;
}

int remat_levels(Arena *a, const Graph *g) {
  RematLoops loops = remat_loops(a, g);
  Marks m = marks_new(a, g, &loops, NULL);
  if (!has_gradients(&m)) return 0;
  find_segments(&m);
  return REMAT_BASE_LEVELS + (int)most_segments(&m) + REMAT_TAIL;
}

RematLevel remat_level(Arena *a, const Graph *g, int level) {
  RematLevel what = {.cheap = level < REMAT_BASE_LEVELS ? level : REMAT_BASE_LEVELS,
                     .each = level >= GATHERS};
  if (level <= REMAT_BASE_LEVELS) return what;
  int segments = remat_levels(a, g) - REMAT_BASE_LEVELS - REMAT_TAIL;
  what.segments = (uint32_t)(level - REMAT_BASE_LEVELS);
  if (level - REMAT_BASE_LEVELS < segments) return what;
  what.segments = UINT32_MAX;
  what.steps = level - REMAT_BASE_LEVELS > segments;
  what.collectives = level - REMAT_BASE_LEVELS - 1 > segments;
  return what;
}

const char *remat_level_text(Arena *a, int level, int levels) {
  static const char *const text[] = {"nothing", "pointwise work",
                                     "pointwise work and gathered parameters",
                                     "pointwise work and what was gathered"};
  static const char *const all[REMAT_TAIL + 1] = {
      "", "the whole forward pass, loops step by step",
      "the whole forward pass, loops step by step, its collectives too"};
  int tail = level - (levels - REMAT_TAIL), segments = levels - REMAT_TAIL - REMAT_BASE_LEVELS;
  if (level <= REMAT_BASE_LEVELS) return text[level];
  if (tail > 0) return all[tail];
  return arena_printf(a, "%s, %d of %d segment%s of the forward pass", text[REMAT_BASE_LEVELS],
                      level - REMAT_BASE_LEVELS, segments, plural(segments));
}

bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked) {
  Marks m = marks_new(a, g, l, marked);
  mark_checkpoints(&m);
  if (level->cheap >= CHEAP) mark_cheap(&m);
  if (level->cheap >= GATHERS) mark_gathers(&m, level->cheap >= ALL_GATHERS);
  if (level->segments) {
    find_segments(&m);
    mark_segments(&m, level->segments, level->collectives);
  }
  for (uint32_t i = 0; i < g->output.n; i++) // outputs are kept to the end anyway
    if (level->cheap > 0) marked[g->output.at[i].value] = false;
  remat_ties(a, g, l, marked);
  bool any = false;
  for (NodeId n = 1; n <= m.count; n++) any |= marked[n];
  return any;
}
