// BLAS: loads OpenBLAS at run time and calls its GEMM. Loading at run time lets meshc choose the
// core type of OpenBLAS before OpenBLAS initialises itself. A machine without OpenBLAS still runs
// programs that have no GEMM.
//
// OpenBLAS 0.3.21 chooses Haswell kernels on newer AMD CPUs, at half the possible speed, and some
// environments set OPENBLAS_CORETYPE to Haswell. So meshc chooses the SkylakeX kernels on every CPU
// that has the AVX-512 subsets they need. MESHC_BLAS_CORE overrides the choice. The environment
// variables of OpenBLAS are restored after it is loaded.
#include "ir/base/guard.h"
#include "ir/base/library.h"
#include "ir/program/sums.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  BUFFER_BYTES = 128 << 20, // bytes of a work buffer of OpenBLAS on x86-64; less on other CPUs
  BUFFERS_MOST = 64         // most work buffers that blas_reserve takes
};
// Address space, in bytes, that loading OpenBLAS may need: version 0.3.21 and libgfortran map 40
// MiB.
enum { LIBRARY_BYTES = 64 << 20 };
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

// A GEMM computes C = A B, where each element of C is a sum of k products. OpenBLAS adds these up
// in one chain of f32 additions if the GEMM is small, otherwise block by block of k, so the
// rounding error grows with k. Therefore an f32 GEMM with a long k is split along k into pieces,
// whose results are added up in f64. This is done tile by tile of C. It makes a large GEMM 15 to
// 60 % slower, because OpenBLAS packs its operands again for each tile.
enum {
  LONGEST_WHOLE = 16384, // largest k of a large GEMM that is not split: 43 blocks of OpenBLAS
  PIECE = 2048,          // elements of k in a piece
  PIECE_SMALL = 64,      // elements of k in a piece of a small GEMM
  SMALL_WORK = 1000000,  // most multiplications of a small GEMM (counting a k of at most PIECE)
  TILE_M = 128,          // rows of a tile of C
  TILE_N = 256           // columns of a tile of C
};

typedef void Sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                   int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void Dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                   int lda, const double *b, int ldb, double beta, double *c, int ldc);

typedef void *TakeBuffer(int place);
typedef void GiveBuffer(void *buffer);

// Functions of OpenBLAS, found when it is loaded: take_buffer allocates a work buffer, give_buffer
// gives the buffer back, sgemm and dgemm multiply matrices.
static TakeBuffer *take_buffer;
static GiveBuffer *give_buffer;
static Sgemm *sgemm;
static Dgemm *dgemm;
static char blas_name[128] = "none";
static GuardOnce once;

