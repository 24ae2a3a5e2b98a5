// Runs all passes in order. Input: the graph that a command has selected. Output: a Compilation, up
// to the program of one processor with its machine code.
//
//   selected -> simplify -> place -> lower -> collectives -> order -> fuse
//            -> kernels, plan, program -> code
//
// A pass reads the results of earlier passes and never changes them, so that every stage can be
// printed.
#include "frontend/driver/pipeline_internal.h"

#include <string.h>

#include "ir/base/hash.h"

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
    {"ptx", "the kernels as assembly of a GPU"},
    {"sass", "the kernels as machine code of a GPU, disassembled"},
};
const int stage_name_count = countof(stage_names);

// The most operations in a graph that is compiled. Each operation takes about 6 KiB of memory and
// 25 us. A model that repeats a computation more often should use a scan.
enum { MAX_COMPILED = 500000 };

static bool small_enough(const Graph *selected, Diag *d) {
  if (graph_count(selected) <= MAX_COMPILED) return true;
  diag_error(d, DIAG_TOO_DEEP, graph_node(selected, graph_count(selected))->origin->pos,
             "this needs %u operations, and a program has at most %d", graph_count(selected),
             MAX_COMPILED);
  return diag_hint(
      d, "calls and rounds of for loops are unrolled; a scan is one loop, however often it runs");
}

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

// Returns `after`, the graph that a pass has made from `before`, and gives back the nodes of
// `before` unless it is `kept`, which is still read, or the pass has returned it.
static const Graph *instead(const Graph *before, const Graph *after, const Graph *kept) {
  if (before != after && before != kept) graph_release(before);
  return after;
}

// Determines what is computed: rewrites the selected graph of whole tensors, without regard to the
// mesh. Returns the rewritten graph.
static const Graph *compute_what(Arena *a, const PipelineOptions *opt, const Graph *selected) {
  // A GPU runs one sequence of kernels, so both sides of a condition are computed.
  const Graph *g = opt->codegen.gpu ? proved(opt, graph_unguard(a, selected), "unguard") : selected;
  // Move invariant values out of loops.
  g = proved(opt, instead(g, graph_hoist(a, g), selected), "hoist");
  // Expand composite operations into primitive ones.
  g = proved(opt, instead(g, graph_expand(a, g), selected), "expand");
  // Fold constants, simplify by algebra, remove dead nodes.
  g = proved(opt, instead(g, graph_simplify(a, g), selected), "simplify");
  // Move common factors out of the sums of gradients.
  return proved(opt, instead(g, graph_factor(a, g), selected), "factor");
}

// Determines where values are computed: chooses a sharding for every value, if none is chosen yet.
static void compute_where(Arena *a, const PipelineOptions *opt, Compilation *out) {
  const Graph *g = out->simplified;
  if (!out->placement)
    out->placement = out->plain ? place_plain(a, g, &g->layout, opt->machine)
                                : place_ordered(a, g, &g->layout, opt->machine, opt->sums);
  if (opt->modest && out->placement->modest) out->placement = out->placement->modest;
  timings_end(opt->timings, "place", graph_count(g));
}

// Writes the graph of one processor: replaces dims by block dims, and conversions by collectives.
static void compute_lowered(Arena *a, const PipelineOptions *opt, Compilation *out) {
  out->lowered = proved(opt, lower(a, out->placement), "lower");
  out->partition = partition_facts(out->simplified, out->lowered);
}

const Graph *pipeline_recompute(Arena *a, const PipelineOptions *opt, const Graph *from, int level,
                                PartitionFacts *facts) {
  const Graph *once = from;
  // Take the scores out of row sums of gradients of attention.
  if (opt->codegen.gpu) once = proved(opt, attention_sums(a, once, &opt->codegen), "sums");
  const Graph *g = remat(a, once, level);
  if (facts) partition_facts_rematerialised(facts, once, g);
  return proved(opt, instead(once, g, from), "remat");
}

int64_t *pipeline_known(const PipelineOptions *opt, uint64_t graph) {
  uint64_t times;
  memcpy(&times, &opt->store.times, sizeof times);
  return known_bytes(opt->known, hash_word(hash_word(graph, (uint64_t)opt->accumulate), times));
}

