// Measures the figures of this machine for a machine file (ir/program/machine.h). Small models are
// compiled and run on all cores (or ranks) at once. Each figure is chosen so that the simulator's
// formula (codegen/simulate/simulate_cost.c) gives the measured times of these models.
//
//   l2_rate, l3_rate, memory_rate   y = x * 2 + 1 on arrays of suitable sizes: bytes / time
//   operations                      one kernel with 48 additions and multiplications per element
//   launch                          a chain of kernels that multiply a row of 4 by a matrix
//   flops, half                     products of training steps of several shapes, least squares of
//                                   the relative errors
//   tile_flops, winograd_flops      kernels of a recurrence; convolutions
//   core_rate                       products and kernels that update a matrix in turn
//   latency, bandwidth              an all_reduce of a few bytes, and one of a MiB
#include "frontend/command/measure_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SWEEPS = 2 };
enum { MOST_HALF = F32_GEMM_PANEL / 2 }; // Machine.half, if half of each last panel is lost

// -- figures ------------------------------------------------------------------------------------

static const char *model(const Sweep *b, int64_t n, const char *lines) {
  return arena_printf(b->s->arena,
                      "dim g = %d, n = %lld\ninput x[g, n]\n%s\nmesh p = %d\nlayout g -> p\n",
                      b->processors, (long long)n, lines, b->processors);
}

// Measures the bytes per second that a core reads and writes, with a kernel that reads bytes / 2
// and writes bytes / 2 for each processor. Returns false after an error.
static bool stream_rate(Sweep *b, double bytes, double *out) {
  int64_t n = (int64_t)(bytes / 8), steps = clamp64((int64_t)(1e8 / bytes), 1, 2000);
  double seconds;
  if (!sweep_time(b, model(b, n, "output y = x * 2 + 1"), steps, INSTR_END, &seconds)) return false;
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
  enum { N = 8192, TERMS = 24, TINY = 16 };
  double seconds;
  const char *chain =
      arena_printf(b->s->arena, "z = x * 1\nfor i in 0..%d { z = z * x + 1 }\noutput y = z", TERMS);
  if (!sweep_time(b, model(b, TINY, "output y = x * 2 + 1"), 5000, INSTR_END, &b->empty) ||
      !sweep_time(b, model(b, N, chain), 200, INSTR_END, &seconds))
    return false;
  b->m.operations = 2.0 * TERMS * N * b->contexts / fmax(seconds - b->empty, 1e-9);
  return true;
}

// Measures the time of the start of a kernel by a chain of small kernels of one processor (with
// ranks: of one for each), without their work. The kernels are contractions, because reductions
// along one dim would become one kernel.
static bool measure_launch(Sweep *b) {
  enum { CHAIN = 64, SIDE = 4 };
  const char *lines = arena_printf(b->s->arena,
                                   "dim j = n\ninput u[j, n]\nz = x * 1\nfor i in 0..%d { z = "
                                   "sum[j](rename[n -> j](z) * u) }\noutput y = z",
                                   CHAIN);
  const char *alone = arena_printf(b->s->arena, "dim n = %d\ninput x[n]\n%s", SIDE, lines);
  const Probed *p = sweep_probe(b, b->s->ranks ? model(b, SIDE, lines) : alone, 2000, INSTR_END);
  if (!p) return false;
  Machine m = b->m;
  m.launch = 0;
  double work = sweep_simulated(b, p, INSTR_KERNEL, &m), meeting = b->s->ranks ? b->empty : 0;
  double chains = b->s->ranks ? b->contexts : 1;
  b->m.launch = fmax((p->seconds - meeting - work) / (CHAIN * chains), 1e-9);
  return true;
}

// Returns the text of a training step, which the cores of a processor share. With ranks each rank
// has a processor of its own.
static const char *training(const Sweep *b, const char *dims, const char *lines) {
  const char *mesh =
      b->s->ranks ? arena_printf(b->s->arena, "mesh p = %d\nlayout b -> p\n", b->processors) : "";
  return arena_printf(b->s->arena,
                      "dim %s\n%s\ntrain loss { optimizer = sgd(lr = 0), steps = 1 }\n%s", dims,
                      lines, mesh);
}

// The sums of a least squares fit of x and y, for which u x + v y = 1 should hold.
typedef struct Fit {
  double uu, uv, vv, u, v;
} Fit;

// Adds to f the products of a training step of two layers, forward and backward. Their simulated
// time is rest + work / flops + small * half / flops.
static bool add_products(Sweep *b, const int size[3], Fit *f) {
  double flops = 10.0 * size[0] * size[1] * size[2];
  const char *dims = arena_printf(b->s->arena, "b = %d, i = %d, h = %d, o = i",
                                  size[0] * (b->s->ranks ? b->processors : 1), size[1], size[2]);
  const char *text = training(b, dims,
                              "input x[b, i]\ninput y[b, o]\nparam v[i, h] ~ glorot(i, h)\n"
                              "param w[h, o] ~ glorot(h, o)\n"
                              "loss = mean(square(sum[h](relu(sum[i](x * v)) * w) - y))");
  const Probed *p = sweep_probe(b, text, clamp64((int64_t)(4e8 / flops), 1, 200), INSTR_GEMM);
  if (!p) return false;
  Machine m = b->m;
  m.half = 0, m.flops = 1e30;
  double rest = sweep_simulated(b, p, INSTR_GEMM, &m);
  m.flops = 1;
  double work = sweep_simulated(b, p, INSTR_GEMM, &m) - rest;
  m.half = 1;
  double small = sweep_simulated(b, p, INSTR_GEMM, &m) - rest - work, seconds = p->seconds - rest;
  if (seconds <= 0 || work <= 0) return true; // without a BLAS kernels compute the products
  double u = work / seconds, v = small / seconds;
  f->uu += u * u, f->uv += u * v, f->vv += v * v, f->u += u, f->v += v;
  return true;
}

