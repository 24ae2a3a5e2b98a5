// Prices a layout for the search: from the samples of the search (models with short loops) or, of a
// model that is its own only sample, from its program (price_whole.c).
//
// A layout that asks the same of all values as an earlier one (place_asked) has its price. It
// counts as work of the search as if it had been compiled again.
//
// Where a layout needs more memory than a processor has, samples are compiled again at some
// recompute levels. Where little memory lacks, the first one is that for cheap values. Else it is
// that for all segments of the forward pass and, if it fits, that for cheap values and all that was
// gathered. If that fits, too, those below it follow, down to the first that fits. If not, the
// compiler recomputes one segment more with each level from there on, and the least share of the
// segments that fits is interpolated between none and all of them:
//
//   share = (memory with none - limit) / (memory with none - memory with all), time alike
//
// What does not quite fit with all segments is also priced with none, at the highest level, and
// with the plain placement: where parameters are gathered, the clones of all segments may need more
// than they save. A brief price (SearchHint) leaves that out.
#include "frontend/driver/price.h"

#include <math.h>

#include "frontend/driver/price_ahead.h"
#include "frontend/driver/price_known.h"
#include "frontend/driver/price_samples.h"
#include "frontend/driver/price_whole.h"

// A program that needs this many times the memory does not fit at any recompute level.
static const double HOPELESS = 16;
// If a program needs more than this many times the memory with all segments recomputed, the highest
// level and the plain placement do not fit either.
static const double NEAR = 1.5;

static double between(double x, double y, double share) { return x + share * (y - x); }

// Returns the price at which `share` of the segments are recomputed.
static SearchPrice price_between(const SearchPrice *none, const SearchPrice *all, double share) {
  return (SearchPrice){.seconds = between(none->seconds, all->seconds, share),
                       .products = between(none->products, all->products, share),
                       .kernels = between(none->kernels, all->kernels, share),
                       .transfer = between(none->transfer, all->transfer, share),
                       .sent = between(none->sent, all->sent, share),
                       .peak = between(none->peak, all->peak, share),
                       .kept = all->kept,
                       .again = share};
}

static bool fits(const Priced *l, const SearchPrice *price) {
  return price->peak <= l->p->task->memory;
}

// Returns whether a layout that does not fit with all segments recomputed may fit in another way.
// In a brief price it may not.
static bool is_near(const Priced *l, const SearchPrice *price) {
  return !l->brief && !fits(l, price) && price->peak <= NEAR * l->p->task->memory;
}

// Returns the price of the least share of the segments that fits, between none, which does not, and
// all.
static SearchPrice least_share(const Priced *l, const SearchPrice *none, const SearchPrice *all) {
  double memory = l->p->task->memory;
  SearchPrice price = price_between(none, all, (none->peak - memory) / (none->peak - all->peak));
  price.peak = memory; // rounded, it might be above
  return price;
}

// Sets *price, which fits, to that of the first of the levels for fewer kinds of values that fits.
static bool recompute_fewer_kinds(Priced *l, SearchPrice *price) {
  static const int levels[] = {AGAIN_PARAMETERS, AGAIN_CHEAP};
  for (size_t i = 0; i < countof(levels); i++) {
    SearchPrice fewer;
    if (!price_level(l, levels[i], &fewer)) return false;
    if (!fits(l, &fewer)) break;
    *price = fewer;
  }
  return true;
}

// Sets *price, that with all segments recomputed, which fits, to that of the least recomputation
// that fits: of kinds of values only or, where all kinds do not suffice, of some of the segments.
static bool recompute_less(Priced *l, SearchPrice *price) {
  SearchPrice kinds;
  if (!price_level(l, AGAIN_GATHERS, &kinds)) return false;
  bool fit = fits(l, &kinds);
  *price = fit ? kinds : least_share(l, &kinds, price);
  return !fit || recompute_fewer_kinds(l, price);
}

// Sets *price, that with all segments recomputed, which does not quite fit, to that of another
// level if it needs less memory: of cheap values and gathered parameters only, of all that was
// gathered, or, if these do not fit either, of all that can be recomputed.
static bool recompute_other(Priced *l, SearchPrice *price) {
  static const int levels[] = {AGAIN_PARAMETERS, AGAIN_GATHERS, AGAIN_ALL};
  for (size_t i = 0; i < countof(levels) && !fits(l, price); i++) {
    SearchPrice other;
    if (!price_level(l, levels[i], &other)) return false;
    other.again = levels[i] == AGAIN_ALL;
    if (other.peak < price->peak) *price = other;
  }
  return true;
}

// Sets *price to that of the least recomputation that fits, or of that which needs least memory.
// Full recomputation is priced first, because many layouts do not fit even then.
static bool recompute_some(Priced *l, SearchPrice *price) {
  if (!price_level(l, AGAIN_SEGMENTS, price)) return false;
  price->again = 1;
  if (fits(l, price)) return recompute_less(l, price);
  return !is_near(l, price) || recompute_other(l, price);
}

// As recompute_some. none: the price without recomputation, NULL: not known. Where that needs
// little more than the memory, recomputing cheap values is likely to be enough.
static bool recompute(Priced *l, const SearchPrice *none, SearchPrice *price) {
  SearchPrice again = {.peak = (double)INFINITY};
  bool near = none && none->peak <= NEAR * l->p->task->memory;
  if (near && !price_level(l, AGAIN_CHEAP, &again)) return false;
  if (!fits(l, &again) && !recompute_some(l, &again)) return false;
  *price = none && none->peak < again.peak ? *none : again;
  price->unlimited = none ? none->seconds : 0;
  price->unlimited_peak = none ? none->peak : 0;
  return true;
}

