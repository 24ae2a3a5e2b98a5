// Measures the figures of this machine for a machine file (ir/program/machine.h). Small models are
// compiled and run on all cores (or ranks) at once. Each figure is chosen so that the simulator's
// formula (codegen/simulate/simulate_cost.c) gives the measured times of these models.
//
//   l2_rate, l3_rate, memory_rate   y = x * 2 + 1 on arrays of suitable sizes: bytes / time
//   operations                      one kernel with 48 additions and multiplications per element
//   launch                          a chain of kernels of 16 elements
//   flops, half                     GEMMs of several shapes, least squares of the relative errors
//   latency, bandwidth              an all_reduce of a few bytes, and one of a MiB
#include "frontend/driver/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Probe {
  Session s;
  Compilation made;
  Exec *exec;
  int64_t steps;
} Probe;

enum { SWEEPS = 3, BATCHES = 7, KEPT = 1, MOST_PROBES = 32 };

// -- one small model ----------------------------------------------------------------------------

static void probe_close(Probe *p) {
  exec_free(p->exec);
  code_free(p->made.code);
}

static bool probe_open(Session *s, const char *text, Probe *p) {
  Selected of;

  *p = (Probe){.s = *s};
  Session *own = &p->s;
  own->text = text;
  own->source = diag_source(s->diag, "probe", text, strlen(text));
  own->directory = ".";
  own->options = (ModelOptions){.path = "probe"};
  own->ast = ast_parse(own->arena, own->names, own->diag, own->source, text, strlen(text));
  if (diag_errors(own->diag)) return false;
  own->model = model_build(own->arena, own->names, own->diag, own->ast, &own->options);
  if (!own->model || !session_agree(own)) return false;
  if (!session_make(own, NULL, &of, &p->made)) return false;
  p->exec = session_exec(own, &p->made, NULL, NULL);
  if (p->exec) exec_profile_switch(p->exec, false);
  if (p->exec) synthetic_feed(p->exec, p->made.compiled->program);
  return p->exec != NULL;
}

