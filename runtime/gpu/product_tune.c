// Chooses the algorithms of products (product_tune.h).
//
// The library proposes up to 8 algorithms for a kind of product, the most promising one first. Each
// is run on random numbers, and the fastest one is kept for later runs: results then repeat bit for
// bit, though measured times do not. Where nothing can be kept, nothing is measured: the library's
// first proposal is always the same.
//
//   a kind has a kept algorithm that the library still accepts   that one
//   the library has one proposal                                 that one
//   it has several                                               the fastest one
//
// The largest products are measured first, for about TUNE_SECONDS. Kinds that are left then keep
// the library's first proposal, in later runs too.
//
// Ranks may compute the same values, which must have the same bits: so all take the choices of the
// first rank. Kinds that the first rank does not have keep the library's first proposal.
#include "runtime/gpu/product_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  BLOCK = 40009, // random numbers, which are repeated; a prime, so that rows are not alike
  ROUNDS = 3,    // measurements of an algorithm, of which the shortest one counts
  MOST_CALLS = 20,
  MOST_SHARED = 512, // choices that the first rank gives to the others
  NAME_ROOM = 128    // of a GPU
};
static const double TUNE_SECONDS = 2, // after which no further kind of a program is measured
    ROUND_SECONDS = 1e-4,             // a measurement has calls for so long, at most MOST_CALLS
    GAIN = 0.98; // another proposal than the first has to need less than this share of its time

// A kind and its algorithm, as the first rank gives them to the others.
typedef struct Choice {
  ProductSizes sizes;
  CublasLtAlgorithm algorithm;
} Choice;
typedef struct Choices {
  int64_t n;
  char gpu[NAME_ROOM];
  size_t version;
  Choice at[MOST_SHARED];
} Choices;

// -- operands -------------------------------------------------------------------------------------

// Returns the bytes from the first to the last element of a matrix, in all batches.
static size_t matrix_bytes(int64_t rows, int64_t columns, int64_t distance, const ProductSizes *s,
                           int64_t stride, int64_t type) {
  int64_t elements = (s->batches - 1) * stride + (rows - 1) * distance + columns;
  return (size_t)(elements * dtype_bytes((Dtype)type));
}

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Lays the operands of a kind out one after the other from address `from`. *factors: bytes of A and
// B. Returns the bytes of all.
static size_t lay_out(const ProductSizes *s, CudaAddress from, GpuOperands *at, size_t *factors) {
  size_t a = matrix_bytes(s->ta ? s->k : s->m, s->ta ? s->m : s->k, s->lda, s, s->a_stride,
                          s->factors),
         b = matrix_bytes(s->tb ? s->n : s->k, s->tb ? s->k : s->n, s->ldb, s, s->b_stride,
                          s->factors),
         c = matrix_bytes(s->m, s->n, s->ldc, s, s->c_stride, s->type);
  *factors = aligned(a) + aligned(b);
  size_t end = *factors + aligned(c);
  *at = (GpuOperands){from, from + aligned(a), from + *factors, {0}};
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    if (!s->extra_align[i]) continue;
    at->extra[i] = from + end;
    end += aligned(c); // more than a bias needs
  }
  return end;
}

// Fills memory of the GPU with numbers from -1 to 1. Returns whether it could.
static bool fill(const ProductTuner *t, CudaAddress at, size_t bytes, Dtype type) {
  size_t element = (size_t)dtype_bytes(type), first = BLOCK * element;
  if (first > bytes) first = bytes;
  char *block = mem_alloc(BLOCK * element);
  for (uint64_t i = 0; i < BLOCK; i++) {
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    dtype_store(type, block + i * element, (double)(int64_t)x / 0x1p63);
  }
  bool good = cuda.MemcpyHtoDAsync(at, block, first, t->stream) == CUDA_OK &&
              cuda.StreamSynchronize(t->stream) == CUDA_OK;
  for (size_t done = first; good && done < bytes; done += done) {
    size_t more = bytes - done < done ? bytes - done : done;
    good = cuda.MemcpyDtoDAsync(at + done, at, more, t->stream) == CUDA_OK;
  }
  free(block);
  return good;
}

// -- measuring ------------------------------------------------------------------------------------

