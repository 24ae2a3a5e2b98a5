// Decides whether a program may come from the compile cache, and computes its key.
//
// The key is the hash of all that pipeline_run reads: the selected graph with its dims, and the
// options. Records (ir/program/pack.h) name each member of these structs, so that none is
// forgotten. A command that shows or checks the results of passes compiles as always.
#include "frontend/driver/program_reuse.h"
#include "ir/graph/pack_graph.h"
#include "ir/program/pack_fields.h"

#include <stdlib.h>

// -- what a compile reads -----------------------------------------------------------------------

typedef struct Question {
  const PipelineOptions *options;
  const Graph *graph;
  uint32_t ndims;
  Dim *dim;                                    // whole dims, by ascending ids
  DimId over[DATA_BLOCKS], micro[DATA_BLOCKS]; // of the data blocks of the graph
  // The program whose tensors have the orders that are to be taken (StoreOptions.like).
  bool has_like;
  ProgramKey like;
} Question;

static const PackField link_fields[] = {REAL(Link, latency), REAL(Link, bandwidth)};
static RECORD(Link, link);
static const PackField axis_link_fields[] = {ALL(AxisLink, axis, INT, AXIS_NAME, .low = INT64_MIN),
                                             HAS(AxisLink, link, link)};
static RECORD(AxisLink, axis_link);

static const PackField machine_fields[] = {
    BOOL(Machine, gpu),
    REAL(Machine, latency),
    REAL(Machine, bandwidth),
    REAL(Machine, memory_rate),
    REAL(Machine, flops),
    REAL(Machine, tile_flops),
    REAL(Machine, winograd_flops),
    REAL(Machine, bf16_flops),
    REAL(Machine, tf32_flops),
    BOOL(Machine, tf32),
    REAL(Machine, f64_flops),
    ANY(Machine, memory),
    ANY(Machine, l2),
    ANY(Machine, l3),
    REAL(Machine, l2_rate),
    REAL(Machine, l3_rate),
    REAL(Machine, core_rate),
    REAL(Machine, launch),
    REAL(Machine, operations),
    REAL(Machine, half),
    REAL(Machine, multiprocessors),
    REAL(Machine, cores),
    REAL(Machine, shared),
    REAL(Machine, overlap),
    BOOL(Machine, states_memory),
    COUNT(Machine, naxes, MAX_AXES),
    USED(Machine, axis, RECORD, naxes, .record = &axis_link_record),
};
static RECORD(Machine, machine);

static const PackField codegen_fields[] = {
    BOOL(CodegenOptions, fuse),        ANY(CodegenOptions, products),
    ANY(CodegenOptions, product_work), ANY(CodegenOptions, blocked_rows),
    ANY(CodegenOptions, common_bytes), BOOL(CodegenOptions, gpu),
    ANY(CodegenOptions, epilogues),    BOOL(CodegenOptions, tf32),
    ANY(CodegenOptions, launch_bytes), TEXT(CodegenOptions, for_),
    TEXT(CodegenOptions, over),        BOOL(CodegenOptions, overlap),
    ANY(CodegenOptions, shared_cache), BOOL(CodegenOptions, keep),
};
static RECORD(CodegenOptions, codegen);

static const PackField code_fields[] = {ANY(CodeOptions, width), ANY(CodeOptions, opt),
                                        TEXT(CodeOptions, without), LEFT(CodeOptions, cache),
                                        TEXT(CodeOptions, level)};
static RECORD(CodeOptions, code);

static const PackField store_fields[] = {LEFT(StoreOptions, like), BOOL(StoreOptions, freely),
                                         ANY(StoreOptions, times)};
static RECORD(StoreOptions, store);

static const PackField options_fields[] = {
    HAS(PipelineOptions, codegen, codegen),
    HAS(PipelineOptions, code, code),
    HAS(PipelineOptions, store, store),
    BY_RULE(PipelineOptions, machine, RECORD, ONE, .record = &machine_record),
    ANY(PipelineOptions, memory),
    BOOL(PipelineOptions, sparing),
    ANY(PipelineOptions, again),
    BOOL(PipelineOptions, plain),
    ANY(PipelineOptions, sums),
    BOOL(PipelineOptions, modest),
    BOOL(PipelineOptions, verify_print),
    BOOL(PipelineOptions, machine_code),
    LEFT(PipelineOptions, gpu),
    BOOL(PipelineOptions, transfers),
    ANY(PipelineOptions, each),
    LEFT(PipelineOptions, threads),
    LEFT(PipelineOptions, timings),
    BOOL(PipelineOptions, first),
    LEFT(PipelineOptions, begun),
    BOOL(PipelineOptions, simplified),
    LEFT(PipelineOptions, known),
    LEFT(PipelineOptions, accumulate),
    LEFT(PipelineOptions, wanted_again),
    LEFT(PipelineOptions, passed),
    LEFT(PipelineOptions, watcher),
};
static RECORD(PipelineOptions, options);

static const PackField key_fields[] = {ALL(ProgramKey, byte, INT, 32, .low = 0)};
static RECORD(ProgramKey, key);

