// Removes conversions that undo or repeat one another. Input and output: the graph of one
// processor, before collectives are bucketed. Equal conversions need no rule, because equal nodes
// are one node.
//
//   slice_own(all_gather(x)) back to x's blocks      x
//   all_gather(slice_own(x)), all_to_all and back    x
//   all_reduce(all_reduce(x) over a) over b          all_reduce(x) over a and b
//   slice_own(all_reduce(x)) over the same axes,     reduce_scatter(x)
//     when nothing else reads the sum
//   all_gather(collect(s, x)), where the loop s      collect(s, all_gather(x))
//     gathers x in each step for another use
//
// `collect` is the operation that keeps the value of x from each step of a loop.
#include <string.h>

#include "collectives/collectives.h"

typedef struct Share {
  const Graph *g;
  Graph *out;
  NodeId *map;
  uint32_t *users; // by node of g: the number of nodes and outputs that read it
} Share;

static bool same_list(const DimId *a, const DimId *b, int n) {
  return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

// Returns true if the conversion b, applied to the result of the conversion a, gives the operand of
// a again.
static bool inverse(const Node *a, const Node *b) {
  static const Op pair[][2] = {{OP_ALL_GATHER, OP_SLICE_OWN},
                               {OP_SLICE_OWN, OP_ALL_GATHER},
                               {OP_ALL_TO_ALL, OP_ALL_TO_ALL},
                               {OP_PERMUTE, OP_PERMUTE}};
  for (size_t i = 0; i < countof(pair); i++) {
    if (a->op != pair[i][0] || b->op != pair[i][1] || a->attr->ndims != b->attr->ndims) continue;
    if (a->op == OP_ALL_TO_ALL) // the gathered dim is split again
      return a->attr->dims[0] == b->attr->to[1] && a->attr->to[0] == b->attr->dims[1] &&
             a->attr->dims[1] == b->attr->to[0] && a->attr->to[1] == b->attr->dims[0];
    return same_list(a->attr->dims, b->attr->to, a->attr->ndims) &&
           same_list(a->attr->to, b->attr->dims, a->attr->ndims);
  }
  return false;
}

static Axes joined(Axes a, Axes b) {
  Axes out = {0};
  for (int axis = 0; axis < MAX_AXES; axis++)
    if (axes_has(a, axis) || axes_has(b, axis)) out.at[out.n++] = (uint8_t)axis;
  return out;
}

static bool same_attr(const Attr *a, const Attr *b) {
  return a->type == b->type && a->ndims == b->ndims && a->nto == b->nto && a->monoid == b->monoid &&
         axes_equal(a->axes, b->axes) && same_list(a->dims, b->dims, a->ndims) &&
         same_list(a->to, b->to, a->nto);
}

// Returns the node of g that applies the operation and attributes of `like` to operand x. Returns 0
// if g has no such node.
static NodeId node_like(const Graph *g, NodeId x, const Node *like) {
  for (NodeId n = x + 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op == like->op && node->nargs == 1 && node->args[0] == x &&
        node->type == like->type && node->instance == like->instance &&
        same_attr(node->attr, like->attr))
      return n;
  }
  return 0;
}

enum { MAX_MOVES = 8 };

