// The caches: which of them serves the memory accesses of an instruction.
//
// Memory is divided into granules of 4096 bytes or more. A granule is in a cache if fewer bytes
// than the cache holds have been accessed since the last access to the granule. This number of
// bytes is the reuse distance of Mattson et al., "Evaluation techniques for storage hierarchies",
// 1970.
#include <math.h>

#include "codegen/simulate/simulate_internal.h"

// upper limit of the granules of a zone; bytes of the smallest granule
enum { ZONE_GRANULES = 8192, SMALLEST_GRANULE = 4096 };

double sim_size(const Sim *s, Size x) {
  return (double)x.base * (x.slot < 0 ? 1 : (double)program_slot(s->p, x.slot, 0, -1));
}

int64_t sim_offset(const Sim *s, Ref r) { return r.offset + ref_moved(r, s->depth, s->at); }

int64_t sim_bytes_behind(const Sim *s, Ref r) {
  int64_t at = sim_offset(s, r), room = 0;
  if (r.tensor >= 0) return s->p->tensor[r.tensor].bytes - at;
  for (uint32_t i = 0; i < s->c->nbuffers; i++) {
    const PlanBuffer *b = &s->c->buffer[i];
    if (b->offset <= at && b->offset + b->bytes - at > room) room = b->offset + b->bytes - at;
  }
  return room ? room : s->p->arena_bytes - at;
}

void sim_access(Sim *s, Ref at, int64_t span, double bytes, bool writes) {
  vec_push(s->a, s->access) = (Access){at, span, bytes, writes, true};
}

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

// By what the bytes accessed since the last access to a granule (block of memory) count.
typedef struct Reuse {
  double core;    // accesses of the core that runs this processor
  double machine; // those of all cores, which share a cache; GPUs share none
} Reuse;

// Bytes count as this processor accesses them. others_ran: there was a collective since, after
// which a core has also run its other processors.
static Reuse reuse_of(const Sim *s, bool others_ran) {
  double own = others_ran ? s->contexts : 1;
  return (Reuse){.core = own / s->team,
                 .machine = s->m->gpu || s->m->cores == 0 ? own
                            : others_ran                  ? s->processors
                                                          : fmin(s->processors, s->m->cores)};
}

// Returns whether access `a` takes over lines of a granule from other cores of the processor. A
// core that writes a line takes it over, too, if others have copies.
static bool takes_over(const Touch *last, const Access *a) {
  bool own = last->ranges && a->ranges, copied = last->copied;
  return last->written && (a->writes ? copied || !own : !copied && !own);
}

static Touch touch_after(const Touch *last, const Access *a) {
  Touch t = *last;
  t.seen = true;
  if (a->writes)
    t.written = true, t.ranges = a->ranges, t.copied = false;
  else
    t.copied |= !(last->ranges && a->ranges);
  return t;
}

// Records `a` as the last access of its granules, the blocks of memory whose use is tracked. Adds
// the bytes of `a` to *t, to the field of the cache that had the granules.
static void touch(Sim *s, const Access *a, bool other_core, CacheTraffic *t) {
  Zone *z = &s->zone[a->at.tensor < 0 ? s->p->ntensors : (uint32_t)a->at.tensor];
  int64_t lo = clamp64(sim_offset(s, a->at), 0, z->bytes), hi = clamp64(lo + a->span, lo, z->bytes);
  if (hi == lo || a->bytes <= 0) return;
  int64_t first = lo / z->granule, end = ceil_div(hi, z->granule);
  double each = a->bytes / (double)(end - first), l2 = (double)s->m->l2, l3 = (double)s->m->l3;
  double others = s->m->core_rate > 0 ? each * (s->team - 1) / s->team : 0;
  const Reuse reuse[] = {reuse_of(s, false), reuse_of(s, true)};
  for (int64_t i = first; i < end; i++) {
    Touch *last = &z->last[i];
    double now = s->touched + (double)(i - first) * each, since = now - last->at;
    const Reuse *by = &reuse[last->segment != s->segment];
    if (last->seen && !last->other_core && !other_core && since * by->core < l2) {
      double moved = others > 0 && takes_over(last, a) ? others : 0;
      t->l2 += each - moved, t->core += moved;
    } else if (last->seen && since * by->machine < l3)
      t->l3 += each;
    else
      t->memory += each;
    *last = touch_after(last, a);
    last->at = now, last->segment = s->segment, last->other_core = other_core;
  }
  s->touched += a->bytes;
}

CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core) {
  CacheTraffic t = {0};
  for (uint32_t i = 0; i < s->access.n; i++)
    if (s->access.at[i].writes || !only_writes) touch(s, &s->access.at[i], other_core, &t);
  return t;
}
