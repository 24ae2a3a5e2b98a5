// Builds reductions. A sum of a product becomes a contraction.
//
//   sum[d](x * w / n)     factors x over [b, d] and w over [d, h]: one contraction, then times 1/n
//
// The product is split into its factors while it is still an Ast, so it never becomes a node.
#include <string.h>

#include "frontend/builtin/builtin_internal.h"
#include "frontend/model/warnings.h"

// -- dims to reduce -----------------------------------------------------------------------------

static bool operand_has(Build *b, const Call *c, uint32_t i, const Dims *have) {
  if (dims_has(have, c->dim[i])) return true;
  return diag_error(b->d, DIAG_MISSING_DIM, c->ast->dims[i].pos,
                    "%s over dim '%s', but its operand is over %s", c->row->name,
                    c->ast->dims[i].name, dims_listed(b, have));
}

bool call_over(Build *b, const Call *c, const Dims *have, Dims *over) {
  *over = c->ast->has_brackets && !c->ast->all_but ? (Dims){0} : *have;
  for (uint32_t i = 0; i < c->ndims; i++) {
    if (!operand_has(b, c, i, have)) return false;
    if (c->ast->all_but)
      dims_remove(over, c->dim[i]);
    else if (!call_add(b, c, i, over))
      return false;
  }
  return true;
}

// Sets *x to the operand as a node of the type in which the function computes, and *over to the
// dims to reduce. Returns false after an error.
static bool operand(Build *b, const Call *c, NodeId *x, Dims *over) {
  if (!call_over(b, c, build_dims(b, &c->arg[0]), over)) return false;
  *x = build_node(b, c->arg[0],
                  build_join(b, c->row->typing == LOGICAL ? COMPARING : c->row->typing, 1, c->arg));
  if (c->row->typing != LOGICAL || graph_node(b->g, *x)->type == TYPE_BOOL) return true;
  diag_error(b->d, DIAG_BAD_TYPE, c->pos, "%s takes bools, not %s", c->row->name,
             dtype_text((Dtype)graph_node(b->g, *x)->type));
  return diag_hint(b->d, "compare first: %s(x != 0)", c->row->name);
}

Value builtin_reduce(Build *b, const Call *c) {
  NodeId x;
  Dims over;
  if (!operand(b, c, &x, &over)) return value_poison;
  return value_tensor(graph_reduce(b->g, c->row->op, x, &over));
}

Value builtin_mean(Build *b, const Call *c) {
  Dims over;
  if (!call_over(b, c, build_dims(b, &c->arg[0]), &over)) return value_poison;
  if (c->ast->has_brackets && over.n) warn_param_alone_in(b, c->pos, c->arg[0].node, &over);
  if (over.n == 0) return value_tensor(build_float(b, c->arg[0]));
  NodeId x = c->arg[0].node;
  bool exact = dtype_is_float((Dtype)graph_node(b->g, x)->type) || b->real == TYPE_F32;
  return value_tensor(graph_reduce(b->g, OP_MEAN, exact ? x : build_float(b, c->arg[0]), &over));
}

// Computes the mean of (x - mean)^2. The mean of squares minus the square of the mean would lose
// digits to cancellation.
static NodeId variance(Build *b, NodeId x, const Dims *over) {
  NodeId off = graph_binary(b->g, OP_SUB, x, graph_reduce(b->g, OP_MEAN, x, over));
  return graph_reduce(b->g, OP_MEAN, graph_binary(b->g, OP_MUL, off, off), over);
}

Value builtin_variance(Build *b, const Call *c) {
  NodeId x;
  Dims over;
  if (!operand(b, c, &x, &over)) return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId v = variance(b, x, &over);
  group_end(b, before);
  return value_tensor(v);
}

// Computes the root of the variance. Where the variance is 0, the root has no derivative: a choice
// gives 0 there, and its gradient is 0.
Value builtin_std(Build *b, const Call *c) {
  NodeId x;
  Dims over;
  if (!operand(b, c, &x, &over)) return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId v = variance(b, x, &over);
  Dtype type = (Dtype)graph_node(b->g, v)->type;
  NodeId zero = graph_const(b->g, type, 0), none = graph_binary(b->g, OP_EQ, v, zero);
  NodeId root = graph_unary(b->g, OP_SQRT, graph_where(b->g, none, graph_const(b->g, type, 1), v));
  NodeId y = graph_where(b->g, none, zero, root);
  group_end(b, before);
  return value_tensor(y);
}

