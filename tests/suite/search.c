// Tests the search for a layout:
//   brute force     on small meshes the estimated cost of every layout of every example is
//                   computed; the search must find the least of them
//   bounds          on 8 processors the best layout is proven; no layout drawn at random costs much
//                   less than the lower bounds of its first axes, and a layout near the best hardly
//                   less
//   eight           on 8 processors the best layout is proven in short time and costs no more than
//                   layouts written by hand
//   joint search    with soft rules, ZeRO and little memory, the search finds the lowest price of all
//   micro-batches   with little memory, the search finds the lowest price with 1 to 8 micro-batches
//   single rows     with less memory still, it finds what fits only in micro-batches of one row
//   no work         a price for which no work is left changes nothing
//   other layouts   where no program of the layouts that were kept fits, others are tried
//   price           the price of a layout is near the prediction for the whole program
//   as a program    the found layout, given to --layout, sends the bytes that the search predicts
//
//   search [MODEL]    one model
#include <glob.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "frontend/driver/planner_micro_internal.h"
#include "frontend/driver/price.h"
#include "partition/search/choices_internal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 20
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 20
#endif
#ifndef SLOW
#define SLOW 1
#endif

enum {
  MOST = 400, // brute force is skipped for more layouts than this
  DRAWS = SLOW > 1 ? 8 : 60,
  SECONDS = 4 * SLOW, // of processor time: an idle machine takes a quarter
};
// Least allowed quotient of a layout's cost and its lower bound: axes may together cost less than
// the sum of what each costs alone. `far_off` holds for all layouts, `near_best` for those that
// cost at most `near` times the best (compare TOGETHER in partition/search/search.c).
static const double far_off = 0.9, near_best = 1 - 1.0 / 100, near = 1.5;

static int passed, failed, skipped;

static void count(const char *path, const char *what, const char *wrong) {
  if (wrong) printf("FAIL %s, %s: %s\n", path, what, wrong);
  failed += wrong != NULL;
  passed += !wrong;
}

typedef struct Loaded {
  Session s;
  Options o;
  SearchTask task;
} Loaded;

// Loads the model under --mesh, --layout and the options `more` (ends with NULL), with a search
// task that has only that mesh.
static bool load_more(Loaded *l, const char *path, const char *mesh, const char *layout,
                      const char *const *more) {
  *l = (Loaded){.s = {.arena = arena_new()}};
  Session *s = &l->s;
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  s->opt = &l->o;
  const char *word[32] = {"meshc", "plan", path, "--mesh", mesh, "--layout", layout};
  char *argv[32] = {NULL};
  int n = 7;
  while (*more) word[n++] = *more++;
  for (int i = 0; i < n; i++) argv[i] = arena_text(s->arena, word[i], strlen(word[i]));
  bool ok = options_parse(&l->o, s->arena, s->diag, n, argv) && session_load(s) &&
            planner_task(s, 1, &s->model->mesh, 1, &l->task);
  if (!ok) diag_print(s->diag, stdout, false);
  return ok;
}

static bool load(Loaded *l, const char *path, const char *mesh, const char *layout) {
  return load_more(l, path, mesh, layout, (const char *[]){NULL});
}

// Gives the task all mesh shapes with that many processors.
static void all_shapes(Loaded *l, int64_t processors) {
  if (!planner_meshes(&l->s, processors, &l->task.nmeshes, &l->task.mesh))
    count("all shapes", "meshes", "none was found");
}

// -- brute force --------------------------------------------------------------------------------

typedef struct Brute {
  Loaded *l;
  uint32_t ndims;
  const Dim *dim[64];
  LayoutRule rule[64];
  uint32_t nrules, layouts;
  LayoutCost best;
  const char *text;
} Brute;

static bool rules_fit(Brute *b) {
  Arena *a = arena_new();
  Graph g = graph_with_dims(a, b->l->task.model, dim_table_whole(a, b->l->task.model->dims));
  g.mesh = b->l->task.mesh;
  bool fit = layout_check(&g, &(Layout){b->nrules, b->rule}, diag_new(a));
  arena_free(a);
  return fit;
}

static void cost_layout(Brute *b) {
  Layout layout = {b->nrules, b->rule};
  if (b->layouts++ >= MOST) return;
  LayoutCost p = search_cost(&b->l->task, b->l->task.mesh, &layout);
  if (b->layouts > 1 && p.seconds >= b->best.seconds) return;
  b->best = p;
  b->text = layout_option(b->l->s.arena, b->l->task.mesh, &layout);
}

