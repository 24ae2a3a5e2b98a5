// Local communicator: processors are contexts of this process, so a collective reads the blocks of
// all members of a group directly and writes all destinations.
//
// Every kind becomes transfers: a box of elements, one or several sources that are combined in the
// order of ranks, one or several destinations. all_reduce is one transfer n -> n, reduce_scatter n
// of n -> 1, all_gather n of 1 -> n, all_to_all and permute 1 -> 1. The elements of a box are dealt
// to the workers in ranges; a worker reads all sources of a range before it writes a destination,
// so equal source and destination (in place) are safe, and the number of workers changes no bit.
#include "collectives/comm.h"
#include "ir/dtype.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 256, SMALL_BYTES = 4096, SPLIT_ELEMENTS = 1024 };

typedef struct Transfer Transfer;
// n elements behind `from` in all sources into those behind `to` in all destinations.
typedef void Combine(const Transfer *t, int64_t from, int64_t to, int64_t n, unsigned monoid);

typedef struct Local {
  Comm comm;
  Combine *combine[TYPE_COUNT];
  int workers;
  int64_t processors;
  int64_t *peer;     // per worker: `processors` numbers
  char **src, **dst; // per worker: `processors` addresses
} Local;

// A box of elements and where it stands in source and destination.
struct Transfer {
  int rank;
  int64_t extent[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK]; // elements
  int64_t from, to;                                                     // first element
  int64_t nsrc, ndst;
  char *const *src, *const *dst;
  Combine *combine;
};

// What the transfers of one worker in one call have in common.
typedef struct Share {
  const Local *local;
  const CommCall *call;
  int worker, workers;
  Combine *combine;
  int64_t jobs; // transfers seen: small ones go to the workers in turn
  int64_t *peer;
  char **src, **dst;
} Share;

// -- combining
// ----------------------------------------------------------------------------------------

static float from_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (f != f) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static float from_f16(uint16_t h) { return (float)dtype_load(TYPE_F16, &h); }
static uint16_t to_f16(float f) {
  uint16_t h;
  dtype_store(TYPE_F16, &h, dtype_round(TYPE_F16, (double)f));
  return h;
}

#define SAME(x) (x)
#define NONZERO(x) ((uint8_t)((x) != 0))
#define MAX_OF(a, b) ((b) > (a) || (b) != (b) ? (b) : (a)) // a NaN stays, a NaN wins
#define MIN_OF(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

// For element type T kept as A: load, fold and store of up to BLOCK elements. W is where sums and
// products of A wrap. A full block has a constant trip count, which compilers turn into vectors.
#define EACH(n, body)                                                                              \
  if ((n) == BLOCK)                                                                                \
    for (int64_t i = 0; i < BLOCK; i++) body;                                                      \
  else                                                                                             \
    for (int64_t i = 0; i < (n); i++) body
#define COMBINER(name, TARGET, T, A, W, LOAD, STORE)                                               \
  TARGET static void name##_fold(A *restrict acc, const T *restrict x, int64_t n,                  \
                                 unsigned monoid) {                                                \
    switch (monoid) {                                                                              \
    case 0: EACH(n, acc[i] = LOAD(x[i])); break;                                                   \
    case 1: EACH(n, acc[i] = (A)((W)acc[i] + (W)LOAD(x[i]))); break;                               \
    case 2: EACH(n, acc[i] = MAX_OF(acc[i], LOAD(x[i]))); break;                                   \
    case 3: EACH(n, acc[i] = MIN_OF(acc[i], LOAD(x[i]))); break;                                   \
    case 4: EACH(n, acc[i] = (A)((W)acc[i] * (W)LOAD(x[i]))); break;                               \
    }                                                                                              \
  }                                                                                                \
  TARGET static void name(const Transfer *t, int64_t from, int64_t to, int64_t total,              \
                          unsigned monoid) {                                                       \
    A acc[BLOCK];                                                                                  \
    for (int64_t at = 0; at < total; at += BLOCK) {                                                \
      int64_t n = total - at < BLOCK ? total - at : BLOCK;                                         \
      for (int64_t s = 0; s < t->nsrc; s++)                                                        \
        name##_fold(acc, (const T *)(const void *)t->src[s] + from + at, n, s ? monoid : 0);       \
      for (int64_t d = 0; d < t->ndst; d++) {                                                      \
        T *restrict y = (T *)(void *)t->dst[d] + to + at;                                          \
        EACH(n, y[i] = STORE(acc[i]));                                                             \
      }                                                                                            \
    }                                                                                              \
  }
