// Builds x ^ y. An integer to a negative power is a fraction. Therefore integer ^ integer is an
// integer only if the exponent is known not to be negative, and a float otherwise. Interval
// arithmetic on the nodes of the graph bounds the exponent.
//
//   2 ^ index[g]               i32: positions are not negative
//   2 ^ (size(g) - 1 - index[g])   i32: interval arithmetic gives 0 .. size - 1
//   2 ^ (-index[g]), 2 ^ ids   floats
#include <math.h>

#include "frontend/model/build_internal.h"

enum { RANGE_DEPTH = 8 }; // depth up to which range_of examines arguments, to limit the time

typedef struct Range {
  double lo, hi;
} Range;

static const Range any_i32 = {-0x1p31, 0x1p31 - 1};

static Range hull(Range a, Range b) { return (Range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)}; }

static Range product(Range a, Range b) {
  double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
  return (Range){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static Range magnitude(Range a) {
  double most = fmax(fabs(a.lo), fabs(a.hi));
  return (Range){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, most};
}

static Range of_values(const Attr *t) {
  Range r = {t->data[0], t->data[0]};
  for (int64_t i = 1; i < t->ndata; i++) r = hull(r, (Range){t->data[i], t->data[i]});
  return r;
}

static Range of_source(const Build *b, const Node *n) {
  switch ((Op)n->op) {
  case OP_CONST: return (Range){n->attr->num[0], n->attr->num[0]};
  case OP_INDEX: return (Range){0, (double)dim_get(b->g->dims, n->attr->dims[0])->size - 1};
  case OP_STEP: return (Range){0, any_i32.hi};
  case OP_VALUES: return of_values(n->attr);
  default: return any_i32;
  }
}

// Returns the range of node n, where x[i] is the range of argument i. Returns any_i32 for an
// operation without a rule in this function.
static Range of_arithmetic(const Node *n, const Range *x) {
  switch ((Op)n->op) {
  case OP_NEG: return (Range){-x[0].hi, -x[0].lo};
  case OP_ABS: return magnitude(x[0]);
  case OP_RELU: return (Range){fmax(x[0].lo, 0), fmax(x[0].hi, 0)};
  case OP_SIGN: return (Range){x[0].lo < 0 ? -1 : 0, 1};
  case OP_ADD: return (Range){x[0].lo + x[1].lo, x[0].hi + x[1].hi};
  case OP_SUB: return (Range){x[0].lo - x[1].hi, x[0].hi - x[1].lo};
  case OP_MUL:
    return n->args[0] == n->args[1] ? product(magnitude(x[0]), magnitude(x[0]))
                                    : product(x[0], x[1]);
  case OP_MOD: return x[1].lo >= 0 ? (Range){0, x[1].hi} : any_i32;
  case OP_FLOOR_DIV: return x[0].lo >= 0 && x[1].lo >= 0 ? (Range){0, x[0].hi} : any_i32;
  case OP_MAXIMUM: return (Range){fmax(x[0].lo, x[1].lo), fmax(x[0].hi, x[1].hi)};
  case OP_MINIMUM: return (Range){fmin(x[0].lo, x[1].lo), fmin(x[0].hi, x[1].hi)};
  case OP_WHERE: return hull(x[1], x[2]);
  case OP_CLIP:
    return (Range){fmin(fmax(x[0].lo, x[1].lo), x[2].lo), fmin(fmax(x[0].hi, x[1].hi), x[2].hi)};
  case OP_MAX:
  case OP_MIN:
  case OP_STOP:
  case OP_CHECKPOINT:
  case OP_AT:
  case OP_BROADCAST:
  case OP_RENAME:
  case OP_SPLIT:
  case OP_MERGE:
  case OP_PIN:
  case OP_TAKE:
  case OP_COLLECT: return x[n->op == OP_COLLECT];
  default: return any_i32;
  }
}

// Returns bounds on every element of node `id`, which is an integer or a bool. If a value may
// overflow, or is deeper than `depth`, the bounds are those of i32.
static Range range_of(const Build *b, NodeId id, int depth) {
  const Node *n = graph_node(b->g, id);
  Range x[3] = {any_i32, any_i32, any_i32}, r;
  if (n->type == TYPE_BOOL) return (Range){0, 1};
  if (n->type == TYPE_U8) return (Range){0, 255};
  if (n->type != TYPE_I32 || depth == 0) return any_i32;
  if (n->op == OP_ARGMAX || n->op == OP_ARGMIN || n->op == OP_ARGSORT || n->op == OP_TOP_K ||
      n->op == OP_BOUND)
    return (Range){0, any_i32.hi};
  if (op_row((Op)n->op)->cls == SOURCE) {
    r = of_source(b, n);
  } else if (n->op == OP_CAST) {
    r = range_of(b, n->args[0], depth - 1);
  } else {
    for (int i = 0; i < n->nargs && i < 3; i++) x[i] = range_of(b, n->args[i], depth - 1);
    r = of_arithmetic(n, x);
  }
  return r.lo >= any_i32.lo && r.hi <= any_i32.hi ? r : any_i32;
}

static bool never_negative(const Build *b, const Value *v) {
  return v->kind == VALUE_NUMBER ? v->number >= 0 : range_of(b, v->node, RANGE_DEPTH).lo >= 0;
}

Value build_power(Build *b, Pos pos, const Value *v) {
  if (v[1].kind == VALUE_NUMBER && v[1].number == 2)
    return build_pointwise(b, pos, OP_MUL, ARITHMETIC, 2, (Value[]){v[0], v[0]});
  Typing typing = never_negative(b, &v[1]) ? ARITHMETIC : FLOATING;
  return build_pointwise(b, pos, OP_POW, typing, 2, v);
}
