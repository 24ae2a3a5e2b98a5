// Searches the orders of least estimated cost: local search over order classes. In each step some
// classes get other orders. The step is kept if the operations that the classes are part of
// cost less together. Steps of three sizes are tried, until none of them is an improvement:
//
//   one class        a dim moves to another place
//   with neighbours  the same, and classes that share an operation with it get the same sequence
//   all classes      one dim moves before another wherever it comes after it
//
// Only costs of operations on changed classes are updated. A step that was no improvement is not
// tried again while it would again be none (order_refused.c).
#include "codegen/order/order_search_internal.h"

enum { PASSES = 8 };

// Sets the orders of all classes that follow from class c.
static void derive(OrderClasses *s, ClassId c) {
  for (uint32_t i = 0; i < s->cls.at[c].derived.n; i++) {
    ClassId d = s->cls.at[c].derived.at[i];
    if (s->cls.at[d].kind != CLASS_DERIVED) continue;
    const Node *x = graph_node(s->g, s->cls.at[d].node);
    DimList list = s->cls.at[c].order;
    if (x->op == OP_MERGE) order_adjacent(x, &list);
    list = order_derived(x, &list);
    class_order(&s->cls.at[d], &list);
    derive(s, d);
  }
}

static void set_class(Search *r, ClassId c, const DimList *order) {
  OrderClass *x = &r->s->cls.at[c];
  if (dims_equal(&x->order, order)) return;
  vec_push(r->s->a, r->order) = (SavedOrder){c, x->order};
  class_order(x, order);
  derive(r->s, c);
}

// Updates the costs of all uses of the changed classes. Keeps the step if it is an
// improvement, else restores the orders. Returns whether it is kept.
static bool step_end(Search *r) {
  OrderClasses *s = r->s;
  double change = 0;
  r->stamp++;
  r->old.n = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const OrderClass *c = &s->cls.at[r->order.at[i].cls];
    for (uint32_t j = 0; j < c->use.n; j++) {
      OrderUse *u = &s->use.at[c->use.at[j]];
      if (r->mark[c->use.at[j]] == r->stamp) continue;
      r->mark[c->use.at[j]] = r->stamp;
      vec_push(s->a, r->old) = (SavedCost){c->use.at[j], u->cost};
      change -= u->cost;
      u->cost = order_use_cost(s, c->use.at[j]);
      change += u->cost;
    }
  }
  bool kept = change < -STEP_WORTH * r->cost;
  for (uint32_t i = r->order.n; i-- > 0 && !kept;) {
    class_order(&s->cls.at[r->order.at[i].cls], &r->order.at[i].order);
    derive(s, r->order.at[i].cls);
  }
  for (uint32_t i = 0; i < r->old.n && !kept; i++)
    s->use.at[r->old.at[i].use].cost = r->old.at[i].cost;
  if (kept)
    r->cost += change, refused_note_kept(r);
  else if (-change > r->most)
    r->most = -change;
  r->order.n = 0;
  return kept;
}

// Returns `list` with its dims that are also in `like` in the sequence of `like`. They keep their
// places, other dims stay where they are.
static DimList in_sequence(DimList list, const DimList *like) {
  DimList out = list;
  int at = 0;
  for (int i = 0; i < list.n; i++) {
    if (!dims_has(like, list.at[i])) continue;
    while (!dims_has(&list, like->at[at])) at++;
    out.at[i] = like->at[at++];
  }
  return out;
}

// Gives the free classes that share an operation with class c the sequence of dims of c.
static void set_neighbours(Search *r, ClassId c) {
  OrderClasses *s = r->s;
  for (uint32_t i = 0; i < s->cls.at[c].use.n; i++) {
    const OrderUse *u = &s->use.at[s->cls.at[c].use.at[i]];
    ClassId all[4] = {u->arg[0], u->arg[1], u->arg[2], u->result};
    for (int k = 0; k < 4; k++) {
      if (!all[k] || all[k] == c || !class_is_free(&s->cls.at[all[k]])) continue;
      DimList list = in_sequence(s->cls.at[all[k]].order, &s->cls.at[c].order);
      set_class(r, all[k], &list);
    }
  }
}

// -- steps ----------------------------------------------------------------------------------------

// Moves a dim of class c to another place, or else also gives its neighbours the new sequence.
static void move_dim(Search *r, ClassId c, int from, int to) {
  DimList list = r->s->cls.at[c].order;
  DimId d = list.at[from];
  dims_remove(&list, d);
  list_insert(&list, to, d);
  set_class(r, c, &list);
  if (step_end(r)) return;
  set_class(r, c, &list);
  set_neighbours(r, c);
  (void)step_end(r);
}

static bool try_class(Search *r, ClassId c) {
  uint32_t before = r->kept, exchanged = 0;
  int n = r->s->cls.at[c].order.n;
  if (!refused_allows_class(r, c)) return false;
  r->most = 0;
  for (int from = 0; from < n; from++)
    for (int to = 0; to < n; to++) {
      if (from == to || (to == from - 1 && exchanged == r->kept)) continue;
      if (to == from + 1) exchanged = r->kept; // the same step as from `to` to `from`
      move_dim(r, c, from, to);
    }
  refused_note(r, before, &r->of_class[c]);
  return r->kept > before;
}

