// Loss scaling for f16 (Micikevicius et al., "Mixed precision training", 2018). Small gradients
// would vanish in f16, so the loss is multiplied by a scale, and the gradients are divided by it in
// f32. If a gradient overflows, the update is skipped and the scale is halved. After 2,000 steps
// without overflow the scale is doubled.
#include "frontend/step/step_internal.h"

enum { CLEAN_STEPS = 2000 };

// Sums x * 0 over all gradients x. x * 0 is 0 if x is finite, else NaN, so the sum is 0 only if all
// gradients are finite. With `settled`, abs(x) forces partial sums to be added over the processors
// first, because abs is not linear.
NodeId gradients_finite(Graph *g, uint32_t n, const NodeId *gradients, bool settled) {
  NodeId sum = graph_const(g, TYPE_F32, 0);
  for (uint32_t i = 0; i < n; i++) {
    NodeId x = graph_cast(g, gradients[i], TYPE_F32);
    Dims all = *graph_node(g, x)->dims;
    if (settled) x = graph_unary(g, OP_ABS, x);
    NodeId none = graph_binary(g, OP_MUL, x, graph_const(g, TYPE_F32, 0));
    sum = graph_binary(g, OP_ADD, sum, graph_reduce(g, OP_SUM, none, &all));
  }
  return sum;
}

DeclId scale_skipped(Step *s, uint32_t block) {
  const char *number = block ? arena_printf(s->m->arena, "_%u", block) : "";
  return step_state(s, arena_printf(s->g->arena, "optimizer.loss_scale.skipped%s", number),
                    TYPE_I32, 0);
}

static void scale_next(Step *s, NodeId finite) {
  Graph *g = s->g;
  DeclId scale = step_state(s, "optimizer.loss_scale", TYPE_F32, 0x1p16),
         clean = step_state(s, "optimizer.loss_scale.clean", TYPE_I32, 0);
  NodeId now = step_value(s, scale), none = graph_const(g, TYPE_I32, 0);
  NodeId count = graph_binary(g, OP_ADD, step_value(s, clean), graph_const(g, TYPE_I32, 1));
  NodeId full = graph_binary(g, OP_LE, graph_const(g, TYPE_I32, CLEAN_STEPS), count);
  NodeId grown =
      graph_where(g, full, graph_binary(g, OP_MUL, now, graph_const(g, TYPE_F32, 2)), now);
  NodeId halved = graph_binary(g, OP_MUL, now, graph_const(g, TYPE_F32, 0.5));
  step_assign(s, scale, graph_where(g, finite, grown, halved));
  step_assign(s, clean, graph_where(g, finite, graph_where(g, full, none, count), none));
}

NodeId scale_build(Step *s, uint32_t n, NodeId *gradients) {
  Graph *g = s->g;
  NodeId sum = gradients_finite(g, n, gradients, false);
  NodeId finite = graph_binary(g, OP_EQ, sum, graph_const(g, TYPE_F32, 0));
  for (uint32_t i = 0; i < n; i++) {
    Dtype type = (Dtype)graph_node(g, gradients[i])->type;
    NodeId by = graph_unary(g, OP_RECIPROCAL, graph_cast(g, s->scale, type));
    gradients[i] = graph_binary(g, OP_MUL, gradients[i], by);
  }
  scale_next(s, finite);
  return finite;
}
