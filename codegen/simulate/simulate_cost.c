// What instructions cost one processor by a machine's figures: bytes by the cache that they come
// from, operations, launches; of a collective its time on the link, or in the memory that
// processors share.
#include <math.h>
#include <string.h>

#include "codegen/simulate/simulate_internal.h"

// -- what lies where ----------------------------------------------------------------------------

void sim_zones(Sim *s) {
  uint32_t n = s->p->ntensors;
  s->zone = arena_array(s->a, Zone, n + 1);
  for (uint32_t i = 0; i <= n; i++) {
    Zone *r = &s->zone[i];
    bool persistent = i < n && s->p->tensor[i].at.tensor == (int32_t)i;
    r->bytes = i == n ? s->p->arena_bytes : persistent ? s->p->tensor[i].bytes : 0;
    r->granule = 4096;
    while (r->bytes / r->granule > ZONE_GRANULES) r->granule *= 2;
    r->last = arena_array(s->a, Touch, r->bytes / r->granule + 1);
  }
}

static Zone *zone_of(Sim *s, Ref r) {
  return &s->zone[r.tensor < 0 ? s->p->ntensors : (uint32_t)r.tensor];
}

// Bytes that others have touched since, as the caches of the core and of the machine see it.
static void reuse_distance(const Sim *s, const Touch *t, double now, double *core,
                           double *machine) {
  double since = now - t->at;
  bool apart = t->segment != s->segment; // the core's other processors have run since
  *core = since * (apart ? s->contexts : 1) / s->team;
  *machine =
      since * (s->m->cores > 0 ? apart ? s->processors : fmin(s->processors, s->m->cores) : 1);
}

// `bytes` of the `span` bytes from there on are read or written.
static void touch(Sim *s, CacheTraffic *t, Ref ref, int64_t span, double bytes, bool other_core) {
  Zone *r = zone_of(s, ref);
  int64_t lo = clamp64(sim_offset(s, ref), 0, r->bytes), hi = clamp64(lo + span, lo, r->bytes);
  if (hi == lo || bytes <= 0) return;
  int64_t first = lo / r->granule, end = ceil_div(hi, r->granule);
  double each = bytes / (double)(end - first);
  for (int64_t i = first; i < end; i++) {
    Touch *last = &r->last[i];
    double core, machine;
    reuse_distance(s, last, s->touched + (double)(i - first) * each, &core, &machine);
    if (last->seen && !last->other_core && !other_core && core < (double)s->m->l2)
      t->l2 += each;
    else if (last->seen && machine < (double)s->m->l3)
      t->l3 += each;
    else
      t->memory += each;
  }
  for (int64_t i = first; i < end; i++)
    r->last[i] = (Touch){s->touched + (double)(i - first) * each, s->segment, true, other_core};
  s->touched += bytes;
}

static double traffic_seconds(const Sim *s, const CacheTraffic *t) {
  const Machine *m = s->m;
  double l2 = m->l2_rate > 0 ? m->l2_rate : m->memory_rate,
         l3 = m->l3_rate > 0 ? m->l3_rate : m->memory_rate;
  return t->l2 / l2 + t->l3 / l3 + t->memory / m->memory_rate;
}

// -- instructions -------------------------------------------------------------------------------

double sim_size(const Sim *s, Size x) {
  return (double)x.base * (x.slot < 0 ? 1 : (double)program_slot(s->p, x.slot, 0, -1));
}

// Seconds of work that the cores of a processor share, `parts` pieces of it; alone: too little to
// share.
static double shared_out(const Sim *s, double seconds, double parts, bool alone) {
  if (s->team <= 1) return seconds * s->contexts;
  if (alone || parts < 1) return seconds;
  return seconds * ceil(parts / s->team) / parts + s->m->latency;
}