static LayoutRule rule_on(const Dim *d, const Mesh *mesh, unsigned axes, bool backwards) {
  LayoutRule r = {.dim = d->name};
  for (int k = 0; k < mesh->naxes; k++) {
    int axis = backwards ? mesh->naxes - 1 - k : k;
    if (axes >> axis & 1) r.axes.at[r.axes.n++] = (uint8_t)axis;
  }
  return r;
}

// Gives dim d each set of axes in turn, with the axes in order or backwards, then recurses into dim
// d + 1.
static void price_from(Brute *b, uint32_t d, bool backwards) {
  const Mesh *mesh = b->l->task.mesh;
  if (d == b->ndims) {
    cost_layout(b);
    return;
  }
  for (unsigned axes = 0; axes < 1u << mesh->naxes && b->layouts < MOST; axes++) {
    LayoutRule r = rule_on(b->dim[d], mesh, axes, backwards);
    if (axes_size(mesh, r.axes) > b->dim[d]->size) continue;
    uint32_t before = b->nrules;
    if (axes) b->rule[b->nrules++] = r;
    if (!axes || rules_fit(b)) price_from(b, d + 1, backwards);
    b->nrules = before;
  }
}

// Machines: the built-in one; one on which axis rows is slow; one whose collectives have no
// latency, so that splits are worthwhile for small models.
typedef enum Kind { BUILT_IN, SLOW_ROWS, PROMPT } Kind;

static void change_machine(Machine *m, Kind kind) {
  if (kind == SLOW_ROWS)
    m->axis[m->naxes++] = (AxisLink){"rows", {.latency = 3e-5, .bandwidth = 1e9}};
  if (kind == PROMPT) m->latency = 0;
}

static void brute_force(const char *path, const char *mesh, Kind kind) {
  static const char *const name[] = {
      [BUILT_IN] = "", [SLOW_ROWS] = " (slow rows)", [PROMPT] = " (prompt)"};
  Loaded l;
  if (!load(&l, path, mesh, "none")) {
    count(path, mesh, "the model cannot be planned");
    return;
  }
  change_machine(&l.s.machine, kind);
  Brute b = {.l = &l};
  const DimTable *dims = l.task.model->dims;
  for (DimId d = 1; d <= dim_count(dims) && b.ndims < countof(b.dim); d++) {
    const Dim *dim = dim_get(dims, d);
    if (dim->whole == d && dim->size > 1 && !strchr(dim->name, '.')) b.dim[b.ndims++] = dim;
  }
  price_from(&b, 0, false);
  price_from(&b, 0, true);
  if (b.layouts >= MOST) {
    skipped++;
  } else {
    const SearchResult *r = search_layouts(l.s.arena, &l.task);
    bool right =
        r->n && r->proven && fabs(r->at[0].cost.seconds - b.best.seconds) <= 1e-12 * b.best.seconds;
    const char *found =
        r->n ? layout_option(l.s.arena, r->at[0].mesh, &r->at[0].layout) : "nothing";
    printf("  %s on %s%s: %u layouts, %llu estimated by the search; %s, %.6f ms\n", path, mesh,
           name[kind], b.layouts, (unsigned long long)r->estimated, found, 1e3 * b.best.seconds);
    count(path, mesh,
          right ? NULL
                : arena_printf(l.s.arena, "%s costs %.9g s, the search found %s (%s)", b.text,
                               b.best.seconds, found, r->proven ? "proven" : "not proven"));
  }
  arena_free(l.s.arena);
}

// -- bounds -------------------------------------------------------------------------------------

// A random layout of the space. bound[k] is the lower bound of all layouts that agree with it on
// the first k + 1 axes; INFINITY if none of them fits the memory.
typedef struct Probe {
  SearchChoice choice;
  double bound[MAX_AXES];
} Probe;

static uint64_t draw(uint64_t *seed, uint64_t n) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (*seed >> 33) % n;
}

