// Finds the cheapest conversion of a value from one sharding to another: a shortest path of single
// collectives, by weighted bytes sent, then by number of calls. No block on the path is larger than
// the larger of the first and the last block. This bound is that of Zhang et al., "Memory-efficient
// array redistribution through portable collective communication" (2021).
//
//   [y/rows, -, x/cols] -> [-, z/(cols, rows), -]: two all_to_all of the block, no gather
//
// The search takes only steps that bring the sharding nearer to the target, so it visits few
// shardings:
//   slice_own, reduce_scatter, all_to_all   split a dim by further axes of the target
//   all_gather, all_to_all                  remove the last axes of a dim
//   permute                                 orders the axes of a dim as the target does
//   all_reduce, to_partial                  make full sums of partial ones, and the reverse
//
// If the path has several calls or no path has such small blocks, one permute can send each piece
// of a block directly to the processor that has the piece in the target:
//
//   [y/rows, x/cols] -> [y/cols, x/rows]    each processor sends at most two pieces of its block
//   [x/cols] -> [x/rows]                    no processor ever has all of it
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// A step of a path, as ConvertStep has it.
typedef struct Hop {
  Op op;
  int from, to;
  Axes axes;
} Hop;

// The cheapest way to a sharding that is known.
typedef struct Way {
  double bytes; // bytes sent from the start, weighted by the links (coll_weight)
  int calls, steps;
  uint32_t from; // index in PathSearch.seen of the previous sharding
  Hop by;        // the last step
} Way;

typedef struct Seen {
  Sharding s;
  Way way;
  bool done;
} Seen;

typedef struct PathSearch {
  const Machine *machine;
  const Graph *g;
  const Dims *dims;
  int64_t element;
  const Sharding *to;
  int64_t room; // number of elements that a block on the path may have, at most
  Arena *arena;
  VEC(Seen) seen;
} PathSearch;

static bool cheaper(const Way *a, const Way *b) {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->calls != b->calls ? a->calls < b->calls : a->steps < b->steps;
}

// Records that step `by` leads from x->seen.at[from] to sharding s, if s is new or was reached at
// higher cost. `bytes`: weighted bytes of the step. `calls`: 1 if the step is a collective, else 0.
static void arrive(PathSearch *x, uint32_t from, const Sharding *s, Hop by, double bytes,
                   int calls) {
  const Way *f = &x->seen.at[from].way;
  Way way = {f->bytes + bytes, f->calls + calls, f->steps + 1, from, by};
  for (uint32_t i = 0; i < x->seen.n; i++)
    if (sharding_equal(&x->seen.at[i].s, s)) {
      if (!x->seen.at[i].done && cheaper(&way, &x->seen.at[i].way)) x->seen.at[i].way = way;
      return;
    }
  if (sharding_elements(x->g, x->dims, s) <= x->room)
    vec_push(x->arena, x->seen) = (Seen){.s = *s, .way = way};
}

static void visit(PathSearch *x, uint32_t from, const Sharding *s, Hop by) {
  CollKind kind;
  double bytes = 0;
  bool call = coll_of(by.op, &kind);
  if (call) {
    const Sharding *sized = by.op == OP_ALL_GATHER ? s : &x->seen.at[from].s;
    bytes = coll_weight(x->machine, x->g->mesh, kind, by.axes,
                        sharding_elements(x->g, x->dims, sized) * x->element);
  }
  arrive(x, from, s, by, bytes, call);
}

static bool replicated(const Sharding *s, int axis) {
  return sharding_dim_of(s, axis) < 0 && !axes_has(s->partial, axis);
}

static Axes tail(Axes s, int n) {
  Axes out = {0};
  for (int i = s.n - n; i < s.n; i++) axes_append(&out, s.at[i]);
  return out;
}

// Returns the axes that follow, in the target's list of axes for dim k, those that split dim k in
// s. Empty if the target's list does not begin with the axes of s.
static Axes missing(const PathSearch *x, const Sharding *s, int k) {
  if (!axes_starts(x->to->split[k], s->split[k])) return (Axes){0};
  return tail(x->to->split[k], x->to->split[k].n - s->split[k].n);
}

