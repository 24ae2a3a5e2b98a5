// Computes lower bounds of the cost of layouts (bounds_internal.h). Words of this file:
//
//   part   an amount of work or memory of the model (layout_cost_internal.h)
//   value  a tensor that collectives move, or the edge of one that windows read
//   kind   the size and link of a mesh axis
//   set    dims that one axis splits; the sets of all kinds are numbered in one sequence
//   share  what remains of an amount for one processor
//   class  parts that have equal shares under every set of every kind, with the sum of their
//          amounts; or values that every set changes alike. A bound is a sum over classes.
#include <math.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/bounds_internal.h"

enum { EVEN = 255 }; // PartClass.code: the set splits the part into blocks of equal length

// A class: parts (amounts of work or memory) or values (tensors that collectives move) with equal
// codes. A code says what a set, the dims that one axis splits, does to them. Code of a part: 0 if
// the set does not split the part, EVEN, or 1 + index into `size` of the split dim. Code of a
// value: CHANGE_* (layout_cost_internal.h), 0 if the set neither moves nor splits the value.
typedef struct PartClass {
  uint64_t hash;
  const uint8_t *code; // [set]
  double amount;       // of parts: seconds, or bytes of memory; the sum over the class
  double *flow[FLOWS]; // of values: [set] seconds that the set moves them; the sum over the class
  bool uneven;
  int64_t size[MAX_PART_DIMS]; // [i] elements of the dim with code i + 1, whose blocks may differ
                               // in length
} PartClass;

// What the sets of one kind of axis do to each class. A kind is the size and link of a mesh axis,
// and a set is the dims that such an axis splits. A class groups parts (of work or
// of memory) or values for which each set has one and the same effect.
typedef struct KindTable {
  double size; // processors of the axis
  uint32_t n;
  uint32_t first; // number of the first set of this kind, an index into PartClass.code
  // Matrices with a row for each of the n sets and a column for each class:
  //   share, upper  smallest and largest share of parts of work
  //   held          smallest share of parts of memory
  //   left          share of a value if the set splits it, else 1
  //   passed        share of a value if the set moves it, else 1
  //   flow          seconds that the value moves
  // best_share, best_held and best_left are the smallest shares of each column. min_flow has the
  // fewest seconds of each value class.
  double *share, *upper, *held, *left, *passed, *flow[FLOWS];
  bool *moved; // matrix like `flow`: whether the set moves the value
  double *best_share, *best_held, *best_left, *min_flow;
} KindTable;

// What the bound knows before axis k is assigned a set of dims to split. Arrays are indexed by
// class. A class groups pieces of work, memory or values for which each set of dims has one and the
// same effect.
typedef struct Depth {
  double *share, *upper, *held; // over axes before k: products of share and held, minimum of upper
  double *flow[FLOWS];          // seconds that values move over axes before k
  bool *moved;                  // whether any flow of the class is not 0
  double *left, *passed;        // products of left and passed (KindTable) for axes before k
  double *weight;               // amount times the shares over all axes except k
  double *rest_flow;            // fewest seconds that values move over axes after k
  double *rest_share, *rest_held, *rest_left; // smallest shares over axes after k
  double latency;
} Depth;

struct Bounds {
  Arena *a;
  const SearchTask *task;
  uint32_t nsets;
  const PartCosts **cost; // [set] cost of the set on a mesh of one axis of its kind
  uint32_t nparts, npositive, nheld, nvalues;
  PartClass *part, *held, *value; // classes of work, of memory and of values; `part` begins with
                                  // the npositive classes of positive amount
  uint32_t *part_class,
      *value_class; // [part], [value] 1 + index of its class, 0: none
  bool together;    // bounds_begin_pair was called: the shares of its two axes are exact
  KindTable *kind;
  int naxes;
  const KindTable *axis[MAX_AXES];
  uint32_t chosen[MAX_AXES];
  Depth depth[MAX_AXES + 1];
};

static double min_of(double x, double y) { return x < y ? x : y; }
static double max_of(double x, double y) { return x > y ? x : y; }

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

static bool is_some(double x) { return x < 0 || x > 0; }

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

// -- bounds -------------------------------------------------------------------------------------

void bounds_begin(Bounds *l, int naxes, const uint32_t kind[]) {
  l->naxes = naxes;
  l->together = false;
  for (int k = 0; k < naxes; k++) l->axis[k] = &l->kind[kind[k]];
  for (int k = naxes - 1; k >= 0; k--) {
    Depth *d = &l->depth[k], *behind = &l->depth[k + 1];
    const KindTable *t = k + 1 < naxes ? l->axis[k + 1] : NULL;
    for (uint32_t i = 0; i < l->nparts; i++)
      d->rest_share[i] = t ? behind->rest_share[i] * t->best_share[i] : 1;
    for (uint32_t i = 0; i < l->nheld; i++)
      d->rest_held[i] = t ? behind->rest_held[i] * t->best_held[i] : 1;
    for (uint32_t i = 0; i < l->nvalues; i++) {
      d->rest_left[i] = t ? behind->rest_left[i] * t->best_left[i] : 1;
      d->rest_flow[i] = t ? behind->rest_flow[i] + t->min_flow[i] : 0;
    }
  }
}

