// Sets up the search for a layout from a session, and compiles and compares the layouts that it
// finds. Input: a loaded session. Output: see planner.h.
//
// To keep the search fast, it works on models with short loops: twelve layers cost as much as one,
// plus eleven times the difference between two layers and one. Such a model with its factor is a
// SearchSample; the cost of a layout is the sum of its costs on all samples, each times its factor.
// There is one sample with a short round of every loop, and one more for each loop, in which that
// loop has one round more. Estimates take one round and two; prices three and four, because the
// first round and the last one compile to other code than those between. Prices take the whole
// model where that has no more nodes than the samples together.
//
// A step of n > 2 micro-batches costs as much as one of two, plus n - 2 times what a third one
// adds: there is each of these samples with two of the micro-batches and with three. The memory of
// a program is that with three. Estimates take one and two, and the memory of one: they add what is
// kept for gradients.
#include <math.h>
#include <string.h>

#include "frontend/driver/foresee.h"
#include "frontend/driver/planner.h"
#include "frontend/driver/price.h"
#include "frontend/driver/progress.h"

// What build_variant needs to build a model with short loops, in which most loops have a single
// round.
typedef struct Variant {
  Session *s;
  const Ast *file;  // the model file, with the contents of its imports in it
  ShortLoops loops; // model_build reads the loop with two rounds and lists all loops here
} Variant;

// Returns the model's graph whose dims are those of the selected graph: with micro-batches a
// training step has the dims of one of them.
static const Graph *searched_model(const Model *m, const Selected *of) {
  bool parts = m->part && !m->graph->spec.train[0].sync && !strcmp(of->purpose, "train");
  return parts ? m->part->graph : m->graph;
}

// Builds the model with v->loops.rounds rounds (iterations) of every loop, but one more of `longer`
// (the Ast of a loop, or NULL), and with `parts` of its micro-batches (0: all). Returns its
// simplified graph, and sets *model to its graph before selection. Returns NULL if the model cannot
// be built with such short loops.
static const Graph *build_variant(Variant *v, const Ast *longer, int64_t parts,
                                  const Graph **model) {
  Session s = *v->s;
  ModelOptions options = s.options;
  Selected of;
  Compilation c;
  s.diag = diag_new(s.arena); // errors of the short model are not shown
  options.no_layout = true;
  options.shorten = &v->loops;
  v->loops.longer = longer;
  v->loops.parts = parts;
  s.model = model_build(s.arena, s.names, s.diag, v->file, &options);
  if (!s.model || (train_counts_epochs(s.model) && !train_resolve_epochs(s.model, 1))) return NULL;
  if (!session_make(&s, "simplify", &of, &c)) return NULL;
  *model = searched_model(s.model, &of);
  return c.simplified;
}

// A part of the samples: those with `parts` of the micro-batches (0: all), and by what their
// weights are multiplied.
typedef struct Share {
  int64_t parts;
  double weight, memory;
} Share;
enum { SHARES = 2 };

// Sets out[0..] to the shares of a step of n micro-batches, and returns their number. priced: of
// samples for prices, else for estimates.
static int find_shares(int64_t n, bool priced, Share out[SHARES]) {
  if (n < 2) return out[0] = (Share){0, 1, 1}, 1;
  int64_t few = priced ? 2 : 1;
  out[0] = (Share){few, (double)(few + 1 - n), 1};
  if (n <= few) return 1;
  out[1] = (Share){few + 1, (double)(n - few), priced};
  out[0].memory = !priced;
  return 2;
}

typedef VEC(SearchSample) SampleList;

