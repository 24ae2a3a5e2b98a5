// Which forward values are computed again for the backward pass: by checkpoints, and under a budget level by level,
// cheapest first.
//
//   a forward node          again when
//   leads to a checkpoint   always
//   pointwise, a draw       level 1, where all that it takes is there anyway: kept for other gradients, or small
//   gather of parameters    level 2: ZeRO-3's second gather
//   other gathers, halos    level 3: those of sequence parallelism, of images
//   in the first k stretches    level 3 + k: all that does not leave its stretch, what collectives gave aside
//   what they gave, too     the last level
//
// A stretch ends where few bytes go from forward node to forward node: behind a layer, not within.
#include "codegen/memory_rules.h"
#include "codegen/remat.h"

enum { CHEAP = 1, GATHERS, ALL_GATHERS = REMAT_STRETCHES, NEAR = 8, SMALL = 64 };
typedef struct Marks {
  Arena *a;
  const Graph *g;
  uint32_t count;
  bool *again;
  bool *read;    // by node: a gradient reads it, so that it is kept unless it is computed again
  bool *data;    // by node: depends on an input
  NodeId *last;  // by node: the last forward node that reads it, through views
  VEC(NodeId) end; // the last node of each stretch but the last
} Marks;

static bool is_source(const Node *n) { return op_row((Op)n->op)->cls == SOURCE && !op_is_draw((Op)n->op); }

static bool may_repeat(const Node *n) {
  OpClass cls = op_row((Op)n->op)->cls;
  return !n->origin.backward && !n->region && n->op != OP_CHECKPOINT && cls != COLLECTIVE && cls != REGION && !is_source(n);
}

static void mark_checkpoints(Marks *m) {
  bool *before = arena_array(m->a, bool, m->count + 1);
  for (NodeId n = m->count; n >= 1; n--) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < node->nargs && (before[n] || node->op == OP_CHECKPOINT); i++) before[node->args[i]] = true;
    m->again[n] = before[n] && may_repeat(node);
  }
}

// -- who reads what --------------------------------------------------------------------------------------

static void find_readers(Marks *m) {
  m->read = arena_array(m->a, bool, m->count + 1);
  m->data = arena_array(m->a, bool, m->count + 1);
  m->last = arena_array(m->a, NodeId, m->count + 1);
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    m->data[n] = node->op == OP_INPUT || node->region;
    for (int i = 0; i < node->nargs; i++) m->data[n] |= m->data[node->args[i]];
  }
  for (NodeId n = m->count; n >= 1; n--) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < node->nargs; i++) {
      NodeId arg = node->args[i];
      bool view = op_is_view((Op)node->op);
      m->read[arg] |= node->origin.backward || (view && m->read[n]);
      NodeId by = node->origin.backward ? 0 : view ? m->last[n] : n;
      if (by > m->last[arg]) m->last[arg] = by;
    }
  }
}

// -- levels 1 to 3 -----------------------------------------------------------------------------------------

static bool at_hand(const Marks *m, NodeId arg) {
  const Node *x = graph_node(m->g, arg);
  return is_source(x) || m->again[arg] || m->read[arg] || node_bytes(m->g, arg) <= SMALL;
}

static void mark_cheap(Marks *m) {
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    const OpRow *row = op_row((Op)node->op);
    bool cheap = (row->cls == POINTWISE && !(row->flags & CHECKS)) || node->op == OP_BROADCAST || op_is_alias((Op)node->op) ||
                 op_is_draw((Op)node->op);
    if (!cheap || !may_repeat(node)) continue;
    bool all = true;
    for (int i = 0; i < node->nargs; i++) all &= at_hand(m, node->args[i]);
    m->again[n] |= all;
  }
}

static bool is_gather(const Node *n) { return n->op == OP_ALL_GATHER || n->op == OP_HALO; }

static void mark_gathers(Marks *m, bool all) {
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    if (is_gather(node) && !node->origin.backward && !node->region && (all || !m->data[n])) m->again[n] = true;
  }
}