// Sets *price, which needs more than the memory, to that of the plain placement if this needs less
// memory. Leaves l->plain set.
static bool place_plainly(Priced *l, SearchPrice *price) {
  SearchPrice none, plain;
  l->plain = true;
  if (!price_level(l, 0, &none)) return false;
  plain = none;
  if (!fits(l, &none) && !recompute(l, &none, &plain)) return false;
  bool known = price->unlimited > 0;
  plain.unlimited = known ? price->unlimited : none.seconds;
  plain.unlimited_peak = known ? price->unlimited_peak : none.peak;
  if (plain.peak < price->peak) *price = plain;
  return true;
}

// Sets *price to that of a program that is compiled for the memory, in which it does not fit
// without recomputation. none: as in recompute.
static bool price_within(Priced *l, const SearchPrice *none, SearchPrice *price) {
  if (!recompute(l, none, price)) return false;
  return !is_near(l, price) || place_plainly(l, price);
}

// Sets *price, of a layout that is likely to need recomputation. Returns false if it cannot be
// compiled.
static bool price_over(Priced *l, SearchPrice *price) {
  SearchPrice none;
  if (!price_within(l, NULL, price)) return false;
  if (!fits(l, price) || price->again > 0) return true;
  l->plain = false;
  if (!price_level(l, 0, &none)) return false;
  if (fits(l, &none)) *price = none;
  return true;
}

bool price_may_recompute(const Pricer *p, SearchHint hint, const SearchPrice *none) {
  double memory = p->task->memory;
  bool slow = hint.enough > 0 && none->seconds > hint.enough;
  return !hint.as_is && none->peak > memory && none->peak <= HOPELESS * memory && !slow;
}

// Sets asked->over to the price of a layout that is likely to need recomputation.
static bool know_over(Priced *l, KnownPrice *asked) {
  if (asked->over.programs) return true;
  if (!price_over(l, &asked->over)) return false;
  asked->over.programs = l->programs;
  return true;
}

// Sets asked->none to the price without recomputation.
static bool know_none(Priced *l, KnownPrice *asked) {
  SearchPrice *none = &asked->none;
  if (none->programs) return true;
  if (!price_level(l, 0, none)) return false;
  none->unlimited = none->seconds;
  none->unlimited_peak = none->peak;
  none->programs = l->programs;
  return true;
}

// Sets asked->within to the price with recomputation where asked->none, which is known, does not
// fit.
static bool know_within(Priced *l, KnownPrice *asked) {
  if (asked->within.programs) return true;
  l->programs = asked->none.programs;
  asked->within = asked->none;
  asked->within.programs = 0;
  if (!price_within(l, &asked->none, &asked->within)) return false;
  asked->within.programs = l->programs;
  return true;
}

void price_forget_others(const SearchTask *t, KnownPrice *asked) {
  if (asked->memory != t->memory) asked->over = asked->within = (SearchPrice){0};
  asked->memory = t->memory;
}

// Returns the price of a layout, with recomputation where that is needed and may help, or NULL.
static const SearchPrice *price_priced(Priced *l, SearchHint hint, KnownPrice *asked) {
  if (hint.over && !hint.as_is) return know_over(l, asked) ? &asked->over : NULL;
  if (!know_none(l, asked)) return NULL;
  if (!price_may_recompute(l->p, hint, &asked->none)) return &asked->none;
  return know_within(l, asked) ? &asked->within : NULL;
}

const SearchPrice *price_know(const Pricer *p, const Mesh *mesh, const Layout *layout,
                              SearchHint hint, KnownPrice *asked) {
  Priced l = priced_begin(p, mesh, layout);
  l.brief = hint.brief;
  const SearchPrice *price = price_priced(&l, hint, asked);
  priced_end(&l);
  return price;
}

bool price_layout(void *with, const Mesh *mesh, const Layout *layout, SearchHint hint,
                  SearchPrice *out) {
  const Pricer *p = with;
  const SearchTask *t = p->task;
  KnownPrice own = {0}, *asked = &own;
  if (t->npriced == 1) return price_whole(p, mesh, layout, hint, out);
  if (p->asked) asked = price_known(p->asked, search_asked(t->npriced, t->priced, mesh, layout));
  price_forget_others(t, asked);
  if (p->asked) price_take_samples(p, asked);
  KnownPrice brief = *asked; // which is not kept
  const SearchPrice *price = price_know(p, mesh, layout, hint, hint.brief ? &brief : asked);
  if (price) *out = *price;
  return price != NULL;
}

double price_products(const void *with, int64_t processors) {
  Session s = *((const Pricer *)with)->s;
  Pricer ideal = *(const Pricer *)with;
  SearchPrice price;
  const Mesh one = {0};
  ideal.known = ideal.asked = NULL;
  s.known = NULL; // its programs are for this machine
  s.machine.half = s.machine.launch = 0;
  s.machine.memory_rate = s.machine.l3_rate = s.machine.l2_rate = (double)INFINITY;
  s.machine.cores = 0;
  ideal.s = &s;
  Priced l = priced_begin(&ideal, &one, &(Layout){0});
  bool good = price_level(&l, 0, &price);
  priced_end(&l);
  return good ? price.products / (double)processors : 0;
}
