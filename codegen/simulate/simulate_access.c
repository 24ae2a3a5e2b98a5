// The caches: which of them serves the memory accesses of an instruction.
//
// Memory is divided into granules of 4096 bytes or more. A granule is in a cache if fewer bytes
// than the cache holds have been accessed since the last access to the granule. This number of
// bytes is the reuse distance of Mattson et al., "Evaluation techniques for storage hierarchies",
// 1970.
//
// Granules that an access moves one after the other are one run, so that the work does not grow
// with the bytes of an access. Along a run the reuse distance is a linear function of the granule:
// the granules that a cache still holds are its first or its last ones.
//
//   granules      0 1 2 3 4 5 6 7 8 9
//   runs         |write of a     |   |      `a` is written, then granules 3 to 9 are read:
//                |     |read         |      the read splits the run and ends both
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

int64_t sim_value_bytes(const Sim *s, Ref r) {
  int64_t at = sim_offset(s, r), bytes = 0;
  for (uint32_t i = 0; r.tensor < 0 && i < s->c->nbuffers; i++) {
    const PlanBuffer *b = &s->c->buffer[i];
    bool live = b->first <= s->instr && (b->kept || s->instr <= b->last);
    if (live && b->offset <= at && at < b->offset + b->bytes) bytes = b->offset + b->bytes - at;
  }
  return bytes ? bytes : sim_bytes_behind(s, r);
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
    z->granules = z->bytes ? ceil_div(z->bytes, z->granule) : 1;
  }
}

// -- runs ---------------------------------------------------------------------------------------

static Touch *run_of(Zone *z, int64_t begin) { return z->run ? &z->run[begin] : &z->whole; }

static bool begins_at(const Zone *z, int64_t i) {
  return z->begins ? z->begins[i / 64] >> i % 64 & 1 : i == 0;
}

// Returns the first granule of the run that granule i belongs to.
static int64_t run_begin(const Zone *z, int64_t i) {
  if (!z->begins) return 0;
  int64_t w = i / 64;
  uint64_t bits = z->begins[w] << (63 - i % 64) >> (63 - i % 64);
  while (!bits) bits = z->begins[--w];
  return 64 * w + 63 - __builtin_clzll(bits);
}

// Returns the granule behind the last one of the run that granule i belongs to.
static int64_t run_end(const Zone *z, int64_t i) {
  int64_t w = (i + 1) / 64, words = z->granules / 64 + 1;
  if (!z->begins) return z->granules;
  uint64_t bits = z->begins[w] >> (i + 1) % 64 << (i + 1) % 64;
  while (!bits && ++w < words) bits = z->begins[w];
  return bits ? 64 * w + __builtin_ctzll(bits) : z->granules;
}

// Splits the run that granule i belongs to in front of that granule.
static void run_split(Arena *a, Zone *z, int64_t i) {
  if (i >= z->granules || begins_at(z, i)) return;
  if (!z->begins) {
    z->begins = arena_array(a, uint64_t, z->granules / 64 + 1);
    z->run = arena_alloc_raw(a, (size_t)z->granules * sizeof *z->run);
    z->begins[0] = 1;
    z->run[0] = z->whole;
  }
  z->run[i] = z->run[run_begin(z, i)];
  z->begins[i / 64] |= UINT64_C(1) << i % 64;
}

// -- accesses -----------------------------------------------------------------------------------

// Computes the factors by which the bytes that this processor has accessed since touch t become
// those of the core that runs it, and those of all cores, which share a cache; GPUs share none.
// After a collective a core has also run its other processors.
static void reuse_factors(const Sim *s, const Touch *t, double *core, double *machine) {
  bool others_ran = t->segment != s->segment;
  double own = others_ran ? s->contexts : 1;
  *core = own / s->team;
  *machine = s->m->gpu || s->m->cores == 0 ? own
             : others_ran                  ? s->processors
                                           : fmin(s->processors, s->m->cores);
}

// Returns the share of the bytes of a granule that access `a` takes over from other cores of the
// processor. A core that writes a line takes it over, too, if others have copies.
static double from_other_cores(const Sim *s, const Touch *last, const Access *a) {
  bool own = last->ranges && a->ranges, copied = last->copied;
  bool moves = last->written && (a->writes ? copied || !own : !copied && !own);
  return moves && s->m->core_rate > 0 ? (s->team - 1) / s->team : 0;
}

