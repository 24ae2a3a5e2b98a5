// Branch and bound over layouts.
//
// A layout gives every axis of the mesh a set of dims, no two of which meet in one tensor. A set is priced once
// alone on an axis of that size; a layout cannot cost less than its sets allow:
//
//   its compute is at least that of each set, shared out over the other axes,
//   its bytes on the wire at least those of all its sets, each shared out likewise,
//   its calls at least those of each set.
//
// The bound only grows as axes get their sets, so a branch ends where the bound of its first axes is no better than
// what is kept. A first walk collects the candidates of least bound, which are priced; a second one, what could still
// be better, which is priced in order of the bound until that is no better either.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/search.h"

enum { MAX_DIMS = 30, MAX_SETS = 4096, FIRST = 32, MAX_PRICED = 1000, MAX_CANDIDATES = 1 << 22 };

typedef uint32_t DimSet; // bits: indices into Search.dim

typedef struct SetPrice {
  DimSet set;
  Price price;    // alone, on one axis
} SetPrice;

typedef struct AxisSets { // the sets that an axis of that size and speed may have
  int64_t size;
  Link link;
  uint32_t n;
  SetPrice *at;
} AxisSets;

typedef struct Candidate {
  double bound; // seconds that it costs at least
  uint32_t mesh;
  uint16_t set[MAX_AXES];
} Candidate;

typedef struct Search {
  const SearchTask *task;
  Arena *a;
  uint32_t ndims, nsets;
  const Dim *dim[MAX_DIMS];
  DimSet clash[MAX_DIMS]; // dims that meet this one in some tensor
  DimSet *set;
  VEC(AxisSets *) axis;
  VEC(Candidate) candidate;
  SearchResult *result;
  // the walk over the candidates of a mesh
  const Mesh *mesh;
  const AxisSets *sets[MAX_AXES];
  double limit;       // bounds from here on are of no use
  bool first;         // the first walk: the least FIRST candidates are kept
  Candidate now;
} Search;

// -- dims and sets -----------------------------------------------------------------------------------------

static bool rules_fit(const Search *s, uint32_t n, LayoutRule *rule) {
  Arena *a = arena_new();
  Mesh mesh = {.naxes = 1, .axis = {{.name = "axis", .size = 2}}};
  Graph g = *s->task->model;
  g.dims = dim_table_whole(a, g.dims);
  g.mesh = &mesh;
  bool fit = layout_check(&g, &(Layout){n, rule}, diag_new(a));
  arena_free(a);
  return fit;
}

static LayoutRule rule_on_first(const Dim *d) { return (LayoutRule){.dim = d->name, .axes = {1, {0}}}; }

static bool dim_is_used(const SearchTask *t, DimId d) {
  for (uint32_t i = 0; i < t->nterms; i++)
    for (NodeId n = 1; n <= graph_count(t->term[i].graph); n++)
      if (dims_has(&graph_node(t->term[i].graph, n)->dims, d)) return true;
  return false;
}

// Dims that a user can name: declared in the file, not in a function or a round.
static void find_dims(Search *s) {
  const DimTable *dims = s->task->model->dims;
  for (DimId d = 1; d <= dim_count(dims) && s->ndims < MAX_DIMS; d++) {
    const Dim *dim = dim_get(dims, d);
    if (dim->whole != d || dim->size < 2 || strchr(dim->name, '.') || !dim_is_used(s->task, d)) continue;
    LayoutRule alone = rule_on_first(dim);
    if (rules_fit(s, 1, &alone)) s->dim[s->ndims++] = dim;
  }
}

static void find_clashes(Search *s) {
  for (uint32_t i = 0; i < s->ndims; i++)
    for (uint32_t j = 0; j < i; j++) {
      LayoutRule both[2] = {rule_on_first(s->dim[i]), rule_on_first(s->dim[j])};
      if (rules_fit(s, 2, both)) continue;
      s->clash[i] |= (DimSet)1 << j;
      s->clash[j] |= (DimSet)1 << i;
    }
}

static void find_sets(Search *s) {
  s->set = arena_array(s->a, DimSet, MAX_SETS);
  s->nsets = 1; // the empty one
  for (uint32_t d = 0; d < s->ndims; d++)
    for (uint32_t i = 0, n = s->nsets; i < n; i++) {
      if (s->set[i] & s->clash[d]) continue;
      if (s->nsets == MAX_SETS) {
        s->result->proven = false;
        return;
      }
      s->set[s->nsets++] = s->set[i] | (DimSet)1 << d;
    }
}

