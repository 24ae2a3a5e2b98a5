// Finds what a memory budget would cost: compiles the step once more within half of its work
// memory or, if it has been rematerialised to fit a budget, without one. See what_if_internal.h.
#include "frontend/report/what_if_internal.h"

enum { MOST_TRIED = 10000 }; // operations of a step for which it is done: that takes some compiles

// Returns the bytes rounded up to a size that is short to write: whole KiB, MiB or GiB.
static int64_t short_size(int64_t bytes) {
  enum { FEW = 16 };
  int64_t unit = 1024;
  while (bytes / unit / 1024 >= FEW) unit *= 1024;
  return (bytes + unit - 1) / unit * unit;
}

// Returns whether the step computes gradients, for which values are kept.
static bool keeps_values(const Compilation *c) {
  for (NodeId n = 1; n <= graph_count(c->collected); n++)
    if (graph_node(c->collected, n)->origin->backward) return true;
  return false;
}

// -- the trial ----------------------------------------------------------------------------------

// Compiles the step in session s within the budget, or without one (NO_BUDGET).
static bool foresee_within(const Session *s, const BudgetJob *b, double budget, Foreseen *f) {
  const Compilation *c = b->k->made;
  Session trial = *s;
  Compilation begun;
  *f = (Foreseen){.choice = {.mesh = c->simplified->mesh, .layout = c->simplified->layout}};
  trial.budget = budget;
  if (!c->again && !c->plain) {
    begun = compilation_apart(s->arena, c);
    trial.begun = &begun;
  }
  return foresee_step(&trial, b->k->of, f);
}

// Writes what a budget costs to the what-ifs. Returns false after an error in s->diag.
static bool try_budget(const Session *s, const BudgetJob *b) {
  const Compilation *c = b->k->made;
  const Program *p = c->compiled->program;
  int64_t half = short_size(program_bytes(p) - p->arena_bytes + p->arena_bytes / 2);
  Foreseen f;
  if (!foresee_within(s, b, c->again ? NO_BUDGET : (double)half, &f)) return false;
  // Where not even that fits, try what needed least. Less may do: a budget that is met lets the
  // compiler try more levels.
  if (!c->again && f.peak > half) {
    half = f.peak;
    if (!foresee_within(s, b, (double)half, &f)) return false;
  }
  if (!c->again && !f.again) return true;
  b->k->w->budget = (BudgetTrial){true, c->again ? 0 : half, f.peak, f.time->seconds};
  return true;
}

static void run_trial(void *budget) {
  BudgetJob *b = budget;
  Session own = what_if_session(b->k->s, b->arena);
  b->good = try_budget(&own, b);
}

BudgetJob *what_if_budget(Asker *k) {
  const Graph *g = k->made->simplified;
  if (!g || graph_count(g) > MOST_TRIED || !keeps_values(k->made)) return NULL;
  BudgetJob *b = arena_new_of(k->s->arena, BudgetJob);
  *b = (BudgetJob){.k = k, .arena = what_if_arena(k), .job = {.work = run_trial, .context = b}};
  jobs_add(k->jobs, &b->job);
  return b;
}

// After an error the trial is repeated, for its messages: those of the job were not kept.
bool what_if_budget_good(BudgetJob *b) { return !b || b->good || try_budget(b->k->s, b); }
