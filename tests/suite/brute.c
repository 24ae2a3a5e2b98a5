// Compares `plan` with an enumeration of all choices that it may make: dims on axes in every order,
// soft rules, a stage of ZeRO over every set of axes, and numbers of micro-batches. Each choice is
// given to the compiler as a user writes it (--mesh, --layout, --set), and its program is
// simulated; the search and its prices take no part. Models are examples, small models of tests,
// and random ones (random_model.h), on one and two axes, for CPUs and GPUs, with and without memory
// budgets that exclude some of the choices.
//
//   winner   what `use` names takes no longer than the best choice (a thousandth more if it has
//            fewer rules), and compiles to the time and memory that were printed
//   refused  a budget is refused only if no choice fits
//   proof    what the printed line says is proven is true of the choices with the model's
//            micro-batches, and it counts them
//
//   suite_brute [all] [case=NAME] [seed=N] [seeds=N] [print]   all: more models and seeds; print:
//                                                             only the texts of random models
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/plan.h"
#include "tests/suite/common/random_model.h"

static int passed, failed;
static bool all, print;

typedef struct Case {
  const char *path;   // model file, or a name if `text` is given
  const char *text;   // NULL: that of the file
  const char *mesh;   // text of --mesh; several, separated by blanks, with `processors`
  const char *device; // the machine file of a GPU, or NULL: the CPU
  const char *set[2]; // texts of --set, or NULL
  bool daily;         // also without `all`
  int processors;     // 0, or the number behind --processors: plan chooses the mesh, too
} Case;

typedef struct Loaded {
  Session s;
  Options o;
} Loaded;

// One choice, with the figures of its program without a memory budget.
typedef struct Entry {
  const char *mesh, *layout;
  int64_t accumulate; // 0: those of the model
  double seconds, peak, sent;
  double least; // the bytes that it needs with as much recomputation as there is; 0: not known yet
  bool again;   // another choice compiles to an equal program
} Entry;

typedef VEC(Entry) EntryList;

typedef struct Brute {
  Arena *a;
  const Case *c;
  const char *mesh_text; // the mesh of the choices that are listed now
  const Mesh *mesh;
  uint32_t ndims;
  const Dim *dim[64];
  bool divides; // choices may have micro-batches
  int64_t rows; // of the batch, where they may
  EntryList at; // sorted by find_equal
} Brute;

// Recomputation and micro-batches leave at least so much of the time of a step, and recomputation
// so much of its memory. (Of 2,200 programs of small models none has less than 0.65 of its memory.)
static const double LEAST_TIME = 0.85, LEAST_MEMORY = 0.5;