void pipeline_program(Arena *a, const PipelineOptions *opt, int last, const Graph *g,
                      Compilation *out) {
  const Graph *from = out->collected;
  uint64_t hash = opt->known ? graph_hash(g) : 0;
  // Compute attention block by block, so that its scores are not stored.
  g = proved(opt, instead(g, attention_blocked(a, g, &opt->codegen), from), "attention");
  // Let products leave out what masks discard.
  g = proved(opt, instead(g, live_select(a, g, &opt->codegen), from), "masks");
  // Choose the physical order of dims; copies between different orders become nodes.
  out->order = order_choose(a, g, &opt->store, opt->codegen.gpu);
  instead(g, proved(opt, out->order->graph, "order"), from);
  // Decide which collectives leave in one call.
  out->buckets = collectives_bucket(a, out->order->graph, opt->machine);
  out->facts = collectives_facts(a, out->order->graph, out->buckets, opt->machine);
  timings_end(opt->timings, "pack", 0);
  if (last < AFTER_FUSE) return;
  // Group nodes into kernels and GEMMs.
  out->fusion = fuse(a, out->order, out->buckets, &opt->codegen);
  proved(opt, out->fusion->graph, "fuse");
  if (last == AFTER_FUSE) return;
  // Write loop nests, the schedule, and the memory plan.
  Compiled *made = program_build(a, out->fusion, &opt->codegen);
  if (opt->gpu || opt->transfers) out->transfers = gpu_transfers(a, made, opt->each);
  if (opt->known) *pipeline_known(opt, hash) = program_bytes(made->program);
  out->compiled = made;
  timings_end(opt->timings, "program", graph_count(out->fusion->graph));
}

// Determines how values are computed: what is rematerialised, and all that pipeline_program does.
static void compute_how(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  PartitionFacts *facts = out->simplified ? &out->partition : NULL;
  const Graph *g = pipeline_recompute(a, opt, out->collected, out->again, facts);
  if (opt->wanted_again && !opt->wanted_again(opt->watcher, g)) return;
  if (out->compiled && !out->again) return; // `begun` has the program of level 0
  pipeline_program(a, opt, last, g, out);
}

// Returns the recompute level that opt->again asks for, at most the highest that the graph has.
static int asked_level(Arena *a, const PipelineOptions *opt, const Graph *collected) {
  int levels = remat_levels(a, collected);
  if (opt->again == AGAIN_SEGMENTS) return levels > REMAT_TAIL ? levels - REMAT_TAIL : levels;
  return opt->again < levels ? opt->again : levels;
}

// Compiles again at the first recompute level that fits the memory budget, if there is a budget and
// the program in *out, at the lowest level, does not fit.
static void fit_memory(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  bool whole = out->compiled != NULL;
  if (!opt->memory) return;
  if (whole) out->least = program_bytes(out->compiled->program);
  if (whole && out->least <= opt->memory) return;
  out->levels = remat_levels(a, out->collected);
  bool made = pipeline_find_level(a, opt, last, out);
  if (out->again) out->again_text = remat_level_text(a, out->again, out->levels);
  timings_end(opt->timings, "budget", 0);
  bool wanted = !opt->sparing || out->least <= opt->memory;
  if (wanted && !made && (out->again || !whole)) compute_how(a, opt, last, out);
}

// Returns the bytes that the program without recomputation is known to need, if that is more than
// the budget, or 0.
static int64_t known_over(const PipelineOptions *opt, const Compilation *c) {
  Arena *scratch = arena_new();
  PipelineOptions quiet = *opt;
  quiet.timings = NULL;
  quiet.passed = NULL;
  const Graph *g = pipeline_recompute(scratch, &quiet, c->collected, 0, NULL);
  int64_t bytes = *pipeline_known(opt, graph_hash(g));
  arena_free(scratch);
  return bytes > opt->memory ? bytes : 0;
}

static void compute_within(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  if (!opt->memory && opt->again) out->again = asked_level(a, opt, out->collected);
  bool known = out->compiled || out->least;
  if (opt->known && opt->memory && !known) out->least = known_over(opt, out);
  known |= out->least > 0;
  if (!opt->memory || (last >= AFTER_PROGRAM && !known)) compute_how(a, opt, last, out);
  fit_memory(a, opt, last, out);
}

// Plans scatters, merges equal collectives and cancels inverse ones.
static const Graph *compute_collectives(Arena *a, const PipelineOptions *opt,
                                        const Graph *lowered) {
  const Graph *g = graph_plan_scatters(a, lowered);
  return proved(opt, instead(g, collectives_share(a, g), lowered), "collectives");
}

// Runs the passes on the graph of one processor, up to stage number `end`, and fills *out.
static void compute_local(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  bool lowered = out->selected->stage <= STAGE_LOWER;
  if (!out->collected)
    out->collected = lowered ? compute_collectives(a, opt, out->lowered) : out->selected;
  if (end >= AFTER_ORDER) compute_within(a, opt, end, out);
}

void pipeline_placed(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  if (out->selected->stage == STAGE_LOWER)
    out->lowered = out->selected;
  else if (out->placement && end >= AFTER_LOWER && !out->lowered)
    compute_lowered(a, opt, out);
  // The graph is that of one processor now: no later pass knows of meshes.
  if (end >= AFTER_COLLECTIVES) compute_local(a, opt, end, out);
}