// Draws a set for each axis of the view. Returns false if a dim has too few elements for its axes.
static bool draw_layout(Arena *a, const Space *s, Bounds *bounds, const View *v, uint64_t *seed,
                        Probe *out) {
  DimSet set[MAX_AXES] = {0};
  *out = (Probe){.choice.mesh = v->mesh};
  bounds_begin(bounds, v->mesh->naxes, v->kind);
  for (int k = 0; k < v->mesh->naxes; k++) {
    const AxisKind *kind = s->kind.at[v->kind[k]];
    uint32_t i = (uint32_t)draw(seed, kind->n);
    set[k] = kind->set[i];
    if (!space_layout(s, a, v, set, &out->choice.layout)) return false;
    bounds_enter(bounds, k);
    out->bound[k] = bounds_with(bounds, k, i, (double)INFINITY);
    bounds_assign(bounds, k, i);
  }
  return true;
}

// Draws up to n layouts into out. Returns how many.
static uint32_t draw_probes(Arena *a, const SearchTask *t, uint32_t n, Probe *out) {
  Space s;
  const PartTable *parts = parts_new(a, t);
  uint64_t seed = 1;
  uint32_t found = 0;
  space_fill(&s, a, t, parts);
  Bounds *bounds = bounds_new(a, t, parts, s.kind.n, s.kind.at, mesh_size(t->mesh));
  for (uint32_t i = 0; i < 20 * n && found < n; i++) {
    Probe *p = &out[found];
    if (!draw_layout(a, &s, bounds, &s.view.at[draw(&seed, s.view.n)], &seed, p)) continue;
    p->choice.cost = search_cost(t, p->choice.mesh, &p->choice.layout);
    found++;
  }
  return found;
}

static void draw_layouts(const char *path) {
  Loaded l;
  if (!load(&l, path, "rows=8", "none")) {
    count(path, "bounds", "the model cannot be planned");
    return;
  }
  all_shapes(&l, 8);
  Probe *p = arena_array(l.s.arena, Probe, DRAWS);
  uint32_t n = draw_probes(l.s.arena, &l.task, DRAWS, p);
  const SearchResult *r = search_layouts(l.s.arena, &l.task);
  count(path, "the best",
        !r->n || !r->proven      ? "not proven"
        : r->closest < near_best ? "a layout costs far less than its bound"
                                 : NULL);
  double least = (double)INFINITY, best = r->n ? r->at[0].cost.seconds : 0;
  const char *wrong = n ? NULL : "no layout was drawn";
  for (uint32_t i = 0; i < n; i++)
    for (int k = 0; k < p[i].choice.mesh->naxes; k++) {
      double share = p[i].choice.cost.seconds / p[i].bound[k];
      if (isinf(p[i].bound[k])) continue;
      if (share < least) least = share;
      if (share < far_off || (share < near_best && p[i].choice.cost.seconds < near * best))
        wrong = arena_printf(l.s.arena, "%s on %s costs %.9g s, its first %d axes at least %.9g",
                             layout_option(l.s.arena, p[i].choice.mesh, &p[i].choice.layout),
                             mesh_option(l.s.arena, p[i].choice.mesh), p[i].choice.cost.seconds,
                             k + 1, p[i].bound[k]);
    }
  printf("  %s: the least of %u layouts costs %.4f of its bound\n", path, n, least);
  count(path, "bounds", wrong);
  arena_free(l.s.arena);
}

// -- eight processors ---------------------------------------------------------------------------

typedef struct Hand {
  const char *path, *mesh, *layout;
} Hand;

static const Hand by_hand[] = {
    {"examples/mlp.mesh", "rows=2,cols=2", "b=rows,h=cols"},
    {"examples/mnist.mesh", "rows=2,cols=4", "b=rows,h=cols"},
    {"examples/mnist.mesh", "rows=8", "b=rows"},
    {"examples/cifar.mesh", "rows=2,cols=4", "b=rows,c1=cols,h=cols"},
    {"examples/cifar.mesh", "rows=4,cols=2", "b=rows,y=cols,y2=cols,y4=cols"},
    {"examples/resnet.mesh", "rows=4,cols=2", "b=rows,c1=cols,c4=cols"},
    {"examples/gpt.mesh", "rows=2,cols=4", "b=rows,heads=cols,ff=cols,vocab=cols"},
    {"examples/gpt2.mesh", "rows=2,cols=4", "heads=cols,ff=rows+cols,vocab=rows+cols"},
    {"examples/minilm.mesh", "rows=2,cols=4", "b=rows,heads=cols,ff=cols"},
    {"examples/llama.mesh", "rows=4,cols=2", "b=rows,groups=cols,ff=cols,vocab=cols"},
    {"examples/transformer.mesh", "rows=2,cols=4", "b=rows,heads=cols,ff=cols,symbols=cols"},
    {"examples/moe.mesh", "rows=4,cols=2", "g=rows,own=rows,f=cols"},
    {"examples/lstm.mesh", "rows=8", "b=rows"},
    {"tests/models/pinned.mesh", "rows=4,cols=2", "h=cols"},
};