static void fault(const Case *c, const char *budget, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void fault(const Case *c, const char *budget, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("FAIL %s --mesh %s %s, %s: ", c->path, c->mesh, c->device ? c->device : "cpu", budget);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  failed++;
}

// -- loading and compiling ------------------------------------------------------------------------

// Loads the model as a user would: with a mesh (NULL: --processors), a layout, a number of
// micro-batches (0: those of the model) and a memory budget (0: none). Returns false if it is
// refused.
static bool load(Loaded *l, const Case *c, const char *command, const char *mesh,
                 const char *layout, int64_t accumulate, double memory) {
  *l = (Loaded){.s = {.arena = arena_new()}};
  Session *s = &l->s;
  Arena *a = s->arena;
  s->names = intern_new(a);
  s->diag = diag_new(a);
  s->opt = &l->o;
  s->text = c->text;
  s->text_bytes = c->text ? strlen(c->text) : 0;
  const char *word[24] = {"meshc",
                          command,
                          c->path,
                          mesh ? "--mesh" : "--processors",
                          mesh ? mesh : arena_printf(a, "%d", c->processors),
                          "--layout",
                          layout};
  int n = 7;
  for (size_t i = 0; i < countof(c->set) && c->set[i]; i++)
    word[n++] = "--set", word[n++] = c->set[i];
  if (c->device)
    word[n++] = "--device", word[n++] = "cuda", word[n++] = "--machine", word[n++] = c->device;
  if (accumulate)
    word[n++] = "--set",
    word[n++] = arena_printf(a, "train.accumulate=%lld", (long long)accumulate);
  if (memory > 0) word[n++] = "--memory", word[n++] = arena_printf(a, "%.0f", memory);
  char *argv[24] = {NULL};
  for (int i = 0; i < n; i++) argv[i] = arena_text(a, word[i], strlen(word[i]));
  return options_parse(&l->o, a, s->diag, n, argv) && session_load(s);
}

static bool load_plan(Loaded *l, const Case *c, double memory) {
  return load(l, c, "plan", c->processors ? NULL : c->mesh, "none", 0, memory);
}

// Compiles a choice as `check` does. Returns false if it is refused.
static bool compile(const Case *c, const char *mesh, const char *layout, int64_t accumulate,
                    double memory, Entry *out) {
  Loaded l;
  Selected of;
  Compilation made;
  bool good = load(&l, c, "check", mesh, layout, accumulate, memory) && session_select(&l.s, &of);
  l.s.trial = true; // without it, a program that does not fit is explained
  good = good && session_compile(&l.s, of.graph, of.purpose, of.over, "program", &made);
  if (good)
    *out = (Entry){.mesh = mesh,
                   .layout = layout,
                   .accumulate = accumulate,
                   .seconds = predicted_seconds(&l.s, &made),
                   .peak = (double)program_bytes(made.compiled->program),
                   .sent = (double)made.facts->wire_bytes};
  arena_free(l.s.arena);
  return good;
}

// -- the enumeration ------------------------------------------------------------------------------

static bool is_accepted(const Brute *b, const char *layout) {
  Loaded l;
  bool good = load(&l, b->c, "check", b->mesh_text, layout, 0, 0);
  arena_free(l.s.arena);
  return good;
}

static const char *join(Arena *a, const char *rules, const char *rule) {
  return !*rules ? rule : !*rule ? rules : arena_printf(a, "%s,%s", rules, rule);
}

// The ways to give a dim or a kind of tensors some of at most two axes: none, one, both in each
// order. They are numbered from 0.
static int ways(const Mesh *m) { return m->naxes > 1 ? 5 : 2; }

static Axes way_axes(int way) {
  static const Axes axes[] = {{0}, {1, {0}}, {1, {1}}, {2, {0, 1}}, {2, {1, 0}}};
  return axes[way];
}

static const char *way_text(const Brute *b, const char *target, int way) {
  Axes axes = way_axes(way);
  const char *text = "";
  for (int i = 0; i < axes.n; i++)
    text = arena_printf(b->a, "%s%s%s", text, i ? "+" : "", b->mesh->axis[axes.at[i]].name);
  return axes.n ? arena_printf(b->a, "%s=%s", target, text) : "";
}

static void add_entry(Brute *b, const char *rules) {
  Entry e;
  const char *layout = *rules ? rules : "none";
  if (compile(b->c, b->mesh_text, layout, 0, 0, &e)) vec_push(b->a, b->at) = e;
}

static void add_stages(Brute *b, const char *rules) {
  static const char *const stage[] = {"optimizer/all", "gradients/all", "parameters/all"};
  add_entry(b, rules);
  for (size_t i = 0; i < countof(stage); i++)
    for (int way = 1; way < ways(b->mesh) && way < 4; way++)
      add_entry(b, join(b->a, rules, way_text(b, stage[i], way)));
}

// Gives each axis a dim in a soft rule, or none: `used` has the axes that have one.
static void add_soft(Brute *b, uint32_t d, unsigned used, const char *rules) {
  if (d == b->ndims) {
    add_stages(b, rules);
    return;
  }
  for (int way = 0; way < ways(b->mesh); way++) {
    Axes axes = way_axes(way);
    unsigned set = 0;
    for (int i = 0; i < axes.n; i++) set |= 1u << axes.at[i];
    if ((used & set) || axes_size(b->mesh, axes) > b->dim[d]->size) continue;
    const char *target = arena_printf(b->a, "soft/%s", b->dim[d]->name),
               *with = join(b->a, rules, way_text(b, target, way));
    if (!way || is_accepted(b, with)) add_soft(b, d + 1, used | set, with);
  }
}

static void add_dims(Brute *b, uint32_t d, const char *rules) {
  if (d == b->ndims) {
    add_soft(b, 0, 0, rules);
    return;
  }
  for (int way = 0; way < ways(b->mesh); way++) {
    if (axes_size(b->mesh, way_axes(way)) > b->dim[d]->size) continue;
    const char *with = join(b->a, rules, way_text(b, b->dim[d]->name, way));
    if (!way || is_accepted(b, with)) add_dims(b, d + 1, with);
  }
}

static bool has_dim(const Graph *g, DimId d) {
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (dims_has(graph_node(g, n)->dims, d)) return true;
  return false;
}

// Lists the dims that rules can name: those of the file that can be split. Rules for dims that no
// tensor has change nothing.
static void list_dims(Brute *b, const Session *s) {
  const Graph *g = s->model->graph;
  const DimTable *dims = g->dims;
  for (DimId d = 1; d <= dim_count(dims) && b->ndims < countof(b->dim); d++) {
    const Dim *dim = dim_get(dims, d);
    if (dim->whole == d && dim->size > 1 && !strchr(dim->name, '.') && has_dim(g, d))
      b->dim[b->ndims++] = dim;
  }
}

// Lists the choices on all meshes of the case with the micro-batches of the model. `s` is a session
// of its plan.
static void enumerate(Brute *b, const Session *s) {
  list_dims(b, s);
  char *rest = arena_text(b->a, b->c->mesh, strlen(b->c->mesh));
  while ((b->mesh_text = strtok_r(rest, " ", &rest))) {
    Loaded l;
    if (!load(&l, b->c, "check", b->mesh_text, "none", 0, 0)) BUG("%s is refused", b->mesh_text);
    Mesh *mesh = arena_copy(b->a, &l.s.model->mesh, sizeof *mesh);
    for (int k = 0; k < mesh->naxes; k++)
      mesh->axis[k].name = arena_text(b->a, mesh->axis[k].name, strlen(mesh->axis[k].name));
    b->mesh = mesh;
    add_dims(b, 0, "");
    arena_free(l.s.arena);
  }
}

enum { MOST_PARTS = 8 }; // micro-batches of the choices that are listed

// Lists the choices with 2, 4, and 8 micro-batches, of those layouts that take at most so many
// seconds without.
static void enumerate_divided(Brute *b, const Session *s, double seconds) {
  const Graph *g = s->model->graph;
  uint32_t plain = b->at.n;
  b->rows = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->size;
  for (uint32_t i = 0; i < plain; i++)
    for (int64_t n = 2; n <= MOST_PARTS && b->at.at[i].seconds <= seconds; n *= 2) {
      Entry e;
      if (b->rows % n == 0 && compile(b->c, b->at.at[i].mesh, b->at.at[i].layout, n, 0, &e))
        vec_push(b->a, b->at) = e;
    }
}

// -- comparing ------------------------------------------------------------------------------------

// The best choices within a budget.
typedef struct Best {
  Entry any;   // with any number of micro-batches
  Entry plain; // with those of the model
  uint32_t fit, compiled;
} Best;

static bool is_better(const Entry *x, const Entry *y) {
  if (x->seconds != y->seconds) return x->seconds < y->seconds;
  return strlen(x->layout) < strlen(y->layout);
}

static int by_seconds(const void *x, const void *y) {
  const Entry *a = x, *b = y;
  return is_better(a, b) ? -1 : is_better(b, a);
}

static void enter(Best *best, const Entry *e) {
  best->fit++;
  if (is_better(e, &best->any)) best->any = *e;
  if (!e->accumulate && is_better(e, &best->plain)) best->plain = *e;
}

// Returns whether a choice may need no more than `memory` with recomputation, and sets e->least if
// that is not known otherwise.
static bool may_fit(const Brute *b, Entry *e, double memory) {
  Entry least;
  if (LEAST_MEMORY * e->peak > memory) return false;
  if (!e->least)
    e->least = compile(b->c, e->mesh, e->layout, e->accumulate, 1, &least) ? least.peak : e->peak;
  return e->least <= memory;
}

// Returns the best choices within a budget (0: none). Choices that do not fit as they are, are
// compiled for it: but not those that take longer than the best one already without recomputation.
static Best best_within(const Brute *b, double memory) {
  const Entry none = {.mesh = "", .layout = "", .seconds = (double)INFINITY};
  Best best = {none, none, 0, 0};
  for (uint32_t i = 0; i < b->at.n; i++)
    if (!memory || b->at.at[i].peak <= memory) enter(&best, &b->at.at[i]);
  for (uint32_t i = 0; i < b->at.n; i++) {
    Entry *e = &b->at.at[i], again;
    double limit = e->accumulate ? best.any.seconds : best.plain.seconds;
    if (!memory || e->again || e->peak <= memory || LEAST_TIME * e->seconds > limit ||
        !may_fit(b, e, memory))
      continue;
    best.compiled++;
    if (compile(b->c, e->mesh, e->layout, e->accumulate, memory, &again) && again.peak <= memory)
      enter(&best, &again);
  }
  return best;
}

static bool are_equal(const Entry *x, const Entry *y) {
  return x->accumulate == y->accumulate && x->seconds == y->seconds && x->peak == y->peak &&
         x->sent == y->sent;
}

// Sorts the choices and marks those that compile to equal programs.
static void find_equal(Brute *b) {
  qsort(b->at.at, b->at.n, sizeof *b->at.at, by_seconds);
  for (uint32_t i = 0; i < b->at.n; i++) {
    Entry *e = &b->at.at[i];
    e->again = false;
    for (uint32_t k = i; k-- > 0 && b->at.at[k].seconds == e->seconds && !e->again;)
      e->again = are_equal(e, &b->at.at[k]);
  }
}

static int by_peak(const void *x, const void *y) {
  const Entry *a = *(Entry *const *)x, *b = *(Entry *const *)y;
  return a->peak < b->peak ? -1 : a->peak > b->peak ? 1 : by_seconds(a, b);
}

// Returns the least memory with which any choice fits.
static double least_memory(const Brute *b) {
  Entry **list = arena_array(b->a, Entry *, b->at.n + 1);
  double least = (double)INFINITY;
  for (uint32_t i = 0; i < b->at.n; i++) list[i] = &b->at.at[i];
  qsort(list, b->at.n, sizeof(Entry *), by_peak);
  for (uint32_t i = 0; i < b->at.n; i++)
    if (!list[i]->again && may_fit(b, list[i], least)) least = list[i]->least;
  return least;
}

// Lists all choices and returns the least budget. With two axes there are many: those with
// micro-batches are listed for layouts that might be the best within the least budget without
// micro-batches, or a larger one.
static double list_choices(Brute *b, const Session *s) {
  enumerate(b, s);
  find_equal(b);
  if (!b->divides) return least_memory(b);
  double plain = b->mesh->naxes > 1 ? least_memory(b) : 0;
  enumerate_divided(b, s,
                    plain > 0 ? best_within(b, plain).any.seconds / LEAST_TIME : (double)INFINITY);
  find_equal(b);
  return plain > 0 ? plain : least_memory(b);
}

static const char *choice_text(Arena *a, const Entry *e) {
  return arena_printf(a, "%s %s%s", e->mesh, e->layout,
                      e->accumulate ? arena_printf(a, " x%lld", (long long)e->accumulate) : "");
}

// Returns whether the program of plan's choice has the time and memory that plan states. The
// figures of many micro-batches may be those of programs with few of them, within a hundredth.
static bool is_as_said(const Brute *b, const SearchChoice *use, double memory, const char *budget) {
  Entry made;
  const char *layout = layout_option(b->a, use->mesh, &use->layout);
  if (!compile(b->c, mesh_option(b->a, use->mesh), layout, use->accumulate, memory, &made))
    return fault(b->c, budget, "%s is refused", layout), false;
  double apart = use->price.whole ? 1e-9 : 0.01;
  if (fabs(made.seconds - use->price.seconds) <= apart * made.seconds &&
      fabs(made.peak - use->price.peak) <= apart * made.peak)
    return true;
  fault(b->c, budget, "%s: %.9g s and %.0f bytes were said, they are %.9g s and %.0f", layout,
        use->price.seconds, use->price.peak, made.seconds, made.peak);
  return false;
}

static uint32_t undivided(const Brute *b) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->at.n; i++) n += !b->at.at[i].accumulate;
  return n;
}

