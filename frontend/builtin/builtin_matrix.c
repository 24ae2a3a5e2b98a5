// Builds functions of matrices over two named dims, the dims of rows and of columns; all other dims
// are batch.
//
//   cholesky[i, j](a), determinant[i, j](a), logdet[i, j](a)   one node
//   solve[i, j](a, b), triangular_solve[i, j](a, b)            one node; b has i, the result has j
//   inverse[i, j](a)    solve[i, j](a, one[i, i2]), where one is the identity matrix and i2 a twin
//                       of i that is then renamed to i: sum[i](inverse * b) = solve(a, b)
//
//   q, r = qr[i, j -> k](a); values, vectors = eigh[i, j -> k](a); u, s, v = svd[i, j -> k](a)
//                       one node, whose results are stacked along a dim of its own, and a window for
//                       each result
//
// Matrices of bf16 and f16 are computed in f32.
#include "frontend/builtin/builtin_internal.h"

static bool two_dims(Build *b, const Call *c) {
  if (c->ndims != 2) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos,
               "%s takes two dims in brackets, rows and columns, not %u", c->row->name, c->ndims);
    return diag_hint(b->d, "write %s", builtin_form(c->row->name));
  }
  return c->dim[0] != c->dim[1] ||
         diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[1].pos,
                    "the rows and the columns of a matrix are two dims, but both are '%s'",
                    c->ast->dims[1].name);
}

static bool square(Build *b, const Call *c) {
  if (call_size(b, c, 0) == call_size(b, c, 1)) return true;
  return diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[1].pos,
                    "%s needs a square matrix, but '%s' has %lld elements and '%s' has %lld",
                    c->row->name, c->ast->dims[0].name, (long long)call_size(b, c, 0),
                    c->ast->dims[1].name, (long long)call_size(b, c, 1));
}

// Checks that the matrix, the first operand, has the dims of its rows and columns.
static bool has_both(Build *b, const Call *c) {
  for (uint32_t i = 0; i < 2; i++) {
    if (call_has(b, c, i, &c->arg[0])) continue;
    const char *gone = c->ast->dims[i].name, *other = c->ast->dims[1 - i].name;
    return diag_hint(
        b->d,
        "a matrix is over two dims; rename makes the second one of a square matrix, as "
        "in sum[k](x * rename[%s -> %s](x))",
        other, gone);
  }
  return true;
}

// Checks the right side, the second operand: it has the dim of the rows and not that of the
// columns.
static bool right_side(Build *b, const Call *c) {
  const char *rows = c->ast->dims[0].name, *columns = c->ast->dims[1].name;
  if (call_has(b, c, 0, &c->arg[1])) return call_new(b, c, 1, &c->arg[1], 0);
  if (!dims_has(build_dims(b, &c->arg[1]), c->dim[1]))
    return diag_hint(b->d, "it has the dim of the rows, the first one in brackets");
  return diag_hint(
      b->d,
      "it has the dim of the rows, the first one in brackets: rename[%s -> %s](...), or "
      "%s[%s, %s](...)",
      columns, rows, c->row->name, columns, rows);
}

// Converts the n value arguments to a common float type, which is stored in *type, and then to the
// type in which matrices are computed.
static void operands(Build *b, const Call *c, int n, NodeId *out, Dtype *type) {
  *type = build_join(b, FLOATING, n, c->arg);
  for (int i = 0; i < n; i++)
    out[i] = graph_cast(b->g, build_node(b, c->arg[i], *type), dtype_accumulator(*type));
}

// Builds the operation of the call with n value arguments.
static Value matrix_value(Build *b, const Call *c, int n, unsigned flags) {
  NodeId arg[2];
  Dtype type;
  if (!two_dims(b, c) || !square(b, c) || !has_both(b, c) || (n > 1 && !right_side(b, c)))
    return value_poison;
  operands(b, c, n, arg, &type);
  Attr attr = {.ndims = 2, .dims = c->dim, .flags = flags};
  NodeId y = build_emit(b, c->pos, c->row->op, n, arg, &attr);
  return y ? value_tensor(graph_cast(b->g, y, type)) : value_poison;
}

Value builtin_matrix(Build *b, const Call *c) {
  return matrix_value(b, c, op_row(c->row->op)->nargs, 0);
}

Value builtin_triangular_solve(Build *b, const Call *c) {
  bool upper = false;
  if (c->raw[2] && !build_bool(b, c->raw[2], &upper)) return value_poison;
  return matrix_value(b, c, 2, upper ? MATRIX_UPPER : 0);
}

