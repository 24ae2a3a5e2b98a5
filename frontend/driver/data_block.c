// Opens a data block of a model as a feed (runtime/data), which gives the batches of a graph. Turns
// the metrics of an evaluation (EvalMetric of frontend/step) into those that the loops of
// runtime/train compute (Metric of runtime/train).
#include "frontend/driver/session.h"

#include "ir/base/guard.h"
#include "ir/eval/eval.h"

#include <stdlib.h>
#include <string.h>

const char *data_over(const Session *s, BlockKind kind) {
  const Graph *g = s->model->graph;
  return dim_get(g->dims, g->spec.data[kind].over)->name;
}

static void no_block(const Session *s, BlockKind kind) {
  diag_error(s->diag, DIAG_NO_DATA_BLOCK, (Pos){0}, "the model has no data block '%s'",
             block_text(kind));
  diag_hint(s->diag, "add: data %s over b { x = csv(\"file.csv\", columns = 0..4) }",
            block_text(kind));
}

bool data_choose(Session *s, const char *wanted, BlockKind *out) {
  const DataBlock *block = s->model->graph->spec.data;
  *out = wanted || !block[DATA_VALID].present ? DATA_TEST : DATA_VALID;
  for (int k = 0; wanted && k < DATA_BLOCKS; k++)
    if (strcmp(wanted, block_text((BlockKind)k)) == 0) *out = (BlockKind)k;
  if (wanted && strcmp(wanted, block_text(*out)) != 0) {
    return diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_DATA)->pos,
                      "--data takes train, valid or test, not '%s'", wanted);
  }
  if (block[*out].present) return true;
  no_block(s, *out);
  return false;
}

static const DataField *field_of(const DataBlock *block, const char *input) {
  for (uint32_t i = 0; i < block->nfields; i++)
    if (strcmp(block->field[i].input, input) == 0) return &block->field[i];
  return NULL;
}

// Describes one input of the graph to the data feed, in *out. The axis of the input that counts
// micro-batches is not an axis of the data. There the axis of rows, with index out->over, has the
// rows of all micro-batches. Returns false after an error.
static bool feed_input(Session *s, const Graph *g, const Decl *decl, const DataBlock *block,
                       const char *name, FeedInput *out) {
  const DataField *field = field_of(block, decl->name);
  if (!field) {
    diag_error(s->diag, DIAG_MISSING_KEY, block->pos,
               "the data block '%s' has no entry for the input '%s'", name, decl->name);
    diag_note(s->diag, decl->pos, "declared here");
    return diag_hint(s->diag, "add: %s = SOURCE", decl->name);
  }
  *out = (FeedInput){.name = decl->name,
                     .type = decl->type,
                     .over = -1,
                     .source = &field->source,
                     .pos = field->pos};
  out->rank = 0;
  int64_t parts = 1; // number of micro-batches, which follow one another in the data
  for (int i = 0; i < decl->rank; i++) {
    int64_t size = dim_get(g->dims, decl->dims[i])->size;
    if (decl->dims[i] == block->over) out->over = out->rank;
    if (decl->dims[i] == block->micro && block->micro) {
      parts = size;
      continue;
    }
    out->dim[out->rank] = dim_get(g->dims, decl->dims[i])->name;
    out->size[out->rank++] = size * (decl->dims[i] == block->over ? parts : 1);
  }
  if (out->over >= 0) return true;
  return diag_error(s->diag, DIAG_BAD_BLOCK, field->pos,
                    "the input '%s' has no dim '%s', which is the dim of the rows of data %s",
                    decl->name, dim_get(g->dims, block->over)->name, name);
}

bool data_input(Session *s, BlockKind kind, const char *input, FeedInput *out) {
  const Graph *g = s->model->graph;
  for (uint32_t i = 0; i < g->decl.n; i++)
    if (g->decl.at[i].kind == DECL_INPUT && strcmp(g->decl.at[i].name, input) == 0)
      return feed_input(s, g, &g->decl.at[i], &g->spec.data[kind], block_text(kind), out);
  return false;
}

typedef struct Keeping {
  Session *s;
  const Feed *feed;
} Keeping;

static void keep_all(void *context) {
  const Keeping *k = context;
  const FeedInput *opened;
  uint32_t n = feed_inputs(k->feed, &opened);
  for (uint32_t i = 0; i < n; i++)
    if (opened[i].facts) facts_keep(k->s, opened[i].facts);
}

// Keeps in the session what the feed has learned about its sources. The feed has no owner yet, so a
// failure closes it first: its thread reads memory of the session.
static void keep_facts(Session *s, Feed *f) {
  Keeping k = {s, f};
  Failure why;
  if (guard_run(keep_all, &k, &why)) return;
  feed_close(f);
  guard_raise(&why);
}