// -- layouts of sets -------------------------------------------------------------------------------------

// The rules that put set[a] on axis a of the mesh; false when a dim is too small for its axes.
static bool layout_of(const Search *s, Arena *a, const Mesh *mesh, const DimSet *set, Layout *out) {
  *out = (Layout){.rule = arena_array(a, LayoutRule, s->ndims + 1)};
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule r = {.dim = s->dim[d]->name};
    int64_t parts = 1;
    for (int k = 0; k < mesh->naxes; k++) {
      if (!(set[k] >> d & 1)) continue;
      r.axes.at[r.axes.n++] = (uint8_t)k;
      parts *= mesh->axis[k].size;
    }
    if (parts > s->dim[d]->size) return false;
    if (r.axes.n) out->rule[out->n++] = r;
  }
  return true;
}

static AxisSets *sets_of_axis(Search *s, const MeshAxis *axis) {
  AxisSets *out = arena_new_of(s->a, AxisSets);
  *out = (AxisSets){.size = axis->size, .link = machine_link(s->task->machine, axis->name), .at = arena_array(s->a, SetPrice, s->nsets)};
  Mesh *mesh = arena_new_of(s->a, Mesh);
  *mesh = (Mesh){.naxes = 1, .axis = {*axis}};
  for (uint32_t i = 0; i < s->nsets; i++) {
    Layout layout;
    if (!layout_of(s, s->a, mesh, &s->set[i], &layout)) continue;
    Price p = search_price(s->task, mesh, &layout);
    out->at[out->n++] = (SetPrice){s->set[i], p};
  }
  return out;
}

static const AxisSets *axis_sets(Search *s, const MeshAxis *axis) {
  Link link = machine_link(s->task->machine, axis->name);
  for (uint32_t i = 0; i < s->axis.n; i++) {
    const AxisSets *x = s->axis.at[i];
    if (x->size == axis->size && x->link.latency == link.latency && x->link.bandwidth == link.bandwidth) return x;
  }
  return vec_push(s->a, s->axis) = sets_of_axis(s, axis);
}

// -- candidates --------------------------------------------------------------------------------------------

typedef struct Bound {
  double flops, traffic, wire, latency; // wire: seconds of the bytes
} Bound;

static Bound bound_with(const Search *s, Bound b, int k, const SetPrice *set) {
  double rest = (double)(mesh_size(s->mesh) / s->mesh->axis[k].size);
  b.flops = fmax(b.flops, set->price.flops / rest);
  b.traffic = fmax(b.traffic, set->price.traffic / rest);
  b.wire += (set->price.transfer - set->price.latency) / rest;
  b.latency = fmax(b.latency, set->price.latency);
  return b;
}

static double bound_seconds(const Search *s, const Bound *b) {
  const Machine *m = s->task->machine;
  return b->flops / m->flops + b->traffic / m->memory_rate + b->wire + b->latency;
}

// Axes of one size and speed are alike: their sets stand in order, so that each layout comes once. Where all shapes of meshes
// are searched, two axes with one set are the longer axis of another shape.
static bool is_new(const Search *s, int k, uint32_t set) {
  for (int j = 0; j < k; j++) {
    if (s->sets[j] == s->sets[k] && s->now.set[j] > set) return false;
    if (s->task->nmeshes > 1 && !s->task->machine->naxes && s->sets[j]->at[s->now.set[j]].set == s->sets[k]->at[set].set) return false;
  }
  return true;
}

// Keeps the FIRST candidates of least bound, in order.
static void keep_first(Search *s, const Candidate *c) {
  uint32_t i = s->candidate.n;
  if (i < FIRST) vec_push(s->a, s->candidate) = *c;
  else i--;
  for (; i > 0 && c->bound < s->candidate.at[i - 1].bound; i--) s->candidate.at[i] = s->candidate.at[i - 1];
  s->candidate.at[i] = *c;
  if (s->candidate.n == FIRST) s->limit = s->candidate.at[FIRST - 1].bound;
}

static void add_candidate(Search *s, double bound) {
  s->now.bound = bound;
  if (s->first) keep_first(s, &s->now);
  else if (s->candidate.n < MAX_CANDIDATES) vec_push(s->a, s->candidate) = s->now;
  else s->result->proven = false;
}