// Returns whether what the line of plan says of the choices without micro-batches is true. None of
// these fits: best->plain.seconds is infinite.
static bool is_proof_true(const Brute *b, const PlanReport *r, const Best *best, const char *line) {
  static const char without[] = "without micro-batches ";
  static const double SAME = 1e-9, THOUSANDTH = 1e-3;
  const char *proof = strstr(line, "; ") + 2;
  double more = r->use->price.seconds / best->plain.seconds - 1;
  uint32_t priced = 0, of = 0;
  if (sscanf(line + strlen(b->c->path), ": %u of %u layouts", &priced, &of) != 2) return false;
  if (!strcmp(proof, "not all, so that is no proof")) return priced < of;
  if (!strncmp(proof, "some may fit", 12)) return true; // it claims nothing
  if (!strncmp(proof, "some need recomputation", 23) || strstr(proof, "short models")) return true;
  if (priced != of || of != undivided(b)) return false;
  if (!strncmp(proof, without, strlen(without))) {
    proof += strlen(without);
    if (!r->found->ndivided) return false;
  }
  if (!strcmp(proof, "none fits: proven")) return isinf(best->plain.seconds);
  if (!strcmp(proof, "none takes less time: proven")) return more <= SAME;
  return !strcmp(proof, "none takes a thousandth less time: proven") && more > SAME &&
         more <= THOUSANDTH;
}

