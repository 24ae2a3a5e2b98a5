// Tries micro-batches with all layouts that memory excludes, where the space of layouts is so small
// that all were priced.
//
// First without recomputation, with all numbers of micro-batches from the least one on with which
// they may fit, then with it; those first that lack least memory. While nothing fits, recomputation
// is tried after each number. A third of the work is kept for it. Layouts about as fast as the best
// one get more micro-batches than they need, too: on a CPU smaller ones may fit a cache.
#include <math.h>
#include <stdlib.h>

#include "frontend/driver/planner_micro_internal.h"

enum {
  MORE_WORK = 3, // times the work of planner_micro.c, as pricing all layouts took little
  MOST_WORK = 8, // the same where none fits without micro-batches
  KEPT_SHARE = 3 // one part in so many of that is kept for recomputation
};
// Recomputation leaves at least so much of the memory of a program, and of the part that it does
// not keep between steps.
static const double LEAST_SHARE = 0.6, LEAST_UNKEPT = 0.5;

static bool is_faster(const Micro *m, const SearchChoice *c) {
  return search_unlimited(&c->price) < micro_best_seconds(m);
}

// Prices a choice with n micro-batches and without recomputation. Returns the choice, or NULL if it
// cannot be priced.
static const SearchChoice *price_plainly(Micro *m, const SearchChoice *from, int64_t n) {
  SearchChoice *c = arena_new_of(m->s->arena, SearchChoice);
  if (!micro_divides(m, from, n) || !micro_price(m, from, n, (SearchHint){.as_is = true}, c))
    return NULL;
  micro_add(m, c);
  return c;
}

// Returns whether a choice may fit with recomputation if it needs `peak` bytes without.
static bool may_fit(const Micro *m, const SearchChoice *c, double peak) {
  double kept = c->price.kept;
  return fmax(LEAST_SHARE * peak, kept + LEAST_UNKEPT * (peak - kept)) <= m->task->memory;
}

// Returns the least number of micro-batches with which a choice may fit, with recomputation or
// without, or 0 if there is none. What a program keeps between steps is not divided, the rest at
// most evenly.
static int64_t least_number(const Micro *m, const SearchChoice *c) {
  double kept = c->price.kept, rest = micro_peak(&c->price) - kept;
  for (int64_t n = micro_more(m, c, 1); n; n = micro_more(m, c, n))
    if (may_fit(m, c, kept + rest / (double)n)) return n;
  return 0;
}

// Returns the layouts that memory excludes and that may fit with micro-batches, sorted.
static CandidateList list_excluded(const Micro *m) {
  CandidateList list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    int64_t least = micro_is_excluded(m->task, c) ? least_number(m, c) : 0;
    if (least) vec_push(m->s->arena, list) = (Candidate){c, i, least};
  }
  micro_sort(&list, 0);
  return list;
}

// A choice that may not fit without recomputation, and what is known of it with recomputation.
typedef struct Over Over;
struct Over {
  const SearchChoice *choice;
  uint32_t from;     // number of its layout in Numbers.least
  const Over *fewer; // the same with the number of micro-batches before; NULL: it cannot fit
  double lack; // the memory by which choices are sorted: its own, or what is expected of twice
               // as many micro-batches
  bool tried, fits;
};
typedef VEC(Over) OverList;

static int by_lack(const void *x, const void *y) {
  const Over *a = x, *b = y;
  const SearchPrice *p = &a->choice->price, *q = &b->choice->price;
  if (a->lack != b->lack) return a->lack < b->lack ? -1 : 1;
  if (p->seconds != q->seconds) return p->seconds < q->seconds ? -1 : 1;
  return a->from < b->from ? -1 : a->from > b->from;
}

static void sort_by_lack(OverList *list) {
  if (list->n) qsort(list->at, list->n, sizeof *list->at, by_lack);
}