typedef struct Clock {
  CudaEvent began, ended;
} Clock;

// Runs a kind `calls` times. Returns the seconds of one call, or infinity if the GPU did not run
// it.
static double run_calls(const ProductTuner *t, const ProductKind *k, const GpuOperands *at,
                        const Clock *clock, int calls) {
  float milliseconds = 0;
  bool good = cuda.EventRecord(clock->began, t->stream) == CUDA_OK;
  for (int i = 0; i < calls && good; i++)
    good = product_kind_run(t->library, k, at, t->workspace, t->workspace_bytes, t->stream) ==
           CUBLAS_OK;
  good = good && cuda.EventRecord(clock->ended, t->stream) == CUDA_OK &&
         cuda.EventSynchronize(clock->ended) == CUDA_OK &&
         cuda.EventElapsedTime(&milliseconds, clock->began, clock->ended) == CUDA_OK;
  return good ? 1e-3 * (double)milliseconds / calls : (double)INFINITY;
}

// Returns the seconds of a call with the present algorithm of a kind. The first call does not
// count, because it loads code.
static double measure(const ProductTuner *t, const ProductKind *k, const GpuOperands *at,
                      const Clock *clock) {
  double best = run_calls(t, k, at, clock, 1);
  int calls = 1;
  for (int i = 0; i < ROUNDS && isfinite(best); i++) {
    double seconds = run_calls(t, k, at, clock, calls);
    best = i == 0 ? seconds : fmin(best, seconds);
    while (calls < MOST_CALLS && calls * best < ROUND_SECONDS) calls++;
  }
  return best;
}

// Gives a kind the fastest of n algorithms, or the first one if no other is clearly faster (GAIN).
static void take_fastest(const ProductTuner *t, ProductKind *k, const CublasLtChoice *proposal,
                         int n, const GpuOperands *at, const Clock *clock) {
  int best = 0;
  double least = 0;
  for (int i = 0; i < n; i++) {
    k->choice = proposal[i];
    double seconds = measure(t, k, at, clock);
    if (i == 0 || seconds < least * (best == 0 ? GAIN : 1)) best = i, least = seconds;
  }
  k->choice = proposal[best];
}

static bool make_clock(Clock *c) {
  return cuda.EventCreate(&c->began, CUDA_EVENT_BLOCKING) == CUDA_OK &&
         cuda.EventCreate(&c->ended, CUDA_EVENT_BLOCKING) == CUDA_OK;
}

static void free_clock(Clock *c) {
  if (c->began) (void)cuda.EventDestroy(c->began);
  if (c->ended) (void)cuda.EventDestroy(c->ended);
}

// Measures the proposals for a kind, if there are several, and gives it the fastest one. Without
// memory on the GPU for the operands the first one stays. Returns whether there are several.
static bool measure_kind(const ProductTuner *t, ProductKind *k) {
  CublasLtChoice proposal[PRODUCT_PROPOSALS];
  int n = product_kind_proposals(t->library, k, t->workspace_bytes, proposal);
  GpuOperands at;
  Clock clock = {NULL, NULL};
  CudaAddress memory = 0;
  size_t factors, bytes = lay_out(&k->sizes, 0, &at, &factors);
  if (n < 2) return false;
  if (cuda.MemAlloc(&memory, bytes) == CUDA_OK && make_clock(&clock) &&
      fill(t, memory, factors, (Dtype)k->sizes.factors) &&
      fill(t, memory + factors, bytes - factors, (Dtype)k->sizes.type)) {
    (void)lay_out(&k->sizes, memory, &at, &factors);
    take_fastest(t, k, proposal, n, &at, &clock);
  }
  (void)cuda.StreamSynchronize(t->stream);
  free_clock(&clock);
  if (memory) (void)cuda.MemFree(memory);
  return true;
}

// -- keeping --------------------------------------------------------------------------------------

// What a choice depends on: the key under which it is kept.
typedef struct Key {
  size_t version;
  char gpu[NAME_ROOM];
  ProductSizes sizes;
} Key;

