// Contractions as library products: which dims play m, n, k and batch. Private to the room.
#ifndef CODEGEN_FUSE_GEMM_FORM_H
#define CODEGEN_FUSE_GEMM_FORM_H

#include "codegen/memory/memory_internal.h"

// C[m, n] = sum over k A[m, k] B[k, n]; each list slow first and one stride in memory. `swapped`: A
// is the second argument, so that C's last dim is n.
typedef struct GemmForm {
  bool swapped, ta, tb;
  Dims batch, m, n, k;
  int64_t lda, ldb, ldc;
  int64_t work; // multiplications of one call
} GemmForm;

// The roles of a contraction's dims. False when it is none for a library: types, a dim of one
// argument alone that is summed, dims whose strides do not nest, or too small; *why then says
// which.
MUST_USE bool gemm_form(const Graph *g, const Order *order, const Rows *rows,
                        const CodegenOptions *opt, NodeId n, GemmForm *out, const char **why);
// A contraction one of whose arguments has all dims: a sum of products element by element, as much
// bound by memory as any reduction.
bool contract_is_dot(const Graph *g, NodeId n);
// Multiply-adds of a contraction at full blocks.
int64_t contract_work(const Graph *g, NodeId n);

#endif
