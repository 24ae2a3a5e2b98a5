// Tests what `plan` finds for the cases of tests/suite/common/plan_cases.h:
//   by hand   the layout to use is predicted to take at most a thousandth longer than the fastest
//             of the layouts written by hand that fit the memory
//   price     the price in the search, from short models, and the prediction for the whole program
//             are within 1.3 of each other; also of each layout by hand that fits and may be the
//             fastest, and its program fits, too
//   work      the search prices no more layouts than the case allows
//   whole     dims that should stay whole, such as the width of a head, are not split
//   page      docs/plans.md has the case as it would be printed now, but for what the search took
//
//   search_cases           the cases that a test run has time for
//   search_cases all       all cases
//   search_cases NAME...   these
//   search_cases page      prints docs/plans.md, from all cases; with NAME... after it, their parts
//   search_cases time      tests only how long the search takes, of all cases; with NAME... after
//                          it, of these. The machine should have nothing else to do
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/driver/plan.h"
#include "tests/suite/common/plan_cases.h"

static const double ALIKE = 1.001; // a layout is as fast as another one that takes less by this
static const double NEAR = 1.3;    // price and prediction

static int passed, failed;
static FILE *report; // where results of tests go: not to the page
static FILE *part;   // the part of docs/plans.md for the case at hand

static void count(const PlanCase *c, const char *what, const char *wrong) {
  if (wrong) fprintf(report, "FAIL %s, %s: %s\n", c->name, what, wrong);
  failed += wrong != NULL;
  passed += !wrong;
}

// -- plans --------------------------------------------------------------------------------------

typedef struct Plan {
  Session s;
  Options o;
  PlanReport found;
  SearchPrice searched; // price in the search of the layout to use
  double seconds;       // processor time of the search
  double elapsed;       // seconds that it took
} Plan;

// A layout by hand with its price. whole: the prediction for its whole program, or its price.
typedef struct Priced {
  const HandLayout *hand;
  bool priced, fits, compiled, usable; // usable: as far as its whole program was predicted
  SearchPrice price, whole;
} Priced;

// Splits a text at blanks, adds the words to argv and returns their new number.
static int add_words(Arena *a, int n, char **argv, int most, const char *text) {
  char *rest, *copy = arena_text(a, text, strlen(text));
  for (char *w = strtok_r(copy, " ", &rest); w && n < most; w = strtok_r(NULL, " ", &rest))
    argv[n++] = w;
  return n;
}

// Loads the model of a case with further options. The caller frees p->s.arena.
static bool load(Plan *p, const PlanCase *c, const char *options) {
  char *argv[64] = {(char[]){"meshc"}, (char[]){"plan"}};
  *p = (Plan){.s = {.arena = arena_new()}};
  Session *s = &p->s;
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  s->opt = &p->o;
  int n = add_words(s->arena, 2, argv, countof(argv), c->model);
  n = add_words(s->arena, n, argv, countof(argv), options);
  n = add_words(s->arena, n, argv, countof(argv), "--device cuda");
  return options_parse(&p->o, s->arena, s->diag, n, argv) && session_load(s);
}

// Sets p->searched.
static bool price_searched(Plan *p) {
  const SearchChoice *use = p->found.use;
  SearchTask t = p->found.task;
  Session *divided = arena_new_of(p->s.arena, Session);
  if (use->accumulate &&
      (!planner_accumulated(&p->s, use->accumulate, divided) || !planner_prices(divided, NULL, &t)))
    return false;
  return t.price(t.pricer, use->mesh, &use->layout, (SearchHint){0}, &p->searched);
}

// Plans a case as the command does. The caller frees p->s.arena.
static bool make_plan(Plan *p, const PlanCase *c) {
  double start = (double)clock() / CLOCKS_PER_SEC, begin = clock_seconds();
  bool ok = load(p, c, c->where) && plan_make(&p->s, &p->found);
  p->seconds = (double)clock() / CLOCKS_PER_SEC - start;
  p->elapsed = clock_seconds() - begin;
  ok = ok && price_searched(p);
  if (!ok) diag_print(p->s.diag, report, false);
  return ok;
}

static const char *accumulate_option(Arena *a, int64_t n) {
  return n ? arena_printf(a, " --set train.accumulate=%lld", (long long)n) : "";
}

// Returns the options of a case for a layout by hand: the mesh takes the place of --processors.
static const char *hand_options(Arena *a, const PlanCase *c, const HandLayout *h) {
  const char *machine = strstr(c->where, "--machine");
  return arena_printf(a, "%s --mesh %s --layout %s%s", machine, h->mesh ? h->mesh : c->mesh,
                      h->layout, accumulate_option(a, h->accumulate));
}

