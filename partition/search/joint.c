// The joint search over dims, soft rules and the stages of ZeRO, by price: the predicted time of
// the compiled program, recomputation included where the memory asks for it.
//
// A price takes milliseconds, so a search compiles some dozens of programs of a large model. Where
// all choices of the space can be priced in a few seconds, they are, and the best price is proven:
// first all without recomputation, then with it those that need it and may be among the best. Where
// that takes longer, but not much, estimates say which are too slow for a price. Otherwise:
//
//   1. seeds  what experts write first (seeds.c); some of each kind are priced. In a quick search
//             also choices that treat the axes of a mesh as one
//   2. climb  choices that one move makes of the best ones are priced (climb.c), until the BEAM
//             best have been expanded, or the work that the search may do is done.
//
// Estimates only say what is priced first; no result depends on their value. The limit of work
// counts nodes of graphs, not seconds, so that equal inputs give equal results.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/search/choices_internal.h"

// Recomputation leaves at least so much of the time of a step.
static const double LEAST_TIME = 0.85;
// Recomputation leaves at least so much of what it left at least so far.
static const double SAVES_MORE = 0.7;
// Prices are at least so many times the estimate, as a share of the least such quotient so far.
static const double NEARLY = 0.8;

enum {
  // A space of a model that is its own only sample is small if to price it took at most so many
  // times the work of the search; about half of the layouts then have equal programs. Of a larger
  // one choices are priced in the order of their estimates, with at most MOST_WORK times the work.
  SMALL_SPACE = 3,
  SORTED_SPACE = 10,
  MOST_LAYOUTS = 2000, // of a space that is priced so: each takes some time however small the model
  MOST_WORK = 6
};
enum {
  BEAM = 24,       // the best choices that are expanded
  WIDE_BEAM = 64,  // the same where no seed fits: what fits then is far from what is fast
  WHOLE_SHARE = 4, // choices that treat the axes of a mesh as one are priced if their estimates
                   // take at most this part of the work
  LEAN_SHARE = 2,  // one part in so many of the work is added where a lean search finds what fits
  MORE_WORK = 2    // times as much work may be added where no seed fits the memory
};

static int by_preview(const void *x, const void *y) {
  const Tried *a = *(Tried *const *)x, *b = *(Tried *const *)y;
  double s = a->choice.price.unlimited, t = b->choice.price.unlimited;
  if (s != t) return s < t ? -1 : 1;
  uint32_t m = joint_complexity(a), n = joint_complexity(b);
  return m != n ? (m < n ? -1 : 1) : strcmp(a->key, b->key);
}

static int by_peak(const void *x, const void *y) {
  const Tried *a = *(Tried *const *)x, *b = *(Tried *const *)y;
  double p = a->choice.price.peak, q = b->choice.price.peak;
  return p != q ? (p < q ? -1 : 1) : by_preview(x, y);
}

// Orders choices by their time and the square of their memory.
static int by_both(const void *x, const void *y) {
  const SearchPrice *a = &(*(Tried *const *)x)->choice.price;
  const SearchPrice *b = &(*(Tried *const *)y)->choice.price;
  double p = a->unlimited * a->peak * a->peak, q = b->unlimited * b->peak * b->peak;
  return p != q ? (p < q ? -1 : 1) : by_peak(x, y);
}

// Prices seeds with recomputation that do not fit without it, while more than `left` of the work is
// left: those first that take least time, in a lean search those that also need little memory. That
// leaves out what keeps more than the memory between steps, which recomputation does not save.
static void price_seeds_again(Joint *j, const TriedList *over, double left) {
  bool lean = j->task->lean;
  if (over->n) qsort(over->at, over->n, sizeof *over->at, lean ? by_both : by_preview);
  for (uint32_t i = 0; i < over->n && j->work > left; i++) {
    double enough = joint_enough(j);
    const SearchPrice *p = &over->at[i]->choice.price;
    bool hopeless = lean && p->kept > j->task->memory;
    if (!hopeless && (!enough || p->unlimited <= enough)) joint_price(j, over->at[i]);
  }
}

// Prices the first seed of each family of a sorted list, while more than `left` of the work is
// left. Estimates say little about what needs more than the memory, and recomputation takes several
// programs to price. So seeds are first priced without it, and those that do not fit also with it,
// while more than half of `left` is left.
static void price_seeds(Joint *j, const TriedList *list, double left) {
  bool seen[UINT8_MAX + 1] = {false};
  TriedList first = {0}, over = {0};
  for (uint32_t i = 0; i < list->n; i++) {
    if (!seen[list->at[i]->family]) vec_push(j->a, first) = list->at[i];
    seen[list->at[i]->family] = true;
  }
  for (uint32_t i = 0, ahead = 0; i < first.n && j->work > left; i++) {
    if (i >= ahead) ahead = joint_ahead(j, &first, i, left, true);
    joint_preview(j, first.at[i]);
    if (first.at[i]->previewed) vec_push(j->a, over) = first.at[i];
  }
  price_seeds_again(j, &over, left / 2);
}

