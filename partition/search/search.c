// Searches layouts by branch and bound (Land and Doig 1960).
//
// A candidate assigns a set of dims to every axis of a view, which is a mesh with an order of its
// axes (space_internal.h). Lower bounds (bounds_internal.h) never fall when one more axis is
// assigned, so a branch is skipped when its bound reaches the cost of the layouts that are kept.
// The steps:
//
//   1. estimate_first  collects for each view the candidates of lowest bound and estimates the
//                      first of them, which gives a good cost to start from
//   2. search_views    collects all candidates whose bound is below the best cost
//   3. estimate_candidates
//                      takes them by rising bound (a heap). On meshes of three axes or more the
//                      bound is first raised by the costs of pairs of axes. Then the layout's own
//                      cost is estimated. It ends when the next bound reaches the best cost: that
//                      layout is proven optimal.
//   4. rank            estimates candidates of step 1 in this way to find ranks 2..keep
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/space_internal.h"

enum {
  FIRST = 64,               // number of candidates of lowest bound that step 1 keeps for a view
  FIRST_ESTIMATED = 8,      // number of these that step 1 estimates
  MAX_ESTIMATED = 2000,     // number of layouts that step 3 estimates, at most
  MORE_ESTIMATED = 100,     // number of layouts that step 4 estimates, at most, in all
  MAX_CANDIDATES = 1 << 21, // number of candidates that are kept at once
  PAIRS = 1 << 12,          // entries of the hash table for pairs of axes
  MAX_BOUNDS = 50000000     // number of bounds that step 1 or step 2 computes, at most
};

// A layout may cost less than its lower bound, because the bound combines costs of single axes and
// ignores how axes interact. Near the optimum the bound is too high by less than 1/SLACK of the
// cost (tests/suite/search.c measures it). A layout is therefore excluded only if its bound exceeds
// the cost of a kept layout by that share.
enum { SLACK = 100 };

typedef struct Candidate {
  double bound; // lower bound, in seconds, of the layout
  uint32_t view;
  uint16_t set[MAX_AXES]; // [k] set of axis k: index into AxisKind.set
  uint16_t pairs;         // number of pairs of axes whose exact cost has raised the bound
} Candidate;

// The key of the table of exact costs: two axes, by kind (size and link), and the sets of dims that
// they split.
typedef struct PairKey {
  uint32_t kind[2], set[2];
} PairKey;
typedef struct PairEntry {
  PairKey key;
  const PairBound *pair;
} PairEntry;

typedef struct Search {
  Space space;
  Bounds *bounds;
  const SearchTask *task;
  Arena *a;
  VEC(Candidate) candidate;
  VEC(Candidate) estimated;
  VEC(Candidate) first_of_views; // candidates that step 1 has collected
  const PartTable *parts;
  PairEntry *pair; // hash table of PAIRS slots, open addressing
  SearchResult *result;
  double unexplored; // lowest bound of the branches that were not explored, INFINITY: none
  // The fields below are set for search_axes.
  const View *view;
  double limit;         // branches whose bound reaches this are skipped
  uint32_t bounds_left; // budget: bounds that may still be computed
  bool first;           // true in step 1: only the FIRST candidates are kept
  Candidate now;        // the axes assigned so far
} Search;

static const AxisKind *kind_at(const Search *s, int k) {
  return s->space.kind.at[s->view->kind[k]];
}

static int64_t size_at(const Search *s, int k) {
  return s->view->mesh->axis[s->view->order[k]].size;
}

// -- candidates ---------------------------------------------------------------------------------

// Returns false if the layouts in which axis k splits `set` are also reached by another choice.
// Axes of one kind (size and link) are interchangeable, so the numbers of their sets must not fall
// from axis to axis. Two axes with equal sets act like one larger axis. If all shapes of meshes are
// searched, another mesh has that larger axis.
static bool is_new(const Search *s, int k, uint32_t set) {
  for (int j = 0; j < k; j++) {
    if (s->view->kind[j] == s->view->kind[k] && s->now.set[j] > set) return false;
    if (s->task->nmeshes > 1 && !s->task->named_axes &&
        kind_at(s, j)->set[s->now.set[j]] == kind_at(s, k)->set[set])
      return false;
  }
  return true;
}

