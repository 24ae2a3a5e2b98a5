// The transfers of every kind of collective, and the copying of boxes of elements.
//
// A box is walked in runs: elements that are contiguous in sources and destinations. A group is the
// processors that exchange blocks in a collective. Member k of a group is processor w->peer[k] of
// the TransferWalk w. The part of a dim that one member has is its piece.
#include "collectives/local/transfer.h"

#include <stdlib.h>
#include <string.h>

enum { SPLIT_ELEMENTS = 1024 };

// -- moving the elements of one transfer --------------------------------------------------------

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

// Merges neighbouring dims of the transfer's box that are contiguous in source and destination. So
// the runs, the contiguous elements that are moved at once, become longer.
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

// Moves elements lo..hi-1 of the transfer's box, counted row-major, run by run. A run is a sequence
// of elements that are contiguous in sources and destinations.
static void move_range(const Transfer *t, const Collective *c, int64_t lo, int64_t hi) {
  // A run is the innermost dim if it is contiguous, otherwise one element.
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

void transfer_share(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  const Collective *c = w->call->what;
  if (elements < (int64_t)SPLIT_ELEMENTS * w->workers) {
    if (job % w->workers == w->worker) move_range(t, c, 0, elements);
    return;
  }
  // shares are multiples of 64 elements, so that no two workers write to one cache line
  int64_t each = ceil_div(ceil_div(elements, w->workers), 64) * 64;
  int64_t lo = clamp64(each * w->worker, 0, elements);
  move_range(t, c, lo, clamp64(lo + each, 0, elements));
}

void transfer_copy(const Transfer *t, const Collective *c, int64_t lo, int64_t hi,
                   bool fills_buffer, const char *from, char *to) {
  char *src = (char *)(uintptr_t)from;
  Transfer one = *t;
  one.nsrc = one.ndst = 1;
  one.src = &src, one.dst = &to;
  row_strides(one.rank, one.extent, fills_buffer ? one.to_stride : one.from_stride);
  *(fills_buffer ? &one.to : &one.from) = -lo;
  move_range(&one, c, lo, hi);
}

// -- beginning a walk ---------------------------------------------------------------------------

WalkRoom walk_room(int64_t processors, int workers) {
  size_t n = (size_t)processors * (size_t)workers;
  return (WalkRoom){processors, mem_zeroed(n, sizeof(int64_t)), mem_zeroed(2 * n, sizeof(char *))};
}

void walk_room_free(WalkRoom *r) {
  free(r->peer);
  free(r->address);
}

TransferWalk walk_begin(const WalkRoom *r, int room, const Mesh *mesh, const CommCall *call,
                        int worker, int workers) {
  char **address = r->address + 2 * room * r->processors;
  return (TransferWalk){.mesh = mesh,
                        .call = call,
                        .take = transfer_share,
                        .worker = worker,
                        .workers = workers,
                        .combine = combine_of(call->what->type),
                        .peer = r->peer + room * r->processors,
                        .src = address,
                        .dst = address + r->processors};
}

// Calls w->take, the callback of the walk, with the transfer t. Does nothing if t has no elements.
static void transfer(TransferWalk *w, Transfer *t) {
  int64_t total = 1;
  for (int d = 0; d < t->rank; d++) total *= t->extent[d] > 0 ? t->extent[d] : 0;
  int64_t job = w->job++;
  if (total == 0) return;
  if (!w->by_dim) join_dims(t);
  t->combine = w->combine;
  w->take(w, t, total, job);
}

static Transfer box_of(const CollPart *p) {
  Transfer t = {.rank = p->rank, .nsrc = 1, .ndst = 1};
  row_strides(p->rank, p->src_block, t.from_stride);
  row_strides(p->rank, p->dst_block, t.to_stride);
  return t;
}

// Returns the first index of the piece of member k, the elements that it has. `axes` split a dim of
// `all` elements into one piece for each member of a group. `piece` is the length of a piece in
// memory; *elements gets the number of its elements that are not padding. The second axis splits
// each block of the first, so with uneven sizes pieces need not begin at multiples of their length.
static int64_t piece_of(const Mesh *m, Axes axes, int64_t all, int64_t piece, int64_t k,
                        int64_t *elements) {
  int64_t start = 0, length = all, digit = axes_size(m, axes), rest = all;
  for (int i = 0; i < axes.n; i++) {
    int64_t n = m->axis[axes.at[i]].size;
    digit /= n;
    length = ceil_div(length, n);
    int64_t skipped = k / digit % n * length;
    start += skipped;
    rest = clamp64(rest - skipped, 0, length);
  }
  if (length != piece) start = k * piece, rest = clamp64(all - start, 0, piece);
  *elements = rest;
  return start;
}

static int64_t piece_start(const Mesh *m, Axes axes, int64_t all, int64_t piece, int64_t k) {
  int64_t n;
  return piece_of(m, axes, all, piece, k, &n);
}

// -- the transfers of each kind of collective ---------------------------------------------------

static const CommMember *member(const TransferWalk *w, int64_t k) {
  return &w->call->member[w->peer[k]];
}
static const int64_t *src_valid(const TransferWalk *w, int64_t k, const CollPart *p) {
  return member(w, k)->src_valid + (p - w->call->what->part) * MAX_RANK;
}
static const int64_t *dst_valid(const TransferWalk *w, int64_t k, const CollPart *p) {
  return member(w, k)->dst_valid + (p - w->call->what->part) * MAX_RANK;
}

// Returns to how many members of the group a result of part p is written: to one if all share its
// memory.
static int64_t results(const TransferWalk *w, const CollPart *p, int64_t group) {
  bool once = (p->once || p->dst.common) && w->dst[0] && w->dst[0] == w->dst[group - 1];
  return once ? 1 : group;
}

// Passes the one transfer of an all_reduce to the callback of the walk. Its box has no padding
// along dim 0. Padding along other dims is combined too, into padding of the result, so that more
// elements are contiguous.
static void all_reduce(TransferWalk *w, const CollPart *p, int64_t group) {
  Transfer t = box_of(p);
  t.src = w->src, t.dst = w->dst;
  t.src_of = t.dst_of = w->peer;
  t.nsrc = group;
  t.ndst = results(w, p, group);
  const int64_t *valid = src_valid(w, 0, p);
  bool empty = false;
  for (int d = 0; d < p->rank; d++) {
    t.extent[d] = d == 0 ? valid[0] : p->src_block[d];
    empty = empty || valid[d] == 0;
  }
  if (!empty) transfer(w, &t);
}

// Passes the transfers of an all_gather or reduce_scatter to the callback of the walk, one for each
// member of the group. An all_gather copies the part of a dim that this member has to all members.
// A reduce_scatter combines the part that this member gets from the blocks of all members.
static void pieces(TransferWalk *w, const CollPart *p, int64_t group) {
  bool gather = w->call->what->kind == COLL_ALL_GATHER;
  int d = gather ? p->gathered : p->split;
  int64_t all = gather ? p->dst_block[d] : p->src_block[d],
          piece = gather ? p->src_block[d] : p->dst_block[d];
  for (int64_t k = 0; k < group; k++) {
    Transfer t = box_of(p);
    t.nsrc = gather ? 1 : group, t.ndst = gather ? results(w, p, group) : 1;
    t.src = gather ? &w->src[k] : w->src, t.dst = gather ? w->dst : &w->dst[k];
    t.src_of = gather ? &w->peer[k] : w->peer, t.dst_of = gather ? w->peer : &w->peer[k];
    memcpy(t.extent, gather ? src_valid(w, k, p) : dst_valid(w, k, p), sizeof t.extent);
    int64_t start = piece_start(w->mesh, w->call->what->axes, all, piece, k);
    t.extent[d] = clamp64(t.extent[d], 0, clamp64(all - start, 0, INT64_MAX));
    if (gather)
      t.to = start * t.to_stride[d];
    else
      t.from = start * t.from_stride[d];
    transfer(w, &t);
  }
}

static void all_to_all(TransferWalk *w, const CollPart *p, int64_t group) {
  int g = p->gathered, c = p->split;
  const Mesh *m = w->mesh;
  Axes axes = w->call->what->axes;
  for (int64_t k = 0; k < group; k++)
    for (int64_t j = 0; j < group; j++) {
      Transfer t = box_of(p);
      t.src = &w->src[k], t.dst = &w->dst[j];
      t.src_of = &w->peer[k], t.dst_of = &w->peer[j];
      memcpy(t.extent, src_valid(w, k, p), sizeof t.extent);
      int64_t from = piece_start(m, axes, p->src_block[c], p->dst_block[c], j);
      int64_t to = piece_start(m, axes, p->dst_block[g], p->src_block[g], k);
      t.extent[c] = clamp64(t.extent[c] - from, 0, dst_valid(w, j, p)[c]);
      t.extent[g] = clamp64(t.extent[g], 0, clamp64(p->dst_block[g] - to, 0, INT64_MAX));
      t.from = from * t.from_stride[c];
      t.to = to * t.to_stride[g];
      transfer(w, &t);
    }
}

// Returns true if member j of the group reads the copy of the source that member k has. That is so
// if the coordinates of j and k are equal on all axes but `split`, the axes that split the source.
static bool serves(const TransferWalk *w, Axes split, int64_t k, int64_t j) {
  const Mesh *m = w->mesh;
  for (int a = 0; a < m->naxes; a++)
    if (!axes_has(split, a) && mesh_coord(m, w->peer[k], a) != mesh_coord(m, w->peer[j], a))
      return false;
  return true;
}

// Returns how dim d of part p (one collective of the call) is split before and after a permute.
static MovedDim moved_dim(const Collective *c, const CollPart *p, int d) {
  return d == p->split ? (MovedDim){p->whole, c->axes, c->to} : p->moved[d];
}

// Returns the first index of the interval along dim d that processor r receives by a permute. The
// interval is its block or, with a halo, its footprint (the block and the neighbouring elements
// that it reads). *most gets the length of the interval in a full batch.
static int64_t received_from(const Mesh *m, const CollPart *p, const MovedDim *x, int d, int64_t r,
                             int64_t *most) {
  int64_t first;
  if (d != p->split || !p->footprint.affine.divisor)
    return piece_of(m, x->to, x->whole, p->dst_block[d], axes_rank(m, x->to, r), most);
  footprint_interval(m, &p->footprint, p->whole, r, &first, most);
  return first;
}

// The elements along one dim that a source has and a destination of a permute receives.
typedef struct Common {
  int64_t n, most;  // number of these elements in this batch, and in a full batch
  int64_t from, to; // index of the first one in the source's and in the destination's block
} Common;

static Common common_part(const TransferWalk *w, const CollPart *p, int d, int64_t k, int64_t j) {
  MovedDim x = moved_dim(w->call->what, p, d);
  int64_t have = src_valid(w, k, p)[d];
  if (!x.whole) return (Common){have, p->src_block[d], 0, 0};
  int64_t has, takes;
  int64_t from = piece_of(w->mesh, x.from, x.whole, p->src_block[d],
                          axes_rank(w->mesh, x.from, w->peer[k]), &has);
  int64_t to = received_from(w->mesh, p, &x, d, w->peer[j], &takes),
          end = to + dst_valid(w, j, p)[d];
  int64_t most = from + has < to + takes ? from + has : to + takes;
  int64_t lo = from > to ? from : to, hi = from + have < end ? from + have : end;
  return (Common){hi > lo ? hi - lo : 0, most > lo ? most - lo : 0, lo - from, lo - to};
}

// Passes the transfers of a permute to the callback of the walk: one from each source to each
// destination that receives some of its elements. With halos, and where blocks are of unequal size,
// a destination has several sources.
static void permute(TransferWalk *w, const CollPart *p, int64_t group) {
  for (int64_t j = 0; j < group; j++)
    for (int64_t k = 0; k < group; k++) {
      if (!serves(w, w->call->what->axes, k, j)) continue;
      Transfer t = box_of(p);
      t.src = &w->src[k], t.dst = &w->dst[j];
      t.src_of = &w->peer[k], t.dst_of = &w->peer[j];
      for (int d = 0; d < p->rank; d++) {
        Common c = common_part(w, p, d, k, j);
        t.extent[d] = c.n;
        t.from += c.from * t.from_stride[d];
        t.to += c.to * t.to_stride[d];
      }
      transfer(w, &t);
    }
}

// -- the walk over all groups and parts of a call -----------------------------------------------

typedef void Kind(TransferWalk *w, const CollPart *p, int64_t group);
static Kind *const kinds[COLL_COUNT] = {
    [COLL_ALL_REDUCE] = all_reduce, [COLL_ALL_GATHER] = pieces, [COLL_REDUCE_SCATTER] = pieces,
    [COLL_ALL_TO_ALL] = all_to_all, [COLL_PERMUTE] = permute,
};

Axes group_axes(const Collective *c) {
  Axes a = c->axes;
  if (c->kind != COLL_PERMUTE) return a;
  for (int i = 0; i < c->to.n; i++)
    if (!axes_has(a, c->to.at[i])) a.at[a.n++] = c->to.at[i];
  return a;
}

static void run_group(TransferWalk *w, Axes axes, int64_t first, int64_t group) {
  const Collective *c = w->call->what;
  for (int64_t k = 0; k < group; k++) w->peer[k] = axes_peer(w->mesh, axes, first, k);
  for (uint32_t i = 0; i < c->nparts; i++) {
    if (c->part[i].deferred && w->call->defers) continue;
    w->part = &c->part[i];
    for (int64_t k = 0; k < group; k++) {
      w->src[k] = member(w, k)->src[i];
      w->dst[k] = member(w, k)->dst[i];
    }
    kinds[c->kind](w, &c->part[i], group);
  }
}

void transfers_walk(TransferWalk *w) {
  Axes axes = group_axes(w->call->what);
  int64_t group = axes_size(w->mesh, axes);
  for (int64_t r = 0; r < mesh_size(w->mesh); r++)
    if (axes_rank(w->mesh, axes, r) == 0) run_group(w, axes, r, group);
}

// -- counting the bytes of a call ---------------------------------------------------------------

static int64_t elements_of(const CollPart *p, const int64_t *block) {
  int64_t n = 1;
  for (int d = 0; d < p->rank; d++) n *= block[d];
  return n;
}

// Returns the number of elements that member k of the group sends to the others in part p (one
// permute node) of a call. An incomplete batch counts as a full one, because coll_call_bytes
// predicts a full one.
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

// Returns the number of elements that the processor that sends most sends in a call of permutes.
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
  count->wire_bytes[c->kind] += coll_wire_bytes(
      c->kind, axes_size(w->mesh, c->kind == COLL_PERMUTE ? group_axes(c) : c->axes), bytes);
  count->seconds[c->kind] += seconds;
}
