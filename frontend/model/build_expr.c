// Builds expressions: operators, the conversion of operands to a common type, and the check for
// unintended outer products, such as x[a] * y[b], which has shape [a, b]. An outer product is noted
// where it is built, and reported at the end of the expression unless another operand of the
// expression has all of its dims: z[a, b] + x[a] * y[b] is allowed.
//
// Input: an Ast of an expression. Output: a Value; its nodes are added to the graph. This file
// decides which operands an operation gets; ir/ defines what the operation computes.
//
//   x * 0.5 + flag     flag is cast to the type of x, 0.5 becomes a constant of that type
//
// A chain of operators is a left-leaning tree of any length, so a loop walks it, not recursion.
#include <math.h>
#include <string.h>

#include "frontend/model/build_internal.h"

enum { MAX_BUILD_DEPTH = 2000 }; // limit of nested expressions and calls, for the C stack

// -- operators ----------------------------------------------------------------------------------

// A binary operator. Neighbouring operators with equal chain numbers, such as * and / in x * y / z,
// are checked together for outer products: x[a] * y[b] * z[a, b] is allowed, because z connects x
// and y.
typedef struct Operator {
  const char *text;
  Op op;
  Typing typing;
  bool swapped; // the operands are exchanged: a > b is built as b < a
  int chain;    // chain number; 0: the two operands of the operator are checked alone
} Operator;
static const Operator operators[] = {
    {"+", OP_ADD, ARITHMETIC, false, 1}, {"-", OP_SUB, ARITHMETIC, false, 1},
    {"*", OP_MUL, ARITHMETIC, false, 2}, {"/", OP_DIV, FLOATING, false, 2},
    {"%", OP_MOD, ARITHMETIC, false, 0}, {"^", OP_POW, ARITHMETIC, false, 0},
    {"==", OP_EQ, COMPARING, false, 0},  {"!=", OP_NE, COMPARING, false, 0},
    {"<", OP_LT, COMPARING, false, 0},   {"<=", OP_LE, COMPARING, false, 0},
    {">", OP_LT, COMPARING, true, 0},    {">=", OP_LE, COMPARING, true, 0},
    {"and", OP_AND, LOGICAL, false, 3},  {"or", OP_OR, LOGICAL, false, 4},
};

static const Operator *operator_of(const Ast *e) {
  for (size_t i = 0; i < countof(operators); i++)
    if (!strcmp(operators[i].text, e->text)) return &operators[i];
  BUG("operator %s", e->text);
}

// -- values as nodes ----------------------------------------------------------------------------

const Dims *build_dims(const Build *b, const Value *v) {
  static const Dims none;
  return v->kind == VALUE_TENSOR ? graph_node(b->g, v->node)->dims : &none;
}

static bool fits_int(double x) { return x >= -2147483648.0 && x <= 2147483647.0; }

static bool number_is_int(const Value *v) { return v->integer && fits_int(v->number); }

Dtype build_join(Build *b, Typing typing, int n, const Value *v) {
  bool tensors = false, fraction = false;
  Dtype t = TYPE_I32;
  for (int i = 0; i < n; i++) {
    if (v[i].kind == VALUE_NUMBER) {
      fraction |= !number_is_int(&v[i]);
    } else {
      Dtype own = (Dtype)graph_node(b->g, v[i].node)->type;
      if (dtype_is_float(own) && node_is_weak(b, v[i].node)) {
        fraction = true;
        continue;
      }
      t = !tensors || own == t ? own : dtype_join(t, own);
      tensors = true;
    }
  }
  bool small = t == TYPE_BOOL || t == TYPE_U8;
  if (small && (typing == ARITHMETIC || n > 1)) {
    // ARITHMETIC on bool or u8 gives i32. A comparison or selection keeps the type if all operands
    // are tensors, and takes i32 if one is a literal.
    bool literal = false;
    for (int i = 0; i < n; i++) literal |= v[i].kind == VALUE_NUMBER;
    if (typing == ARITHMETIC || literal) t = TYPE_I32;
  }
  if ((typing == FLOATING || fraction) && !dtype_is_float(t)) t = b->real;
  return t;
}

