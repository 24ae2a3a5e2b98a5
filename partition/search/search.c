// Branch and bound over layouts.
//
// A layout gives every axis of the mesh a set of dims, no two of which meet in one tensor. Axes get
// their sets one after the other; what a layout costs at least (bounds_internal.h) only grows with
// each, so a branch ends where the bound of its first axes is no better than what is kept. A first
// walk collects the candidates of least bound, a second one what could still be better than the
// best of these. They are looked at in order of the bound: of meshes of three axes two at a time
// are priced together, which gives a better bound for all layouts in which these two meet; then the
// layout itself is priced. When the next bound is no better than what was found, that is the best.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/space_internal.h"

enum {
  FIRST = 64,
  FIRST_ESTIMATED = 8,
  MAX_ESTIMATED = 2000,
  MORE_ESTIMATED = 100,
  MAX_CANDIDATES = 1 << 21,
  PAIRS = 1 << 12,
  MAX_BOUNDS = 50000000
};

// What axes do together may be cheaper than the bound, which rests on what each does alone, by a
// part in so many at most near the best (tests/suite/search.c looks): a layout is out when its
// bound is dearer by more.
enum { TOGETHER = 100 };

typedef struct Candidate {
  double bound; // seconds that it costs at least
  uint32_t view;
  uint16_t set[MAX_AXES];
  uint16_t pairs; // so many pairs of its axes have been priced together
} Candidate;

// Two kinds of axes with their sets.
typedef struct PairKey {
  uint32_t kind[2], set[2];
} PairKey;
typedef struct PairEntry {
  PairKey key;
  const LeastPair *pair;
} PairEntry;

static bool same_candidate(const Candidate *a, const Candidate *b) {
  return a->view == b->view && !memcmp(a->set, b->set, sizeof a->set);
}

typedef struct Search {
  Space space;
  Least *least;
  const SearchTask *task;
  Arena *a;
  VEC(Candidate) candidate;
  VEC(Candidate) estimated;
  VEC(Candidate) least_bounds; // of each view
  const PartTable *parts;
  PairEntry *pair; // hashed; PAIRS of them
  SearchResult *result;
  double split; // the least bound of what was left out for want of room; INFINITY: nothing was
  // the walk over the candidates of a view
  const View *view;
  double limit;    // bounds from here on are of no use
  uint32_t bounds; // so many may still be computed
  bool first;      // the first walk: the FIRST candidates of least bound are kept
  Candidate now;
} Search;

static const AxisKind *kind_at(const Search *s, int k) {
  return s->space.kind.at[s->view->kind[k]];
}

static int64_t size_at(const Search *s, int k) {
  return s->view->mesh->axis[s->view->order[k]].size;
}

// -- candidates ---------------------------------------------------------------------------------

// Axes of one kind are alike: their sets stand in order, so that each layout comes once. Where all
// shapes of meshes are searched, two axes with one set are the longer axis of another shape.
static bool is_new(const Search *s, int k, uint32_t set) {
  for (int j = 0; j < k; j++) {
    if (s->view->kind[j] == s->view->kind[k] && s->now.set[j] > set) return false;
    if (s->task->nmeshes > 1 && !s->task->named_axes &&
        kind_at(s, j)->set[s->now.set[j]] == kind_at(s, k)->set[set])
      return false;
  }
  return true;
}

// Keeps the FIRST candidates of least bound, in order.
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
    s->split = fmin(s->split, bound);
}

// Whether no dim is too small for the axes that cut it.
static bool fits(const Search *s, int k, uint32_t set) {
  DimSet own = kind_at(s, k)->set[set], shared = 0;
  for (int j = 0; j < k; j++) shared |= own & kind_at(s, j)->set[s->now.set[j]];
  for (uint32_t d = 0; shared >> d; d++) {
    int64_t parts = shared >> d & 1 ? size_at(s, k) : 1;
    for (int j = 0; j < k && parts > 1; j++)
      if (kind_at(s, j)->set[s->now.set[j]] >> d & 1) parts *= size_at(s, j);
    if (parts > s->space.dim[d]->size) return false;
  }
  return true;
}

// Whether several axes cut a dim: else their order means nothing.
static bool has_order(const Search *s) {
  DimSet seen = 0, twice = 0;
  for (int k = 0; k < s->view->mesh->naxes; k++) {
    DimSet set = kind_at(s, k)->set[s->now.set[k]];
    twice |= seen & set;
    seen |= set;
  }
  return twice != 0;
}

