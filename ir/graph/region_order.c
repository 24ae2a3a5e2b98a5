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

// Returns the region under which node n is listed: its own or, of the carries and results of loops
// (`ends`, NULL: all nodes), that of its loop. Other nodes are listed behind the last region.
static uint32_t list_of(const Graph *g, NodeId n, const Op *ends) {
  const Node *x = graph_node(g, n);
  if (!ends || (x->op == *ends && x->op == OP_CARRY)) return x->region;
  return x->op == *ends ? graph_node(g, x->args[0])->attr->region : g->region.n + 1;
}

// Sets *body to the nodes, grouped by region (list_of). Within a region they are in the order of
// `sequence`, or of ids if `sequence` is NULL. (*first)[r] gets the index in *body of the first
// node of region r.
static void bucket(Arena *a, const Graph *g, const NodeId *sequence, const Op *ends,
                   const uint32_t **first, const NodeId **body) {
  // A graph without loops has no ends of loops.
  uint32_t count = ends && !g->region.n ? 0 : graph_count(g), lists = g->region.n + 2,
           *start = arena_array(a, uint32_t, lists + 1), *fill = arena_array(a, uint32_t, lists);
  NodeId *node = arena_array(a, NodeId, count + 1);
  for (NodeId n = 1; n <= count; n++) start[list_of(g, n, ends) + 1]++;
  for (uint32_t r = 0; r < lists; r++) start[r + 1] += start[r];
  for (uint32_t r = 0; r < lists; r++) fill[r] = start[r];
  for (uint32_t i = 0; i < count; i++) {
    NodeId n = sequence ? sequence[i] : i + 1;
    node[fill[list_of(g, n, ends)]++] = n;
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
  const uint32_t *first = s->first + node->attr->region;
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
  bucket(a, g, NULL, NULL, &s.first, &s.body);
  for (NodeId n = 1; n <= count; n++) visit(a, &s, n);
  return out;
}

RegionNodes region_nodes(Arena *a, const Graph *g) {
  RegionNodes r;
  bucket(a, g, graph_schedule(a, g), NULL, &r.first, &r.node);
  return r;
}

RegionNodes region_ends(Arena *a, const Graph *g, Op op) {
  RegionNodes r;
  bucket(a, g, NULL, &op, &r.first, &r.node);
  return r;
}

int region_depth(const Graph *g, RegionId r) {
  int depth = 0;
  for (; r; r = region_get(g, r)->parent) depth++;
  return depth;
}
