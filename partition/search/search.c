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
#include <string.h>

#include "partition/search/search_internal.h"

enum {
  FIRST_ESTIMATED = 8,  // number of candidates of each view that step 1 estimates
  MAX_ESTIMATED = 2000, // number of layouts that step 3 estimates, at most
  MORE_ESTIMATED = 100  // number of layouts that step 4 estimates, at most, in all
};

// A layout may cost less than its lower bound, because the bound combines costs of single axes and
// ignores how axes interact. Near the optimum the bound is too high by less than 1/SLACK of the
// cost (tests/suite/search.c measures it). A layout is therefore excluded only if its bound exceeds
// the cost of a kept layout by that share.
enum { SLACK = 100 };

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
  candidates_sort(s);
  while (s->candidate.n && s->candidate.at[0].bound < worst(s)) {
    Candidate *c = &s->candidate.at[0];
    bool estimated;
    if (!most) return fmin(s->unexplored, c->bound);
    if (pairs_tighten(s, c, &estimated)) {
      most -= estimated;
      candidates_sink(s);
      continue;
    }
    if (!was_estimated(s, c)) estimate_candidate(s, c), most--;
    candidates_drop_first(s);
  }
  return s->unexplored;
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

static void search_new(Search *s, Arena *a, const SearchTask *t) {
  *s = (Search){.task = t, .a = a};
  s->parts = parts_new(a, t);
  pairs_new(s);
  space_fill(&s->space, a, t, s->parts);
  s->bounds = bounds_new(a, t, s->parts, s->space.kind.n, s->space.kind.at, mesh_size(t->mesh));
}

// Returns a layout that needs little memory, found greedily. Each axis of a mesh splits the dims
// that need least memory on a mesh of this axis only. Of the layouts found for all meshes the one
// that needs least memory is returned.
static SearchChoice smallest(Search *s) {
  SearchChoice best = {0}, c;
  for (uint32_t v = 0; v < s->space.view.n; v++) {
    candidates_view(s, v);
    for (int k = 0; k < s->view->mesh->naxes; k++) {
      const AxisKind *kind = candidates_kind(s, k);
      uint32_t least = 0; // set 0 is empty
      for (uint32_t i = 1; i < kind->n; i++)
        if (candidates_fit(s, k, i) && kind->alone[i].cost.memory < kind->alone[least].cost.memory)
          least = i;
      s->now.set[k] = (uint16_t)least;
    }
    if (!s->view->first || !layout_of(s, s->view, &s->now, &c)) continue;
    c.cost = search_cost(s->task, c.mesh, &c.layout);
    if (!best.mesh || c.cost.memory < best.cost.memory) best = c;
  }
  return best;
}

// Does step 1 of the search, for every view (a mesh with an order of its axes). Collects the
// candidates of lowest bound and estimates FIRST_ESTIMATED of them. Returns a lower bound, in
// seconds, of the candidates that were not collected.
static double estimate_first(Search *s) {
  double limit = (double)INFINITY;
  candidates_begin(s, true, limit);
  for (uint32_t i = 0; i < s->space.view.n; i++) {
    s->limit = (double)INFINITY;
    s->candidate.n = 0;
    candidates_of_view(s, i);
    limit = fmin(limit, s->limit);
    for (uint32_t c = 0; c < s->candidate.n; c++) {
      if (c < FIRST_ESTIMATED && s->candidate.at[c].bound < best_kept(s))
        estimate_candidate(s, &s->candidate.at[c]);
      vec_push(s->a, s->first_of_views) = s->candidate.at[c];
    }
  }
  return fmin(limit, s->unexplored);
}

// Does step 2 of the search: collects the candidates (a mesh with the dims that each axis splits)
// whose lower bound is below `limit` seconds. Does so for all views, which are meshes with an order
// of their axes.
static void search_views(Search *s, double limit) {
  candidates_begin(s, false, limit);
  for (uint32_t i = 0; i < s->space.view.n; i++) candidates_of_view(s, i);
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
