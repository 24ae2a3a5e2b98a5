// Compares the price of layouts (frontend/driver/price.h) with the prediction for the compiled
// program of the whole model, which `check` and `explain` print: times and peak memories must be
// within 1.3 of each other. All examples and the models of bench/models that are not among them, on
// 8, 64 and 512 processors of a CPU, of H100 and of H200, under these layouts:
//
//   batch     the batch is split over all processors
//   tensor    it is split over one axis, widths of layers over the other one
//   zero      the batch and all parameters are split over all processors
//   tight     as batch or zero, with 70 % of the memory that the program needs: the price and the
//             compiler both have to recompute values
//   parts     as batch, with 4 micro-batches; tight parts: as zero, with 70 % of the memory
//   search    the layout that the search finds (only on 8 processors of a CPU)
//
// Beside them layouts of which the short models, from whose costs the price is made, might be
// compiled unlike the whole model: within 1.05 of each other. And layouts with two placements, of
// which only one fits the memory, or is faster within it: the same figures. And searches in which
// each price is compared with that of a pricer that knows no earlier prices: equal in all bits.
//
//   suite_prices              a sample, in which each example, machine and layout occurs
//   suite_prices all          all of them
//   suite_prices [all] MODEL [LAYOUT]   one model, under one of these layouts
//   suite_prices unlike, second or before   only these of the others
#include <glob.h>
#include <math.h>
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/driver/price_ahead.h"
#include "tests/suite/common/random_model.h"

static const double most = 1.3;        // the largest allowed ratio of a price and its prediction
static const double near = 1.05;       // the same of layouts in `unlike`
static const double NO_LIMIT = 0x1p60; // bytes of memory without a limit
static const double tight = 0.7;       // the share of the memory that is left under a limit

static int passed, failed, skipped;

// How an example is made to fit many processors. Rules are without the axis: "h ff" are "h=cols"
// and "ff=cols".
typedef struct Example {
  const char *path;
  const char *batch;  // the dims that are split over all processors
  const char *tensor; // the dims that are split over cols
  const char *larger; // --set for many processors
  const char *deeper; // --set for long loops, which prices extrapolate; NULL: it has no loop
  const char *few;    // --set for 8 processors; NULL: it is as it stands
  bool divides;       // the step can be made of micro-batches
} Example;

static const Example examples[] = {
    {"examples/cifar.mesh", "b", "c1 h", "b=2048", NULL, NULL, true},
    {"examples/clip.mesh", "b", "h", "b=2048", NULL, NULL, true},
    {"examples/depth.mesh", "b", "h", "b=2048", NULL, NULL, true},
    {"examples/dlrm.mesh", "b", "users items", "b=8192", NULL, NULL, true},
    {"examples/gan.mesh", "b", "h", "b=8192", NULL, NULL, true},
    {"examples/gpt.mesh", "b", "heads ff vocab", "b=1024", "depth=24", NULL, true},
    {"examples/gpt2.mesh", "b", "heads ff", "b=1024", "depth=24", "b=8", false},
    {"examples/iris.mesh", "b", "h1", "b=2048", NULL, NULL, true},
    {"examples/llama.mesh", "b", "groups ff vocab", "b=8192", "depth=16", NULL, true},
    {"examples/logistic.mesh", "b", "features", "b=2048", NULL, NULL, true},
    {"examples/lstm.mesh", "b", "k", "b=2048", NULL, NULL, true},
    {"examples/minilm.mesh", "b", "heads ff", "b=1024", "depth=12", NULL, false},
    {"examples/mixup.mesh", "b", "h", "b=2048", NULL, NULL, true},
    {"examples/mlp.mesh", "b", "h", "b=2048", NULL, NULL, true},
    {"examples/mnist.mesh", "b", "h", "b=4096", NULL, NULL, true},
    {"examples/moe.mesh", "g own", "f", "g=1024 e=512", "depth=8", NULL, true},
    {"examples/resnet.mesh", "b", "c1 c4", "b=2048", "blocks=6", NULL, true},
    {"examples/tagger.mesh", "b", "k", "b=2048", NULL, NULL, true},
    {"examples/transformer.mesh", "b", "heads ff", "b=2048", "depth=8", NULL, true},
    {"examples/unet.mesh", "b", "y y2 y4", "b=2048", NULL, NULL, true},
    {"examples/vae.mesh", "b", "h", "b=2048", NULL, NULL, true},
    {"bench/models/charlm.mesh", "b", "heads ff", "b=2048", "depth=12", NULL, false},
    {"bench/models/cnn.mesh", "b", "c1 h", "b=2048", NULL, NULL, false},
    {"bench/models/lm6.mesh", "b", "heads ff vocab", "b=2048", "depth=12", "b=8", false},
    {"bench/models/lstm.mesh", "b", "k", "b=2048", "t=96", NULL, false},
};