// Returns whether a program that sends `sent` bytes sends those of the estimate.
static bool sends_as_estimated(double sent, double estimate) {
  return fabs(sent - estimate) <= 1e-3 * estimate + 64;
}

// Compiles the layout of session `s`. The estimate places without the local search over groups of
// nodes: a program without it must send the estimated bytes, the program of a user not more.
static const char *sends_otherwise(Session *s, double estimate) {
  Selected of;
  Compilation made, plain;
  if (!session_make(s, "pack", &of, &made) ||
      !session_program(s, s->arena, of.graph, &of, (ProgramWay){.plain = true}, &plain))
    return "cannot be compiled";
  double sent = (double)made.facts->wire_bytes, without = (double)plain.facts->wire_bytes;
  if (sends_as_estimated(without, estimate) &&
      (sent < estimate || sends_as_estimated(sent, estimate)))
    return NULL;
  return arena_printf(s->arena,
                      "sends %.0f bytes, %.0f without the local search; estimated were %.0f", sent,
                      without, estimate);
}

// Compiles the found layout as a user would write it. Its cost must be the same, and it must send
// the estimated bytes.
static const char *as_a_program(Arena *a, const char *path, const SearchChoice *c) {
  Loaded l;
  const char *layout = layout_option(a, c->mesh, &c->layout);
  if (!load(&l, path, mesh_option(a, c->mesh), layout))
    return arena_printf(a, "--layout %s is refused", layout);
  LayoutCost p = search_cost(&l.task, &l.s.model->mesh, &l.s.model->layout);
  const char *wrong = NULL;
  if (p.seconds != c->cost.seconds || p.wire != c->cost.wire)
    wrong = arena_printf(a, "costs %.9g s, not %.9g", p.seconds, c->cost.seconds);
  else if (train_counts_epochs(l.s.model) && !train_resolve_epochs(l.s.model, 1))
    wrong = "has epochs that cannot be counted";
  else
    wrong = sends_otherwise(&l.s, c->cost.wire);
  if (wrong) wrong = arena_printf(a, "--layout %s %s", layout, wrong);
  arena_free(l.s.arena);
  return wrong;
}

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

// Searches the task. Returns NULL when the best layout is proven in time and costs no more than
// `hand`.
static const char *search_task(Loaded *l, const char *path, const char *what,
                               const LayoutCost *hand) {
  Arena *a = l->s.arena;
  double start = processor_seconds();
  const SearchResult *r = search_layouts(a, &l->task);
  double seconds = processor_seconds() - start;
  if (!r->n) return "nothing was found";
  const SearchChoice *best = &r->at[0];
  printf(
      "  %s, %s: %.0f layouts, %llu estimated in %.2f s; --mesh %s --layout %s, %.4f ms; by hand "
      "%.4f\n",
      path, what, r->candidates, (unsigned long long)r->estimated, seconds,
      mesh_option(a, best->mesh), layout_option(a, best->mesh, &best->layout),
      1e3 * best->cost.seconds, 1e3 * hand->seconds);
  if (!r->proven) return "not proven";
  if (best->cost.seconds > hand->seconds)
    return arena_printf(a, "%.9g s, by hand %.9g", best->cost.seconds, hand->seconds);
  if (r->closest < near_best)
    return arena_printf(a, "a layout costs %.4f of its bound", r->closest);
  if (seconds > SECONDS) return arena_printf(a, "took %.1f s of processor time", seconds);
  return as_a_program(a, path, best);
}

static void beat_hand(const Hand *h) {
  Loaded l;
  if (!load(&l, h->path, h->mesh, h->layout)) {
    count(h->path, h->layout, "the model cannot be planned");
    return;
  }
  l.task.keep = 5;
  LayoutCost hand = search_cost(&l.task, &l.s.model->mesh, &l.s.model->layout);
  count(h->path, h->mesh, search_task(&l, h->path, h->mesh, &hand));
  all_shapes(&l, mesh_size(&l.s.model->mesh));
  count(h->path, "all shapes", search_task(&l, h->path, "all shapes", &hand));
  arena_free(l.s.arena);
}