static void try_reductions(PathSearch *x, uint32_t at) {
  Sharding s = x->seen.at[at].s;
  Axes ending = axes_without(s.partial, x->to->partial);
  for (unsigned set = 1; set < 1u << ending.n; set++) {
    Sharding next = s;
    Axes axes = {0};
    for (int i = 0; i < ending.n; i++)
      if (set >> i & 1) axes_append(&axes, ending.at[i]), axes_remove(&next.partial, ending.at[i]);
    if (!next.partial.n) next.monoid = MONOID_NONE;
    visit(x, at, &next, (Hop){.op = OP_ALL_REDUCE, .from = -1, .to = -1, .axes = axes});
  }
}

static void try_scatters(PathSearch *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    Sharding next = x->seen.at[at].s;
    Axes more = missing(x, &next, k), axes = {0};
    for (int i = 0; i < more.n; i++) {
      int axis = more.at[i];
      if (!axes_has(next.partial, axis)) break;
      axes_append(&axes, axis);
      axes_remove(&next.partial, axis);
      axes_append(&next.split[k], axis);
      if (!next.partial.n) next.monoid = MONOID_NONE;
      visit(x, at, &next, (Hop){.op = OP_REDUCE_SCATTER, .from = -1, .to = k, .axes = axes});
    }
  }
}

static void try_slices(PathSearch *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    const Sharding s = x->seen.at[at].s;
    for (int i = 0; i < x->to->split[k].n; i++) {
      int axis = x->to->split[k].at[i];
      Sharding next = s;
      if (!replicated(&s, axis)) continue;
      axes_append(&next.split[k], axis);
      Axes axes = {.n = 1, .at = {(uint8_t)axis}};
      visit(x, at, &next, (Hop){.op = OP_SLICE_OWN, .from = -1, .to = k, .axes = axes});
    }
  }
}

static void try_gathers(PathSearch *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    const Sharding s = x->seen.at[at].s;
    for (int n = 1; n <= s.split[k].n; n++) {
      Sharding next = s;
      Axes axes = tail(s.split[k], n);
      next.split[k] = axes_head(s.split[k], s.split[k].n - n);
      visit(x, at, &next, (Hop){.op = OP_ALL_GATHER, .from = k, .to = -1, .axes = axes});
      for (int e = 0; e < x->dims->n; e++) {
        if (e == k || !axes_starts(missing(x, &s, e), axes)) continue;
        Sharding moved = next;
        axes_join(&moved.split[e], axes);
        visit(x, at, &moved, (Hop){.op = OP_ALL_TO_ALL, .from = k, .to = e, .axes = axes});
      }
    }
  }
}

// Adds to the search the permutes that reorder the axes of one dim. The dim must have blocks of
// equal size, without padding.
static void try_permutes(PathSearch *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    Sharding next = x->seen.at[at].s;
    Axes have = next.split[k], want = axes_head(x->to->split[k], have.n);
    if (want.n != have.n || axes_equal(have, want) ||
        !axes_equal(axes_sorted(have), axes_sorted(want)) ||
        dim_get(x->g->dims, x->dims->at[k])->size % axes_size(x->g->mesh, have))
      continue;
    next.split[k] = want;
    visit(x, at, &next, (Hop){.op = OP_PERMUTE, .from = k, .to = k, .axes = have});
  }
}

static void try_partial(PathSearch *x, uint32_t at) {
  Sharding next = x->seen.at[at].s;
  Axes axes = {0};
  for (int i = 0; i < x->to->partial.n; i++)
    if (replicated(&next, x->to->partial.at[i])) axes_append(&axes, x->to->partial.at[i]);
  if (!axes.n) return;
  axes_join(&next.partial, axes);
  next.partial = axes_sorted(next.partial);
  next.monoid = MONOID_SUM;
  visit(x, at, &next, (Hop){.op = OP_TO_PARTIAL, .from = -1, .to = -1, .axes = axes});
}