void bounds_enter(Bounds *l, int k) {
  Depth *d = &l->depth[k];
  for (uint32_t i = 0; i < l->npositive; i++)
    d->weight[i] = l->part[i].amount * d->share[i] * d->rest_share[i];
}

static double parts_with(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  const double *share = t->share + (size_t)set * l->nparts,
               *upper = t->upper + (size_t)set * l->nparts;
  double a = 0, b = 0;
  uint32_t i = 0;
  for (; i + 1 < l->npositive; i += 2)
    a += d->weight[i] * share[i], b += d->weight[i + 1] * share[i + 1];
  if (i < l->npositive) a += d->weight[i] * share[i];
  for (i = l->npositive; i < l->nparts; i++) b += l->part[i].amount * min_of(d->upper[i], upper[i]);
  return a + b;
}

// Fills out[] with lower bounds of the seconds that the values of class i take to move, one for
// each kind of Flow. The next axis of the mesh is assumed to split a set of dims. `d` describes the
// axes that have their sets already. `at` is the index of the set and the class in the matrices of
// t, the tables of the next axis.
//   JOIN  Sums and gathers over axes of p and q processors send (1 - 1/p) + (1 - 1/q) / p of the
//         bytes, in the cheaper order of the axes. Memory is read and written once.
//   SEND  Each axis sends the blocks that remain after splits and moves over the other axes.
//   HALO  Several axes exchange the edges together: the axis with most seconds counts.
static void flows_with(const Depth *d, uint32_t i, const KindTable *t, size_t at,
                       double out[FLOWS]) {
  double left = t->left[at], passed = t->passed[at], mine = d->left[i], behind = d->passed[i];
  double now = d->flow[FLOW_JOIN][i] * left, more = t->flow[FLOW_JOIN][at] * mine;
  out[FLOW_JOIN] = min_of(now + more * behind, now * passed + more);
  now = d->flow[FLOW_JOIN_MEMORY][i] * left, more = t->flow[FLOW_JOIN_MEMORY][at] * mine;
  out[FLOW_JOIN_MEMORY] = min_of(max_of(now, more * behind), max_of(now * passed, more));
  now = d->flow[FLOW_SEND][i] * left * passed, more = t->flow[FLOW_SEND][at] * mine * behind;
  out[FLOW_SEND] = min_of(now + more * behind, now * passed + more);
  out[FLOW_SEND_MEMORY] = max_of(d->flow[FLOW_SEND_MEMORY][i] * left * passed,
                                 t->flow[FLOW_SEND_MEMORY][at] * mine * behind);
  out[FLOW_HALO] = max_of(d->flow[FLOW_HALO][i] * left, t->flow[FLOW_HALO][at] * mine);
}

static double values_with(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  size_t row = (size_t)set * l->nvalues;
  double all = 0, flow[FLOWS];
  for (uint32_t i = 0; i < l->nvalues; i++) {
    if (!d->moved[i] && !t->moved[row + i]) {
      all += d->rest_flow[i];
      continue;
    }
    flows_with(d, i, t, row + i, flow);
    double x = 0;
    for (int f = 0; f < FLOWS; f++) x += flow[f];
    all += (x > 0 ? x * d->rest_left[i] : x) + d->rest_flow[i];
  }
  return all;
}

// Returns the seconds of work that a step takes longer because uneven splits make the longest
// blocks longer than the average. Axis k is assumed to split set number `set` of dims, and the axes
// before k those assigned to them.
static double short_blocks(const Bounds *l, int k, uint32_t set) {
  const Depth *d = &l->depth[k];
  double all = 0;
  for (uint32_t i = 0; i < l->npositive; i++) {
    const PartClass *c = &l->part[i];
    if (!c->uneven) continue;
    double over[MAX_PART_DIMS] = {0}, true_share = 1, equal = 1;
    for (int j = 0; j <= k; j++) {
      uint8_t code = c->code[l->axis[j]->first + (j < k ? l->chosen[j] : set)];
      if (!code) continue;
      equal /= l->axis[j]->size;
      if (code == EVEN)
        true_share /= l->axis[j]->size;
      else
        over[code - 1] = (over[code - 1] > 0 ? over[code - 1] : 1) * l->axis[j]->size;
    }
    for (int s = 0; s < MAX_PART_DIMS; s++)
      if (over[s] > 0) true_share *= ceil((double)c->size[s] / over[s]) / (double)c->size[s];
    all += c->amount * (true_share - equal) * d->rest_share[i];
  }
  return all;
}

