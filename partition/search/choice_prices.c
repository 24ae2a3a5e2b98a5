// The estimates and the prices of the choices that the joint search has come to, within its limit
// of work.
#include <math.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/choices_internal.h"
#include "partition/search/estimates_internal.h"

// A layout that does not fit the memory, and without recomputation takes so many times as long as
// the best one, is not priced with recomputation.
static const double SLOWER = 1.2;
// Recomputing the whole forward pass takes about a third of the time of a step.
static const double FORWARD = 1.0 / 3;

enum {
  // An estimate places and lowers a sample; a price also compiles and simulates it, which takes
  // this many times as long. To place a layout as for a price takes more than an estimate.
  ESTIMATES_A_PRICE = 12,
  PLACEMENTS_A_PRICE = 4,
  // Prices that are computed at once: for each thread, together, and the nodes of their programs.
  EACH = 4,
  AT_ONCE = 64,
  NODES_AT_ONCE = 40000
};

// -- work and estimates -----------------------------------------------------------------------------

bool joint_spend(Joint *j, double work) {
  if (j->work < work) return false;
  j->work -= work;
  return true;
}

double joint_estimates(const Joint *j, double n) { return n * j->nodes / ESTIMATES_A_PRICE; }

uint64_t search_asked(uint32_t n, const SearchSample *sample, const Mesh *mesh,
                      const Layout *layout) {
  uint64_t h = FNV_START;
  for (int k = 0; k < mesh->naxes; k++)
    h = hash_word(h ^ fnv_text(mesh->axis[k].name), (uint64_t)mesh->axis[k].size);
  for (uint32_t i = 0; i < n; i++) {
    Graph g = *sample[i].graph;
    g.mesh = mesh;
    h = hash_word(h, place_asked(sample[i].known, &g, layout));
  }
  return h;
}

// Returns the first choice that was estimated and asks the same of all values: c itself, if there
// is none.
static Tried *first_alike(Joint *j, Tried *c) {
  const SearchTask *t = j->task;
  c->asked = search_asked(t->nsamples, t->sample, c->choice.mesh, &c->choice.layout);
  uint32_t at = (uint32_t)(c->asked >> 40) % JOINT_SLOTS;
  while (j->alike[at] && j->alike[at]->asked != c->asked) at = (at + 1) % JOINT_SLOTS;
  if (!j->alike[at]) j->alike[at] = c;
  return j->alike[at];
}

// Sets by what a choice is sorted. Those that are estimated to need more than the memory come last,
// but for a lean search, which counts the square of what they lack: estimates of memory are too low
// for all choices where none of those fits that were estimated to.
static void set_order(const Joint *j, Tried *c) {
  const LayoutCost *cost = &c->choice.cost;
  double times = j->task->lean ? fmax(cost->memory / j->task->memory, 1) : 1;
  c->over = cost->memory > j->task->memory;
  c->late = c->over && !j->task->lean;
  c->order = cost->seconds * times * times;
}

void joint_look_ahead(Joint *j, const TriedList *list) {
  Arena *a = arena_new();
  Estimate *of = arena_array(a, Estimate, list->n + 1);
  Tried **from = arena_array(a, Tried *, list->n + 1);
  double left = j->work;
  uint32_t n = 0;
  for (uint32_t i = 0; i < list->n && left > 0; i++) {
    Tried *c = list->at[i];
    if (c->estimated || c->ahead || first_alike(j, c) != c) continue;
    c->ahead = true;
    from[n] = c;
    of[n++] = (Estimate){.mesh = c->choice.mesh, .layout = &c->choice.layout};
    left -= joint_estimates(j, 1);
  }
  estimate_all(j->task, n, of);
  for (uint32_t i = 0; i < n; i++) from[i]->choice.cost = of[i].cost;
  arena_free(a);
}

// A choice that asks what another one did takes its estimate. Only where all choices are priced
// does that take no work of the search: else a search would go the further, the more of its rules
// change nothing.
bool joint_estimate(Joint *j, Tried *c) {
  if (c->estimated) return true;
  const Tried *alike = first_alike(j, c);
  bool taken = j->every && alike->estimated;
  if (!taken && !joint_spend(j, joint_estimates(j, 1))) return false;
  if (alike->estimated)
    c->choice.cost = alike->choice.cost;
  else if (!c->ahead)
    c->choice.cost = search_cost(j->task, c->choice.mesh, &c->choice.layout);
  set_order(j, c);
  c->estimated = true;
  j->result->estimated++;
  return true;
}

// -- prices -----------------------------------------------------------------------------------------

double search_work(const SearchPrice *p) {
  if (p->asked) return 0;
  return p->programs ? p->programs : 1.0 / PLACEMENTS_A_PRICE;
}

double search_unlimited(const SearchPrice *p) {
  return p->unlimited > 0 ? p->unlimited : p->seconds / (1 + FORWARD * p->again);
}

