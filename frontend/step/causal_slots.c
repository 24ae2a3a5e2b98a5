// Recognises experts with a capacity: positions that stand in queues, each in a slot of its own.
//
//   hot[n, e]         one expert of each position: index[e] == ...
//   place[n]          its place in the queue: sum[e](cumsum[n](hot) * hot) - 1
//   dispatch[n,e,cap] hot * (index[cap] == place) * (place < size(cap)), not 0 in its own slot only
//   sent[e, cap]      sum[n](dispatch * x): a slot has the value of one position, or 0
//   y[n]              sum[e, cap](dispatch * f(sent)): reads the slots of its own position only
//
// The sum over all positions n looks ahead, and y does not: places grow along n where hot is 1, so
// no two positions have one slot. A later position has no effect on earlier ones, because the
// running sum has not. So slots can be computed from the positions of a run alone.
#include "frontend/step/decode_internal.h"

#include <math.h>
#include <string.h>

enum { MOST_FACTORS = 24 };

// The factors of a value: where the value is not 0, none of them is 0 or false.
typedef struct Factors {
  int n;
  NodeId at[MOST_FACTORS];
} Factors;

// A search for slots along time dim t.
typedef struct SlotSearch {
  const Causal *c;
  DimId t;
  NodeId hot, limited; // limited: a place of which the least with `limit` is taken; 0: none
  DimId expert;
  double limit;
  bool inexact; // a place is not exact in its type
} SlotSearch;

static NodeId uncast(const Graph *g, NodeId x) {
  while (graph_node(g, x)->op == OP_CAST) x = graph_node(g, x)->args[0];
  return x;
}

static bool is_number(const Graph *g, NodeId x, double *out) {
  const Node *n = graph_node(g, uncast(g, x));
  if (n->op == OP_CONST) *out = n->attr->num[0];
  return n->op == OP_CONST;
}

static void add_factors(const Graph *g, NodeId x, Factors *f) {
  const Node *n = graph_node(g, x = uncast(g, x));
  double other = 1;
  if (n->op == OP_MUL || n->op == OP_AND) {
    add_factors(g, n->args[0], f);
    add_factors(g, n->args[1], f);
  } else if (n->op == OP_WHERE && is_number(g, n->args[2], &other) && other == 0) {
    add_factors(g, n->args[0], f);
    add_factors(g, n->args[1], f);
  } else if (f->n < MOST_FACTORS) {
    f->at[f->n++] = x;
  }
}

static bool has_factor(const Factors *f, NodeId x) {
  for (int i = 0; i < f->n; i++)
    if (f->at[i] == x) return true;
  return false;
}

// Returns whether x is index[d] == value, true for one index at most. *d gets the dim.
static bool is_one_hot(const Graph *g, NodeId x, DimId *d, NodeId *value) {
  const Node *n = graph_node(g, x);
  for (int k = 0; k < 2 && n->op == OP_EQ; k++) {
    const Node *index = graph_node(g, uncast(g, n->args[k]));
    if (index->op != OP_INDEX) continue;
    *d = index->dims->at[0];
    *value = n->args[1 - k];
    if (!dims_has(graph_node(g, *value)->dims, *d)) return true;
  }
  return false;
}

// Returns whether x is a whole number that is the same at all positions.
static bool is_whole(const SlotSearch *s, NodeId x) {
  const Graph *g = s->c->g;
  double value = 0.5;
  if (is_number(g, x, &value)) return floor(value) == value;
  const Node *n = graph_node(g, uncast(g, x));
  return n->type == TYPE_I32 && !s->c->reads[uncast(g, x)] && !dims_has(n->dims, s->t);
}

static bool is_exact(Dtype t) { return t == TYPE_F32 || t == TYPE_F64 || t == TYPE_I32; }

static bool is_place(SlotSearch *s, NodeId x);

// Returns whether one of a and b is `hot` and the other a place.
static bool is_place_by_hot(SlotSearch *s, NodeId a, NodeId b) {
  const Graph *g = s->c->g;
  return (uncast(g, b) == s->hot && is_place(s, a)) || (uncast(g, a) == s->hot && is_place(s, b));
}

// Returns whether the least of a and b is a place where s->limited, one of them, is at most
// s->limit, the other.
static bool is_limited_place(SlotSearch *s, NodeId a, NodeId b) {
  const Graph *g = s->c->g;
  double limit;
  NodeId place = is_number(g, b, &limit) ? a : b;
  if (s->limited || !is_number(g, place == a ? b : a, &limit)) return false;
  if (!is_place(s, place) || s->limited) return false;
  s->limited = uncast(g, place);
  s->limit = limit;
  return true;
}

