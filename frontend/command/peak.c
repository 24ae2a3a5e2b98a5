// Measures the FMA peak and the copy rate of this machine, which are upper limits for every kernel.
// Used by bench for the roofline and by doctor.
#include "frontend/command/hardware.h"
#include "ir/base/mem.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ACCUMULATORS = 14, ROUNDS = 2000000, REPEATS = 5, MAX_THREADS = 64, COPY_BYTES = 64 << 20 };

typedef float Wide __attribute__((vector_size(64)));

// Defines a function that runs ACCUMULATORS independent chains of multiply-adds. 14 chains hide the
// latency of a multiply-add, 4 to 5 cycles at 2 per cycle, and fit in 16 registers together with
// the operands x and y.
#define FMA_LOOP(name, target_attribute)                                                           \
  target_attribute static float name(void) {                                                       \
    Wide acc[ACCUMULATORS], x = {1.0f}, y = {0.5f};                                                \
    __asm__ volatile("" : "+m"(x), "+m"(y));                                                       \
    for (int i = 0; i < ACCUMULATORS; i++) acc[i] = x * (float)i;                                  \
    for (int r = 0; r < ROUNDS; r++) {                                                             \
      for (int i = 0; i < ACCUMULATORS; i++) acc[i] = acc[i] * y + x;                              \
    }                                                                                              \
    Wide sum = acc[0];                                                                             \
    for (int i = 1; i < ACCUMULATORS; i++) sum += acc[i];                                          \
    return sum[0];                                                                                 \
  }
// The accumulators of FMA_LOOP stay in registers only if the loop over them is fully unrolled.
#if defined(__clang__)
#define UNROLLED
#else
#define UNROLLED optimize("O3"),
#endif
#if defined(__x86_64__)
FMA_LOOP(fma_512, __attribute__((UNROLLED target("avx512f,fma"), noinline)))
FMA_LOOP(fma_256, __attribute__((UNROLLED target("avx2,fma"), noinline)))
#endif
FMA_LOOP(fma_any, __attribute__((noinline)))

static float (*fma_best(void))(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return fma_512;
  if (__builtin_cpu_supports("avx2")) return fma_256;
#endif
  return fma_any;
}

static void *fma_thread(void *unused) {
  (void)unused;
  volatile float sink = fma_best()(); // the loop must not be optimised away
  (void)sink;
  return NULL;
}

typedef struct CopyJob {
  char *to, *from;
  size_t bytes;
} CopyJob;
static void *copy_thread(void *job) {
  const CopyJob *c = job;
  memcpy(c->to, c->from, c->bytes);
  return NULL;
}

// Returns the seconds in which `threads` threads run f, each on its job; jobs are `stride` bytes
// apart. Returns infinity if a thread cannot be started.
static double run_threads(int threads, void *(*f)(void *), void *job, size_t stride) {
  pthread_t id[MAX_THREADS];
  int made = 1;
  double start = clock_seconds();
  while (made < threads &&
         pthread_create(&id[made], NULL, f, job ? (char *)job + stride * (size_t)made : NULL) == 0)
    made++;
  f(job);
  for (int i = 1; i < made; i++) pthread_join(id[i], NULL);
  return made == threads ? clock_seconds() - start : (double)INFINITY;
}

static int at_most(int threads) { return threads < MAX_THREADS ? threads : MAX_THREADS; }

double peak_flops(int threads) {
  threads = at_most(threads);
  double flops = 2.0 * (sizeof(Wide) / sizeof(float)) * ACCUMULATORS * ROUNDS * threads, best = 0;
  for (int i = 0; i < REPEATS; i++) {
    double rate = flops / run_threads(threads, fma_thread, NULL, 0);
    if (rate > best) best = rate;
  }
  return best;
}

double peak_copy(int threads) {
  threads = at_most(threads);
  char *from = mem_alloc(COPY_BYTES), *to = mem_alloc(COPY_BYTES);
  CopyJob job[MAX_THREADS];
  double best = 0;
  memset(from, 1, COPY_BYTES);
  memset(to, 2, COPY_BYTES);
  size_t part = COPY_BYTES / (size_t)threads;
  for (int i = 0; i < threads; i++)
    job[i] = (CopyJob){to + part * (size_t)i, from + part * (size_t)i, part};
  for (int i = 0; i < 4 * REPEATS; i++) {
    double rate =
        2.0 * (double)part * threads / run_threads(threads, copy_thread, job, sizeof *job);
    if (rate > best) best = rate;
  }
  free(from);
  free(to);
  return best;
}