COMBINER(combine_f32, , float, float, float, SAME, SAME)
COMBINER(combine_bf16, , uint16_t, float, float, from_bf16, to_bf16)
COMBINER(combine_f16, , uint16_t, float, float, from_f16, to_f16)
COMBINER(combine_f64, , double, double, double, SAME, SAME)
COMBINER(combine_i32, , int32_t, int32_t, uint32_t, SAME, SAME)
COMBINER(combine_u8, , uint8_t, uint8_t, uint32_t, SAME, SAME)
COMBINER(combine_bool, , uint8_t, int32_t, uint32_t, NONZERO, NONZERO)
COMBINER(combine_i64, , int64_t, int64_t, uint64_t, SAME, SAME)
COMBINER(combine_u64, , uint64_t, uint64_t, uint64_t, SAME, SAME)

// Sums of f32 are most of what is moved: wider vectors where the processor has them, twice the
// speed.
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define AVX512 __attribute__((target("avx512f"), min_vector_width(512)))
#else
#define AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
COMBINER(combine_f32_avx2, AVX2, float, float, float, SAME, SAME)
COMBINER(combine_f32_avx512, AVX512, float, float, float, SAME, SAME)
static Combine *widest_f32(void) {
  if (__builtin_cpu_supports("avx512f")) return combine_f32_avx512;
  return __builtin_cpu_supports("avx2") ? combine_f32_avx2 : combine_f32;
}
#else
static Combine *widest_f32(void) { return combine_f32; }
#endif

static Combine *const combiners[TYPE_COUNT] = {
    [TYPE_F32] = combine_f32,   [TYPE_BF16] = combine_bf16, [TYPE_F16] = combine_f16,
    [TYPE_F64] = combine_f64,   [TYPE_I32] = combine_i32,   [TYPE_U8] = combine_u8,
    [TYPE_BOOL] = combine_bool, [TYPE_I64] = combine_i64,   [TYPE_U64] = combine_u64,
};

// -- walking a box
// --------------------------------------------------------------------------------------

static void move_run(const Transfer *t, const Collective *c, int64_t from, int64_t to, int64_t n) {
  if (t->nsrc > 1) {
    t->combine(t, from, to, n, c->monoid);
    return;
  }
  int64_t bytes = dtype_bytes(c->type);
  const char *src = t->src[0] + from * bytes;
  for (int64_t d = 0; d < t->ndst; d++) {
    char *dst = t->dst[d] + to * bytes;
    if (dst != src) memcpy(dst, src, (size_t)(n * bytes));
  }
}

// Joins neighbouring dims that are contiguous on both sides, so that runs are as long as they can
// be.
static void join_dims(Transfer *t) {
  int n = 0;
  for (int d = 0; d < t->rank; d++) {
    if (t->extent[d] == 1) continue;
    bool joins = n > 0 && t->from_stride[n - 1] == t->extent[d] * t->from_stride[d] &&
                 t->to_stride[n - 1] == t->extent[d] * t->to_stride[d];
    if (joins) n--;
    t->extent[n] = t->extent[d] * (joins ? t->extent[n] : 1);
    t->from_stride[n] = t->from_stride[d];
    t->to_stride[n] = t->to_stride[d];
    n++;
  }
  t->rank = n;
}

