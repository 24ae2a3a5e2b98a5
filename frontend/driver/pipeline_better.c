// Compiles a model with both of its placements (Placement.modest), and takes the better program.
// See pipeline_better in pipeline_internal.h.
//
// The compiles share the placed graph, and nothing that they change: each has an arena and dims of
// its own, also where one runs after the other. So the result does not depend on the number of
// threads.
#include "frontend/driver/pipeline_internal.h"
#include "ir/base/jobs.h"

// A compile with one of the placements.
typedef struct Rival {
  Job job;
  Arena *arena;
  PipelineOptions opt;
  int end;
  Compilation c;
  double seconds; // of a step, by the simulator, if it fits the memory budget
} Rival;

const Placement *pipeline_other(const PipelineOptions *opt, const Compilation *c) {
  const Placement *p = c->placement;
  if (!p || opt->first || opt->modest) return NULL;
  return p->modest ? p->modest : p->full;
}

static const Graph *graph_apart(Arena *a, const Graph *g, DimTable *dims) {
  if (!g) return NULL;
  Graph *out = arena_new_of(a, Graph);
  *out = graph_with_dims(a, g, dims);
  return out;
}

Compilation compilation_apart(Arena *a, const Compilation *c) {
  Compilation out = *c;
  DimTable *dims = dim_table_copy(a, c->simplified->dims);
  out.simplified = graph_apart(a, c->simplified, dims);
  out.lowered = graph_apart(a, c->lowered, dims);
  out.collected = graph_apart(a, c->collected, dims);
  out.placement = placement_with_dims(a, c->placement, dims);
  return out;
}

static bool fits(const Rival *r) { return !r->opt.memory || r->c.least <= r->opt.memory; }

static void compile(void *rival) {
  Rival *r = rival;
  (void)mem_doing("compiling the program for", r->opt.codegen.for_);
  timings_in(r->opt.timings, r->arena);
  pipeline_placed(r->arena, &r->opt, r->end, &r->c);
  if (fits(r)) r->seconds = simulate(r->arena, r->c.compiled, r->opt.machine)->seconds;
  timings_end(r->opt.timings, "simulate", 0);
}

// Returns a compile of what c has up to stage number `end`, at least up to the program.
static Rival rival_new(const PipelineOptions *opt, const Compilation *c, int end) {
  Rival r = {.arena = arena_new(), .opt = *opt, .end = end < AFTER_PROGRAM ? AFTER_PROGRAM : end};
  r.c = compilation_apart(r.arena, c);
  if (opt->known) r.opt.known = known_bytes_over(r.arena, opt->known);
  return r;
}

// Runs both compiles. Times of passes can be told apart, and watchers are called in order, only
// where one compile runs after the other.
static void run_both(Arena *a, const PipelineOptions *opt, Rival *x, Rival *y) {
  bool watched = opt->passed || opt->wanted_again;
  int threads = watched ? 1 : opt->threads;
  Jobs *jobs = jobs_new(a, threads);
  Rival *both[] = {x, y};
  for (int i = 0; i < 2; i++) {
    both[i]->job = (Job){compile, both[i], NULL};
    if (threads > 1) both[i]->opt.timings = NULL;
    jobs_add(jobs, &both[i]->job);
  }
  jobs_run(jobs);
  for (int i = 0; opt->known && i < 2; i++) known_bytes_merge(both[i]->opt.known);
}

// Returns whether the program of x is to be taken, and not that of y: it fits the memory budget, or
// is faster. If neither fits, the smaller one is taken.
static bool is_preferred(const Rival *x, const Rival *y) {
  if (fits(x) != fits(y)) return fits(x);
  return fits(x) ? x->seconds < y->seconds : x->c.least < y->c.least;
}

// Of programs that are as good the one is taken whose placement has moves that may add redundant
// work.
void pipeline_better(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  const Placement *p = pipeline_other(opt, out);
  const Compilation placed = {
      .selected = out->selected, .simplified = out->simplified, .placement = p};
  Rival first = rival_new(opt, out, end), other = rival_new(opt, &placed, end);
  run_both(a, opt, &first, &other);
  bool gave_up = first.c.gave_up | other.c.gave_up;
  other.c.trials += first.c.trials;
  bool changes = p->full ? is_preferred(&other, &first) : !is_preferred(&first, &other);
  *out = changes ? other.c : first.c;
  out->gave_up = gave_up && out->least > opt->memory;
  arena_adopt(a, changes ? other.arena : first.arena);
  arena_free(changes ? first.arena : other.arena);
  if (other.opt.timings)
    timings_in(opt->timings, a);
  else
    timings_end(opt->timings, "compare", 0);
}
