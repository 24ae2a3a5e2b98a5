// The memory accesses of an instruction, and the seconds that it takes one processor. The seconds
// follow from the figures of a machine: bytes by the cache that they come from, operations,
// launches. A collective takes its time on the link, or in the memory that the processors share.
#include <math.h>
#include <string.h>

#include "codegen/simulate/simulate_internal.h"

enum { COPY_PIECE = 4096 }; // bytes of a copy that one core moves at a time

static double traffic_seconds(const Sim *s, const CacheTraffic *t) {
  const Machine *m = s->m;
  double l2 = m->l2_rate > 0 ? m->l2_rate : m->memory_rate,
         l3 = m->l3_rate > 0 ? m->l3_rate : m->memory_rate;
  return t->l2 / l2 + t->l3 / l3 + t->memory / m->memory_rate +
         (t->core > 0 ? t->core / m->core_rate : 0);
}

static double operation_seconds(const Sim *s, double operations) {
  return s->m->operations > 0 ? operations / s->m->operations : 0;
}

static double work_seconds(const Sim *s, const KernelWork *w) {
  return operation_seconds(s, w->operations) + w->tiles / machine_tile_flops(s->m) +
         w->winograd / machine_winograd_flops(s->m);
}

// Returns the seconds that the cores of a processor need for work that takes one core `seconds`.
// The work has `parts` equal parts, which the cores share. alone: the work is so small that one
// core does all of it. s->parts, of one core before, is adapted.
static double shared_out(Sim *s, double seconds, double parts, bool alone) {
  if (s->team <= 1) return seconds * s->contexts;
  if (alone || parts < 1) return seconds;
  double share = ceil(parts / s->team) / parts;
  SimParts *p = &s->parts;
  *p = (SimParts){p->operations * share, p->bytes * share, p->latency * share + s->m->latency};
  return seconds * share + s->m->latency;
}

void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]) {
  for (int i = 0; i < k->nouter + k->ninner + k->ndots; i++) {
    const KLoop *l = &k->loop[i];
    int32_t slot = l->slot >= 0 ? set->slot[l->slot] : -1;
    extent[i] = slot >= 0 ? (double)program_slot(s->p, slot, 0, -1) : (double)l->size;
  }
}

// The work of a kernel, and the numbers of iterations for which it was computed last.
typedef struct KnownWork {
  bool any;
  double extent[MAX_LOOPS];
  KernelWork work;
} KnownWork;

// Returns kernel_work. Equal layers of a model launch one kernel with equal extents.
static KernelWork work_of(Sim *s, uint32_t kernel, const double extent[MAX_LOOPS]) {
  const Kernel *k = s->c->kernels[kernel];
  size_t bytes = sizeof *extent * (size_t)(k->nouter + k->ninner + k->ndots);
  if (!s->work) s->work = arena_array(s->a, KnownWork, s->p->nkernels);
  KnownWork *known = &s->work[kernel];
  if (known->any && !memcmp(known->extent, extent, bytes)) return known->work;
  known->any = true;
  memcpy(known->extent, extent, bytes);
  return known->work = kernel_work(s->a, k, extent);
}

static double kernel_seconds(Sim *s, const KernelLaunch *l) {
  const Kernel *k = s->c->kernels[l->kernel];
  double units = 0, work = 0;
  for (uint32_t i = 0; i < l->nsets; i++) {
    double extent[MAX_LOOPS];
    sim_extents(s, k, &l->set[i], extent);
    for (int p = 0; p < k->nptr; p++) kernel_access(s, k, p, l->set[i].ptr[p], extent);
    KernelWork w = work_of(s, l->kernel, extent);
    work += work_seconds(s, &w);
    units += sim_size(s, l->set[i].units);
  }
  CacheTraffic t = sim_touch(s, false, false);
  t.l2 += 2.0 * (double)s->p->kernel[l->kernel].partial_bytes * (double)l->chunks;
  double chunks = (double)(l->chunks > 0 ? l->chunks : 1);
  s->parts = (SimParts){work, traffic_seconds(s, &t), s->m->launch};
  double seconds = fmax(work, s->parts.bytes) + s->m->launch;
  return shared_out(s, seconds, chunks, units <= (double)l->grain);
}

// Returns the bytes from the start of a matrix to the end of its last element. Its rows, or its
// columns if it is transposed, begin `ld` elements apart. element: bytes of one element.
static int64_t matrix_span(bool transposed, double rows, double cols, int64_t ld, int64_t element) {
  double major = transposed ? cols : rows, minor = transposed ? rows : cols;
  return major < 1 ? 0 : ((int64_t)(major - 1) * ld + (int64_t)minor) * element;
}