// -- large meshes, small memory -----------------------------------------------------------------

static void many_processors(const char *path, int64_t processors) {
  Loaded l;
  if (!load(&l, path, "rows=8", "none")) {
    count(path, "many processors", "the model cannot be planned");
    return;
  }
  all_shapes(&l, processors);
  LayoutCost whole = {.seconds = (double)INFINITY};
  count(path, "many processors",
        search_task(&l, path, arena_printf(l.s.arena, "%lld processors", (long long)processors),
                    &whole));
  arena_free(l.s.arena);
}

// Limits the memory to `share` of what an unsplit model needs. The search must find a layout that
// fits and prove that it is the cheapest. With a thousandth of the memory it must find none.
static void little_memory(const char *path, double share) {
  Loaded l;
  if (!load(&l, path, "rows=4", "none")) {
    count(path, "memory", "the model cannot be planned");
    return;
  }
  LayoutCost whole = search_cost(&l.task, l.task.mesh, &(Layout){0});
  l.task.memory = whole.memory * share;
  const SearchResult *r = search_layouts(l.s.arena, &l.task);
  const char *wrong = NULL;
  if (!r->n)
    wrong = "nothing was found";
  else if (r->at[0].cost.memory > l.task.memory)
    wrong = "what was found does not fit";
  else if (!r->proven)
    wrong = "not proven";
  count(path, "memory", wrong);
  l.task.memory = whole.memory / 1000;
  count(path, "too little memory", search_layouts(l.s.arena, &l.task)->n ? "something fits" : NULL);
  arena_free(l.s.arena);
}

// -- dims, soft rules and ZeRO together -----------------------------------------------------------

// Gives the task prices. Returns NULL, or what is wrong.
static const char *with_prices(Loaded *l) {
  l->task.keep = 5;
  return planner_prices(&l->s, NULL, &l->task) ? NULL : "prices cannot be computed";
}

// Prices the whole space of dims, soft rules and ZeRO. The search, which prices a part of it, must
// find a layout that takes no longer than the best. `share`: of the memory that the best layout
// needs without a limit; 1: no limit.
static const char *climb(Loaded *l, double share) {
  Arena *a = l->s.arena;
  if (share < 1) {
    l->task.memory = (double)INFINITY;
    l->task.memory = share * joint_search(a, &l->task, true)->at[0].price.peak;
  }
  const SearchResult *all = joint_search(a, &l->task, true);
  const SearchResult *some = joint_search(a, &l->task, false);
  if (!all->all) return "the space is too large: the case is none";
  double least = price_products(l->task.pricer, mesh_size(l->task.mesh));
  for (uint32_t i = 0; i < all->npriced; i++)
    if (!(all->priced[i].price.seconds >= least * (1 - 1e-9)))
      return arena_printf(a, "%s takes less than the products of a step, evenly divided",
                          layout_option(a, all->priced[i].mesh, &all->priced[i].layout));
  if (all->n != some->n && !(all->n && some->n)) return "one search found nothing";
  if (!all->n) return NULL;
  const SearchChoice *x = &all->at[0], *y = &some->at[0];
  printf("    %u of %u priced; %s, %.6f ms\n", some->npriced, all->npriced,
         layout_option(a, y->mesh, &y->layout), 1e3 * y->price.seconds);
  if (y->price.peak > l->task.memory) return "what was found does not fit";
  return y->price.seconds <= 1.001 * x->price.seconds
             ? NULL
             : arena_printf(a, "%s takes %.9g s, the search found %s, %.9g s",
                            layout_option(a, x->mesh, &x->layout), x->price.seconds,
                            layout_option(a, y->mesh, &y->layout), y->price.seconds);
}

static void climb_case(const char *path, const char *mesh, double share) {
  Loaded l;
  printf("  %s on %s, %.0f %% of the memory\n", path, mesh, 100 * share);
  if (!load(&l, path, mesh, "none")) {
    count(path, "joint search", "the model cannot be planned");
    return;
  }
  const char *wrong = with_prices(&l);
  count(path, "joint search", wrong ? wrong : climb(&l, share));
  arena_free(l.s.arena);
}