// Moves dim x before dim y in all free classes in which it comes after y.
static void try_pair(Search *r, DimId x, DimId y) {
  for (uint32_t i = 0; i < r->with[x].n; i++) {
    ClassId c = r->with[x].at[i];
    DimList list = r->s->cls.at[c].order;
    int ix = dims_index(&list, x), iy = dims_index(&list, y);
    if (ix < 0 || iy < 0 || ix < iy) continue;
    dims_remove(&list, x);
    list_insert(&list, iy, x);
    set_class(r, c, &list);
  }
  if (r->order.n) (void)step_end(r);
}

// Moves dim x to the first or the last place in all free classes.
static void try_end(Search *r, DimId x, bool first) {
  for (uint32_t i = 0; i < r->with[x].n; i++) {
    ClassId c = r->with[x].at[i];
    DimList list = r->s->cls.at[c].order;
    dims_remove(&list, x);
    list_insert(&list, first ? 0 : list.n, x);
    set_class(r, c, &list);
  }
  if (r->order.n) (void)step_end(r);
}

// Marks the dims that are in a class with dim x.
static void find_near(Search *r, DimId x) {
  for (uint32_t i = 0; i < r->with[x].n; i++) {
    const DimList *dims = &r->s->cls.at[r->with[x].at[i]].dims;
    for (int k = 0; k < dims->n; k++) r->near[dims->at[k]] = x;
  }
}

static bool try_ends(Search *r, DimId x) {
  uint32_t before = r->kept;
  for (int first = 0; first < 2; first++) {
    Refused *of = &r->of_end[first][x];
    uint32_t now = r->kept;
    if (!refused_allows_dim(r, x, of)) continue;
    r->most = 0;
    try_end(r, x, first);
    refused_note(r, now, of);
  }
  return r->kept > before;
}

static bool try_before_others(Search *r, DimId x) {
  uint32_t before = r->kept, n = dim_count(r->s->g->dims);
  if (!refused_allows_dim(r, x, &r->of_pairs[x])) return false;
  r->most = 0;
  find_near(r, x);
  for (DimId y = 1; y <= n; y++)
    if (x != y && r->near[y] == x) try_pair(r, x, y);
  refused_note(r, before, &r->of_pairs[x]);
  return r->kept > before;
}

static bool try_pairs(Search *r) {
  bool better = false;
  uint32_t n = dim_count(r->s->g->dims);
  for (DimId x = 1; x <= n; x++) better |= try_ends(r, x);
  for (DimId x = 1; x <= n; x++) better |= try_before_others(r, x);
  return better;
}

// -- the search ---------------------------------------------------------------------------------

// Computes the orders of derived classes and the costs of all uses.
static void begin(Search *r) {
  OrderClasses *s = r->s;
  for (ClassId i = 1; i < s->cls.n; i++) {
    OrderClass *x = &s->cls.at[i];
    bool follows = x->kind == CLASS_READ || (x->kind == CLASS_POINT && x->of);
    class_order(x, follows ? &s->cls.at[x->of].order : &x->order);
  }
  for (ClassId i = 1; i < s->cls.n; i++)
    if (s->cls.at[i].kind != CLASS_DERIVED) derive(s, i);
  refused_begin(r);
  r->cost = 0;
  for (uint32_t u = 1; u < s->use.n; u++) {
    s->use.at[u].cost = order_use_cost(s, u);
    r->cost += s->use.at[u].cost;
  }
}

static void improve(Search *r) {
  bool better = true;
  for (int pass = 0; pass < PASSES && better; pass++) {
    better = false;
    for (ClassId i = 1; i < r->s->cls.n; i++)
      if (class_is_free(&r->s->cls.at[i])) better |= try_class(r, i);
    better |= try_pairs(r);
  }
}

static Search search_new(OrderClasses *s) {
  uint32_t ndims = dim_count(s->g->dims) + 1;
  Search r = {.s = s,
              .with = arena_array(s->a, ClassList, ndims),
              .near = arena_array(s->a, DimId, ndims),
              .kept = 1,
              .near_class = arena_array(s->a, uint32_t, s->cls.n),
              .near_dim = arena_array(s->a, uint32_t, ndims),
              .mark = arena_array(s->a, uint32_t, s->use.n + 1)};
  for (ClassId c = 1; c < s->cls.n; c++)
    for (int k = 0; k < s->cls.at[c].dims.n && class_is_free(&s->cls.at[c]); k++)
      vec_push(s->a, r.with[s->cls.at[c].dims.at[k]]) = c;
  return r;
}

double order_search(OrderClasses *s, const Chooser *c) {
  Search r = search_new(s);
  DimList *best = arena_array(s->a, DimList, s->cls.n);
  order_start_plain(s, c);
  begin(&r);
  improve(&r);
  double cost = r.cost;
  for (ClassId i = 1; i < s->cls.n; i++) best[i] = s->cls.at[i].order;
  order_start_sorted(s);
  begin(&r);
  improve(&r);
  for (ClassId i = 1; i < s->cls.n && cost <= r.cost; i++) s->cls.at[i].order = best[i];
  return cost < r.cost ? cost : r.cost;
}
