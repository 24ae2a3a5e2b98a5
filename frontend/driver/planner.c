// Searches a layout for a session: layouts (partition/search), and micro-batches where they may
// help (planner_micro.c). Input: a loaded session. Output: see planner.h.
#include <math.h>

#include "frontend/driver/planner_internal.h"
#include "frontend/driver/progress.h"

// A layout that takes this many times as long as the fastest one would without a budget takes long.
static const double LONG = 1.25;

bool planner_too_large(Session *s, const SearchTask *t, const SearchChoice *least, bool all) {
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

static void add_all(Session *s, const SearchTask *t, SearchResult *r, const SearchResult *from) {
  for (uint32_t i = 0; i < from->n; i++) planner_add(s, t, r, &from->at[i]);
}

// Returns whether a search that gave up early may end with the choices that were found then:
// micro-batches, or a layout that takes little longer than the fastest one would without a budget.
static bool suffices(const SearchResult *r) {
  double least = (double)INFINITY;
  if (!r->n || r->at[0].accumulate) return r->n > 0;
  for (uint32_t i = 0; i < r->npriced; i++)
    least = fmin(least, search_unlimited(&r->priced[i].price));
  return r->at[0].price.seconds <= LONG * least;
}

// Searches layouts and, where that may be, micro-batches. Where no layout of experts fits, those
// are tried next that need little memory; the search for layouts then goes on only if neither these
// nor micro-batches help.
static SearchResult *search_all(Session *s, const SearchTask *t) {
  SearchTask task = *t, lean = *t;
  task.sparing = planner_may_divide(s, t);
  lean.lean = true;
  SearchResult *r = search_best(s->arena, &task);
  r->proven = r->proven && prices_prove(t, r);
  if (!task.sparing) return r;
  if (r->spared) add_all(s, t, r, search_best(s->arena, &lean));
  planner_divide(s, t, r);
  if (!r->spared || suffices(r)) return r;
  task.sparing = false;
  SearchResult *more = search_best(s->arena, &task);
  more->ndivided = r->ndivided;
  add_all(s, t, more, r);
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
  if (!(*out)->n && t->price && !planner_confirm_smallest(s, t, *out)) return false;
  const SearchResult *r = *out;
  return r->n || planner_too_large(s, t, &r->smallest, r->all && !r->ndivided && t->npriced == 1);
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
