// Remembers steps of the search for orders (order_search.c) that were no improvement. Such a step
// is not tried again while all classes that share operations with those that it changes keep their
// orders, because it would again be no improvement.
#include "codegen/order/order_search_internal.h"

void refused_begin(Search *r) {
  OrderClasses *s = r->s;
  uint32_t ndims = dim_count(s->g->dims) + 1;
  r->of_class = arena_array(s->a, Refused, s->cls.n);
  r->of_pairs = arena_array(s->a, Refused, ndims);
  for (int i = 0; i < 2; i++) r->of_end[i] = arena_array(s->a, Refused, ndims);
}

// Notes for the classes of a use, those from which they are derived, and their dims that a kept
// step has changed an order that the use has.
static void note_near(Search *r, const OrderUse *u) {
  const OrderClasses *s = r->s;
  const ClassId all[4] = {u->arg[0], u->arg[1], u->arg[2], u->result};
  for (int i = 0; i < 4; i++)
    for (ClassId c = all[i]; c; c = s->cls.at[c].kind == CLASS_DERIVED ? s->cls.at[c].of : 0) {
      const Dims *dims = &s->cls.at[c].dims;
      r->near_class[c] = r->kept;
      for (int k = 0; k < dims->n; k++) r->near_dim[dims->at[k]] = r->kept;
    }
}

void refused_note_kept(Search *r) {
  r->kept++;
  for (uint32_t i = 0; i < r->old.n; i++) note_near(r, &r->s->use.at[r->old.at[i].use]);
}

static bool may_be_kept(const Search *r, const Refused *of) {
  return !of->at || of->most > STEP_WORTH * r->cost;
}

void refused_note(const Search *r, uint32_t before, Refused *of) {
  *of = (Refused){r->kept == before ? before : 0, r->most};
}

// Returns whether an order has changed that the steps from class c depend on: that of a class which
// shares a use with c or with one of its neighbours.
static bool class_is_stale(const Search *r, ClassId c) {
  const OrderClasses *s = r->s;
  uint32_t at = r->of_class[c].at;
  bool stale = r->near_class[c] > at;
  for (uint32_t i = 0; i < s->cls.at[c].use.n && !stale; i++) {
    const OrderUse *u = &s->use.at[s->cls.at[c].use.at[i]];
    const ClassId all[4] = {u->arg[0], u->arg[1], u->arg[2], u->result};
    for (int k = 0; k < 4; k++) stale |= r->near_class[all[k]] > at;
  }
  return stale;
}

bool refused_allows_class(const Search *r, ClassId c) {
  return may_be_kept(r, &r->of_class[c]) || class_is_stale(r, c);
}

bool refused_allows_dim(const Search *r, DimId x, const Refused *of) {
  return r->with[x].n && (may_be_kept(r, of) || r->near_dim[x] > of->at);
}
