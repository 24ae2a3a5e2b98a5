// Emits the instructions of operations on matrices (ir/program/matrix.h), such as cholesky.
//
// Dims of the first argument other than rows and columns are loops over matrices. Other dims of a
// second argument are the columns of a right-hand side: a matrix is factorised once for all of
// them.
#include "codegen/program/program_internal.h"

static int64_t stride_of(Builder *b, NodeId n, DimId d) {
  return order_stride(b->g, &b->f->order->at[n], d);
}

static void matrix_loops(Builder *b, NodeId n, MatrixCall *m) {
  const Node *x = graph_node(b->g, n);
  const DimList *of = &b->f->order->at[x->args[0]];
  NodeId right = x->nargs > 1 ? x->args[1] : 0;
  for (int i = 0; i < of->n; i++) {
    DimId d = of->at[i];
    if (dim_in(d, 2, x->attr->dims)) continue;
    m->batch[m->nbatch].count = builder_dim_size(b, d);
    m->batch[m->nbatch].a = stride_of(b, x->args[0], d);
    m->batch[m->nbatch].b =
        right && dims_has(graph_node(b->g, right)->dims, d) ? stride_of(b, right, d) : 0;
    m->batch[m->nbatch++].dst = stride_of(b, n, d);
  }
  for (int i = 0; right && i < b->f->order->at[right].n; i++) {
    DimId d = b->f->order->at[right].at[i];
    if (d == x->attr->dims[0] || dims_has(of, d)) continue;
    m->right[m->nright].count = builder_dim_size(b, d);
    m->right[m->nright].b = stride_of(b, right, d);
    m->right[m->nright++].dst = stride_of(b, n, d);
  }
}

void matrix_emit(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  NodeId a = x->args[0], right = x->nargs > 1 ? x->args[1] : 0;
  DimId rows = x->attr->dims[0], columns = x->attr->dims[1];
  Instr in = {.kind = INSTR_MATRIX};
  MatrixCall *m = &in.u.matrix;
  *m = (MatrixCall){.type = (Dtype)graph_node(b->g, a)->type,
                    .flags = x->attr->flags,
                    .m = dim_get(b->g->dims, rows)->size,
                    .n = dim_get(b->g->dims, columns)->size,
                    .a_row = stride_of(b, a, rows),
                    .a_column = stride_of(b, a, columns)};
  if (!op_matrix((Op)x->op, &m->kind)) BUG("%s is no matrix op", op_row((Op)x->op)->text);
  MatrixResult result = matrix_rows[m->kind].result;
  if (right) m->b_row = stride_of(b, right, rows);
  if (result == MATRIX_SAME) m->dst_row = stride_of(b, n, rows);
  if (result == MATRIX_SAME) m->dst_column = stride_of(b, n, columns);
  if (result == MATRIX_SOLUTION) m->dst_row = stride_of(b, n, columns);
  if (result == MATRIX_STACK) m->dst_row = stride_of(b, n, x->attr->to[0]);
  if (result == MATRIX_STACK) m->dst_column = stride_of(b, n, x->attr->to[1]);
  matrix_loops(b, n, m);
  m->a = builder_ref(b, a);
  m->b = builder_ref(b, right ? right : a);
  m->dst = builder_ref(b, n);
  vec_push(b->a, b->instr) = in;
}
