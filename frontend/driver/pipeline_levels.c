// Searches the recompute level (how much is rematerialised) for a memory budget. See
// pipeline_find_level in pipeline_internal.h. To know what a level needs its program is compiled,
// in an arena of its own; of levels that change the graph alike only one is.
#include "frontend/driver/pipeline_internal.h"

// A segment is the part of the forward pass between two checkpoints. If no level fits a memory
// budget, levels that recompute 1/4, 2/4 and 3/4 of the segments are compiled, too, because
// recomputing all of them may need more memory.
enum { SEGMENTS_TRIED = 4 };
// A sparing search of a level gives up if the programs of the levels that save most as a rule need
// more than FAR times the budget: all cheap values and all that was gathered; and all segments or,
// where there are loops, the highest level, which also recomputes loops step by step. Of 78
// programs of layouts of examples/moe none needs less than 0.87 of the smaller one at its best
// level.
static const double FAR = 1.2;

// What is known of a level. Levels whose graphs have equal hashes have equal programs: what only
// one of them recomputes is not in the model.
typedef struct Level {
  int64_t bytes;  // that its program needs; 0: not known
  uint64_t graph; // hash of its graph
} Level;

typedef struct Trials {
  const PipelineOptions *opt;
  const Compilation *c;
  int best;       // the level tried that needs least memory
  int64_t least;  // bytes that its program needs
  int64_t fitted; // bytes that the last program that fits needs
  int all;        // the level that recomputes all segments
  int levels;     // the highest level
  Level *level;   // by level
  // The program that was compiled last, the hash of its graph, and the arena that has both.
  Compilation made;
  uint64_t graph;
  Arena *arena;
} Trials;

static Trials trials_new(Arena *a, const PipelineOptions *opt, const Compilation *c, int levels) {
  return (Trials){.opt = opt,
                  .c = c,
                  .all = levels - REMAT_TAIL,
                  .levels = levels,
                  .level = arena_array(a, Level, (size_t)levels + 1)};
}

// Returns the bytes that a program of this graph is known to need, or 0.
static int64_t bytes_of(const Trials *t, uint64_t graph) {
  int k = 0;
  while (k <= t->levels && !(t->level[k].bytes && t->level[k].graph == graph)) k++;
  if (k <= t->levels) return t->level[k].bytes;
  return t->opt->known ? *pipeline_known(t->opt, graph) : 0;
}

static void compile(Trials *t, const PipelineOptions *opt, const Graph *g, PartitionFacts facts) {
  t->made = (Compilation){.collected = t->c->collected, .partition = facts};
  pipeline_program(t->arena, opt, AFTER_PROGRAM, g, &t->made);
}

// Returns the bytes that the program of a level needs. Of the programs only the last one is kept.
static int64_t bytes_at(Trials *t, int level) {
  Level *is = &t->level[level];
  if (is->bytes) return is->bytes;
  PipelineOptions quiet = *t->opt;
  quiet.timings = NULL;
  quiet.passed = NULL;
  Arena *a = arena_new();
  PartitionFacts facts = t->c->partition;
  const Graph *g =
      pipeline_recompute(a, &quiet, t->c->collected, level, t->c->simplified ? &facts : NULL);
  is->graph = graph_hash(g);
  is->bytes = bytes_of(t, is->graph);
  if (is->bytes) {
    arena_free(a);
    return is->bytes;
  }
  arena_free(t->arena);
  t->arena = a;
  compile(t, &quiet, g, facts);
  t->graph = is->graph;
  return is->bytes = program_bytes(t->made.compiled->program);
}

int64_t pipeline_bytes(const PipelineOptions *opt, const Compilation *c, int level) {
  Arena *scratch = arena_new();
  Trials t = trials_new(scratch, opt, c, level);
  int64_t bytes = bytes_at(&t, level);
  arena_free(t.arena);
  arena_free(scratch);
  return bytes;
}

// Notes the bytes of a level, and returns whether its program fits the memory budget.
static bool level_fits(Trials *t, int level) {
  int64_t bytes = bytes_at(t, level);
  if (bytes < t->least) t->best = level, t->least = bytes;
  if (bytes > t->opt->memory) return false;
  t->fitted = bytes;
  return true;
}