static void compare(const Brute *b, const PlanReport *r, const Best *best, double memory,
                    const char *budget) {
  static const double ALIKE = 1e-3;
  const SearchChoice *use = r->use;
  Entry said = {.mesh = mesh_option(b->a, use->mesh),
                .layout = layout_option(b->a, use->mesh, &use->layout),
                .accumulate = use->accumulate,
                .seconds = use->price.seconds};
  double more = said.seconds / best->any.seconds - 1;
  const char *line = plan_searched_text(r);
  printf("    %-10s %.0f bytes: %u fit, %u compiled, %u and %u priced in %.2f s; %s %.4f us, %s; "
         "best %s %.4f us\n",
         budget, memory, best->fit, best->compiled, r->found->npriced, r->found->ndivided,
         r->seconds, choice_text(b->a, &said), 1e6 * said.seconds, strstr(line, "; ") + 2,
         choice_text(b->a, &best->any), 1e6 * best->any.seconds);
  if (!is_as_said(b, use, memory, budget)) return;
  if (more > ALIKE)
    fault(b->c, budget, "%s takes %.9g s, %s %.9g", choice_text(b->a, &best->any),
          best->any.seconds, choice_text(b->a, &said), said.seconds);
  else if (r->products > best->any.seconds * (1 + 1e-9))
    fault(b->c, budget, "%s takes less than products alone: %.9g s", choice_text(b->a, &best->any),
          r->products);
  else if (!is_proof_true(b, r, best, line))
    fault(b->c, budget, "'%s' of %s, %.9g s; %u choices, %s takes %.9g s", line, said.layout,
          said.seconds, undivided(b), best->plain.layout, best->plain.seconds);
  else
    passed++;
}