// Inserts candidate c into s->candidate. In step 1 of the search this is a sorted list of at most
// FIRST candidates of lowest bound. The candidate of highest bound is dropped from a full list.
static void keep_first(Search *s, const Candidate *c) {
  uint32_t i = s->candidate.n;
  if (i < FIRST)
    vec_push(s->a, s->candidate) = *c;
  else
    i--;
  for (; i > 0 && c->bound < s->candidate.at[i - 1].bound; i--)
    s->candidate.at[i] = s->candidate.at[i - 1];
  s->candidate.at[i] = *c;
  if (s->candidate.n == FIRST) s->limit = s->candidate.at[FIRST - 1].bound;
}

static void add_candidate(Search *s, double bound) {
  s->now.bound = bound;
  if (s->first)
    keep_first(s, &s->now);
  else if (s->candidate.n < MAX_CANDIDATES)
    vec_push(s->a, s->candidate) = s->now;
  else
    s->unexplored = fmin(s->unexplored, bound);
}

// Returns whether axis k can split the dims of `set`. Each dim needs at least one element for each
// processor along the axes 0..k that split the dim.
static bool fits(const Search *s, int k, uint32_t set) {
  DimSet own = kind_at(s, k)->set[set], common = 0;
  for (int j = 0; j < k; j++) common |= own & kind_at(s, j)->set[s->now.set[j]];
  for (uint32_t d = 0; common >> d; d++) {
    int64_t parts = common >> d & 1 ? size_at(s, k) : 1;
    for (int j = 0; j < k && parts > 1; j++)
      if (kind_at(s, j)->set[s->now.set[j]] >> d & 1) parts *= size_at(s, j);
    if (parts > s->space.dim[d]->size) return false;
  }
  return true;
}

// Returns whether several axes of the current layout split one dim. Only then does the order of the
// axes matter.
static bool has_order(const Search *s) {
  DimSet seen = 0, twice = 0;
  for (int k = 0; k < s->view->mesh->naxes; k++) {
    DimSet set = kind_at(s, k)->set[s->now.set[k]];
    twice |= seen & set;
    seen |= set;
  }
  return twice != 0;
}

// Searches depth-first, by branch and bound, from axis k on. Axes 0..k-1 have their sets of dims in
// s->now, and every completion costs at least `bound` seconds. A branch is skipped when its bound
// reaches s->limit. When MAX_BOUNDS bounds have been computed, s->unexplored records the lowest
// bound of the layouts left out. Results are proven only below that bound.
static void search_axes(Search *s, int k, double bound) {
  if (k == s->view->mesh->naxes) {
    if (s->view->first || has_order(s)) add_candidate(s, bound);
    return;
  }
  bounds_enter(s->bounds, k);
  for (uint32_t i = 0; i < kind_at(s, k)->n; i++) {
    if (!is_new(s, k, i) || !fits(s, k, i)) continue;
    if (!s->bounds_left) {
      s->unexplored = fmin(s->unexplored, bound);
      return;
    }
    s->bounds_left--;
    double with = fmax(bound, bounds_with(s->bounds, k, i, s->limit));
    if (with >= s->limit) continue;
    s->now.set[k] = (uint16_t)i;
    if (k + 1 < s->view->mesh->naxes) bounds_assign(s->bounds, k, i);
    search_axes(s, k + 1, with);
  }
}

static void begin_view(Search *s, uint32_t view) {
  s->view = &s->space.view.at[view];
  s->now = (Candidate){.view = view};
  bounds_begin(s->bounds, s->view->mesh->naxes, s->view->kind);
}

// Collects the candidates (a mesh with the dims that each axis splits) whose lower bound is below
// `limit` seconds. Does so for all views, which are meshes with an order of their axes.
static void search_views(Search *s, double limit) {
  s->first = false;
  s->limit = limit;
  s->candidate.n = 0;
  s->unexplored = (double)INFINITY;
  s->bounds_left = MAX_BOUNDS;
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    begin_view(s, i);
    search_axes(s, 0, 0);
  }
}

// Returns the number of layouts that the search covers. Layouts that differ only in the order of
// the axes of a mesh are counted once.
static double count_layouts(const Search *s) {
  double all = 0;
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    const View *v = &s->space.view.at[i];
    double of_mesh = v->first;
    for (int k = 0; k < v->mesh->naxes; k++) of_mesh *= s->space.kind.at[v->kind[k]]->n;
    all += of_mesh;
  }
  return all;
}

static bool before(const Candidate *a, const Candidate *b) {
  if (a->bound != b->bound) return a->bound < b->bound;
  if (a->view != b->view) return a->view < b->view;
  return memcmp(a->set, b->set, sizeof a->set) < 0;
}

