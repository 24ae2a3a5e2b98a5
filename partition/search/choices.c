// The table of the choices that the joint search has come to, with their estimates and prices.
#include <math.h>
#include <string.h>

#include "ir/base/hash.h"
#include "ir/base/jobs.h"
#include "partition/search/choices_internal.h"

// A layout that does not fit the memory, and without recomputation takes so many times as long as
// the best one, is not priced with recomputation.
static const double SLOWER = 1.2;
// Recomputing the whole forward pass takes about a third of the time of a step.
static const double FORWARD = 1.0 / 3;

enum {
  SLOTS = 2 * JOINT_MOST, // of the hash table
  // An estimate places and lowers a sample; a price also compiles and simulates it, which takes
  // this many times as long. To place a layout as for a price takes more than an estimate.
  ESTIMATES_A_PRICE = 12,
  PLACEMENTS_A_PRICE = 4,
  // Work for each doubling of the number of processors, in nodes that are compiled: about 25
  // microseconds each.
  WORK_A_DOUBLING = 18000,
  QUICK = 300 // a search whose work suffices for so many prices takes a second or two
};

// -- layouts --------------------------------------------------------------------------------------

static bool same_text(const char *x, const char *y) {
  return x == y || (x && y && strcmp(x, y) == 0);
}

static bool same_target(const LayoutRule *x, const LayoutRule *y) {
  return x->scope == y->scope && x->soft == y->soft && same_text(x->dim, y->dim) &&
         same_text(x->pattern, y->pattern);
}

Axes joint_axes(const Layout *l, const LayoutRule *rule) {
  for (uint32_t i = 0; i < l->n; i++)
    if (same_target(&l->rule[i], rule)) return l->rule[i].axes;
  return (Axes){0};
}

static uint32_t dim_number(const Space *s, const char *name) {
  uint32_t d = 0;
  while (d < s->ndims && !same_text(s->dim[d]->name, name)) d++;
  return d;
}

// Returns a number by which rules are sorted: dims, soft rules, kinds of tensors, patterns.
static uint32_t place_of(const Space *s, const LayoutRule *r) {
  static const uint32_t scope[] = {[LAYOUT_ALL] = 0,
                                   [LAYOUT_PARAMETERS] = 2,
                                   [LAYOUT_GRADIENTS] = 3,
                                   [LAYOUT_OPTIMIZER] = 4,
                                   [LAYOUT_TENSOR] = 5};
  return (scope[r->scope] + r->soft) * (MAX_DIMS + 2) + dim_number(s, r->dim);
}

static void insert_rule(const Space *s, Layout *l, const LayoutRule *r) {
  uint32_t i = l->n++;
  for (; i > 0 && place_of(s, &l->rule[i - 1]) > place_of(s, r); i--) l->rule[i] = l->rule[i - 1];
  l->rule[i] = *r;
}

static Axes without(Axes of, Axes taken) {
  Axes left = {0};
  for (int i = 0; i < of.n; i++)
    if (!axes_has(taken, of.at[i])) left.at[left.n++] = of.at[i];
  return left;
}

static bool clashes(const Space *s, const LayoutRule *x, const LayoutRule *y) {
  if (x->scope != LAYOUT_ALL || y->scope != LAYOUT_ALL || x->soft || y->soft) return false;
  uint32_t i = dim_number(s, x->dim), k = dim_number(s, y->dim);
  return i < s->ndims && k < s->ndims && s->clash[i] >> k & 1;
}

Layout joint_with(const Joint *j, Arena *a, const Layout *from, const LayoutRule *rule) {
  Layout out = {.rule = arena_array(a, LayoutRule, from->n + 1)};
  for (uint32_t i = 0; i < from->n; i++) {
    LayoutRule r = from->rule[i];
    if (same_target(&r, rule)) continue;
    if (clashes(&j->space, &r, rule)) r.axes = without(r.axes, rule->axes);
    if (r.axes.n || r.none) insert_rule(&j->space, &out, &r);
  }
  if (rule->axes.n) insert_rule(&j->space, &out, rule);
  return out;
}

static const char *key_of(const Joint *j, Arena *a, const Mesh *mesh, const Layout *l) {
  Layout sorted = {.rule = arena_array(a, LayoutRule, l->n + 1)};
  for (uint32_t i = 0; i < l->n; i++) insert_rule(&j->space, &sorted, &l->rule[i]);
  return arena_printf(a, "%s %s", mesh_option(a, mesh), layout_option(a, mesh, &sorted));
}

static bool is_allowed(const Joint *j, Arena *a, const Mesh *mesh, const Layout *l) {
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t d = dim_number(&j->space, l->rule[i].dim);
    if (d < j->space.ndims && axes_size(mesh, l->rule[i].axes) > j->space.dim[d]->size)
      return false;
  }
  Graph g = layout_apply(a, j->task->model, mesh, l);
  return layout_check(&g, l, diag_new(a));
}

Axes joint_splitting(const Mesh *m) {
  Axes out = {0};
  for (int k = 0; k < m->naxes; k++)
    if (m->axis[k].size > 1) out.at[out.n++] = (uint8_t)k;
  return out;
}

// -- useful dims ----------------------------------------------------------------------------------

static bool changes(const LayoutCost *x, const LayoutCost *y) {
  return x->flops != y->flops || x->traffic != y->traffic || x->memory != y->memory;
}