// Returns the positions along each of the dims in the brackets, in their order.
static Value positions(Build *b, const Call *c, NodeId x) {
  Value *item = arena_array(b->a, Value, c->ndims);
  for (uint32_t i = 0; i < c->ndims; i++) {
    Attr attr = {.ndims = (uint8_t)c->ndims, .dims = c->dim, .nto = 1, .to = &c->dim[i]};
    NodeId at = build_emit(b, c->pos, c->row->op, 1, &x, &attr);
    if (!at) return value_poison;
    item[i] = value_tensor(at);
  }
  return (Value){.kind = VALUE_TUPLE, .n = c->ndims, .item = item};
}

Value builtin_argument(Build *b, const Call *c) {
  NodeId x;
  Dims over;
  if (!operand(b, c, &x, &over)) return value_poison;
  if (over.n == 1) return value_tensor(graph_reduce(b->g, c->row->op, x, &over));
  if (over.n > 1 && c->ndims == over.n) return positions(b, c, x);
  diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "%s over %s needs its dims in brackets",
             c->row->name, dims_listed(b, &over));
  diag_hint(b->d, "y, x = %s[y, x](v) gives a position along each dim", c->row->name);
  return value_poison;
}

// -- products -----------------------------------------------------------------------------------

// A product that is split into its factors.
typedef struct Factors {
  VEC(Value) factor;
  VEC(Value) divisor;
  Value scale;  // the product of all factors that are numbers
  bool divided; // the product contains '/', so the result is a float
  bool poison;  // a factor has an error
} Factors;

// A subexpression of a product that has not been split into factors yet.
typedef struct Piece {
  const Ast *e;
  bool divides; // true if the product is divided by it
} Piece;

static void scale_by(Build *b, Factors *p, const Value *v, bool divides) {
  double x = p->scale.number, y = v->number;
  p->scale = number_of(b, divides ? OP_DIV : OP_MUL, 2, (Value[]){p->scale, *v},
                       divides ? x / y : x * y, p->scale.integer && v->integer && !divides);
}

static void add_value(Build *b, Factors *p, Value v, bool divides, Pos pos) {
  if (!value_is_tensor(b, &v, pos))
    p->poison = true;
  else if (v.kind == VALUE_NUMBER)
    scale_by(b, p, &v, divides);
  else if (divides)
    vec_push(b->a, p->divisor) = v;
  else
    vec_push(b->a, p->factor) = v;
}

// Returns x if e is x ^ 2 or square(x), otherwise NULL. The factor x is built once and used twice.
static const Ast *squared(Build *b, const Ast *e) {
  bool caret = e->kind == AST_BINARY && e->text[0] == '^' && e->kids[1]->kind == AST_NUMBER &&
               e->kids[1]->integer && e->kids[1]->number == 2;
  if (caret) return e->kids[0];
  bool call = e->kind == AST_CALL && !strcmp(e->text, "square") && e->nargs == 1 &&
              !e->has_brackets && !e->args[0].name && !map_get(&b->functions, e->text);
  return call ? e->args[0].value : NULL;
}

// Fills p with the factors of product e, evaluated in the order of the text.
static void flatten(Build *b, const Ast *e, Factors *p) {
  VEC(Piece) todo = {0};
  vec_push(b->a, todo) = (Piece){e, false};
  while (todo.n) {
    Piece at = todo.at[--todo.n];
    bool product = at.e->kind == AST_BINARY && !at.e->text[1] &&
                   (at.e->text[0] == '*' || at.e->text[0] == '/');
    const Ast *base = at.divides ? NULL : squared(b, at.e);
    if (product && !at.divides) {
      p->divided |= at.e->text[0] == '/';
      vec_push(b->a, todo) = (Piece){at.e->kids[1], at.e->text[0] == '/'};
      vec_push(b->a, todo) = (Piece){at.e->kids[0], false};
    } else if (base) {
      Value v = build_expr(b, base);
      add_value(b, p, v, false, base->pos);
      add_value(b, p, v, false, base->pos);
    } else if (!at.divides && at.e->kind == AST_UNARY && at.e->text[0] == '-') {
      p->scale = number_of(b, OP_NEG, 1, &p->scale, -p->scale.number, p->scale.integer);
      vec_push(b->a, todo) = (Piece){at.e->kids[0], false};
    } else {
      add_value(b, p, build_expr(b, at.e), at.divides, at.e->pos);
    }
  }
}