NodeId build_node(Build *b, Value v, Dtype type) {
  if (v.kind != VALUE_NUMBER && type == TYPE_F64 && graph_node(b->g, v.node)->type == TYPE_F32 &&
      node_is_weak(b, v.node))
    return node_widened(b, v.node);
  if (v.kind != VALUE_NUMBER) return graph_cast(b->g, v.node, type);
  if (!v.rows || b->g != b->model->graph) return graph_const(b->g, type, v.number);
  return graph_add(b->g, OP_CONST, 0, NULL,
                   &(Attr){.type = type, .num = {dtype_round(type, v.number)}, .tag = v.rows});
}

NodeId build_natural(Build *b, Value v) {
  return v.kind == VALUE_TENSOR ? v.node : build_node(b, v, number_is_int(&v) ? TYPE_I32 : b->real);
}

NodeId build_float(Build *b, Value v) { return build_node(b, v, build_join(b, FLOATING, 1, &v)); }

bool value_is_tensor(Build *b, const Value *v, Pos pos) {
  if (v->kind == VALUE_TENSOR || v->kind == VALUE_NUMBER) return true;
  if (v->kind == VALUE_STRING)
    diag_error(b->d, DIAG_BAD_TYPE, pos, "expected a tensor or a number, found a string");
  if (v->kind == VALUE_TUPLE) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, pos, "this call gives %u results where one is needed",
               v->n);
    diag_hint(b->d, "take them apart first: p, q = f(x)");
  }
  if (v->kind == VALUE_FUNCTION)
    diag_error(b->d, DIAG_BAD_TYPE, pos, "expected a tensor or a number, found the function '%s'",
               v->text);
  return false;
}

NodeId build_emit(Build *b, Pos pos, Op op, int nargs, const NodeId *args, const Attr *attr) {
  char why[200];
  b->g->origin.pos = pos;
  NodeId n = graph_try(b->g, op, nargs, args, attr, 0, why);
  if (!n) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, pos, "%s", why);
    return 0;
  }
  return dims_fit(b, graph_node(b->g, n)->dims, pos, "the result") ? n : 0;
}

// -- outer products -----------------------------------------------------------------------------

static bool share_dim(const Dims *x, const Dims *y) {
  for (int k = 0; k < y->n; k++)
    if (dims_has(x, y->at[k])) return true;
  return false;
}

static bool has_all(const Dims *x, const Dims *of) {
  for (int k = 0; k < of->n; k++)
    if (!dims_has(x, of->at[k])) return false;
  return true;
}

// Adds the dims `more` to *all. Returns false if they are too many; build_emit reports that.
static bool add_all(const Build *b, Dims *all, const Dims *more) {
  for (int k = 0; k < more->n; k++)
    if (!dims_add(b->g->dims, all, more->at[k])) return false;
  return true;
}

// Finds the operands that shared dims connect with the first one. `seen` is the set of their dims:
// an operand that shares a dim with `seen` adds its dims. `apart` lists the operands that are not
// connected yet. The loop ends when `seen` does not grow.
void build_joined(Build *b, Pos pos, int n, const Value *v) {
  VEC(int) apart = {0};
  Dims seen = {0}, all = {0};
  int first = -1;
  if (b->outer) return;
  for (int i = 0; i < n; i++) {
    const Dims *s = build_dims(b, &v[i]);
    if (s->n == 0) continue;
    if (first < 0) first = i;
    if (!add_all(b, &all, s)) return;
    if (seen.n && !share_dim(&seen, s))
      vec_push(b->a, apart) = i;
    else
      (void)add_all(b, &seen, s);
  }
  for (uint32_t left = 0; apart.n; left = 0) {
    for (uint32_t i = 0; i < apart.n; i++) {
      const Dims *s = build_dims(b, &v[apart.at[i]]);
      if (share_dim(&seen, s))
        (void)add_all(b, &seen, s);
      else
        apart.at[left++] = apart.at[i];
    }
    if (left == apart.n) break;
    apart.n = left;
  }
  if (!apart.n) return;
  vec_push(b->a, b->outers) = (OuterProduct){.pos = pos,
                                             .left = *build_dims(b, &v[first]),
                                             .right = *build_dims(b, &v[apart.at[0]]),
                                             .all = all};
}

