// Tells how a GEMM of a library computes a contraction, and whether it can. Private to the room.
#ifndef CODEGEN_VALUES_GEMM_FORM_H
#define CODEGEN_VALUES_GEMM_FORM_H

#include "codegen/values/values_internal.h"

// The blocks of a product that are computed: for block i of dim `blocks`, of `block` elements, the
// elements from[i] to to[i] - 1 of dim `span`. If `blocks` is the dim of a loop around the product,
// block i is its round i.
typedef struct LivePieces {
  DimId blocks, span;
  int64_t block;
  int n;
  bool rounds; // `blocks` is the dim of a loop
  int64_t *from, *to;
  double share; // of the elements of both dims that are computed
} LivePieces;

// The nodes that a product computes after its sums (codegen/fuse/fuse_epilogue.c), and what becomes
// its epilogue (GemmEpilogue in ir/program/program.h).
enum { GEMM_TAIL_NODES = 5 };
typedef struct GemmTail {
  NodeId head; // the contraction
  int n;
  NodeId node[GEMM_TAIL_NODES]; // the nodes, ascending, without the contraction
  NodeId result;                // the one of them that is stored as C
  GemmAct act;
  NodeId extra[GEMM_EXTRAS]; // the values of the operands, such as GEMM_BIAS; 0: none
  bool keeps;                // the product stores extra[GEMM_AUX], one of its nodes
} GemmTail;

// How a library computes a contraction: C[m, n] = sum over k of A[m, k] B[k, n], for each index of
// the batch dims. m, n and k are lists of dims, slowest first, that act as one dim: the stride of
// each is the size times the stride of the next. `swapped`: A is the second argument of the
// contraction and B the first, so that n contains the last dim of C. ta, tb: A, B is passed
// transposed. lda, ldb, ldc: leading dimensions in elements.
typedef struct GemmForm {
  bool swapped, ta, tb;
  DimList batch, m, n, k;
  int64_t lda, ldb, ldc;
  int64_t work;           // multiplications for one index of the batch dims
  const LivePieces *live; // the blocks that are computed, NULL: all (live.c)
  const GemmTail *tail;   // NULL: none
} GemmForm;
// Returns the value that a product of contraction n stores as C.
static inline NodeId gemm_result(const GemmForm *f, NodeId n) {
  return f->tail ? f->tail->result : n;
}
// Returns whether a product with tail t reads argument a of n, one of its nodes, from memory.
bool tail_reads(const GemmTail *t, NodeId n, NodeId a);

// Finds the GEMM form of contraction n. Returns false if no library can run it: because of its
// types, a summed dim of one argument only, dims that do not nest, or too little work. *why then is
// the reason, or NULL if the options allow no library.
MUST_USE bool gemm_form(const Graph *g, const Order *order, const Rows *rows,
                        const CodegenOptions *opt, NodeId n, GemmForm *out, const char **why);
// The same for contraction x of graph g if its arguments have the physical orders arg[0] and
// arg[1], and its result has the order `result`. product_work: as in CodegenOptions.
MUST_USE bool gemm_form_in(const Graph *g, const Rows *rows, int64_t product_work, const Node *x,
                           const DimList *const arg[2], const DimList *result, GemmForm *out,
                           const char **why);
// Returns true if n is a contraction of which one argument has all dims of the other. It uses each
// element of that argument once and is bound by memory, like any reduction.
bool contract_is_dot(const Graph *g, NodeId n);
// Returns whether the sums of contraction x are so short that joining the lanes of a vector to one
// result would take longer than the products. The result must have half a vector of elements along
// dim c, which one argument has alone: it is read at a stride, once for all rows of a register
// tile.
bool contract_sums_are_short(const Graph *g, const Node *x, DimId c);
// Returns the argument of contraction n, 0 or 1, that is a copy in panels (order/loop_panels.c), or
// -1. Sets *columns to the dims of a panel's columns, slowest first. `order`: that of all values.
int contract_panels(const Graph *g, const Order *order, NodeId n, DimList *columns);

#endif