static void walk(Search *s, int k, Bound b) {
  if (k == s->mesh->naxes) {
    add_candidate(s, bound_seconds(s, &b));
    return;
  }
  for (uint32_t i = 0; i < s->sets[k]->n; i++) {
    Bound with = bound_with(s, b, k, &s->sets[k]->at[i]);
    if (!is_new(s, k, i) || bound_seconds(s, &with) >= s->limit) continue;
    s->now.set[k] = (uint16_t)i;
    walk(s, k + 1, with);
  }
}

static void walk_meshes(Search *s, bool first, double limit) {
  s->first = first;
  s->limit = limit;
  s->candidate.n = 0;
  for (uint32_t i = 0; i < s->task->nmeshes; i++) {
    s->mesh = &s->task->mesh[i];
    s->now = (Candidate){.mesh = i};
    for (int k = 0; k < s->mesh->naxes; k++) s->sets[k] = axis_sets(s, &s->mesh->axis[k]);
    walk(s, 0, (Bound){0});
  }
}

// Layouts in all: what a search without bounds would price.
static double count_layouts(Search *s) {
  double all = 0;
  for (uint32_t i = 0; i < s->task->nmeshes; i++) {
    const Mesh *mesh = &s->task->mesh[i];
    double of_mesh = 1;
    for (int k = 0; k < mesh->naxes; k++) of_mesh *= axis_sets(s, &mesh->axis[k])->n;
    all += of_mesh;
  }
  return all;
}

static int by_bound(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->mesh != b->mesh) return a->mesh < b->mesh ? -1 : 1;
  return memcmp(a->set, b->set, sizeof a->set);
}

// -- the best ------------------------------------------------------------------------------------------------

static bool cheaper(const SearchChoice *a, const SearchChoice *b) {
  if (a->price.seconds != b->price.seconds) return a->price.seconds < b->price.seconds;
  if (a->price.memory != b->price.memory) return a->price.memory < b->price.memory;
  return a->layout.n < b->layout.n;
}

static bool costs_alike(const Price *a, const Price *b) {
  return a->seconds == b->seconds && a->memory == b->memory && a->wire == b->wire;
}

// In order of cost; of layouts that cost the same the one with fewest rules.
static void keep(Search *s, const SearchChoice *c) {
  SearchResult *r = s->result;
  uint32_t i = 0;
  while (i < r->n && !costs_alike(&r->at[i].price, &c->price)) i++;
  if (i < r->n) {
    if (cheaper(c, &r->at[i])) r->at[i] = *c;
    return;
  }
  if (r->n == s->task->keep && !cheaper(c, &r->at[r->n - 1])) return;
  i = r->n < s->task->keep ? r->n++ : r->n - 1;
  for (; i > 0 && cheaper(c, &r->at[i - 1]); i--) r->at[i] = r->at[i - 1];
  r->at[i] = *c;
}

static double worst_kept(const Search *s) {
  const SearchResult *r = s->result;
  return r->n < s->task->keep ? (double)INFINITY : r->at[r->n - 1].price.seconds;
}

static void price_candidate(Search *s, const Candidate *c) {
  const Mesh *mesh = &s->task->mesh[c->mesh];
  DimSet set[MAX_AXES];
  SearchChoice choice = {.mesh = mesh};
  for (int k = 0; k < mesh->naxes; k++) set[k] = axis_sets(s, &mesh->axis[k])->at[c->set[k]].set;
  if (!layout_of(s, s->a, mesh, set, &choice.layout)) return;
  choice.price = search_price(s->task, mesh, &choice.layout);
  s->result->priced++;
  if (choice.price.memory > s->task->memory) s->result->over_memory++;
  else keep(s, &choice);
}

static bool was_priced(const Candidate *done, uint32_t n, const Candidate *c) {
  for (uint32_t i = 0; i < n; i++)
    if (done[i].mesh == c->mesh && !memcmp(done[i].set, c->set, sizeof c->set)) return true;
  return false;
}

// Prices what may be better than what is kept, but not the `n` that have been.
static void price_candidates(Search *s, const Candidate *done, uint32_t n) {
  if (s->candidate.n) qsort(s->candidate.at, s->candidate.n, sizeof *s->candidate.at, by_bound);
  for (uint32_t i = 0; i < s->candidate.n && s->candidate.at[i].bound < worst_kept(s); i++) {
    if (s->result->priced >= MAX_PRICED) {
      s->result->proven = false;
      s->result->bound = s->candidate.at[i].bound;
      return;
    }
    if (!was_priced(done, n, &s->candidate.at[i])) price_candidate(s, &s->candidate.at[i]);
  }
}