void outers_settle(Build *b, int n, const uint32_t *from, const Value *v) {
  uint32_t kept = from[0];
  for (int i = 0; i < n; i++)
    for (uint32_t k = from[i]; k < from[i + 1]; k++) {
      OuterProduct o = b->outers.at[k];
      bool allowed = false;
      for (int j = 0; j < n && !allowed; j++)
        allowed = j != i && has_all(build_dims(b, &v[j]), &o.all);
      if (!allowed) b->outers.at[kept++] = o;
    }
  b->outers.n = kept;
}

bool outers_end(Build *b, uint32_t mark) {
  bool good = b->outers.n <= mark;
  for (uint32_t i = mark; i < b->outers.n; i++) {
    const OuterProduct *o = &b->outers.at[i];
    diag_error(b->d, DIAG_OUTER_PRODUCT, o->pos, "the operands share no dim: %s and %s",
               dims_listed(b, &o->left), dims_listed(b, &o->right));
  }
  if (!good) b->outers.n = mark;
  return good;
}

Value build_whole(Build *b, const Ast *e) {
  uint32_t mark = b->outers.n;
  Value v = build_expr(b, e);
  // An operand with an error has no dims: it could be the one that allows the outer product.
  if (v.kind == VALUE_POISON) b->outers.n = mark;
  return outers_end(b, mark) ? v : value_poison;
}

// -- one operation ------------------------------------------------------------------------------

// Returns true if all operands are tensors or numbers, and bools where `typing` needs a bool.
// Otherwise reports an error.
static bool operands_ok(Build *b, Pos pos, Typing typing, int n, const Value *v) {
  bool good = true;
  for (int i = 0; i < n; i++) {
    if (!value_is_tensor(b, &v[i], pos)) {
      good = false;
    } else if (typing == LOGICAL || (typing == CHOOSING && i == 0)) {
      if (v[i].kind == VALUE_TENSOR && graph_node(b->g, v[i].node)->type == TYPE_BOOL) continue;
      diag_error(b->d, DIAG_BAD_TYPE, pos, "expected a bool, found %s",
                 v[i].kind == VALUE_NUMBER ? "a number"
                                           : dtype_text((Dtype)graph_node(b->g, v[i].node)->type));
      diag_hint(b->d, "compare it: x != 0");
      good = false;
    }
  }
  return good;
}

// Returns false and reports an error if all tensors among the operands are integers and a literal
// does not fit in i32. Without the error the tensors would silently become floats.
static bool integers_fit(Build *b, Pos pos, Typing typing, int n, const Value *v) {
  const Value *wide = NULL;
  bool integers = false, floats = typing == FLOATING;
  for (int i = 0; i < n; i++) {
    if (v[i].kind == VALUE_NUMBER && v[i].integer && !fits_int(v[i].number)) wide = &v[i];
    if (v[i].kind != VALUE_TENSOR) continue;
    bool is_float = dtype_is_float((Dtype)graph_node(b->g, v[i].node)->type);
    integers |= !is_float;
    floats |= is_float;
  }
  if (!wide || !integers || floats) return true;
  diag_error(b->d, DIAG_BAD_NUMBER, pos,
             "the integer %.0f is beyond the range of i32, -2147483648 to 2147483647",
             wide->number);
  return diag_hint(b->d, "write %.0f.0 if a float is meant", wide->number);
}

Value build_pointwise(Build *b, Pos pos, Op op, Typing typing, int n, const Value *v) {
  NodeId args[3];
  if (!operands_ok(b, pos, typing, n, v)) return value_poison;
  int first = typing == CHOOSING;
  if (!integers_fit(b, pos, typing, n - first, v + first)) return value_poison;
  Dtype type = typing == LOGICAL ? TYPE_BOOL : build_join(b, typing, n - first, v + first);
  b->g->origin.pos = pos;
  if (first) args[0] = v[0].node;
  for (int i = first; i < n; i++) args[i] = build_node(b, v[i], type);
  return value_tensor(build_emit(b, pos, op, n, args, NULL));
}