// Sets *out to a choice with more micro-batches than are listed that fits. Returns false if none
// does.
static bool fits_with_more(const Brute *b, double memory, Entry *out) {
  for (uint32_t i = 0; i < b->at.n; i++) {
    Entry *e = &b->at.at[i];
    if (e->accumulate != MOST_PARTS || e->again || !may_fit(b, e, memory / LEAST_MEMORY)) continue;
    for (int64_t n = 2 * MOST_PARTS; b->rows % n == 0; n *= 2)
      if (compile(b->c, e->mesh, e->layout, n, memory, out) && out->peak <= memory) return true;
  }
  return false;
}

// Plans within a budget (0: none) and compares.
static void plan_within(const Brute *b, double memory, const char *budget) {
  Loaded l;
  PlanReport r;
  Best best = best_within(b, memory);
  bool good = load_plan(&l, b->c, memory);
  if (!good)
    fault(b->c, budget, "the model cannot be loaded");
  else if (plan_make(&l.s, &r))
    compare(b, &r, &best, memory, budget);
  else if (best.fit || fits_with_more(b, memory, &best.any))
    fault(b->c, budget, "it was refused, but %s fits: %.0f bytes", choice_text(b->a, &best.any),
          best.any.peak);
  else
    passed++, printf("    %-10s %.0f bytes: refused; %u compiled\n", budget, memory, best.compiled);
  arena_free(l.s.arena);
}

