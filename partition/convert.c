// The cheapest way from one state of a value to another: a shortest path over single conversions, by
// bytes sent, then by number of calls. Nothing is ever gathered as a way out.
//
//   [y/rows, -, x/cols] -> [-, z/(cols, rows), -]: two all_to_all of the block; gathering would move it all
//
// Edges towards the target only, so that few states are seen:
//   slice_own, reduce_scatter, all_to_all   append axes to a cut when the target wants them there
//   all_gather, all_to_all                  take the last axes of a cut away
//   permute                                 puts the axes of a cut in the target's order (equal full blocks)
//   all_reduce, own_term                    end or begin partial terms
#include "partition/state.h"

#include <string.h>

typedef struct Seen {
  State s;
  int64_t bytes;
  int calls, steps;
  uint32_t from;    // index of the state before it
  Step by;
  bool done;
} Seen;

typedef struct Search {
  const Graph *g;
  const Dims *dims;
  int64_t element;
  const State *to;
  Arena *arena;
  VEC(Seen) seen;
} Search;

static bool cheaper(const Seen *a, const Seen *b) {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->calls != b->calls ? a->calls < b->calls : a->steps < b->steps;
}

static void reach(Search *x, uint32_t from, State s, Step by) {
  const Seen *f = &x->seen.at[from];
  CollKind kind;
  by.state = s;
  Seen next = {.s = s, .bytes = f->bytes, .calls = f->calls, .steps = f->steps + 1, .from = from, .by = by};
  if (coll_of(by.op, &kind)) {
    const State *sized = by.op == OP_ALL_GATHER ? &s : &f->s;
    next.bytes += coll_wire_bytes(kind, axes_size(x->g->mesh, by.axes),
                                  state_elements(x->g, x->dims, sized) * x->element);
    next.calls++;
  }
  for (uint32_t i = 0; i < x->seen.n; i++)
    if (state_equal(&x->seen.at[i].s, &s, x->dims->n)) {
      if (!x->seen.at[i].done && cheaper(&next, &x->seen.at[i])) x->seen.at[i] = next;
      return;
    }
  vec_push(x->arena, x->seen) = next;
}

static bool replicated(const Search *x, const State *s, int axis) {
  return state_cut_by(s, x->dims->n, axis) < 0 && !axes_has(s->partial, axis);
}

static Axes tail(Axes s, int n) {
  Axes out = {0};
  for (int i = s.n - n; i < s.n; i++) axes_append(&out, s.at[i]);
  return out;
}

// Axes that the target has behind what dim k has now; empty when the cuts differ already.
static Axes missing(const Search *x, const State *s, int k) {
  if (!axes_starts(x->to->cut[k], s->cut[k])) return (Axes){0};
  return tail(x->to->cut[k], x->to->cut[k].n - s->cut[k].n);
}

static void try_reductions(Search *x, uint32_t at) {
  State s = x->seen.at[at].s;
  Axes ending = {0};
  for (int i = 0; i < s.partial.n; i++)
    if (!axes_has(x->to->partial, s.partial.at[i])) axes_append(&ending, s.partial.at[i]);
  for (unsigned set = 1; set < 1u << ending.n; set++) {
    State next = s;
    Axes axes = {0};
    for (int i = 0; i < ending.n; i++)
      if (set >> i & 1) axes_append(&axes, ending.at[i]), axes_remove(&next.partial, ending.at[i]);
    if (!next.partial.n) next.monoid = MONOID_NONE;
    reach(x, at, next, (Step){.op = OP_ALL_REDUCE, .from = -1, .to = -1, .axes = axes});
  }
}

static void try_scatters(Search *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    State next = x->seen.at[at].s;
    Axes more = missing(x, &next, k), axes = {0};
    for (int i = 0; i < more.n; i++) {
      int axis = more.at[i];
      if (!axes_has(next.partial, axis)) break;
      axes_append(&axes, axis);
      axes_remove(&next.partial, axis);
      axes_append(&next.cut[k], axis);
      if (!next.partial.n) next.monoid = MONOID_NONE;
      reach(x, at, next, (Step){.op = OP_REDUCE_SCATTER, .from = -1, .to = k, .axes = axes});
    }
  }
}