// Appends the samples of one share to *list. Returns false if a model cannot be built with short
// loops.
static bool add_samples(Variant *v, const Share *share, SampleList *list, const Graph **model) {
  Arena *a = v->s->arena;
  const Graph *other;
  const Graph *g = build_variant(v, NULL, share->parts, model);
  uint32_t loops = v->loops.loop.n, first = list->n;
  double rest = 1;
  vec_push(a, *list) = (SearchSample){.graph = g};
  for (uint32_t i = 0; i < loops; i++) {
    const ShortLoop *l = &v->loops.loop.at[i];
    double more = (double)(l->rounds - v->loops.rounds);
    const Graph *longer = g ? build_variant(v, l->loop, share->parts, &other) : NULL;
    if (!longer) return false;
    rest -= more;
    vec_push(a, *list) = (SearchSample){
        .graph = longer, .weight = share->weight * more, .memory = share->memory * more};
  }
  list->at[first].weight = share->weight * rest;
  list->at[first].memory = share->memory * rest;
  return g && !v->loops.mixed && v->loops.loop.n == loops;
}

// Sets *samples to models of short loops, `rounds` of each, and *n to their number. *model gets the
// first of them before gradients. Returns false if the rounds (iterations) of a loop are not alike,
// or if the model cannot be built with short loops.
static bool short_samples(Variant *v, int64_t rounds, bool priced, uint32_t *n,
                          const SearchSample **samples, const Graph **model) {
  SampleList list = {0};
  Share share[SHARES];
  const TrainSpec *train = v->s->model->graph->spec.train;
  bool trains = v->s->model->part && !train[0].sync;
  int shares = find_shares(trains ? train[0].accumulate : 1, priced, share);
  v->loops = (ShortLoops){.rounds = rounds};
  for (int i = 0; i < shares; i++)
    if (!add_samples(v, &share[i], &list, model)) return false;
  for (uint32_t i = 0; i < list.n; i++)
    list.at[i].known = place_graph(v->s->arena, list.at[i].graph);
  *samples = list.at;
  *n = list.n;
  return true;
}

// Returns the graph of the whole model as a sample of weight 1, or NULL after an error. *model gets
// its graph before gradients.
static const SearchSample *whole_sample(Session *s, const Graph **model) {
  Selected of;
  Compilation c;
  SearchSample *sample = arena_new_of(s->arena, SearchSample);
  if (!session_make(s, "simplify", &of, &c)) return NULL;
  *model = searched_model(s->model, &of);
  *sample = (SearchSample){c.simplified, place_graph(s->arena, c.simplified), 1, 1};
  return sample;
}

// A step of several micro-batches with so few nodes is compiled whole for each price: short models
// would save little, and what is extrapolated from them is not exact.
enum { FEW_NODES = 1000 };

// Returns whether the samples together have fewer nodes than the whole model, and that has more
// than `few`.
static bool are_shorter(uint32_t n, const SearchSample *sample, double few) {
  double whole = 0, together = 0;
  for (uint32_t i = 0; i < n; i++) {
    double nodes = (double)graph_count(sample[i].graph);
    together += nodes;
    whole += sample[i].weight * nodes;
  }
  return together < whole && whole > few;
}

// -- meshes -------------------------------------------------------------------------------------

enum { SEARCHED_AXES = 3 };

// Sets `names` to the axes of the model's mesh that its pins (layout(...) in the model) name, in
// the order of the mesh. Returns their number.
static int pinned_axes(const Session *s, const char *names[MAX_AXES]) {
  const Graph *g = s->model->graph;
  int n = 0;
  for (int k = 0; k < g->mesh->naxes; k++)
    if (axis_is_pinned(g, k)) names[n++] = g->mesh->axis[k].name;
  return n;
}

// Returns a mesh of one processor, whose axes are those that pins (layout(...) in the model) name.
// A pin of an axis that the mesh does not have would be an error.
static const Mesh *mesh_of_one(Session *s, int npinned, const char *const names[]) {
  Mesh *m = arena_new_of(s->arena, Mesh);
  *m = (Mesh){.naxes = (uint8_t)(npinned ? npinned : 1)};
  for (int k = 0; k < m->naxes; k++)
    m->axis[k] = (MeshAxis){.name = npinned ? names[k] : intern(s->names, "rows"), .size = 1};
  return m;
}