// -- the search ---------------------------------------------------------------------------------

// Returns the seconds of the worst choice that the result keeps, INFINITY if it has room.
static double worst_kept(const Joint *j) {
  Tried **best = arena_array(j->a, Tried *, j->task->keep + 1);
  uint32_t n = 0;
  while (n < j->task->keep && (best[n] = joint_best_besides(j, best, n)) && joint_fits(j, best[n]))
    n++;
  return n == j->task->keep ? best[n - 1]->choice.price.seconds : (double)INFINITY;
}

// What prices with recomputation have shown so far.
typedef struct Again {
  double worst; // seconds of the worst choice that is kept
  // Of the memory that a program does not keep between steps recomputation left at least so much:
  double failed; // where it did not suffice; 0: not known
  double fitted; // where it sufficed, and may have gone no further
  double open;   // the least seconds, without recomputation, of choices that might fit if more were
                 // recomputed than was tried
} Again;

// Returns whether a choice that does not fit without recomputation may fit with it, and then be
// among those that are kept.
static bool may_help(const Joint *j, const Tried *c, const Again *seen) {
  const SearchPrice *p = &c->choice.price;
  double share = seen->failed > 0 ? fmin(seen->failed, seen->fitted) : 0;
  double least = p->kept + SAVES_MORE * share * (p->peak - p->kept);
  return LEAST_TIME * p->unlimited < seen->worst && least <= j->task->memory;
}

// Prices a choice that does not fit without recomputation: with it, where that may help. Updates
// *seen. Returns false if no work is left.
static bool price_again(Joint *j, Tried *c, Again *seen) {
  SearchPrice before = c->choice.price, *price = &c->choice.price;
  if (c->priced || c->impossible) return true;
  double open = before.kept <= j->task->memory ? fmin(seen->open, before.unlimited) : seen->open;
  if (!may_help(j, c, seen)) {
    seen->open = open;
    joint_take_preview(j, c);
    return true;
  }
  if (!joint_price(j, c)) return false;
  if (!c->priced) return true;
  double share = (price->peak - before.kept) / (before.peak - before.kept);
  if (!joint_fits(j, c)) {
    if (price->open) seen->open = open;
    seen->failed = seen->failed > 0 ? fmin(seen->failed, share) : share;
    return true;
  }
  seen->fitted = fmin(seen->fitted, share);
  if (price->seconds < seen->worst) seen->worst = worst_kept(j);
  return true;
}

// Choices that do not fit without recomputation, in the two orders in which they are priced with
// it.
typedef struct Over {
  uint32_t n;
  Tried **small; // those first that lack least memory: they are the most likely to fit
  Tried **fast;  // those first that are fast and might fit
} Over;

// Marks each choice for which one before it in o->small has the same time and memory. Most such
// choices have the same program, up to names.
static void mark_twins(const Over *o) {
  for (uint32_t i = 1; i < o->n; i++) {
    const SearchPrice *p = &o->small[i]->choice.price, *q = &o->small[i - 1]->choice.price;
    o->small[i]->twin = p->unlimited == q->unlimited && p->peak == q->peak && p->kept == q->kept;
  }
}

// Prices choices with recomputation, in turn the next one of each order: twins, or all others.
// Returns false if the work is used up before.
static bool price_in_turn(Joint *j, const Over *o, bool twins, Again *seen) {
  for (uint32_t i = 0; i < o->n; i++)
    if ((o->small[i]->twin == twins && !price_again(j, o->small[i], seen)) ||
        (o->fast[i]->twin == twins && !price_again(j, o->fast[i], seen)))
      return false;
  return true;
}

// Prices choices that do not fit without recomputation, twins after all others. Returns false if
// the work is used up before. Sets *open to the least seconds that a choice may take of which it is
// not known whether it fits.
static bool price_over(Joint *j, const TriedList *over, double *open) {
  *open = (double)INFINITY;
  if (!over->n) return true;
  Over o = {over->n, arena_copy(j->a, over->at, over->n * sizeof *o.small),
            arena_copy(j->a, over->at, over->n * sizeof *o.fast)};
  Again seen = {.worst = worst_kept(j), .fitted = 1, .open = (double)INFINITY};
  qsort(o.small, o.n, sizeof *o.small, by_peak);
  qsort(o.fast, o.n, sizeof *o.fast, by_both);
  mark_twins(&o);
  if (!price_in_turn(j, &o, false, &seen) || !price_in_turn(j, &o, true, &seen)) return false;
  *open = LEAST_TIME * seen.open;
  return true;
}

