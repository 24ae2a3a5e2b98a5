// Builds functions that depend on the order along one dim: cumsum, cummax, argsort, sort and top_k.
//
//   sort[t](x)          take(x, argsort(x)): the values are read by a lookup, which has a gradient
//   top_k[e -> k](x)    which = the positions of the k largest elements, in descending order of the
//                       elements; values = take(x, which)
#include "frontend/builtin/builtin_internal.h"

// Sets *out to argument i, a bool, or to false if the argument is not given. Returns false after an
// error.
static bool switch_read(Build *b, const Call *c, int i, bool *out) {
  *out = false;
  return !c->raw[i] || build_bool(b, c->raw[i], out);
}

static NodeId ordered(Build *b, const Call *c, Op op, NodeId x, unsigned flags) {
  Attr attr = {.ndims = 1, .dims = c->dim, .flags = flags};
  return build_emit(b, c->pos, op, 1, &x, &attr);
}

// Returns argument 0, the elements to sort, in its own type; bools are converted to i32.
static NodeId elements(Build *b, const Call *c) {
  NodeId x = build_natural(b, c->arg[0]);
  return graph_node(b->g, x)->type == TYPE_BOOL ? graph_cast(b->g, x, TYPE_I32) : x;
}

static NodeId looked_up(Build *b, const Call *c, NodeId x, NodeId places) {
  Attr attr = {.ndims = 1, .dims = c->dim};
  return places ? build_emit(b, c->pos, OP_TAKE, 2, (NodeId[]){x, places}, &attr) : 0;
}

Value builtin_cumsum(Build *b, const Call *c) {
  bool exclusive, reverse;
  if (!call_has(b, c, 0, &c->arg[0]) || !switch_read(b, c, 1, &exclusive) ||
      !switch_read(b, c, 2, &reverse))
    return value_poison;
  NodeId x = build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg));
  return value_tensor(ordered(b, c, OP_CUMSUM, x,
                              (exclusive ? ORDER_EXCLUSIVE : 0u) | (reverse ? ORDER_REVERSE : 0u)));
}

Value builtin_cummax(Build *b, const Call *c) {
  if (!call_has(b, c, 0, &c->arg[0])) return value_poison;
  return value_tensor(
      ordered(b, c, OP_CUMMAX, build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg)), 0));
}

static bool places(Build *b, const Call *c, NodeId *x, NodeId *out) {
  bool descending;
  if (!call_has(b, c, 0, &c->arg[0]) || !switch_read(b, c, 1, &descending)) return false;
  *x = elements(b, c);
  *out = ordered(b, c, OP_ARGSORT, *x, descending ? ORDER_DESCENDING : 0);
  return *out;
}

Value builtin_argsort(Build *b, const Call *c) {
  NodeId x, at;
  return places(b, c, &x, &at) ? value_tensor(at) : value_poison;
}

Value builtin_sort(Build *b, const Call *c) {
  NodeId x, at;
  return places(b, c, &x, &at) ? value_tensor(looked_up(b, c, x, at)) : value_poison;
}

Value builtin_top_k(Build *b, const Call *c) {
  const Value *v = &c->arg[0];
  if (!call_map(b, c, 1, 1, "values, which = top_k[e -> k](x)") || !call_has(b, c, 0, v) ||
      !call_new(b, c, 1, v, 0))
    return value_poison;
  if (call_size(b, c, 1) > call_size(b, c, 0)) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[1].pos,
               "'%s' has %lld elements, but '%s' has only %lld", c->ast->dims[1].name,
               (long long)call_size(b, c, 1), c->ast->dims[0].name, (long long)call_size(b, c, 0));
    return value_poison;
  }
  NodeId x = elements(b, c);
  Attr attr = {.ndims = 1, .dims = c->dim, .nto = 1, .to = &c->dim[1]};
  NodeId which = build_emit(b, c->pos, OP_TOP_K, 1, &x, &attr), best = looked_up(b, c, x, which);
  if (!best) return value_poison;
  Value *item = arena_array(b->a, Value, 2);
  item[0] = value_tensor(best);
  item[1] = value_tensor(which);
  return (Value){.kind = VALUE_TUPLE, .n = 2, .item = item};
}