static void no_mesh_for_pins(Session *s, int64_t processors, int npinned,
                             const char *const names[]) {
  const char *list = "";
  for (int k = 0; k < npinned; k++)
    list = arena_printf(s->arena, "%s%s'%s'", list, k ? ", " : "", names[k]);
  diag_error(
      s->diag, DIAG_BAD_LAYOUT, (Pos){0},
      "no mesh of %lld processor%s with at most %d axes has all axes that layout(...) names: %s",
      (long long)processors, plural(processors), SEARCHED_AXES, list);
  diag_hint(s->diag, "give the mesh with --mesh, or name fewer axes in layout(...)");
}

// Sets *mesh to the meshes to search. Their first axes get the names that pins (layout(...) in the
// model) use. Meshes with fewer axes than such names are dropped.
bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh) {
  static const char *const usual[SEARCHED_AXES] = {"rows", "cols", "deep"};
  const char *names[MAX_AXES + SEARCHED_AXES];
  int npinned = pinned_axes(s, names), nnames = npinned;
  *n = 1;
  *mesh = processors == 1 ? mesh_of_one(s, npinned, names) : &s->model->mesh;
  if (processors <= 1) return true;
  for (int k = 0; k < SEARCHED_AXES; k++) {
    bool taken = false;
    for (int i = 0; i < npinned; i++) taken |= !strcmp(names[i], usual[k]);
    if (!taken) names[nnames++] = usual[k];
  }
  const Mesh *all;
  uint32_t nall =
      search_meshes(s->arena, processors, names, s->machine.naxes > 0 || npinned > 0, &all);
  Mesh *kept = arena_array(s->arena, Mesh, nall + 1);
  *mesh = kept;
  *n = 0;
  for (uint32_t i = 0; i < nall; i++)
    if (all[i].naxes >= npinned) kept[(*n)++] = all[i];
  if (!*n) no_mesh_for_pins(s, processors, npinned, names);
  return *n > 0;
}

bool planner_prices(Session *s, const Selected *of, SearchTask *out) {
  Variant v = {
      .s = s, .file = imports_resolve(s->arena, s->names, s->diag, s->ast, s->opt->argument.at[0])};
  Pricer *p = arena_new_of(s->arena, Pricer);
  const Graph *model;
  *p =
      (Pricer){.s = s, .task = out, .asked = price_table(s->arena), .known = price_table(s->arena)};
  out->price = price_layout;
  out->pricer = p;
  if (of) p->of = *of;
  if (!v.file || (!of && !session_select(s, &p->of))) return false;
  if (short_samples(&v, 3, true, &out->npriced, &out->priced, &model) &&
      are_shorter(out->npriced, out->priced, s->model->part ? FEW_NODES : 0))
    return true;
  out->npriced = 1;
  out->priced = whole_sample(s, &model);
  return out->priced != NULL;
}

const Selected *planner_selected(const SearchTask *t) { return &((const Pricer *)t->pricer)->of; }

bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep, SearchTask *out) {
  Variant v = {
      .s = s, .file = imports_resolve(s->arena, s->names, s->diag, s->ast, s->opt->argument.at[0])};
  const char *names[MAX_AXES];
  *out = (SearchTask){.machine = &s->machine, .nmeshes = nmeshes, .mesh = mesh, .keep = keep};
  out->named_axes = s->machine.naxes > 0 || pinned_axes(s, names) > 0;
  if (!v.file || !session_memory(s, &out->memory)) return false;
  if (short_samples(&v, 1, false, &out->nsamples, &out->sample, &out->model)) return true;
  out->nsamples = 1;
  out->sample = whole_sample(s, &out->model);
  return out->sample != NULL;
}

// -- the search ---------------------------------------------------------------------------------

// Nodes of all whole programs together that are compiled. To find what to recompute takes about
// LEVELS_COMPILED programs.
enum { COMPILED_NODES = 40000, LEVELS_COMPILED = 10 };
// A step of several micro-batches whose program is more work than this is not compiled for its
// prediction: its price, from short models, counts.
enum { MOST_DIVIDED = 700000 };

