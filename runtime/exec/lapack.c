// The engine of operations on matrices that calls LAPACK (Anderson et al., LAPACK Users' Guide, 3rd
// ed.), whose functions OpenBLAS has. Without OpenBLAS the plain loops of ir/program/matrix.c
// compute the same, slowly.
//
// The functions are those of Fortran: arguments by address, matrices by columns, and behind the
// other arguments the length of each text.
#include "ir/base/guard.h"
#include "runtime/exec/matrix_internal.h"
#include "runtime/exec/product_internal.h"

#include <string.h>

typedef void Potrf(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
typedef void Trtrs(const char *uplo, const char *trans, const char *diag, const int *n,
                   const int *right, const double *a, const int *lda, double *b, const int *ldb,
                   int *info, size_t, size_t, size_t);
typedef void Getrf(const int *m, const int *n, double *a, const int *lda, int *pivot, int *info);
typedef void Getrs(const char *trans, const int *n, const int *right, const double *a,
                   const int *lda, const int *pivot, double *b, const int *ldb, int *info, size_t);

typedef void Geqrf(const int *m, const int *n, double *a, const int *lda, double *tau, double *work,
                   const int *lwork, int *info);
typedef void Orgqr(const int *m, const int *n, const int *k, double *a, const int *lda,
                   const double *tau, double *work, const int *lwork, int *info);
typedef void Syevd(const char *job, const char *uplo, const int *n, double *a, const int *lda,
                   double *w, double *work, const int *lwork, int *iwork, const int *liwork,
                   int *info, size_t, size_t);
typedef void Gesdd(const char *job, const int *m, const int *n, double *a, const int *lda,
                   double *s, double *u, const int *ldu, double *vt, const int *ldvt, double *work,
                   const int *lwork, int *iwork, int *info, size_t);

static Geqrf *geqrf;
static Orgqr *orgqr;
static Syevd *syevd;
static Gesdd *gesdd;
static Potrf *potrf;
static Trtrs *trtrs;
static Getrf *getrf;
static Getrs *getrs;
static bool found;
static GuardOnce once;

static int lapack_cholesky(int n, double *a) {
  int info = 0;
  potrf("L", &n, a, &n, &info, 1);
  return info;
}

static int lapack_triangular(bool upper, int n, const double *a, int right, double *b) {
  int info = 0;
  trtrs(upper ? "U" : "L", "N", "N", &n, &right, a, &n, b, &n, &info, 1, 1, 1);
  return info;
}

static int lapack_lu(int n, double *a, int *pivot) {
  int info = 0;
  getrf(&n, &n, a, &n, pivot, &info);
  return info;
}

static void lapack_lu_solve(int n, const double *a, const int *pivot, int right, double *b) {
  int info = 0;
  getrs("N", &n, &right, a, &n, pivot, b, &n, &info, 1);
}

static bool lapack_qr(int m, int n, double *a, double *r, double *work) {
  int info = 0, size = (int)matrix_workspace(MATRIX_QR, m, n) - n;
  geqrf(&m, &n, a, &m, work, work + n, &size, &info);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < n; i++) r[i + j * n] = i <= j ? a[i + j * m] : 0;
  if (info == 0) orgqr(&m, &n, &n, a, &m, work, work + n, &size, &info);
  return info == 0;
}

static bool lapack_eigh(int n, double *a, double *w, double *work) {
  int info = 0, integers = 3 + 5 * n, size = (int)matrix_workspace(MATRIX_EIGH, n, n) - integers;
  syevd("V", "L", &n, a, &n, w, work, &size, (int *)(void *)(work + size), &integers, &info, 1, 1);
  return info == 0;
}

// gesdd stores the transpose of v, which takes the way over a.
static bool lapack_svd(int m, int n, double *a, double *u, double *s, double *v, double *work) {
  int info = 0, k = m < n ? m : n, size = (int)matrix_workspace(MATRIX_SVD, m, n) - 8 * k;
  gesdd("S", &m, &n, a, &m, s, u, &m, v, &k, work, &size, (int *)(void *)(work + size), &info, 1);
  memcpy(a, v, (size_t)n * (size_t)k * sizeof *v);
  for (int64_t j = 0; j < k; j++)
    for (int64_t i = 0; i < n; i++) v[i + j * n] = a[j + i * k];
  return info == 0;
}

static const MatrixEngine lapack = {lapack_cholesky, lapack_triangular, lapack_lu, lapack_lu_solve,
                                    lapack_qr,       lapack_eigh,       lapack_svd};

static void find_functions(void *unused) {
  (void)unused;
  const struct {
    const char *name;
    void *out;
  } want[] = {{"dpotrf_", &potrf}, {"dtrtrs_", &trtrs}, {"dgetrf_", &getrf}, {"dgetrs_", &getrs},
              {"dgeqrf_", &geqrf}, {"dorgqr_", &orgqr}, {"dsyevd_", &syevd}, {"dgesdd_", &gesdd}};
  found = true;
  for (size_t i = 0; found && i < countof(want); i++)
    found = blas_function(want[i].name, want[i].out, sizeof potrf);
}

const MatrixEngine *matrix_engine(void) {
  if (!blas_open(NULL)) return &matrix_plain;
  guard_once(&once, find_functions, NULL);
  return found ? &lapack : &matrix_plain;
}
