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
#include "runtime/exec/product_internal.h"

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
static void *opened; // the library, or NULL

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
  if (!core || !*core) core = cpu_is_wide() ? "SkylakeX" : NULL;
  EnvSetting type = {"OPENBLAS_CORETYPE", core, NULL},
             threads = {"OPENBLAS_NUM_THREADS", "1", NULL};
  setting_apply(&type);
  setting_apply(&threads);
  void *library = library_open(path, RTLD_NOW | RTLD_LOCAL, LIBRARY_BYTES);
  setting_undo(&type);
  setting_undo(&threads);
  return library;
}

static void open_library(void *unused) {
  (void)unused;
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
  opened = library;
}

bool blas_open(const char **name) {
  guard_once(&once, open_library, NULL);
  if (name) *name = blas_name;
  return sgemm != NULL;
}

bool blas_function(const char *name, void *out, size_t size) {
  return opened && symbol(opened, name, out, size);
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

static void multiply_floats(const Product *g, void *work) {
  (void)work;
  sgemm(ROW_MAJOR, g->ta ? TRANS : NO_TRANS, g->tb ? TRANS : NO_TRANS, (int)g->m, (int)g->n,
        (int)g->k, 1, g->a, (int)g->lda, g->b, (int)g->ldb, 0, g->c, (int)g->ldc);
}

static void multiply_doubles(const Product *g) {
  dgemm(ROW_MAJOR, g->ta ? TRANS : NO_TRANS, g->tb ? TRANS : NO_TRANS, (int)g->m, (int)g->n,
        (int)g->k, 1, g->a, (int)g->lda, g->b, (int)g->ldb, 0, g->c, (int)g->ldc);
}

void blas_gemm(const Product *g, void *work) {
  // OpenBLAS adds up all of k of a small product in one chain.
  bool small = g->m * g->n * (g->k < PIECE ? g->k : PIECE) <= SMALL_WORK;
  int64_t longest = small ? 2 * SUM_LEAF_LIBRARY : LONGEST_WHOLE;
  if (g->factors == TYPE_F64)
    multiply_doubles(g);
  else if (g->k > longest)
    product_by_pieces(g, small ? PIECE_SMALL : PIECE, multiply_floats, work);
  else
    multiply_floats(g, work);
}