// Reports that no layout fits. least: the one that needs the least memory. all: every layout was
// priced, and none of them with other micro-batches.
static bool say_too_large(Session *s, const SearchTask *t, const SearchChoice *least, bool all) {
  diag_error(s->diag, DIAG_NO_MEMORY, (Pos){0},
             "no layout was found that needs at most %s a processor",
             bytes_text(s->arena, (int64_t)t->memory));
  if (!least->mesh) return diag_hint(s->diag, "no layout that was tried can be compiled");
  const char *divided = least->accumulate ? arena_printf(s->arena, " --set train.accumulate=%lld",
                                                         (long long)least->accumulate)
                                          : "";
  return diag_hint(s->diag,
                   "the smallest that was found needs %s: --mesh %s --layout %s%s; give a larger "
                   "mesh, or more --memory; %s",
                   bytes_text(s->arena, (int64_t)least->price.peak),
                   mesh_option(s->arena, least->mesh),
                   layout_option(s->arena, least->mesh, &least->layout), divided,
                   all ? "every layout was tried" : "not every layout was tried");
}

// Returns whether no price needed recomputation whose cost is interpolated or extrapolated. Such a
// price may differ by some percent from the prediction for the whole program.
static bool prices_prove(const SearchTask *t, const SearchResult *r) {
  for (uint32_t i = 0; i < r->npriced; i++) {
    const SearchPrice *p = &r->priced[i].price;
    if (p->again > 0 || (t->npriced > 1 && p->programs > 1)) return false;
  }
  return true;
}

// What a search shows while it runs: on a terminal a line of progress, with -v a line for each
// layout that is the best so far. An answer is shown only of searches that take long.
typedef struct Watch {
  Progress progress;
  Session *s;
  double answer;            // time from which answers are shown, in seconds of clock_seconds
  const SearchChoice *last; // the last one for which -v has printed a line
} Watch;

enum { ANSWER_AFTER = 2 }; // seconds

// Returns the mesh, the layout and the time of a choice as text.
static const char *answer_text(Session *s, const SearchChoice *c) {
  return arena_printf(s->arena, "--mesh %s --layout %s, %s", mesh_option(s->arena, c->mesh),
                      layout_option(s->arena, c->mesh, &c->layout),
                      seconds_text(s->arena, c->price.seconds));
}

static void show_priced(void *watcher, uint64_t n, const SearchChoice *best) {
  Watch *w = watcher;
  bool answers = best && clock_seconds() >= w->answer;
  ArenaMark mark = arena_mark(w->s->arena);
  if (answers && best != w->last && option_given(w->s->opt, OPTION_VERBOSE) &&
      session_remarks(w->s)) {
    progress_clear(&w->progress);
    fprintf(stderr, "meshc: %llu layouts priced, the best so far: %s\n", (unsigned long long)n,
            answer_text(w->s, best));
    w->last = best;
  }
  if (progress_due(&w->progress))
    progress_show(&w->progress, "%llu layouts priced%s%s", (unsigned long long)n,
                  answers ? ", the best so far: " : "", answers ? answer_text(w->s, best) : "");
  arena_reset(w->s->arena, mark);
}

// -- whole programs -----------------------------------------------------------------------------

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

// Of times that differ by less than this share, that of the layout with fewer rules is better.
static const double ALIKE = 1e-3;