// Budgets between the memory that the best choice needs and the least that any listed choice needs,
// that least, and a byte less, which is refused only if more micro-batches than are listed do not
// help either.
static void try_budgets(const Brute *b, double least) {
  static const double shares[] = {0.3, 0.9, 0.6, 0.1};
  double best = best_within(b, 0).any.peak;
  plan_within(b, 0, "unlimited");
  for (size_t i = 0; i < (all ? countof(shares) : 1); i++)
    plan_within(b, floor(least + shares[i] * (best - least)),
                arena_printf(b->a, "%.1f", shares[i]));
  plan_within(b, least, "least");
  if (all) plan_within(b, least - 1, "too little");
}

static void run_case(const Case *c) {
  Loaded l;
  Selected of;
  SearchTask task;
  Brute b = {.a = arena_new(), .c = c};
  printf("  %s --mesh %s, %s\n", c->path, c->mesh, c->device ? c->device : "cpu");
  if (load_plan(&l, c, 0) && planner_task(&l.s, 1, &l.s.model->mesh, 1, &task) &&
      session_select(&l.s, &of) && planner_prices(&l.s, &of, &task)) {
    double start = clock_seconds();
    b.divides = planner_may_divide(&l.s, &task);
    double least = list_choices(&b, &l.s);
    printf("    %u choices of %u dims in %.1f s\n", b.at.n, b.ndims, clock_seconds() - start);
    try_budgets(&b, least);
  } else {
    diag_print(l.s.diag, stdout, false);
    fault(c, "unlimited", "the model cannot be planned");
  }
  fflush(stdout);
  arena_free(l.s.arena);
  arena_free(b.a);
}

// -- the cases ------------------------------------------------------------------------------------