static Key key_of(const ProductTuner *t, const ProductKind *k) {
  Key key;
  memset(&key, 0, sizeof key);
  key.version = cublaslt.GetVersion();
  snprintf(key.gpu, sizeof key.gpu, "%s", t->gpu);
  key.sizes = k->sizes;
  return key;
}

// Takes the algorithm that was kept for a kind. Returns false if there is none that the library
// accepts.
static bool recall(const ProductTuner *t, ProductKind *k) {
  Key key = key_of(t, k);
  CublasLtAlgorithm kept;
  return t->keeper->recall(t->keeper->folder, &key, sizeof key, &kept, sizeof kept) &&
         product_kind_accept(t->library, k, &kept, t->workspace_bytes);
}

// Keeps the algorithm of a kind, unless another process has kept one meanwhile: then takes that.
static void keep(const ProductTuner *t, ProductKind *k) {
  Key key = key_of(t, k);
  if (recall(t, k)) return;
  t->keeper->keep(t->keeper->folder, &key, sizeof key, &k->choice.algorithm,
                  sizeof k->choice.algorithm);
}

// -------------------------------------------------------------------------------------------------

static double work_of(const ProductKind *k) {
  const ProductSizes *s = &k->sizes;
  return (double)s->m * (double)s->n * (double)s->k * (double)s->batches;
}

static int by_work(const void *a, const void *b) {
  double x = work_of(*(ProductKind *const *)a), y = work_of(*(ProductKind *const *)b);
  return (x < y) - (x > y);
}

// Chooses the algorithms of n kinds, the largest products first.
static void choose(const ProductTuner *t, ProductKind **kind, uint32_t n) {
  double began = clock_seconds();
  qsort(kind, n, sizeof *kind, by_work);
  for (uint32_t i = 0; i < n; i++) {
    if (recall(t, kind[i])) continue;
    if (clock_seconds() - began > TUNE_SECONDS || measure_kind(t, kind[i])) keep(t, kind[i]);
  }
}

// Writes the choices of the first rank to *out.
static void list_choices(const ProductTuner *t, ProductKind *const *kind, uint32_t n,
                         Choices *out) {
  out->version = cublaslt.GetVersion();
  snprintf(out->gpu, sizeof out->gpu, "%s", t->gpu);
  for (uint32_t i = 0; i < n; i++)
    out->at[out->n++] = (Choice){kind[i]->sizes, kind[i]->choice.algorithm};
}

// Takes the choices of the first rank, if its GPU and its library are like those of this one.
static void adopt(const ProductTuner *t, ProductKind **kind, uint32_t n, const Choices *theirs) {
  if (theirs->version != cublaslt.GetVersion() || strcmp(theirs->gpu, t->gpu) != 0) return;
  for (uint32_t i = 0; i < n; i++)
    for (int64_t c = 0; c < theirs->n; c++)
      if (memcmp(&theirs->at[c].sizes, &kind[i]->sizes, sizeof kind[i]->sizes) == 0)
        (void)product_kind_accept(t->library, kind[i], &theirs->at[c].algorithm,
                                  t->workspace_bytes);
}

static bool choose_together(const ProductTuner *t, ProductKind **kind, uint32_t n, Diag *d) {
  Choices *all = mem_zeroed(1, sizeof *all);
  bool first = gpu_comms_first(t->comms);
  if (first && n > MOST_SHARED) n = MOST_SHARED; // its other kinds stay as on the other ranks
  if (first && t->keeper) choose(t, kind, n);
  if (first) list_choices(t, kind, n, all);
  bool good = gpu_comms_share(t->comms, all, sizeof *all, d);
  if (good && !first) adopt(t, kind, n, all);
  free(all);
  return good;
}

bool product_tune(const ProductTuner *t, ProductKind *kinds, Diag *d) {
  uint32_t n = 0;
  for (const ProductKind *k = kinds; k; k = k->next) n += !k->settled;
  ProductKind **kind = mem_alloc((n + 1) * sizeof *kind);
  n = 0;
  for (ProductKind *k = kinds; k; k = k->next)
    if (!k->settled) k->settled = true, kind[n++] = k;
  bool good = true;
  if (t->comms)
    good = choose_together(t, kind, n, d);
  else if (t->keeper)
    choose(t, kind, n);
  free(kind);
  return good;
}