// What is known of all layouts with micro-batches.
typedef struct Numbers {
  CandidateList excluded; // the layouts that are tried
  CandidateList least;    // those that were priced with their least number; sorted for each number
  uint32_t *first;        // by layout: the first one that is equal with its least number
  const Over **last;      // by layout: the largest number that was priced and does not fit, or NULL
  OverList over;          // choices that may fit with recomputation
  OverList later;         // choices that fit, or are slower than the best one
} Numbers;

// Returns the memory that a choice is expected to need with n micro-batches, without recomputation:
// x + y / n, by what it needs now and with fewer of them. Without micro-batches there are no sums
// of gradients: then this is only a guess.
static double expected_peak(const Micro *m, const Numbers *list, const Over *o, double n) {
  const SearchPrice *without = &m->found->priced[list->least.at[o->from].order].price;
  double few = o->fewer ? (double)o->fewer->choice->accumulate : 1;
  double more = (double)o->choice->accumulate;
  double y = o->fewer ? o->fewer->choice->price.peak : micro_peak(without);
  double x = (more * o->choice->price.peak - few * y) / (more - few);
  return x + few * (y - x) / n;
}

static void add_over(const Micro *m, const Numbers *n, Over o, OverList *list) {
  o.lack = expected_peak(m, n, &o, 2 * (double)o.choice->accumulate);
  vec_push(m->s->arena, *list) = o;
}

// Prices a choice with the next number of micro-batches, unless still more of them cannot help.
// Appends the new choice to *next.
static void price_next(Micro *m, const Numbers *n, const Over *o, OverList *next) {
  if (o->fewer && !may_fit(m, o->choice, expected_peak(m, n, o, (double)INFINITY))) return;
  int64_t more = micro_more(m, o->choice, o->choice->accumulate);
  const SearchChoice *c = more ? price_plainly(m, o->choice, more) : NULL;
  if (c) add_over(m, n, (Over){.choice = c, .from = o->from, .fewer = o}, next);
}

// Prices the layouts whose least number of micro-batches is `number` or more, but not twice that,
// with their least number. Layouts that are equal without micro-batches may differ with them.
// Appends those that differ to *level.
static void price_least(Micro *m, Numbers *n, int64_t number, OverList *level) {
  uint32_t begin = n->least.n;
  for (uint32_t i = 0; i < n->excluded.n; i++) {
    const Candidate *from = &n->excluded.at[i];
    bool least = number <= from->least && from->least < 2 * number;
    if (!least || !micro_may_gain(m, from->choice)) continue;
    const SearchChoice *c = price_plainly(m, from->choice, from->least);
    if (c) vec_push(m->s->arena, n->least) = (Candidate){c, from->order, from->least};
  }
  micro_sort(&n->least, begin);
  for (uint32_t i = begin; i < n->least.n; i++) {
    const SearchChoice *c = n->least.at[i].choice;
    n->first[i] = micro_first_equal(m, &n->least, i);
    if (n->first[i] == i && micro_may_gain(m, c))
      add_over(m, n, (Over){.choice = c, .from = i}, level);
  }
}

// Prices choices of one number of micro-batches that do not fit, and are faster than the best one,
// with the next number; those first that are expected to lack least memory with twice as many.
// Others are left for later. *level gets the new choices. all: no choice is left that may still
// gain.
static void price_level(Micro *m, Numbers *n, OverList *level, bool all) {
  OverList next = {0};
  sort_by_lack(level);
  for (uint32_t i = 0; i < level->n; i++) {
    const Over *o = &level->at[i];
    bool fit = micro_fits(m, o->choice), likely = all || (!fit && is_faster(m, o->choice));
    if (!fit) n->last[o->from] = o;
    if (!fit && may_fit(m, o->choice, o->choice->price.peak)) {
      vec_push(m->s->arena, n->over) = *o;
      n->over.at[n->over.n - 1].lack = o->choice->price.peak;
    }
    if (!likely)
      vec_push(m->s->arena, n->later) = *o;
    else if (micro_may_gain(m, o->choice))
      price_next(m, n, o, &next);
  }
  *level = next;
}

