// A product of matrices as the stand-in for cuBLASLt computes it. Matrices are stored by columns.
#ifndef TESTS_STANDIN_CUBLASLT_MULTIPLY_H
#define TESTS_STANDIN_CUBLASLT_MULTIPLY_H

#include "runtime/gpu/cublaslt.h"

// A matrix in memory; distances and strides are in elements.
typedef struct Matrix {
  CublasType type;
  int64_t rows, columns, distance; // from one column to the next
  int64_t batches, stride;         // from one matrix to the next
} Matrix;

// D = epilogue(alpha op(A) op(B) + beta C), for each batch.
typedef struct Multiplication {
  bool wide;            // alpha, beta and sums are f64
  bool tf32;            // factors are rounded to 10 bits behind the point
  int32_t transpose[2]; // of A and B: CUBLAS_TRANSPOSED or CUBLAS_AS_STORED
  Matrix matrix[4];     // A, B, C, D
  const void *a, *b, *c;
  void *d;
  double alpha, beta;
  CublasLtEpilogue epilogue;
  const void *bias;     // one number for each row of D
  void *aux;            // a matrix of the type of D; written by the epilogues _AUX, read by DGELU
  int64_t aux_distance; // from one column to the next, in elements
} Multiplication;

size_t element_bytes(CublasType type);
bool has_bias(const Multiplication *m);
bool has_aux(const Multiplication *m);
// Returns in which way the descriptions contradict one another, or NULL.
const char *multiplication_fault(const Multiplication *m);
// Computes the product. With beta = 0, C is not read.
void multiply(const Multiplication *m);

#endif
