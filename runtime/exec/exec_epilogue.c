// Applies the epilogue of a product (GemmEpilogue) to the part of C that a worker has computed.
//
// Programs for a CPU have no epilogues: a kernel after the product is as fast (codegen/fuse). This
// is for tests, and takes one element at a time.
#include "runtime/exec/exec_internal.h"

// Returns the element of an operand at index i of C, or 0 if there is no such operand.
static double element(const BoundGemm *b, int operand, int64_t i) {
  Dtype t = b->what->type;
  return b->extra[operand] ? dtype_load(t, b->extra[operand] + i * dtype_bytes(t)) : 0;
}

static void put(Dtype t, char *to, int64_t i, double x) {
  dtype_store(t, to + i * dtype_bytes(t), dtype_round(t, x));
}

// Applies the epilogue to element i of C, in column `column`.
static void apply(const BoundGemm *b, int64_t i, int64_t column) {
  const Gemm *w = b->what;
  double v = dtype_load(w->type, b->c + i * dtype_bytes(w->type)) + element(b, GEMM_ADDEND, i) +
             element(b, GEMM_BIAS, column);
  bool keeps = gemm_writes_extra(w, GEMM_AUX);
  if (keeps) put(w->type, b->extra[GEMM_AUX], i, v);
  put(w->type, b->c, i, gemm_act(w->epilogue->act, v, keeps ? 0 : element(b, GEMM_AUX, i)));
}

void gemm_finish(const BoundGemm *b, int64_t batch, const GemmPiece *p) {
  int64_t c = gemm_place(b, batch).c;
  for (int64_t i = p->from[0]; i < p->to[0]; i++)
    for (int64_t j = p->from[1]; j < p->to[1]; j++) apply(b, c + i * b->what->ldc + j, j);
}