// Returns whether a choice is not worth a price without recomputation: it would take longer than
// `worst` seconds if its price were as many times its estimate as `ratio`, the least so far.
static bool is_slow(const Tried *c, double ratio, double worst) {
  return c->estimated && NEARLY * ratio * c->choice.cost.seconds > worst;
}

// Prices the choices of the list without recomputation, those left out that are estimated to be
// slow. Appends those that do not fit to *over. Returns whether all were priced.
static bool preview_all(Joint *j, const TriedList *list, TriedList *over) {
  double ratio = (double)INFINITY, worst = (double)INFINITY;
  bool all = true;
  for (uint32_t i = 0, ahead = 0; i < list->n; i++) {
    Tried *c = list->at[i];
    bool slow = is_slow(c, ratio, worst);
    if (!slow && i >= ahead) ahead = joint_ahead(j, list, i, 0, true);
    if (!slow) joint_preview(j, c);
    all &= c->priced || c->previewed || c->impossible;
    if (!c->priced && !c->previewed) continue;
    if (c->previewed) vec_push(j->a, *over) = c;
    if (!c->estimated) continue;
    ratio = fmin(ratio, c->choice.price.unlimited / c->choice.cost.seconds);
    if (c->priced && c->choice.price.seconds < worst) worst = worst_kept(j);
  }
  return all;
}

// Prices all choices of a small space. Of a larger one those are left out that are estimated to
// take too long. Returns false, and does nothing, if the space is too large for that.
static bool price_all(Joint *j) {
  TriedList list = {0}, over = {0};
  double times = j->result->candidates * j->nodes / j->work, most = MOST_WORK * j->work;
  bool alone = j->task->npriced == 1;
  if (times > (alone ? SORTED_SPACE : 1) || j->result->candidates > MOST_LAYOUTS) return false;
  joint_every(j, &list);
  j->result->candidates = list.n;
  j->every = true;
  j->work = most;
  if (times > (alone ? SMALL_SPACE : 1)) joint_sort(j, &list);
  bool all = preview_all(j, &list, &over) && list.n == j->result->candidates;
  j->work = most / 2;
  double open;
  j->result->all = price_over(j, &over, &open) && all;
  Tried *best = joint_best_besides(j, NULL, 0);
  double least = best && joint_fits(j, best) ? best->choice.price.seconds : (double)INFINITY;
  j->result->proven = j->result->all && open >= least;
  return true;
}

static bool has_fitting(const Joint *j) {
  Tried *best = joint_best_besides(j, NULL, 0);
  return best && joint_fits(j, best);
}

// Prices choices in which each rule has all axes, unless their estimates take too much of the work.
static void price_whole(Joint *j) {
  TriedList list = {0};
  if (joint_estimates(j, joint_whole_count(j)) > j->work / WHOLE_SHARE) return;
  joint_whole(j, &list);
  joint_sort(j, &list);
  joint_price_some(j, &list, UINT16_MAX, j->work / 2);
}

// Climbs where no seed fits. A sparing search does so only if it is quick, a lean one does not.
static void climb_to_fit(Joint *j, const TriedList *seeds, double work) {
  j->result->spared = j->task->lean || (j->task->sparing && !j->quick);
  if (j->result->spared) return;
  j->work += MORE_WORK * work;
  joint_price_some(j, seeds, UINT8_MAX, j->work / 2);
  if (j->quick) price_whole(j);
  joint_climb(j, WIDE_BEAM);
}

static void seed_and_climb(Joint *j) {
  TriedList seeds = {0};
  double work = j->work;
  joint_seeds(j, &seeds);
  joint_sort(j, &seeds);
  price_seeds(j, &seeds, work / 3);
  if (!has_fitting(j)) {
    climb_to_fit(j, &seeds, work);
    return;
  }
  if (j->task->lean) j->work += work / LEAN_SHARE;
  if (j->quick) price_whole(j);
  joint_climb(j, BEAM);
}

// Fills the result with the best choices that fit.
static void keep_best(const Joint *j, SearchResult *r) {
  Tried **best = arena_array(j->a, Tried *, j->task->keep + 1);
  r->at = arena_array(j->a, SearchChoice, j->task->keep + 1);
  while (r->n < j->task->keep && (best[r->n] = joint_best_besides(j, best, r->n)) &&
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
  if (!all || !price_all(&j)) seed_and_climb(&j);
  if (t->ahead) t->ahead(t->pricer, 0, NULL);
  keep_best(&j, r);
  list_priced(&j, r);
  return r;
}

SearchResult *search_best(Arena *a, const SearchTask *t) { return joint_search(a, t, true); }