// Restores the heap of candidates, which has the lowest bound first, after the bound of entry i has
// risen.
static void sift_down(Search *s, uint32_t i) {
  Candidate *c = s->candidate.at;
  for (;;) {
    uint32_t least = i;
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->candidate.n; child++)
      if (before(&c[child], &c[least])) least = child;
    if (least == i) return;
    Candidate t = c[i];
    c[i] = c[least], c[least] = t;
    i = least;
  }
}

static void drop_first(Search *s) {
  s->candidate.at[0] = s->candidate.at[--s->candidate.n];
  sift_down(s, 0);
}

// -- pairs of axes ------------------------------------------------------------------------------

// Returns the exact cost of two axes with the dims that they split, estimated on a mesh of these
// two axes only. `v` is a mesh with an order of its axes.
static const PairBound *estimate_pair(Search *s, const View *v, const int axis[2],
                                      const PairKey *key) {
  Arena *a = arena_new();
  Mesh both = {.naxes = 2,
               .axis = {v->mesh->axis[v->order[axis[0]]], v->mesh->axis[v->order[axis[1]]]}};
  View view = {.mesh = &both, .order = {0, 1}};
  DimSet set[2];
  Layout layout;
  for (int i = 0; i < 2; i++) set[i] = s->space.kind.at[key->kind[i]]->set[key->set[i]];
  if (!space_layout(&s->space, a, &view, set, &layout))
    BUG("a pair of axes splits a dim too often");
  PartCosts together = cost_in_parts(a, s->task, s->parts, &both, &layout);
  const PairBound *pair = bounds_pair(s->bounds, s->parts, &together);
  arena_free(a);
  return pair;
}

// Returns the entry of the hash table of axis pairs that has this key, or else a free entry.
// Returns NULL if the table is full and lacks the key.
static PairEntry *find_pair(Search *s, const PairKey *key) {
  uint64_t h = hash_bytes(FNV_START, key, sizeof *key);
  for (uint32_t i = (uint32_t)(h >> 40) % PAIRS, n = 0; n < PAIRS; n++, i = (i + 1) % PAIRS) {
    PairEntry *e = &s->pair[i];
    if (!e->pair || !memcmp(&e->key, key, sizeof *key)) return e;
  }
  return NULL;
}

// Sets axis[] to pair number n, from 0, of all pairs of the `naxes` axes of a mesh. Returns false
// if there are n pairs or fewer.
static bool nth_pair(int naxes, int n, int axis[2]) {
  for (axis[0] = 0; axis[0] < naxes; axis[0]++)
    for (axis[1] = axis[0] + 1; axis[1] < naxes; axis[1]++)
      if (n-- == 0) return true;
  return false;
}

// Raises the lower bound of candidate c by the exact cost of two of its axes. The bound is computed
// again with these two axes first, then the other axes. Returns true if the pair had to be
// estimated, false if its cost was known or the table of pairs is full.
static bool tighten(Search *s, Candidate *c, const int axis[2]) {
  const View *v = &s->space.view.at[c->view];
  const uint32_t *of = v->kind;
  PairKey key = {{of[axis[0]], of[axis[1]]}, {c->set[axis[0]], c->set[axis[1]]}};
  uint32_t kind[MAX_AXES] = {key.kind[0], key.kind[1]}, set[MAX_AXES] = {key.set[0], key.set[1]};
  int n = 2;
  for (int k = 0; k < v->mesh->naxes; k++)
    if (k != axis[0] && k != axis[1]) kind[n] = of[k], set[n++] = c->set[k];
  PairEntry *e = find_pair(s, &key);
  c->pairs++;
  if (!e) return false;
  bool isnew = !e->pair;
  if (isnew) *e = (PairEntry){key, estimate_pair(s, v, axis, &key)};
  bounds_begin_pair(s->bounds, n, kind, e->pair, key.set);
  for (int k = 2; k < n; k++) {
    bounds_enter(s->bounds, k);
    c->bound = fmax(c->bound, bounds_with(s->bounds, k, set[k], (double)INFINITY));
    bounds_assign(s->bounds, k, set[k]);
  }
  return isnew;
}

// -- the best -----------------------------------------------------------------------------------

bool search_cheaper(const SearchChoice *a, const SearchChoice *b) {
  if (a->cost.seconds != b->cost.seconds) return a->cost.seconds < b->cost.seconds;
  if (a->cost.memory != b->cost.memory) return a->cost.memory < b->cost.memory;
  return a->layout.n < b->layout.n;
}

static bool costs_alike(const LayoutCost *a, const LayoutCost *b) {
  return a->seconds == b->seconds && a->memory == b->memory && a->wire == b->wire;
}