static void walk(Search *s, int k, double bound) {
  if (k == s->view->mesh->naxes) {
    if (s->view->first || has_order(s)) add_candidate(s, bound);
    return;
  }
  least_enter(s->least, k);
  for (uint32_t i = 0; i < kind_at(s, k)->n; i++) {
    if (!is_new(s, k, i) || !fits(s, k, i)) continue;
    if (!s->bounds) {
      s->split = fmin(s->split, bound);
      return;
    }
    s->bounds--;
    double with = fmax(bound, least_with(s->least, k, i, s->limit));
    if (with >= s->limit) continue;
    s->now.set[k] = (uint16_t)i;
    if (k + 1 < s->view->mesh->naxes) least_take(s->least, k, i);
    walk(s, k + 1, with);
  }
}

static void begin_view(Search *s, uint32_t view) {
  s->view = &s->space.view.at[view];
  s->now = (Candidate){.view = view};
  least_begin(s->least, s->view->mesh->naxes, s->view->kind);
}

// What may cost less than `limit`.
static void walk_views(Search *s, double limit) {
  s->first = false;
  s->limit = limit;
  s->candidate.n = 0;
  s->split = (double)INFINITY;
  s->bounds = MAX_BOUNDS;
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    begin_view(s, i);
    walk(s, 0, 0);
  }
}

// Layouts in all: what a search without bounds would price.
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

// The candidates are a heap, the least bound first.
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

static const LeastPair *estimate_pair(Search *s, const View *v, const int axis[2],
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
  Alone together = cost_alone(a, s->task, s->parts, &both, &layout);
  const LeastPair *pair = least_pair(s->least, s->parts, &together);
  arena_free(a);
  return pair;
}

// NULL: there is no room for more.
static PairEntry *find_pair(Search *s, const PairKey *key) {
  uint64_t h = hash_bytes(FNV_START, key, sizeof *key);
  for (uint32_t i = (uint32_t)(h >> 40) % PAIRS, n = 0; n < PAIRS; n++, i = (i + 1) % PAIRS) {
    PairEntry *e = &s->pair[i];
    if (!e->pair || !memcmp(&e->key, key, sizeof *key)) return e;
  }
  return NULL;
}

// The n-th pair of axes; false when there are no more.
static bool nth_pair(int naxes, int n, int axis[2]) {
  for (axis[0] = 0; axis[0] < naxes; axis[0]++)
    for (axis[1] = axis[0] + 1; axis[1] < naxes; axis[1]++)
      if (n-- == 0) return true;
  return false;
}

// A better bound of c, with one more pair of its axes together. Returns whether a pair was priced
// for that.
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
  least_begin_pair(s->least, n, kind, e->pair, key.set);
  for (int k = 2; k < n; k++) {
    least_enter(s->least, k);
    c->bound = fmax(c->bound, least_with(s->least, k, set[k], (double)INFINITY));
    least_take(s->least, k, set[k]);
  }
  return isnew;
}

// -- the best -----------------------------------------------------------------------------------

static bool costs_alike(const LayoutCost *a, const LayoutCost *b) {
  return a->seconds == b->seconds && a->memory == b->memory && a->wire == b->wire;
}

// In order of cost; of layouts that cost the same the one with fewest rules.
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

static double beyond(double seconds) { return seconds * (1 + 1.0 / TOGETHER); }

static double best_kept(const Search *s) {
  return s->result->n ? beyond(s->result->at[0].cost.seconds) : (double)INFINITY;
}

static double worst_kept(const Search *s) {
  const SearchResult *r = s->result;
  return r->n < s->task->keep ? (double)INFINITY : beyond(r->at[r->n - 1].cost.seconds);
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

// Axes of a kind may change places, to which the bound is blind; the partitioner looks at them one
// after the other.
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
    if (same_candidate(&s->estimated.at[i], c)) return true;
  return false;
}

