// Measures the figures of the GPU for a machine file (ir/program/machine.h), with small models of
// one processor. Each figure is chosen so that the simulator's formula
// (codegen/simulate/simulate_gpu.c) gives the measured time. Figures that are not measured remain
// those of a GPU that meshc knows: half, tile_flops, tf32_flops.
//
//   launch                 a chain of small kernels, and one twice as long: the difference of steps
//   memory_rate, l3_rate   y = x * 2 + 1 on arrays that do not and that do fit the cache
//   operations             one kernel with 512 additions and multiplications per element
//   flops by type          a square product
//   latency, bandwidth     all_reduce of two processors on the GPU, of a few bytes and of 64 MiB
//
// Times are those of the GPU's clock, except of `launch`, for which whole steps are timed.
#include "frontend/command/measure_internal.h"

// Sizes of the models. Those for the emulator are small: tests only look whether all figures are
// there.
typedef struct GpuSizes {
  int64_t stream; // elements that do not fit the cache
  int64_t side;   // of the products
  int64_t shared; // elements of the large all_reduce
} GpuSizes;
static GpuSizes sizes_for(const GpuFacts *f) {
  return f->emulated ? (GpuSizes){1 << 12, 128, 1 << 12} : (GpuSizes){1 << 26, 4096, 1 << 24};
}

enum { SWEEPS = 2, STEPS = 10 };
static const double lowest = 1, highest = 1e18; // of any rate

// Measures a rate by the instructions of a kind in a model. Without such instructions it stays as
// it is. Returns false after an error.
static bool fit_rate(Sweep *b, const char *text, InstrKind kind, double *rate) {
  const Probed *p = sweep_probe(b, text, STEPS, kind);
  if (p && p->seconds > 0) sweep_fit(b, p, kind, lowest, highest, rate);
  return p != NULL;
}

static const char *elements(const Sweep *b, int64_t n, const char *lines) {
  return arena_printf(b->s->arena, "dim n = %lld\ninput x[n]\n%s", (long long)n, lines);
}

// Each link of the chain is a contraction, because elementwise operations would become one kernel.
static bool chain_time(Sweep *b, int links, double *out) {
  enum { SIDE = 4 };
  const char *lines = arena_printf(b->s->arena,
                                   "dim j = n\ninput u[j, n]\nz = x * 1\nfor i in 0..%d { z = "
                                   "sum[j](rename[n -> j](z) * u) }\noutput y = z",
                                   links);
  return sweep_time(b, elements(b, SIDE, lines), STEPS * STEPS, INSTR_END, out);
}

static bool measure_launch(Sweep *b) {
  enum { CHAIN = 64 };
  double one, two;
  if (!chain_time(b, CHAIN, &one) || !chain_time(b, 2 * CHAIN, &two)) return false;
  if (two > one) b->m.launch = (two - one) / CHAIN;
  return true;
}

static bool measure_kernels(Sweep *b, const GpuSizes *z) {
  // BYTES: of the cache, for each element of an array that has to fit it: 4 of x, 4 of y, and as
  // many that stay free.
  enum { TERMS = 256, BYTES = 16 };
  const char *stream = "output y = x * 2 + 1";
  const char *chain =
      arena_printf(b->s->arena, "z = x * 1\nfor i in 0..%d { z = z * x + 1 }\noutput y = z", TERMS);
  int64_t near = b->m.l3 / BYTES < z->stream ? b->m.l3 / BYTES : z->stream / 2;
  return fit_rate(b, elements(b, z->stream, stream), INSTR_KERNEL, &b->m.memory_rate) &&
         fit_rate(b, elements(b, near, stream), INSTR_KERNEL, &b->m.l3_rate) &&
         fit_rate(b, elements(b, z->stream / 8, chain), INSTR_KERNEL, &b->m.operations);
}

static bool measure_products(Sweep *b, const GpuSizes *z) {
  const struct {
    const char *type;
    double *rate;
  } row[] = {{"f32", &b->m.flops}, {"bf16", &b->m.bf16_flops}, {"f64", &b->m.f64_flops}};
  for (size_t i = 0; i < countof(row); i++) {
    const char *text =
        arena_printf(b->s->arena,
                     "dim m = %lld, n = m, k = m\ninput x[m, k]: %s\ninput w[k, n]: %s\n"
                     "output y[m, n] = sum[k](x * w)\n",
                     (long long)z->side, row[i].type, row[i].type);
    if (!fit_rate(b, text, INSTR_GEMM, row[i].rate)) return false;
  }
  return true;
}

static const char *shared_sum(const Sweep *b, int64_t n) {
  return arena_printf(b->s->arena,
                      "dim g = 2, n = %lld\ninput x[g, n]\noutput y = sum[g](x)\nmesh p = 2\n"
                      "layout g -> p\n",
                      (long long)n);
}

static bool measure_collectives(Sweep *b, const GpuSizes *z) {
  enum { FEW = 16 };
  return sweep_time(b, shared_sum(b, FEW), STEPS, INSTR_COLLECTIVE, &b->m.latency) &&
         fit_rate(b, shared_sum(b, z->shared), INSTR_COLLECTIVE, &b->m.bandwidth);
}

bool gpu_measure(Session *s, Machine *out) {
  int64_t sweeps;
  if (!option_integer(s->opt, OPTION_STEPS, SWEEPS, 1, 1000, s->diag, &sweeps)) return false;
  Sweep b = {.s = s, .m = *out};
  GpuSizes z = sizes_for(gpu_facts(s->gpu));
  for (int64_t i = 0; i < sweeps; i++)
    if (!measure_launch(&b) || !measure_kernels(&b, &z) || !measure_products(&b, &z) ||
        !measure_collectives(&b, &z))
      return false;
  *out = b.m;
  return true;
}