// Machines, by the number of processors: 8, 64, 512. NULL is the built-in one, a CPU.
enum { NSIZES = 3 };
static const int processors[NSIZES] = {8, 64, 512};
static const char *const machines[][NSIZES] = {
    {NULL, NULL, NULL}, {"h100x8", "h100x32", "h100x32"}, {"h200x8", "h200x8", "h200x8"}};

typedef enum Kind {
  BATCH,
  TENSOR,
  ZERO,
  TIGHT_BATCH,
  TIGHT_ZERO,
  PARTS,
  TIGHT_PARTS,
  SEARCHED,
  NKINDS
} Kind;
static const struct {
  const char *name;
  bool zero, tight, parts;
} kinds[NKINDS] = {
    [BATCH] = {"batch", false, false, false},
    [TENSOR] = {"tensor", false, false, false},
    [ZERO] = {"zero", true, false, false},
    [TIGHT_BATCH] = {"tight batch", false, true, false},
    [TIGHT_ZERO] = {"tight zero", true, true, false},
    [PARTS] = {"parts", false, false, true},
    [TIGHT_PARTS] = {"tight parts", true, true, true},
    [SEARCHED] = {"search", false, false, false},
};

typedef struct Case {
  const Example *of;
  const char *sets[2]; // lists of --set, each may be NULL
  int size, machine;   // indices of processors[] and machines[]
  Kind kind;
} Case;

// -- a case ---------------------------------------------------------------------------------------

typedef struct Loaded {
  Session s;
  Options o;
  SearchTask task;
  Selected of;
  const char *what; // the case in words
} Loaded;

// Appends "DIM=AXES," for each word of `dims`. Returns the text.
static const char *add_rules(Arena *a, const char *text, const char *dims, const char *axes) {
  for (const char *d = dims; *d; d += strcspn(d, " "), d += *d == ' ')
    text = arena_printf(a, "%s%s%.*s=%s", text, *text ? "," : "", (int)strcspn(d, " "), d, axes);
  return text;
}

static const char *layout_of(Arena *a, const Case *c) {
  const char *batch = add_rules(a, "", c->of->batch, c->kind == TENSOR ? "rows" : "rows+cols");
  if (c->kind == TENSOR) return add_rules(a, batch, c->of->tensor, "cols");
  return kinds[c->kind].zero ? arena_printf(a, "%s,parameters/all=rows+cols", batch) : batch;
}

typedef struct Words {
  Arena *a;
  int n;
  char *at[32];
} Words;

static void add_word(Words *w, const char *text, size_t n) {
  w->at[w->n++] = arena_text(w->a, text, n);
  w->at[w->n] = NULL;
}

static void add_option(Words *w, const char *name, const char *text) {
  add_word(w, name, strlen(name));
  add_word(w, text, strlen(text));
}

static void add_sets(Words *w, const char *sets) {
  for (const char *d = sets; d && *d; d += strcspn(d, " "), d += *d == ' ') {
    add_word(w, "--set", 5);
    add_word(w, d, strcspn(d, " "));
  }
}