// Returns whether the dim is in a declaration or a contraction. Splits of others, such as the
// halves that rotary positions turn, hardly divide any work.
static bool is_substantial(const SearchTask *t, const Dim *dim) {
  const Graph *g = t->model;
  bool found = false;
  for (uint32_t i = 0; i < g->decl.n; i++)
    for (int k = 0; k < g->decl.at[i].rank; k++)
      found |= dim_get(g->dims, g->decl.at[i].dims[k]) == dim;
  for (uint32_t i = 0; i < t->nsamples && !found; i++)
    for (NodeId n = 1; n <= graph_count(t->sample[i].graph) && !found; n++) {
      const Node *x = graph_node(t->sample[i].graph, n);
      const DimTable *dims = t->sample[i].graph->dims;
      for (int k = 0; k < x->dims->n && x->op == OP_CONTRACT; k++)
        found |= !strcmp(dim_get(dims, x->dims->at[k])->name, dim->name);
      for (int k = 0; k < x->attr->ndims && x->op == OP_CONTRACT; k++)
        found |= !strcmp(dim_get(dims, x->attr->dims[k])->name, dim->name);
    }
  return found;
}

// Finds the dims whose split over two processors changes the work or the memory of one.
static void find_useful(Joint *j) {
  const Mesh two = {.naxes = 1, .axis = {{.name = "axis", .size = 2}}};
  LayoutCost none = search_cost(j->task, &two, &(Layout){0});
  for (uint32_t d = 0; d < j->space.ndims; d++)
    for (int soft = 0; soft < 2 && is_substantial(j->task, j->space.dim[d]); soft++) {
      LayoutRule rule = {.dim = j->space.dim[d]->name, .soft = soft, .axes = {1, {0}}};
      LayoutCost split = search_cost(j->task, &two, &(Layout){1, &rule});
      if (changes(&split, &none)) *(soft ? &j->useful_soft : &j->useful) |= (DimSet)1 << d;
    }
}

// -- the table ------------------------------------------------------------------------------------

void joint_new(Joint *j, Arena *a, const SearchTask *t, SearchResult *r) {
  *j = (Joint){.task = t, .a = a, .result = r};
  space_dims(&j->space, a, t);
  space_sets(&j->space);
  j->slot = arena_array(a, Tried *, SLOTS);
  j->alike = arena_array(a, Tried *, SLOTS);
  for (uint32_t i = 0; i < t->npriced; i++) j->nodes += (double)graph_count(t->priced[i].graph);
  for (int64_t n = mesh_size(t->mesh); n > 0; n /= 2) j->work += WORK_A_DOUBLING;
  j->quick = j->work >= QUICK * j->nodes;
  find_useful(j);
}

const LayoutScope joint_stages[STAGES] = {LAYOUT_OPTIMIZER, LAYOUT_GRADIENTS, LAYOUT_PARAMETERS};

void joint_enter(Joint *j, const Mesh *mesh, const Layout *layout, uint8_t family, TriedList *out) {
  Arena *scratch = arena_new();
  const char *key = key_of(j, scratch, mesh, layout);
  uint32_t at = (uint32_t)(fnv_text(key) >> 40) % SLOTS;
  while (j->slot[at] && strcmp(j->slot[at]->key, key)) at = (at + 1) % SLOTS;
  if (!j->slot[at] && j->all.n < JOINT_MOST && is_allowed(j, scratch, mesh, layout)) {
    Tried *c = j->slot[at] = arena_new_of(j->a, Tried);
    *c = (Tried){.key = arena_text(j->a, key, strlen(key)), .family = family};
    c->choice = (SearchChoice){.mesh = mesh, .layout.n = layout->n};
    if (layout->n)
      c->choice.layout.rule = arena_copy(j->a, layout->rule, layout->n * sizeof *layout->rule);
    vec_push(j->a, j->all) = c;
    vec_push(j->a, *out) = c;
  }
  arena_free(scratch);
}

// -- estimates and prices -------------------------------------------------------------------------

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
  uint32_t at = (uint32_t)(c->asked >> 40) % SLOTS;
  while (j->alike[at] && j->alike[at]->asked != c->asked) at = (at + 1) % SLOTS;
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

// The estimate of a choice, computed beside others.
typedef struct AheadJob {
  Job job;
  const SearchTask *task;
  Tried *c;
} AheadJob;

static void estimate_ahead(void *job) {
  const AheadJob *x = job;
  x->c->choice.cost = search_cost(x->task, x->c->choice.mesh, &x->c->choice.layout);
}

void joint_look_ahead(Joint *j, const TriedList *list) {
  Arena *a = arena_new();
  Jobs *jobs = jobs_new(a, j->task->threads);
  double left = j->work;
  for (uint32_t i = 0; i < list->n && left > 0; i++) {
    Tried *c = list->at[i];
    if (c->estimated || c->ahead || first_alike(j, c) != c) continue;
    AheadJob *x = arena_new_of(a, AheadJob);
    *x = (AheadJob){{estimate_ahead, x, NULL}, j->task, c};
    jobs_add(jobs, &x->job);
    c->ahead = true;
    left -= joint_estimates(j, 1);
  }
  jobs_run(jobs);
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

void joint_preview(Joint *j, Tried *c) {
  const SearchTask *t = j->task;
  SearchPrice *price = &c->choice.price;
  if (c->priced || c->impossible || c->previewed || !joint_spend(j, j->nodes)) return;
  if (!t->price(t->pricer, c->choice.mesh, &c->choice.layout, (SearchHint){.as_is = true}, price))
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