static void price_more(Micro *m, Numbers *n, OverList *level, bool all) {
  while (level->n) price_level(m, n, level, all);
}

// Prices the choices that price_more left with more micro-batches: a smaller one may fit a cache.
static void price_later(Micro *m, Numbers *n) {
  OverList level = {0};
  sort_by_lack(&n->later);
  for (uint32_t i = 0; i < n->later.n; i++)
    if (micro_may_gain(m, n->later.at[i].choice)) price_next(m, n, &n->later.at[i], &level);
  price_more(m, n, &level, true);
}

// Prices layouts that are equal to others with few micro-batches, but may differ from these with
// more of them: from the first number on with which those fit or take longer than the best choice.
static void price_equal(Micro *m, Numbers *n) {
  OverList level = {0};
  for (uint32_t i = 0; i < n->least.n; i++) {
    const Over *like = n->last[n->first[i]];
    while (like && !is_faster(m, like->choice)) like = like->fewer;
    if (n->first[i] == i || !like) continue;
    SearchChoice *c = arena_new_of(m->s->arena, SearchChoice);
    Over *o = arena_new_of(m->s->arena, Over);
    *c = *like->choice;
    c->layout = n->least.at[i].choice->layout;
    *o = (Over){.choice = c, .from = i, .fewer = like->fewer};
    price_next(m, n, o, &level);
  }
  price_more(m, n, &level, false);
}

// Returns a choice before number i of a sorted list that has as many micro-batches and an equal
// program and was tried, or NULL.
static const Over *tried_like(const OverList *list, uint32_t i) {
  const SearchChoice *c = list->at[i].choice;
  for (uint32_t k = i; k-- > 0 && list->at[k].choice->price.peak == c->price.peak;) {
    const SearchChoice *o = list->at[k].choice;
    if (list->at[k].tried && o->accumulate == c->accumulate && o->mesh == c->mesh &&
        o->price.seconds == c->price.seconds && o->price.sent == c->price.sent)
      return &list->at[k];
  }
  return NULL;
}

// Tries choices with recomputation, those first that lack least memory. Where one does not fit, the
// same layout with a number of micro-batches that needs more memory does not either.
static void recompute_all(Micro *m, Numbers *n) {
  bool *failed = arena_array(m->s->arena, bool, n->least.n + 1);
  sort_by_lack(&n->over);
  for (uint32_t i = 0; i < n->over.n; i++) {
    Over *o = &n->over.at[i];
    if (o->tried || failed[o->from] || !is_faster(m, o->choice)) continue;
    const Over *like = tried_like(&n->over, i);
    o->fits = like ? like->fits
                   : micro_recompute(m, o->choice, o->choice->accumulate, &(SearchChoice){0});
    o->tried = true;
    failed[o->from] = !o->fits;
  }
}

// Prices all layouts with more and more micro-batches. All have a number before any has the next,
// which takes more work and more time in a step. So while nothing fits, recomputation is tried
// before more micro-batches.
static void price_numbers(Micro *m, Numbers *n) {
  OverList level = {0};
  int64_t most = 0;
  for (uint32_t i = 0; i < n->excluded.n; i++)
    if (n->excluded.at[i].least > most) most = n->excluded.at[i].least;
  for (int64_t number = 2; number <= most || level.n;) {
    price_least(m, n, number, &level);
    if (number <= most) number *= 2;
    price_level(m, n, &level, false);
    if (!m->found->n) recompute_all(m, n);
  }
}

void micro_try_all(Micro *m) {
  Numbers n = {.excluded = list_excluded(m)};
  n.first = arena_array(m->s->arena, uint32_t, n.excluded.n + 1);
  n.last = arena_array(m->s->arena, const Over *, n.excluded.n + 1);
  m->work *= m->found->n ? MORE_WORK : MOST_WORK;
  m->reserved = m->work / KEPT_SHARE;
  price_numbers(m, &n);
  price_equal(m, &n);
  price_later(m, &n);
  m->reserved = 0;
  recompute_all(m, &n);
}