// Records the accesses to the operands of an epilogue. span: bytes from the first to the last
// element of C. n: columns of C. rows: rows of C in all batches together.
static void extra_access(Sim *s, const Gemm *g, int64_t span, double n, double rows) {
  double row = n * (double)dtype_bytes(g->type);
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    const Ref *at = gemm_extra(g, i);
    bool vector = i == GEMM_BIAS;
    if (at)
      sim_access(s, *at, vector ? (int64_t)row : span, vector ? row : rows * row,
                 gemm_writes_extra(g, i));
  }
}

GemmSizes gemm_accesses(Sim *s, const Gemm *g) {
  double m = sim_size(s, g->m), n = sim_size(s, g->n), k = sim_size(s, g->k), batch = 1;
  // a, b, c: elements from the first to the last matrix of a batch.
  int64_t element = dtype_bytes(g->factors), result = dtype_bytes(g->type), a = 0, b = 0, c = 0;
  for (int i = 0; i < g->nbatch; i++) {
    double count = sim_size(s, g->batch[i].count);
    batch *= count;
    a += ((int64_t)count - 1) * g->batch[i].a;
    b += ((int64_t)count - 1) * g->batch[i].b;
    c += ((int64_t)count - 1) * g->batch[i].c;
  }
  double each = batch * (double)element;
  sim_access(s, g->a, a * element + matrix_span(g->ta, m, k, g->lda, element), each * m * k, false);
  sim_access(s, g->b, b * element + matrix_span(g->tb, k, n, g->ldb, element), each * k * n, false);
  sim_access(s, g->c, c * result + matrix_span(false, m, n, g->ldc, result),
             batch * (double)result * m * n, true);
  extra_access(s, g, c * result + matrix_span(false, m, n, g->ldc, result), n, batch * m);
  return (GemmSizes){m, n, k, batch};
}

// Returns the seconds of a GEMM instruction. The products of a batch run at the same time on the
// cores of a processor; a single large product is split into panels, one for each core.
static double gemm_seconds(Sim *s, const Gemm *g) {
  GemmSizes z = gemm_accesses(s, g);
  double m = z.m, n = z.n, k = z.k, batch = z.batch;
  bool alone = gemm_flops(m, n, k, batch) < SOLO_FLOPS;
  GemmDivision d =
      gemm_division(g, (int64_t)m, (int64_t)n, (int64_t)batch, alone ? 1 : (int64_t)s->team);
  bool panels = d.by != GEMM_BY_BATCH, columns = d.by == GEMM_BY_COLUMNS;
  s->access.at[0].ranges = !alone && !columns && (!panels || !g->ta);
  s->access.at[1].ranges = !alone && (!panels || (columns && g->tb));
  s->access.at[2].ranges = !alone && !columns;
  CacheTraffic t = sim_touch(s, false, false);
  t.l2 = 0; // needs no time of its own: a panel is read while the one before is multiplied
  double work = gemm_share(g, (int64_t)m, (int64_t)n, (int64_t)k);
  double parts = panels ? s->team : batch;
  if (!alone && panels) columns ? (n /= s->team) : (m /= s->team), batch *= s->team;
  work *= 2 * batch * (m * n * k + s->m->half * (m * n + n * k + k * m)) /
          machine_flops(s->m, g->factors);
  s->parts = (SimParts){work, traffic_seconds(s, &t), batch * s->m->launch};
  return shared_out(s, work + s->parts.bytes + s->parts.latency, parts, alone);
}

static double copy_seconds(Sim *s, const Ref *src, Ref dst, int64_t bytes) {
  if (src) sim_access(s, *src, bytes, (double)bytes, false);
  sim_access(s, dst, bytes, (double)bytes, true);
  CacheTraffic t = sim_touch(s, false, false);
  s->parts = (SimParts){0, traffic_seconds(s, &t), s->m->launch};
  return shared_out(s, s->parts.bytes + s->m->launch, (double)bytes / COPY_PIECE,
                    bytes < SOLO_BYTES);
}

double ordered_rows(const Sim *s, const Ordered *o) {
  double rows = 1;
  for (int i = 0; i < o->nrows; i++) rows *= sim_size(s, o->row[i].count);
  return rows;
}

void ordered_accesses(Sim *s, const Ordered *o, double rows) {
  double n = sim_size(s, o->n), element = (double)dtype_bytes(o->type);
  double results = o->kind == ORDERED_TOP_K ? (double)o->k : n;
  sim_access(s, o->src, sim_bytes_behind(s, o->src), n * rows * element, false);
  sim_access(s, o->dst, sim_bytes_behind(s, o->dst), results * rows * element, true);
}

// Returns the seconds of an ordered operation (a sort or a cumulative operation), which takes one
// element at a time. An element costs 4 log2(n + 1) vector operations in a sort of n elements, and
// 2 in a cumulative operation.
static double ordered_seconds(Sim *s, const Ordered *o) {
  bool sorts = o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K;
  double n = sim_size(s, o->n), rows = ordered_rows(s, o);
  ordered_accesses(s, o, rows);
  CacheTraffic t = sim_touch(s, false, false);
  double work = operation_seconds(s, n * rows * LANES * (sorts ? 4 * log2(n + 1) : 2));
  s->parts = (SimParts){work, traffic_seconds(s, &t), s->m->launch};
  return shared_out(s, fmax(work, s->parts.bytes) + s->m->launch, rows, rows * n < SOLO_ORDERED);
}