// Begins a session with the command line `meshc plan PATH`, to which the caller adds.
static Words begin(Loaded *l, const char *path) {
  *l = (Loaded){.s = {.arena = arena_new()}};
  Session *s = &l->s;
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  s->opt = &l->o;
  Words w = {.a = s->arena};
  add_option(&w, "meshc", "plan");
  add_word(&w, path, strlen(path));
  return w;
}

static void add_machine(Words *w, const char *machine) {
  if (machine) add_option(w, "--machine", machine), add_option(w, "--device", "cuda");
}

// Loads the model with the prices of its mesh. The words of the command line become l->what.
static bool load(Loaded *l, Words *w) {
  Session *s = &l->s;
  l->what = "";
  for (int i = 2; i < w->n; i++) l->what = arena_printf(s->arena, "%s%s ", l->what, w->at[i]);
  return options_parse(&l->o, s->arena, s->diag, w->n, w->at) && session_load(s) &&
         planner_task(s, 1, &s->model->mesh, 1, &l->task) && planner_prices(s, NULL, &l->task) &&
         session_select(s, &l->of);
}

static bool load_case(Loaded *l, const Case *c) {
  Words w = begin(l, c->of->path);
  Arena *a = l->s.arena;
  for (int i = 0; i < 2; i++) add_sets(&w, c->sets[i]);
  if (kinds[c->kind].parts) add_option(&w, "--set", "train.accumulate=4");
  add_machine(&w, machines[c->machine][c->size]);
  add_option(&w, "--mesh", arena_printf(a, "rows=%d,cols=2", processors[c->size] / 2));
  add_option(&w, "--layout", c->kind == SEARCHED ? "none" : layout_of(a, c));
  return load(l, &w);
}

static double apart(double x, double y) { return x > y ? x / y : y / x; }

// The worst ratios of each kind of layout so far.
static double worst_time[NKINDS], worst_peak[NKINDS];

// Compares the price of a choice with the prediction for its program. Returns NULL, or what is
// wrong.
static const char *compare(Loaded *l, Kind kind, const SearchChoice *priced) {
  SearchChoice whole = *priced;
  whole.price.final = false;
  if (!planner_confirm(&l->s, &l->of, &whole)) return "the program cannot be compiled";
  const SearchPrice *x = &priced->price, *y = &whole.price;
  double time = apart(x->seconds, y->seconds), peak = apart(x->peak, y->peak);
  bool fits = y->peak <= l->task.memory;
  if (fits) worst_time[kind] = fmax(worst_time[kind], time);
  worst_peak[kind] = fmax(worst_peak[kind], peak);
  if (time > 1.1 || peak > 1.1)
    printf("  %s%s: time %.3f and memory %.3f of the prediction, %.4g us\n", l->what,
           kinds[kind].name, x->seconds / y->seconds, x->peak / y->peak, 1e6 * y->seconds);
  if (!fits && x->peak > l->task.memory && peak <= most) return NULL; // it is refused: no step
  if (time <= most && peak <= most && fits == (x->peak <= l->task.memory)) return NULL;
  return arena_printf(l->s.arena,
                      "price %.4g s, %.0f bytes; program %.4g s, %.0f bytes; memory %.0f",
                      x->seconds, x->peak, y->seconds, y->peak, l->task.memory);
}

static bool set_price(const Loaded *l, SearchChoice *c) {
  return l->task.price(l->task.pricer, c->mesh, &c->layout, (SearchHint){0}, &c->price);
}

static const char *check_layout(Loaded *l, Kind kind) {
  SearchChoice c = {.mesh = &l->s.model->mesh, .layout = l->s.model->layout};
  l->task.memory = l->s.budget = NO_LIMIT;
  if (!set_price(l, &c)) return "the layout cannot be priced";
  if (kinds[kind].tight) {
    l->task.memory = l->s.budget = floor(tight * c.price.peak);
    if (!set_price(l, &c)) return "the layout cannot be priced with little memory";
  }
  return compare(l, kind, &c);
}

