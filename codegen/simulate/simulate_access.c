// The memory accesses of instructions, and which cache serves them.
//
// A granule of memory is in the second-level cache if few enough other bytes have been touched
// since its last access, in the third-level cache likewise (the reuse distance of Mattson et al.,
// "Evaluation techniques for storage hierarchies", 1970).
#include <math.h>

#include "codegen/simulate/simulate_internal.h"

enum { ZONE_GRANULES = 8192, SMALLEST_GRANULE = 4096 };

// -- sizes --------------------------------------------------------------------------------------

double sim_size(const Sim *s, Size x) {
  return (double)x.base * (x.slot < 0 ? 1 : (double)program_slot(s->p, x.slot, 0, -1));
}

void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]) {
  for (int i = 0; i < k->nouter + k->ninner; i++) {
    const KLoop *l = &k->loop[i];
    int32_t slot = l->slot >= 0 ? set->slot[l->slot] : -1;
    extent[i] = slot >= 0 ? (double)program_slot(s->p, slot, 0, -1) : (double)l->size;
  }
}

int64_t sim_offset(const Sim *s, Ref r) { return r.offset + ref_moved(r, s->depth, s->at); }

// Bytes from r to the end of its tensor or of the buffer around it.
static int64_t bytes_behind(const Sim *s, Ref r) {
  int64_t at = sim_offset(s, r), room = 0;
  if (r.tensor >= 0) return s->p->tensor[r.tensor].bytes - at;
  for (uint32_t i = 0; i < s->c->nbuffers; i++) {
    const PlanBuffer *b = &s->c->buffer[i];
    if (b->offset <= at && b->offset + b->bytes - at > room) room = b->offset + b->bytes - at;
  }
  return room ? room : s->p->arena_bytes - at;
}

// -- accesses -----------------------------------------------------------------------------------

static void add_access(Sim *s, Ref at, int64_t span, double bytes, bool writes) {
  vec_push(s->a, s->access) = (Access){at, span, bytes, writes};
}

static double rounds(const double *extent, int n) {
  double product = 1;
  for (int i = 0; i < n; i++) product *= extent[i];
  return product;
}

// Accesses through pointer `ptr` at computed indices; a scatter reads and writes. 0: there are
// none.
static double indexed_accesses(const Kernel *k, int ptr, const double *extent) {
  double times = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if ((s->kind != K_LOAD_AT && s->kind != K_SCATTER) || s->index != ptr) continue;
    int loops = s->level == LEVEL_PROLOGUE ? 0
                : s->level == LEVEL_OUTER  ? k->nouter
                                           : k->nouter + k->ninner;
    times += rounds(extent, loops) * (s->kind == K_SCATTER ? 2 : 1);
  }
  return times;
}

// A pointer with computed indices may touch all bytes behind it, but repeated accesses hit the
// first-level cache. Others touch each element in the range of their strides once.
static void kernel_access(Sim *s, const Kernel *k, int ptr, Ref at, const double *extent) {
  const KPtr *p = &k->ptr[ptr];
  double size = (double)dtype_bytes(p->type), elements = 1, last = 0,
         times = indexed_accesses(k, ptr, extent);
  if (times > 0) {
    int64_t span = bytes_behind(s, at);
    add_access(s, at, span, fmin(times * size, (double)span), p->written);
    return;
  }
  for (int i = 0; i < k->nouter + k->ninner; i++) {
    if (!p->stride[i]) continue;
    if (extent[i] < 1) return;
    elements *= extent[i];
    last += (extent[i] - 1) * fabs((double)p->stride[i]);
  }
  elements = fmin(elements, last + 1); // positions of a window overlap
  add_access(s, at, (int64_t)(last + 1) * dtype_bytes(p->type), elements * size, p->written);
}

static void launch_accesses(Sim *s, const KernelLaunch *l) {
  const Kernel *k = s->c->kernels[l->kernel];
  for (uint32_t i = 0; i < l->nsets; i++) {
    double extent[MAX_LOOPS];
    sim_extents(s, k, &l->set[i], extent);
    for (int p = 0; p < k->nptr; p++) kernel_access(s, k, p, l->set[i].ptr[p], extent);
  }
}

// Bytes from the first to behind the last element of a matrix whose rows are `ld` elements apart.
static int64_t matrix_span(bool transposed, double rows, double cols, int64_t ld, int64_t element) {
  double major = transposed ? cols : rows, minor = transposed ? rows : cols;
  return major < 1 ? 0 : ((int64_t)(major - 1) * ld + (int64_t)minor) * element;
}

static void gemm_accesses(Sim *s, const Gemm *g) {
  double m = sim_size(s, g->m), n = sim_size(s, g->n), k = sim_size(s, g->k), batch = 1;
  int64_t element = dtype_bytes(g->type), a = 0, b = 0, c = 0; // elements to the last of a batch
  for (int i = 0; i < g->nbatch; i++) {
    double count = sim_size(s, g->batch[i].count);
    batch *= count;
    a += ((int64_t)count - 1) * g->batch[i].a;
    b += ((int64_t)count - 1) * g->batch[i].b;
    c += ((int64_t)count - 1) * g->batch[i].c;
  }
  double each = batch * (double)element;
  add_access(s, g->a, a * element + matrix_span(g->ta, m, k, g->lda, element), each * m * k, false);
  add_access(s, g->b, b * element + matrix_span(g->tb, k, n, g->ldb, element), each * k * n, false);
  add_access(s, g->c, c * element + matrix_span(false, m, n, g->ldc, element), each * m * n, true);
}

