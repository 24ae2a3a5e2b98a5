// Cases of layouts: operations on matrices over d and e, which have 4 elements each.
#include "tests/suite/common/layout_maker.h"

static NodeId matrix(Maker *m, Op op, DimId row, DimId column, NodeId a, NodeId b) {
  return maker_op(m, op, b ? 2 : 1, (NodeId[]){a, b}, 2, (DimId[]){row, column}, 0, NULL);
}

// Returns x with 9 on the diagonal, so that it is far from singular and positive definite.
static NodeId regular(Maker *m, NodeId x) {
  NodeId same = graph_binary(m->g, OP_EQ, graph_index(m->g, m->d), graph_index(m->g, m->e));
  return graph_where(m->g, same, graph_const(m->g, TYPE_F32, 9), x);
}

static void cholesky(Maker *m) {
  maker_result(m, matrix(m, OP_CHOLESKY, m->d, m->e, regular(m, X(m, m->b, m->d, m->e)), 0));
}
static void solve_right(Maker *m) { // dims of the matrix, of both, and of the right-hand side
  maker_result(m, matrix(m, OP_SOLVE, m->d, m->e, regular(m, X(m, m->b, m->d, m->e)),
                         X(m, m->b, m->h, m->d)));
}
static void solve_shared(Maker *m) { // one matrix for all b
  maker_result(m, matrix(m, OP_SOLVE, m->e, m->d, regular(m, X(m, m->d, m->e)), X(m, m->b, m->e)));
}
static void triangular(Maker *m) {
  maker_result(m, matrix(m, OP_TRIANGULAR_SOLVE, m->d, m->e, regular(m, X(m, m->b, m->d, m->e)),
                         X(m, m->d, m->k)));
}
static void determinant(Maker *m) {
  NodeId x = regular(m, X(m, m->b, m->d, m->e));
  maker_result(m, graph_binary(m->g, OP_MUL, matrix(m, OP_DETERMINANT, m->d, m->e, x, 0),
                               graph_const(m->g, TYPE_F32, 0x1p-12)));
}
static void logdet(Maker *m) {
  maker_result(m, matrix(m, OP_LOGDET, m->d, m->e, regular(m, X(m, m->b, m->d, m->e)), 0));
}

static NodeId stacked(Maker *m, Op op, DimId row, NodeId x, int64_t rows) {
  DimId to[2] = {dim_derived(m->dims, m->e, op_row(op)->text, rows), m->e};
  return maker_op(m, op, 1, &x, 2, (DimId[]){row, m->d}, 2, to);
}
static void qr(Maker *m) {
  NodeId x = X(m, m->b, m->h, m->d);
  maker_result(m, stacked(m, OP_QR, m->h, x, 10));
}
static void eigh(Maker *m) {
  DimId other = dim_derived(m->dims, m->d, "other", 4);
  NodeId x = X(m, m->b, m->d, other);
  maker_result(m, stacked(m, OP_EIGH, other, x, 5));
}
static void svd(Maker *m) { maker_result(m, stacked(m, OP_SVD, m->h, X(m, m->b, m->h, m->d), 11)); }

const LayoutCase matrix_cases[] = {
    {"cholesky", cholesky},
    {"solve_right", solve_right},
    {"solve_shared", solve_shared},
    {"triangular", triangular},
    {"determinant", determinant},
    {"logdet", logdet},
    {"qr", qr},
    {"eigh", eigh},
    {"svd", svd},
};
const size_t matrix_case_count = countof(matrix_cases);
