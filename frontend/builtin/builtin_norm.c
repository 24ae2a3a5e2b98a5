// Builds normalisations along dims from primitives, each as one composite (group_begin).
//
//   softmax[c](x) = e / sum[c](e), e = exp(x - max[c](x))      the maximum has no gradient
#include <float.h>
#include <math.h>

#include "frontend/model/build_internal.h"

typedef struct Norm {
  NodeId x;
  Dims over;
  Origin before;
} Norm;

static bool norm_begin(Build *b, const Call *c, Norm *n) {
  if (!call_over(b, c, build_dims(b, &c->arg[0]), &n->over)) return false;
  n->x = build_float(b, c->arg[0]);
  n->before = group_begin(b, c->pos);
  return true;
}

static Value norm_end(Build *b, const Norm *n, NodeId y) {
  group_end(b, n->before);
  return value_tensor(y);
}

// Returns x - max(x), which is exact near the maximum. If softmax used x - logsumexp(x), the
// rounding error of the logsumexp would be in every probability.
static NodeId below_largest(Build *b, const Norm *n) {
  NodeId largest = graph_unary(b->g, OP_STOP, graph_reduce(b->g, OP_MAX, n->x, &n->over));
  return graph_binary(b->g, OP_SUB, n->x, largest);
}

Value builtin_softmax(Build *b, const Call *c) {
  Norm n;
  if (!norm_begin(b, c, &n)) return value_poison;
  NodeId e = graph_unary(b->g, OP_EXP, below_largest(b, &n));
  return norm_end(b, &n, graph_binary(b->g, OP_DIV, e, graph_reduce(b->g, OP_SUM, e, &n.over)));
}

Value builtin_log_softmax(Build *b, const Call *c) {
  Norm n;
  if (!norm_begin(b, c, &n)) return value_poison;
  NodeId off = below_largest(b, &n);
  NodeId sum = graph_reduce(b->g, OP_SUM, graph_unary(b->g, OP_EXP, off), &n.over);
  return norm_end(b, &n, graph_binary(b->g, OP_SUB, off, graph_unary(b->g, OP_LOG, sum)));
}

static NodeId mean_square(Build *b, NodeId x, const Dims *over) {
  return graph_reduce(b->g, OP_MEAN, graph_binary(b->g, OP_MUL, x, x), over);
}

// Returns x / sqrt(square + eps), where `square` is the mean of the squares of x.
static NodeId scaled(Build *b, const Call *c, NodeId x, NodeId square) {
  NodeId eps = build_node(b, c->arg[1], (Dtype)graph_node(b->g, x)->type);
  return graph_binary(b->g, OP_MUL, x,
                      graph_unary(b->g, OP_RSQRT, graph_binary(b->g, OP_ADD, square, eps)));
}

Value builtin_layer_norm(Build *b, const Call *c) {
  Norm n;
  if (!norm_begin(b, c, &n)) return value_poison;
  NodeId off = graph_binary(b->g, OP_SUB, n.x, graph_reduce(b->g, OP_MEAN, n.x, &n.over));
  return norm_end(b, &n, scaled(b, c, off, mean_square(b, off, &n.over)));
}

Value builtin_rms_norm(Build *b, const Call *c) {
  Norm n;
  if (!norm_begin(b, c, &n)) return value_poison;
  return norm_end(b, &n, scaled(b, c, n.x, mean_square(b, n.x, &n.over)));
}

// Returns x / max(norm, eps). The maximum is taken of the squares, because the square root has no
// finite gradient at a zero norm.
Value builtin_l2_normalize(Build *b, const Call *c) {
  Norm n;
  double eps = c->arg[1].number;
  if (c->arg[1].kind != VALUE_NUMBER) {
    diag_error(b->d, DIAG_NOT_A_CONSTANT, c->raw[1]->pos, "eps of l2_normalize must be a number");
    return value_poison;
  }
  if (!norm_begin(b, c, &n)) return value_poison;
  Dtype type = (Dtype)graph_node(b->g, n.x)->type;
  double least = type == TYPE_F16 ? 0x1p-14 : type == TYPE_F64 ? DBL_MIN : (double)FLT_MIN;
  NodeId square = graph_reduce(b->g, OP_SUM, graph_binary(b->g, OP_MUL, n.x, n.x), &n.over);
  NodeId bounded =
      graph_binary(b->g, OP_MAXIMUM, square, graph_const(b->g, type, fmax(eps * eps, least)));
  return norm_end(b, &n, graph_binary(b->g, OP_MUL, n.x, graph_unary(b->g, OP_RSQRT, bounded)));
}
