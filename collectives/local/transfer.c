// Transfers of every kind of collective, and the copying of boxes.
#include "collectives/local/transfer.h"

#include <string.h>

enum { SPLIT_ELEMENTS = 1024 };

// -- walking a box ------------------------------------------------------------------------------

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

void transfer_range(const Transfer *t, const Collective *c, int64_t lo, int64_t hi) {
  move_range(t, c, lo, hi);
}

void transfer_share(const Transfer *t, const Collective *c, int64_t elements, int64_t job,
                    int worker, int workers) {
  if (elements < (int64_t)SPLIT_ELEMENTS * workers) {
    if (job % workers == worker) move_range(t, c, 0, elements);
    return;
  }
  int64_t each = ceil_div(ceil_div(elements, workers), 64) * 64; // no two workers in one cache line
  int64_t lo = clamp64(each * worker, 0, elements);
  move_range(t, c, lo, clamp64(lo + each, 0, elements));
}

static void row_strides(int rank, const int64_t *block, int64_t *stride) {
  int64_t n = 1;
  for (int d = rank - 1; d >= 0; d--) {
    stride[d] = n;
    n *= block[d];
  }
}

void transfer_copy_out(const Transfer *t, const Collective *c, const char *src, int64_t lo,
                       int64_t hi, char *packed) {
  Transfer one = *t;
  char *from = (char *)(uintptr_t)src;
  one.nsrc = one.ndst = 1;
  one.src = &from, one.dst = &packed;
  row_strides(one.rank, one.extent, one.to_stride);
  one.to = -lo;
  move_range(&one, c, lo, hi);
}

void transfer_copy_in(const Transfer *t, const Collective *c, const char *packed, int64_t lo,
                      int64_t hi, char *dst) {
  Transfer one = *t;
  char *from = (char *)(uintptr_t)packed;
  one.nsrc = one.ndst = 1;
  one.src = &from, one.dst = &dst;
  row_strides(one.rank, one.extent, one.from_stride);
  one.from = -lo;
  move_range(&one, c, lo, hi);
}

// Hands a transfer on, unless it is empty.
static void transfer(TransferWalk *w, Transfer *t) {
  int64_t total = 1;
  for (int d = 0; d < t->rank; d++) total *= t->extent[d] > 0 ? t->extent[d] : 0;
  int64_t job = w->job++;
  if (total == 0) return;
  join_dims(t);
  w->take(w, t, total, job);
}

static Transfer box_of(const CollPart *p) {
  Transfer t = {.rank = p->rank, .nsrc = 1, .ndst = 1};
  row_strides(p->rank, p->src_block, t.from_stride);
  row_strides(p->rank, p->dst_block, t.to_stride);
  return t;
}

// First index of the piece that rank k of the group holds of a dim of `whole` elements, and how
// many it has when all are there. Blocks nest (decision 8), so over two axes pieces need not stand
// at multiples of their length.
static int64_t piece_of(const Mesh *m, Axes axes, int64_t whole, int64_t piece, int64_t k,
                        int64_t *elements) {
  int64_t start = 0, length = whole, digit = axes_size(m, axes), rest = whole;
  for (int i = 0; i < axes.n; i++) {
    int64_t n = m->axis[axes.at[i]].size;
    digit /= n;
    length = ceil_div(length, n);
    int64_t skipped = k / digit % n * length;
    start += skipped;
    rest = clamp64(rest - skipped, 0, length);
  }
  if (length != piece) start = k * piece, rest = clamp64(whole - start, 0, piece);
  *elements = rest;
  return start;
}

static int64_t piece_start(const Mesh *m, Axes axes, int64_t whole, int64_t piece, int64_t k) {
  int64_t n;
  return piece_of(m, axes, whole, piece, k, &n);
}
// -- kinds --------------------------------------------------------------------------------------

static const CommMember *member(const TransferWalk *s, int64_t k) {
  return &s->call->member[s->peer[k]];
}
static const int64_t *src_valid(const TransferWalk *s, int64_t k, uint32_t part) {
  return member(s, k)->src_valid + (size_t)part * MAX_RANK;
}
static const int64_t *dst_valid(const TransferWalk *s, int64_t k, uint32_t part) {
  return member(s, k)->dst_valid + (size_t)part * MAX_RANK;
}

