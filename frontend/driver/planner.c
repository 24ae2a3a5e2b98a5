// Sets up the search for a layout from a session, and compiles and compares the layouts that it
// finds. Input: a loaded session. Output: see planner.h.
//
// To keep the search fast, it estimates costs on models with short loops: twelve layers cost as
// much as one, plus eleven times the difference between two layers and one. Such a model with its
// factor is a SearchSample; the cost of a layout is the sum of its costs on all samples, each times
// its factor. There is one sample with one round of every loop, and one more for each loop, in
// which that loop has two rounds.
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/driver/progress.h"

// What build_variant needs to build a model with short loops, in which most loops have a single
// round.
typedef struct Variant {
  Session *s;
  const Ast *file;  // the model file, with the contents of its imports in it
  ShortLoops loops; // model_build reads the loop with two rounds and lists all loops here
} Variant;

// Builds the model with one round (iteration) of every loop, but two of `longer` (the Ast of a
// loop, or NULL). Returns its simplified graph, and sets *model to its graph before selection.
// Returns NULL if the model cannot be built with such short loops.
static const Graph *build_variant(Variant *v, const Ast *longer, const Graph **model) {
  Session s = *v->s;
  ModelOptions options = s.options;
  Selected of;
  Compilation c;
  s.diag = diag_new(s.arena); // errors of the short model are not shown
  options.no_layout = true;
  options.shorten = &v->loops;
  v->loops.longer = longer;
  s.model = model_build(s.arena, s.names, s.diag, v->file, &options);
  if (!s.model || (train_counts_epochs(s.model) && !train_resolve_epochs(s.model, 1))) return NULL;
  if (!session_make(&s, "simplify", &of, &c)) return NULL;
  *model = s.model->graph;
  return c.simplified;
}

// Fills the samples of *out, graphs from which the search computes costs, with models of short
// loops. Returns false if the rounds (iterations) of a loop are not alike, or if the model cannot
// be built with short loops.
static bool short_samples(Variant *v, SearchTask *out) {
  const Graph *model, *g = build_variant(v, NULL, &out->model);
  uint32_t n = v->loops.loop.n;
  SearchSample *sample = arena_array(v->s->arena, SearchSample, n + 1);
  double rest = 1;
  for (uint32_t i = 0; i < n; i++) {
    const ShortLoop *l = &v->loops.loop.at[i];
    rest -= (double)(l->rounds - 1);
    sample[i + 1] = (SearchSample){.graph = g ? build_variant(v, l->loop, &model) : NULL,
                                   .weight = (double)(l->rounds - 1)};
    if (!sample[i + 1].graph) return false;
  }
  sample[0] = (SearchSample){.graph = g, .weight = rest};
  out->sample = sample;
  out->nsamples = n + 1;
  if (!g || v->loops.mixed || v->loops.loop.n != n) return false;
  for (uint32_t i = 0; i <= n; i++) sample[i].known = place_graph(v->s->arena, sample[i].graph);
  return true;
}

// Makes the graph of the whole model the only sample of *out (graph from which the search computes
// costs). Returns false after an error.
static bool whole_sample(Session *s, SearchTask *out) {
  Selected of;
  Compilation c;
  SearchSample *sample = arena_new_of(s->arena, SearchSample);
  if (!session_make(s, "simplify", &of, &c)) return false;
  *sample = (SearchSample){c.simplified, place_graph(s->arena, c.simplified), 1};
  out->model = s->model->graph;
  out->sample = sample;
  out->nsamples = 1;
  return true;
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

bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep, SearchTask *out) {
  Variant v = {
      .s = s, .file = imports_resolve(s->arena, s->names, s->diag, s->ast, s->opt->argument.at[0])};
  const char *names[MAX_AXES];
  *out = (SearchTask){.machine = &s->machine, .nmeshes = nmeshes, .mesh = mesh, .keep = keep};
  out->named_axes = s->machine.naxes > 0 || pinned_axes(s, names) > 0;
  if (!v.file || !session_memory(s, &out->memory)) return false;
  return short_samples(&v, out) || whole_sample(s, out);
}