static void ordered_accesses(Sim *s, const Ordered *o) {
  double n = sim_size(s, o->n), rows = 1, element = (double)dtype_bytes(o->type);
  double results = o->kind == ORDERED_TOP_K ? (double)o->k : n;
  for (int i = 0; i < o->nrows; i++) rows *= sim_size(s, o->row[i].count);
  add_access(s, o->src, bytes_behind(s, o->src), n * rows * element, false);
  add_access(s, o->dst, bytes_behind(s, o->dst), results * rows * element, true);
}

static void block_access(Sim *s, Ref at, int rank, const int64_t *block, Dtype type, bool writes) {
  int64_t bytes = dtype_bytes(type);
  for (int d = 0; d < rank; d++) bytes *= block[d];
  add_access(s, at, bytes, (double)bytes, writes);
}

void sim_accesses(Sim *s, const Instr *in) {
  s->access.n = 0;
  switch (in->kind) {
  case INSTR_KERNEL: launch_accesses(s, &in->u.kernel); return;
  case INSTR_GEMM: gemm_accesses(s, &in->u.gemm); return;
  case INSTR_ORDERED: ordered_accesses(s, &in->u.ordered); return;
  case INSTR_COPY:
    add_access(s, in->u.copy.src, in->u.copy.bytes, (double)in->u.copy.bytes, false);
    add_access(s, in->u.copy.dst, in->u.copy.bytes, (double)in->u.copy.bytes, true);
    return;
  case INSTR_FILL:
    add_access(s, in->u.fill.dst, in->u.fill.bytes, (double)in->u.fill.bytes, true);
    return;
  case INSTR_COLLECTIVE:
    for (uint32_t i = 0; i < in->u.collective.nparts; i++) {
      const CollPart *p = &in->u.collective.part[i];
      block_access(s, p->src, p->rank, p->src_block, in->u.collective.type, false);
      block_access(s, p->dst, p->rank, p->dst_block, in->u.collective.type, true);
    }
    return;
  case INSTR_COMMIT:
  case INSTR_LOOP:
  case INSTR_END: return;
  }
  BUG("an instruction of kind %d", (int)in->kind);
}

// -- caches -------------------------------------------------------------------------------------

void sim_zones(Sim *s) {
  uint32_t n = s->p->ntensors;
  s->zone = arena_array(s->a, Zone, n + 1);
  for (uint32_t i = 0; i <= n; i++) {
    Zone *z = &s->zone[i];
    if (i == n)
      z->bytes = s->p->arena_bytes;
    else if (tensor_is_persistent(s->p, i))
      z->bytes = s->p->tensor[i].bytes;
    z->granule = SMALLEST_GRANULE;
    while (z->bytes / z->granule > ZONE_GRANULES) z->granule *= 2;
    z->last = arena_array(s->a, Touch, z->bytes / z->granule + 1);
  }
}

// Other bytes touched since t, as the caches of the core and of the machine see them. After a
// collective the core has also run its other processors.
static void reuse_distance(const Sim *s, const Touch *t, double now, double *core,
                           double *machine) {
  double since = now - t->at;
  bool others_ran = t->segment != s->segment;
  *core = since * (others_ran ? s->contexts : 1) / s->team;
  *machine =
      since * (s->m->cores > 0 ? others_ran ? s->processors : fmin(s->processors, s->m->cores) : 1);
}

static void touch(Sim *s, const Access *a, bool other_core, CacheTraffic *t) {
  Zone *z = &s->zone[a->at.tensor < 0 ? s->p->ntensors : (uint32_t)a->at.tensor];
  int64_t lo = clamp64(sim_offset(s, a->at), 0, z->bytes), hi = clamp64(lo + a->span, lo, z->bytes);
  if (hi == lo || a->bytes <= 0) return;
  int64_t first = lo / z->granule, end = ceil_div(hi, z->granule);
  double each = a->bytes / (double)(end - first);
  for (int64_t i = first; i < end; i++) {
    Touch *last = &z->last[i];
    double core, machine, now = s->touched + (double)(i - first) * each;
    reuse_distance(s, last, now, &core, &machine);
    if (last->seen && !last->other_core && !other_core && core < (double)s->m->l2)
      t->l2 += each;
    else if (last->seen && machine < (double)s->m->l3)
      t->l3 += each;
    else
      t->memory += each;
    *last = (Touch){now, s->segment, true, other_core};
  }
  s->touched += a->bytes;
}

CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core) {
  CacheTraffic t = {0};
  for (uint32_t i = 0; i < s->access.n; i++)
    if (s->access.at[i].writes || !only_writes) touch(s, &s->access.at[i], other_core, &t);
  return t;
}