static const uint32_t NOWHERE = UINT32_MAX;

static uint32_t nearest(const PathSearch *x) {
  uint32_t best = NOWHERE;
  for (uint32_t i = 0; i < x->seen.n; i++)
    if (!x->seen.at[i].done &&
        (best == NOWHERE || cheaper(&x->seen.at[i].way, &x->seen.at[best].way)))
      best = i;
  return best;
}

// Searches the cheapest path by Dijkstra's algorithm. Returns the index of the target sharding in
// x->seen, or NOWHERE if no path reaches the target.
static uint32_t walk(PathSearch *x) {
  for (;;) {
    uint32_t at = nearest(x);
    if (at == NOWHERE || sharding_equal(&x->seen.at[at].s, x->to)) return at;
    x->seen.at[at].done = true;
    try_reductions(x, at);
    try_scatters(x, at);
    try_slices(x, at);
    try_gathers(x, at);
    try_permutes(x, at);
    try_partial(x, at);
  }
}

static int path_to(const PathSearch *x, uint32_t at, ConvertStep step[MAX_STEPS]) {
  int n = x->seen.at[at].way.steps;
  if (n > MAX_STEPS) BUG("a conversion of %d steps", n);
  for (int i = n; i > 0; i--) {
    const Seen *to = &x->seen.at[at];
    Hop by = to->way.by;
    step[i - 1] = (ConvertStep){by.op, by.from, by.to, by.axes, to->s};
    at = to->way.from;
  }
  return n;
}

// -- directly to the target ---------------------------------------------------------------------

enum { MAX_PEERS = 64 }; // number of processors in a direct permute; estimating it visits all pairs

static Axes all_splits(const Sharding *s) {
  Axes all = {0};
  for (int k = 0; k < MAX_RANK; k++) axes_join(&all, s->split[k]);
  return all;
}

// Returns the number of elements that processor `from` has in sharding a and processor `to` needs
// in the target sharding. A dim with one split in both counts with the length of its block.
static int64_t common_elements(const PathSearch *x, const Sharding *a, int64_t from, int64_t to) {
  const Mesh *m = x->g->mesh;
  int64_t n = 1;
  for (int k = 0; k < x->dims->n && n; k++) {
    int64_t size = dim_get(x->g->dims, x->dims->at[k])->size, have, had, want, wanted;
    if (axes_equal(a->split[k], x->to->split[k])) {
      n *= block_length(m, size, a->split[k]);
      continue;
    }
    block_interval(m, a->split[k], size, size, from, &have, &had);
    block_interval(m, x->to->split[k], size, size, to, &want, &wanted);
    int64_t first = have > want ? have : want, end = have + had, other = want + wanted;
    if (other < end) end = other;
    n *= end > first ? end - first : 0;
  }
  return n;
}

// Returns whether processors r and s have equal mesh coordinates on all axes that are in `set` but
// not in `but`.
static bool agree(const Mesh *m, Axes set, Axes but, int64_t r, int64_t s) {
  for (int i = 0; i < set.n; i++)
    if (!axes_has(but, set.at[i]) && mesh_coord(m, r, set.at[i]) != mesh_coord(m, s, set.at[i]))
      return false;
  return true;
}

// Returns the axes that split, in `from` or in the target sharding, a dim whose split differs
// between the two. Sets *moved to `from` without the splits of all other dims.
static Axes changed_axes(const PathSearch *x, const Sharding *from, Sharding *moved) {
  *moved = (Sharding){0};
  Axes all = {0};
  for (int k = 0; k < x->dims->n; k++) {
    if (axes_equal(from->split[k], x->to->split[k])) continue;
    moved->split[k] = from->split[k];
    axes_join(&all, from->split[k]);
    axes_join(&all, x->to->split[k]);
  }
  return axes_sorted(all);
}

static bool keeps_partial(const PathSearch *x, const Sharding *from) {
  return !from->partial.n ||
         (axes_within(from->partial, x->to->partial) && from->monoid == x->to->monoid);
}