// Sets input[0..*n-1] to the inputs that g reads or, with `listed`, that the block has entries for.
// Returns false after an error.
static bool find_inputs(Session *s, const Graph *g, BlockKind kind, bool listed, FeedInput *input,
                        uint32_t *n) {
  const DataBlock *block = &g->spec.data[kind];
  bool good = true;
  *n = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i];
    bool wanted = listed ? field_of(block, decl->name) != NULL : decl->node != 0;
    if (decl->kind == DECL_INPUT && wanted)
      good &= feed_input(s, g, decl, block, block_text(kind), &input[(*n)++]);
  }
  return good;
}

// Sets what the session knows of an input: how it is read, and by which ranks. Returns false after
// an error.
static bool prepare_input(Session *s, bool augment, int threads, FeedInput *input) {
  input->augment = augment;
  input->threads = threads;
  input->ranks = s->ranks;
  if (s->ranks) input->part = ranks_rank(s->ranks), input->parts = ranks_count(s->ranks);
  return facts_supply(s, input) && facts_share(s, input);
}

// Returns the rows of a step: those of all its micro-batches.
static int64_t rows_of_step(const Graph *g, const DataBlock *block) {
  int64_t batch = dim_get(g->dims, block->over)->size;
  return block->micro ? batch * dim_get(g->dims, block->micro)->size : batch;
}

// Opens a data block for the inputs that g reads or, with `listed`, that the block has entries for.
static Feed *open_block(Session *s, const Graph *g, BlockKind kind, bool keep_last, bool listed) {
  const DataBlock *block = &g->spec.data[kind];
  if (!block->present) {
    no_block(s, kind);
    return NULL;
  }
  FeedInput *input = arena_array(s->arena, FeedInput, g->decl.n + 1);
  uint32_t n;
  bool good = find_inputs(s, g, kind, listed, input, &n);
  bool augment = kind == DATA_TRAIN && (!keep_last || listed);
  int threads = session_threads(s); // that decode images
  for (uint32_t i = 0; i < n && good; i++) good = prepare_input(s, augment, threads, &input[i]);
  if (!good) return NULL;
  Feed *f = feed_open(n, input, rows_of_step(g, block), block->shuffle, block->seed + g->spec.seed,
                      keep_last, s->directory, s->diag);
  if (!f) return NULL;
  keep_facts(s, f);
  for (uint32_t i = 0; i < n && !listed; i++) // the command data shows what there is
    good &=
        input[i].source->classes != CLASSES_AUTO || classes_fit(s, g, input[i].name, input[i].pos);
  if (good) return f;
  feed_close(f);
  return NULL;
}

Feed *data_open(Session *s, const Graph *g, BlockKind kind, bool keep_last) {
  return open_block(s, g, kind, keep_last, false);
}

Feed *data_open_all(Session *s, BlockKind kind) {
  return open_block(s, s->model->graph, kind, true, true);
}

// -- metrics ------------------------------------------------------------------------------------

// Returns the value of a metric over all batches, which have `rows` rows. Called as Metric.finish;
// `context` is the EvalMetric m. The parts of a metric are the results of its reductions: `part`
// has the elements of all parts, one part after another, combined over the batches. The evaluator
// computes the operations after the reductions, the graph m->finish.
static double finish(const void *context, const double *part, int64_t rows) {
  const EvalMetric *m = context;
  const Graph *g = m->finish;
  Arena *a = arena_new();
  EvalFeed *feeds = arena_array(a, EvalFeed, g->decl.n + 1);
  double all = (double)rows, result = 0;
  uint32_t n = 0;
  for (DeclId i = 1; i <= g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i - 1];
    if (!decl->node) continue;
    unsigned which = 0;
    feeds[n] = (EvalFeed){.decl = i, .value = &all, .n = 1};
    if (sscanf(decl->name, "part.%u", &which) == 1) {
      feeds[n] = (EvalFeed){.decl = i, .value = part, .n = m->elements[which]};
      for (unsigned k = 0; k < which; k++) feeds[n].value += m->elements[k];
    }
    n++;
  }
  const Eval *e = eval_run(a, g, n, feeds, 0);
  for (uint32_t i = 0; i < g->output.n; i++)
    if (strcmp(g->output.at[i].name, "value") == 0)
      result = eval_at(e, g->output.at[i].value, 0)->value[0];
  arena_free(a);
  return result;
}

const Metric *metrics_of(Session *s, uint32_t n, const EvalMetric *metric) {
  Metric *out = arena_array(s->arena, Metric, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    MetricPart *part = arena_array(s->arena, MetricPart, metric[i].nparts + 1);
    for (uint32_t k = 0; k < metric[i].nparts; k++) {
      part[k].output = metric[i].output[k];
      part[k].how = metric[i].how[k];
      part[k].type = metric[i].type[k];
      part[k].elements = metric[i].elements[k];
    }
    out[i] = (Metric){.name = metric[i].name,
                      .nparts = metric[i].nparts,
                      .part = part,
                      .finish = finish,
                      .context = &metric[i],
                      .ratio = metric[i].ratio};
  }
  return out;
}
