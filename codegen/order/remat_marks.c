// Which forward values are computed again for the backward pass: by checkpoints, and under a budget
// level by level, cheapest first.
//
//   a forward node          again when
//   leads to a checkpoint   always
//   pointwise, a draw       level 1, where all that it takes is there anyway: kept for other gradients, or small
//   gather of parameters    level 2: ZeRO-3's second gather
//   other gathers, halos    level 3: those of sequence parallelism, of images
//   in the first k stretches    level 3 + k: all that does not leave its stretch, what collectives gave aside
//   all of them             and what hoisting made of all steps of a loop at once is made step by step (remat_unhoist.c)
//   what collectives gave, too  the last level
//
// A stretch ends where few bytes go from forward node to forward node: behind a layer, not within.
// Loops are in one stretch. Of what a loop saves of its steps the same is computed again as of what
// stands outside: level 1 what comes pointwise of other values of the step, with its stretch the
// whole step: carries are saved, and what is read from outside, and what all steps hand out
// together.
#include "codegen/memory/memory_internal.h"
#include "codegen/order/remat_internal.h"

enum { CHEAP = 1, GATHERS, ALL_GATHERS, NEAR = 8, SMALL = 64 }; // REMAT_BASE_LEVELS == ALL_GATHERS
typedef struct Marks {
  Arena *a;
  const Graph *g;
  const RematLoops *loops;
  uint32_t count;
  bool *marked;
  bool *read;      // by node: a gradient reads it, so that it is kept unless it is computed again
  bool *whole;     // by node of a loop: something reads it of all steps together
  bool *data;      // by node: depends on an input
  NodeId *last;    // by node: the last forward node that reads it, through views
  VEC(NodeId) end; // the last node of each stretch but the last
} Marks;

static bool is_source(const Node *n) {
  return op_row((Op)n->op)->cls == SOURCE && !op_is_draw((Op)n->op);
}

// Of the collectives those that move something.
static bool is_moved(const Node *n) {
  return op_row((Op)n->op)->cls == COLLECTIVE && n->op != OP_SLICE_OWN && n->op != OP_TO_PARTIAL;
}

static bool may_repeat(const Marks *m, NodeId id) {
  const Node *n = graph_node(m->g, id);
  bool kept =
      n->op == OP_CHECKPOINT || is_moved(n) || op_row((Op)n->op)->cls == REGION || is_source(n);
  return !kept && remat_forward(m->g, m->loops, id);
}

// Outside loops, or of a loop that gradients go back through and that saves it for nothing else.
static bool may_leave(const Marks *m, NodeId n) {
  RegionId r = graph_node(m->g, n)->region;
  return !r || (m->loops->backed[r] && !m->whole[n]);
}

static void mark_checkpoints(Marks *m) {
  bool *before = arena_array(m->a, bool, m->count + 1);
  for (NodeId n = m->count; n >= 1; n--) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < node->nargs && (before[n] || node->op == OP_CHECKPOINT); i++)
      before[node->args[i]] = true;
    m->marked[n] = before[n] && !node->region && may_repeat(m, n);
  }
}

// -- who reads what -----------------------------------------------------------------------------

// Of a loop the scan of the outermost loop around it: where all of it stands in the order of the
// forward pass.
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
  if (!mirrors) m->whole[arg] |= view || node->op == OP_COLLECT ? m->whole[n] : backward;
  NodeId by = backward ? 0 : view ? m->last[n] : place_of(m, n);
  if (by > m->last[arg]) m->last[arg] = by;
}

static void find_readers(Marks *m) {
  m->read = arena_array(m->a, bool, m->count + 1);
  m->whole = arena_array(m->a, bool, m->count + 1);
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
      m->whole[of] |= m->whole[n]; // a loop inside hands it out
    for (int i = 0; i < node->nargs; i++) read_by(m, n, node->args[i]);
  }
}