// Notes that a choice has its price, or that it cannot be compiled.
static void note_price(Joint *j, Tried *c) {
  const SearchTask *t = j->task;
  j->result->npriced++;
  if (c->priced && !joint_fits(j, c)) j->result->over_memory++;
  if (c->priced && joint_fits(j, c) && (!j->best || joint_better(j, c, j->best))) j->best = c;
  if (t->progress) t->progress(t->watcher, j->result->npriced, j->best ? &j->best->choice : NULL);
}

double joint_enough(const Joint *j) {
  return j->best && !j->every ? SLOWER * j->best->choice.price.seconds : 0;
}

static SearchHint hint_of(const Joint *j, const Tried *c) {
  bool brief = j->task->lean && !j->best;
  return (SearchHint){.enough = joint_enough(j), .over = c->over || c->previewed, .brief = brief};
}

static SearchHint as_is(void) { return (SearchHint){.as_is = true}; }

// Returns how many prices are computed at once: several for each thread, because some take longer
// than others, as far as memory for their programs suffices.
static uint32_t most_ahead(const Joint *j) {
  uint32_t most = EACH * (uint32_t)j->task->threads, fit = (uint32_t)(NODES_AT_ONCE / j->nodes);
  if (j->task->threads < 2 || !j->task->ahead) return 0;
  return most < fit && most < AT_ONCE ? most : fit < AT_ONCE ? fit : AT_ONCE;
}

uint32_t joint_ahead(Joint *j, const TriedList *list, uint32_t i, double left, bool preview) {
  const SearchTask *t = j->task;
  SearchAsk ask[AT_ONCE];
  uint32_t n = 0, most = most_ahead(j);
  double work = j->work; // that is left if each price takes a program
  for (; i < list->n && n < most && work > left && work >= j->nodes; i++) {
    const Tried *c = list->at[i];
    if (c->priced || c->impossible || (preview && c->previewed)) continue;
    ask[n++] = (SearchAsk){c->choice.mesh, &c->choice.layout, preview ? as_is() : hint_of(j, c)};
    work -= j->nodes;
  }
  if (n > 1) t->ahead(t->pricer, n, ask);
  return i;
}

void joint_preview(Joint *j, Tried *c) {
  const SearchTask *t = j->task;
  SearchPrice *price = &c->choice.price;
  if (c->priced || c->impossible || c->previewed || !joint_spend(j, j->nodes)) return;
  if (!t->price(t->pricer, c->choice.mesh, &c->choice.layout, as_is(), price))
    c->impossible = true;
  else if (price->peak <= t->memory)
    c->priced = true;
  else
    c->previewed = true;
  if (!c->impossible) j->work += j->nodes * (1 - search_work(price));
  if (c->priced) note_price(j, c);
}

void joint_take_preview(Joint *j, Tried *c) {
  c->priced = true;
  note_price(j, c);
}

// Returns whether a choice that does not fit without recomputation takes far longer than the best
// one already so, where all choices are being priced in the order of their estimates. In a space
// without estimates, which is small, all have prices.
static bool is_far_slower(const Joint *j, const Tried *c) {
  return j->every && c->estimated && c->previewed && j->best &&
         c->choice.price.unlimited > SLOWER * j->best->choice.price.seconds;
}

bool joint_price(Joint *j, Tried *c) {
  const SearchTask *t = j->task;
  SearchPrice preview = c->choice.price;
  if (c->priced || c->impossible) return true;
  if (is_far_slower(j, c)) return true;
  if (!joint_spend(j, j->nodes) && j->result->npriced > 0) return false;
  c->priced =
      t->price(t->pricer, c->choice.mesh, &c->choice.layout, hint_of(j, c), &c->choice.price);
  if (c->previewed) {
    c->choice.price.unlimited = preview.unlimited;
    c->choice.price.unlimited_peak = preview.unlimited_peak;
  }
  c->impossible = !c->priced;
  if (c->priced) j->work += j->nodes * (1 - search_work(&c->choice.price));
  note_price(j, c);
  return true;
}

bool joint_fits(const Joint *j, const Tried *c) { return c->choice.price.peak <= j->task->memory; }

static uint32_t soft_rules(const Layout *l) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n; i++) n += l->rule[i].soft;
  return n;
}

bool joint_better(const Joint *j, const Tried *x, const Tried *y) {
  const SearchPrice *p = &x->choice.price, *q = &y->choice.price;
  bool fits = joint_fits(j, x);
  if (fits != joint_fits(j, y)) return fits;
  if (fits && p->seconds != q->seconds) return p->seconds < q->seconds;
  if (p->peak != q->peak) return p->peak < q->peak;
  if (x->choice.layout.n != y->choice.layout.n) return x->choice.layout.n < y->choice.layout.n;
  uint32_t m = soft_rules(&x->choice.layout), n = soft_rules(&y->choice.layout);
  return m != n ? m < n : strcmp(x->key, y->key) < 0;
}
