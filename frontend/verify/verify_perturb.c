// Builds the graph for one processor with random errors in the terms of all sums (verify_bound.c).
// Rounding in a sum of n terms, in whatever order, has the effect of errors of (4 + sqrt n) u in
// the terms. Repeated runs of one program do not show this, because they all round alike.
//
//   sum[d](x)      =>  sum[d](x * (1 + delta * e))        e in [-1, 1), drawn for every element
//   sum[d](x * w)  =>  sum[d](x * (w * (1 + delta * e)))  the smaller operand gets the errors,
//                                                         but not the patches of a window
//
// The input verify.sample shifts the draws, so that every sample has other errors.
#include <math.h>
#include <string.h>

#include "frontend/verify/verify.h"
#include "ir/base/philox.h"

const char verify_sample[] = "verify.sample";

static double unit_roundoff(Dtype t) {
  static const double u[TYPE_COUNT] = {
      [TYPE_F32] = 0x1p-24, [TYPE_F64] = 0x1p-53, [TYPE_BF16] = 0x1p-9, [TYPE_F16] = 0x1p-11};
  return u[t];
}

double verify_terms(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  double terms = 1;
  if (op_row((Op)x->op)->cls != REDUCE && op_row((Op)x->op)->cls != CONTRACT) return 1;
  for (int i = 0; i < x->attr->ndims; i++)
    terms *= (double)dim_get(g->dims, x->attr->dims[i])->size;
  return terms;
}

double verify_delta(const Graph *g, NodeId n) {
  Dtype t = (Dtype)graph_node(g, n)->type;
  if (!dtype_is_float(t)) return 0;
  double terms = verify_terms(g, n), own = 4 * unit_roundoff(t);
  return terms > 1 ? fmax(own, (4 + sqrt(terms)) * unit_roundoff(dtype_accumulator(t))) : own;
}

typedef struct Perturb {
  const Graph *from;
  Graph *to;
  NodeId *map, sample;
} Perturb;

static bool adds_terms(Op op) {
  return op == OP_SUM || op == OP_MEAN || op == OP_CONTRACT || op == OP_CUMSUM;
}

static bool can_have(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  return (x->type == TYPE_F32 || x->type == TYPE_F64) && x->op != OP_CONST &&
         op_row((Op)x->op)->cls != WINDOW;
}

// Returns the index of the argument of sum n that gets the random errors: the smallest one that can
// have them. Returns -1 if none can; then the result of the sum gets them.
static int bearer(const Graph *g, const Node *n) {
  int best = -1;
  for (int i = 0; i < n->nargs && (i == 0 || n->op == OP_CONTRACT); i++) {
    if (!can_have(g, n->args[i])) continue;
    if (best < 0 || node_elements(g, n->args[i]) < node_elements(g, n->args[best])) best = i;
  }
  return best;
}

static NodeId with_errors(Perturb *p, NodeId n, NodeId x, double delta) {
  Graph *g = p->to;
  Dims dims = *graph_node(g, x)->dims;
  Dtype type = (Dtype)graph_node(g, x)->type;
  Attr draw = {.ndims = dims.n, .dims = dims.at, .key = philox_key(verify_sample, n)};
  NodeId one = graph_const(g, TYPE_F32, 1), turned, error;
  turned = graph_binary(g, OP_ADD, graph_add(g, OP_RANDOM_UNIFORM, 0, NULL, &draw), p->sample);
  turned = graph_where(g, graph_binary(g, OP_LT, turned, one), turned,
                       graph_binary(g, OP_SUB, turned, one));
  error =
      graph_binary(g, OP_SUB, graph_binary(g, OP_MUL, turned, graph_const(g, TYPE_F32, 2)), one);
  error = graph_cast(g, error, type);
  error = graph_binary(g, OP_MUL, error, graph_const(g, type, dtype_round(type, delta)));
  return graph_binary(g, OP_ADD, x, graph_binary(g, OP_MUL, x, error));
}

static void copy_one(Perturb *p, NodeId n) {
  const Node *x = graph_node(p->from, n);
  double delta =
      adds_terms((Op)x->op) && dtype_is_float((Dtype)x->type) ? verify_delta(p->from, n) : 0;
  int i = delta > 0 ? bearer(p->from, x) : -1;
  NodeId before = i >= 0 ? p->map[x->args[i]] : 0;
  p->to->origin = *x->origin;
  if (i >= 0) p->map[x->args[i]] = with_errors(p, n, before, delta);
  p->map[n] = graph_copy(p->to, p->from, n, p->map);
  if (i >= 0)
    p->map[x->args[i]] = before;
  else if (delta > 0 && x->type != TYPE_F16)
    p->map[n] = with_errors(p, n, p->map[n], delta);
}

Graph *verify_perturbed(Arena *a, const Graph *from) {
  Perturb p = {.from = from,
               .to = graph_like(a, from, from->stage),
               .map = arena_array(a, NodeId, graph_count(from) + 1)};
  Decl sample = {.kind = DECL_INPUT, .name = verify_sample, .type = TYPE_F32};
  p.sample = graph_decl_node(p.to, graph_decl(p.to, &sample));
  for (NodeId n = 1; n <= graph_count(from); n++) copy_one(&p, n);
  graph_copy_outputs(p.to, from, p.map);
  return graph_prune_in_place(a, p.to, from->stage);
}