// Elements lo..hi-1 of the box, counted row-major, run by run.
static void move_range(const Transfer *t, const Collective *c, int64_t lo, int64_t hi) {
  // A contiguous innermost dim is the run; a strided one is walked element by element.
  int last = t->rank - 1;
  bool runs = last >= 0 && t->from_stride[last] == 1 && t->to_stride[last] == 1;
  int64_t run = runs ? t->extent[last] : 1;
  int outer = runs ? last : t->rank;
  while (lo < hi) {
    int64_t skip = lo % run, rest = lo / run;
    int64_t from = t->from + skip, to = t->to + skip;
    for (int d = outer - 1; d >= 0; d--) {
      from += rest % t->extent[d] * t->from_stride[d];
      to += rest % t->extent[d] * t->to_stride[d];
      rest /= t->extent[d];
    }
    int64_t n = run - skip < hi - lo ? run - skip : hi - lo;
    move_run(t, c, from, to, n);
    lo += n;
  }
}

// This worker's part of a transfer.
static void transfer(Share *s, Transfer *t) {
  t->combine = s->combine;
  int64_t total = 1;
  for (int d = 0; d < t->rank; d++) total *= t->extent[d] > 0 ? t->extent[d] : 0;
  int64_t job = s->jobs++;
  if (total == 0) return;
  join_dims(t);
  if (total < SPLIT_ELEMENTS * s->workers) {
    if (job % s->workers == s->worker) move_range(t, s->call->what, 0, total);
    return;
  }
  int64_t each = ceil_div(ceil_div(total, s->workers), 64) * 64; // no two workers in one cache line
  int64_t lo = clamp64(each * s->worker, 0, total);
  move_range(t, s->call->what, lo, clamp64(lo + each, 0, total));
}

static void row_strides(int rank, const int64_t *block, int64_t *stride) {
  int64_t n = 1;
  for (int d = rank - 1; d >= 0; d--) {
    stride[d] = n;
    n *= block[d];
  }
}

static Transfer box_of(const CollPart *p) {
  Transfer t = {.rank = p->rank, .nsrc = 1, .ndst = 1};
  row_strides(p->rank, p->src_block, t.from_stride);
  row_strides(p->rank, p->dst_block, t.to_stride);
  return t;
}

// First index of the piece that rank k of the group holds of a dim of `whole` elements. Blocks nest
// (decision 8), so over two axes pieces need not stand at multiples of their length.
static int64_t piece_start(const Mesh *m, Axes axes, int64_t whole, int64_t piece, int64_t k) {
  int64_t start = 0, length = whole, group = axes_size(m, axes);
  int64_t digit = group;
  for (int i = 0; i < axes.n; i++) {
    int64_t n = m->axis[axes.at[i]].size;
    digit /= n;
    length = ceil_div(length, n);
    start += k / digit % n * length;
  }
  return length == piece ? start : k * piece;
}

// -- kinds
// ----------------------------------------------------------------------------------------------

static const CommMember *member(const Share *s, int64_t k) { return &s->call->member[s->peer[k]]; }
static const int64_t *src_valid(const Share *s, int64_t k, uint32_t part) {
  return member(s, k)->src_valid + (size_t)part * MAX_RANK;
}
static const int64_t *dst_valid(const Share *s, int64_t k, uint32_t part) {
  return member(s, k)->dst_valid + (size_t)part * MAX_RANK;
}

static void all_reduce(Share *s, const CollPart *p, int64_t group) {
  (void)group;
  uint32_t part = (uint32_t)(p - s->call->what->part);
  Transfer t = box_of(p);
  t.src = s->src, t.dst = s->dst;
  t.nsrc = t.ndst = group;
  // Whole rows of the block: what they hold beyond the valid extents reaches only what is not
  // valid.
  const int64_t *valid = src_valid(s, 0, part);
  bool empty = false;
  for (int d = 0; d < p->rank; d++) {
    t.extent[d] = d == 0 ? valid[0] : p->src_block[d];
    empty = empty || valid[d] == 0;
  }
  if (!empty) transfer(s, &t);
}

