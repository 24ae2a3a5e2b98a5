// The joint search over dims, soft rules and the stages of ZeRO, by price: the predicted time of
// the compiled program, recomputation included where the memory asks for it.
//
// A price takes milliseconds, so a search compiles some dozens of programs of a large model. Where
// the whole space has no more choices than that, all are priced, and the best price is proven.
// Otherwise:
//
//   1. seeds  what experts write first (seeds.c); some of each kind are priced
//   2. climb  the best choice that has not been expanded yet is expanded: all choices that one move
//             makes of it (moves.c) are estimated, and those with the lowest estimates of each
//             family of moves are priced. It ends when the BEAM best are expanded, or when the
//             work that the search may do is done.
//
// Estimates only say what is priced first; no result depends on their value. The limit of work
// counts nodes of graphs, not seconds, so that equal inputs give equal results.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/search/choices_internal.h"

// Prices that differ by this share are alike.
static const double ALIKE = 1e-3;

enum {
  BEAM = 24,       // the best choices that are expanded
  OF_A_FAMILY = 2, // choices of each family of moves that are priced in any case
  SMALL_SHARE = 8, // all moves are priced if that takes at most this part of the work
  MORE_WORK = 2    // times as much work may be added where no seed fits the memory
};

// -- what is priced first -----------------------------------------------------------------------

static uint32_t complexity(const Tried *c) { return c->choice.layout.n + c->choice.mesh->naxes; }

// Orders choices by estimate: those whose estimated memory fits first. The estimate knows neither
// what recomputation saves nor what a program needs for a moment.
static int by_estimate(const void *x, const void *y) {
  const Tried *a = *(Tried *const *)x, *b = *(Tried *const *)y;
  const LayoutCost *p = &a->choice.cost, *q = &b->choice.cost;
  if (a->over != b->over) return a->over ? 1 : -1;
  if (p->seconds != q->seconds) return p->seconds < q->seconds ? -1 : 1;
  if (p->memory != q->memory) return p->memory < q->memory ? -1 : 1;
  uint32_t m = complexity(a), n = complexity(b);
  return m != n ? (m < n ? -1 : 1) : strcmp(a->key, b->key);
}

// Estimates the choices of the list and sorts them. Those for which no work is left are dropped,
// but never all: of a very large model one layout is priced at least.
static void sort_by_estimate(Joint *j, TriedList *list) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < list->n; i++)
    if (joint_estimate(j, list->at[i]) || n == 0) list->at[n++] = list->at[i];
  list->n = n;
  if (n) qsort(list->at, n, sizeof *list->at, by_estimate);
}

static int by_preview(const void *x, const void *y) {
  const Tried *a = *(Tried *const *)x, *b = *(Tried *const *)y;
  double s = a->choice.price.unlimited, t = b->choice.price.unlimited;
  if (s != t) return s < t ? -1 : 1;
  uint32_t m = complexity(a), n = complexity(b);
  return m != n ? (m < n ? -1 : 1) : strcmp(a->key, b->key);
}

// Prices the first seed of each family of a sorted list, while more than `left` of the work is
// left. Estimates say little about what needs more than the memory, and recomputation takes several
// programs to price. So seeds are first priced without it, and those that do not fit and then take
// least time also with it, while more than half of `left` is left.
static void price_seeds(Joint *j, const TriedList *list, double left) {
  bool seen[UINT8_MAX + 1] = {false};
  TriedList over = {0};
  for (uint32_t i = 0; i < list->n && j->work > left; i++) {
    Tried *c = list->at[i];
    if (seen[c->family]) continue;
    seen[c->family] = true;
    joint_preview(j, c);
    if (c->previewed) vec_push(j->a, over) = c;
  }
  if (over.n) qsort(over.at, over.n, sizeof *over.at, by_preview);
  for (uint32_t i = 0; i < over.n && j->work > left / 2; i++) {
    double enough = joint_enough(j);
    if (!enough || over.at[i]->choice.price.unlimited <= enough) joint_price(j, over.at[i]);
  }
}

// Prices the first choices of a sorted list, `most` of each family, while more than `left` of the
// work is left.
static void price_some(Joint *j, const TriedList *list, int most, double left) {
  int priced[UINT8_MAX + 1] = {0};
  for (uint32_t i = 0; i < list->n && j->work > left; i++)
    if (priced[list->at[i]->family]++ < most) joint_price(j, list->at[i]);
}

// -- climbing -----------------------------------------------------------------------------------