static const PackField question_fields[] = {
    BY_RULE(Question, options, RECORD, ONE, .record = &options_record),
    BY_RULE(Question, graph, RECORD, ONE, .record = &pack_of_graph),
    COUNT(Question, ndims, UINT32_MAX),
    ROW_OF(Question, dim, RECORD, .place = PLACE_POINTER, .count = COUNT_MEMBER,
           COUNTED(Question, ndims), .record = &pack_of_dim),
    ALL(Question, over, INT, DATA_BLOCKS, .low = 0),
    ALL(Question, micro, INT, DATA_BLOCKS, .low = 0),
    BOOL(Question, has_like),
    HAS(Question, like, key),
};
const PackRecord pack_of_question = {"Question", sizeof(Question), countof(question_fields),
                                     question_fields};

// -- the key ------------------------------------------------------------------------------------

static bool is_selected(const DimTable *t, DimId d) {
  const Dim *x = dim_get(t, d);
  return x->whole == d && !x->local;
}

// Sets the dims of q to those that a selected graph can have. The table also has dims of programs
// that were compiled before, if these were not taken from the cache.
static void add_dims(Arena *a, const DimTable *t, Question *q) {
  q->dim = arena_array(a, Dim, dim_count(t) + 1);
  for (DimId d = 1; d <= dim_count(t); d++)
    if (is_selected(t, d)) q->dim[q->ndims++] = *dim_get(t, d);
}

static const char *source_name(void *diag, uint32_t source) {
  return diag_source_name(diag, source);
}

static ProgramKey key_of(const Session *s, const Graph *g, const PipelineOptions *opt) {
  Arena *a = arena_new();
  Question q = {.options = opt, .graph = g, .has_like = s->stores != NULL, .like = s->stores_key};
  add_dims(a, g->dims, &q);
  for (int k = 0; k < DATA_BLOCKS; k++)
    q.over[k] = g->spec.data[k].over, q.micro[k] = g->spec.data[k].micro;
  size_t n;
  char *bytes = pack_write(&pack_of_question, &q, source_name, s->diag, &n);
  ProgramKey key = program_key(bytes, n, &opt->code);
  free(bytes);
  arena_free(a);
  return key;
}

// -- whether a program may be reused ------------------------------------------------------------

// Commands that need no more than the program, and options with which they do.
static const CommandId commands[] = {COMMAND_RUN, COMMAND_TRAIN, COMMAND_EVAL, COMMAND_PREDICT,
                                     COMMAND_GENERATE};
static const OptionId needing_passes[] = {OPTION_VERBOSE, OPTION_VERIFY, OPTION_STAGES, OPTION_JSON,
                                          OPTION_LOG_DIR};

static bool needs_passes(const Session *s) {
  bool needs = true;
  for (size_t i = 0; i < countof(commands); i++) needs &= s->opt->command != commands[i];
  for (size_t i = 0; i < countof(needing_passes); i++)
    needs |= option_given(s->opt, needing_passes[i]);
  // The collectives of asynchronous updates are counted (stale_servers_apart).
  const ModelSpec *spec = &s->model->graph->spec;
  return needs || (spec->ntrain && spec->train[0].ahead);
}

// Returns whether the key names all of a graph: it has no dims of blocks, and not so many numbers
// that the passes take less time than hashing them.
static bool has_key(const Graph *g) {
  enum { MANY = 1 << 17 };
  int64_t n = 0;
  for (NodeId i = 1; i <= graph_count(g) && n <= MANY; i++) {
    const Node *x = graph_node(g, i);
    n += x->attr->ndata;
    for (int k = 0; k < x->dims->n; k++)
      if (!is_selected(g->dims, x->dims->at[k])) return false;
    for (int k = 0; k < x->attr->ndims; k++)
      if (!is_selected(g->dims, x->attr->dims[k])) return false;
  }
  for (uint32_t i = 0; i < g->decl.n && n <= MANY; i++) n += g->decl.at[i].init.ndata;
  return n <= MANY;
}

ProgramReuse program_reuse(const Session *s, const Graph *g, const PipelineOptions *opt) {
  ProgramReuse r = {.usable = opt->code.cache && !opt->gpu && !opt->begun && !s->trial &&
                              (!s->stores || s->stores_kept) && !needs_passes(s) && has_key(g)};
  if (r.usable) r.key = key_of(s, g, opt);
  return r;
}

bool program_reused(Session *s, const Graph *g, const PipelineOptions *opt, const ProgramReuse *r,
                    Compilation *out) {
  if (!r->usable) return false;
  *out = (Compilation){.selected = g};
  Program *p =
      program_recall(s->arena, s->names, &r->key, &opt->code, s->diag, &out->predicted, &out->code);
  if (!p) return false;
  if (opt->memory && program_bytes(p) + s->beside > opt->memory) {
    compilation_free(out);
    return false;
  }
  Compiled *made = arena_new_of(s->arena, Compiled);
  made->program = p;
  out->compiled = made;
  return true;
}

void program_reuse_later(Session *s, const PipelineOptions *opt, const ProgramReuse *r,
                         Compilation *c) {
  if (!r->usable) return;
  c->predicted = predicted_seconds(s, c);
  program_keep(&r->key, c->compiled->program, c->predicted, c->code, &opt->code, s->diag);
}