// Returns x modulo y with the sign of y.
static double modulo(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// Compares the numbers x and y into *out. Returns false if `op` is not a comparison.
static bool compare(Op op, double x, double y, bool *out) {
  *out = op == OP_EQ ? x == y : op == OP_NE ? x != y : op == OP_LT ? x < y : x <= y;
  return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE;
}

// Computes `op` on the numbers v[0] and v[1] into *out. Returns false if `op` is neither arithmetic
// nor a comparison of numbers that do not depend on rows.
static bool fold(Build *b, Op op, const Value *v, Value *out) {
  double x = v[0].number, y = v[1].number, z;
  bool integer = v[0].integer && v[1].integer && (op != OP_POW || y >= 0), truth;
  if (!v[0].rows && !v[1].rows && compare(op, x, y, &truth)) {
    *out = value_tensor(graph_const(b->g, TYPE_BOOL, truth));
    return true;
  }
  if (op == OP_ADD)
    z = x + y;
  else if (op == OP_SUB)
    z = x - y;
  else if (op == OP_MUL)
    z = x * y;
  else if (op == OP_DIV)
    z = x / y;
  else if (op == OP_MOD)
    z = modulo(x, y);
  else if (op == OP_POW)
    z = pow(x, y);
  else
    return false;
  *out = number_of(b, op, 2, v, z, integer && op != OP_DIV && z == floor(z) && fabs(z) < 0x1p53);
  return true;
}

// Computes `op` on two truth values, or on two strings or functions that are known at compile time.
// Returns false if the operands are not of that kind.
static bool fold_truth(Build *b, Op op, const Value *l, const Value *r, Value *out) {
  bool x, y, truth;
  bool texts = l->kind == r->kind && (l->kind == VALUE_STRING || l->kind == VALUE_FUNCTION);
  if (texts && (op == OP_EQ || op == OP_NE)) {
    truth = (strcmp(l->text, r->text) == 0) == (op == OP_EQ);
  } else if (value_is_truth(b, l, &x) && value_is_truth(b, r, &y)) {
    if (op == OP_AND || op == OP_OR)
      truth = op == OP_AND ? x && y : x || y;
    else if (!compare(op, x, y, &truth))
      return false;
  } else {
    return false;
  }
  *out = value_tensor(graph_const(b->g, TYPE_BOOL, truth));
  return true;
}

static Value binary(Build *b, Pos pos, const Operator *o, Value l, Value r) {
  Value folded, v[2] = {o->swapped ? r : l, o->swapped ? l : r};
  if (l.kind == VALUE_POISON || r.kind == VALUE_POISON) return value_poison;
  if (l.kind == VALUE_NUMBER && r.kind == VALUE_NUMBER && fold(b, o->op, v, &folded)) return folded;
  if (fold_truth(b, o->op, &v[0], &v[1], &folded)) return folded;
  return o->op == OP_POW ? build_power(b, pos, v) : build_pointwise(b, pos, o->op, o->typing, 2, v);
}

// -- trees --------------------------------------------------------------------------------------

// Returns the first of the operators spine[i-1] and those around it, outwards, that are one chain:
// their chain numbers are equal.
static uint32_t chain_end(const Ast *const *spine, uint32_t i) {
  const Operator *first = operator_of(spine[i - 1]);
  uint32_t end = i - 1;
  while (end > 0 && first->chain && operator_of(spine[end - 1])->chain == first->chain &&
         !spine[end]->has_parens)
    end--;
  return end;
}

// What fold_spine needs of a chain: its operands, and the number of the first of the outer products
// of each.
typedef struct Chain {
  Value *operand;
  uint32_t *from;
  uint32_t count;
} Chain;

// Builds the right operands of the operators spine[end] to spine[i-1] behind the first operand of
// the chain, `value`, and checks them together. Returns false if one of them is poison.
static bool build_chain(Build *b, Value value, uint32_t end, uint32_t i, const Ast *const *spine,
                        uint32_t mark, Chain *c) {
  bool poison = value.kind == VALUE_POISON;
  c->from[0] = mark;
  c->operand[0] = value;
  c->count = 1;
  for (uint32_t k = i; k-- > end; c->count++) {
    c->from[c->count] = b->outers.n;
    c->operand[c->count] = build_expr(b, spine[k]->kids[1]);
    poison |= c->operand[c->count].kind == VALUE_POISON;
  }
  c->from[c->count] = b->outers.n;
  if (poison) return false;
  outers_settle(b, (int)c->count, c->from, c->operand);
  build_joined(b, spine[end]->pos, (int)c->count, c->operand);
  return true;
}

// Builds a left-leaning tree of binary operators, such as ((a + b) - c) * d, from the leftmost one
// outwards. spine[n-1] is the leftmost operator, spine[0] the root; `value` is the value of the
// leftmost leaf. Neighbouring operators with equal chain numbers are checked together for outer
// products. b->outers has the outer products of `value` from number `mark` on.
static Value fold_spine(Build *b, Value value, uint32_t n, const Ast *const *spine, uint32_t mark) {
  Chain c = {.operand = arena_array(b->a, Value, n + 1),
             .from = arena_array(b->a, uint32_t, n + 2)};
  for (uint32_t i = n, end; i > 0; i = end) {
    end = chain_end(spine, i);
    if (!build_chain(b, value, end, i, spine, mark, &c)) value = value_poison;
    for (uint32_t k = 1; k < c.count; k++) {
      const Ast *e = spine[i - k];
      value = binary(b, e->pos, operator_of(e), value, c.operand[k]);
    }
  }
  return value;
}

static Value build_unary(Build *b, const Ast *e) {
  Value v = build_expr(b, e->kids[0]);
  if (v.kind == VALUE_POISON) return v;
  bool minus = e->text[0] == '-';
  bool truth;
  if (!minus && value_is_truth(b, &v, &truth))
    return value_tensor(graph_const(b->g, TYPE_BOOL, !truth));
  if (minus && v.kind == VALUE_NUMBER) return number_of(b, OP_NEG, 1, &v, -v.number, v.integer);
  return build_pointwise(b, e->pos, minus ? OP_NEG : OP_NOT, minus ? ARITHMETIC : LOGICAL, 1, &v);
}

static Value build_leaf(Build *b, const Ast *e) {
  switch (e->kind) {
  case AST_NUMBER: return value_number(e->number, e->integer);
  case AST_STRING: return (Value){.kind = VALUE_STRING, .text = e->text};
  case AST_NAME: return value_of_name(b, e->text, e->pos);
  case AST_CALL: return build_call(b, e);
  case AST_UNARY: return build_unary(b, e);
  default: diag_error(b->d, DIAG_MISPLACED, e->pos, "expected a value"); return value_poison;
  }
}

Value build_expr(Build *b, const Ast *e) {
  VEC(const Ast *) spine = {0};
  if (++b->depth > MAX_BUILD_DEPTH) {
    diag_error(b->d, DIAG_TOO_DEEP, e->pos, "more than %d nested calls and expressions",
               MAX_BUILD_DEPTH);
    b->depth--;
    return value_poison;
  }
  const Ast *leaf = e;
  uint32_t mark = b->outers.n;
  for (; leaf->kind == AST_BINARY; leaf = leaf->kids[0]) vec_push(b->a, spine) = leaf;
  Value v = build_leaf(b, leaf);
  if (spine.n) v = fold_spine(b, v, spine.n, spine.at, mark);
  b->depth--;
  return v;
}

// -- values known at compile time ---------------------------------------------------------------

bool build_number(Build *b, const Ast *e, double *out) {
  Value v = build_expr(b, e);
  *out = v.number;
  if (v.kind == VALUE_NUMBER) return true;
  if (v.kind != VALUE_POISON)
    diag_error(b->d, DIAG_NOT_A_CONSTANT, e->pos,
               "expected a number that is known at compile time");
  return false;
}

bool build_integer(Build *b, const Ast *e, int64_t *out) {
  double x;
  if (!build_number(b, e, &x)) return false;
  *out = fabs(x) < 0x1p53 ? (int64_t)x : 0;
  if ((double)*out == x) return true;
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, e->pos, "expected an integer, found %g", x);
}

