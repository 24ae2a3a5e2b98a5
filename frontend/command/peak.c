// Measures the FMA peak, the copy rate and the read rate of this machine, which are upper limits
// for every kernel. Used by bench for the roofline and by doctor.
#define _GNU_SOURCE // madvise
#include "frontend/command/hardware.h"
#include "ir/base/mem.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// ROUNDS: iterations of an FMA loop, about 3 ms. COPY_BYTES: bytes of each of the two arrays of a
// copy. READ_BYTES: bytes of the array that is read, larger than the caches of most machines.
// STREAMS: its parts that a thread reads side by side.
enum { ROUNDS = 1200000, REPEATS = 6, COPIES = 16, MAX_THREADS = 64 };
enum { COPY_BYTES = 64 << 20, READ_BYTES = 128 << 20, STREAMS = 4 };

// -- multiply-adds ------------------------------------------------------------------------------

// The accumulators of an FMA loop stay in registers only if the loop over them is fully unrolled.
#if defined(__clang__)
#define UNROLLED
#else
#define UNROLLED optimize("O3"),
#endif

// Defines a function that runs `chains` independent chains of multiply-adds on vectors and returns
// its flops. The chains hide the latency of a multiply-add, 4 to 5 cycles at 2 to 4 per cycle, and
// fit in registers together with the operands x and y. fma(a, b, c) must be one instruction where
// the machine has it: ISO C mode does not contract a * b + c.
#define FMA_LOOP(name, attributes, Vector, chains, fma)                                            \
  attributes static double name(void) {                                                            \
    Vector acc[chains], x = {0}, y = {0};                                                          \
    __asm__ volatile("" : "+m"(x), "+m"(y));                                                       \
    for (int i = 0; i < (chains); i++) acc[i] = x;                                                 \
    for (int r = 0; r < ROUNDS; r++) {                                                             \
      for (int i = 0; i < (chains); i++) acc[i] = fma(acc[i], y, x);                               \
    }                                                                                              \
    for (int i = 1; i < (chains); i++) acc[0] = fma(acc[i], y, acc[0]);                            \
    __asm__ volatile("" : : "m"(acc[0]));                                                          \
    return 2.0 * (sizeof(Vector) / sizeof(float)) * (chains)*ROUNDS;                               \
  }

typedef float Quad __attribute__((vector_size(16)));
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
FMA_LOOP(fma_any, __attribute__((UNROLLED noinline)), Quad, 12, MULTIPLY_ADD)
#if defined(__x86_64__)
FMA_LOOP(fma_512, __attribute__((UNROLLED target("avx512f"), noinline)), __m512, 14,
         _mm512_fmadd_ps)
FMA_LOOP(fma_256, __attribute__((UNROLLED target("avx2,fma"), noinline)), __m256, 12,
         _mm256_fmadd_ps)
#elif defined(__aarch64__)
#define NEON_FMA(a, b, c) vfmaq_f32(c, a, b)
FMA_LOOP(fma_neon, __attribute__((UNROLLED noinline)), float32x4_t, 20, NEON_FMA)
#endif

// -- copies -------------------------------------------------------------------------------------

// A copy of `bytes` bytes, a multiple of 64, between addresses that are multiples of 64.
typedef void Copy(void *to, const void *from, size_t bytes);