// Returns whether x is a whole number that is larger at each later position where `hot` is true: a
// place in a queue.
static bool is_place(SlotSearch *s, NodeId x) {
  const Graph *g = s->c->g;
  const Node *n = graph_node(g, x);
  NodeId a = n->nargs > 0 ? n->args[0] : 0, b = n->nargs > 1 ? n->args[1] : 0;
  if (n->region) return false;
  if (!is_exact((Dtype)n->type)) return s->inexact = true, false;
  switch ((int)n->op) {
  case OP_CAST: return is_place(s, a);
  case OP_CUMSUM:
    return n->attr->dims[0] == s->t && !(n->attr->flags & ORDER_REVERSE) && uncast(g, a) == s->hot;
  case OP_ADD: return (is_whole(s, b) && is_place(s, a)) || (is_whole(s, a) && is_place(s, b));
  case OP_SUB: return is_whole(s, b) && is_place(s, a);
  case OP_MUL: return is_place_by_hot(s, a, b);
  case OP_CONTRACT: // of the terms only that of the expert is not 0
    return n->attr->ndims == 1 && n->attr->dims[0] == s->expert && is_place_by_hot(s, a, b);
  case OP_MINIMUM: return is_limited_place(s, a, b);
  }
  return false;
}

// Returns a factor that is true only where the place s->limited is at most s->limit, or 0.
static NodeId find_guard(const SlotSearch *s, const Factors *f) {
  const Graph *g = s->c->g;
  double most;
  for (int i = 0; i < f->n; i++) {
    const Node *n = graph_node(g, f->at[i]);
    if ((n->op != OP_LT && n->op != OP_LE) || uncast(g, n->args[0]) != s->limited) continue;
    if (is_number(g, n->args[1], &most) && most <= s->limit + (n->op == OP_LT)) return f->at[i];
  }
  return 0;
}

static bool take_dims(const SlotSearch *s, const Node *n, Slots *out) {
  for (int i = 0; i < n->dims->n; i++) {
    DimId d = n->dims->at[i];
    if (d == s->t || dim_in(d, out->n, out->dim)) continue;
    if (out->n == MAX_RANK) return false;
    out->dim[out->n++] = d;
  }
  return true;
}

// Finds among the factors those that give each position along t a slot of its own.
static bool find(SlotSearch *s, const Factors *f, Slots *out) {
  const Graph *g = s->c->g;
  NodeId value;
  DimId d;
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < f->n; k++) {
      if (!is_one_hot(g, s->hot = f->at[i], &s->expert, &value)) break;
      s->limited = 0;
      if (!dims_has(graph_node(g, s->hot)->dims, s->t)) break;
      if (i == k || !is_one_hot(g, f->at[k], &d, &value) || !is_place(s, value)) continue;
      *out = (Slots){.hot = s->hot, .place = f->at[k]};
      if (s->limited && !(out->guard = find_guard(s, f))) continue;
      return take_dims(s, graph_node(g, s->hot), out) &&
             take_dims(s, graph_node(g, out->place), out);
    }
  return false;
}

bool slots_filled(const Causal *c, const Node *n, DimId t, Slots *out) {
  Factors f = {0};
  SlotSearch s = {.c = c, .t = t};
  for (int k = 0; k < n->nargs; k++) add_factors(c->g, n->args[k], &f);
  if ((n->op != OP_CONTRACT && n->op != OP_SUM) || n->region || !find(&s, &f, out)) return false;
  out->time = causal_time(c, t);
  memcpy(out->now, out->dim, sizeof out->now);
  for (int i = 0; i < out->n; i++)
    if (!dims_has(n->dims, out->dim[i])) return false; // positions of several slots are added
  return true;
}

bool slots_inexact(const Causal *c, const Node *n) {
  Factors f = {0};
  Slots slots;
  SlotSearch s = {.c = c};
  if (n->op != OP_CONTRACT && n->op != OP_SUM) return false;
  for (int k = 0; k < n->nargs; k++) add_factors(c->g, n->args[k], &f);
  for (int i = 0; i < n->attr->ndims && !s.inexact; i++) {
    s.t = n->attr->dims[i];
    if (causal_time(c, s.t) >= 0 && find(&s, &f, &slots)) s.inexact = false;
  }
  return s.inexact;
}

bool slots_equal(const Slots *x, const Slots *y) {
  return x->hot == y->hot && x->place == y->place && x->n == y->n && x->time == y->time &&
         memcmp(x->now, y->now, (size_t)x->n * sizeof *x->now) == 0;
}

bool slots_are_own(const Causal *c, NodeId x, const Slots *slots) {
  Factors f = {0};
  add_factors(c->g, x, &f);
  return has_factor(&f, slots->hot) && has_factor(&f, slots->place) &&
         (!slots->guard || has_factor(&f, slots->guard)) &&
         memcmp(slots->now, slots->dim, (size_t)slots->n * sizeof *slots->now) == 0;
}

void slots_rename(const Node *n, const Slots *from, Slots *out) {
  *out = *from;
  for (int i = 0; i < from->n; i++)
    for (int k = 0; k < n->attr->ndims; k++)
      if (from->now[i] == n->attr->dims[k]) out->now[i] = n->attr->to[k];
}
