// Private to the executor: operations on matrices (ir/program/matrix.h), one after the other.
#ifndef RUNTIME_MATRIX_H
#define RUNTIME_MATRIX_H

#include "ir/program/program.h"

typedef struct BoundMatrix {
  const MatrixCall *what;
  const MatrixEngine *engine;
  const char *a, *b;
  char *dst;
  int64_t matrices, right; // number of matrices, and of columns of the second argument or 0
  int64_t count[MAX_RANK], right_count[MAX_RANK]; // iterations of the loops of `what`
} BoundMatrix;

// Returns the flops of an instruction, roughly.
double matrix_work(const BoundMatrix *b);
// Computes matrices lo..hi-1 of an instruction. `scratch` is work memory of program_scratch bytes.
// A matrix is computed by one thread, so results do not depend on how matrices are divided.
void matrix_run(const BoundMatrix *b, int64_t lo, int64_t hi, void *scratch);
// Recomputes the matrix that a result comes from, without storing it: why is it not finite?
// `element` is the index of the result in memory, from b->dst on. The arguments must still be in
// memory. `scratch` as for matrix_run.
MatrixFault matrix_why(const BoundMatrix *b, int64_t element, void *scratch);
// Returns the engine of this machine: LAPACK of OpenBLAS, or plain loops without it. Any thread may
// call it.
const MatrixEngine *matrix_engine(void);

#endif
