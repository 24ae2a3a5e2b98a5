// Which elements of a value lie ahead of a position, and whether they matter (Ahead in
// codegen/codegen.h). Used to prove that a value at one position of time does not depend on later
// positions.
//
//   score[t, s]                          any number where s > t
//   where(s <= t, score, -inf)           -inf where s > t: one number, whatever the scores are
//   softmax[s](where(...))               0 where s > t: a sum over s needs s <= t only
//
// A mask may set or add a finite number instead of -inf. It hides scores if it is so low that exp
// makes 0 of it for all scores within AHEAD_REACH: -1e9 does, -1e4 or -1e9 / 1000 does not.
#include "codegen/codegen.h"
#include "codegen/values/live_internal.h"

#include <math.h>

struct Ahead {
  Live *live; // NULL: the graph has no mask over indices
  const Graph *g;
};

Ahead *ahead_new(Arena *a, const Graph *g) {
  Ahead *x = arena_new_of(a, Ahead);
  *x = (Ahead){.live = live_new(a, g, 0), .g = g};
  if (x->live) x->live->reach = AHEAD_REACH;
  return x;
}

// Returns whether the result of operation op depends on no input through elements of range r.
static bool is_neutral(Op op, Range r) {
  if (op == OP_CONTRACT) return range_is(r, 0);
  if (range_is_single(r)) return true;
  if (op == OP_MAX || op == OP_ARGMAX || op == OP_LOGSUMEXP) return r.hi <= -AHEAD_HIDDEN;
  return (op == OP_MIN || op == OP_ARGMIN) && r.lo >= AHEAD_HIDDEN;
}

bool ahead_is_neutral(Ahead *x, NodeId n, DimId t, DimId s, Op op) {
  int64_t times = dim_get(x->g->dims, t)->size, last = dim_get(x->g->dims, s)->size - 1;
  if (!x->live) return false;
  for (int64_t p = 0; p < times && p < last; p++) {
    Span ahead = {s, {(double)(p + 1), (double)last}, NULL};
    Span both = {t, {(double)p, (double)p}, &ahead};
    live_at(x->live, &both);
    Range r = live_range(x->live, n, x->live->spans, 0);
    if (!is_neutral(op, r)) return false;
  }
  return true;
}