Value builtin_inverse(Build *b, const Call *c) {
  NodeId arg[2];
  Dtype type;
  if (!two_dims(b, c) || !square(b, c) || !has_both(b, c)) return value_poison;
  operands(b, c, 1, arg, &type);
  Origin before = group_begin(b, c->pos);
  DimId i = c->dim[0], twin = dim_twin(b->g->dims, i, "inverse");
  NodeId same = graph_binary(b->g, OP_EQ, graph_index(b->g, i), graph_index(b->g, twin));
  arg[1] = graph_cast(b->g, same, dtype_accumulator(type));
  NodeId y = build_emit(b, c->pos, OP_SOLVE, 2, arg, &(Attr){.ndims = 2, .dims = c->dim});
  Attr back = {.ndims = 1, .dims = &twin, .nto = 1, .to = &i};
  if (y) y = graph_cast(b->g, graph_add(b->g, OP_RENAME, 1, &y, &back), type);
  group_end(b, before);
  return value_tensor(y);
}

// -- factors --------------------------------------------------------------------------------------

// Checks the dims of a call [i, j -> k], where k is the smaller of the two.
static bool factor_dims(Build *b, const Call *c) {
  Dims have = *build_dims(b, &c->arg[0]);
  if (!call_map(b, c, 2, 1) || !has_both(b, c) || !call_add(b, c, 2, &have)) return false;
  int64_t m = call_size(b, c, 0), n = call_size(b, c, 1), k = m < n ? m : n;
  if (c->dim[0] == c->dim[1])
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[1].pos,
                      "the rows and the columns of a matrix are two dims, but both are '%s'",
                      c->ast->dims[1].name);
  if (call_size(b, c, 2) == k) return true;
  diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[2].pos,
             "a matrix of %lld x %lld has %lld factor%s, but '%s' has %lld elements", (long long)m,
             (long long)n, (long long)k, plural(k), c->ast->dims[2].name,
             (long long)call_size(b, c, 2));
  return diag_hint(b->d, "dim %s = %lld", c->ast->dims[2].name, (long long)k);
}

// Returns rows of a stack from `first` on as dim `to`, or row `first` if `to` is 0.
static NodeId stack_part(Build *b, const Call *c, NodeId stack, DimId rows, int64_t first,
                         DimId to) {
  Affine f = {to != 0, 0, first, 1};
  return window_emit(b, c->pos, stack, 0, rows, to != 0, &to, f, 0);
}

// Builds the operation and returns its n results. Result i begins at row first[i] of the stack and
// has the rows `to[i]`, or one row if that is 0.
static Value factors(Build *b, const Call *c, int n, const int64_t *first, const DimId *to) {
  NodeId a;
  Dtype type;
  MatrixKind kind;
  Value *item = arena_array(b->a, Value, n);
  if (!op_matrix(c->row->op, &kind)) BUG("%s is no matrix op", c->row->name);
  operands(b, c, 1, &a, &type);
  Origin before = group_begin(b, c->pos);
  int64_t rows = matrix_stack(kind, call_size(b, c, 0), call_size(b, c, 1));
  DimId along[2] = {dim_derived(b->g->dims, c->dim[2], c->row->name, rows), c->dim[2]};
  Attr attr = {.ndims = 2, .dims = c->dim, .nto = 2, .to = along};
  NodeId stack = build_emit(b, c->pos, c->row->op, 1, &a, &attr);
  bool good = stack != 0;
  for (int i = 0; good && i < n; i++) {
    NodeId x = stack_part(b, c, stack, along[0], first[i], to[i]);
    good = x != 0;
    if (good) item[i] = value_tensor(graph_cast(b->g, x, type));
  }
  group_end(b, before);
  return good ? (Value){.kind = VALUE_TUPLE, .n = (uint32_t)n, .item = item} : value_poison;
}

Value builtin_qr(Build *b, const Call *c) {
  if (!factor_dims(b, c)) return value_poison;
  int64_t m = call_size(b, c, 0), n = call_size(b, c, 1);
  if (m < n) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[0].pos,
               "qr needs at least as many rows as columns, but '%s' has %lld elements and '%s' has "
               "%lld",
               c->ast->dims[0].name, (long long)m, c->ast->dims[1].name, (long long)n);
    diag_hint(b->d, "factorise the transpose: qr[%s, %s -> ...](...)", c->ast->dims[1].name,
              c->ast->dims[0].name);
    return value_poison;
  }
  return factors(b, c, 2, (int64_t[]){0, m}, c->dim);
}

Value builtin_eigh(Build *b, const Call *c) {
  if (!factor_dims(b, c) || !square(b, c)) return value_poison;
  return factors(b, c, 2, (int64_t[]){call_size(b, c, 0), 0}, (DimId[]){0, c->dim[0]});
}

Value builtin_svd(Build *b, const Call *c) {
  if (!factor_dims(b, c)) return value_poison;
  int64_t m = call_size(b, c, 0), n = call_size(b, c, 1);
  return factors(b, c, 3, (int64_t[]){0, m + n, m}, (DimId[]){c->dim[0], 0, c->dim[1]});
}