// Returns what access `a` leaves of a run that `last` was the last access to. `now` has the time
// and the granules of `a`.
static Touch touch_after(const Touch *last, const Access *a, const Touch *now) {
  Touch t = *now;
  t.seen = true;
  t.written = a->writes || last->written;
  t.ranges = a->writes ? a->ranges : last->ranges;
  t.copied = !a->writes && (last->copied || !(last->ranges && a->ranges));
  return t;
}

static bool same_use(const Touch *x, const Touch *y) {
  return x->written == y->written && x->ranges == y->ranges && x->copied == y->copied;
}

// Returns the bytes that this processor has accessed between `last` and `now` when `now` reaches
// granule i. Time is counted in bytes.
static double bytes_between(const Touch *last, const Touch *now, int64_t i) {
  return now->at + (double)(i - now->first) * now->each -
         (last->at + (double)(i - last->first) * last->each);
}

// Returns how many of the granules lo to hi - 1 have a reuse distance below `limit`: `factor` times
// the bytes between the accesses. These granules are all, the first, the last, or none.
static int64_t count_below(const Touch *last, const Touch *now, int64_t lo, int64_t hi,
                           double factor, double limit) {
  bool first = factor * bytes_between(last, now, lo) < limit,
       end = factor * bytes_between(last, now, hi - 1) < limit;
  if (first == end) return first ? hi - lo : 0;
  int64_t like_first = lo, other = hi - 1;
  while (other - like_first > 1) {
    int64_t mid = like_first + (other - like_first) / 2;
    if ((factor * bytes_between(last, now, mid) < limit) == first)
      like_first = mid;
    else
      other = mid;
  }
  return first ? other - lo : hi - other;
}

// Adds to *t the bytes of access `a` to the granules lo to hi - 1, which are a run that `last` was
// the last access to: to the fields of the caches that have the granules.
static void count_run(const Sim *s, const Access *a, const Touch *last, const Touch *now,
                      int64_t lo, int64_t hi, CacheTraffic *t) {
  double core, machine, of_core = 0, of_machine = 0, all = (double)(hi - lo);
  reuse_factors(s, last, &core, &machine);
  if (last->seen && !last->other_core && !now->other_core)
    of_core = (double)count_below(last, now, lo, hi, core, (double)s->m->l2);
  if (last->seen) of_machine = (double)count_below(last, now, lo, hi, machine, (double)s->m->l3);
  double moved = of_core * now->each * from_other_cores(s, last, a);
  of_machine = fmax(of_machine - of_core, 0);
  t->l2 += of_core * now->each - moved;
  t->core += moved;
  t->l3 += of_machine * now->each;
  t->memory += (all - of_core - of_machine) * now->each;
}

// Records `a` as the last access of its granules, the blocks of memory whose use is tracked. Adds
// the bytes of `a` to *t, to the field of the cache that had the granules.
static void touch(Sim *s, const Access *a, bool other_core, CacheTraffic *t) {
  Zone *z = &s->zone[a->at.tensor < 0 ? s->p->ntensors : (uint32_t)a->at.tensor];
  int64_t lo = clamp64(sim_offset(s, a->at), 0, z->bytes), hi = clamp64(lo + a->span, lo, z->bytes);
  if (hi == lo || a->bytes <= 0) return;
  int64_t first = lo / z->granule, end = ceil_div(hi, z->granule), before = first;
  Touch now = {.first = first,
               .at = s->touched,
               .each = a->bytes / (double)(end - first),
               .segment = s->segment,
               .other_core = other_core};
  run_split(s->a, z, first);
  run_split(s->a, z, end);
  for (int64_t i = first, next; i < end; i = next) {
    Touch *run = run_of(z, i);
    next = run_end(z, i);
    count_run(s, a, run, &now, i, next, t);
    *run = touch_after(run, a, &now);
    if (i > first && same_use(run, run_of(z, before)))
      z->begins[i / 64] &= ~(UINT64_C(1) << i % 64);
    else
      before = i;
  }
  s->touched += a->bytes;
}

CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core) {
  CacheTraffic t = {0};
  for (uint32_t i = 0; i < s->access.n; i++)
    if (s->access.at[i].writes || !only_writes) touch(s, &s->access.at[i], other_core, &t);
  return t;
}
