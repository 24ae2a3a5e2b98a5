// Collects the candidates of branch and bound: the sets of dims that the axes of a mesh may split,
// by their lower bounds (search.c).
#include <math.h>
#include <string.h>

#include "partition/search/search_internal.h"

enum {
  FIRST = 64,               // number of candidates of lowest bound that step 1 keeps for a view
  MAX_CANDIDATES = 1 << 21, // number of candidates that are kept at once
  MAX_BOUNDS = 50000000     // number of bounds that are computed at most: in step 1, and in step 2
};

const AxisKind *candidates_kind(const Search *s, int k) {
  return s->space.kind.at[s->view->kind[k]];
}

static int64_t size_at(const Search *s, int k) {
  return s->view->mesh->axis[s->view->order[k]].size;
}

// Returns false if the layouts in which axis k splits `set` are also reached by another choice.
// Axes of one kind (size and link) are interchangeable, so the numbers of their sets must not fall
// from axis to axis. Two axes with equal sets act like one larger axis. If all shapes of meshes are
// searched, another mesh has that larger axis.
static bool is_new(const Search *s, int k, uint32_t set) {
  for (int j = 0; j < k; j++) {
    if (s->view->kind[j] == s->view->kind[k] && s->now.set[j] > set) return false;
    if (s->task->nmeshes > 1 && !s->task->named_axes &&
        candidates_kind(s, j)->set[s->now.set[j]] == candidates_kind(s, k)->set[set])
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

bool candidates_fit(const Search *s, int k, uint32_t set) {
  DimSet own = candidates_kind(s, k)->set[set], common = 0;
  for (int j = 0; j < k; j++) common |= own & candidates_kind(s, j)->set[s->now.set[j]];
  for (uint32_t d = 0; common >> d; d++) {
    int64_t parts = common >> d & 1 ? size_at(s, k) : 1;
    for (int j = 0; j < k && parts > 1; j++)
      if (candidates_kind(s, j)->set[s->now.set[j]] >> d & 1) parts *= size_at(s, j);
    if (parts > s->space.dim[d]->size) return false;
  }
  return true;
}

// Returns whether several axes of the current layout split one dim. Only then does the order of the
// axes matter.
static bool has_order(const Search *s) {
  DimSet seen = 0, twice = 0;
  for (int k = 0; k < s->view->mesh->naxes; k++) {
    DimSet set = candidates_kind(s, k)->set[s->now.set[k]];
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
  for (uint32_t i = 0; i < candidates_kind(s, k)->n; i++) {
    if (!is_new(s, k, i) || !candidates_fit(s, k, i)) continue;
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

void candidates_begin(Search *s, bool first, double limit) {
  s->first = first;
  s->limit = limit;
  s->candidate.n = 0;
  s->unexplored = (double)INFINITY;
  s->bounds_left = MAX_BOUNDS;
}

void candidates_view(Search *s, uint32_t view) {
  s->view = &s->space.view.at[view];
  s->now = (Candidate){.view = view};
  bounds_begin(s->bounds, s->view->mesh->naxes, s->view->kind);
}

void candidates_of_view(Search *s, uint32_t view) {
  candidates_view(s, view);
  search_axes(s, 0, 0);
}

// -- the heap -----------------------------------------------------------------------------------

static bool before(const Candidate *a, const Candidate *b) {
  if (a->bound != b->bound) return a->bound < b->bound;
  if (a->view != b->view) return a->view < b->view;
  return memcmp(a->set, b->set, sizeof a->set) < 0;
}

// Restores the heap after the bound of entry i has risen.
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

void candidates_sort(Search *s) {
  for (uint32_t i = s->candidate.n / 2; i-- > 0;) sift_down(s, i);
}

void candidates_sink(Search *s) { sift_down(s, 0); }

void candidates_drop_first(Search *s) {
  s->candidate.at[0] = s->candidate.at[--s->candidate.n];
  sift_down(s, 0);
}