static bool has_any(const Dims *s, const Dims *of) {
  for (int i = 0; i < of->n; i++)
    if (dims_has(s, of->at[i])) return true;
  return false;
}

static bool has_all(const Dims *s, const Dims *of) {
  for (int i = 0; i < of->n; i++)
    if (!dims_has(s, of->at[i])) return false;
  return true;
}

// Sets *out to the dims of the product. Returns false after an error.
static bool product_dims(Build *b, const Call *c, const Factors *p, Dims *out) {
  *out = (Dims){0};
  for (uint32_t i = 0; i < p->factor.n + p->divisor.n; i++) {
    const Dims *s =
        build_dims(b, i < p->factor.n ? &p->factor.at[i] : &p->divisor.at[i - p->factor.n]);
    for (int k = 0; k < s->n; k++)
      if (!dims_add(b->g->dims, out, s->at[k]))
        return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "a product has at most %d dims",
                          MAX_RANK);
  }
  return true;
}

static Dtype product_type(Build *b, const Factors *p) {
  VEC(Value) all = {0};
  for (uint32_t i = 0; i < p->factor.n; i++) vec_push(b->a, all) = p->factor.at[i];
  for (uint32_t i = 0; i < p->divisor.n; i++) vec_push(b->a, all) = p->divisor.at[i];
  vec_push(b->a, all) = p->scale;
  return build_join(b, p->divided ? FLOATING : ARITHMETIC, (int)all.n, all.at);
}

// Moves divisors that have a dim of `over`, the summed dims, into the sum; the others divide the
// sum. A factor that has all dims of the divisor is divided by it. If there is none, the reciprocal
// of the divisor becomes a factor.
static void place_divisors(Build *b, Factors *p, const Dims *over) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < p->divisor.n; i++) {
    NodeId d = p->divisor.at[i].node;
    const Dims *s = graph_node(b->g, d)->dims;
    if (!has_any(s, over)) {
      p->divisor.at[left++] = p->divisor.at[i];
      continue;
    }
    uint32_t k = 0;
    while (k < p->factor.n && !has_all(graph_node(b->g, p->factor.at[k].node)->dims, s)) k++;
    if (k < p->factor.n)
      p->factor.at[k] = value_tensor(graph_binary(b->g, OP_DIV, p->factor.at[k].node, d));
    else
      vec_push(b->a, p->factor) = value_tensor(graph_unary(b->g, OP_RECIPROCAL, d));
  }
  p->divisor.n = left;
}

// Returns the sum, over the dims `over`, of the product of the factors that have a dim of `over`: a
// reduction or a contraction. Returns 0 if no factor has such a dim.
static NodeId sum_inner(Build *b, const Factors *p, const Dims *over, Dtype type) {
  VEC(NodeId) inner = {0};
  Dims keep = {0};
  for (uint32_t i = 0; i < p->factor.n; i++) {
    NodeId n = p->factor.at[i].node;
    const Dims *s = graph_node(b->g, n)->dims;
    if (!has_any(s, over)) continue;
    vec_push(b->a, inner) = n;
    for (int k = 0; k < s->n; k++)
      if (!dims_has(over, s->at[k]) && !dims_add(b->g->dims, &keep, s->at[k]))
        BUG("product of too many dims");
  }
  if (inner.n == 0) return 0;
  if (inner.n == 1) return graph_reduce(b->g, OP_SUM, inner.at[0], over);
  return graph_contract(b->g, (int)inner.n, inner.at, &keep, type);
}

static NodeId multiply(Build *b, NodeId a, NodeId x) {
  return a ? graph_binary(b->g, OP_MUL, a, x) : x;
}