#define MODEL(name) "examples/" name ".mesh"
#define SMALL(name) "tests/models/" name ".mesh"
static const Case cases[] = {
    {MODEL("logistic"), NULL, "rows=2", NULL, {NULL}, true, 0},
    {MODEL("mlp"), NULL, "rows=4", "h100x8", {"b=64", "h=512"}, true, 0},
    {MODEL("mlp"), NULL, "rows=4", NULL, {NULL}, false, 0},
    {MODEL("mlp"), NULL, "rows=8", NULL, {"b=4096", "h=64"}, false, 0},
    {MODEL("mlp"), NULL, "rows=2,cols=2", NULL, {"b=4096"}, false, 0},
    {MODEL("mlp"), NULL, "rows=2,cols=4", "a100x8", {"b=64", "h=512"}, false, 0},
    {MODEL("logistic"), NULL, "rows=2,cols=3", NULL, {NULL}, false, 0},
    {MODEL("logistic"), NULL, "rows=4 rows=2,cols=2", "h100x8", {"b=4096"}, false, 4},
    {MODEL("iris"), NULL, "rows=4", NULL, {NULL}, false, 0},
    {MODEL("iris"), NULL, "rows=8", "h100x8", {"b=512"}, false, 0},
    {MODEL("mnist"), NULL, "rows=4", NULL, {NULL}, false, 0},
    {MODEL("vae"), NULL, "rows=2", NULL, {NULL}, false, 0},
    {MODEL("moe"), NULL, "rows=4", "h100x8", {NULL}, false, 0},
    {SMALL("uneven"), NULL, "rows=3", NULL, {NULL}, false, 0},
    {SMALL("chain"), NULL, "rows=4", NULL, {NULL}, false, 0},
    {SMALL("accumulate"), NULL, "rows=2", NULL, {NULL}, false, 0},
    {SMALL("batch_norm"), NULL, "rows=4", "a100x8", {NULL}, false, 0},
    {SMALL("train"), NULL, "rows=4", NULL, {NULL}, false, 0},
    {SMALL("train_adafactor"), NULL, "rows=4", "h100x8", {NULL}, false, 0},
    {SMALL("mlp"), NULL, "rows=2,cols=2", NULL, {NULL}, false, 0},
};

// Random models on random meshes.
static void run_random(uint64_t seed) {
  static const char *const one[] = {"rows=2", "rows=3", "rows=4", "rows=8"};
  static const char *const two[] = {"rows=2,cols=2", "rows=2,cols=4", "rows=4,cols=2"};
  static const char *const devices[] = {NULL, "h100x8", NULL, "a100x8"};
  Arena *a = arena_new();
  Case c = {.path = arena_printf(a, "random.%llu.mesh", (unsigned long long)seed),
            .text = random_model(a, seed),
            .mesh = seed % 10 == 9 ? two[seed / 10 % countof(two)] : one[seed / 3 % countof(one)],
            .device = devices[seed % countof(devices)]};
  if (print)
    puts(c.text);
  else
    run_case(&c);
  arena_free(a);
}

enum {
  FIRST_SEED = 45,
  FASTER_SEED = 50 // a model whose step takes less time in micro-batches, without a memory budget
};

// Returns the number behind NAME= in the arguments, or `usual`.
static long long number(int argc, char **argv, const char *name, long long usual) {
  size_t n = strlen(name);
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], name, n)) usual = strtoll(argv[i] + n, NULL, 10);
  return usual;
}

int main(int argc, char **argv) {
  const char *only = NULL;
  for (int i = 1; i < argc; i++) {
    all |= !strcmp(argv[i], "all");
    print |= !strcmp(argv[i], "print");
    if (!strncmp(argv[i], "case=", 5)) only = argv[i] + 5;
  }
  for (size_t i = 0; i < countof(cases) && !number(argc, argv, "seed=", 0); i++)
    if (only ? strstr(cases[i].path, only) != NULL : all || cases[i].daily) run_case(&cases[i]);
  long long first = number(argc, argv, "seed=", FIRST_SEED);
  long long n = number(argc, argv, "seeds=", all ? 60 : 1);
  for (long long i = first; i < first + n && !only; i++) run_random((uint64_t)i);
  if (!all && !only && first == FIRST_SEED && n == 1) run_random(FASTER_SEED);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