bool build_string(Build *b, const Ast *e, const char **out) {
  Value v = build_expr(b, e);
  *out = v.text;
  if (v.kind == VALUE_STRING) return build_template(b, v.text, e->pos, out);
  if (v.kind == VALUE_POISON) return false;
  diag_error(b->d, DIAG_BAD_TYPE, e->pos, "expected a string");
  return diag_hint(b->d, "write it in quotes: \"...\"");
}

bool value_is_truth(const Build *b, const Value *v, bool *out) {
  if (v->kind != VALUE_TENSOR) return false;
  const Node *n = graph_node(b->g, v->node);
  *out = n->attr->num[0] != 0;
  return n->op == OP_CONST && n->type == TYPE_BOOL;
}

bool value_fills(const Build *b, const Value *v) {
  return v->kind == VALUE_NUMBER ||
         (v->kind == VALUE_TENSOR && graph_node(b->g, v->node)->op == OP_CONST);
}

static bool not_truth(Build *b, const Ast *e, const Value *v) {
  bool known = v->kind != VALUE_TENSOR || graph_node(b->g, v->node)->type != TYPE_BOOL;
  if (known) {
    diag_error(b->d, DIAG_BAD_TYPE, e->pos, "expected true or false");
    return diag_hint(b->d, "write true or false");
  }
  diag_error(b->d, DIAG_NOT_A_CONSTANT, e->pos, "this bool is not known at compile time");
  return diag_hint(b->d, "where(condition, a, b) chooses between values at run time");
}

