// Which elements of a value lie ahead of a position, and whether they matter (Ahead in
// codegen/codegen.h). Used to prove that a value at one position of time does not depend on later
// positions.
//
//   score[t, s]                          any number where s > t
//   where(s <= t, score, -inf)           -inf where s > t: one number, whatever the scores are
//   softmax[s](where(...))               0 where s > t: a sum over s needs s <= t only
#include "codegen/codegen.h"
#include "codegen/values/live_internal.h"

#include <math.h>

// A mask may set scores to a number this low instead of -inf: their weight after a softmax is 0 in
// all types unless all scores of the row are as low.
#define AHEAD_LOWEST (-1e4)

struct Ahead {
  Live *live; // NULL: the graph has no mask over indices
  const Graph *g;
};

Ahead *ahead_new(Arena *a, const Graph *g) {
  Ahead *x = arena_new_of(a, Ahead);
  *x = (Ahead){.live = live_new(a, g, 0), .g = g};
  if (x->live) x->live->lowest = AHEAD_LOWEST;
  return x;
}

bool ahead_is_single(Ahead *x, NodeId n, DimId t, DimId s, bool zero) {
  int64_t times = dim_get(x->g->dims, t)->size, last = dim_get(x->g->dims, s)->size - 1;
  if (!x->live) return false;
  for (int64_t p = 0; p < times && p < last; p++) {
    Span ahead = {s, {(double)(p + 1), (double)last}, NULL};
    Span both = {t, {(double)p, (double)p}, &ahead};
    live_at(x->live, &both);
    Range r = live_range(x->live, n, x->live->spans, 0);
    if (!range_is_single(r) || (zero && r.lo != 0)) return false;
  }
  return true;
}