// Inserts a choice (mesh, layout and cost) into the result of the search, in order of cost. Of
// choices of equal cost only the one with fewest rules is kept.
static void keep(Search *s, const SearchChoice *c) {
  SearchResult *r = s->result;
  uint32_t i = 0;
  while (i < r->n && !costs_alike(&r->at[i].cost, &c->cost)) i++;
  if (i < r->n) {
    if (search_cheaper(c, &r->at[i])) r->at[i] = *c;
    return;
  }
  if (r->n == s->task->keep && !search_cheaper(c, &r->at[r->n - 1])) return;
  i = r->n < s->task->keep ? r->n++ : r->n - 1;
  for (; i > 0 && search_cheaper(c, &r->at[i - 1]); i--) r->at[i] = r->at[i - 1];
  r->at[i] = *c;
}

static double with_slack(double seconds) { return seconds * (1 + 1.0 / SLACK); }

static double best_kept(const Search *s) {
  return s->result->n ? with_slack(s->result->at[0].cost.seconds) : (double)INFINITY;
}

static double worst_kept(const Search *s) {
  const SearchResult *r = s->result;
  return r->n < s->task->keep ? (double)INFINITY : with_slack(r->at[r->n - 1].cost.seconds);
}

static bool layout_of(const Search *s, const View *v, const Candidate *c, SearchChoice *out) {
  DimSet set[MAX_AXES];
  *out = (SearchChoice){.mesh = v->mesh};
  for (int k = 0; k < v->mesh->naxes; k++) set[k] = s->space.kind.at[v->kind[k]]->set[c->set[k]];
  return space_layout(&s->space, s->a, v, set, &out->layout);
}

static void keep_if_fits(Search *s, SearchChoice *choice) {
  choice->cost = search_cost(s->task, choice->mesh, &choice->layout);
  s->result->estimated++;
  if (s->task->estimated) s->task->estimated(s->task->watcher, s->result->estimated);
  if (choice->cost.memory > s->task->memory)
    s->result->over_memory++;
  else
    keep(s, choice);
}

static void estimate_candidate(Search *s, const Candidate *c) {
  SearchChoice choice;
  vec_push(s->a, s->estimated) = *c;
  if (!layout_of(s, &s->space.view.at[c->view], c, &choice)) return;
  keep_if_fits(s, &choice);
  s->result->closest = fmin(s->result->closest, choice.cost.seconds / c->bound);
}

// Estimates the costs of the layouts that differ from `of` only by a permutation of axes of one
// kind (size and link). Their lower bounds are equal, but their costs may differ, because the
// placement considers the axes in order.
static void estimate_twins(Search *s, const SearchChoice *of) {
  const View *v = s->space.view.at;
  while (v->mesh != of->mesh || !v->first) v++;
  bool order = false;
  for (uint32_t i = 0; i < of->layout.n; i++) order |= of->layout.rule[i].axes.n > 1;
  for (int o = 1; o < 6 && order && v->mesh->naxes <= 3; o++) {
    const uint8_t *to = space_orders[o];
    bool alike = true;
    for (int k = 0; k < 3; k++)
      alike &=
          k < v->mesh->naxes ? to[k] < v->mesh->naxes && v->kind[to[k]] == v->kind[k] : to[k] == k;
    if (!alike) continue;
    SearchChoice twin = {.mesh = of->mesh, .layout = {of->layout.n, NULL}};
    twin.layout.rule = arena_copy(s->a, of->layout.rule, of->layout.n * sizeof *twin.layout.rule);
    for (uint32_t i = 0; i < twin.layout.n; i++)
      for (int k = 0; k < twin.layout.rule[i].axes.n; k++)
        twin.layout.rule[i].axes.at[k] = to[of->layout.rule[i].axes.at[k]];
    keep_if_fits(s, &twin);
  }
}

static bool was_estimated(const Search *s, const Candidate *c) {
  for (uint32_t i = 0; i < s->estimated.n; i++)
    if (s->estimated.at[i].view == c->view &&
        !memcmp(s->estimated.at[i].set, c->set, sizeof c->set))
      return true;
  return false;
}

// Estimates the costs of candidates by rising lower bound, until the next bound reaches worst(s) or
// `most` estimates are made. worst(s) is the cost of the first or of the last layout of the result.
// Returns the lowest bound among the candidates that were not estimated.
static double estimate_candidates(Search *s, double (*worst)(const Search *), uint32_t most) {
  for (uint32_t i = s->candidate.n / 2; i-- > 0;) sift_down(s, i);
  while (s->candidate.n && s->candidate.at[0].bound < worst(s)) {
    Candidate *c = &s->candidate.at[0];
    int axis[2], naxes = s->space.view.at[c->view].mesh->naxes;
    if (!most) return fmin(s->unexplored, c->bound);
    if (naxes > 2 && nth_pair(naxes, c->pairs, axis)) {
      most -= tighten(s, c, axis);
      sift_down(s, 0);
      continue;
    }
    if (!was_estimated(s, c)) estimate_candidate(s, c), most--;
    drop_first(s);
  }
  return s->unexplored;
}