SearchResult *search_layouts(Arena *a, const SearchTask *t) {
  SearchResult *result = arena_new_of(a, SearchResult);
  *result = (SearchResult){.at = arena_array(a, SearchChoice, t->keep + 1), .proven = true};
  Search s = {.task = t, .a = a, .result = result};
  find_dims(&s);
  find_clashes(&s);
  find_sets(&s);
  result->candidates = count_layouts(&s);
  walk_meshes(&s, true, INFINITY);
  price_candidates(&s, NULL, 0);
  uint32_t n = s.candidate.n;
  const Candidate *done = n ? arena_copy(a, s.candidate.at, n * sizeof *done) : NULL;
  walk_meshes(&s, false, worst_kept(&s));
  price_candidates(&s, done, n);
  if (result->n && (result->bound > result->at[0].price.seconds || (result->proven && !result->bound)))
    result->bound = result->at[0].price.seconds;
  return result;
}

// -- rules beyond dims -----------------------------------------------------------------------------------

static bool gains(const SearchTask *t, const Price *now, const Price *then, bool by_memory) {
  if (by_memory) return now->memory < 0.99 * then->memory && now->seconds <= 1.05 * then->seconds;
  return now->memory <= t->memory && now->seconds < 0.98 * then->seconds;
}

static bool has_target(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++) {
    const LayoutRule *x = &l->rule[i];
    if (x->scope == r->scope && x->soft == r->soft && (x->dim == r->dim || (x->dim && r->dim && !strcmp(x->dim, r->dim))))
      return true;
  }
  return false;
}

// The layout with that rule more, if it is cheaper than *best.
static void try_rule(Arena *a, const SearchTask *t, const SearchChoice *from, const LayoutRule *r, bool by_memory,
                     SearchChoice *best) {
  if (has_target(&from->layout, r)) return;
  SearchChoice c = {.mesh = from->mesh, .layout = {from->layout.n + 1, NULL}};
  c.layout.rule = arena_array(a, LayoutRule, c.layout.n);
  memcpy(c.layout.rule, from->layout.rule, from->layout.n * sizeof *c.layout.rule);
  c.layout.rule[from->layout.n] = *r;
  c.price = search_price(t, c.mesh, &c.layout);
  if (!gains(t, &c.price, &from->price, by_memory)) return;
  bool better = by_memory ? c.price.memory < best->price.memory : cheaper(&c, best);
  if (better) *best = c;
}

static void try_axes(Arena *a, const SearchTask *t, const Search *s, const SearchChoice *from, Axes axes, bool by_memory,
                     SearchChoice *best) {
  LayoutRule optimizer = {.scope = LAYOUT_OPTIMIZER, .axes = axes};
  try_rule(a, t, from, &optimizer, by_memory, best);
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule soft = {.dim = s->dim[d]->name, .soft = true, .axes = axes};
    if (s->dim[d]->size >= axes_size(from->mesh, axes)) try_rule(a, t, from, &soft, by_memory, best);
  }
}

SearchChoice search_refine(Arena *a, const SearchTask *t, const SearchChoice *from, bool by_memory) {
  Search s = {.task = t, .a = a};
  find_dims(&s);
  SearchChoice now = *from;
  for (;;) {
    SearchChoice best = now;
    Axes all = {0};
    for (int k = 0; k < now.mesh->naxes; k++) {
      all.at[all.n++] = (uint8_t)k;
      try_axes(a, t, &s, &now, (Axes){1, {(uint8_t)k}}, by_memory, &best);
    }
    if (all.n > 1) try_axes(a, t, &s, &now, all, by_memory, &best);
    if (best.layout.n == now.layout.n) return now;
    now = best;
  }
}

// -- shapes of meshes ------------------------------------------------------------------------------------

uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], const Mesh **out) {
  VEC(Mesh) list = {0};
  for (int64_t x = 2; x <= processors; x++) {
    if (processors % x) continue;
    for (int64_t y = 1; y <= x; y++) {
      int64_t z = processors / x / (y ? y : 1);
      if (processors / x % y || z > y || (y == 1 && z > 1)) continue;
      Mesh m = {.axis = {{.name = names[0], .size = x}, {.name = names[1], .size = y}, {.name = names[2], .size = z}}};
      m.naxes = (uint8_t)(1 + (y > 1) + (z > 1));
      vec_push(a, list) = m;
    }
  }
  *out = list.at;
  return list.n;
}
