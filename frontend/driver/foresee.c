// Foresees the cost of a step under another mesh or layout, from its compiled and simulated
// program. See foresee.h.
#include "frontend/driver/foresee.h"

#include <math.h>
#include <string.h>

// Adds the collective calls of `facts` to the totals of *f, for each set of axes apart.
static void add_calls(Arena *a, const CollFacts *facts, Foreseen *f) {
  f->over = arena_array(a, ForeseenAxes, facts->n + 1);
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *c = &facts->fact[i];
    uint32_t k = 0;
    while (k < f->nover && !axes_equal(f->over[k].axes, c->axes)) k++;
    if (k == f->nover) f->over[f->nover++] = (ForeseenAxes){.axes = c->axes};
    f->over[k].calls += c->times;
    f->over[k].bytes += c->wire_bytes * c->times;
    f->over[k].seconds += c->seconds * (double)c->times;
    f->calls += c->times;
  }
  f->bytes = facts->wire_bytes;
}

// Returns a simulation of the program, without the times of its instructions.
static const Simulation *totals_of(Arena *a, const Session *s, const Compilation *made) {
  Simulation *time = arena_new_of(a, Simulation);
  *time = *session_simulate(s, made);
  time->of = NULL;
  time->limit = NULL;
  return time;
}

// Returns a copy of `facts` that does not point into the arena of the compile.
static const CollFacts *copy_facts(Arena *a, const CollFacts *facts) {
  CollFacts *out = arena_new_of(a, CollFacts);
  *out = *facts;
  out->fact = arena_array(a, CollFact, facts->n + 1);
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *from = &facts->fact[i];
    out->fact[i] = *from;
    out->fact[i].value = arena_text(a, from->value, strlen(from->value));
    out->fact[i].why = out->fact[i].end_next = NULL;
  }
  return out;
}

// Returns the share of the segments of the forward pass that the program recomputes.
static double recomputed_share(const Compilation *made) {
  int segments = made->levels - REMAT_TAIL - REMAT_BASE_LEVELS, again = made->again;
  if (again <= REMAT_BASE_LEVELS || segments <= 0) return 0;
  return fmin((double)(again - REMAT_BASE_LEVELS) / segments, 1);
}

// Fills the figures of *f from the program that session `of` compiled.
static bool read_figures(Arena *a, const Session *of, const Compilation *made, Foreseen *f) {
  double most;
  const char *again = made->again_text;
  if (!session_memory(of, &most)) return false;
  *f = (Foreseen){.choice = f->choice,
                  .facts = copy_facts(a, made->facts),
                  .kept = made->partition.parameter_bytes + made->partition.optimizer_bytes,
                  .peak = program_bytes(made->compiled->program),
                  .work = made->partition,
                  .again = made->again,
                  .recomputed = recomputed_share(made),
                  .again_text = again ? arena_text(a, again, strlen(again)) : "",
                  .time = totals_of(a, of, made)};
  f->fits = (double)f->peak <= most;
  add_calls(a, made->facts, f);
  return true;
}

bool foresee_made(const Session *s, const Compilation *made, Foreseen *f) {
  f->choice = (SearchChoice){.mesh = &s->model->mesh, .layout = s->model->layout};
  return read_figures(s->arena, s, made, f);
}

bool foresee_step(Session *s, const Selected *of, Foreseen *f) {
  Session trial = *s;
  Compilation made;
  trial.arena = arena_new();
  trial.trial = true;
  timings_start(&trial.timings, trial.arena);
  Graph *g = arena_new_of(trial.arena, Graph);
  *g = layout_apply(trial.arena, of->graph, f->choice.mesh, &f->choice.layout);
  bool good = session_compile(&trial, g, of->purpose, of->over, "program", &made) &&
              read_figures(s->arena, &trial, &made, f);
  arena_free(trial.arena);
  return good;
}

SearchPrice foreseen_price(const Foreseen *f) {
  const Simulation *time = f->time;
  double products = time->of_kind[INSTR_GEMM];
  return (SearchPrice){.seconds = time->seconds,
                       .products = products,
                       .kernels = time->compute - products,
                       .transfer = time->transfer - time->hidden,
                       .sent = (double)f->bytes,
                       .peak = (double)f->peak,
                       .again = f->recomputed,
                       .again_text = f->again_text,
                       .whole = true,
                       .final = true};
}
