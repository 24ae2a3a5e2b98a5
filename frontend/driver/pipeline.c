// The recipe: from what a command asks of a model to a program of one processor with machine code.
//
//   selected -> simplify -> place -> lower -> collectives -> order -> fuse
//            -> kernels, plan, program -> code
//
// Each pass reads what the passes before it made and changes none of it, so every stage can be
// shown.
#include "frontend/frontend.h"

#include <string.h>

const StageName stage_names[] = {
    {"ast", "the model file as a tree"},
    {"graph", "the whole model: every value, whole tensors, named dims"},
    {"grad", "what is asked for, its gradients and the optimizer's update; nothing else"},
    {"simplify", "only primitive operations; constants folded, equal and dead nodes gone"},
    {"place", "the same graph; every value has a state on every mesh axis"},
    {"lower", "the graph of one processor: block dims, collectives are nodes"},
    {"collectives", "inverse and equal collectives gone"},
    {"order", "every value has a physical order of its dims; copies that remain are nodes"},
    {"fuse", "every node belongs to a kernel, a product, a collective or an alias"},
    {"kernels", "the loop nests, equal ones once"},
    {"plan", "buffers, their lifetimes and offsets in the work arena"},
    {"program", "instructions in order, the directory of tensors"},
    {"llvm", "the kernels as LLVM text"},
    {"asm", "the kernels as assembly"},
};
const int stage_name_count = countof(stage_names);

enum { LEVELS_TRIED = 24 }; // of remat_more, for one budget

// Of a graph that is compiled: each operation costs memory and time in every pass, as much as a
// thousand do on the processor. What a model repeats more often belongs into a scan.
enum { MAX_COMPILED = 100000 };

static bool small_enough(const Graph *selected, Diag *d) {
  if (graph_count(selected) <= MAX_COMPILED) return true;
  diag_error(d, DIAG_TOO_DEEP, graph_node(selected, graph_count(selected))->origin.pos,
             "this needs %u operations, and a program has at most %d", graph_count(selected),
             MAX_COMPILED);
  diag_hint(
      d, "calls and rounds of for loops are unrolled; a scan is one loop, however often it runs");
  return false;
}

// The stages after which a run may stop, in the order above.
enum {
  AFTER_SIMPLIFY = 3,
  AFTER_PLACE,
  AFTER_LOWER,
  AFTER_COLLECTIVES,
  AFTER_ORDER,
  AFTER_FUSE,
  AFTER_PROGRAM = 11
};

static int stage_index(const char *name) {
  for (int i = 0; name && i < stage_name_count; i++)
    if (strcmp(stage_names[i].name, name) == 0) return i;
  return stage_name_count;
}

static const Graph *proved(const PipelineOptions *opt, const Graph *g, const char *pass) {
  timings_end(opt->timings, pass, graph_count(g));
  graph_check(g, pass);
  if (opt->passed) opt->passed(opt->watcher, pass, g);
  return g;
}

// Whole tensors, any mesh: what is computed.
static const Graph *compute_what(Arena *a, const PipelineOptions *opt, const Graph *selected) {
  const Graph *hoisted =
      proved(opt, graph_hoist(a, selected), "hoist"); // loops keep what lies between carries
  const Graph *expanded =
      proved(opt, graph_expand(a, hoisted), "expand"); // composite operations become primitive ones
  const Graph *simple = proved(opt, graph_simplify(a, expanded),
                               "simplify"); // constants folded, algebra, dead nodes gone
  return proved(opt, graph_factor(a, simple),
                "factor"); // factors come out of the sums of gradients
}

// One processor of the mesh: where it is computed, and what moves between processors.
static void compute_where(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  Placement *(*choose)(Arena *, const Graph *, const Layout *, const Machine *) =
      out->plain ? place_plain : place;
  out->placement = choose(a, out->simplified, &out->simplified->layout,
                          opt->machine); // a state for every value on every axis
  timings_end(opt->timings, "place", graph_count(out->simplified));
  if (last < AFTER_LOWER) return;
  out->lowered =
      proved(opt, lower(a, out->placement), "lower"); // block dims, conversions become collectives
  out->partition = partition_facts(out->simplified, out->lowered);
}

// One Program: in which order of memory, in which kernels, at which offsets.
static void compute_how(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  const Graph *kept =
      proved(opt, remat(a, out->collected, out->again),
             "remat"); // rematerialises what lies between checkpoints or does not fit
  if (out->simplified) partition_facts_rematerialised(&out->partition, kept);
  out->order = order_choose(a, kept); // physical order of dims, copies that remain
  proved(opt, out->order->graph, "order");
  out->buckets =
      collectives_bucket(a, out->order->graph, opt->machine); // which collectives are one call
  out->facts = collectives_facts(a, out->order->graph, out->buckets, opt->machine);
  timings_end(opt->timings, "pack", 0);
  if (last < AFTER_FUSE) return;
  out->fusion = fuse(a, out->order, out->buckets, &opt->codegen); // nodes into kernels and products
  proved(opt, out->fusion->graph, "fuse");
  if (last == AFTER_FUSE) return;
  out->compiled = program_build(a, out->fusion, &opt->codegen); // loops, schedule, memory
  timings_end(opt->timings, "program", graph_count(out->fusion->graph));
}