// Returns true if the next axis cannot split set number `set` of dims. Every layout that continues
// with this choice then needs more memory than the task allows.
static bool too_large(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  double bytes = 0;
  const double *share = t->held + (size_t)set * l->nheld;
  for (uint32_t i = 0; i < l->nheld; i++)
    bytes +=
        l->held[i].amount * (l->held[i].amount > 0 ? d->held[i] * share[i] * d->rest_held[i] : 1);
  return bytes > l->task->memory * (1 + 1e-9);
}

double bounds_with(Bounds *l, int k, uint32_t set, double limit) {
  const Depth *d = &l->depth[k];
  const KindTable *t = l->axis[k];
  double seconds =
      parts_with(l, d, t, set) + max_of(d->latency, l->cost[t->first + set]->cost.latency);
  if (seconds >= limit) return seconds;
  seconds += values_with(l, d, t, set);
  if (seconds >= limit) return seconds;
  if (!l->together) seconds += short_blocks(l, k, set);
  return seconds < limit && too_large(l, d, t, set) ? (double)INFINITY : seconds;
}

void bounds_assign(Bounds *l, int k, uint32_t set) {
  const Depth *d = &l->depth[k];
  Depth *to = &l->depth[k + 1];
  const KindTable *t = l->axis[k];
  size_t parts = (size_t)set * l->nparts, held = (size_t)set * l->nheld,
         values = (size_t)set * l->nvalues;
  for (uint32_t i = 0; i < l->nparts; i++) {
    to->share[i] = d->share[i] * t->share[parts + i];
    to->upper[i] = min_of(d->upper[i], t->upper[parts + i]);
  }
  for (uint32_t i = 0; i < l->nheld; i++) to->held[i] = d->held[i] * t->held[held + i];
  for (uint32_t i = 0; i < l->nvalues; i++) {
    double left = t->left[values + i], passed = t->passed[values + i], flow[FLOWS];
    flows_with(d, i, t, values + i, flow);
    for (int f = 0; f < FLOWS; f++) to->flow[f][i] = flow[f];
    to->moved[i] = d->moved[i] || t->moved[values + i];
    to->left[i] = d->left[i] * left;
    to->passed[i] = d->passed[i] * passed;
  }
  to->latency = max_of(d->latency, l->cost[t->first + set]->cost.latency);
  l->chosen[k] = set;
}

// -- two axes together --------------------------------------------------------------------------

struct PairBound {
  double *share, *flow[FLOWS];
  double latency;
};

const PairBound *bounds_pair(Bounds *l, const PartTable *parts, const PartCosts *together) {
  PairBound *p = arena_new_of(l->a, PairBound);
  *p = (PairBound){.share = arena_array(l->a, double, l->nparts + 1),
                   .latency = together->cost.latency};
  for (uint32_t i = 0; i < parts->part.n; i++)
    if (l->part_class[i])
      p->share[l->part_class[i] - 1] += parts->part.at[i].amount * together->share[i];
  for (uint32_t i = 0; i < l->nparts; i++)
    p->share[i] = l->part[i].amount != 0 ? p->share[i] / l->part[i].amount : 1;
  for (int f = 0; f < FLOWS; f++) {
    p->flow[f] = arena_array(l->a, double, l->nvalues + 1);
    for (uint32_t v = 0; v < parts->nvalues; v++)
      if (l->value_class[v])
        p->flow[f][l->value_class[v] - 1] += parts->weight[v] * together->flow[f][v];
  }
  return p;
}

void bounds_begin_pair(Bounds *l, int naxes, const uint32_t kind[], const PairBound *pair,
                       const uint32_t set[2]) {
  bounds_begin(l, naxes, kind);
  bounds_assign(l, 0, set[0]);
  bounds_assign(l, 1, set[1]);
  Depth *d = &l->depth[2];
  for (uint32_t i = 0; i < l->nparts; i++) {
    d->share[i] = pair->share[i];
    d->upper[i] = min_of(d->upper[i], max_of(pair->share[i], 0));
  }
  for (int f = 0; f < FLOWS; f++) memcpy(d->flow[f], pair->flow[f], sizeof(double) * l->nvalues);
  for (uint32_t i = 0; i < l->nvalues; i++) {
    d->moved[i] = false;
    for (int f = 0; f < FLOWS; f++) d->moved[i] |= is_some(pair->flow[f][i]);
  }
  d->latency = pair->latency;
  l->together = true;
}