// Looks at what may be better than `worst` says of what is kept, with at most so many prices.
// Returns the least bound of what is left.
static double estimate_candidates(Search *s, double (*worst)(const Search *), uint32_t most) {
  for (uint32_t i = s->candidate.n / 2; i-- > 0;) sift_down(s, i);
  while (s->candidate.n && s->candidate.at[0].bound < worst(s)) {
    Candidate *c = &s->candidate.at[0];
    int axis[2], naxes = s->space.view.at[c->view].mesh->naxes;
    if (!most) return fmin(s->split, c->bound);
    if (naxes > 2 && nth_pair(naxes, c->pairs, axis)) {
      most -= tighten(s, c, axis);
      sift_down(s, 0);
      continue;
    }
    if (!was_estimated(s, c)) estimate_candidate(s, c), most--;
    drop_first(s);
  }
  return s->split;
}

static void search_new(Search *s, Arena *a, const SearchTask *t) {
  *s = (Search){.task = t, .a = a};
  s->parts = parts_new(a, t);
  s->pair = arena_array(a, PairEntry, PAIRS);
  space_fill(&s->space, a, t, s->parts);
  s->least = least_new(a, t, s->parts, s->space.kind.n, s->space.kind.at, mesh_size(t->mesh));
}

// Gives each axis the set that holds least alone, and takes the mesh on which the result holds
// least.
static SearchChoice smallest(Search *s) {
  SearchChoice best = {0}, c;
  for (uint32_t v = 0; v < s->space.view.n; v++) {
    begin_view(s, v);
    for (int k = 0; k < s->view->mesh->naxes; k++) {
      const AxisKind *kind = kind_at(s, k);
      uint32_t least = 0; // no dim
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

// The candidates of least bound of each view; the first of them are priced. Returns what the others
// cost at least.
static double estimate_first(Search *s) {
  double limit = (double)INFINITY;
  s->first = true;
  s->bounds = MAX_BOUNDS;
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    begin_view(s, i);
    s->limit = (double)INFINITY;
    s->candidate.n = 0;
    walk(s, 0, 0);
    limit = fmin(limit, s->limit);
    for (uint32_t c = 0; c < s->candidate.n; c++) {
      if (c < FIRST_ESTIMATED && s->candidate.at[c].bound < best_kept(s))
        estimate_candidate(s, &s->candidate.at[c]);
      vec_push(s->a, s->least_bounds) = s->candidate.at[c];
    }
  }
  return limit;
}

// The others that are kept, from the candidates of least bound. Whether no other layout is cheaper
// than these.
static bool rank(Search *s, double limit) {
  s->candidate.n = 0;
  for (uint32_t i = 0; i < s->least_bounds.n; i++)
    vec_push(s->a, s->candidate) = s->least_bounds.at[i];
  s->split = limit;
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
  walk_views(&s, best_kept(&s));
  double rest = estimate_candidates(&s, best_kept, MAX_ESTIMATED);
  r->proven = s.space.whole && rest >= best_kept(&s);
  r->ranked = rank(&s, limit) && r->proven;
  const SearchChoice *kept = r->n ? arena_copy(a, r->at, r->n * sizeof *kept) : NULL;
  for (uint32_t i = 0, n = r->n; i < n; i++) estimate_twins(&s, &kept[i]);
  if (!r->n) r->smallest = smallest(&s);
  if (s.space.whole && r->n) r->bound = fmin(rest, r->at[0].cost.seconds);
  return r;
}

// -- for tests ----------------------------------------------------------------------------------

static uint64_t draw(uint64_t *seed, uint64_t n) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (*seed >> 33) % n;
}

uint32_t search_probe(Arena *a, const SearchTask *t, uint32_t n, uint64_t seed, SearchProbe *out) {
  Search s;
  search_new(&s, a, t);
  uint32_t found = 0;
  for (uint32_t i = 0; i < 20 * n && found < n; i++) {
    begin_view(&s, (uint32_t)draw(&seed, s.space.view.n));
    SearchProbe *p = &out[found];
    *p = (SearchProbe){0};
    int k = 0;
    for (; k < s.view->mesh->naxes; k++) {
      s.now.set[k] = (uint16_t)draw(&seed, kind_at(&s, k)->n);
      if (!fits(&s, k, s.now.set[k])) break;
      least_enter(s.least, k);
      p->bound[k] = least_with(s.least, k, s.now.set[k], (double)INFINITY);
      least_take(s.least, k, s.now.set[k]);
    }
    if (k < s.view->mesh->naxes || !layout_of(&s, s.view, &s.now, &p->choice)) continue;
    p->choice.cost = search_cost(t, p->choice.mesh, &p->choice.layout);
    found++;
  }
  return found;
}