// Prices all layouts of `all` with 2, 4 and more micro-batches. Returns the lowest price of those
// that fit, or *best if none is lower.
static SearchPrice divided_best(const Loaded *l, const SearchResult *all, SearchPrice best) {
  for (int64_t n = 2; n <= 8; n *= 2) {
    Session *s = arena_new_of(l->s.arena, Session);
    SearchTask t = l->task;
    if (!planner_accumulated(&l->s, n, s) || !planner_prices(s, NULL, &t)) continue;
    for (uint32_t i = 0; i < all->npriced; i++) {
      SearchPrice p;
      if (t.price(t.pricer, all->priced[i].mesh, &all->priced[i].layout, (SearchHint){0}, &p) &&
          p.peak <= t.memory && p.seconds < best.seconds)
        best = p;
    }
  }
  return best;
}

// Limits the memory to `share` of what the best layout needs. The search, which tries micro-batches
// with a few layouts, must find a choice that takes no longer than the best of all layouts with up
// to 8 micro-batches.
static const char *divide(Loaded *l, double share) {
  SearchResult *some;
  Arena *a = l->s.arena;
  l->task.memory = (double)INFINITY;
  l->task.memory = floor(share * joint_search(a, &l->task, true)->at[0].price.peak);
  const SearchResult *all = joint_search(a, &l->task, true);
  SearchPrice best = {.seconds = (double)INFINITY};
  if (all->n) best = all->at[0].price;
  best = divided_best(l, all, best);
  if (!planner_search(&l->s, &l->task, &some)) return isinf(best.seconds) ? NULL : "nothing";
  const SearchChoice *x = &some->at[0];
  printf("    %u of %u priced, %u with micro-batches; %s, %lld, %.6f ms; best %.6f\n",
         some->npriced, all->npriced, some->ndivided, layout_option(a, x->mesh, &x->layout),
         (long long)x->accumulate, 1e3 * x->price.seconds, 1e3 * best.seconds);
  return x->price.seconds <= 1.001 * best.seconds
             ? NULL
             : arena_printf(a, "%.9g s were found, the best takes %.9g", x->price.seconds,
                            best.seconds);
}

static void divide_case(const char *path, const char *mesh, double share) {
  Loaded l;
  printf("  %s on %s, %.0f %% of the memory, micro-batches\n", path, mesh, 100 * share);
  if (!load(&l, path, mesh, "none")) {
    count(path, "micro-batches", "the model cannot be planned");
    return;
  }
  const char *wrong = with_prices(&l);
  count(path, "micro-batches", wrong ? wrong : divide(&l, share));
  arena_free(l.s.arena);
}

// Returns the least memory that any layout of `all` needs with n micro-batches.
static double least_divided(const Loaded *l, const SearchResult *all, int64_t n) {
  Session *s = arena_new_of(l->s.arena, Session);
  SearchTask t = l->task;
  double least = (double)INFINITY;
  if (!planner_accumulated(&l->s, n, s) || !planner_prices(s, NULL, &t)) return least;
  for (uint32_t i = 0; i < all->npriced; i++) {
    const SearchChoice *c = &all->priced[i];
    SearchPrice p;
    if (t.price(t.pricer, c->mesh, &c->layout, (SearchHint){.as_is = true}, &p))
      least = fmin(least, p.peak);
  }
  return least;
}

// Leaves as much memory as the smallest program needs that has micro-batches of one row. A search
// that does not price all layouts must find one that fits.
static const char *divide_to_rows(Loaded *l) {
  Arena *a = l->s.arena;
  const Graph *g = l->s.model->graph;
  l->task.memory = (double)INFINITY;
  const SearchResult *all = joint_search(a, &l->task, true);
  int64_t rows = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->size;
  l->task.memory = least_divided(l, all, rows);
  SearchResult *some = joint_search(a, &l->task, false);
  bool before = some->n > 0;
  planner_divide(&l->s, &l->task, some);
  printf("    %.0f bytes, %lld rows: %u with micro-batches; %s\n", l->task.memory, (long long)rows,
         some->ndivided,
         some->n ? layout_option(a, some->at[0].mesh, &some->at[0].layout) : "nothing fits");
  if (before) return "it fits without micro-batches: the case is none";
  return some->n ? NULL : "nothing was found";
}

// A price for which no work is left changes nothing.
static const char *unpriced(Loaded *l) {
  SearchResult found = {0};
  Micro m = {.s = &l->s, .task = &l->task, .found = &found};
  const SearchChoice from = {.mesh = l->task.mesh, .layout = l->s.model->layout};
  SearchChoice c = {.accumulate = 3};
  if (micro_price(&m, &from, 2, (SearchHint){0}, &c)) return "it was priced";
  return c.accumulate == 3 && !c.mesh ? NULL : "a choice without a price was returned";
}

