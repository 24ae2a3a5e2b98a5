// Records numbers that depend on how many rows a batch has: size(b) of a batch dim b, and results
// of arithmetic on it.
//
// Output: Model.numbers, which the selection of an evaluation reads (frontend/step). Example with a
// batch size of 10:
//
//   sum[b](x) / size(b)      in the model: the constant 10 with Attr.tag, the index of size(b) in
//                            Model.numbers plus 1
//                            in a training step: the constant 10
//                            in an evaluation: size(b) with the actual number of rows, which is
//                            summed over the batches like any reduction
#include "frontend/model/build_internal.h"

enum { LOOKED_AT = 64 }; // number_add compares this many of the last numbers, to limit the time

// -- while the model is built -------------------------------------------------------------------

static const RowSize *row_size(const Build *b, DimId d) {
  for (uint32_t i = 0; i < b->rows.n; i++)
    if (b->rows.at[i].d == d) return &b->rows.at[i];
  return NULL;
}

bool dim_has_rows(const Build *b, DimId d) { return row_size(b, d) != NULL; }

static bool same_number(const RowNumber *x, const RowNumber *y) {
  bool same = x->d == y->d && x->number == y->number && x->op == y->op && x->nargs == y->nargs;
  for (int i = 0; same && i < x->nargs; i++) same = x->arg[i] == y->arg[i];
  return same;
}

// Adds a number to Model.numbers and returns its index plus 1. A recent equal number is used again,
// so that equal constants become one node.
static uint32_t number_add(Build *b, const RowNumber *x) {
  Model *m = b->model;
  for (uint32_t i = m->numbers.n; i > 0 && i + LOOKED_AT > m->numbers.n; i--)
    if (same_number(&m->numbers.at[i - 1], x)) return i;
  vec_push(b->a, m->numbers) = *x;
  return m->numbers.n;
}

Value number_of_size(Build *b, DimId d) {
  Value v = value_number((double)dim_get(b->g->dims, d)->size, true);
  const RowSize *s = row_size(b, d);
  b->rows_read |= s != NULL;
  if (s) v.rows = s->number + 1;
  return v;
}

Value number_of(Build *b, Op op, int n, const Value *v, double x, bool integer) {
  Value out = value_number(x, integer);
  RowNumber r = {.number = x, .op = op, .nargs = n};
  bool rows = false;
  for (int i = 0; i < n; i++) rows |= v[i].rows != 0;
  for (int i = 0; i < n && rows; i++)
    r.arg[i] = (v[i].rows ? v[i].rows : number_add(b, &(RowNumber){.number = v[i].number})) - 1;
  if (rows) out.rows = number_add(b, &r);
  return out;
}

void rows_add(Build *b, DimId d) {
  RowNumber r = {.d = d, .number = (double)dim_get(b->g->dims, d)->size};
  vec_push(b->a, b->rows) = (RowSize){d, number_add(b, &r) - 1};
}

static Value size_number(Build *b, const Ast *e);

// Returns true if `name` is the name of a number. In arithmetic on sizes a const hides a dim of its
// name.
static bool is_number(const Build *b, const char *name) {
  const Binding *bound = binding_find(b, name);
  if (!bound) bound = map_get(&b->consts, name);
  return bound && bound->value.kind == VALUE_NUMBER;
}

static Value size_leaf(Build *b, const Ast *e) {
  int64_t x;
  DimId d = e->kind == AST_NAME && !is_number(b, e->text) ? dim_visible(b, e->text) : 0;
  if (d) return number_of_size(b, d);
  if (e->kind == AST_UNARY) {
    Value v = size_number(b, e->kids[0]);
    return number_of(b, OP_NEG, 1, &v, -v.number, true);
  }
  return e->kind == AST_CALL      ? build_expr(b, e)
         : dims_integer(b, e, &x) ? value_number((double)x, true)
                                  : value_poison;
}

// Returns the value of e, an expression on sizes that dims.c has checked. If it depends on the rows
// of a batch, Value.rows says so.
static Value size_number(Build *b, const Ast *e) {
  static const struct {
    char text;
    Op op;
  } ops[] = {{'+', OP_ADD}, {'-', OP_SUB}, {'*', OP_MUL}, {'/', OP_DIV}, {'%', OP_MOD}};
  VEC(const Ast *) spine = {0};
  for (; e->kind == AST_BINARY; e = e->kids[0]) vec_push(b->a, spine) = e;
  Value v = size_leaf(b, e);
  for (uint32_t i = spine.n; i-- > 0;) {
    size_t k = 0;
    while (ops[k].text != spine.at[i]->text[0]) k++;
    v = number_of(b, ops[k].op, 2, (Value[]){v, size_number(b, spine.at[i]->kids[1])}, 0, true);
  }
  return v;
}

void rows_add_computed(Build *b, DimId d, const Ast *e) {
  Value v = size_number(b, e);
  if (v.rows) vec_push(b->a, b->rows) = (RowSize){d, v.rows - 1};
}