static double kernel_seconds(Sim *s, const KernelLaunch *l) {
  const Kernel *k = s->c->kernels[l->kernel];
  double operations = 0, units = 0;
  CacheTraffic t = {0};
  for (uint32_t i = 0; i < l->nsets; i++) {
    const KernelSet *set = &l->set[i];
    double extent[MAX_LOOPS];
    sim_extents(s, k, set, extent);
    operations += kernel_operations(s->a, k, extent);
    units += sim_size(s, set->units);
    for (int p = 0; p < k->nptr; p++) {
      PointerSpan r = kernel_pointer_span(k, p, extent);
      if (r.indirect)
        r.span = sim_bytes_from(s, set->ptr[p]),
        r.bytes = fmin(r.bytes, (double)r.span); // again is out of l1
      touch(s, &t, set->ptr[p], r.span, r.bytes, false);
    }
  }
  t.l2 += 2.0 * (double)s->p->kernel[l->kernel].partial_bytes * (double)l->chunks;
  double work = s->m->operations > 0 ? operations / s->m->operations : 0;
  double chunks = (double)(l->chunks > 0 ? l->chunks : 1);
  return shared_out(s, fmax(work, traffic_seconds(s, &t)) + s->m->launch, chunks,
                    units <= (double)l->grain);
}

static int64_t matrix_span(bool transposed, double rows, double cols, int64_t ld, int64_t element) {
  double major = transposed ? cols : rows, minor = transposed ? rows : cols;
  return major < 1 ? 0 : ((int64_t)(major - 1) * ld + (int64_t)minor) * element;
}

static int64_t batch_span(const Sim *s, const Gemm *p, int operand) {
  int64_t last = 0;
  for (int i = 0; i < p->nbatch; i++) {
    int64_t stride = operand == 0 ? p->batch[i].a : operand == 1 ? p->batch[i].b : p->batch[i].c;
    last += ((int64_t)sim_size(s, p->batch[i].count) - 1) * stride;
  }
  return last * dtype_bytes(p->type);
}

void sim_gemm_spans(const Sim *s, const Gemm *p, int64_t span[3]) {
  double m = sim_size(s, p->m), n = sim_size(s, p->n), k = sim_size(s, p->k);
  int64_t element = dtype_bytes(p->type);
  span[0] = batch_span(s, p, 0) + matrix_span(p->ta, m, k, p->lda, element);
  span[1] = batch_span(s, p, 1) + matrix_span(p->tb, k, n, p->ldb, element);
  span[2] = batch_span(s, p, 2) + matrix_span(false, m, n, p->ldc, element);
}

static double gemm_seconds(Sim *s, const Gemm *p) {
  double m = sim_size(s, p->m), n = sim_size(s, p->n), k = sim_size(s, p->k), batch = 1;
  for (int i = 0; i < p->nbatch; i++) batch *= sim_size(s, p->batch[i].count);
  int64_t span[3];
  sim_gemm_spans(s, p, span);
  CacheTraffic t = {0};
  double element = (double)dtype_bytes(p->type), each = batch * element;
  touch(s, &t, p->a, span[0], each * m * k, false);
  touch(s, &t, p->b, span[1], each * k * n, false);
  touch(s, &t, p->c, span[2], each * m * n, false);
  t.l2 = 0; // panels come from there while others are computed with
  bool alone = 2 * m * n * k * batch < SOLO_FLOPS;
  double parts =
      batch >= 2 * s->team ? batch : s->team; // a part of a lone product is a panel of it
  if (!alone && batch < 2 * s->team) m >= n ? (m /= s->team) : (n /= s->team), batch *= s->team;
  double flops = s->m->flops * 4 / element;
  double work = 2 * batch * (m * n * k + s->m->half * (m * n + n * k + k * m)) / flops;
  return shared_out(s, work + traffic_seconds(s, &t) + batch * s->m->launch, parts, alone);
}

