// Builds cond(c, a, b): computes a if the scalar c is true, else b, and not the other side.
#include "frontend/builtin/builtin_internal.h"

// Builds expression e in a guarded region that runs if `guard` is true.
static Value side_value(Build *b, Side *s, NodeId guard, const Ast *e) {
  side_open(b, s, guard, e->pos);
  Value v = build_expr(b, e);
  if (!value_is_tensor(b, &v, e->pos)) v = value_poison;
  if (v.kind == VALUE_TENSOR) v.node = side_enter(b, s, v.node);
  side_leave(b, s);
  return s->full ? value_poison : v;
}

// Returns v as a node of that type over those dims, as region s computes it.
static NodeId as_result(Build *b, Value v, Dtype type, const Dims *dims) {
  return graph_broadcast(b->g, build_node(b, v, type), dims);
}

// Returns the result of the two sides with the values v.
static Value choose(Build *b, const Call *c, Side *s, const Value *v) {
  Dims all = *build_dims(b, &v[0]);
  const Dims *more = build_dims(b, &v[1]);
  for (int i = 0; i < more->n; i++)
    if (!dims_has(&all, more->at[i]) && !dims_add(b->g->dims, &all, more->at[i])) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "the result has more than %d dims", MAX_RANK);
      return value_poison;
    }
  if (!dims_fit(b, &all, c->pos, "the result")) return value_poison;
  Dtype type = build_join(b, CHOOSING, 2, v);
  NodeId result = graph_zeros(b->g, type, &all);
  for (int i = 0; i < 2; i++) {
    (void)side_result(b, &s[i], result, as_result(b, v[i], type, &all));
    side_close(b, &s[i], &result);
  }
  return value_tensor(result);
}

Value builtin_cond(Build *b, const Call *c) {
  bool known;
  if (value_is_truth(b, &c->arg[0], &known)) return build_expr(b, c->raw[known ? 1 : 2]);
  NodeId yes = side_condition(b, &c->arg[0], "cond", c->raw[0]->pos), no;
  if (!yes) return value_poison;
  no = graph_unary(b->g, OP_NOT, yes);
  Side s[2];
  Value v[2] = {side_value(b, &s[0], yes, c->raw[1]), side_value(b, &s[1], no, c->raw[2])};
  if (v[0].kind == VALUE_POISON || v[1].kind == VALUE_POISON) return value_poison;
  b->g->origin.pos = c->pos;
  return choose(b, c, s, v);
}