static void copy_plain(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

#if defined(__x86_64__)
// Defines a copy with non-temporal stores, which do not read the lines that they overwrite.
#define COPY_LOOP(name, attributes, Vector, load, store)                                           \
  attributes static void name(void *to, const void *from, size_t bytes) {                          \
    float *t = to;                                                                                 \
    const float *f = from;                                                                         \
    const size_t step = sizeof(Vector) / sizeof(float);                                            \
    for (size_t i = 0; i < bytes / sizeof(float); i += 2 * step) {                                 \
      Vector a = load(f + i), b = load(f + i + step);                                              \
      store(t + i, a);                                                                             \
      store(t + i + step, b);                                                                      \
    }                                                                                              \
    _mm_sfence();                                                                                  \
  }
COPY_LOOP(copy_512, __attribute__((target("avx512f"), noinline)), __m512, _mm512_load_ps,
          _mm512_stream_ps)
COPY_LOOP(copy_256, __attribute__((target("avx2"), noinline)), __m256, _mm256_load_ps,
          _mm256_stream_ps)
COPY_LOOP(copy_128, __attribute__((noinline)), __m128, _mm_load_ps, _mm_stream_ps)
#endif

// -- reads --------------------------------------------------------------------------------------

// Adds up `bytes` bytes of floats, a multiple of STREAMS * 64, at an address that is a multiple
// of 64.
typedef void Read(const void *from, size_t bytes);

// Defines a read of STREAMS parts of an array side by side: several streams keep more lines in
// flight than one.
#define READ_LOOP(name, attributes, Vector)                                                        \
  attributes static void name(const void *from, size_t bytes) {                                    \
    size_t part = bytes / STREAMS / sizeof(Vector);                                                \
    const Vector *f = from;                                                                        \
    Vector sum[STREAMS] = {{0}};                                                                   \
    for (size_t i = 0; i < part; i++)                                                              \
      for (size_t k = 0; k < STREAMS; k++) sum[k] += f[k * part + i];                              \
    for (size_t k = 1; k < STREAMS; k++) sum[0] += sum[k];                                         \
    __asm__ volatile("" : : "m"(sum[0]));                                                          \
  }

READ_LOOP(read_any, __attribute__((UNROLLED noinline)), Quad)
#if defined(__x86_64__)
typedef float Vector512 __attribute__((vector_size(64)));
typedef float Vector256 __attribute__((vector_size(32)));
READ_LOOP(read_512, __attribute__((UNROLLED target("avx512f"), noinline)), Vector512)
READ_LOOP(read_256, __attribute__((UNROLLED target("avx2"), noinline)), Vector256)
#endif

// -- what this machine has ----------------------------------------------------------------------

typedef struct Fastest {
  double (*fma)(void);
  Copy *stream; // NULL: the machine has no non-temporal stores
  Read *read;
} Fastest;

static Fastest fastest_here(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return (Fastest){fma_512, copy_512, read_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (Fastest){fma_256, copy_256, read_256};
  return (Fastest){fma_any, copy_128, read_any};
#elif defined(__aarch64__)
  return (Fastest){fma_neon, NULL, read_any};
#else
  return (Fastest){fma_any, NULL, read_any};
#endif
}

// -- threads ------------------------------------------------------------------------------------

typedef struct Job {
  double (*fma)(void);
  Copy *copy;
  Read *read;
  char *to, *from;
  size_t bytes;
  double flops; // of fma, when it has run
} Job;

static void *job_run(void *job) {
  Job *j = job;
  if (j->fma) j->flops = j->fma();
  if (j->copy) j->copy(j->to, j->from, j->bytes);
  if (j->read) j->read(j->from, j->bytes);
  return NULL;
}

// Returns the seconds in which `threads` threads run one job each. Returns infinity if a thread
// cannot be started.
static double run_threads(int threads, Job *job) {
  pthread_t id[MAX_THREADS];
  int made = 1;
  double start = clock_seconds();
  while (made < threads && pthread_create(&id[made], NULL, job_run, &job[made]) == 0) made++;
  job_run(job);
  for (int i = 1; i < made; i++) pthread_join(id[i], NULL);
  return made == threads ? clock_seconds() - start : (double)INFINITY;
}

static int at_most(int threads) { return threads < MAX_THREADS ? threads : MAX_THREADS; }

double peak_flops(int threads) {
  Job job[MAX_THREADS];
  double best = 0;
  threads = at_most(threads);
  for (int i = 0; i < threads; i++) job[i] = (Job){.fma = fastest_here().fma};
  for (int i = 0; i < REPEATS; i++) {
    double seconds = run_threads(threads, job);
    best = fmax(best, job[0].flops * threads / seconds);
  }
  return best;
}

// Returns an array of `bytes` bytes, each `value`, in huge pages if the kernel has some. All its
// pages are touched, so that a timed run does not touch them first. The caller frees it.
static char *touched_array(size_t bytes, int value) {
  char *array = mem_aligned(2 << 20, bytes);
  (void)madvise(array, bytes, MADV_HUGEPAGE);
  memset(array, value, bytes);
  return array;
}

double peak_copy(int threads) {
  Job job[MAX_THREADS];
  Copy *stream = fastest_here().stream;
  char *from = touched_array(COPY_BYTES, 1), *to = touched_array(COPY_BYTES, 2);
  double best = 0;
  threads = at_most(threads);
  size_t part = COPY_BYTES / (size_t)threads / 128 * 128;
  for (int i = 0; i < COPIES; i++) {
    Copy *copy = i % 4 == 3 || !stream ? copy_plain : stream;
    for (int k = 0; k < threads; k++)
      job[k] = (Job){.copy = copy,
                     .to = to + part * (size_t)k,
                     .from = from + part * (size_t)k,
                     .bytes = part};
    best = fmax(best, 2.0 * (double)part * threads / run_threads(threads, job));
  }
  free(from);
  free(to);
  return best;
}

double peak_read(int threads) {
  Job job[MAX_THREADS];
  char *from = touched_array(READ_BYTES, 1);
  double best = 0;
  threads = at_most(threads);
  size_t part = READ_BYTES / (size_t)threads / (STREAMS * 64) * (STREAMS * 64);
  for (int i = 0; i < REPEATS; i++) {
    for (int k = 0; k < threads; k++)
      job[k] = (Job){.read = fastest_here().read, .from = from + part * (size_t)k, .bytes = part};
    best = fmax(best, (double)part * threads / run_threads(threads, job));
  }
  free(from);
  return best;
}