// -- stretches -----------------------------------------------------------------------------------------------

// Bytes that forward nodes behind node n read of those up to it, what no input reaches aside.
static int64_t *crossing_bytes(const Marks *m) {
  int64_t *bytes = arena_array(m->a, int64_t, m->count + 2), live = 0;
  for (NodeId n = 1; n <= m->count; n++) {
    const Node *node = graph_node(m->g, n);
    if (!m->data[n] || node->origin.backward || is_source(node) || op_is_view((Op)node->op) || m->last[n] <= n) continue;
    bytes[n] += node_bytes(m->g, n);
    bytes[m->last[n]] -= node_bytes(m->g, n);
  }
  for (NodeId n = 1; n <= m->count; n++) bytes[n] = live += bytes[n];
  return bytes;
}

static bool is_narrow(const Marks *m, const int64_t *bytes, NodeId n) {
  if (!bytes[n] || !m->data[n] || graph_node(m->g, n)->origin.backward) return false;
  for (NodeId k = n > NEAR ? n - NEAR : 1; k <= n + NEAR && k <= m->count; k++)
    if (bytes[k] && bytes[k] < bytes[n]) return false;
  return true;
}

static void find_stretches(Marks *m) {
  const int64_t *bytes = crossing_bytes(m);
  for (NodeId n = 1; n <= m->count; n++)
    if (is_narrow(m, bytes, n) && (!m->end.n || n > m->end.at[m->end.n - 1] + NEAR)) vec_push(m->a, m->end) = n;
}

static void mark_stretches(Marks *m, uint32_t stretches, bool collectives) {
  uint32_t k = 0;
  for (NodeId n = 1; n <= m->count && k < stretches; n++) {
    const Node *node = graph_node(m->g, n);
    bool moved = op_row((Op)node->op)->cls == COLLECTIVE && !node->origin.backward && !node->region;
    if (m->last[n] <= m->end.at[k] && (may_repeat(node) || (collectives && moved))) m->again[n] = true;
    k += n == m->end.at[k];
  }
}

static Marks marks_new(Arena *a, const Graph *g, bool *again) {
  Marks m = {.a = a, .g = g, .count = graph_count(g), .again = again};
  find_readers(&m);
  return m;
}

int remat_levels(Arena *a, const Graph *g) {
  Marks m = marks_new(a, g, NULL);
  bool any = false;
  for (NodeId n = 1; n <= m.count && !any; n++) any = graph_node(g, n)->origin.backward && !graph_node(g, n)->attr.decl;
  if (!any) return 0; // no gradients: nothing waits for the backward pass
  find_stretches(&m);
  return ALL_GATHERS + (int)m.end.n + 1;
}

const char *remat_text(Arena *a, int level, int levels) {
  static const char *const text[] = {"nothing", "pointwise work", "pointwise work and gathered parameters", "pointwise work and what was gathered"};
  if (level <= ALL_GATHERS) return text[level];
  if (level == levels) return "the whole forward pass, its collectives too";
  return arena_printf(a, "%s, %d of %d stretches of the forward pass", text[ALL_GATHERS], level - ALL_GATHERS, levels - 1 - ALL_GATHERS);
}

bool remat_mark(Arena *a, const Graph *g, int level, bool *again) {
  Marks m = marks_new(a, g, again);
  mark_checkpoints(&m);
  if (level >= CHEAP) mark_cheap(&m);
  if (level >= GATHERS) mark_gathers(&m, level >= ALL_GATHERS);
  if (level > ALL_GATHERS) {
    find_stretches(&m);
    uint32_t stretches = (uint32_t)(level - ALL_GATHERS);
    bool last = stretches > m.end.n;
    mark_stretches(&m, last ? m.end.n : stretches, last);
  }
  for (uint32_t i = 0; i < g->output.n; i++) // they are kept to the end anyway
    if (level > 0) again[g->output.at[i].value] = false;
  bool any = false;
  for (NodeId n = 1; n <= m.count; n++) any |= again[n];
  return any;
}
