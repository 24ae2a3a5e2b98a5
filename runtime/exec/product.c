// Chooses how products of matrices are computed on this machine: by instructions of the CPU
// (f32_gemm.c, bf16_gemm.c) or by a library (blas.c).
#include "runtime/exec/matrix_internal.h"
#include "runtime/exec/product_internal.h"

#include <string.h>

struct ProductWay {
  Dtype factors;
  bool (*open)(const char **name);
  Multiply *multiply;
};

// The ways to compute products, the faster one first.
static const ProductWay ways[] = {
    {TYPE_BF16, bf16_gemm_open, bf16_gemm},
    {TYPE_F32, f32_gemm_open, f32_gemm},
    {TYPE_F32, blas_open, blas_gemm},
    {TYPE_F64, blas_open, blas_gemm},
};

const ProductWay *product_way(Dtype factors, const char **name) {
  for (size_t i = 0; i < countof(ways); i++)
    if (ways[i].factors == factors && ways[i].open(name)) return &ways[i];
  if (name) *name = "generated kernels";
  return NULL;
}

DtypeSet product_types(DtypeSet among) {
  DtypeSet set = 0;
  for (int t = 0; t < TYPE_COUNT; t++)
    if ((among & dtype_bit((Dtype)t)) && product_way((Dtype)t, NULL)) set |= dtype_bit((Dtype)t);
  return set;
}

bool product_is_blas(const ProductWay *way) { return way->multiply == blas_gemm; }

static void zero_rows(const Product *g) {
  int64_t bytes = dtype_bytes(g->type);
  for (int64_t i = 0; i < g->m; i++)
    memset((char *)g->c + i * g->ldc * bytes, 0, (size_t)(g->n * bytes));
}

void product_run(const ProductWay *way, const Product *g, void *work) {
  if (g->m == 0 || g->n == 0) return;
  if (g->k == 0)
    zero_rows(g);
  else
    way->multiply(g, work);
}

// -- the products of a program -------------------------------------------------------------------

// Returns the types of the factors of all GEMMs of p.
static DtypeSet types_of_products(const Program *p) {
  DtypeSet set = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_GEMM) set |= dtype_bit(p->instr[i].u.gemm.factors);
  return set;
}

bool products_check(const Program *p, Diag *d) {
  DtypeSet needed = types_of_products(p), missing = needed & ~product_types(needed);
  for (int t = 0; t < TYPE_COUNT; t++) {
    if (!(missing & dtype_bit((Dtype)t))) continue;
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0},
               "the program has products of %s and nothing here computes them",
               dtype_text((Dtype)t));
    if (t != TYPE_BF16) diag_hint(d, "install OpenBLAS (libopenblas.so.0)");
  }
  return !missing;
}

static bool has_matrices(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_MATRIX) return true;
  return false;
}

bool products_reserve(const Program *p, int workers, Diag *d) {
  DtypeSet set = types_of_products(p);
  bool needed = has_matrices(p) && matrix_engine() != &matrix_plain;
  for (int t = 0; t < TYPE_COUNT; t++)
    needed |= (set & dtype_bit((Dtype)t)) && product_is_blas(product_way((Dtype)t, NULL));
  if (!needed || blas_reserve(workers)) return true;
  diag_error(
      d, DIAG_NO_MEMORY, (Pos){0},
      "out of memory: no room for the buffers of OpenBLAS: %d thread%s, each with 128 MiB of "
      "addresses",
      workers, plural(workers));
  diag_hint(d, "raise the limit on virtual memory (ulimit -v), or use fewer --threads");
  return false;
}

// -- long sums ------------------------------------------------------------------------------------

enum {
  PIECE_ROWS = 128, // rows and columns of the part of C whose sums are in f64
  PIECE_COLUMNS = 256
};

// Computes the product g, which has at most PIECE_ROWS rows and PIECE_COLUMNS columns.
static void sum_pieces(const Product *g, int64_t piece, Multiply *multiply, void *work) {
  float part[PIECE_ROWS * PIECE_COLUMNS], *c = g->c;
  double sum[PIECE_ROWS * PIECE_COLUMNS] = {0};
  Product p = *g;
  p.c = part;
  p.ldc = g->n;
  for (int64_t k = 0; k < g->k; k += piece) {
    p.k = clamp64(g->k - k, 0, piece);
    p.a = (const float *)g->a + (g->ta ? k * g->lda : k);
    p.b = (const float *)g->b + (g->tb ? k : k * g->ldb);
    multiply(&p, work);
    for (int64_t i = 0; i < g->m * g->n; i++) sum[i] += (double)part[i];
  }
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) c[i * g->ldc + j] = (float)sum[i * g->n + j];
}

void product_by_pieces(const Product *g, int64_t piece, Multiply *multiply, void *work) {
  Product p = *g;
  for (int64_t i = 0; i < g->m; i += PIECE_ROWS)
    for (int64_t j = 0; j < g->n; j += PIECE_COLUMNS) {
      p.m = clamp64(g->m - i, 0, PIECE_ROWS);
      p.n = clamp64(g->n - j, 0, PIECE_COLUMNS);
      p.a = (const float *)g->a + (g->ta ? i : i * g->lda);
      p.b = (const float *)g->b + (g->tb ? j * g->ldb : j);
      p.c = (float *)g->c + i * g->ldc + j;
      sum_pieces(&p, piece, multiply, work);
    }
}

// -- the CPU --------------------------------------------------------------------------------------

bool cpu_is_wide(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}
