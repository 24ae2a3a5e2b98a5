// Builds functions that depend on the order along one dim: cumsum, cumprod, cummax, argsort, sort,
// median and top_k.
//
//   median[t](x)        take(x, place), for the middle place or the two middle places of argsort(x)
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

Value builtin_cumsum(Build *b, const Call *c) {
  bool exclusive, reverse;
  if (!call_has(b, c, 0, &c->arg[0]) || !switch_read(b, c, 1, &exclusive) ||
      !switch_read(b, c, 2, &reverse))
    return value_poison;
  NodeId x = build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg));
  return value_tensor(ordered(b, c, c->row->op, x,
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
  return places(b, c, &x, &at) ? value_tensor(take_emit(b, c, x, at)) : value_poison;
}

// Returns the element of x that has position `rank` in the order `places`.
static NodeId ranked(Build *b, const Call *c, NodeId x, NodeId order, int64_t rank) {
  NodeId at = window_emit(b, c->pos, order, 0, c->dim[0], 0, NULL,
                          (Affine){.offset = rank, .divisor = 1}, 0);
  return at ? take_emit(b, c, x, at) : 0;
}

// Builds the mean of the two middle elements, or the middle one. NaN ranks last, and where the last
// element is NaN, so is the median.
Value builtin_median(Build *b, const Call *c) {
  NodeId x, order;
  if (!places(b, c, &x, &order)) return value_poison;
  int64_t n = call_size(b, c, 0);
  Origin before = group_begin(b, c->pos);
  NodeId low = ranked(b, c, x, order, (n - 1) / 2), high = ranked(b, c, x, order, n / 2),
         last = ranked(b, c, x, order, n - 1);
  if (!low || !high || !last) return value_poison;
  NodeId part[3] = {low, high, last};
  for (int i = 0; i < 3; i++) part[i] = build_float(b, value_tensor(part[i]));
  NodeId half = graph_const(b->g, (Dtype)graph_node(b->g, part[0])->type, 0.5), y = part[0];
  if (low != high)
    y = graph_binary(b->g, OP_ADD, graph_binary(b->g, OP_MUL, part[0], half),
                     graph_binary(b->g, OP_MUL, part[1], half));
  y = graph_where(b->g, graph_binary(b->g, OP_NE, part[2], part[2]), part[2], y);
  group_end(b, before);
  return value_tensor(y);
}

Value builtin_top_k(Build *b, const Call *c) {
  const Value *v = &c->arg[0];
  if (!call_map(b, c, 1, 1) || !call_has(b, c, 0, v) || !call_new(b, c, 1, v, 0))
    return value_poison;
  if (call_size(b, c, 1) > call_size(b, c, 0)) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[1].pos,
               "'%s' has %lld elements, but '%s' has only %lld", c->ast->dims[1].name,
               (long long)call_size(b, c, 1), c->ast->dims[0].name, (long long)call_size(b, c, 0));
    return value_poison;
  }
  NodeId x = elements(b, c);
  Attr attr = {.ndims = 1, .dims = c->dim, .nto = 1, .to = &c->dim[1]};
  NodeId which = build_emit(b, c->pos, OP_TOP_K, 1, &x, &attr),
         best = which ? take_emit(b, c, x, which) : 0;
  if (!best) return value_poison;
  Value *item = arena_array(b->a, Value, 2);
  item[0] = value_tensor(best);
  item[1] = value_tensor(which);
  return (Value){.kind = VALUE_TUPLE, .n = 2, .item = item};
}
