// The engine of operations on matrices that calls LAPACK (Anderson et al., LAPACK Users' Guide, 3rd
// ed.), whose functions OpenBLAS has. Without OpenBLAS the plain loops of ir/program/matrix.c
// compute the same, slowly.
//
// The functions are those of Fortran: arguments by address, matrices by columns, and behind the
// other arguments the length of each text.
#include "ir/base/guard.h"
#include "runtime/exec/matrix_internal.h"
#include "runtime/exec/product_internal.h"

typedef void Potrf(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
typedef void Trtrs(const char *uplo, const char *trans, const char *diag, const int *n,
                   const int *right, const double *a, const int *lda, double *b, const int *ldb,
                   int *info, size_t, size_t, size_t);
typedef void Getrf(const int *m, const int *n, double *a, const int *lda, int *pivot, int *info);
typedef void Getrs(const char *trans, const int *n, const int *right, const double *a,
                   const int *lda, const int *pivot, double *b, const int *ldb, int *info, size_t);

static Potrf *potrf;
static Trtrs *trtrs;
static Getrf *getrf;
static Getrs *getrs;
static bool found;
static GuardOnce once;

static bool lapack_cholesky(int n, double *a) {
  int info = 0;
  potrf("L", &n, a, &n, &info, 1);
  return info == 0;
}

static bool lapack_triangular(bool upper, int n, const double *a, int right, double *b) {
  int info = 0;
  trtrs(upper ? "U" : "L", "N", "N", &n, &right, a, &n, b, &n, &info, 1, 1, 1);
  return info == 0;
}

static bool lapack_lu(int n, double *a, int *pivot) {
  int info = 0;
  getrf(&n, &n, a, &n, pivot, &info);
  return info == 0;
}

static void lapack_lu_solve(int n, const double *a, const int *pivot, int right, double *b) {
  int info = 0;
  getrs("N", &n, &right, a, &n, pivot, b, &n, &info, 1);
}

static const MatrixEngine lapack = {lapack_cholesky, lapack_triangular, lapack_lu, lapack_lu_solve};

static void find_functions(void) {
  const struct {
    const char *name;
    void *out;
  } want[] = {{"dpotrf_", &potrf}, {"dtrtrs_", &trtrs}, {"dgetrf_", &getrf}, {"dgetrs_", &getrs}};
  found = true;
  for (size_t i = 0; found && i < countof(want); i++)
    found = blas_function(want[i].name, want[i].out, sizeof potrf);
}

const MatrixEngine *matrix_engine(void) {
  if (!blas_open(NULL)) return &matrix_plain;
  guard_once(&once, find_functions);
  return found ? &lapack : &matrix_plain;
}