static double copy_seconds(Sim *s, Ref dst, const Ref *src, int64_t bytes) {
  CacheTraffic t = {0};
  if (src) touch(s, &t, *src, bytes, (double)bytes, false);
  touch(s, &t, dst, bytes, (double)bytes, false);
  return shared_out(s, traffic_seconds(s, &t) + s->m->launch, (double)bytes / 4096,
                    bytes < SOLO_BYTES);
}

// Comparisons of a sort, one addition an element otherwise; one element at a time.
static double ordered_seconds(Sim *s, const Ordered *o) {
  bool sorts = o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K;
  double n = sim_size(s, o->n), rows = 1, element = (double)dtype_bytes(o->type);
  for (int i = 0; i < o->nrows; i++) rows *= sim_size(s, o->row[i].count);
  CacheTraffic t = {0};
  touch(s, &t, o->src, sim_bytes_from(s, o->src), n * rows * element, false);
  touch(s, &t, o->dst, sim_bytes_from(s, o->dst),
        (o->kind == ORDERED_TOP_K ? (double)o->k : n) * rows * element, false);
  double operations = n * rows * LANES * (sorts ? 4 * log2(n + 1) : 2);
  double work = s->m->operations > 0 ? operations / s->m->operations : 0;
  return shared_out(s, fmax(work, traffic_seconds(s, &t)) + s->m->launch, rows,
                    rows * n < SOLO_ORDERED);
}

// -- collectives --------------------------------------------------------------------------------

int64_t part_bytes(const CollPart *p, const int64_t *block, Dtype type) {
  int64_t n = dtype_bytes(type);
  for (int d = 0; d < p->rank; d++) n *= block[d];
  return n;
}

// In one memory the members of a group together read each source once and write each destination.
// What another core has written is in the caches of both at best.
static double shared_seconds(Sim *s, const Collective *w) {
  CacheTraffic t = {0};
  double bytes = 0;
  for (uint32_t i = 0; i < w->nparts; i++) {
    const CollPart *p = &w->part[i];
    int64_t from = part_bytes(p, p->src_block, w->type), to = part_bytes(p, p->dst_block, w->type);
    touch(s, &t, p->src, from, (double)from, true);
    touch(s, &t, p->dst, to, (double)to, true);
    bytes += (double)(from + to);
  }
  double each = fmax(traffic_seconds(s, &t),
                     bytes / (2 * s->m->bandwidth)); // one that is sent is read and written
  return coll_latency(s->m, &s->p->mesh, w->kind, w->axes) + each * s->contexts / s->team;
}

static double link_seconds(Sim *s, const Collective *w) {
  CacheTraffic none = {0};
  for (uint32_t i = 0; i < w->nparts; i++) {
    const CollPart *p = &w->part[i];
    int64_t to = part_bytes(p, p->dst_block, w->type);
    touch(s, &none, p->dst, to, (double)to, true);
  }
  return coll_seconds(s->m, &s->p->mesh, w->kind, w->axes, w->bytes);
}

// -- any of them --------------------------------------------------------------------------------

double sim_seconds(Sim *s, const Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: return kernel_seconds(s, &in->u.kernel);
  case INSTR_GEMM: return gemm_seconds(s, &in->u.gemm);
  case INSTR_ORDERED: return ordered_seconds(s, &in->u.ordered);
  case INSTR_FILL: return copy_seconds(s, in->u.fill.dst, NULL, in->u.fill.bytes);
  case INSTR_COPY: return copy_seconds(s, in->u.copy.dst, &in->u.copy.src, in->u.copy.bytes);
  case INSTR_COLLECTIVE:
    s->segment++;
    return s->m->shared > 0 ? shared_seconds(s, &in->u.collective)
                            : link_seconds(s, &in->u.collective);
  case INSTR_COMMIT: s->segment++; return s->processors > 1 ? s->m->latency : 0;
  case INSTR_LOOP:
  case INSTR_END: return 0;
  }
  BUG("an instruction of kind %d", (int)in->kind);
}