// Compares the values of the operands of e, numbers or strings that are known at compile time.
// Returns false after an error.
static bool compare_known(Build *b, const Ast *e, bool *out) {
  const Operator *o = operator_of(e);
  Value l = build_whole(b, e->kids[0]), r = build_whole(b, e->kids[1]);
  if (l.kind == VALUE_POISON || r.kind == VALUE_POISON) return false;
  if (l.kind == VALUE_NUMBER && r.kind == VALUE_NUMBER)
    return compare(o->op, o->swapped ? r.number : l.number, o->swapped ? l.number : r.number, out);
  Value v = value_poison;
  if (fold_truth(b, o->op, &l, &r, &v)) return value_is_truth(b, &v, out);
  v = binary(b, e->pos, o, l, r);
  return v.kind != VALUE_POISON && not_truth(b, e, &v);
}

static bool truth_leaf(Build *b, const Ast *e, bool *out) {
  if (e->kind == AST_UNARY && e->text[0] == 'n') {
    if (!build_bool(b, e->kids[0], out)) return false;
    *out = !*out;
    return true;
  }
  if (e->kind == AST_BINARY && operator_of(e)->typing == COMPARING) return compare_known(b, e, out);
  Value v = build_whole(b, e);
  return value_is_truth(b, &v, out) || (v.kind != VALUE_POISON && not_truth(b, e, &v));
}

static bool is_logical(const Ast *e) {
  return e->kind == AST_BINARY && operator_of(e)->typing == LOGICAL;
}

// All operands are evaluated, so that each error is reported whatever the others are.
bool build_bool(Build *b, const Ast *e, bool *out) {
  VEC(const Ast *) spine = {0};
  for (; is_logical(e); e = e->kids[0]) vec_push(b->a, spine) = e;
  bool good = truth_leaf(b, e, out);
  for (uint32_t i = spine.n; i-- > 0;) {
    bool right = false;
    good &= build_bool(b, spine.at[i]->kids[1], &right);
    *out = operator_of(spine.at[i])->op == OP_AND ? *out && right : *out || right;
  }
  return good;
}

bool build_template(Build *b, const char *text, Pos pos, const char **out) {
  const char *done = "", *open;
  while ((open = strchr(text, '{')) && strchr(open, '}')) {
    const char *close = strchr(open, '}');
    Value v = value_of_name(
        b, intern(b->names, arena_text(b->a, open + 1, (size_t)(close - open - 1))), pos);
    done = arena_printf(b->a, "%s%.*s", done, (int)(open - text), text);
    if (v.kind == VALUE_NUMBER)
      done = arena_printf(b->a, "%s%.15g", done, v.number);
    else if (v.kind == VALUE_STRING)
      done = arena_printf(b->a, "%s%s", done, v.text);
    else {
      if (v.kind != VALUE_POISON)
        diag_error(
            b->d, DIAG_NOT_A_CONSTANT, pos,
            "the name between { } must be a number or a string that is known at compile time");
      return false;
    }
    text = close + 1;
  }
  *out = arena_printf(b->a, "%s%s", done, text);
  return true;
}