static bool probe_run(Probe *p, int64_t steps) {
  for (int64_t i = 0; i < steps; i++)
    if (exec_step(p->exec, p->steps++, false) != STEP_OK) {
      exec_fault(p->exec, p->s.diag);
      return false;
    }
  return true;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Returns the seconds that all instructions of a kind have taken since the program was bound.
static double spent_on(const Probe *p, InstrKind kind) {
  const Program *program = p->made.compiled->program;
  const double *seconds = exec_profile(p->exec);
  double sum = 0;
  for (uint32_t i = 0; i < program->ninstrs; i++)
    if (program->instr[i].kind == kind) sum += seconds[i];
  return sum;
}

// Measures the seconds of one step of a model, or only of the instructions of `kind` in it;
// INSTR_END means the whole step. *out is the second fastest of several batches of steps, because
// other processes can only slow them down. Returns false after an error.
static bool probe_once(Session *s, const char *text, int64_t steps, InstrKind kind, double *out) {
  Probe p;
  double each[BATCHES];
  bool whole = kind == INSTR_END, good = probe_open(s, text, &p) && probe_run(&p, steps + 3);
  if (good) exec_profile_switch(p.exec, !whole);
  for (int i = 0; i < BATCHES && good; i++) {
    double start = whole ? clock_seconds() : spent_on(&p, kind);
    good = probe_run(&p, steps);
    each[i] = ((whole ? clock_seconds() : spent_on(&p, kind)) - start) / (double)steps;
  }
  probe_close(&p);
  if (!good) return false;
  qsort(each, BATCHES, sizeof *each, by_value);
  *out = each[KEPT];
  return true;
}

// -- figures ------------------------------------------------------------------------------------

// The best time of a probe (one small model). All probes are repeated in several sweeps, so that a
// disturbance by another process affects only one sweep.
typedef struct Probed {
  const char *text;
  double seconds;
} Probed;

typedef struct Sweep {
  Session *s;
  Machine m;
  int processors;
  double contexts; // number of processors of the mesh that each core runs, one after another
  double empty;    // seconds of a step that computes almost nothing
  int nprobes;
  Probed probed[MOST_PROBES];
} Sweep;

static bool probe_time(Sweep *b, const char *text, int64_t steps, InstrKind kind, double *out) {
  int i = 0;
  if (!probe_once(b->s, text, steps, kind, out)) return false;
  while (i < b->nprobes && strcmp(b->probed[i].text, text) != 0) i++;
  if (i == MOST_PROBES) BUG("more than %d probes", (int)MOST_PROBES);
  if (i == b->nprobes) b->probed[b->nprobes++] = (Probed){text, *out};
  if (b->probed[i].seconds < *out) *out = b->probed[i].seconds;
  b->probed[i].seconds = *out;
  return true;
}

static const char *model(const Sweep *b, int64_t n, const char *lines) {
  return arena_printf(b->s->arena,
                      "dim g = %d, n = %lld\ninput x[g, n]\n%s\nmesh p = %d\nlayout g -> p\n",
                      b->processors, (long long)n, lines, b->processors);
}

// Measures the bytes per second that a core reads and writes, with a kernel that reads bytes / 2
// and writes bytes / 2 for each processor. Returns false after an error.
static bool stream_rate(Sweep *b, double bytes, double *out) {
  int64_t n = (int64_t)(bytes / 8), steps = clamp64((int64_t)(2e8 / bytes), 2, 2000);
  double seconds;
  if (!probe_time(b, model(b, n, "output y = x * 2 + 1"), steps, INSTR_END, &seconds)) return false;
  *out = 8 * (double)n * b->contexts / fmax(seconds - b->empty, 1e-9);
  return true;
}

static bool measure_memory(Sweep *b) {
  Machine *m = &b->m;
  double all = b->contexts * (double)b->processors;
  double small = (double)m->l2 / (2 * b->contexts),
         large = fmax(2 * (double)m->l2, (double)m->l3 / (4 * all));
  return stream_rate(b, small, &m->l2_rate) && stream_rate(b, large, &m->l3_rate) &&
         stream_rate(b, fmin(2 * (double)m->l3, 1 << 28), &m->memory_rate);
}

static bool measure_kernels(Sweep *b) {
  enum { N = 8192, TERMS = 24, CHAIN = 64, TINY = 16 };
  double seconds, tiny;
  const char *chain =
      arena_printf(b->s->arena, "z = x * 1\nfor i in 0..%d { z = z * x + 1 }\noutput y = z", TERMS);
  const char *calls = arena_printf(
      b->s->arena, "z = x * 1\nfor i in 0..%d { z = z / sum[n](z) }\noutput y = z", CHAIN);
  if (!probe_time(b, model(b, TINY, "output y = x * 2 + 1"), 5000, INSTR_END, &b->empty) ||
      !probe_time(b, model(b, N, chain), 200, INSTR_END, &seconds) ||
      !probe_time(b, model(b, TINY, calls), 200, INSTR_END, &tiny))
    return false;
  b->m.operations = 2.0 * TERMS * N * b->contexts / fmax(seconds - b->empty, 1e-9);
  b->m.launch = fmax((tiny - b->empty) / (CHAIN * b->contexts), 1e-9);
  return true;
}

// Fits flops and half to measured GEMMs of shape m x n x k: time / work = 1/flops + half/flops *
// (1/m + 1/n + 1/k). Least squares of the relative errors, so that all shapes have equal weight.
static bool measure_products(Sweep *b) {
  static const int shape[][3] = {{512, 512, 512}, {128, 128, 128}, {64, 64, 64},
                                 {32, 512, 512},  {512, 32, 512},  {512, 512, 32},
                                 {16, 256, 256},  {256, 16, 256},  {256, 256, 16}};
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (size_t i = 0; i < countof(shape); i++) {
    double m = shape[i][0], n = shape[i][1], k = shape[i][2], work = 2 * m * n * k, seconds;
    const char *text =
        arena_printf(b->s->arena,
                     "dim g = %d, m = %d, n = %d, k = %d\ninput x[g, m, k]\ninput w[g, k, n]\n"
                     "output y[g, m, n] = sum[k](x * w)\nmesh p = %d\nlayout g -> p\n",
                     b->processors, shape[i][0], shape[i][1], shape[i][2], b->processors);
    if (!probe_time(b, text, clamp64((int64_t)(1e9 / work), 3, 2000), INSTR_GEMM, &seconds))
      return false;
    seconds = seconds / b->contexts - b->m.launch;
    if (seconds <= 0) continue; // without a BLAS there is no INSTR_GEMM: a kernel computes it
    double u = work / seconds,
           v = u * (1 / m + 1 / n + 1 / k); // u x + v y = 1 for x = 1/flops, y = half/flops
    aa += u * u, ab += u * v, bb += v * v, a1 += u, b1 += v;
  }
  double det = aa * bb - ab * ab;
  if (det <= 0) return true;
  double x = (a1 * bb - b1 * ab) / det, y = (b1 * aa - a1 * ab) / det;
  if (x <= 0) return true;
  b->m.flops = 1 / x;
  b->m.half = y > 0 ? y / x : 0;
  return true;
}

// Measures bf16_flops by a large product of bf16, if the CPU has instructions for it.
static bool measure_bf16(Sweep *b) {
  enum { SIDE = 512 };
  double work = 2.0 * SIDE * SIDE * (SIDE + 3 * b->m.half), seconds;
  if (!bf16_gemm_open(NULL)) return true;
  const char *text = arena_printf(
      b->s->arena,
      "dim g = %d, m = %d, n = %d, k = %d\ninput x[g, m, k]: bf16\ninput w[g, k, n]: bf16\n"
      "output y[g, m, n] = sum[k](x * w)\nmesh p = %d\nlayout g -> p\n",
      b->processors, SIDE, SIDE, SIDE, b->processors);
  if (!probe_time(b, text, 20, INSTR_GEMM, &seconds)) return false;
  seconds = seconds / b->contexts - b->m.launch;
  if (seconds > 0) b->m.bf16_flops = work / seconds;
  return true;
}

static bool measure_links(Sweep *b) {
  enum { FEW = 16, MANY = 1 << 18 };
  double large;
  if (!probe_time(b, model(b, FEW, "output y = sum[g](x)"), 5000, INSTR_COLLECTIVE,
                  &b->m.latency) ||
      !probe_time(b, model(b, MANY, "output y = sum[g](x)"), 50, INSTR_COLLECTIVE, &large))
    return false;
  b->m.bandwidth = 4.0 * MANY * b->contexts / fmax(large - b->m.latency, 1e-9);
  return true;
}

// Returns the number of cores of this machine that all its ranks use, or that this process uses.
static int64_t cores_of(const Session *s, int64_t threads) {
  if (!s->ranks) return threads;
  int64_t all = (int64_t)ranks_cores(s->ranks, (int)threads) * ranks_local_count(s->ranks),
          machine = sysconf(_SC_NPROCESSORS_ONLN);
  return all < machine ? all : machine;
}

bool machine_measure(Session *s, Machine *out) {
  int64_t threads, sweeps;
  if (!option_integer(s->opt, OPTION_THREADS, cores_available(), 1, 4096, s->diag, &threads) ||
      !option_integer(s->opt, OPTION_STEPS, SWEEPS, 1, 1000, s->diag, &sweeps))
    return false;
  Sweep b = {.s = s, .m = *out};
  b.m.cores = (double)cores_of(s, threads);
  b.processors = s->ranks ? ranks_count(s->ranks) : (int)threads;
  if (b.processors < 2) b.processors = 2;
  b.m.shared = 1;
  b.m.overlap = 0;
  b.contexts = ceil((double)b.processors / b.m.cores);
  for (int64_t i = 0; i < sweeps; i++)
    if (!measure_kernels(&b) || !measure_memory(&b) || !measure_products(&b) || !measure_bf16(&b) ||
        !measure_links(&b))
      return false;
  *out = b.m;
  return true;
}