// Compares two layouts of which the program of the first does not fit, although its price does: the
// second is to use.
static const char *compare_others(Loaded *l) {
  Selected of;
  l->task.memory = (double)INFINITY;
  const SearchResult *all = joint_search(l->s.arena, &l->task, true);
  if (!session_select(&l->s, &of) || all->npriced < 2) return "the layouts cannot be priced";
  SearchChoice two[2] = {all->priced[0], all->priced[0]};
  for (uint32_t i = 0; i < all->npriced; i++) {
    if (all->priced[i].price.peak > two[0].price.peak) two[0] = all->priced[i];
    if (all->priced[i].price.peak < two[1].price.peak) two[1] = all->priced[i];
  }
  if (two[0].price.peak < 2 * two[1].price.peak) return "the case is none";
  l->task.memory = l->s.budget = two[1].price.peak;
  two[0].price.peak = 1;
  SearchChoice kept = two[0];
  SearchResult r = {.n = 1, .at = &kept, .npriced = 2, .priced = two};
  if (!planner_compare(&l->s, &of, &l->task, &r)) return "the layout that fits was not tried";
  return r.at[0].layout.rule == two[1].layout.rule ? NULL : "another layout was found";
}

static void small_case(const char *what, const char *(*run)(Loaded *l)) {
  static const char path[] = "examples/iris.mesh";
  Loaded l;
  const char *wrong = load(&l, path, "rows=4", "none") ? with_prices(&l) : "it cannot be planned";
  count(path, what, wrong ? wrong : run(&l));
  arena_free(l.s.arena);
}

static void rows_case(const char *path, const char *mesh) {
  Loaded l;
  printf("  %s on %s, micro-batches of one row\n", path, mesh);
  if (!load(&l, path, mesh, "none")) {
    count(path, "single rows", "the model cannot be planned");
    return;
  }
  const char *wrong = with_prices(&l);
  count(path, "single rows", wrong ? wrong : divide_to_rows(&l));
  arena_free(l.s.arena);
}

// Prices a choice of micro-batches, with short models.
static bool price_divided(const Loaded *l, SearchChoice *c) {
  Session *s = arena_new_of(l->s.arena, Session);
  SearchTask t = l->task;
  return planner_accumulated(&l->s, c->accumulate, s) && planner_prices(s, NULL, &t) &&
         t.price(t.pricer, c->mesh, &c->layout, (SearchHint){0}, &c->price);
}

// Compares the figures of a long step of eight micro-batches, from programs with two and three of
// them, with those of its whole program.
static const char *compare_long(Loaded *l) {
  Session *s = &l->s;
  Selected of;
  SearchChoice whole = {.mesh = &s->model->mesh, .layout = s->model->layout, .accumulate = 8};
  if (!price_divided(l, &whole) || !session_select(s, &of)) return "it cannot be priced";
  SearchChoice few = whole;
  SearchResult found = {.n = 1, .at = &few};
  if (!planner_confirm(s, &of, &whole) || !planner_compare(s, &of, &l->task, &found))
    return "the programs cannot be compiled";
  const SearchPrice *x = &few.price, *y = &whole.price;
  double time = x->seconds / y->seconds, peak = x->peak / y->peak, sent = x->sent / y->sent;
  printf("  8 micro-batches from 2 and 3: time %.5f, memory %.5f, sent %.5f\n", time, peak, sent);
  if (!y->whole || x->whole) return "the step is not long";
  bool same = fabs(time - 1) < 0.01 && fabs(peak - 1) < 0.01 && fabs(sent - 1) < 0.01;
  return same ? NULL : "they differ by more than 1 %";
}

static void long_case(void) {
  static const char *const more[] = {"--set",    "depth=24", "--set",     "b=64",
                                     "--set",    "t=1024",   "--set",     "groups=32",
                                     "--set",    "k=128",    "--set",     "half=64",
                                     "--set",    "ff=11008", "--set",     "train.precision=bf16",
                                     "--device", "cuda",     "--machine", "h100x8",
                                     NULL};
  static const char path[] = "examples/llama.mesh";
  Loaded l;
  const char *wrong =
      load_more(&l, path, "rows=8", "b=rows,parameters/all=rows,gradients/all=rows", more)
          ? with_prices(&l)
          : "the model cannot be planned";
  count(path, "long step", wrong ? wrong : compare_long(&l));
  arena_free(l.s.arena);
}

