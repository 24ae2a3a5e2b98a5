// Execution order of a graph with loops: all nodes of a region come before its scan.
//
// Ids alone do not give this order, because gradients add nodes to a region after its scan. A
// depth-first walk in the order of ids puts each node after its prerequisites: its arguments and,
// for a scan, the nodes of its region.
//
//   %4 = carry(%1) {region = 1}; %5 = scan(%4) {region = 1}; %6 = exp(%4), added after the scan
//   order by ids: %4, %5, %6; order of execution: %4, %6, %5
#include "ir/graph/graph.h"

typedef struct Sort {
  const Graph *g;
  const NodeId *body; // the nodes of region r are body[first[r]] to body[first[r + 1] - 1]
  const uint32_t *first;
  uint8_t *state; // [NodeId] 0: not visited, 1: on the stack, 2: in `out`
  uint32_t *next; // [NodeId] index of the prerequisite to visit next
  NodeId *out;
  uint32_t n;
  VEC(NodeId) stack;
} Sort;

// Sets *body to all nodes, grouped by region. Within a region they are in the order of `sequence`,
// or of ids if `sequence` is NULL. (*first)[r] gets the index in *body of the first node of region
// r.
static void bucket(Arena *a, const Graph *g, const NodeId *sequence, const uint32_t **first,
                   const NodeId **body) {
  uint32_t count = graph_count(g), *start = arena_array(a, uint32_t, g->region.n + 2),
           *fill = arena_array(a, uint32_t, g->region.n + 2);
  NodeId *node = arena_array(a, NodeId, count + 1);
  for (NodeId n = 1; n <= count; n++) start[graph_node(g, n)->region + 1]++;
  for (uint32_t r = 0; r <= g->region.n; r++) start[r + 1] += start[r];
  for (uint32_t r = 0; r <= g->region.n; r++) fill[r] = start[r];
  for (uint32_t i = 0; i < count; i++) {
    NodeId n = sequence ? sequence[i] : i + 1;
    node[fill[graph_node(g, n)->region]++] = n;
  }
  *first = start;
  *body = node;
}

// Returns prerequisite i of node n, or 0 if n has at most i. The prerequisites are the arguments of
// n and, if n is a scan, all nodes of its region.
static NodeId prerequisite(const Sort *s, NodeId n, uint32_t i) {
  const Node *node = graph_node(s->g, n);
  if (i < node->nargs) return node->args[i];
  if (node->op != OP_SCAN) return 0;
  i -= node->nargs;
  const uint32_t *first = s->first + node->attr.region;
  return i < first[1] - first[0] ? s->body[first[0] + i] : 0;
}

static void visit(Arena *a, Sort *s, NodeId root) {
  vec_push(a, s->stack) = root;
  while (s->stack.n) {
    NodeId n = s->stack.at[s->stack.n - 1], before;
    if (s->state[n] == 2) {
      s->stack.n--;
      continue;
    }
    s->state[n] = 1;
    while ((before = prerequisite(s, n, s->next[n])) && s->state[before] == 2) s->next[n]++;
    if (before && s->state[before] == 1) BUG("node %u waits for a loop that waits for it", before);
    if (before) {
      vec_push(a, s->stack) = before;
      continue;
    }
    s->state[n] = 2;
    s->out[s->n++] = n;
    s->stack.n--;
  }
}

NodeId *graph_schedule(Arena *a, const Graph *g) {
  uint32_t count = graph_count(g);
  NodeId *out = arena_array(a, NodeId, count + 1);
  if (!g->region.n) {
    for (uint32_t i = 0; i < count; i++) out[i] = i + 1;
    return out;
  }
  Sort s = {.g = g,
            .out = out,
            .state = arena_array(a, uint8_t, count + 1),
            .next = arena_array(a, uint32_t, count + 1)};
  bucket(a, g, NULL, &s.first, &s.body);
  for (NodeId n = 1; n <= count; n++) visit(a, &s, n);
  return out;
}

RegionNodes region_nodes(Arena *a, const Graph *g) {
  RegionNodes r;
  bucket(a, g, graph_schedule(a, g), &r.first, &r.node);
  return r;
}

// Returns the loop that node n is a carry or a result of.
static RegionId loop_of(const Graph *g, const Node *n) {
  return n->op == OP_CARRY ? n->region : graph_node(g, n->args[0])->attr.region;
}

RegionNodes region_ends(Arena *a, const Graph *g, Op op) {
  uint32_t *first = arena_array(a, uint32_t, g->region.n + 3);
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == op) first[loop_of(g, graph_node(g, n)) + 2]++;
  for (uint32_t r = 1; r <= g->region.n + 1; r++) first[r + 1] += first[r];
  NodeId *node = arena_array(a, NodeId, first[g->region.n + 2] + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == op) node[first[loop_of(g, graph_node(g, n)) + 1]++] = n;
  return (RegionNodes){first, node};
}

int region_depth(const Graph *g, RegionId r) {
  int depth = 0;
  for (; r; r = region_get(g, r)->parent) depth++;
  return depth;
}