static void search_new(Search *s, Arena *a, const SearchTask *t) {
  *s = (Search){.task = t, .a = a};
  s->parts = parts_new(a, t);
  s->pair = arena_array(a, PairEntry, PAIRS);
  space_fill(&s->space, a, t, s->parts);
  s->bounds = bounds_new(a, t, s->parts, s->space.kind.n, s->space.kind.at, mesh_size(t->mesh));
}

// Returns a layout that needs little memory, found greedily. Each axis of a mesh splits the dims
// that need least memory on a mesh of this axis only. Of the layouts found for all meshes the one
// that needs least memory is returned.
static SearchChoice smallest(Search *s) {
  SearchChoice best = {0}, c;
  for (uint32_t v = 0; v < s->space.view.n; v++) {
    begin_view(s, v);
    for (int k = 0; k < s->view->mesh->naxes; k++) {
      const AxisKind *kind = kind_at(s, k);
      uint32_t least = 0; // set 0 is empty
      for (uint32_t i = 1; i < kind->n; i++)
        if (fits(s, k, i) && kind->alone[i].cost.memory < kind->alone[least].cost.memory) least = i;
      s->now.set[k] = (uint16_t)least;
    }
    if (!s->view->first || !layout_of(s, s->view, &s->now, &c)) continue;
    c.cost = search_cost(s->task, c.mesh, &c.layout);
    if (!best.mesh || c.cost.memory < best.cost.memory) best = c;
  }
  return best;
}

// Does step 1 of the search, for every view (a mesh with an order of its axes). Collects the FIRST
// candidates of lowest bound and estimates FIRST_ESTIMATED of them. Returns a lower bound, in
// seconds, of the candidates that were not collected.
static double estimate_first(Search *s) {
  double limit = (double)INFINITY;
  s->first = true;
  s->bounds_left = MAX_BOUNDS;
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    begin_view(s, i);
    s->limit = (double)INFINITY;
    s->candidate.n = 0;
    search_axes(s, 0, 0);
    limit = fmin(limit, s->limit);
    for (uint32_t c = 0; c < s->candidate.n; c++) {
      if (c < FIRST_ESTIMATED && s->candidate.at[c].bound < best_kept(s))
        estimate_candidate(s, &s->candidate.at[c]);
      vec_push(s->a, s->first_of_views) = s->candidate.at[c];
    }
  }
  return limit;
}

// Does step 4 of the search: estimates candidates that step 1 collected, to fill ranks 2..keep of
// the result (SearchTask.keep). `limit` is a lower bound of the candidates that step 1 did not
// collect. Returns true if no layout outside the result is cheaper than the last layout of the
// result.
static bool rank(Search *s, double limit) {
  s->candidate.n = 0;
  for (uint32_t i = 0; i < s->first_of_views.n; i++)
    vec_push(s->a, s->candidate) = s->first_of_views.at[i];
  s->unexplored = limit;
  return estimate_candidates(s, worst_kept, MORE_ESTIMATED) >= worst_kept(s);
}

SearchResult *search_layouts(Arena *a, const SearchTask *t) {
  SearchResult *r = arena_new_of(a, SearchResult);
  Search s;
  search_new(&s, a, t);
  *r = (SearchResult){.at = arena_array(a, SearchChoice, t->keep + 1),
                      .candidates = count_layouts(&s),
                      .closest = (double)INFINITY};
  s.result = r;
  double limit = estimate_first(&s);
  search_views(&s, best_kept(&s));
  double rest = estimate_candidates(&s, best_kept, t->estimates ? t->estimates : MAX_ESTIMATED);
  r->proven = s.space.complete && rest >= best_kept(&s);
  r->ranked = rank(&s, limit) && r->proven;
  const SearchChoice *kept = r->n ? arena_copy(a, r->at, r->n * sizeof *kept) : NULL;
  for (uint32_t i = 0, n = r->n; i < n; i++) estimate_twins(&s, &kept[i]);
  if (!r->n) r->smallest = smallest(&s);
  if (s.space.complete && r->n) r->bound = fmin(rest, r->at[0].cost.seconds);
  return r;
}