// Returns whether `plan` would compile the whole program of a layout by hand. The graph of `of` has
// all micro-batches.
static bool is_compiled(const Selected *of, const Priced *p) {
  SearchChoice c = {.accumulate = p->hand->accumulate ? 1 : 0, .price = p->price};
  return planner_compiles(of, &c);
}

// Prices a layout by hand; if it fits the memory and its price is at most `near` seconds, also
// predicts the time of its whole program.
static void price_hand(const PlanCase *c, double near, Priced *out) {
  Plan p;
  Selected of;
  Arena *a = arena_new();
  bool ok = load(&p, c, hand_options(a, c, out->hand));
  Session *s = &p.s;
  SearchTask *t = &p.found.task;
  ok = ok && planner_task(s, 1, &s->model->mesh, 1, t) && planner_prices(s, NULL, t) &&
       session_select(s, &of) &&
       t->price(t->pricer, &s->model->mesh, &s->model->layout, (SearchHint){0}, &out->price);
  out->fits = ok && out->price.peak <= t->memory;
  SearchChoice choice = {.mesh = ok ? &s->model->mesh : NULL, .price = out->price};
  if (ok) choice.layout = s->model->layout;
  out->compiled = out->fits && out->price.seconds <= near && is_compiled(&of, out);
  if (out->compiled) ok = planner_confirm(s, &of, &choice);
  out->whole = choice.price;
  out->priced = ok;
  out->usable = ok && out->fits && out->whole.peak <= t->memory;
  if (!ok) diag_print(s->diag, report, false);
  arena_free(s->arena);
  arena_free(a);
}

static double apart(double x, double y) { return fmax(x / y, y / x); }

// Tests the price of a layout against the prediction for its whole program.
static void test_price(const PlanCase *c, Arena *a, const char *layout, const SearchPrice *price,
                       const SearchPrice *whole) {
  bool near =
      apart(price->seconds, whole->seconds) <= NEAR && apart(price->peak, whole->peak) <= NEAR;
  count(c, "price",
        near ? NULL
             : arena_printf(a, "%s: %.3f ms and %s, the whole program %.3f ms and %s", layout,
                            1e3 * price->seconds, bytes_text(a, (int64_t)price->peak),
                            1e3 * whole->seconds, bytes_text(a, (int64_t)whole->peak)));
}

static void test_hand_price(const PlanCase *c, const Priced *h) {
  Arena *a = arena_new();
  const char *layout = h->hand->layout;
  test_price(c, a, layout, &h->price, &h->whole);
  count(c, "price",
        h->usable ? NULL
                  : arena_printf(a, "%s: its price fits the memory, and its program does not: %s",
                                 layout, bytes_text(a, (int64_t)h->whole.peak)));
  arena_free(a);
}

// Prices all layouts by hand. found: predicted time of the layout that plan finds. Returns the
// fastest one that fits, or NULL. The whole programs of those that may be the fastest are
// predicted: a price may be NEAR times too high.
static Priced *price_hands(const PlanCase *c, double found, Priced *out) {
  Priced *best = NULL;
  for (int i = 0; c->hand[i].what; i++) {
    out[i] = (Priced){.hand = &c->hand[i]};
    price_hand(c, NEAR * found, &out[i]);
    count(c, c->hand[i].what, out[i].priced ? NULL : "cannot be compiled");
    if (out[i].priced && out[i].compiled) test_hand_price(c, &out[i]);
    if (out[i].usable && (!best || out[i].whole.seconds < best->whole.seconds)) best = &out[i];
  }
  return best;
}

// -- tests --------------------------------------------------------------------------------------

static void test_hand(const PlanCase *c, const Plan *p, const Priced *best) {
  const SearchPrice *use = &p->found.use->price;
  Arena *a = p->s.arena;
  const char *wrong = NULL;
  if (best && use->seconds > ALIKE * best->whole.seconds)
    wrong = arena_printf(a, "%s takes %.3f ms, %s by hand %.3f",
                         layout_option(a, p->found.use->mesh, &p->found.use->layout),
                         1e3 * use->seconds, best->hand->layout, 1e3 * best->whole.seconds);
  count(c, "by hand", wrong);
}

static void test_work(const PlanCase *c, const Plan *p) {
  uint32_t n = p->found.found->npriced;
  count(c, "work", n <= c->priced ? NULL : arena_printf(p->s.arena, "%u layouts were priced", n));
}