bool planner_better(const SearchTask *t, const SearchChoice *x, const SearchChoice *y) {
  bool fits = x->price.peak <= t->memory;
  if (fits != (y->price.peak <= t->memory)) return fits;
  if (!fits) return x->price.peak < y->price.peak;
  double more = x->price.seconds / y->price.seconds - 1;
  return fabs(more) < ALIKE ? x->layout.n < y->layout.n : more < 0;
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
  enum { ALL_ROUNDS = INT32_MAX };
  Session divided;
  SearchTask task = *t;
  Pricer p = {.s = &divided, .task = &task, .of = *of};
  Variant v = {.s = &divided};
  const Graph *model;
  SearchPrice price;
  if (!planner_accumulated(s, c->accumulate, &divided)) return false;
  v.file = imports_resolve(s->arena, s->names, divided.diag, s->ast, s->opt->argument.at[0]);
  if (!v.file || !short_samples(&v, ALL_ROUNDS, true, &task.npriced, &task.priced, &model) ||
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

bool planner_compare(Session *s, const Selected *of, const SearchTask *t, SearchResult *r) {
  double work = COMPILED_NODES;
  SearchChoice *c;
  while ((c = first_open(of, r)) && (c == r->at || work >= whole_work(of, c))) {
    work -= whole_work(of, c);
    if (!(planner_is_long(of, c) && confirm_long(s, of, t, c)) && !planner_confirm(s, of, c))
      return false;
    sort_choices(t, r);
  }
  return r->at[0].price.peak <= t->memory || say_too_large(s, t, &r->at[0], false);
}

// Where no price fits the memory, the whole programs of so many layouts are tried, of those whose
// price needs at most so many times the memory.
enum { CONFIRMED = 3, NEARLY_FITS = 4 };

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

// Prices of short models are extrapolated, and may be above the memory although the programs fit.
// Where all are, compiles the whole programs of those with the lowest peaks, and adds to r->at
// those that fit. Returns false after an error.
static bool confirm_smallest(Session *s, const SearchTask *t, SearchResult *r) {
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

// Searches layouts and, where that may be, micro-batches. Where nothing fits, the search for
// layouts goes on only if micro-batches do not help.
static SearchResult *search_all(Session *s, const SearchTask *t) {
  SearchTask task = *t;
  task.sparing = planner_may_divide(s, t);
  SearchResult *r = search_best(s->arena, &task);
  r->proven = r->proven && prices_prove(t, r);
  if (!task.sparing) return r;
  planner_divide(s, t, r);
  if (r->n || !r->spared) return r;
  task.sparing = false;
  SearchResult *more = search_best(s->arena, &task);
  more->ndivided = r->ndivided;
  if (!more->n && r->smallest.price.peak < more->smallest.price.peak) more->smallest = r->smallest;
  return more;
}

bool planner_search(Session *s, const SearchTask *t, SearchResult **out) {
  Watch watch = {.s = s, .answer = clock_seconds() + ANSWER_AFTER};
  SearchTask task = *t;
  progress_start(&watch.progress, session_remarks(s), PROGRESS_AFTER);
  task.progress = show_priced;
  task.watcher = &watch;
  *out = search_all(s, &task);
  progress_clear(&watch.progress);
  if (!(*out)->n && t->price && !confirm_smallest(s, t, *out)) return false;
  const SearchResult *r = *out;
  return r->n || say_too_large(s, t, &r->smallest, r->all && !r->ndivided && t->npriced == 1);
}

// Sets the layout of the model and, with micro-batches or replicas, that of one of them.
static void set_layout(Session *s, Layout layout) {
  s->model->layout = s->model->graph->layout = layout;
  if (s->model->part) s->model->part->graph->layout = layout;
}

bool planner_choose(Session *s) {
  SearchTask task;
  SearchResult *r;
  if (!planner_task(s, 1, &s->model->mesh, PLANNER_KEPT, &task) ||
      !planner_prices(s, NULL, &task) || !planner_search(s, &task, &r) ||
      !planner_compare(s, planner_selected(&task), &task, r))
    return false;
  const SearchChoice *best = &r->at[0];
  if (best->accumulate && !planner_take_accumulated(s, best->accumulate))
    BUG("the model cannot be built with %lld micro-batches", (long long)best->accumulate);
  set_layout(s, best->layout);
  if (session_remarks(s))
    fprintf(stderr, "meshc: layout %s%s, the fastest of %llu that were priced\n",
            layout_option(s->arena, s->model->graph->mesh, &s->model->layout),
            best->accumulate ? arena_printf(s->arena, " with %lld micro-batches (accumulate)",
                                            (long long)best->accumulate)
                             : "",
            (unsigned long long)r->npriced + r->ndivided);
  return true;
}