// Bytes of the program at recompute level `level`.
static int64_t bytes_at(const PipelineOptions *opt, const Compilation *c, int level) {
  Arena *scratch = arena_new();
  PipelineOptions quiet = *opt;
  Compilation trial = {.collected = c->collected, .again = level};
  quiet.timings = NULL;
  quiet.passed = NULL;
  compute_how(scratch, &quiet, AFTER_PROGRAM, &trial);
  int64_t bytes = program_bytes(trial.compiled->program);
  arena_free(scratch);
  return bytes;
}

// The next level to try: with many segments only every few levels, and the last one.
static int next_level(int k, int levels) {
  int segments = levels - REMAT_TAIL - REMAT_BASE_LEVELS, next = k + segments / LEVELS_TRIED + 1;
  if (k < REMAT_BASE_LEVELS || k >= levels - REMAT_TAIL) return k + 1;
  return next < levels - REMAT_TAIL ? next : levels - REMAT_TAIL;
}

// The lowest level that needs no more than the budget; when none does, that which needs least.
static int fitting_level(const PipelineOptions *opt, const Compilation *c, int64_t *bytes_of_best) {
  int best = 0;
  int64_t least = c->compiled ? program_bytes(c->compiled->program) : bytes_at(opt, c, 0);
  for (int k = 1; k <= c->levels && least > opt->memory; k = next_level(k, c->levels)) {
    int64_t bytes = bytes_at(opt, c, k);
    if (bytes < least) best = k, least = bytes;
  }
  *bytes_of_best = least;
  return best;
}

static void compute_within(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  bool whole = last >= AFTER_PROGRAM;
  if (whole || !opt->memory) compute_how(a, opt, last, out);
  out->least = whole ? program_bytes(out->compiled->program) : 0;
  if (!opt->memory || (whole && out->least <= opt->memory)) return;
  out->levels = remat_levels(a, out->collected);
  out->again = fitting_level(opt, out, &out->least);
  if (out->again) out->again_text = remat_level_text(a, out->again, out->levels);
  timings_end(opt->timings, "budget", 0);
  if (out->again || !whole) compute_how(a, opt, last, out);
}

// From the placement on.
static void compute_rest(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  Stage begin = out->selected->stage;
  // From here on: only primitive operations on whole tensors.
  if (begin < STAGE_LOWER && end >= AFTER_PLACE)
    compute_where(a, opt, end, out);
  else if (begin == STAGE_LOWER)
    out->lowered = out->selected;
  // From here on: the graph of one processor; no pass knows of meshes.
  if (end < AFTER_COLLECTIVES) return;
  out->collected = begin > STAGE_LOWER
                       ? out->selected
                       : proved(opt, collectives_share(a, graph_widen_scatters(a, out->lowered)),
                                "collectives"); // inverse and equal ones go
  if (end >= AFTER_ORDER) compute_within(a, opt, end, out);
}

// What sends least may hold too much.
static void compute_plain(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  Compilation plain = {.selected = out->selected, .simplified = out->simplified, .plain = true};
  compute_rest(a, opt, end, &plain);
  if (plain.least < out->least) *out = plain;
}

// A graph that was dumped and read back may be in a later stage; then the passes before it have
// run.
bool pipeline_run(Arena *a, const Graph *selected, const PipelineOptions *opt, const char *last,
                  Diag *d, Compilation *out) {
  int end = stage_index(last);
  Stage begin = selected->stage;
  if (!small_enough(selected, d)) return false;
  (void)mem_doing("compiling the program for", opt->codegen.for_);
  *out = (Compilation){.selected = proved(opt, selected, "select")};
  if (begin < STAGE_LOWER && end >= AFTER_SIMPLIFY)
    out->simplified = compute_what(a, opt, selected);
  compute_rest(a, opt, end, out);
  if (end < AFTER_ORDER) return true;
  if (opt->memory && out->least > opt->memory && out->placement) compute_plain(a, opt, end, out);
  // From here on: a Program; instructions know bytes and run-time scalars only.
  if (end <= AFTER_PROGRAM || !opt->machine_code) return true;
  out->code = code_load(out->compiled->program, out->compiled->kernels, &opt->code,
                        d); // machine code, mapped
  timings_end(opt->timings, "code", 0);
  return out->code != NULL;
}