static bool measure_products(Sweep *b) {
  static const int size[][3] = {
      {64, 784, 128}, {768, 128, 512}, {2048, 128, 1024}, {1024, 256, 1024}, {256, 768, 2048}};
  Fit f = {0};
  for (size_t i = 0; i < countof(size); i++)
    if (!add_products(b, size[i], &f)) return false;
  double det = f.uu * f.vv - f.uv * f.uv;
  if (det <= 0) return true;
  double x = (f.u * f.vv - f.v * f.uv) / det, y = (f.v * f.uu - f.u * f.uv) / det;
  double half = x > 0 ? fmax(fmin(y / x, MOST_HALF), 0) : 0;
  // the best x for y = half * x
  b->m.flops = (f.uu + half * (2 * f.uv + half * f.vv)) / (f.u + half * f.v);
  b->m.half = half;
  return true;
}

static bool fit_kernels(Sweep *b, const char *text, double low, double high, double *figure) {
  const Probed *p = sweep_probe(b, text, 1, INSTR_KERNEL);
  return p && (sweep_fit(b, p, INSTR_KERNEL, low, high, figure), true);
}

static bool measure_tiles(Sweep *b) {
  const char *recurrence = training(
      b, arena_printf(b->s->arena, "b = %d, t = 16, k = 256, j = k, n = 1024", 32 * b->processors),
      "input x[b, n]\ninput y[b, k]\nparam u[j, n] ~ glorot(j, n)\nparam v[n, k] ~ glorot(n, k)\n"
      "scan t (h[b, k] = 0) {\n  h = tanh(sum[n]((x + sum[j](rename[k -> j](h) * u)) * v))\n}\n"
      "loss = mean(square(h - y))");
  const char *images = training(
      b,
      arena_printf(b->s->arena, "b = %d, y = 16, x = 16, ky = 3, kx = 3, c = 64, d = 64",
                   16 * b->processors),
      "input image[b, y, x, c]\ninput z[b, y, x, c]\nparam v[ky, kx, c, d] ~ he(ky, kx, c)\n"
      "param w[ky, kx, d, c] ~ he(ky, kx, d)\n"
      "a = sum[ky, kx, c](window[x -> x, kx](window[y -> y, ky](image, pad = same), pad = same) * "
      "v)\n"
      "r = sum[ky, kx, d](window[x -> x, kx](window[y -> y, ky](a, pad = same), pad = same) * w)\n"
      "loss = mean(square(r - z))");
  double low = b->m.flops / 8, high = b->m.flops * 2;
  return fit_kernels(b, recurrence, low, high, &b->m.tile_flops) &&
         fit_kernels(b, images, low, high, &b->m.winograd_flops);
}

// Measures core_rate by a loop over an update of a matrix, which products read and write by columns
// and by rows. It is at least the rate of memory: what is left of the kernels' time is small, so
// that a disturbance would pass as a slow rate. A rank has one core for a processor.
static bool measure_cores(Sweep *b) {
  if (b->s->ranks || b->m.cores < 2) return true;
  const char *text = "dim b = 64, t = 64, i = 784, h = 128\n"
                     "input x[b, i]\nparam v[i, h] ~ glorot(i, h)\n"
                     "scan t (w[i, h] = v) { w = w + 0.001 * sum[b](x * tanh(sum[i](x * w))) }\n"
                     "output y = w";
  return fit_kernels(b, text, b->m.memory_rate, 1e12, &b->m.core_rate);
}

// Measures bf16_flops by a large product of bf16, if the CPU has instructions for it.
static bool measure_bf16(Sweep *b) {
  enum { SIDE = 512 };
  double work = 2.0 * SIDE * SIDE * (SIDE + 3 * b->m.half), seconds;
  if (!product_way(TYPE_BF16, NULL)) return true;
  const char *text = arena_printf(
      b->s->arena,
      "dim g = %d, m = %d, n = %d, k = %d\ninput x[g, m, k]: bf16\ninput w[g, k, n]: bf16\n"
      "output y[g, m, n] = sum[k](x * w)\nmesh p = %d\nlayout g -> p\n",
      b->processors, SIDE, SIDE, SIDE, b->processors);
  if (!sweep_time(b, text, 20, INSTR_GEMM, &seconds)) return false;
  seconds = seconds / b->contexts - b->m.launch;
  if (seconds > 0) b->m.bf16_flops = work / seconds;
  return true;
}

static bool measure_links(Sweep *b) {
  enum { FEW = 16, MANY = 1 << 18 };
  double large;
  if (!sweep_time(b, model(b, FEW, "output y = sum[g](x)"), 5000, INSTR_COLLECTIVE,
                  &b->m.latency) ||
      !sweep_time(b, model(b, MANY, "output y = sum[g](x)"), 50, INSTR_COLLECTIVE, &large))
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
    if (!measure_kernels(&b) || !measure_memory(&b) || !measure_launch(&b) ||
        !measure_products(&b) || !measure_tiles(&b) || !measure_cores(&b) || !measure_bf16(&b) ||
        !measure_links(&b))
      return false;
  *out = b.m;
  return true;
}
