// Makes the tables of lower bounds (bounds_tables_internal.h): groups parts and values into
// classes, and says for each kind of axis what its sets of dims do to each class.
#include <math.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/bounds_tables_internal.h"

// -- classes ------------------------------------------------------------------------------------

typedef VEC(PartClass) PartClasses;

static uint32_t intern_class(const Bounds *l, PartClasses *c, const PartClass *x) {
  for (uint32_t i = 0; i < c->n; i++) {
    const PartClass *y = &c->at[i];
    if (y->hash == x->hash && !memcmp(x->size, y->size, sizeof x->size) &&
        !memcmp(x->code, y->code, l->nsets))
      return i;
  }
  vec_push(l->a, *c) = *x;
  c->at[c->n - 1].code = arena_copy(l->a, x->code, l->nsets);
  return c->n - 1;
}

// Returns a class (a group of parts that all sets split alike) with part i as its only member.
// Fills code[s] for each set s of dims that an axis may split. Dims whose size is a multiple of
// `most` never have uneven blocks and get the code EVEN. Other dims get numbers in the order in
// which they appear.
static PartClass class_of_part(const Bounds *l, const PartTable *parts, uint32_t i, int64_t most,
                               uint8_t *code) {
  const Part *p = &parts->part.at[i];
  PartClass c = {.code = code};
  uint8_t number[MAX_PART_DIMS] = {0}, n = 0;
  for (uint32_t s = 0; s < l->nsets; s++) {
    uint8_t split = l->cost[s]->split[i];
    if (!split || p->size[split - 1] % most == 0) {
      code[s] = split ? EVEN : 0;
      continue;
    }
    if (!number[split - 1]) {
      c.size[n] = p->size[split - 1];
      number[split - 1] = ++n;
    }
    code[s] = number[split - 1];
  }
  c.uneven = n > 0;
  c.hash = hash_bytes(FNV_START, code, l->nsets);
  return c;
}

// Fills l->part with the classes of c, those of positive amount first. A class is a group of parts
// of the work that all layouts split alike. A part of a sample graph with negative weight has a
// negative amount. A lower bound must multiply negative amounts by the largest possible share.
static void sort_parts(Bounds *l, const PartClasses *c, uint32_t nparts) {
  uint32_t *place = arena_array(l->a, uint32_t, c->n + 1);
  l->part = arena_array(l->a, PartClass, c->n + 1);
  for (int sign = 0; sign < 2; sign++) {
    for (uint32_t i = 0; i < c->n; i++) {
      if ((c->at[i].amount < 0) != (sign == 1)) continue;
      l->part[l->nparts++] = c->at[i];
      place[i + 1] = l->nparts;
    }
    if (!sign) l->npositive = l->nparts;
  }
  for (uint32_t i = 0; i < nparts; i++) l->part_class[i] = place[l->part_class[i]];
}

static void classify_parts(Bounds *l, const PartTable *parts, int64_t most) {
  PartClasses time = {0}, held = {0};
  uint8_t *code = arena_array(l->a, uint8_t, l->nsets + 1);
  l->part_class = arena_array(l->a, uint32_t, parts->part.n + 1);
  for (uint32_t i = 0; i < parts->part.n; i++) {
    const Part *p = &parts->part.at[i];
    PartClass c = class_of_part(l, parts, i, most, code);
    PartClasses *all = p->held ? &held : &time;
    uint32_t of = intern_class(l, all, &c);
    all->at[of].amount += p->amount;
    if (!p->held) l->part_class[i] = of + 1;
  }
  l->held = held.at, l->nheld = held.n;
  sort_parts(l, &time, parts->part.n);
}

// Fills code[s] for each set s of dims that an axis may split: whether the set moves or splits the
// value (CHANGE_*), or 0. Returns false if no set moves the value, which then adds nothing to the
// bound.
static bool codes_of_value(const Bounds *l, uint32_t value, uint8_t *code) {
  bool any = false;
  for (uint32_t s = 0; s < l->nsets; s++) {
    code[s] = l->cost[s]->change[value];
    for (int f = 0; f < FLOWS; f++) any |= l->cost[s]->flow[f][value] > 0;
  }
  return any;
}

static void add_flows(const Bounds *l, PartClass *c, double weight, uint32_t value) {
  for (int f = 0; f < FLOWS; f++) {
    if (!c->flow[f]) c->flow[f] = arena_array(l->a, double, l->nsets);
    for (uint32_t s = 0; s < l->nsets; s++) c->flow[f][s] += weight * l->cost[s]->flow[f][value];
  }
}

static void classify_values(Bounds *l, const PartTable *parts) {
  PartClasses values = {0};
  uint8_t *code = arena_array(l->a, uint8_t, l->nsets + 1);
  l->value_class = arena_array(l->a, uint32_t, parts->nvalues + 1);
  for (uint32_t v = 0; v < parts->nvalues; v++) {
    if (!codes_of_value(l, v, code)) continue;
    PartClass c = {.code = code, .hash = hash_bytes(FNV_START, code, l->nsets)};
    uint32_t of = intern_class(l, &values, &c);
    add_flows(l, &values.at[of], parts->weight[v], v);
    l->value_class[v] = of + 1;
  }
  l->value = values.at, l->nvalues = values.n;
}

// -- tables of an axis --------------------------------------------------------------------------

