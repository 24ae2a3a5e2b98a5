// Compiles the whole programs of the choices that a search has found, and compares them. Their
// prices come from short models, or from the whole model at another recompute level, so their order
// may be another one.
#include <math.h>

#include "frontend/driver/planner_internal.h"
#include "frontend/driver/price.h"

// Nodes of all whole programs together that are compiled. To find what to recompute takes about
// LEVELS_COMPILED programs.
enum { COMPILED_NODES = 40000, LEVELS_COMPILED = 10 };
// A step of several micro-batches whose program is more work than this is not compiled for its
// prediction: its price, from short models, counts.
enum { MOST_DIVIDED = 700000 };

bool planner_confirm(Session *s, const Selected *of, SearchChoice *c) {
  Foreseen f = {.choice = *c};
  Session divided;
  Selected whole = *of;
  if (c->price.final) return true;
  if (c->accumulate) {
    if (!planner_accumulated(s, c->accumulate, &divided) || !session_select(&divided, &whole))
      return false;
    s = &divided;
  }
  if (!foresee_step(s, &whole, &f)) return false;
  c->price = foreseen_price(&f);
  return true;
}

bool planner_better(const SearchTask *t, const SearchChoice *x, const SearchChoice *y) {
  bool fits = x->price.peak <= t->memory;
  if (fits != (y->price.peak <= t->memory)) return fits;
  if (!fits) return x->price.peak < y->price.peak;
  double more = x->price.seconds / y->price.seconds - 1;
  return fabs(more) < SEARCH_ALIKE ? x->layout.n < y->layout.n : more < 0;
}

// Sorts the choices, the best first.
static void sort_choices(const SearchTask *t, SearchResult *r) {
  for (uint32_t i = 1; i < r->n; i++) {
    SearchChoice c = r->at[i];
    uint32_t k = i;
    for (; k > 0 && planner_better(t, &c, &r->at[k - 1]); k--) r->at[k] = r->at[k - 1];
    r->at[k] = c;
  }
}

// Returns the work of compiling the whole program of a choice, in nodes.
static double whole_work(const Selected *of, const SearchChoice *c) {
  double parts = c->accumulate ? (double)c->accumulate : 1;
  return parts * graph_count(of->graph) * (c->price.again > 0 ? (double)LEVELS_COMPILED : 1);
}

bool planner_compiles(const Selected *of, const SearchChoice *c) {
  return !c->accumulate || whole_work(of, c) <= MOST_DIVIDED;
}

// A step of more micro-batches than MANY_PARTS, whose graph has more than LONG_NODES nodes, is not
// compiled whole where it needs no recomputation: programs with two and three of its micro-batches
// are compiled in less time. Short models must have said the same time, but for SAME: kernels of
// other numbers of micro-batches may differ.
enum { MANY_PARTS = 6, LONG_NODES = 30000 };
static const double SAME = 0.01;

bool planner_is_long(const Selected *of, const SearchChoice *c) {
  return c->accumulate > MANY_PARTS && c->price.again <= 0 && whole_work(of, c) > LONG_NODES;
}

// Sets the price of a choice to what programs with all rounds of loops, and with two and three of
// its micro-batches, say of the whole one. Returns false, and leaves the price, if that does not
// fit the memory or is not what short models said: then the whole program has to be compiled.
static bool confirm_long(Session *s, const Selected *of, const SearchTask *t, SearchChoice *c) {
  Session divided;
  SearchTask task = *t;
  Pricer p = {.s = &divided, .task = &task, .of = *of, .threads = session_threads(s)};
  SearchPrice price;
  if (!planner_accumulated(s, c->accumulate, &divided) || !planner_long_samples(&divided, &task) ||
      !price_layout(&p, c->mesh, &c->layout, (SearchHint){.as_is = true}, &price) ||
      price.peak > t->memory || fabs(price.seconds / c->price.seconds - 1) > SAME)
    return false;
  c->price = price;
  c->price.final = true;
  return true;
}

// Returns the first choice of a sorted result whose whole program is to be compiled and is not yet,
// or NULL.
static SearchChoice *first_open(const Selected *of, SearchResult *r) {
  for (uint32_t i = 0; i < r->n; i++)
    if (!r->at[i].price.final && planner_compiles(of, &r->at[i])) return &r->at[i];
  return NULL;
}

// Where no price fits the memory, or no program of the choices that were kept, the whole programs
// of so many layouts are tried; where no price fits, of those whose price needs at most so many
// times the memory.
enum { CONFIRMED = 3, NEARLY_FITS = 4 };

