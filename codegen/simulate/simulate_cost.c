// The seconds that an instruction takes one processor, by the figures of a machine: bytes by the
// cache that they come from, operations, launches; for a collective its time on the link, or in the
// memory that the processors share.
#include <math.h>

#include "codegen/simulate/simulate_internal.h"

enum { COPY_PIECE = 4096 };

static double traffic_seconds(const Sim *s, const CacheTraffic *t) {
  const Machine *m = s->m;
  double l2 = m->l2_rate > 0 ? m->l2_rate : m->memory_rate,
         l3 = m->l3_rate > 0 ? m->l3_rate : m->memory_rate;
  return t->l2 / l2 + t->l3 / l3 + t->memory / m->memory_rate;
}

static double operation_seconds(const Sim *s, double operations) {
  return s->m->operations > 0 ? operations / s->m->operations : 0;
}

// `seconds` of work in `parts` pieces, shared out among the cores of a processor. alone: the work
// is too little to share.
static double shared_out(const Sim *s, double seconds, double parts, bool alone) {
  if (s->team <= 1) return seconds * s->contexts;
  if (alone || parts < 1) return seconds;
  return seconds * ceil(parts / s->team) / parts + s->m->latency;
}

static double kernel_seconds(Sim *s, const KernelLaunch *l) {
  const Kernel *k = s->c->kernels[l->kernel];
  double operations = 0, units = 0;
  for (uint32_t i = 0; i < l->nsets; i++) {
    double extent[MAX_LOOPS];
    sim_extents(s, k, &l->set[i], extent);
    operations += kernel_operations(s->a, k, extent);
    units += sim_size(s, l->set[i].units);
  }
  CacheTraffic t = sim_touch(s, false, false);
  t.l2 += 2.0 * (double)s->p->kernel[l->kernel].partial_bytes * (double)l->chunks;
  double chunks = (double)(l->chunks > 0 ? l->chunks : 1);
  double work = fmax(operation_seconds(s, operations), traffic_seconds(s, &t));
  return shared_out(s, work + s->m->launch, chunks, units <= (double)l->grain);
}

// Several GEMMs of a batch run at the same time; a single large one is split into panels.
static double gemm_seconds(Sim *s, const Gemm *g) {
  double m = sim_size(s, g->m), n = sim_size(s, g->n), k = sim_size(s, g->k), batch = 1;
  for (int i = 0; i < g->nbatch; i++) batch *= sim_size(s, g->batch[i].count);
  CacheTraffic t = sim_touch(s, false, false);
  t.l2 = 0; // hidden: the next panel is read while this one is computed with
  bool alone = gemm_flops(m, n, k, batch) < SOLO_FLOPS, panels = batch < 2 * s->team;
  double parts = panels ? s->team : batch;
  if (!alone && panels) m >= n ? (m /= s->team) : (n /= s->team), batch *= s->team;
  double flops = s->m->flops * 4 / (double)dtype_bytes(g->type);
  double work = 2 * batch * (m * n * k + s->m->half * (m * n + n * k + k * m)) / flops;
  return shared_out(s, work + traffic_seconds(s, &t) + batch * s->m->launch, parts, alone);
}

static double copy_seconds(Sim *s, int64_t bytes) {
  CacheTraffic t = sim_touch(s, false, false);
  return shared_out(s, traffic_seconds(s, &t) + s->m->launch, (double)bytes / COPY_PIECE,
                    bytes < SOLO_BYTES);
}

// A sort compares, the others add; both take one element at a time.
static double ordered_seconds(Sim *s, const Ordered *o) {
  bool sorts = o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K;
  double n = sim_size(s, o->n), rows = 1;
  for (int i = 0; i < o->nrows; i++) rows *= sim_size(s, o->row[i].count);
  CacheTraffic t = sim_touch(s, false, false);
  double work = operation_seconds(s, n * rows * LANES * (sorts ? 4 * log2(n + 1) : 2));
  return shared_out(s, fmax(work, traffic_seconds(s, &t)) + s->m->launch, rows,
                    rows * n < SOLO_ORDERED);
}

// In shared memory the members of a group together read each source once and write each destination
// once. What another core has written is in the third-level cache at best.
static double shared_seconds(Sim *s, const Collective *w) {
  double bytes = 0;
  for (uint32_t i = 0; i < s->access.n; i++) bytes += s->access.at[i].bytes;
  CacheTraffic t = sim_touch(s, false, true);
  double each =
      fmax(traffic_seconds(s, &t), bytes / (2 * s->m->bandwidth)); // bytes are read or written
  return coll_latency(s->m, &s->p->mesh, w->kind, w->axes) + each * s->contexts / s->team;
}

static double collective_seconds(Sim *s, const Collective *w) {
  s->segment++;
  if (s->m->shared > 0) return shared_seconds(s, w);
  (void)sim_touch(s, true, true);
  return coll_seconds(s->m, &s->p->mesh, w->kind, w->axes, w->bytes);
}

double sim_seconds(Sim *s, const Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: return kernel_seconds(s, &in->u.kernel);
  case INSTR_GEMM: return gemm_seconds(s, &in->u.gemm);
  case INSTR_ORDERED: return ordered_seconds(s, &in->u.ordered);
  case INSTR_FILL: return copy_seconds(s, in->u.fill.bytes);
  case INSTR_COPY: return copy_seconds(s, in->u.copy.bytes);
  case INSTR_COLLECTIVE: return collective_seconds(s, &in->u.collective);
  case INSTR_COMMIT: s->segment++; return s->processors > 1 ? s->m->latency : 0;
  case INSTR_LOOP:
  case INSTR_END: return 0;
  }
  BUG("an instruction of kind %d", (int)in->kind);
}