static void test_whole(const PlanCase *c, const Plan *p) {
  const Layout *l = &p->found.use->layout;
  const char *wrong = NULL;
  for (uint32_t i = 0; i < l->n && c->whole; i++) {
    const char *dim = l->rule[i].dim;
    if (dim && strstr(c->whole, arena_printf(p->s.arena, ",%s,", dim)))
      wrong = arena_printf(p->s.arena, "%s is split", dim);
  }
  count(c, "whole", wrong);
}

// -- the page -----------------------------------------------------------------------------------

static const char head[] =
    "# What plan finds\n\n"
    "For models and machines of which practitioners know what to write: the layout that "
    "[`meshc plan`](cli/commands.md#plan) finds, and layouts by\nhand beside it. "
    "`build/release/suite_search_cases page` prints this page, and `suite_search_cases all` "
    "tests it: no layout by hand is\nfaster by more than a thousandth, and the price in the "
    "search is within 1.3 of the prediction for the whole program.\n\n"
    "All times are predictions, from the figures of [machine "
    "files](cli/layouts.md#machine-files); none of these models was run on these machines. The "
    "step of\nthe found layout is that of its whole program, those of the table are prices of "
    "the search, from short models. Where the memory of a\nGPU asks for recomputation, it is in "
    "them: `again` is the share of the forward pass that is computed twice. The processor time "
    "is that of\nall threads of `plan`, on a desktop of two cores.\n\n";

// Returns the head of the page, with the cases of which a test run compares the parts.
static const char *head_text(Arena *a) {
  const char *titles = "";
  for (uint32_t i = 0; i < nplan_cases; i++)
    if (plan_cases[i].daily) titles = arena_printf(a, "%s- %s\n", titles, plan_cases[i].title);
  return arena_printf(a,
                      "%sA test run compares these parts with what `plan` finds, "
                      "`suite_search_cases all` compares all parts:\n\n%s\n",
                      head, titles);
}

static const char *fits_text(Arena *a, const Priced *h) {
  if (!h->priced) return "cannot be compiled";
  if (!h->fits) return "does not fit";
  if (h->price.again <= 0) return "";
  return arena_printf(a, "again %.0f %%", 100 * h->price.again);
}

static void print_hands(Arena *a, const PlanCase *c, const Priced *h) {
  fprintf(part,
          "| by hand | mesh | layout | ms | GiB | |\n| --- | --- | --- | --- | --- | --- |\n");
  for (; h->hand; h++) {
    const char *mesh = h->hand->mesh ? h->hand->mesh : c->mesh;
    fprintf(part, "| %s | `%s` | `%s`%s | %.1f | %.1f | %s |\n", h->hand->what, mesh,
            h->hand->layout,
            h->hand->accumulate ? arena_printf(a, ", %d micro-batches", h->hand->accumulate) : "",
            1e3 * h->price.seconds, h->price.peak / 0x1p30, fits_text(a, h));
  }
}

static void print_case(const PlanCase *c, const Plan *p, Priced *h) {
  Arena *a = p->s.arena;
  const SearchChoice *use = p->found.use;
  fprintf(part, "## %s\n\n```sh\nmeshc plan %s --device cuda %s\n```\n\n", c->title, c->model,
          c->where);
  fprintf(part,
          "**Found** in %.1f s of processor time, with %u layouts priced: `--mesh %s --layout "
          "%s%s`, %.1f ms = products %.1f + kernels %.1f + transfer %.1f,\n%.1f GiB a "
          "processor. In the search its price was %.1f ms.\n\n",
          p->seconds, p->found.found->npriced, mesh_option(a, use->mesh),
          layout_option(a, use->mesh, &use->layout), accumulate_option(a, use->accumulate),
          1e3 * use->price.seconds, 1e3 * use->price.products, 1e3 * use->price.kernels,
          1e3 * use->price.transfer, use->price.peak / 0x1p30, 1e3 * p->searched.seconds);
  print_hands(a, c, h);
  fprintf(part, "\n%s\n\n", c->why);
}

// Returns a copy of a text without what the search took: its processor time, which differs from
// machine to machine, and the number of layouts that it priced, which `work` tests. All other
// figures are predictions of what was found.
static char *without_work(Arena *a, const char *text) {
  static const char before[] = "**Found** in ", behind[] = " layouts priced";
  char *out = arena_text(a, text, strlen(text));
  for (char *c = out, *rest; (c = strstr(c, before)) && (rest = strstr(c, behind)); c++)
    memmove(c + sizeof before - 1, rest, strlen(rest) + 1);
  return out;
}