// The price of a layout and the prediction for its whole program must be within 1.3 of each other.
static void price_case(const char *path, const char *mesh, const char *layout) {
  Loaded l;
  if (!load(&l, path, mesh, layout)) {
    count(path, "price", "the model cannot be planned");
    return;
  }
  Session *s = &l.s;
  SearchChoice c = {.mesh = &s->model->mesh, .layout = s->model->layout};
  Selected of;
  const char *wrong = with_prices(&l);
  if (!wrong && !(l.task.price(l.task.pricer, c.mesh, &c.layout, (SearchHint){0}, &c.price) &&
                  session_select(s, &of)))
    wrong = "the layout cannot be priced";
  SearchPrice priced = c.price;
  if (!wrong && !planner_confirm(s, &of, &c)) wrong = "the program cannot be compiled";
  double time = wrong ? 1 : priced.seconds / c.price.seconds;
  double peak = wrong ? 1 : priced.peak / c.price.peak;
  if (!wrong)
    printf("  %s, %s: price %.3f of the prediction, memory %.3f\n", path, layout, time, peak);
  if (fmax(time, 1 / time) > 1.3 || fmax(peak, 1 / peak) > 1.3)
    wrong = arena_printf(s->arena, "%.9g s and %.0f bytes, the program %.9g s and %.0f",
                         priced.seconds, priced.peak, c.price.seconds, c.price.peak);
  count(path, arena_printf(s->arena, "price of %s", layout), wrong);
  arena_free(s->arena);
}

static bool wanted(int argc, char **argv, const char *path) {
  return argc < 2 || !strcmp(argv[1], path);
}

int main(int argc, char **argv) {
  static const char *const meshes[] = {"rows=3", "rows=2,cols=2"};
  static const char *const large[] = {"examples/mlp.mesh", "examples/gpt.mesh"};
  glob_t files;
  if (glob("examples/*.mesh", 0, NULL, &files) != 0) return 1;
  for (size_t i = 0; i < files.gl_pathc; i++) {
    const char *path = files.gl_pathv[i];
    if (!wanted(argc, argv, path)) continue;
    for (size_t m = 0; m < countof(meshes); m++) brute_force(path, meshes[m], BUILT_IN);
    brute_force(path, "rows=2,cols=2", SLOW_ROWS);
    draw_layouts(path);
  }
  globfree(&files);
  if (glob("tests/models/*.mesh", 0, NULL, &files) != 0) return 1;
  for (size_t i = 0; i < files.gl_pathc; i++)
    if (wanted(argc, argv, files.gl_pathv[i]))
      brute_force(files.gl_pathv[i], "rows=2,cols=2", PROMPT);
  globfree(&files);
  for (size_t i = 0; i < countof(by_hand); i++)
    if (wanted(argc, argv, by_hand[i].path)) beat_hand(&by_hand[i]);
  for (size_t i = 0; i < countof(large); i++)
    if (wanted(argc, argv, large[i])) many_processors(large[i], 512);
  if (wanted(argc, argv, "examples/mnist.mesh")) little_memory("examples/mnist.mesh", 0.5);
  if (wanted(argc, argv, "examples/gpt2.mesh")) little_memory("examples/gpt2.mesh", 0.4);
  static const char *const small[] = {"examples/logistic.mesh", "examples/mlp.mesh",
                                      "examples/iris.mesh", "examples/mnist.mesh"};
  for (size_t i = 0; i < countof(small); i++)
    for (int share = 100; share > 40 && wanted(argc, argv, small[i]); share -= 25)
      climb_case(small[i], "rows=4", share / 100.0);
  for (size_t i = 0; i < countof(small); i++)
    for (int share = 75; share > 25 && wanted(argc, argv, small[i]); share -= 25)
      divide_case(small[i], "rows=4", share / 100.0);
  if (wanted(argc, argv, "examples/iris.mesh")) {
    rows_case("examples/iris.mesh", "rows=4");
    small_case("no work", unpriced);
    small_case("other layouts", compare_others);
  }
  if (wanted(argc, argv, "examples/llama.mesh")) long_case();
  for (size_t i = 0; i < countof(by_hand); i++)
    if (wanted(argc, argv, by_hand[i].path))
      price_case(by_hand[i].path, by_hand[i].mesh, by_hand[i].layout);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
