// Builds functions of matrices over two named dims, the dims of rows and of columns; all other dims
// are batch.
//
//   cholesky[i, j](a), determinant[i, j](a), logdet[i, j](a)   one node
//   solve[i, j](a, b), triangular_solve[i, j](a, b)            one node; b has i, the result has j
//   inverse[i, j](a)    solve[i, j](a, one[i, i2]), where one is the identity matrix and i2 a twin
//                       of i that is then renamed to i: sum[i](inverse * b) = solve(a, b)
//
// Matrices of bf16 and f16 are computed in f32.
#include "frontend/builtin/builtin_internal.h"

static bool two_dims(Build *b, const Call *c) {
  if (c->ndims != 2)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos,
                      "%s takes two dims in brackets, rows and columns, not %u", c->row->name,
                      c->ndims);
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
  if (!two_dims(b, c) || !square(b, c)) return value_poison;
  for (uint32_t i = 0; i < 2; i++)
    if (!call_has(b, c, i, &c->arg[0])) return value_poison;
  if (n > 1 && (!call_has(b, c, 0, &c->arg[1]) || !call_new(b, c, 1, &c->arg[1], 0)))
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
  if (!two_dims(b, c) || !square(b, c) || !call_has(b, c, 0, &c->arg[0]) ||
      !call_has(b, c, 1, &c->arg[0]))
    return value_poison;
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