static const char *page_text(Arena *a) {
  size_t n;
  const char *text = file_text(a, "docs/plans.md", &n);
  return text ? text : "";
}

static void test_page(const PlanCase *c, Arena *a, const char *text) {
  bool has = strstr(without_work(a, page_text(a)), without_work(a, text));
  count(c, "page", has ? NULL : "docs/plans.md is out of date: suite_search_cases page");
}

// Tests what docs/plans.md has beside the parts of its cases: the head, and no other part.
static void test_frame(void) {
  static const PlanCase whole = {.name = "docs/plans.md"};
  Arena *a = arena_new();
  const char *text = page_text(a);
  uint32_t parts = 0;
  for (const char *c = text; (c = strstr(c, "\n## ")); c++) parts++;
  const char *first = head_text(a);
  bool good = !strncmp(text, first, strlen(first)) && parts == nplan_cases;
  count(&whole, "page", good ? NULL : "is out of date: suite_search_cases page");
  arena_free(a);
}

// -- cases --------------------------------------------------------------------------------------

// Prints the part of docs/plans.md for a case, or tests whether the page has it.
static void write_part(const PlanCase *c, const Plan *p, Priced *hand, bool page) {
  char *text = NULL;
  size_t n;
  part = open_memstream(&text, &n);
  if (!part) abort();
  print_case(c, p, hand);
  fclose(part);
  if (page)
    fputs(text, stdout);
  else
    test_page(c, p->s.arena, text);
  free(text);
}

static void plan_case(const PlanCase *c, bool page) {
  Plan p;
  Priced hand[MAX_HAND_LAYOUTS + 1] = {0};
  bool ok = make_plan(&p, c);
  count(c, "plan", ok ? NULL : "nothing was found");
  const Priced *best = price_hands(c, ok ? p.found.use->price.seconds : 0, hand);
  if (ok) {
    const SearchChoice *use = p.found.use;
    fprintf(report, "  %s: %u priced in %.1f s; %s, %.3f ms; by hand %s, %.3f ms\n", c->name,
            p.found.found->npriced, p.seconds, layout_option(p.s.arena, use->mesh, &use->layout),
            1e3 * use->price.seconds, best ? best->hand->layout : "none",
            best ? 1e3 * best->whole.seconds : 0);
    test_hand(c, &p, best);
    test_price(c, p.s.arena, "found", &p.searched, &use->price);
    test_work(c, &p);
    test_whole(c, &p);
    write_part(c, &p, hand, page);
  }
  arena_free(p.s.arena);
}

// Tests only how long a search takes.
static void time_case(const PlanCase *c) {
  Plan p;
  const char *wrong = NULL;
  bool ok = make_plan(&p, c);
  if (p.elapsed > c->seconds)
    wrong = arena_printf(p.s.arena, "%.2f s, at most %d", p.elapsed, c->seconds);
  fprintf(report, "  %s: %.2f s of at most %d, %.2f s of processor time\n", c->name, p.elapsed,
          c->seconds, p.seconds);
  count(c, "time", ok ? wrong : "nothing was found");
  arena_free(p.s.arena);
}

typedef enum Mode { MODE_TEST, MODE_PAGE, MODE_TIME } Mode;

static Mode read_mode(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "page")) return MODE_PAGE;
  return argc > 1 && !strcmp(argv[1], "time") ? MODE_TIME : MODE_TEST;
}

static bool wanted(int n, char **name, const PlanCase *c, Mode mode) {
  if (n == 0) return mode != MODE_TEST || c->daily;
  for (int i = 0; i < n; i++)
    if (!strcmp(name[i], "all") || !strcmp(name[i], c->name)) return true;
  return false;
}

static void run_case(const PlanCase *c, Mode mode) {
  if (mode == MODE_TIME)
    time_case(c);
  else
    plan_case(c, mode == MODE_PAGE);
}

int main(int argc, char **argv) {
  Mode mode = read_mode(argc, argv);
  int names = mode == MODE_TEST ? 1 : 2;
  Arena *a = arena_new();
  report = mode == MODE_PAGE ? stderr : stdout;
  if (mode == MODE_PAGE)
    fputs(head_text(a), stdout);
  else if (mode == MODE_TEST)
    test_frame();
  for (uint32_t i = 0; i < nplan_cases; i++)
    if (wanted(argc - names, argv + names, &plan_cases[i], mode)) run_case(&plan_cases[i], mode);
  fprintf(report, "%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(a);
  return failed > 0;
}