static void try_slices(Search *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    const State s = x->seen.at[at].s;
    for (int i = 0; i < x->to->cut[k].n; i++) {
      int axis = x->to->cut[k].at[i];
      State next = s;
      if (!replicated(x, &s, axis)) continue;
      axes_append(&next.cut[k], axis);
      Axes axes = {.n = 1, .at = {(uint8_t)axis}};
      reach(x, at, next, (Step){.op = OP_SLICE_OWN, .from = -1, .to = k, .axes = axes});
    }
  }
}

static void try_gathers(Search *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    const State s = x->seen.at[at].s;
    for (int n = 1; n <= s.cut[k].n; n++) {
      State next = s;
      Axes axes = tail(s.cut[k], n);
      next.cut[k] = axes_head(s.cut[k], s.cut[k].n - n);
      reach(x, at, next, (Step){.op = OP_ALL_GATHER, .from = k, .to = -1, .axes = axes});
      for (int e = 0; e < x->dims->n; e++) {
        if (e == k || !axes_starts(missing(x, &s, e), axes)) continue;
        State moved = next;
        axes_join(&moved.cut[e], axes);
        reach(x, at, moved, (Step){.op = OP_ALL_TO_ALL, .from = k, .to = e, .axes = axes});
      }
    }
  }
}

// Block grids in another order match only where no block is short.
static void try_permutes(Search *x, uint32_t at) {
  for (int k = 0; k < x->dims->n; k++) {
    State next = x->seen.at[at].s;
    Axes have = next.cut[k], want = axes_head(x->to->cut[k], have.n);
    if (want.n != have.n || axes_equal(have, want) || !axes_equal(axes_sorted(have), axes_sorted(want)) ||
        dim_get(x->g->dims, x->dims->at[k])->size % axes_size(x->g->mesh, have)) continue;
    next.cut[k] = want;
    reach(x, at, next, (Step){.op = OP_PERMUTE, .from = k, .to = k, .axes = have});
  }
}

static void try_terms(Search *x, uint32_t at) {
  State next = x->seen.at[at].s;
  Axes axes = {0};
  for (int i = 0; i < x->to->partial.n; i++)
    if (replicated(x, &next, x->to->partial.at[i])) axes_append(&axes, x->to->partial.at[i]);
  if (!axes.n) return;
  axes_join(&next.partial, axes);
  next.partial = axes_sorted(next.partial);
  next.monoid = MONOID_SUM;
  reach(x, at, next, (Step){.op = OP_OWN_TERM, .from = -1, .to = -1, .axes = axes});
}

static uint32_t nearest(const Search *x) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < x->seen.n; i++)
    if (!x->seen.at[i].done && (best == UINT32_MAX || cheaper(&x->seen.at[i], &x->seen.at[best]))) best = i;
  if (best == UINT32_MAX) BUG("no conversion between two states");
  return best;
}

static int path_to(const Search *x, uint32_t at, Step step[MAX_STEPS]) {
  int n = x->seen.at[at].steps;
  if (n > MAX_STEPS) BUG("a conversion of %d steps", n);
  for (int i = n; i > 0; i--) {
    step[i - 1] = x->seen.at[at].by;
    at = x->seen.at[at].from;
  }
  return n;
}

int convert_path(Arena *scratch, const Graph *g, const Dims *dims, Dtype type, const State *from,
                 const State *to, Step step[MAX_STEPS], int64_t *bytes) {
  ArenaMark mark = arena_mark(scratch);
  Search x = {.g = g, .dims = dims, .element = dtype_bytes(type), .to = to, .arena = scratch};
  vec_push(scratch, x.seen) = (Seen){.s = *from};
  for (;;) {
    uint32_t at = nearest(&x);
    x.seen.at[at].done = true;
    if (state_equal(&x.seen.at[at].s, to, dims->n)) {
      int n = path_to(&x, at, step);
      *bytes = x.seen.at[at].bytes;
      arena_reset(scratch, mark);
      return n;
    }
    try_reductions(&x, at);
    try_scatters(&x, at);
    try_slices(&x, at);
    try_gathers(&x, at);
    try_permutes(&x, at);
    try_terms(&x, at);
  }
}
