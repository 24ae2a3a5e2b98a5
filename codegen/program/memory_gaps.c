// Free gaps of the arena: which offsets no placed buffer uses during a live range.
//
// A binary tree over the instructions: a node stands for a range of them, its children for the
// halves. Each node has two sets of offsets:
//
//   whole   used by a buffer that is live in all of the node's instructions
//   some    used by a buffer that is live in at least one of them
//
// A live range is the union of few nodes. The offsets used during it are those in `some` of these
// nodes and in `whole` of the nodes above them. Buffers that lie side by side are one interval of a
// set, so sets stay short. A query walks through these sets together, from offset 0 on. It passes
// no more than MOST_PASSED intervals, because their number may grow with the model. So placing n
// buffers takes about n log n steps.
#include "codegen/program/program_internal.h"

#include <string.h>

// A query that has passed LEAST_PASSED intervals takes the smallest sufficient gap found so far, or
// the next one. After MOST_PASSED intervals without such a gap it takes the end of all.
enum { LEAST_PASSED = 64, MOST_PASSED = 256 };

// Offsets from `from` to below `to`.
typedef struct Interval {
  int64_t from, to;
} Interval;
typedef VEC(Interval) Intervals; // sorted, with gaps between them

// The intervals of a set that the current query has still to pass.
typedef struct Cursor {
  const Interval *at, *end;
} Cursor;

struct MemoryGaps {
  Arena *a;
  uint32_t leaves; // a power of two; the children of node k are 2k and 2k + 1, the root is 1
  Intervals *whole, *some; // by node
  VEC(Cursor) cursor;      // of the current query (gaps_smallest), a heap: first intervals first
};

MemoryGaps *gaps_new(Arena *a, uint32_t instrs) {
  MemoryGaps *g = arena_new_of(a, MemoryGaps);
  *g = (MemoryGaps){.a = a, .leaves = 1};
  while (g->leaves < instrs) g->leaves *= 2;
  g->whole = arena_array(a, Intervals, 2 * g->leaves);
  g->some = arena_array(a, Intervals, 2 * g->leaves);
  return g;
}

// Returns the index of the first interval of s that ends at `offset` or behind it.
static uint32_t first_reaching(const Intervals *s, int64_t offset) {
  uint32_t lo = 0, hi = s->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (s->at[mid].to < offset)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

// Adds the offsets of interval `more` to set s, whose memory is in `a`. Intervals of the set that
// overlap it, or end where it begins, or begin where it ends, become one with it.
static void add_interval(Arena *a, Intervals *s, Interval more) {
  uint32_t first = first_reaching(s, more.from), end = first;
  for (; end < s->n && s->at[end].from <= more.to; end++) {
    if (s->at[end].from < more.from) more.from = s->at[end].from;
    if (s->at[end].to > more.to) more.to = s->at[end].to;
  }
  if (first == end) {
    vec_push(a, *s) = more; // makes room: the entries from `first` on move up
    memmove(&s->at[first + 1], &s->at[first], (s->n - 1 - first) * sizeof *s->at);
  } else if (end > first + 1) {
    memmove(&s->at[first + 1], &s->at[end], (s->n - end) * sizeof *s->at);
    s->n -= end - first - 1;
  }
  s->at[first] = more;
}

// Adds offsets that are used in the instructions first..last to node k, which has the instructions
// lo..hi, and to the nodes below it.
static void take_in(MemoryGaps *g, uint32_t k, uint32_t lo, uint32_t hi, uint32_t first,
                    uint32_t last, Interval used) {
  if (last < lo || hi < first) return;
  add_interval(g->a, &g->some[k], used);
  if (first <= lo && hi <= last) {
    add_interval(g->a, &g->whole[k], used);
    return;
  }
  uint32_t mid = lo + (hi - lo) / 2;
  take_in(g, 2 * k, lo, mid, first, last, used);
  take_in(g, 2 * k + 1, mid + 1, hi, first, last, used);
}

void gaps_take(MemoryGaps *g, uint32_t first, uint32_t last, int64_t from, int64_t to) {
  if (from < to) take_in(g, 1, 0, g->leaves - 1, first, last, (Interval){from, to});
}

// Adds set s to those that the current query walks through.
static void collect(MemoryGaps *g, const Intervals *s) {
  if (s->n) vec_push(g->a, g->cursor) = (Cursor){s->at, s->at + s->n};
}

// Collects the sets whose offsets are used in any of the instructions first..last by node k, which
// has the instructions lo..hi.
static void used_in(MemoryGaps *g, uint32_t k, uint32_t lo, uint32_t hi, uint32_t first,
                    uint32_t last) {
  if (last < lo || hi < first || !g->some[k].n) return;
  if (first <= lo && hi <= last) {
    collect(g, &g->some[k]);
    return;
  }
  collect(g, &g->whole[k]);
  uint32_t mid = lo + (hi - lo) / 2;
  used_in(g, 2 * k, lo, mid, first, last);
  used_in(g, 2 * k + 1, mid + 1, hi, first, last);
}

// Moves cursor i down in the heap to its place: a cursor comes before those whose intervals begin
// later.
static void sift_down(MemoryGaps *g, uint32_t i) {
  Cursor *c = g->cursor.at;
  for (uint32_t child = 2 * i + 1; child < g->cursor.n; child = 2 * i + 1) {
    if (child + 1 < g->cursor.n && c[child + 1].at->from < c[child].at->from) child++;
    if (c[i].at->from <= c[child].at->from) return;
    Cursor swap = c[i];
    c[i] = c[child];
    c[child] = swap;
    i = child;
  }
}

// Moves cursor c past the intervals that end at `at` or before it: by 1, 2, 4 ... intervals, and
// then by bisection.
static void move_past(Cursor *c, int64_t at) {
  ptrdiff_t step = 1;
  for (; step < c->end - c->at && c->at[step].to <= at; step *= 2) c->at += step;
  for (; step; step /= 2)
    if (step < c->end - c->at && c->at[step].to <= at) c->at += step;
  if (c->at->to <= at) c->at++;
}

// Moves the first cursor past the intervals that end at `at` or before it.
static void pass(MemoryGaps *g, int64_t at) {
  Cursor *c = &g->cursor.at[0];
  move_past(c, at);
  if (c->at == c->end) *c = g->cursor.at[--g->cursor.n];
  sift_down(g, 0);
}

int64_t gaps_smallest(MemoryGaps *g, uint32_t first, uint32_t last, int64_t bytes) {
  int64_t at = 0, best = -1, best_gap = 0;
  g->cursor.n = 0;
  used_in(g, 1, 0, g->leaves - 1, first, last);
  for (uint32_t i = g->cursor.n / 2; i-- > 0;) sift_down(g, i);
  for (int n = 0; g->cursor.n && n < (best < 0 ? MOST_PASSED : LEAST_PASSED); n++) {
    Interval next = *g->cursor.at[0].at;
    if (next.from - at >= bytes && (best < 0 || next.from - at < best_gap))
      best = at, best_gap = next.from - at;
    if (next.to > at) at = next.to;
    pass(g, at);
  }
  for (uint32_t i = 0; i < g->cursor.n && best < 0; i++)
    if (g->cursor.at[i].end[-1].to > at) at = g->cursor.at[i].end[-1].to;
  return best >= 0 ? best : at;
}
