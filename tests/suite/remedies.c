// Takes the remedies that `explain` prints, and applies them: every layout rule left out, every
// layout(...) taken out of the text of the model, every changed layout that was compiled, the mesh
// without the processors that have no part of a dim, and the memory budget. Then takes the ways out
// that an error about too little memory names: a larger budget, layouts and micro-batches. The
// model is loaded with --mesh, --layout, --memory and --set as a user would write them, and
// compiled as `check` compiles it.
// Calls, bytes sent, flops and memory must be those that were printed, and the predicted time
// within 1 %. No remedy that is advised may make the step slower or need more memory.
//
//   remedies [all]    all: more models, and every changed layout that is tried
#include <math.h>
#include <string.h>

#include "frontend/driver/check.h"
#include "frontend/driver/memory_remedies.h"
#include "frontend/report/explain.h"

static int passed, failed;
static uint32_t nways; // ways out that were taken
static bool all;

static void fault(const char *run, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void fault(const char *run, const char *remedy, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("FAIL %s, %s: ", run, remedy);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  failed++;
}

// -- a session ----------------------------------------------------------------------------------

typedef struct Case {
  const char *model, *mesh, *layout, *more; // `more`: a further option and its argument, or NULL
  const char *argument;
  const char *memory; // argument of --memory, or NULL
  const char *parts;  // "train.accumulate=4", an argument of --set, or NULL
  bool large;         // only with `all`
} Case;

typedef struct Loaded {
  Session s;
  Options o;
} Loaded;

// Loads the model under a layout. If `text` is not NULL, it replaces the text of the file.
static bool load(Loaded *l, const Case *c, const char *layout, const char *text) {
  *l = (Loaded){.s = {.arena = arena_new()}};
  Session *s = &l->s;
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  s->opt = &l->o;
  s->text = text;
  s->text_bytes = text ? strlen(text) : 0;
  const char *word[] = {"meshc",     "explain",
                        c->model,    "--mesh",
                        c->mesh,     "--layout",
                        layout,      c->more,
                        c->argument, c->memory ? "--memory" : NULL,
                        c->memory,   c->parts ? "--set" : NULL,
                        c->parts};
  char *argv[countof(word) + 1] = {NULL};
  int n = 0;
  for (size_t i = 0; i < countof(word); i++)
    if (word[i]) argv[n++] = arena_text(s->arena, word[i], strlen(word[i]));
  bool ok = options_parse(&l->o, s->arena, s->diag, n, argv) && session_load(s);
  if (!ok) diag_print(s->diag, stdout, false);
  return ok;
}

// -- applying a remedy --------------------------------------------------------------------------

static bool equal_numbers(const char *run, const WhatIf *x, const Compilation *made) {
  const Foreseen *f = &x->step;
  int64_t calls = 0;
  for (uint32_t i = 0; i < made->facts->n; i++) calls += made->facts->fact[i].times;
  const struct {
    const char *what;
    int64_t said, is;
  } row[] = {{"calls", f->calls, calls},
             {"bytes sent", f->bytes, made->facts->wire_bytes},
             {"flops", f->work.flops, made->partition.flops},
             {"parameters and optimizer", f->kept,
              made->partition.parameter_bytes + made->partition.optimizer_bytes},
             {"peak", f->peak, program_bytes(made->compiled->program)}};
  for (size_t i = 0; i < countof(row); i++)
    if (row[i].said != row[i].is)
      return fault(run, x->text, "%s: %lld was said, it is %lld", row[i].what,
                   (long long)row[i].said, (long long)row[i].is),
             false;
  return true;
}

// Loads and compiles the model with the remedy x applied, and compares.
static void apply(const Case *c, const WhatIfs *w, const WhatIf *x, const char *text) {
  Loaded l;
  CheckFacts facts;
  Arena *a = arena_new();
  const char *run = arena_printf(a, "%s --mesh %s --layout %s", c->model, c->mesh, c->layout),
             *layout = layout_option(a, x->step.choice.mesh, &x->step.choice.layout);
  Case changed = *c;
  changed.mesh = mesh_option(a, x->step.choice.mesh);
  if (!load(&l, &changed, layout, text) || !check_compile(&l.s, &facts)) {
    fault(run, x->text, "--layout %s is refused", layout);
  } else {
    double said = x->step.time->seconds, is = session_simulate(&l.s, &facts.made)->seconds;
    bool good = equal_numbers(run, x, &facts.made);
    if (good && fabs(is - said) > 0.01 * is)
      good = false, fault(run, x->text, "step: %g s was said, it is %g s", said, is);
    bool worse = is > w->now.time->seconds * (1 + 1e-6) || x->step.peak > w->now.peak;
    if (good && worse && !what_if_worse(&w->now, &x->step))
      good = false, fault(run, x->text, "it is advised, and makes the step slower or larger");
    passed += good;
  }
  arena_free(l.s.arena);
  arena_free(a);
}

static const char *run_text(Arena *a, const Case *c) {
  return arena_printf(a, "%s --mesh %s --layout %s", c->model, c->mesh, c->layout);
}

// Compiles a changed case, and compares its peak and its predicted time with those that were said.
static void apply_changed(const Case *changed, const char *run, const char *remedy, int64_t peak,
                          double seconds) {
  Loaded l;
  CheckFacts facts;
  if (!load(&l, changed, changed->layout, NULL) || !check_compile(&l.s, &facts)) {
    fault(run, remedy, "it is refused");
    diag_print(l.s.diag, stdout, false);
  } else {
    int64_t needs = program_bytes(facts.made.compiled->program);
    double is = session_simulate(&l.s, &facts.made)->seconds;
    bool good = needs == peak && fabs(is - seconds) <= 0.01 * is;
    if (!good)
      fault(run, remedy, "peak %lld, step %g s were said; they are %lld, %g s", (long long)peak,
            seconds, (long long)needs, is);
    passed += good;
  }
  arena_free(l.s.arena);
}

// Compiles the model within a memory budget.
static void apply_budget(const Case *c, int64_t budget, int64_t peak, double seconds) {
  Arena *a = arena_new();
  Case changed = *c;
  changed.memory = arena_printf(a, "%lld", (long long)budget);
  apply_changed(&changed, run_text(a, c), arena_printf(a, "--memory %s", changed.memory), peak,
                seconds);
  arena_free(a);
}

// -- too little memory ----------------------------------------------------------------------------

// Compiles the step that a way out names. Where it was compiled with the limit, so is this.
static void apply_way(const Case *c, const MemoryWays *w, const MemoryWay *way) {
  Arena *a = arena_new();
  Case changed = *c;
  changed.layout = layout_option(a, way->at.choice.mesh, &way->at.choice.layout);
  if (way->limited) changed.memory = arena_printf(a, "%.0f", w->most);
  if (way->micro_batches)
    changed.parts = arena_printf(a, "train.accumulate=%lld", (long long)way->micro_batches);
  bool good = (double)way->at.peak <= w->most || (w->n == 1 && !way->micro_batches);
  if (!good) fault(run_text(a, c), way->option, "it is named, and does not fit");
  // A step that does not fit is refused with an error that has its peak: no prices to compare.
  if (good && (double)way->at.peak <= w->most)
    apply_changed(&changed, run_text(a, c), way->option, way->at.peak, way->at.time->seconds);
  arena_free(a);
}

// Returns the ways out where there is only a share of the memory that the model needs at least,
// *least, or NULL.
static const MemoryWays *find_ways(const Case *c, double share, Loaded *l, int64_t *least) {
  Selected of;
  Compilation made;
  if (!load(l, c, c->layout, NULL)) return NULL;
  l->s.trial = true; // too little memory is no error
  l->s.budget = 1;
  if (!session_make(&l->s, "program", &of, &made)) return NULL;
  *least = program_bytes(made.compiled->program);
  return memory_ways(&l->s, &made, floor(share * (double)*least));
}

static void ways_of(const Case *c, double share) {
  Loaded l;
  int64_t least;
  const MemoryWays *w = find_ways(c, share, &l, &least);
  if (w) {
    apply_budget(c, least, least, w->seconds);
    for (uint32_t i = 0; i < w->n; i++) apply_way(c, w, &w->way[i]);
    nways += w->n;
  } else {
    fault(c->model, c->layout, "has no ways out");
  }
  arena_free(l.s.arena);
}

// -- all remedies of a case -----------------------------------------------------------------------

// Returns the text of the model without the layout(...) at `pos`: its first argument, in
// parentheses, takes its place.
static const char *text_without(Arena *a, const char *text, Pos pos) {
  const char *at = text;
  for (uint32_t line = 1; line < pos.line; line++) at = strchr(at, '\n') + 1;
  const char *open = strchr(at + pos.col - 1, '('), *end = open, *comma = NULL;
  int depth = 0;
  do {
    depth += (*end == '(' || *end == '[') - (*end == ')' || *end == ']');
    if (*end == ',' && depth == 1 && !comma) comma = end;
  } while (*end++ && depth > 0);
  if (!comma) comma = end - 1;
  return arena_printf(a, "%.*s%.*s)%s", (int)(at + pos.col - 1 - text), text, (int)(comma - open),
                      open, end);
}

static void remedies_of(const Case *c) {
  Loaded l;
  Selected of;
  Compilation made;
  if (!load(&l, c, c->layout, NULL) || !session_make(&l.s, "program", &of, &made)) {
    fault(c->model, c->layout, "refused");
    return;
  }
  Explain *e = explain_new(&l.s, &made, &of, (WhatIfAsk){.depth = WHAT_IF_ALL, .budget = true});
  if (!e) {
    fault(c->model, c->layout, "cannot be explained");
    return;
  }
  const WhatIfs *w = e->what_if;
  for (uint32_t i = 0; i < w->nrules; i++)
    if (w->without[i].known) apply(c, w, &w->without[i], NULL);
  for (uint32_t i = 0; i < w->npins; i++)
    if (w->without[w->nrules + i].known)
      apply(c, w, &w->without[w->nrules + i], text_without(l.s.arena, l.s.text, w->pin[i].pos));
  for (uint32_t i = 0; i < w->ntried; i++) apply(c, w, &w->tried[i], NULL);
  for (uint32_t i = 0; i < w->nidle; i++)
    if (w->fewer[i].known) apply(c, w, &w->fewer[i], NULL);
  const BudgetTrial *b = &w->budget;
  if (b->tried && b->budget) apply_budget(c, b->budget, b->peak, b->seconds);
  arena_free(l.s.arena);
  static const double shares[] = {0.9, 0.5};
  for (size_t i = 0; i < (all ? countof(shares) : 1); i++) ways_of(c, shares[i]);
}

#define MODEL(name) "examples/" name ".mesh"
#define OTHER(name) "tests/remedies/" name ".mesh"
static const Case cases[] = {
    {.model = "tests/models/pinned.mesh", .mesh = "rows=2,cols=2", .layout = "d=cols"},
    {.model = "tests/gspmd/reshard3.mesh", .mesh = "x=2,y=2", .layout = "none"},
    {.model = "tests/gspmd/moe_annotated.mesh", .mesh = "b=2,c=2", .layout = "none"},
    {.model = "tests/questions/mixer.mesh",
     .mesh = "data=2,tall=2,deep=2",
     .layout = "photos=data,high=tall,down=tall,inner=deep"},
    {.model = "tests/questions/translate.mesh",
     .mesh = "hosts=2,gpus=4",
     .layout = "pairs=hosts,written=gpus"},
    {.model = "tests/questions/ranking.mesh",
     .mesh = "half=2,place=4",
     .layout = "queries=half,experts=place"},
    {.model = "tests/questions/graph.mesh",
     .mesh = "line=4,column=2",
     .layout = "bonds=line,message=column"},
    {.model = "tests/questions/basket.mesh",
     .mesh = "rack=3,board=2,core=2",
     .layout = "b=rack,items=board,g=core"},
    {.model = OTHER("towers"), .mesh = "rows=2,cols=2", .layout = "b=rows,user=cols,item=cols"},
    {.model = OTHER("towers"), .mesh = "rows=4", .layout = "b=rows,user=rows", .large = true},
    {.model = OTHER("segments"),
     .mesh = "rows=2,cols=2",
     .layout = "b=rows,y=cols,y2=cols",
     .large = true},
    {.model = OTHER("experts"),
     .mesh = "rows=2,cols=2",
     .layout = "b=rows,expert=cols,soft/t=cols,optimizer/all=rows"},
    {.model = OTHER("experts"),
     .mesh = "rows=4",
     .layout = "b=rows,parameters/all=rows",
     .more = "--machine",
     .argument = "h100x8",
     .large = true},
    {.model = OTHER("speech"), .mesh = "rows=2,cols=2", .layout = "b=rows,v=cols", .large = true},
    {.model = OTHER("speech"),
     .mesh = "rows=2,cols=2",
     .layout = "frame=rows,place=cols,gradients/all=rows",
     .large = true},
    {.model = OTHER("atoms"), .mesh = "rows=5", .layout = "atom=rows", .large = true},
    {.model = OTHER("atoms"),
     .mesh = "rows=2,cols=2",
     .layout = "b=rows,h=cols",
     .more = "--set",
     .argument = "train.accumulate=4"},
    {.model = MODEL("iris"), .mesh = "rows=2,cols=2", .layout = "b=rows,h1=cols"},
    {.model = MODEL("mlp"), .mesh = "rows=2,cols=2", .layout = "b=rows,h=cols"},
    {.model = MODEL("mlp"), .mesh = "rows=5", .layout = "b=rows"},
    {.model = MODEL("mlp"), .mesh = "rows=4", .layout = "b=rows,parameters/all=rows"},
    {.model = MODEL("mnist"), .mesh = "rows=2,cols=2", .layout = "b=rows,h=cols"},
    {.model = MODEL("vae"), .mesh = "rows=2,cols=2", .layout = "b=rows,h=cols"},
    {.model = MODEL("dlrm"), .mesh = "rows=2,cols=2", .layout = "b=rows,users=cols,items=cols"},
    {.model = MODEL("moe"), .mesh = "rows=4", .layout = "g=rows,own=rows"},
    {.model = MODEL("gpt"), .mesh = "rows=2,cols=2", .layout = "b=rows,heads=cols"},
    {.model = MODEL("gpt"),
     .mesh = "rows=2,cols=4",
     .layout = "b=rows,heads=cols,ff=cols,optimizer/all=rows",
     .more = "--machine",
     .argument = "h100x8",
     .large = true},
    {.model = MODEL("llama"),
     .mesh = "rows=2,cols=2",
     .layout = "b=rows,groups=cols,ff=cols,vocab=cols",
     .large = true},
    {.model = MODEL("lstm"), .mesh = "rows=2,cols=2", .layout = "b=rows,k=cols", .large = true},
    {.model = MODEL("cifar"), .mesh = "rows=2,cols=2", .layout = "b=rows,c1=cols", .large = true},
    {.model = MODEL("unet"), .mesh = "rows=2", .layout = "y=rows,y2=rows,y4=rows", .large = true},
    {.model = MODEL("tagger"), .mesh = "rows=2,cols=2", .layout = "b=rows,k=cols", .large = true},
    {.model = MODEL("transformer"),
     .mesh = "rows=2,cols=2",
     .layout = "b=rows,heads=cols,ff=cols,soft/t=cols",
     .large = true},
};

int main(int argc, char **argv) {
  all = argc > 1 && !strcmp(argv[1], "all");
  for (size_t i = 0; i < countof(cases); i++)
    if (all || !cases[i].large) remedies_of(&cases[i]);
  printf("%u ways out of too little memory\n", nways);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
