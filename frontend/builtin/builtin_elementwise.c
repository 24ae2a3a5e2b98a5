// Builds elementwise functions, and the marks stop_gradient and checkpoint.
//
// Functions with a kink are built with where(), so the gradient at the kink is that of the selected
// branch. The argument of the other branch is bounded: an infinity there would give 0 * inf = NaN
// in the gradient.
#include <math.h>

#include "frontend/builtin/builtin_internal.h"
#include "ir/eval/eval_rules.h"

Origin group_begin(Build *b, Pos pos) {
  Origin before = b->g->origin;
  b->g->origin.pos = pos;
  b->g->origin.composite = ++b->composites;
  return before;
}

void group_end(Build *b, Origin before) { b->g->origin = before; }

// -- functions that are one operation -----------------------------------------------------------

// Sets *out to the result of a call whose n arguments are all numbers, so that sqrt(size(k)) is
// known at compile time. Returns false if an argument is a tensor, or n > 2.
static bool fold(Build *b, const Call *c, int n, Value *out) {
  static const Dtype real[2] = {TYPE_F64, TYPE_F64};
  Cell x[2] = {0};
  if (n > 2) return false;
  bool integer = c->row->typing == ARITHMETIC;
  for (int i = 0; i < n; i++) {
    if (c->arg[i].kind != VALUE_NUMBER) return false;
    x[i].v = c->arg[i].number;
    integer &= c->arg[i].integer;
  }
  Node node = {.op = (uint16_t)c->row->op, .type = TYPE_F64, .nargs = (uint8_t)n};
  double y = eval_scalar(b->g, &node, real, x).v;
  *out = number_of(b, c->row->op, n, c->arg, y, integer && isfinite(y));
  return true;
}

Value builtin_pointwise(Build *b, const Call *c) {
  Value folded;
  int n = op_row(c->row->op)->nargs;
  if (fold(b, c, n, &folded)) return folded;
  if (n > 1) build_joined(b, c->pos, n, c->arg);
  return build_pointwise(b, c->pos, c->row->op, c->row->typing, n, c->arg);
}

// Returns whether argument i is an integer or a bool.
static bool is_integer(Build *b, const Call *c, int i) {
  const Value *v = &c->arg[i];
  bool is_float = v->kind == VALUE_NUMBER ? !v->integer
                                          : dtype_is_float((Dtype)graph_node(b->g, v->node)->type);
  if (!is_float) return true;
  diag_error(b->d, DIAG_BAD_TYPE, call_pos(c, i), "%s takes integers, not %s", c->row->name,
             v->kind == VALUE_NUMBER ? "a fraction"
                                     : dtype_text((Dtype)graph_node(b->g, v->node)->type));
  return diag_hint(b->d, "use cast(x, i32)");
}

// Builds an operation on the bits of i32 numbers. bit_not(x) is bit_xor(x, -1).
Value builtin_bits(Build *b, const Call *c) {
  Value x[2] = {c->arg[0], c->row->formal[1].name ? c->arg[1] : value_number(-1, true)};
  for (int i = 0; c->row->formal[i].name; i++)
    if (!is_integer(b, c, i)) return value_poison;
  build_joined(b, c->pos, 2, x);
  if (x[0].kind == VALUE_NUMBER && x[1].kind == VALUE_NUMBER) {
    Cell cell[2] = {{.v = dtype_round(TYPE_I32, x[0].number)},
                    {.v = dtype_round(TYPE_I32, x[1].number)}};
    Node node = {.op = (uint16_t)c->row->op, .type = TYPE_I32, .nargs = 2};
    double y = eval_scalar(b->g, &node, (const Dtype[]){TYPE_I32, TYPE_I32}, cell).v;
    return number_of(b, c->row->op, 2, x, y, true);
  }
  return build_pointwise(b, c->pos, c->row->op, ARITHMETIC, 2, x);
}

Value builtin_square(Build *b, const Call *c) {
  const Value *x = c->arg;
  const Value twice[] = {*x, *x};
  if (x->kind == VALUE_NUMBER)
    return number_of(b, OP_MUL, 2, twice, x->number * x->number, x->integer);
  return build_pointwise(b, c->pos, OP_MUL, ARITHMETIC, 2, twice);
}