// Returns the bytes that the busiest processor sends in one permute from `from` to the target
// sharding. Returns -1 if no such permute is possible. Sets *axes to the axes of the permute.
static int64_t straight_bytes(const PathSearch *x, const Sharding *from, Axes *axes) {
  const Mesh *m = x->g->mesh;
  Sharding moved;
  *axes = changed_axes(x, from, &moved);
  int64_t group = axes_size(m, *axes), most = 0;
  if (!keeps_partial(x, from) || group > MAX_PEERS) return -1;
  Axes split = all_splits(&moved);
  for (int64_t k = 0; k < group; k++) {
    int64_t r = axes_peer(m, *axes, 0, k), sent = 0;
    for (int64_t j = 0; j < group; j++) {
      int64_t to = axes_peer(m, *axes, 0, j);
      if (to != r && agree(m, *axes, split, r, to)) sent += common_elements(x, from, r, to);
    }
    if (sent > most) most = sent;
  }
  return most * x->element;
}

// Replaces a path of several collectives in step[] by one permute, if that sends no more bytes.
// Returns the new number of steps.
static int shorten(const PathSearch *x, const Sharding *from, ConvertStep step[MAX_STEPS], int n,
                   double *bytes) {
  CollKind kind;
  Axes axes;
  int calls = 0;
  for (int i = 0; i < n; i++) calls += coll_of(step[i].op, &kind);
  if (calls < 2) return n;
  int64_t straight =
      axes_equal(from->partial, x->to->partial) ? straight_bytes(x, from, &axes) : -1;
  if (straight < 0) return n;
  double weight = coll_weight(x->machine, x->g->mesh, COLL_PERMUTE, axes, straight);
  if (weight > *bytes) return n;
  *bytes = weight;
  step[0] = (ConvertStep){.op = OP_PERMUTE, .from = -1, .to = -1, .axes = axes, .sharding = *x->to};
  return 1;
}

// Adds to the search a permute from each sharding found so far that gives the splits of the target
// sharding in one call.
static void leap(PathSearch *x) {
  for (uint32_t i = 0, n = x->seen.n; i < n; i++) {
    Axes axes;
    int64_t bytes = straight_bytes(x, &x->seen.at[i].s, &axes);
    if (bytes < 0) continue;
    Sharding there = *x->to;
    there.partial = x->seen.at[i].s.partial, there.monoid = x->seen.at[i].s.monoid;
    arrive(x, i, &there, (Hop){.op = OP_PERMUTE, .from = -1, .to = -1, .axes = axes},
           coll_weight(x->machine, x->g->mesh, COLL_PERMUTE, axes, bytes), 1);
  }
}

enum { FIRST_SEEN = 8 }; // room for so many shardings at first: most searches see fewer

int convert_path(Arena *scratch, const Machine *machine, const Graph *g, const Dims *dims,
                 Dtype type, const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
                 double *bytes) {
  ArenaMark mark = arena_mark(scratch);
  PathSearch x = {.machine = machine,
                  .g = g,
                  .dims = dims,
                  .element = dtype_bytes(type),
                  .to = to,
                  .arena = scratch};
  int64_t before = sharding_elements(g, dims, from), after = sharding_elements(g, dims, to);
  x.room = before > after ? before : after;
  x.seen.cap = FIRST_SEEN;
  x.seen.at = arena_alloc_raw(scratch, FIRST_SEEN * sizeof *x.seen.at); // not cleared: called often
  vec_push(scratch, x.seen) = (Seen){.s = *from};
  uint32_t at = walk(&x);
  if (at == NOWHERE) leap(&x), at = walk(&x);
  if (at == NOWHERE) { // too many processors for a direct permute: search without a memory limit
    x.room = INT64_MAX;
    x.seen.n = 0;
    vec_push(scratch, x.seen) = (Seen){.s = *from};
    at = walk(&x);
  }
  if (at == NOWHERE) BUG("no conversion between two states");
  int n = path_to(&x, at, step);
  *bytes = x.seen.at[at].way.bytes;
  n = shorten(&x, from, step, n, bytes);
  arena_reset(scratch, mark);
  return n;
}