// -- levels 1 to 3 ------------------------------------------------------------------------------

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

// -- stretches ----------------------------------------------------------------------------------

// Bytes that forward nodes behind node n read of those up to it, what no input reaches aside.
static int64_t *crossing_bytes(const Marks *m) {
  int64_t *bytes = arena_array(m->a, int64_t, m->count + 2), live = 0;
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    if (!m->data[n] || node->origin.backward || is_source(node) || op_is_view((Op)node->op))
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
      graph_node(m->g, n)->origin.backward)
    return false;
  for (NodeId k = n > NEAR ? n - NEAR : 1; k <= n + NEAR && k <= m->count; k++)
    if (bytes[k] && bytes[k] < bytes[n]) return false;
  return true;
}

static void find_segments(Marks *m) {
  const int64_t *bytes = crossing_bytes(m);
  for (NodeId n = 1; n <= m->count; n++)
    if (is_narrow(m, bytes, n) && (!m->end.n || n > m->end.at[m->end.n - 1] + NEAR))
      vec_push(m->a, m->end) = n;
}

static void mark_segments(Marks *m, uint32_t segments, bool collectives) {
  uint32_t k = 0;
  NodeId last = segments ? m->end.at[segments - 1] : 0;
  for (NodeId n = 1; n <= m->count && k < segments; n++) {
    const Node *node = graph_node(m->g, n);
    bool moved = is_moved(node) && remat_forward(m->g, m->loops, n);
    bool inside = node->region ? place_of(m, n) <= last : m->last[n] <= m->end.at[k];
    if (inside && may_leave(m, n) && (may_repeat(m, n) || (collectives && moved)))
      m->marked[n] = true;
    k += n == m->end.at[k];
  }
}

static Marks marks_new(Arena *a, const Graph *g, const RematLoops *l, bool *marked) {
  Marks m = {.a = a, .g = g, .loops = l, .count = graph_count(g), .marked = marked};
  find_readers(&m);
  return m;
}

static bool has_gradients(const Marks *m) {
  bool any = false;
  for (NodeId n = 1; n <= m->count && !any; n++)
    any = graph_node(m->g, n)->origin.backward && !graph_node(m->g, n)->attr.decl;
  return any; // else nothing waits for the backward pass
}

int remat_levels(Arena *a, const Graph *g) {
  RematLoops loops = remat_loops(a, g);
  Marks m = marks_new(a, g, &loops, NULL);
  if (!has_gradients(&m)) return 0;
  find_segments(&m);
  return REMAT_BASE_LEVELS + (int)m.end.n + REMAT_TAIL;
}

RematLevel remat_level(Arena *a, const Graph *g, int level) {
  RematLevel what = {.cheap = level < REMAT_BASE_LEVELS ? level : REMAT_BASE_LEVELS};
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
  int tail = level - (levels - REMAT_TAIL);
  if (level <= REMAT_BASE_LEVELS) return text[level];
  if (tail > 0) return all[tail];
  return arena_printf(a, "%s, %d of %d segments of the forward pass", text[REMAT_BASE_LEVELS],
                      level - REMAT_BASE_LEVELS, levels - REMAT_TAIL - REMAT_BASE_LEVELS);
}

bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked) {
  Marks m = marks_new(a, g, l, marked);
  mark_checkpoints(&m);
  if (level->cheap >= CHEAP) mark_cheap(&m);
  if (level->cheap >= GATHERS) mark_gathers(&m, level->cheap >= ALL_GATHERS);
  if (level->segments) {
    find_segments(&m);
    mark_segments(&m, level->segments < m.end.n ? level->segments : m.end.n, level->collectives);
  }
  for (uint32_t i = 0; i < g->output.n; i++) // they are kept to the end anyway
    if (level->cheap > 0) marked[g->output.at[i].value] = false;
  bool any = false;
  for (NodeId n = 1; n <= m.count; n++) any |= marked[n];
  return any;
}