// Returns whether a priced layout is one of the choices that were kept.
static bool is_kept(const SearchResult *r, const SearchChoice *c) {
  for (const SearchChoice *k = r->at; k < r->at + r->n; k++)
    if (!k->accumulate && k->mesh == c->mesh && k->layout.rule == c->layout.rule &&
        k->layout.n == c->layout.n)
      return true;
  return false;
}

// Marks a priced choice, and those of equal price: most have equal programs.
static void mark(const SearchResult *r, const SearchChoice *c, bool *marked) {
  for (const SearchChoice *k = r->priced; k < r->priced + r->npriced; k++)
    marked[k - r->priced] |= k->mesh == c->mesh && k->price.seconds == c->price.seconds &&
                             k->price.peak == c->price.peak && k->price.sent == c->price.sent;
}

// Returns the best priced choice that is not marked, or NULL.
static const SearchChoice *next_best(const SearchTask *t, const SearchResult *r,
                                     const bool *marked) {
  const SearchChoice *best = NULL;
  for (const SearchChoice *c = r->priced; c < r->priced + r->npriced; c++)
    if (!marked[c - r->priced] && c->price.peak <= NEARLY_FITS * t->memory &&
        (!best || planner_better(t, c, best)))
      best = c;
  return best;
}

// Compiles the whole programs of the next layouts, where none of the choices that were kept fits
// although their prices do. Adds one that fits. Returns false after an error.
static bool confirm_others(Session *s, const Selected *of, const SearchTask *t, SearchResult *r) {
  bool *marked = arena_array(s->arena, bool, r->npriced + 1);
  const SearchChoice *next;
  for (uint32_t i = 0; i < r->npriced; i++)
    if (is_kept(r, &r->priced[i])) mark(r, &r->priced[i], marked);
  for (int i = 0; i < CONFIRMED && (next = next_best(t, r, marked)); i++) {
    SearchChoice c = *next;
    mark(r, next, marked);
    if (!planner_confirm(s, of, &c)) return false;
    if (planner_better(t, &c, &r->at[r->n - 1])) r->at[r->n - 1] = c;
    sort_choices(t, r);
    if (c.price.peak <= t->memory) return true;
  }
  return true;
}

static bool compare(Session *s, const Selected *of, const SearchTask *t, SearchResult *r) {
  double work = COMPILED_NODES;
  SearchChoice *c;
  while ((c = first_open(of, r)) && (c == r->at || work >= whole_work(of, c))) {
    work -= whole_work(of, c);
    if (!(planner_is_long(of, c) && confirm_long(s, of, t, c)) && !planner_confirm(s, of, c))
      return false;
    sort_choices(t, r);
  }
  if (r->at[0].price.peak > t->memory && !confirm_others(s, of, t, r)) return false;
  return r->at[0].price.peak <= t->memory || planner_too_large(s, t, &r->at[0], false);
}

bool planner_compare(Session *s, const Selected *of, const SearchTask *t, SearchResult *r) {
  bool good = compare(s, of, t, r);
  s->known = NULL; // later programs of the session may have other products
  return good;
}

// Returns the priced choice that comes after `last` (NULL: the first one) in the order of their
// peaks, the lowest first. NULL: there is none.
static const SearchChoice *next_smallest(const SearchResult *r, const SearchChoice *last) {
  const SearchChoice *best = NULL;
  for (const SearchChoice *c = r->priced; c < r->priced + r->npriced; c++) {
    double peak = c->price.peak;
    bool after = !last || peak > last->price.peak || (peak == last->price.peak && c > last);
    if (after && (!best || peak < best->price.peak)) best = c;
  }
  return best;
}

bool planner_confirm_smallest(Session *s, const SearchTask *t, SearchResult *r) {
  const Selected *of = planner_selected(t);
  const SearchChoice *next = NULL;
  r->at = arena_array(s->arena, SearchChoice, CONFIRMED);
  for (int i = 0; i < CONFIRMED && (next = next_smallest(r, next)); i++) {
    SearchChoice c = *next;
    if (c.price.peak > NEARLY_FITS * t->memory) break;
    if (!planner_confirm(s, of, &c)) return false;
    if (c.price.peak <= t->memory)
      r->at[r->n++] = c;
    else if (c.price.peak < r->smallest.price.peak)
      r->smallest = c;
  }
  sort_choices(t, r);
  return true;
}