// Returns whether the prices differ by less than rules that hardly do anything change them.
static bool priced_alike(const Tried *x, const Tried *y) {
  const SearchPrice *p = &x->choice.price, *q = &y->choice.price;
  return fabs(p->seconds - q->seconds) <= ALIKE * q->seconds &&
         fabs(p->peak - q->peak) <= ALIKE * q->peak;
}

// Returns the choice with fewest rules and axes that is priced like the best one.
static Tried *simplest_like(const Joint *j, Tried *best) {
  Tried *simple = best;
  for (uint32_t i = 0; i < j->all.n; i++) {
    Tried *c = j->all.at[i];
    if (c->priced && priced_alike(c, best) && joint_fits(j, c) == joint_fits(j, best) &&
        complexity(c) < complexity(simple))
      simple = c;
  }
  return simple;
}

// Returns the best choice whose price differs from those of the n choices `taken`, in its simplest
// form. NULL: there is none.
static Tried *best_besides(const Joint *j, Tried *const *taken, uint32_t n) {
  Tried *best = NULL;
  for (uint32_t i = 0; i < j->all.n; i++) {
    Tried *c = j->all.at[i];
    bool other = c->priced && (!best || joint_better(j, c, best));
    for (uint32_t k = 0; k < n && other; k++) other = !priced_alike(c, taken[k]);
    if (other) best = c;
  }
  return best ? simplest_like(j, best) : NULL;
}

// Returns the best of the BEAM best choices that is not expanded. NULL: all are.
static Tried *next_choice(const Joint *j) {
  Tried *best[BEAM];
  for (uint32_t n = 0; n < BEAM && (best[n] = best_besides(j, best, n)); n++)
    if (!best[n]->expanded) return best[n];
  return NULL;
}

static void expand(Joint *j, Tried *c) {
  TriedList moves = {0};
  c->expanded = true;
  joint_moves(j, c, &moves);
  sort_by_estimate(j, &moves);
  bool few = moves.n * j->nodes <= j->work / SMALL_SHARE;
  price_some(j, &moves, few ? (int)moves.n : OF_A_FAMILY, 0);
}

// -- the search ---------------------------------------------------------------------------------

// Prices all choices of the space, if there is work for that. Returns whether it did.
static bool price_all(Joint *j) {
  TriedList list = {0};
  double n = j->result->candidates;
  if (n * j->nodes > j->work || n > JOINT_MOST) return false;
  joint_every(j, &list);
  j->work = (double)INFINITY; // recomputation takes more, but not much
  for (uint32_t i = 0; i < list.n; i++) joint_price(j, list.at[i]);
  j->result->candidates = list.n;
  return true;
}

static bool has_fitting(const Joint *j) {
  Tried *best = best_besides(j, NULL, 0);
  return best && joint_fits(j, best);
}

static void seed_and_climb(Joint *j) {
  TriedList seeds = {0};
  Tried *c;
  double work = j->work;
  joint_seeds(j, &seeds);
  sort_by_estimate(j, &seeds);
  price_seeds(j, &seeds, work / 3);
  if (!has_fitting(j)) {
    if (j->task->sparing) return;
    j->work += MORE_WORK * work;
    price_some(j, &seeds, UINT8_MAX, j->work / 2);
  }
  while (j->work >= j->nodes && (c = next_choice(j))) expand(j, c);
}

// Fills the result with the best choices that fit.
static void keep_best(const Joint *j, SearchResult *r) {
  Tried **best = arena_array(j->a, Tried *, j->task->keep + 1);
  r->at = arena_array(j->a, SearchChoice, j->task->keep + 1);
  while (r->n < j->task->keep && (best[r->n] = best_besides(j, best, r->n)) &&
         joint_fits(j, best[r->n])) {
    r->at[r->n] = best[r->n]->choice;
    r->n++;
  }
  if (!r->n && best[0]) r->smallest = best[0]->choice;
}

static void list_priced(const Joint *j, SearchResult *r) {
  SearchChoice *list = arena_array(j->a, SearchChoice, j->all.n + 1);
  r->npriced = 0;
  for (uint32_t i = 0; i < j->all.n; i++)
    if (j->all.at[i]->priced) list[r->npriced++] = j->all.at[i]->choice;
  r->priced = list;
}

SearchResult *joint_search(Arena *a, const SearchTask *t, bool all) {
  SearchResult *r = arena_new_of(a, SearchResult);
  Joint j;
  joint_new(&j, a, t, r);
  r->candidates = joint_count(&j);
  r->all = r->proven = all && price_all(&j);
  if (!r->all) seed_and_climb(&j);
  keep_best(&j, r);
  list_priced(&j, r);
  return r;
}

SearchResult *search_best(Arena *a, const SearchTask *t) { return joint_search(a, t, true); }