static const char *check_search(Loaded *l) {
  SearchResult *r;
  if (!planner_search(&l->s, &l->task, &r)) return "the search found nothing";
  return compare(l, SEARCHED, r->at);
}

// Ends a session, and counts what was wrong; NULL: nothing.
static void end(Loaded *l, const char *kind, const char *wrong) {
  if (wrong) {
    printf("FAIL %s%s: %s\n", l->what, kind, wrong);
    diag_print(l->s.diag, stdout, false);
  }
  failed += wrong != NULL;
  passed += !wrong;
  arena_free(l->s.arena);
}

static void run_case(const Case *c) {
  Loaded l;
  const char *wrong = !load_case(&l, c)     ? "the model cannot be planned"
                      : c->kind == SEARCHED ? check_search(&l)
                                            : check_layout(&l, c->kind);
  end(&l, kinds[c->kind].name, wrong);
}

// -- short models that might be compiled unlike the whole one --------------------------------------

static const struct {
  const char *path, *sets, *machine, *mesh, *layout;
} unlike[] = {
    // The search of a placement keeps redundant work in only some of them.
    {"examples/moe.mesh",
     "vocab=32000 d=2048 f=8192 depth=12 train.precision=bf16 g=512 n=2048 e=64 cap=40", "h100x512",
     "hosts=8,gpus=8", "g=hosts,own=hosts,f=gpus,vocab=gpus,optimizer/all=hosts"},
    // Other orders are worth their copies in four layers, but not in three.
    {"examples/depth.mesh", "train.accumulate=2", NULL, "rows=4,cols=2",
     "b=rows,y=cols,soft/flat=cols,optimizer/all=cols+rows"},
    // It pays to reduce sums over the last axis first in three layers, but not in four.
    {"examples/gpt.mesh", "t=2048 vocab=50304 train.precision=bf16 b=1536 heads=96 k=128 depth=16",
     "a100x1024", "hosts=128,gpus=8",
     "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus"},
};

static const char *compare_closely(Loaded *l) {
  SearchChoice c = {.mesh = &l->s.model->mesh, .layout = l->s.model->layout}, whole = c;
  l->task.memory = l->s.budget = NO_LIMIT;
  if (!set_price(l, &c) || !planner_confirm(&l->s, &l->of, &whole))
    return "the layout cannot be priced";
  const SearchPrice *x = &c.price, *y = &whole.price;
  if (apart(x->seconds, y->seconds) <= near && apart(x->peak, y->peak) <= near) return NULL;
  return arena_printf(l->s.arena, "price %.4g s, %.0f bytes; program %.4g s, %.0f bytes",
                      x->seconds, x->peak, y->seconds, y->peak);
}

static void run_unlike(void) {
  for (size_t i = 0; i < countof(unlike); i++) {
    Loaded l;
    Words w = begin(&l, unlike[i].path);
    add_sets(&w, unlike[i].sets);
    add_machine(&w, unlike[i].machine);
    add_option(&w, "--mesh", unlike[i].mesh);
    add_option(&w, "--layout", unlike[i].layout);
    end(&l, "unlike", load(&l, &w) ? compare_closely(&l) : "the model cannot be planned");
  }
}

// -- two placements --------------------------------------------------------------------------------

// Random models whose placements with more redundant work and with less need different memory.
static const struct {
  uint64_t seed;
  const char *mesh, *layout;
  double memory;
} second[] = {
    {0, "rows=4,cols=2", "b=rows,parameters/all=cols+rows", 84585},
    {0, "rows=4,cols=2", "b=cols+rows,parameters/all=rows", 146741},
    {1, "rows=2,cols=2", "b=rows+cols,soft/d=rows+cols,parameters/all=rows+cols", 5660392},
};