// Returns the seconds of an operation on matrices, each of which one core computes.
static double matrix_seconds(Sim *s, const MatrixCall *m) {
  double calls = 1, right = 0;
  for (int i = 0; i < m->nbatch; i++) calls *= sim_size(s, m->batch[i].count);
  for (int i = 0; i < m->nright; i++)
    right = (right > 0 ? right : 1) * sim_size(s, m->right[i].count);
  const Ref *at[] = {&m->a, &m->b, &m->dst};
  for (int i = 0; i < 3; i++) {
    int64_t bytes = sim_bytes_behind(s, *at[i]);
    if (i != 1 || right > 0) sim_access(s, *at[i], bytes, (double)bytes, i == 2);
  }
  CacheTraffic t = sim_touch(s, false, false);
  double flops = calls * matrix_time(m->kind, (double)m->m, (double)m->n, right);
  double work = flops / machine_flops(s->m, TYPE_F64);
  s->parts = (SimParts){work, traffic_seconds(s, &t), s->m->launch};
  return shared_out(s, fmax(work, s->parts.bytes) + s->m->launch, calls, flops < SOLO_FLOPS);
}

// Returns the seconds of a collective of processors that share memory, s->parts.latency of them
// latency. They read each source once
// and write each destination once. The second-level cache never serves data that another core has
// written. `bandwidth` counts a byte that is read and written as one byte.
static double shared_seconds(Sim *s) {
  double bytes = 0;
  for (uint32_t i = 0; i < s->access.n; i++) bytes += s->access.at[i].bytes;
  CacheTraffic t = sim_touch(s, false, true);
  double each = fmax(traffic_seconds(s, &t), bytes / (2 * s->m->bandwidth));
  return s->parts.latency + each * s->contexts / s->team;
}

static double sent_seconds(Sim *s, const Collective *w) {
  (void)sim_touch(s, true, true);
  return coll_seconds(s->m, &s->p->mesh, w->kind, w->axes, w->bytes);
}

// `members`: the processors that read or write the block together, each a part.
static void block_access(Sim *s, Ref at, int rank, const int64_t *block, Dtype type, bool writes,
                         int64_t members) {
  int64_t bytes = dtype_bytes(type);
  for (int d = 0; d < rank; d++) bytes *= block[d];
  sim_access(s, at, bytes, (double)bytes / (double)members, writes);
}

// Returns the seconds of a collective. Fills s->access with pairs: source and destination of each
// tensor.
static double collective_seconds(Sim *s, const Collective *w) {
  for (uint32_t i = 0; i < w->nparts; i++) {
    const CollPart *p = &w->part[i];
    if (p->deferred && s->m->shared > 0) continue;
    bool once = p->once && s->m->shared > 0;
    block_access(s, p->src, p->rank, p->src_block, w->type, false, 1);
    block_access(s, p->dst, p->rank, p->dst_block, w->type, true,
                 once ? axes_size(&s->p->mesh, w->axes) : 1);
  }
  s->segment++;
  s->parts.latency = coll_latency(s->m, &s->p->mesh, w->kind, w->axes);
  double seconds = s->m->shared > 0 ? shared_seconds(s) : sent_seconds(s, w);
  s->parts.bytes = seconds - s->parts.latency;
  return seconds;
}

// Returns the seconds of an instruction other than a collective or a commit on cores.
static double core_seconds(Sim *s, const Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: return kernel_seconds(s, &in->u.kernel);
  case INSTR_GEMM: return gemm_seconds(s, &in->u.gemm);
  case INSTR_ORDERED: return ordered_seconds(s, &in->u.ordered);
  case INSTR_MATRIX: return matrix_seconds(s, &in->u.matrix);
  case INSTR_FILL: return copy_seconds(s, NULL, in->u.fill.dst, in->u.fill.bytes);
  case INSTR_COPY: return copy_seconds(s, &in->u.copy.src, in->u.copy.dst, in->u.copy.bytes);
  default: return 0;
  }
}

// A commit ends a segment. Cores meet there; a GPU goes on.
static double commit_seconds(Sim *s) {
  s->segment++;
  s->parts.latency = s->processors > 1 && !s->m->gpu ? s->m->latency : 0;
  return s->parts.latency;
}

double sim_seconds(Sim *s, const Instr *in) {
  s->access.n = 0;
  s->parts = (SimParts){0};
  if (in->kind == INSTR_COLLECTIVE) return collective_seconds(s, &in->u.collective);
  if (in->kind == INSTR_COMMIT) return commit_seconds(s);
  return s->m->gpu ? gpu_instr_seconds(s, in) : core_seconds(s, in);
}
