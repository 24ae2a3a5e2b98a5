// How the joint search climbs: from the best choices, along moves, to better ones.
//
// To expand a choice is to estimate all choices that one move makes of it (moves.c), and to price
// those with the lowest estimates of each family of moves. The best choice that fits the memory is
// expanded next. Its way to a better one may lead over one that needs more than the memory: one
// rule makes the step faster, and the next one makes it fit. So where there are such choices, one
// of them is expanded after every few that fit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/search/choices_internal.h"

enum {
  OF_A_FAMILY = 2, // choices of each family of moves that are priced in any case
  SMALL_SHARE = 8, // all moves are priced if that takes at most this part of the work
  OVER_EVERY = 3   // one of so many expanded choices needs more than the memory
};

// -- in the order of estimates --------------------------------------------------------------------

uint32_t joint_complexity(const Tried *c) { return c->choice.layout.n + c->choice.mesh->naxes; }

// Orders choices by estimate: those whose estimated memory fits first (joint_estimate). The
// estimate knows neither what recomputation saves nor what a program needs for a moment.
static int by_estimate(const void *x, const void *y) {
  const Tried *a = *(Tried *const *)x, *b = *(Tried *const *)y;
  const LayoutCost *p = &a->choice.cost, *q = &b->choice.cost;
  if (a->late != b->late) return a->late ? 1 : -1;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  if (p->memory != q->memory) return p->memory < q->memory ? -1 : 1;
  uint32_t m = joint_complexity(a), n = joint_complexity(b);
  return m != n ? (m < n ? -1 : 1) : strcmp(a->key, b->key);
}

void joint_sort(Joint *j, TriedList *list) {
  uint32_t n = 0;
  joint_look_ahead(j, list);
  for (uint32_t i = 0; i < list->n; i++)
    if (joint_estimate(j, list->at[i]) || n == 0) list->at[n++] = list->at[i];
  list->n = n;
  if (n) qsort(list->at, n, sizeof *list->at, by_estimate);
}

void joint_price_some(Joint *j, const TriedList *list, int most, double left) {
  int priced[UINT8_MAX + 1] = {0};
  TriedList some = {0};
  for (uint32_t i = 0; i < list->n; i++)
    if (priced[list->at[i]->family]++ < most) vec_push(j->a, some) = list->at[i];
  for (uint32_t i = 0, ahead = 0; i < some.n && j->work > left; i++) {
    if (i >= ahead) ahead = joint_ahead(j, &some, i, left, false);
    joint_price(j, some.at[i]);
  }
}

// -- the best choices -----------------------------------------------------------------------------

// Returns whether the prices differ by less than rules that hardly do anything change them.
static bool priced_alike(const Tried *x, const Tried *y) {
  const SearchPrice *p = &x->choice.price, *q = &y->choice.price;
  return fabs(p->seconds - q->seconds) <= SEARCH_ALIKE * q->seconds &&
         fabs(p->peak - q->peak) <= SEARCH_ALIKE * q->peak;
}

// Returns the choice with fewest rules and axes that is priced like the best one.
static Tried *simplest_like(const Joint *j, Tried *best) {
  Tried *simple = best;
  for (uint32_t i = 0; i < j->all.n; i++) {
    Tried *c = j->all.at[i];
    if (c->priced && priced_alike(c, best) && joint_fits(j, c) == joint_fits(j, best) &&
        joint_complexity(c) < joint_complexity(simple))
      simple = c;
  }
  return simple;
}

Tried *joint_best_besides(const Joint *j, Tried *const *taken, uint32_t n) {
  Tried *best = NULL;
  for (uint32_t i = 0; i < j->all.n; i++) {
    Tried *c = j->all.at[i];
    bool other = c->priced && (!best || joint_better(j, c, best));
    for (uint32_t k = 0; k < n && other; k++) other = !priced_alike(c, taken[k]);
    if (other) best = c;
  }
  return best ? simplest_like(j, best) : NULL;
}

// -- what is expanded -----------------------------------------------------------------------------

// Returns whether c is expanded, or another choice with the same price and no more rules. Most such
// choices are c with two like axes exchanged, or c without rules that change nothing: their moves
// lead to the same prices.
static bool is_expanded(const Joint *j, const Tried *c) {
  for (uint32_t i = 0; i < j->all.n && !c->expanded; i++) {
    const Tried *x = j->all.at[i];
    if (x->expanded && priced_alike(x, c) && joint_complexity(x) <= joint_complexity(c))
      return true;
  }
  return c->expanded;
}

// Returns the best of the `beam` best choices that is not expanded. NULL: all are.
static Tried *next_best(const Joint *j, uint32_t beam) {
  Tried **best = arena_array(j->a, Tried *, beam);
  for (uint32_t n = 0; n < beam && (best[n] = joint_best_besides(j, best, n)); n++)
    if (!is_expanded(j, best[n])) return best[n];
  return NULL;
}

// What a choice that needs more than the memory promises: little time, and not much more memory.
// The root, because it is only the time of what one more rule makes fit that counts in the end.
static double promise(const Tried *c) {
  return search_unlimited(&c->choice.price) * sqrt(c->choice.price.peak);
}

// Returns the most promising choice that needs more than the memory and is not expanded. NULL:
// there is none.
static Tried *next_over(const Joint *j) {
  Tried *best = NULL;
  for (uint32_t i = 0; i < j->all.n; i++) {
    Tried *c = j->all.at[i];
    if (!(c->priced || c->previewed) || c->impossible || joint_fits(j, c)) continue;
    if ((!best || promise(c) < promise(best)) && !is_expanded(j, c)) best = c;
  }
  return best;
}

static void expand(Joint *j, Tried *c) {
  TriedList moves = {0};
  c->expanded = true;
  joint_moves(j, c, &moves);
  joint_sort(j, &moves);
  bool few = moves.n * j->nodes <= j->work / SMALL_SHARE;
  joint_price_some(j, &moves, few ? (int)moves.n : OF_A_FAMILY, 0);
}

void joint_climb(Joint *j, uint32_t beam) {
  Tried *c;
  for (uint32_t n = 1; j->work >= j->nodes && (c = next_best(j, beam)); n++) {
    Tried *over = n % OVER_EVERY == 0 ? next_over(j) : NULL;
    expand(j, over ? over : c);
  }
}