static void all_gather(Share *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int g = p->gathered;
  for (int64_t k = 0; k < group; k++) {
    Transfer t = box_of(p);
    t.src = &s->src[k], t.dst = s->dst;
    t.ndst = group;
    memcpy(t.extent, src_valid(s, k, part), sizeof t.extent);
    int64_t start =
        piece_start(s->local->comm.mesh, s->call->what->axes, p->dst_block[g], p->src_block[g], k);
    t.extent[g] = clamp64(t.extent[g], 0, clamp64(p->dst_block[g] - start, 0, INT64_MAX));
    t.to = start * t.to_stride[g];
    transfer(s, &t);
  }
}

static void reduce_scatter(Share *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int c = p->cut;
  for (int64_t k = 0; k < group; k++) {
    Transfer t = box_of(p);
    t.src = s->src, t.dst = &s->dst[k];
    t.nsrc = group;
    memcpy(t.extent, dst_valid(s, k, part), sizeof t.extent);
    int64_t start =
        piece_start(s->local->comm.mesh, s->call->what->axes, p->src_block[c], p->dst_block[c], k);
    t.extent[c] = clamp64(t.extent[c], 0, clamp64(p->src_block[c] - start, 0, INT64_MAX));
    t.from = start * t.from_stride[c];
    transfer(s, &t);
  }
}

static void all_to_all(Share *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int g = p->gathered, c = p->cut;
  const Mesh *m = s->local->comm.mesh;
  Axes axes = s->call->what->axes;
  for (int64_t k = 0; k < group; k++)
    for (int64_t j = 0; j < group; j++) {
      Transfer t = box_of(p);
      t.src = &s->src[k], t.dst = &s->dst[j];
      memcpy(t.extent, src_valid(s, k, part), sizeof t.extent);
      int64_t from = piece_start(m, axes, p->src_block[c], p->dst_block[c], j);
      int64_t to = piece_start(m, axes, p->dst_block[g], p->src_block[g], k);
      t.extent[c] = clamp64(t.extent[c] - from, 0, dst_valid(s, j, part)[c]);
      t.extent[g] = clamp64(t.extent[g], 0, clamp64(p->dst_block[g] - to, 0, INT64_MAX));
      t.from = from * t.from_stride[c];
      t.to = to * t.to_stride[g];
      transfer(s, &t);
    }
}

// True if source k is the replica that serves destination j: equal coordinates on all axes of the
// group that do not cut the source.
static bool serves(const Share *s, Axes cut, int64_t k, int64_t j) {
  const Mesh *m = s->local->comm.mesh;
  for (int a = 0; a < m->naxes; a++)
    if (!axes_has(cut, a) && mesh_coord(m, s->peer[k], a) != mesh_coord(m, s->peer[j], a))
      return false;
  return true;
}

// First index along dim `cut` of what processor r holds after a permute: a block, or with its halo what it reads.
static int64_t held_from(const Mesh *m, const Collective *w, const CollPart *p, int64_t r) {
  int64_t first, n;
  if (!p->reach.affine.divisor)
    return piece_start(m, w->to, p->whole, p->dst_block[p->cut], axes_rank(m, w->to, r));
  reach_interval(m, &p->reach, p->whole, r, &first, &n);
  return first;
}

// Source pieces are numbered by `axes`, destination pieces by `to`; where blocks nest unevenly, and for
// halos, a destination takes from several sources.
static void permute(Share *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  const Collective *w = s->call->what;
  const Mesh *m = s->local->comm.mesh;
  int c = p->cut;
  for (int64_t j = 0; j < group; j++) {
    int64_t to = held_from(m, w, p, s->peer[j]);
    int64_t end = to + dst_valid(s, j, part)[c];
    for (int64_t k = 0; k < group; k++) {
      int64_t from =
          piece_start(m, w->axes, p->whole, p->src_block[c], axes_rank(m, w->axes, s->peer[k]));
      int64_t lo = from > to ? from : to;
      int64_t hi = from + src_valid(s, k, part)[c];
      if (hi > end) hi = end;
      if (lo >= hi || !serves(s, w->axes, k, j)) continue;
      Transfer t = box_of(p);
      t.src = &s->src[k], t.dst = &s->dst[j];
      memcpy(t.extent, src_valid(s, k, part), sizeof t.extent);
      t.extent[c] = hi - lo;
      t.from = (lo - from) * t.from_stride[c];
      t.to = (lo - to) * t.to_stride[c];
      transfer(s, &t);
    }
  }
}