static const char *compare_within(Loaded *l, double memory) {
  SearchChoice c = {.mesh = &l->s.model->mesh, .layout = l->s.model->layout}, whole = c;
  SearchPrice none;
  l->task.memory = l->s.budget = memory;
  if (!set_price(l, &c) || !planner_confirm(&l->s, &l->of, &whole) ||
      !l->task.price(l->task.pricer, c.mesh, &c.layout, (SearchHint){.as_is = true}, &none))
    return "the layout cannot be priced";
  const SearchPrice *x = &c.price, *y = &whole.price;
  if (y->peak > memory || x->unlimited_peak <= memory) return "the case is none";
  if (none.peak <= memory && none.seconds < y->seconds) return "without recomputation it is faster";
  if (apart(x->seconds, y->seconds) < 1 + 1e-9 && x->peak == y->peak) return NULL;
  return arena_printf(l->s.arena, "price %.6g s, %.0f bytes; program %.6g s, %.0f bytes",
                      x->seconds, x->peak, y->seconds, y->peak);
}

static void count_lowered(void *watcher, const char *pass, const Graph *g) {
  (void)g;
  *(int *)watcher += !strcmp(pass, "lower");
}

// Compiles up to fusion. Each placement must go through the passes once.
static const char *compile_both(Loaded *l) {
  int lowered = 0;
  Compilation c;
  if (!session_passes(&l->s, l->s.arena, l->of.graph, l->of.purpose, count_lowered, &lowered, &c))
    return "the model cannot be compiled";
  return lowered == 2 ? NULL : arena_printf(l->s.arena, "%d graphs were lowered", lowered);
}

static void run_second(void) {
  Arena *a = arena_new();
  for (size_t i = 0; i < countof(second); i++) {
    Loaded l;
    Words w = begin(&l, arena_printf(a, "random%llu.mesh", (unsigned long long)second[i].seed));
    l.s.text = random_model(a, second[i].seed);
    l.s.text_bytes = strlen(l.s.text);
    add_machine(&w, "h100x8");
    add_option(&w, "--mesh", second[i].mesh);
    add_option(&w, "--layout", second[i].layout);
    const char *wrong = load(&l, &w) ? compile_both(&l) : "the model cannot be planned";
    end(&l, "second placement", wrong ? wrong : compare_within(&l, second[i].memory));
  }
  arena_free(a);
}

// -- what was priced before ------------------------------------------------------------------------

// Searches in which many layouts ask the same, or have equal programs: of models that are their own
// only samples, and of models with several samples.
static const struct {
  const char *path, *sets, *memory;
} before[] = {
    {"examples/logistic.mesh", "", "900"},
    {"examples/dlrm.mesh", "", "30KiB"},
    {"examples/gpt2.mesh", "", "48MiB"},
    {"examples/minilm.mesh", "depth=12", "12MiB"},
};

// A pricer that knows earlier prices, and what was wrong with one of them.
typedef struct Twice {
  Pricer *known;
  const char *wrong;
  Arena *a;
} Twice;

static bool same_price(const SearchPrice *x, const SearchPrice *y) {
  return x->seconds == y->seconds && x->products == y->products && x->kernels == y->kernels &&
         x->transfer == y->transfer && x->sent == y->sent && x->peak == y->peak &&
         x->again == y->again && x->unlimited == y->unlimited && x->kept == y->kept &&
         x->unlimited_peak == y->unlimited_peak && x->open == y->open;
}

static bool price_twice(void *with, const Mesh *mesh, const Layout *layout, SearchHint hint,
                        SearchPrice *out) {
  Twice *t = with;
  Session bare = *t->known->s;
  Pricer fresh = *t->known;
  SearchPrice alone;
  bare.known = NULL;
  fresh.s = &bare;
  fresh.asked = fresh.known = NULL;
  bool made = price_layout(t->known, mesh, layout, hint, out);
  bool other = price_layout(&fresh, mesh, layout, hint, &alone);
  if (made != other || (made && !same_price(out, &alone)))
    t->wrong = arena_printf(t->a, "%s: %.17g s and %.17g, %.0f bytes and %.0f",
                            layout_option(t->a, mesh, layout), out->seconds, alone.seconds,
                            out->peak, alone.peak);
  return made;
}