// Returns the sum of the product over the dims `over`. Factors and divisors without these dims are
// applied to the sum: sum[d](a * x) = a * sum[d](x) if a does not have d.
static NodeId sum_product(Build *b, Factors *p, const Dims *over, Dtype type) {
  for (uint32_t i = 0; i < p->factor.n; i++)
    p->factor.at[i].node = build_node(b, p->factor.at[i], type);
  for (uint32_t i = 0; i < p->divisor.n; i++)
    p->divisor.at[i].node = build_node(b, p->divisor.at[i], type);
  place_divisors(b, p, over);
  NodeId y = sum_inner(b, p, over, type);
  if (!y && over->n) return 0;
  for (uint32_t i = 0; i < p->factor.n; i++)
    if (!has_any(graph_node(b->g, p->factor.at[i].node)->dims, over))
      y = multiply(b, y, p->factor.at[i].node);
  if (!y || p->scale.number != 1 || p->scale.rows)
    y = multiply(b, y, build_node(b, p->scale, type));
  for (uint32_t i = 0; i < p->divisor.n; i++)
    y = graph_binary(b->g, OP_DIV, y, p->divisor.at[i].node);
  return y;
}

Value builtin_sum(Build *b, const Call *c) {
  Factors p = {.scale = value_number(1, true)};
  bool outer = b->outer;
  b->outer = true;
  flatten(b, c->raw[0], &p);
  b->outer = outer;
  Dims have, over;
  if (p.poison || !product_dims(b, c, &p, &have) || !call_over(b, c, &have, &over))
    return value_poison;
  for (int i = 0; i < over.n; i++) dims_remove(&have, over.at[i]);
  if (!dims_fit(b, &have, c->pos, "the result")) return value_poison;
  b->g->origin.pos = c->pos;
  if (c->ast->has_brackets) warn_param_alone(b, c->pos, p.factor.n, p.factor.at, &over);
  return value_tensor(sum_product(b, &p, &over, product_type(b, &p)));
}

// -- square_sum: a sum over parameters ----------------------------------------------------------

void square_sums_check(Build *b) {
  for (uint32_t k = 0; k < b->square_sums.n; k++) {
    const SquareSum *s = &b->square_sums.at[k];
    for (uint32_t i = s->ndecls; i < b->g->decl.n; i++) {
      const Decl *d = &b->g->decl.at[i];
      if (d->kind != DECL_PARAM || !name_matches(s->pattern, d->name)) continue;
      diag_error(b->d, DIAG_BAD_ARGUMENTS, s->pos,
                 "'%s' matches the parameter '%s', which is declared later", s->pattern, d->name);
      diag_hint(b->d, "move this statement after that declaration");
      break;
    }
  }
}

Value builtin_square_sum(Build *b, const Call *c) {
  const char *pattern;
  if (!build_string(b, c->raw[0], &pattern)) return value_poison;
  vec_push(b->a, b->square_sums) = (SquareSum){pattern, c->raw[0]->pos, b->g->decl.n};
  NodeId sum = 0;
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const Decl *d = &b->g->decl.at[i];
    if (d->kind != DECL_PARAM || !name_matches(pattern, d->name)) continue;
    NodeId w = build_float(b, value_tensor(graph_decl_node(b->g, i + 1)));
    w = graph_cast(b->g, w, dtype_accumulator((Dtype)graph_node(b->g, w)->type));
    Dims all = *graph_node(b->g, w)->dims;
    NodeId one = graph_reduce(b->g, OP_SUM, graph_binary(b->g, OP_MUL, w, w), &all);
    if (sum && graph_node(b->g, sum)->type != graph_node(b->g, one)->type) {
      sum = graph_cast(b->g, sum, TYPE_F64);
      one = graph_cast(b->g, one, TYPE_F64);
    }
    sum = sum ? graph_binary(b->g, OP_ADD, sum, one) : one;
  }
  if (!sum)
    diag_error(b->d, DIAG_UNKNOWN_NAME, c->raw[0]->pos,
               "no parameter that is declared before this matches '%s'", pattern);
  return value_tensor(sum);
}