static bool has_skylake_subsets(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// Writes the address of function `name` of the library to `out`, a function pointer of `size`
// bytes. The address is copied as bytes, because ISO C has no cast from object to function
// pointers. Returns false if the library has no such function.
static bool symbol(void *library, const char *name, void *out, size_t size) {
  void *p = dlsym(library, name);
  memcpy(out, &p, size);
  return p != NULL;
}

static void name_library(void *library) {
  char *(*config)(void) = NULL, *(*core)(void) = NULL;
  const char *version = "", *core_name = "";
  if (symbol(library, "openblas_get_config", &config, sizeof config)) version = config();
  if (symbol(library, "openblas_get_corename", &core, sizeof core)) core_name = core();
  int length = 0, words = 0; // length of the first two words of `version`, "OpenBLAS 0.3.21"
  while (version[length] && !(version[length] == ' ' && ++words == 2)) length++;
  snprintf(blas_name, sizeof blas_name, "%.*s %s", length, version, core_name);
}

// An environment variable that OpenBLAS reads while it is loaded; `value` is the value of the
// variable before meshc set it.
typedef struct EnvSetting {
  const char *name, *value;
  char *before;
} EnvSetting;

static void setting_apply(EnvSetting *s) {
  if (!s->value) return;
  const char *before = getenv(s->name);
  if (before) s->before = mem_text(before);
  setenv(s->name, s->value, 1);
}

static void setting_undo(EnvSetting *s) {
  if (s->before)
    setenv(s->name, s->before, 1);
  else if (s->value)
    unsetenv(s->name);
  free(s->before);
}

static void *load_library(const char *path) {
  const char *core = getenv("MESHC_BLAS_CORE");
  if (!core || !*core) core = has_skylake_subsets() ? "SkylakeX" : NULL;
  EnvSetting type = {"OPENBLAS_CORETYPE", core, NULL},
             threads = {"OPENBLAS_NUM_THREADS", "1", NULL};
  setting_apply(&type);
  setting_apply(&threads);
  void *library = library_open(path, RTLD_NOW | RTLD_LOCAL, LIBRARY_BYTES);
  setting_undo(&type);
  setting_undo(&threads);
  return library;
}

static void open_library(void) {
  const char *choice = getenv("MESHC_BLAS");
  if (choice && strcmp(choice, "none") == 0) return;
  void *library = load_library(choice && *choice ? choice : "libopenblas.so.0");
  if (!library) return;
  void (*set_threads)(int) = NULL;
  if (symbol(library, "openblas_set_num_threads", &set_threads, sizeof set_threads)) set_threads(1);
  bool found = symbol(library, "cblas_dgemm", &dgemm, sizeof dgemm) &&
               symbol(library, "cblas_sgemm", &sgemm, sizeof sgemm);
  if (!found) sgemm = NULL;
  if (!symbol(library, "blas_memory_alloc", &take_buffer, sizeof take_buffer) ||
      !symbol(library, "blas_memory_free", &give_buffer, sizeof give_buffer))
    take_buffer = NULL;
  if (found) name_library(library);
}

bool blas_open(const char **name) {
  guard_once(&once, open_library);
  if (name) *name = blas_name;
  return sgemm != NULL;
}

static bool room_for_buffer(void) {
  void *trial =
      mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return trial != MAP_FAILED && munmap(trial, BUFFER_BYTES) == 0;
}

// Takes a work buffer of OpenBLAS for each of `threads` threads, at most BUFFERS_MOST, and gives
// the buffers back. OpenBLAS then keeps them for later calls of any thread. Returns false if there
// is not enough memory.
bool blas_reserve(int threads) {
  static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  static int reserved;
  void *buffer[BUFFERS_MOST];
  int n = 0, wanted = threads < BUFFERS_MOST ? threads : BUFFERS_MOST;
  bool good = true;
  if (!take_buffer) return true;
  pthread_mutex_lock(&gate);
  for (; good && reserved < wanted && n < wanted; n++) {
    good = n < reserved || room_for_buffer();
    if (!good) break;
    buffer[n] = take_buffer(0);
  }
  if (n > reserved) reserved = n;
  while (n > 0) give_buffer(buffer[--n]);
  pthread_mutex_unlock(&gate);
  return good;
}

static void zero_rows(Dtype type, int64_t m, int64_t n, void *c, int64_t ldc) {
  int64_t bytes = dtype_bytes(type);
  for (int64_t i = 0; i < m; i++) memset((char *)c + i * ldc * bytes, 0, (size_t)(n * bytes));
}

typedef struct SgemmCall {
  int opa, opb;
  int64_t k, piece, lda, ldb;
} SgemmCall;

// Computes m x n elements of the product C = A B. OpenBLAS multiplies a limited range of k, the
// summed dim, at a time, and the results are added up in f64.
static void gemm_tile(const SgemmCall *g, int64_t m, int64_t n, const float *a, const float *b,
                      float *c, int64_t ldc) {
  float part[TILE_M * TILE_N];
  double sum[TILE_M * TILE_N];
  for (int64_t k = 0; k < g->k; k += g->piece) {
    int64_t depth = g->k - k < g->piece ? g->k - k : g->piece;
    const float *x = a + (g->opa == TRANS ? k * g->lda : k),
                *y = b + (g->opb == TRANS ? k : k * g->ldb);
    sgemm(ROW_MAJOR, g->opa, g->opb, (int)m, (int)n, (int)depth, 1, x, (int)g->lda, y, (int)g->ldb,
          0, part, (int)n);
    if (k == 0)
      for (int64_t i = 0; i < m * n; i++) sum[i] = (double)part[i];
    else
      for (int64_t i = 0; i < m * n; i++) sum[i] += (double)part[i];
  }
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) c[i * ldc + j] = (float)sum[i * n + j];
}

static void gemm_pieces(const SgemmCall *g, int64_t m, int64_t n, const float *a, const float *b,
                        float *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i += TILE_M)
    for (int64_t j = 0; j < n; j += TILE_N) {
      const float *x = a + (g->opa == TRANS ? i : i * g->lda),
                  *y = b + (g->opb == TRANS ? j * g->ldb : j);
      int64_t rows = m - i < TILE_M ? m - i : TILE_M, cols = n - j < TILE_N ? n - j : TILE_N;
      gemm_tile(g, rows, cols, x, y, c + i * ldc + j, ldc);
    }
}

void blas_gemm(Dtype type, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a,
               int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    zero_rows(type, m, n, c, ldc);
    return;
  }
  int opa = ta ? TRANS : NO_TRANS, opb = tb ? TRANS : NO_TRANS;
  bool small =
      m * n * (k < PIECE ? k : PIECE) <= SMALL_WORK; // then OpenBLAS adds up all of k in one chain
  int64_t piece = small ? PIECE_SMALL : PIECE,
          longest = small ? 2 * SUM_LEAF_LIBRARY : LONGEST_WHOLE;
  if (type == TYPE_F64)
    dgemm(ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, 0, c, (int)ldc);
  else if (k > longest)
    gemm_pieces(&(SgemmCall){opa, opb, k, piece, lda, ldb}, m, n, a, b, c, ldc);
  else
    sgemm(ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, 0, c, (int)ldc);
}