static void all_reduce(TransferWalk *s, const CollPart *p, int64_t group) {
  (void)group;
  uint32_t part = (uint32_t)(p - s->call->what->part);
  Transfer t = box_of(p);
  t.src = s->src, t.dst = s->dst;
  t.src_of = t.dst_of = s->peer;
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

static void all_gather(TransferWalk *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int g = p->gathered;
  for (int64_t k = 0; k < group; k++) {
    Transfer t = box_of(p);
    t.src = &s->src[k], t.dst = s->dst;
    t.src_of = &s->peer[k], t.dst_of = s->peer;
    t.ndst = group;
    memcpy(t.extent, src_valid(s, k, part), sizeof t.extent);
    int64_t start = piece_start(s->mesh, s->call->what->axes, p->dst_block[g], p->src_block[g], k);
    t.extent[g] = clamp64(t.extent[g], 0, clamp64(p->dst_block[g] - start, 0, INT64_MAX));
    t.to = start * t.to_stride[g];
    transfer(s, &t);
  }
}

static void reduce_scatter(TransferWalk *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int c = p->split;
  for (int64_t k = 0; k < group; k++) {
    Transfer t = box_of(p);
    t.src = s->src, t.dst = &s->dst[k];
    t.src_of = s->peer, t.dst_of = &s->peer[k];
    t.nsrc = group;
    memcpy(t.extent, dst_valid(s, k, part), sizeof t.extent);
    int64_t start = piece_start(s->mesh, s->call->what->axes, p->src_block[c], p->dst_block[c], k);
    t.extent[c] = clamp64(t.extent[c], 0, clamp64(p->src_block[c] - start, 0, INT64_MAX));
    t.from = start * t.from_stride[c];
    transfer(s, &t);
  }
}

static void all_to_all(TransferWalk *s, const CollPart *p, int64_t group) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  int g = p->gathered, c = p->split;
  const Mesh *m = s->mesh;
  Axes axes = s->call->what->axes;
  for (int64_t k = 0; k < group; k++)
    for (int64_t j = 0; j < group; j++) {
      Transfer t = box_of(p);
      t.src = &s->src[k], t.dst = &s->dst[j];
      t.src_of = &s->peer[k], t.dst_of = &s->peer[j];
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
static bool serves(const TransferWalk *s, Axes cut, int64_t k, int64_t j) {
  const Mesh *m = s->mesh;
  for (int a = 0; a < m->naxes; a++)
    if (!axes_has(cut, a) && mesh_coord(m, s->peer[k], a) != mesh_coord(m, s->peer[j], a))
      return false;
  return true;
}

// How dim d is cut before and after a permute.
static MovedDim moved_dim(const Collective *w, const CollPart *p, int d) {
  return d == p->split ? (MovedDim){p->whole, w->axes, w->to} : p->moved[d];
}

// First index along dim d of what processor r holds after a permute, and how many at most: a block,
// or with its halo what it reads.
static int64_t held_from(const Mesh *m, const CollPart *p, const MovedDim *x, int d, int64_t r,
                         int64_t *most) {
  int64_t first;
  if (d != p->split || !p->footprint.affine.divisor)
    return piece_of(m, x->to, x->whole, p->dst_block[d], axes_rank(m, x->to, r), most);
  footprint_interval(m, &p->footprint, p->whole, r, &first, most);
  return first;
}

// What source k has along dim d of what destination j takes: elements, and where they begin in both
// blocks. `most` are the elements when all rows are there.
typedef struct Common {
  int64_t n, most, from, to;
} Common;

static Common common_part(const TransferWalk *s, const CollPart *p, int d, int64_t k, int64_t j) {
  uint32_t part = (uint32_t)(p - s->call->what->part);
  MovedDim x = moved_dim(s->call->what, p, d);
  int64_t have = src_valid(s, k, part)[d];
  if (!x.whole) return (Common){have, p->src_block[d], 0, 0};
  int64_t has, takes;
  int64_t from = piece_of(s->mesh, x.from, x.whole, p->src_block[d],
                          axes_rank(s->mesh, x.from, s->peer[k]), &has);
  int64_t to = held_from(s->mesh, p, &x, d, s->peer[j], &takes),
          end = to + dst_valid(s, j, part)[d];
  int64_t most = from + has < to + takes ? from + has : to + takes;
  int64_t lo = from > to ? from : to, hi = from + have < end ? from + have : end;
  return (Common){hi > lo ? hi - lo : 0, most > lo ? most - lo : 0, lo - from, lo - to};
}

// Source pieces are numbered by the axes that cut them, destination pieces by theirs; where blocks
// nest unevenly, and for halos, a destination takes from several sources.
static void permute(TransferWalk *s, const CollPart *p, int64_t group) {
  for (int64_t j = 0; j < group; j++)
    for (int64_t k = 0; k < group; k++) {
      if (!serves(s, s->call->what->axes, k, j)) continue;
      Transfer t = box_of(p);
      t.src = &s->src[k], t.dst = &s->dst[j];
      t.src_of = &s->peer[k], t.dst_of = &s->peer[j];
      for (int d = 0; d < p->rank; d++) {
        Common c = common_part(s, p, d, k, j);
        t.extent[d] = c.n;
        t.from += c.from * t.from_stride[d];
        t.to += c.to * t.to_stride[d];
      }
      transfer(s, &t);
    }
}

typedef void Kind(TransferWalk *s, const CollPart *p, int64_t group);
static Kind *const kinds[COLL_COUNT] = {
    [COLL_ALL_REDUCE] = all_reduce,
    [COLL_ALL_GATHER] = all_gather,
    [COLL_REDUCE_SCATTER] = reduce_scatter,
    [COLL_ALL_TO_ALL] = all_to_all,
    [COLL_PERMUTE] = permute,
};

// -- the table ----------------------------------------------------------------------------------

// The axes along which the members of one group differ: those of source or destination.
static Axes group_axes(const Collective *w) {
  Axes a = w->axes;
  if (w->kind != COLL_PERMUTE) return a;
  for (int i = 0; i < w->to.n; i++)
    if (!axes_has(a, w->to.at[i])) a.at[a.n++] = w->to.at[i];
  return a;
}

static void run_group(TransferWalk *s, Axes axes, int64_t first, int64_t group) {
  const Collective *w = s->call->what;
  for (int64_t k = 0; k < group; k++) s->peer[k] = axes_peer(s->mesh, axes, first, k);
  for (uint32_t i = 0; i < w->nparts; i++) {
    for (int64_t k = 0; k < group; k++) {
      s->src[k] = member(s, k)->src[i];
      s->dst[k] = member(s, k)->dst[i];
    }
    kinds[w->kind](s, &w->part[i], group);
  }
}
void transfers_walk(TransferWalk *w) {
  Axes axes = group_axes(w->call->what);
  int64_t group = axes_size(w->mesh, axes);
  for (int64_t r = 0; r < mesh_size(w->mesh); r++)
    if (axes_rank(w->mesh, axes, r) == 0) run_group(w, axes, r, group);
}

// -- counting -----------------------------------------------------------------------------------

static int64_t elements_of(const CollPart *p, const int64_t *block) {
  int64_t n = 1;
  for (int d = 0; d < p->rank; d++) n *= block[d];
  return n;
}

// Elements that processor k of the group hands to the others of part p; dims that are not moved
// count whole, and rows that an incomplete batch lacks count too, like padding elsewhere.
static int64_t sent_by(const TransferWalk *w, const CollPart *p, int64_t group, int64_t k) {
  const Collective *c = w->call->what;
  int64_t sent = 0;
  for (int64_t j = 0; j < group; j++) {
    if (j == k || !serves(w, c->axes, k, j)) continue;
    int64_t n = 1;
    for (int d = 0; d < p->rank; d++) n *= common_part(w, p, d, k, j).most;
    sent += n;
  }
  return sent;
}

// A permute counts what the processor hands on that hands on most.
static int64_t permute_elements(const TransferWalk *w) {
  const Collective *c = w->call->what;
  Axes axes = group_axes(c);
  int64_t most = 0, group = axes_size(w->mesh, axes);
  for (int64_t r = 0; r < mesh_size(w->mesh); r++) {
    if (axes_rank(w->mesh, axes, r) != 0) continue;
    for (int64_t k = 0; k < group; k++) w->peer[k] = axes_peer(w->mesh, axes, r, k);
    for (int64_t k = 0; k < group; k++) {
      int64_t sent = 0;
      for (uint32_t i = 0; i < c->nparts; i++) sent += sent_by(w, &c->part[i], group, k);
      if (sent > most) most = sent;
    }
  }
  return most;
}

static int64_t ring_bytes(CollKind k, int64_t group, int64_t bytes) {
  if (group <= 1) return 0;
  if (k == COLL_PERMUTE) return bytes;
  int64_t rounds = k == COLL_ALL_REDUCE ? 2 : 1, each = bytes / group, rest = bytes % group;
  return rounds * each * (group - 1) + ceil_div(rounds * rest * (group - 1), group);
}

void call_count(const TransferWalk *w, CommCount *count, double seconds) {
  const Collective *c = w->call->what;
  int64_t elements = c->kind == COLL_PERMUTE ? permute_elements(w) : 0;
  for (uint32_t i = 0; i < c->nparts && c->kind != COLL_PERMUTE; i++) {
    const CollPart *p = &c->part[i];
    elements += elements_of(p, c->kind == COLL_ALL_GATHER ? p->dst_block : p->src_block);
  }
  int64_t bytes = elements * dtype_bytes(c->type);
  count->calls[c->kind]++;
  count->bytes[c->kind] += bytes;
  count->wire_bytes[c->kind] += ring_bytes(
      c->kind, axes_size(w->mesh, c->kind == COLL_PERMUTE ? group_axes(c) : c->axes), bytes);
  count->seconds[c->kind] += seconds;
}