// Returns the first of the levels lo+1..hi whose program fits, by bisection; that of level hi does.
// Each of these levels recomputes one more segment of the forward pass than the level before, and
// as a rule needs less memory. Where that is not so, a lower level may fit that is not found.
static int first_fitting(Trials *t, int lo, int hi) {
  while (hi - lo > 1) {
    int mid = lo + (hi - lo) / 2;
    if (level_fits(t, mid))
      hi = mid;
    else
      lo = mid;
  }
  return hi;
}

// Returns the level that a budget of t->least bytes would have, which is what the program of level
// t->all needs: a lower level may need no more.
static int first_as_small(Trials *t) {
  const PipelineOptions *asked = t->opt;
  PipelineOptions opt = *asked;
  opt.memory = t->least;
  t->opt = &opt;
  int level = first_fitting(t, REMAT_BASE_LEVELS, t->all);
  t->opt = asked;
  return level;
}

bool pipeline_is_far(const PipelineOptions *opt, int64_t bytes) {
  return opt->sparing && (double)bytes > FAR * (double)opt->memory;
}

// Looks for a level with fewer segments than all, where all of them need least of the levels tried
// but do not fit. Sets *again to the first level found that needs least. Returns whether a level
// fits; *again is then that one.
static bool lower_fits(Trials *t, int *again) {
  if (t->best != t->all || pipeline_is_far(t->opt, t->least)) return false;
  int as_small = first_as_small(t);
  *again = bytes_at(t, as_small) <= t->least ? as_small : t->best;
  t->fitted = t->least;
  return t->least <= t->opt->memory;
}

// Returns whether a sparing search gives up: the levels that save most as a rule are far from the
// budget. Then notes their bytes.
static bool is_hopeless(Trials *t) {
  const int saving[] = {REMAT_BASE_LEVELS, t->c->collected->region.n ? t->levels : t->all};
  if (!pipeline_is_far(t->opt, t->least) || t->all <= REMAT_BASE_LEVELS) return false;
  for (size_t i = 0; i < countof(saving); i++)
    if (!pipeline_is_far(t->opt, bytes_at(t, saving[i]))) return false;
  for (size_t i = 0; i < countof(saving); i++) (void)level_fits(t, saving[i]);
  return true;
}

// Tries the levels in order, of those for segments only that of all. Returns whether one fits.
static bool some_level_fits(Trials *t) {
  bool fits = false;
  for (int k = 1; k <= t->levels && !fits; k++) {
    if (k > REMAT_BASE_LEVELS && k < t->all) k = t->all;
    fits = level_fits(t, k);
    if (fits && k == t->all) t->best = first_fitting(t, REMAT_BASE_LEVELS, t->all);
  }
  return fits;
}

// Tries levels that recompute shares of the segments. Returns whether one fits.
static bool some_share_fits(Trials *t) {
  int segments = t->all - REMAT_BASE_LEVELS;
  bool fits = false;
  for (int i = 1; i < SEGMENTS_TRIED && !fits && segments > SEGMENTS_TRIED; i++)
    fits = level_fits(t, REMAT_BASE_LEVELS + segments * i / SEGMENTS_TRIED);
  return fits;
}

// Returns the number of levels above 0 that were tried.
static int count_trials(const Trials *t) {
  int n = 0;
  for (int k = 1; k <= t->levels; k++) n += t->level[k].bytes > 0;
  return n;
}

// Sets *out to the program that was compiled last, and gives its memory to `a`.
static void take_program(Arena *a, const Trials *t, Compilation *out) {
  const Compilation *made = &t->made;
  out->partition = made->partition;
  out->order = made->order;
  out->buckets = made->buckets;
  out->facts = made->facts;
  out->fusion = made->fusion;
  out->transfers = made->transfers;
  out->compiled = made->compiled;
  arena_join(a, t->arena);
}

bool pipeline_find_level(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  Arena *scratch = arena_new();
  Trials t = trials_new(scratch, opt, out, out->levels);
  t.least = out->least ? out->least : bytes_at(&t, 0);
  bool fits = t.least <= opt->memory;
  out->gave_up = !fits && is_hopeless(&t);
  if (!fits && !out->gave_up) fits = some_level_fits(&t) || some_share_fits(&t);
  out->again = t.best;
  if (!fits) fits = lower_fits(&t, &out->again);
  out->least = fits && t.best ? t.fitted : t.least;
  out->trials = count_trials(&t);
  bool made = fits && last >= AFTER_PROGRAM && !opt->passed && t.made.compiled &&
              t.graph == t.level[out->again].graph;
  if (made)
    take_program(a, &t, out);
  else
    arena_free(t.arena);
  arena_free(scratch);
  return made;
}