// Replaces node n, which converts values that a loop has collected, if the loop itself converts
// each of these values for another use. Adds a node that collects the converted values, and returns
// this node. Renames, splits and merges between the loop and n must be in the loop too. An
// operation `at`, which selects the value of one step, is applied to the new node. Returns 0 if the
// loop has no such conversion.
static NodeId kept_in_loop(Share *s, NodeId n) {
  const Graph *g = s->g;
  NodeId move[MAX_MOVES], x = graph_node(g, n)->args[0], step = 0;
  int moves = 0;
  for (; graph_node(g, x)->op != OP_COLLECT; x = graph_node(g, x)->args[0]) {
    Op op = (Op)graph_node(g, x)->op;
    if (op == OP_AT && !step)
      step = x;
    else if ((op != OP_RENAME && op != OP_SPLIT && op != OP_MERGE) || moves == MAX_MOVES)
      return 0;
    else
      move[moves++] = x;
  }
  const Node *collect = graph_node(g, x);
  DimId t = collect->attr->dims[0];
  if (attr_names(graph_node(g, n)->attr, t) || (step && graph_node(g, step)->attr->dims[0] != t))
    return 0;
  for (x = collect->args[1]; x && moves > 0;) {
    const Node *like = graph_node(g, move[--moves]);
    x = attr_names(like->attr, t) ? 0 : node_like(g, x, like);
  }
  if (x) x = node_like(g, x, graph_node(g, n));
  if (!x || !s->map[x]) return 0;
  NodeId kept = graph_add(s->out, OP_COLLECT, 2, (NodeId[]){s->map[collect->args[0]], s->map[x]},
                          collect->attr);
  return step ? graph_add(s->out, OP_AT, 1, &kept, graph_node(g, step)->attr) : kept;
}

static NodeId rewrite(Share *s, NodeId n) {
  const Node *b = graph_node(s->g, n), *a = graph_node(s->g, b->args[0]);
  if (inverse(a, b)) return s->map[a->args[0]];
  Attr attr = *b->attr;
  NodeId x = a->op == OP_ALL_REDUCE ? s->map[a->args[0]] : 0;
  if (a->op == OP_ALL_REDUCE && b->op == OP_ALL_REDUCE && a->attr->monoid == b->attr->monoid &&
      s->users[b->args[0]] == 1) {
    attr.axes = joined(a->attr->axes, b->attr->axes);
    return graph_add(s->out, OP_ALL_REDUCE, 1, &x, &attr);
  }
  if (a->op == OP_ALL_REDUCE && b->op == OP_SLICE_OWN && s->users[b->args[0]] == 1 &&
      axes_equal(a->attr->axes, joined(b->attr->axes, (Axes){0}))) {
    attr.monoid = a->attr->monoid;
    s->out->origin.why = a->origin->why;
    return graph_add(s->out, OP_REDUCE_SCATTER, 1, &x, &attr);
  }
  return kept_in_loop(s, n);
}

// Returns false if `rewrite`, which removes conversions that undo or repeat others, would not
// change any collective of g.
static bool may_change(const Graph *g) {
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *b = graph_node(g, n);
    if (op_row((Op)b->op)->cls != COLLECTIVE) continue;
    const Node *x = graph_node(g, b->args[0]);
    if (x->op == OP_ALL_REDUCE || inverse(x, b)) return true;
  }
  return g->region.n > 0;
}

Graph *collectives_share(Arena *a, const Graph *g) {
  if (!may_change(g)) return graph_prune(a, g, STAGE_COLLECT, NULL);
  Arena *scratch = arena_new();
  uint32_t n = graph_count(g);
  Share s = {.g = g, .out = graph_like(a, g, STAGE_COLLECT)};
  s.map = arena_array(scratch, NodeId, n + 1);
  s.users = arena_array(scratch, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; i < graph_node(g, u)->nargs; i++) s.users[graph_node(g, u)->args[i]]++;
  for (uint32_t o = 0; o < g->output.n; o++) s.users[g->output.at[o].value]++;
  for (NodeId u = 1; u <= n; u++) {
    bug_context("collectives_share", u);
    s.out->origin = *graph_node(g, u)->origin;
    if (op_row((Op)graph_node(g, u)->op)->cls == COLLECTIVE) s.map[u] = rewrite(&s, u);
    if (!s.map[u]) s.map[u] = graph_copy(s.out, g, u, s.map);
  }
  for (uint32_t o = 0; o < g->output.n; o++) {
    Output out = g->output.at[o];
    out.value = s.map[out.value];
    vec_push(a, s.out->output) = out;
  }
  arena_free(scratch);
  return graph_prune_in_place(a, s.out, STAGE_COLLECT);
}