// Compiles again with place_plain, the placement without place_improve.c. That file changes the
// shardings of several nodes together to save bytes sent, which can raise peak memory. Keeps the
// new program if it needs less memory than that in *out. To save time, it searches recompute levels
// only if the new program needs less memory at the level of *out already.
static void compute_plain(Arena *a, const PipelineOptions *opt, int end, Compilation *out) {
  Compilation plain = {.selected = out->selected, .simplified = out->simplified, .plain = true};
  compute_where(a, opt, &plain);
  pipeline_placed(a, opt, AFTER_COLLECTIVES, &plain);
  int levels = remat_levels(a, plain.collected), level = out->again < levels ? out->again : levels;
  out->trials++;
  if (pipeline_bytes(opt, &plain, level) >= out->least) return;
  compute_within(a, opt, end, &plain);
  plain.trials += out->trials;
  if (plain.least < out->least)
    *out = plain;
  else
    out->trials = plain.trials;
}

// Returns whether two placements are the same but for their dims (placement_with_dims).
static bool is_same(const Placement *x, const Placement *y) {
  return x == y || (x && y && x->computed == y->computed);
}

// Where a sparing search finds no program that fits, its result has the program without
// recomputation, unless that is what `begun` had. Compiles it if only its bytes were known so far.
static void compute_without(Arena *a, const PipelineOptions *opt, int last, Compilation *out) {
  bool begun = opt->begun && is_same(out->placement, opt->begun->placement);
  Compilation none = *out;
  if (!opt->sparing || out->compiled || begun) return;
  none.again = 0;
  compute_how(a, opt, last, &none);
  none.again = out->again;
  *out = none;
}

void compilation_free(Compilation *c) {
  gpu_program_free(c->on_gpu);
  gpu_code_free(c->gpu_code);
  code_free(c->code);
  c->on_gpu = NULL;
  c->gpu_code = NULL;
  c->code = NULL;
}

// Makes the code of the kernels for opt->gpu and loads it there. Returns false after an error.
static bool load_on_gpu(const PipelineOptions *opt, Diag *d, Compilation *c) {
  const GpuFacts *gpu = gpu_facts(opt->gpu);
  const GpuCodeOptions options = {.target = gpu->emulated ? GPU_EMULATED : GPU_PTX,
                                  .capability = gpu->capability,
                                  .opt = opt->code.opt,
                                  .threads = cores_available(),
                                  .cache = opt->code.cache};
  const Program *p = c->compiled->program;
  c->gpu_code = gpu_code_load(p, c->compiled->kernels, &options, d);
  if (!c->gpu_code) return false;
  timings_end(opt->timings, "code", 0);
  GpuParts parts = {.entry = gpu_code_entries(c->gpu_code),
                    .transfers = c->transfers->local,
                    .messages = c->transfers->messages,
                    .join = c->transfers->join};
  parts.nimages = gpu_code_images(c->gpu_code, &parts.image);
  c->on_gpu = gpu_program_new(opt->gpu, p, &parts, d);
  timings_end(opt->timings, "load", 0);
  return c->on_gpu != NULL;
}

// Runs the passes on `selected` up to stage `last` (NULL: all). A graph that was dumped and read
// back may be in a later stage: the passes before that stage are skipped. Returns false after an
// error.
bool pipeline_run(Arena *a, const Graph *selected, const PipelineOptions *opt, const char *last,
                  Diag *d, Compilation *out) {
  int end = stage_index(last);
  Stage begin = selected->stage;
  if (!small_enough(selected, d)) return false;
  (void)mem_doing("compiling the program for", opt->codegen.for_);
  *out = (Compilation){.selected = proved(opt, selected, "select"), .plain = opt->plain};
  if (opt->begun) {
    *out = *opt->begun;
  } else if (begin < STAGE_LOWER && end >= AFTER_SIMPLIFY) {
    out->simplified = opt->simplified ? selected : compute_what(a, opt, selected);
  }
  // The graph has only primitive operations on whole tensors now, or comes from a later stage.
  if (begin < STAGE_LOWER && end >= AFTER_PLACE) compute_where(a, opt, out);
  if (pipeline_other(opt, out))
    pipeline_better(a, opt, end, out);
  else
    pipeline_placed(a, opt, end, out);
  if (end < AFTER_ORDER) return true;
  bool over = opt->memory && out->least > opt->memory;
  bool far = pipeline_is_far(opt, out->least);
  bool tries = over && !far && out->placement;
  if (tries) compute_plain(a, opt, end, out);
  if (end >= AFTER_PROGRAM) compute_without(a, opt, end, out);
  out->plain_tried = tries;
  out->gave_up |= far;
  // The result is a Program now, whose instructions know bytes and run-time scalars only.
  if (end <= AFTER_PROGRAM || !opt->machine_code) return true;
  if (opt->gpu) return load_on_gpu(opt, d, out);
  out->code = code_load(out->compiled->program, out->compiled->kernels, &opt->code, d);
  timings_end(opt->timings, "code", 0);
  return out->code != NULL;
}