typedef void Kind(Share *s, const CollPart *p, int64_t group);
static Kind *const kinds[COLL_COUNT] = {
    [COLL_ALL_REDUCE] = all_reduce,
    [COLL_ALL_GATHER] = all_gather,
    [COLL_REDUCE_SCATTER] = reduce_scatter,
    [COLL_ALL_TO_ALL] = all_to_all,
    [COLL_PERMUTE] = permute,
};

// -- the table
// ------------------------------------------------------------------------------------------

// The axes along which the members of one group differ: those of source or destination.
static Axes group_axes(const Collective *w) {
  Axes a = w->axes;
  if (w->kind != COLL_PERMUTE) return a;
  for (int i = 0; i < w->to.n; i++)
    if (!axes_has(a, w->to.at[i])) a.at[a.n++] = w->to.at[i];
  return a;
}

static void run_group(Share *s, Axes axes, int64_t first, int64_t group) {
  const Collective *w = s->call->what;
  for (int64_t k = 0; k < group; k++) s->peer[k] = axes_peer(s->local->comm.mesh, axes, first, k);
  for (uint32_t i = 0; i < w->nparts; i++) {
    for (int64_t k = 0; k < group; k++) {
      s->src[k] = member(s, k)->src[i];
      s->dst[k] = member(s, k)->dst[i];
    }
    kinds[w->kind](s, &w->part[i], group);
  }
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool local_run(Comm *comm, const CommCall *call, int worker, int workers) {
  Local *l = (Local *)(void *)comm;
  const Collective *w = call->what;
  if (workers > l->workers || call->members != l->processors)
    BUG("collective by %d workers for %lld processors", workers, (long long)call->members);
  double start = worker == 0 ? seconds_now() : 0;
  // What fits a page is moved faster than another worker wakes.
  bool small = w->bytes <= SMALL_BYTES;
  if (worker == 0 || !small) {
    Share s = {l,
               call,
               small ? 0 : worker,
               small ? 1 : workers,
               l->combine[w->type],
               0,
               l->peer + worker * l->processors,
               l->src + worker * l->processors,
               l->dst + worker * l->processors};
    Axes axes = group_axes(w);
    int64_t group = axes_size(comm->mesh, axes);
    for (int64_t r = 0; r < l->processors; r++)
      if (axes_rank(comm->mesh, axes, r) == 0) run_group(&s, axes, r, group);
  }
  if (worker == 0) {
    comm->count.calls[w->kind]++;
    comm->count.bytes[w->kind] += w->bytes;
    comm->count.wire_bytes[w->kind] += w->wire_bytes;
    comm->count.seconds[w->kind] += seconds_now() - start;
  }
  return true;
}

static void local_free(Comm *comm) {
  Local *l = (Local *)(void *)comm;
  free(l->peer);
  free(l->src);
  free(l->dst);
  free(l);
}

static const CommTable local_table = {"local", local_run, local_free};

Comm *comm_local(const Mesh *mesh, int workers) {
  Local *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  l->comm.table = &local_table;
  l->comm.mesh = mesh;
  memcpy(l->combine, combiners, sizeof l->combine);
  l->combine[TYPE_F32] = widest_f32();
  l->workers = workers;
  l->processors = mesh_size(mesh);
  size_t n = (size_t)l->processors * (size_t)workers;
  l->peer = calloc(n, sizeof *l->peer);
  l->src = calloc(n, sizeof *l->src);
  l->dst = calloc(n, sizeof *l->dst);
  if (l->peer && l->src && l->dst) return &l->comm;
  local_free(&l->comm);
  return NULL;
}