// Returns the share that one processor has of the parts of class c, if an axis of p processors
// splits set number `set` of dims. Other axes that split these dims can change the share. With
// `most` returns the largest possible share, else the smallest.
static double share_of(const PartClass *c, uint32_t set, double p, bool most) {
  uint8_t code = c->code[set];
  if (!code) return 1;
  if (!most || code == EVEN) return 1 / p;
  double n = (double)c->size[code - 1];
  return ceil(n / p) / n;
}

static double *rows_of(Bounds *l, const KindTable *t, uint32_t n, const PartClass *c, bool most) {
  double *rows = arena_array(l->a, double, (size_t)n * t->n + 1), *at = rows;
  for (uint32_t s = 0; s < t->n; s++)
    for (uint32_t i = 0; i < n; i++) *at++ = share_of(&c[i], t->first + s, t->size, most);
  return rows;
}

// Returns an array of n numbers: the minimum of each column of matrix `at`, or `most` where the
// minimum is greater than `most`.
static double *min_of_rows(Bounds *l, uint32_t n, uint32_t rows, const double *at, double most) {
  double *out = arena_array(l->a, double, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    out[i] = most;
    for (uint32_t s = 0; s < rows; s++) out[i] = min_of(out[i], at[s * n + i]);
  }
  return out;
}

static void fill_values(Bounds *l, KindTable *t) {
  size_t n = (size_t)l->nvalues * t->n + 1, at = 0;
  t->left = arena_array(l->a, double, n);
  t->passed = arena_array(l->a, double, n);
  double *any = arena_array(l->a, double, n);
  t->moved = arena_array(l->a, bool, n);
  for (int f = 0; f < FLOWS; f++) t->flow[f] = arena_array(l->a, double, n);
  for (uint32_t s = 0; s < t->n; s++)
    for (uint32_t i = 0; i < l->nvalues; i++, at++) {
      uint8_t code = l->value[i].code[t->first + s];
      t->left[at] = code == CHANGE_SPLIT ? 1 / t->size : 1;
      t->passed[at] = code == CHANGE_MOVED ? 1 / t->size : 1;
      any[at] = code ? 1 / t->size : 1;
      for (int f = 0; f < FLOWS; f++) {
        t->flow[f][at] = l->value[i].flow[f][t->first + s];
        t->moved[at] |= is_some(t->flow[f][at]);
      }
    }
  t->best_left = min_of_rows(l, l->nvalues, t->n, any, 1);
  t->min_flow = arena_array(l->a, double, l->nvalues + 1);
  for (int f = 0; f < FLOWS; f++) {
    const double *least = min_of_rows(l, l->nvalues, t->n, t->flow[f], 0);
    for (uint32_t i = 0; i < l->nvalues; i++) t->min_flow[i] += least[i];
  }
}

static void fill_kind(Bounds *l, KindTable *t) {
  t->share = rows_of(l, t, l->nparts, l->part, false);
  t->upper = rows_of(l, t, l->nparts, l->part, true);
  t->held = rows_of(l, t, l->nheld, l->held, false);
  t->best_share = min_of_rows(l, l->nparts, t->n, t->share, 1);
  t->best_held = min_of_rows(l, l->nheld, t->n, t->held, 1);
  fill_values(l, t);
}

static double *ones(Arena *a, uint32_t n) {
  double *out = arena_array(a, double, n + 1);
  for (uint32_t i = 0; i < n; i++) out[i] = 1;
  return out;
}

static void depth_new(Bounds *l, Depth *d) {
  double **per_part[] = {&d->share, &d->upper, &d->weight, &d->rest_share};
  double **per_value[] = {&d->left, &d->passed, &d->rest_left, &d->rest_flow};
  for (size_t i = 0; i < countof(per_part); i++) *per_part[i] = ones(l->a, l->nparts);
  for (size_t i = 0; i < countof(per_value); i++) *per_value[i] = ones(l->a, l->nvalues);
  for (int f = 0; f < FLOWS; f++) d->flow[f] = arena_array(l->a, double, l->nvalues + 1);
  d->moved = arena_array(l->a, bool, l->nvalues + 1);
  d->held = ones(l->a, l->nheld);
  d->rest_held = ones(l->a, l->nheld);
}

Bounds *bounds_new(Arena *a, const SearchTask *task, const PartTable *parts, uint32_t nkinds,
                   AxisKind *const *kind, int64_t most) {
  Bounds *l = arena_new_of(a, Bounds);
  *l = (Bounds){.a = a, .task = task, .kind = arena_array(a, KindTable, nkinds + 1)};
  for (uint32_t k = 0; k < nkinds; k++) {
    l->kind[k] = (KindTable){.size = (double)kind[k]->size, .n = kind[k]->n, .first = l->nsets};
    l->nsets += kind[k]->n;
  }
  l->cost = arena_array(a, const PartCosts *, l->nsets + 1);
  for (uint32_t k = 0; k < nkinds; k++)
    for (uint32_t s = 0; s < kind[k]->n; s++) l->cost[l->kind[k].first + s] = &kind[k]->alone[s];
  classify_parts(l, parts, most);
  classify_values(l, parts);
  for (uint32_t k = 0; k < nkinds; k++) fill_kind(l, &l->kind[k]);
  for (int k = 0; k <= MAX_AXES; k++) depth_new(l, &l->depth[k]);
  return l;
}