Value builtin_power(Build *b, const Call *c) {
  const Value *e = &c->arg[1];
  bool numbers = c->arg[0].kind == VALUE_NUMBER && e->kind == VALUE_NUMBER;
  if (numbers)
    return number_of(b, OP_POW, 2, c->arg, pow(c->arg[0].number, e->number),
                     c->arg[0].integer && e->integer && e->number >= 0);
  build_joined(b, c->pos, 2, c->arg);
  return build_power(b, c->pos, c->arg);
}

Value builtin_cast(Build *b, const Call *c) {
  Dtype type;
  const Ast *name = c->raw[1];
  bool known = name->kind == AST_NAME && dtype_parse(name->text, &type) && type != TYPE_I64 &&
               type != TYPE_U64;
  if (!known) {
    diag_error(b->d, DIAG_BAD_TYPE, name->pos, "cast needs the name of a type");
    diag_hint(b->d, "the types are f32, bf16, f16, f64, i32, u8 and bool");
    return value_poison;
  }
  if (c->arg[0].kind == VALUE_NUMBER)
    return value_tensor(build_strong(b, build_node(b, c->arg[0], type)));
  // In a bf16 or f16 model, cast(x, f32) keeps x in f32. The node is needed even if x is f32 now,
  // because precision_apply later makes other values of the model's graph narrow.
  bool pins = type == TYPE_F32 && b->model->precision != TYPE_F32 && b->g == b->model->graph;
  if (pins && graph_node(b->g, c->arg[0].node)->type == TYPE_F32)
    return value_tensor(build_emit(b, c->pos, OP_CAST, 1, &c->arg[0].node, &(Attr){.type = type}));
  return value_tensor(build_strong(b, build_node(b, c->arg[0], type)));
}

// Builds isnan as x != x, isinf as |x| == inf and isfinite as |x| < inf.
Value builtin_special(Build *b, const Call *c) {
  Origin before = group_begin(b, c->pos);
  NodeId x = build_float(b, c->arg[0]), y = x;
  if (c->row->op != OP_NE) {
    y = graph_const(b->g, (Dtype)graph_node(b->g, x)->type, (double)INFINITY);
    x = graph_unary(b->g, OP_ABS, x);
  }
  y = graph_binary(b->g, c->row->op, x, y);
  group_end(b, before);
  return value_tensor(y);
}

Value builtin_mark(Build *b, const Call *c) {
  return c->arg[0].kind == VALUE_NUMBER
             ? c->arg[0]
             : value_tensor(graph_unary(b->g, c->row->op, c->arg[0].node));
}

// -- activations --------------------------------------------------------------------------------

static NodeId constant(Build *b, NodeId like, double x) {
  return graph_const(b->g, (Dtype)graph_node(b->g, like)->type, x);
}
// Returns argument 1 of the call, the slope or alpha, as a node of the type of x.
static NodeId factor(Build *b, const Call *c, NodeId x) {
  return build_node(b, c->arg[1], (Dtype)graph_node(b->g, x)->type);
}

Value builtin_leaky_relu(Build *b, const Call *c) {
  build_joined(b, c->pos, 2, c->arg);
  Origin before = group_begin(b, c->pos);
  NodeId x = build_node(b, c->arg[0], build_join(b, FLOATING, 2, c->arg));
  NodeId above = graph_binary(b->g, OP_LT, constant(b, x, 0), x);
  NodeId y = graph_where(b->g, above, x, graph_binary(b->g, OP_MUL, x, factor(b, c, x)));
  group_end(b, before);
  return value_tensor(y);
}

Value builtin_elu(Build *b, const Call *c) {
  build_joined(b, c->pos, 2, c->arg);
  Origin before = group_begin(b, c->pos);
  NodeId x = build_node(b, c->arg[0], build_join(b, FLOATING, 2, c->arg)), zero = constant(b, x, 0);
  NodeId above = graph_binary(b->g, OP_LT, zero, x);
  NodeId below = graph_unary(b->g, OP_EXPM1, graph_where(b->g, above, zero, x));
  NodeId y = graph_where(b->g, above, x, graph_binary(b->g, OP_MUL, below, factor(b, c, x)));
  group_end(b, before);
  return value_tensor(y);
}
