// Operations on whole matrices: their kinds and shapes, and what they compute.
//
// All of them compute in f64, whatever the type of the elements is. The factorisations themselves
// are those of an engine: LAPACK in the runtime, plain loops (matrix_plain) in the evaluator and
// where there is no LAPACK. Everything that determines the result, such as which triangle is read
// and what a singular matrix gives, is in matrix_compute, so that engines agree.
#ifndef IR_PROGRAM_MATRIX_H
#define IR_PROGRAM_MATRIX_H

#include "ir/base/base.h"

typedef enum MatrixKind {
#define MATRIX(id, ...) MATRIX_##id,
#include "ir/program/matrix.def"
#undef MATRIX
  MATRIX_KINDS
} MatrixKind;
typedef enum MatrixShape { MATRIX_SQUARE, MATRIX_TALL, MATRIX_ANY } MatrixShape;
typedef enum MatrixResult {
  MATRIX_SAME,
  MATRIX_SOLUTION,
  MATRIX_NUMBER,
  MATRIX_STACK
} MatrixResult;
typedef struct MatrixRow {
  const char *text;
  MatrixShape shape;
  MatrixResult result;
  double call, element, cube, right, deep;
} MatrixRow;
extern const MatrixRow matrix_rows[MATRIX_KINDS];

// Flag of triangular_solve: the upper triangle of the matrix is read, not the lower one.
enum { MATRIX_UPPER = 1 };

// The sizes of one task: a matrix of m rows and n columns, and `right` columns of a second argument
// (SOLUTION), which has m rows; else `right` is 0.
typedef struct MatrixSizes {
  int64_t m, n, right;
} MatrixSizes;
// Returns the rows of the stack of results of a matrix of m rows and n columns. Its columns k are
// those of the factors:
//
//   qr     Q (m rows), then the transpose of R (n): a = Q R, and the diagonal of R is not negative
//   eigh   vectors (n rows), then their values (1), in ascending order
//   svd    U (m rows), V (n), singular values (1), in descending order: a = U S V^T
//
// The sign of a vector of eigh, or of a pair of U and V, is such that its leading element (of U) is
// positive: the first one of at least a tenth of the magnitude of the largest. Ties of magnitudes,
// which are frequent, then decide nothing.
int64_t matrix_stack(MatrixKind kind, int64_t m, int64_t n);
// Returns the index of the leading element of n numbers.
int64_t matrix_leading(const double *x, int64_t n);
static const double MATRIX_LEADING = 0.1;
// Set *rows and *columns to the shape of the result.
void matrix_result(MatrixKind kind, const MatrixSizes *s, int64_t *rows, int64_t *columns);
// Returns how many numbers of f64 matrix_compute needs in all: both arguments and the work memory.
int64_t matrix_room(MatrixKind kind, const MatrixSizes *s);
// Returns the flops of a task, roughly.
double matrix_flops(MatrixKind kind, double m, double n, double right);
// Returns how many flops a product of f64 computes on one core in the time of a task.
double matrix_time(MatrixKind kind, double m, double n, double right);

// Returns how many numbers the factorisation of a STACK needs beside its arguments and results:
// what LAPACK asks for, with blocks of 64 columns.
int64_t matrix_workspace(MatrixKind kind, int64_t m, int64_t n);

// How factorisations are computed. Matrices are stored by columns, without gaps. If a matrix has no
// such factorisation, a function of type int returns the number of the pivot that prevents it, from
// 1, else 0; one of type bool returns false. `work` is memory for matrix_workspace numbers.
typedef struct MatrixEngine {
  // The lower triangle of a becomes L, where L L^T is the symmetric matrix of this lower triangle.
  int (*cholesky)(int n, double *a);
  // b becomes the solution of a x = b. Only the triangle of a is read.
  int (*triangular)(bool upper, int n, const double *a, int right, double *b);
  // a becomes L and U of P a = L U. Row i was exchanged with row pivot[i] - 1.
  int (*lu)(int n, double *a, int *pivot);
  // b becomes the solution for a matrix of which a and pivot are the result of `lu`.
  void (*lu_solve)(int n, const double *a, const int *pivot, int right, double *b);
  // a becomes Q, r the upper triangle R; m >= n.
  bool (*qr)(int m, int n, double *a, double *r, double *work);
  // a, of which the lower triangle is read, becomes the eigenvectors, w the values in ascending
  // order.
  bool (*eigh)(int n, double *a, double *w, double *work);
  // u, m x k, and v, n x k, become the singular vectors, s the values in descending order.
  bool (*svd)(int m, int n, double *a, double *u, double *s, double *v, double *work);
} MatrixEngine;
extern const MatrixEngine matrix_plain;

// Why a matrix has no result that is finite.
typedef enum MatrixCause {
  MATRIX_HAS_RESULT, // or an argument has an element that is not finite
  MATRIX_NOT_POSITIVE,
  MATRIX_SINGULAR,
  MATRIX_NEGATIVE,     // the determinant, of which a logarithm was to be taken
  MATRIX_NOT_CONVERGED // an iteration for eigenvalues or singular values
} MatrixCause;
typedef struct MatrixFault {
  MatrixCause cause;
  int pivot; // of NOT_POSITIVE and SINGULAR: the number of the first such pivot, from 1
} MatrixFault;

// Computes one task. a: the matrix, by columns; b: the second argument, by columns, or NULL. Both
// lie in one block of matrix_room numbers that begins at a, b at a + m n; all of it is overwritten.
// Returns the result, by columns, in that block.
//
// A matrix with an element that is not finite gives NaN everywhere, and so does a column of b for
// its column of the result. A matrix that has no such factorisation gives NaN; its determinant is
// 0. If `why` is not NULL, it gets the cause. Any thread may call it.
double *matrix_compute(const MatrixEngine *e, MatrixKind kind, unsigned flags, const MatrixSizes *s,
                       double *a, MatrixFault *why);

#endif