static void say_too_large(Session *s, const SearchTask *t, const SearchChoice *least,
                          double bytes) {
  diag_error(s->diag, DIAG_NO_MEMORY, (Pos){0},
             "no layout was found that needs at most %s a processor",
             bytes_text(s->arena, (int64_t)t->memory));
  diag_hint(s->diag,
            "the smallest that was found needs %s: --mesh %s --layout %s; give a larger mesh, or "
            "more --memory; not every rule beyond dims was tried",
            bytes_text(s->arena, (int64_t)bytes), mesh_option(s->arena, least->mesh),
            layout_option(s->arena, least->mesh, &least->layout));
}

static void show_estimated(void *progress, uint64_t n) {
  progress_show(progress, "%llu layouts estimated", (unsigned long long)n);
}

bool planner_search(Session *s, const SearchTask *t, SearchResult **out) {
  Progress progress;
  SearchTask task = *t;
  progress_start(&progress, session_remarks(s), PROGRESS_AFTER);
  task.estimated = show_estimated;
  task.watcher = &progress;
  SearchResult *r = *out = search_fitting(s->arena, &task);
  progress_clear(&progress);
  if (r->n) return true;
  SearchChoice least = search_refine(s->arena, t, &r->smallest, &(SearchRules){0}, SEARCH_SMALLEST);
  if (least.cost.memory > t->memory) return say_too_large(s, t, &least, least.cost.memory), false;
  r->at[r->n++] = least;
  r->proven = r->ranked = false;
  r->bound = 0;
  return true;
}

// Sets *use to the layout that needs least memory by the estimate of the search. To be called if
// all compiled programs need more memory than a processor has. Returns false after an error, which
// includes that the program of this layout needs too much memory.
static bool use_smallest(Session *s, const Selected *of, const SearchTask *t,
                         const SearchChoice *from, const Foreseen **use) {
  Foreseen *least = arena_new_of(s->arena, Foreseen);
  least->choice = search_refine(s->arena, t, from, &(SearchRules){0}, SEARCH_SMALLEST);
  if (!foresee_step(s, of, least)) return false;
  *use = least;
  if (!least->fits) say_too_large(s, t, &least->choice, (double)least->peak);
  return least->fits;
}

// Returns whether the program of x is faster than that of y by more than a thousandth.
static bool faster(const Foreseen *x, const Foreseen *y) {
  return x->time->seconds < 0.999 * y->time->seconds;
}

// Compares the compiled programs of layouts. Among equally fast ones, the layout with added rules
// (`refined`) is preferred, then the first choice of the search.
bool planner_fastest(Session *s, const Selected *of, const SearchTask *t, const SearchResult *r,
                     Foreseen *refined, Foreseen *kept, const Foreseen **use) {
  if (!foresee_step(s, of, refined)) return false;
  *use = refined;
  for (uint32_t i = 0; i < r->n; i++) {
    kept[i] = *refined;
    kept[i].choice = r->at[i];
    // True if the refined choice is choice i without further rules: one prediction serves both.
    bool equal = r->at[i].layout.rule == refined->choice.layout.rule;
    if (!equal && !foresee_step(s, of, &kept[i])) return false;
    if (kept[i].fits && (faster(&kept[i], *use) || !(*use)->fits)) *use = &kept[i];
  }
  return (*use)->fits || use_smallest(s, of, t, &refined->choice, use);
}

bool planner_choose(Session *s) {
  SearchTask task;
  SearchResult *r;
  Foreseen kept[PLANNER_KEPT], refined;
  const Foreseen *use;
  Selected graph;
  if (!planner_task(s, 1, &s->model->mesh, PLANNER_KEPT, &task) || !planner_search(s, &task, &r) ||
      !session_select(s, &graph))
    return false;
  refined.choice = search_refine(s->arena, &task, &r->at[0], &(SearchRules){0}, SEARCH_FASTER);
  if (!planner_fastest(s, &graph, &task, r, &refined, kept, &use)) return false;
  s->model->layout = s->model->graph->layout = use->choice.layout;
  if (session_remarks(s))
    fprintf(stderr, "meshc: layout %s, the fastest of %.0f\n",
            layout_option(s->arena, s->model->graph->mesh, &s->model->layout), r->candidates);
  return true;
}