static void ahead_twice(void *with, uint32_t n, const SearchAsk *ask) {
  price_ahead(((const Twice *)with)->known, n, ask);
}

static const char *search_twice(Loaded *l) {
  Twice t = {.known = l->task.pricer, .a = l->s.arena};
  l->task.price = price_twice;
  l->task.ahead = ahead_twice;
  l->task.pricer = &t;
  SearchResult *r = search_best(l->s.arena, &l->task);
  return r->over_memory ? t.wrong : "the case is none";
}

static void run_before(void) {
  for (size_t i = 0; i < countof(before); i++) {
    Loaded l;
    Words w = begin(&l, before[i].path);
    add_sets(&w, before[i].sets);
    add_option(&w, "--mesh", "rows=4,cols=2");
    add_option(&w, "--memory", before[i].memory);
    end(&l, "priced before", load(&l, &w) ? search_twice(&l) : "the model cannot be planned");
  }
}

// -- all cases ------------------------------------------------------------------------------------

// Runs an example with one list of settings on all sizes and machines, under all layouts, or under
// the one with the name `only`. Of `every` cases one is run, the others are skipped; `*n` counts
// them.
static void run_cases(Case *c, int every, const char *only, int *n) {
  for (c->size = 0; c->size < NSIZES; c->size++) {
    for (c->machine = 0; c->machine < (int)countof(machines); c->machine++)
      for (c->kind = 0; c->kind < NKINDS; c->kind++) {
        bool large = c->size || c->sets[1] || kinds[c->kind].parts;
        c->sets[0] = large ? c->of->larger : c->of->few;
        if (c->kind == SEARCHED && (c->size || c->machine || c->sets[1])) continue;
        if (kinds[c->kind].parts && !c->of->divides) continue;
        if (only && strcmp(only, kinds[c->kind].name) != 0) continue;
        if ((*n)++ % every == 0)
          run_case(c);
        else
          skipped++;
      }
  }
}

static bool is_known(const char *path) {
  for (size_t i = 0; i < countof(examples); i++)
    if (!strcmp(examples[i].path, path)) return true;
  return false;
}

// Each example must have a row in examples[].
static bool all_known(void) {
  glob_t files;
  bool known = glob("examples/*.mesh", 0, NULL, &files) == 0;
  for (size_t i = 0; known && i < files.gl_pathc; i++)
    if (!is_known(files.gl_pathv[i])) {
      printf("FAIL %s has no row in tests/suite/prices.c\n", files.gl_pathv[i]);
      known = false;
    }
  globfree(&files);
  return known;
}

int main(int argc, char **argv) {
  enum { EVERY = 17 }; // no common factor with the numbers of sizes, machines and layouts
  bool all = argc > 1 && !strcmp(argv[1], "all");
  const char *one = argc > 1 + all ? argv[1 + all] : NULL;
  const char *only = argc > 2 + all ? argv[2 + all] : NULL;
  int n = 0;
  failed += !all_known();
  if (!one || !strcmp(one, "unlike")) run_unlike();
  if (!one || !strcmp(one, "second")) run_second();
  if (!one || !strcmp(one, "before")) run_before();
  for (size_t i = 0; i < countof(examples); i++) {
    Case c = {.of = &examples[i]};
    if (one && strcmp(one, c.of->path) != 0) continue;
    run_cases(&c, all ? 1 : EVERY, only, &n);
    c.sets[1] = c.of->deeper;
    if (c.of->deeper) run_cases(&c, all ? 1 : EVERY, only, &n);
  }
  for (int k = 0; k < NKINDS; k++)
    printf("%-11s at most %.3f times the time, %.3f times the memory\n", kinds[k].name,
           worst_time[k], worst_peak[k]);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
