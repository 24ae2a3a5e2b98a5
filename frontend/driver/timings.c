// Measures processor time and memory of the stages of a compile, and prints them as a table:
//
//     meshc: place            3.10 ms     1.4 MiB  9120 nodes, 0.34 us each
#include "frontend/driver/timings.h"

#include <time.h>

static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static TimingsClock *now = processor_seconds;

void timings_use_clock(TimingsClock *clock) { now = clock; }

void timings_start(Timings *l, const Arena *a) {
  l->n = 0;
  l->arena = a;
  l->bytes = arena_bytes(a);
  l->seconds = now();
}

void timings_in(Timings *l, const Arena *a) {
  if (!l || !l->arena) return;
  l->arena = a;
  l->bytes = arena_bytes(a);
}

void timings_end(Timings *l, const char *name, uint32_t nodes) {
  if (!l || !l->arena) return;
  double seconds = now();
  size_t bytes = arena_bytes(l->arena);
  if (l->n < MAX_STAGES_TIMED) l->at[l->n++] = (StageTime){.name = name, .nodes = nodes};
  l->at[l->n - 1].seconds += seconds - l->seconds;
  l->at[l->n - 1].bytes += (int64_t)bytes - (int64_t)l->bytes;
  l->seconds = seconds;
  l->bytes = bytes;
}

static void print_one(FILE *f, const StageTime *x) {
  fprintf(f, "meshc: %-12s %8.2f ms %7.1f MiB", x->name, 1e3 * x->seconds,
          (double)x->bytes / (1 << 20));
  if (x->nodes)
    fprintf(f, "  %u node%s, %.2f us each", x->nodes, plural(x->nodes),
            1e6 * x->seconds / x->nodes);
  fprintf(f, "\n");
}

void timings_print(FILE *f, const Timings *l) {
  StageTime sum = {.name = "together"};
  for (uint32_t i = 0; i < l->n; i++) {
    print_one(f, &l->at[i]);
    sum.seconds += l->at[i].seconds;
    sum.bytes += l->at[i].bytes;
  }
  print_one(f, &sum);
}
