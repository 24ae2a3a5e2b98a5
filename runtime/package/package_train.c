// What a package says about its training, and the data that it trains on (package_train.h).
#include "runtime/package/package_train.h"
#include "ir/base/disk.h"
#include "ir/program/pack.h"
#include "runtime/package/package_batch.h"
#include "runtime/package/package_internal.h"

#include <string.h>

// -- the description ----------------------------------------------------------------------------

static const char *text_of(Arena *a, const json_t *x) {
  const char *text = json_string_value(x);
  return text ? arena_text(a, text, strlen(text)) : NULL;
}

const PackageTrainFacts *package_train_read(Arena *a, const json_t *x) {
  PackageTrainFacts *out = arena_new_of(a, PackageTrainFacts);
  const json_t *shown = json_object_get(x, "shown");
  *out = (PackageTrainFacts){.file = text_of(a, json_object_get(x, "data")),
                             .rows = text_of(a, json_object_get(x, "rows")),
                             .skipped = text_of(a, json_object_get(x, "skipped")),
                             .steps = json_integer_value(json_object_get(x, "steps")),
                             .epochs = json_integer_value(json_object_get(x, "epochs")),
                             .log = json_integer_value(json_object_get(x, "log")),
                             .evaluates = json_is_true(json_object_get(x, "evaluates")),
                             .skip = json_is_true(json_object_get(x, "skip"))};
  out->shown = arena_array(a, const char *, json_array_size(shown) + 1);
  for (size_t i = 0; i < json_array_size(shown); i++) {
    const char *name = text_of(a, json_array_get(shown, i));
    if (!name) return NULL;
    out->shown[out->nshown++] = name;
  }
  bool good = out->file && out->rows && out->steps >= 0 && out->epochs >= 0 && out->log >= 0;
  return good ? out : NULL;
}

// -- the data -----------------------------------------------------------------------------------

static const DataField *field_of(const DataBlock *b, const char *input) {
  for (uint32_t i = 0; i < b->nfields; i++)
    if (!strcmp(b->field[i].input, input)) return &b->field[i];
  return NULL;
}

// Describes an input to the feed. Micro-batches follow one another in the rows. Returns the number
// of rows of a batch, or 0 if the input does not run over rows.
static int64_t describe(const Package *p, const ProgTensor *t, const DataField *field,
                        FeedInput *out) {
  int64_t parts = 1, rows = 0;
  *out = (FeedInput){
      .name = t->name, .type = t->type, .over = -1, .source = &field->source, .pos = field->pos};
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *dim = &t->dim[t->declared[i]];
    if (package_is_micro(p, dim->name)) {
      parts = dim->whole;
      continue;
    }
    bool over = !strcmp(dim->name, p->training->rows);
    if (over) out->over = out->rank, rows = dim->whole * parts;
    out->size[out->rank++] = over ? rows : dim->whole;
  }
  return rows;
}

static bool finds_facts(const DataBlock *b) {
  bool finds = false;
  for (uint32_t i = 0; i < b->nfields; i++) finds |= source_has_facts(&b->field[i].source);
  return finds;
}

// Lists the inputs of the program. Returns false after an error; *rows gets the rows of a batch.
static bool list_inputs(const Package *p, const PackageTrainAsk *ask, const Program *program,
                        const DataBlock *block, FeedInput *input, uint32_t *n, int64_t *rows,
                        Diag *d) {
  // Ranks read all rows where a source finds facts in them, such as means, and else their share.
  Ranks *ranks = finds_facts(block) ? NULL : ask->exec.ranks;
  for (uint32_t i = 0; i < program->ntensors; i++) {
    const ProgTensor *t = &program->tensor[i];
    if (t->kind != TENSOR_INPUT) continue;
    const DataField *field = field_of(block, t->name);
    *rows = field ? describe(p, t, field, &input[*n]) : 0;
    if (!*rows)
      return package_damaged(p->source, p->training->file, "has no source for an input", d);
    FeedInput *x = &input[(*n)++];
    x->augment = true;
    x->threads = ask->threads ? ask->threads : cores_available();
    x->ranks = ranks;
    if (ranks) x->part = ranks_rank(ranks), x->parts = ranks_count(ranks);
  }
  return *n > 0 || package_damaged(p->source, p->training->file, "feeds no input", d);
}

// Returns false after an error: the file that is to be written has data, or cannot be written,
// which is better known before the training than after it.
static bool may_save(Arena *a, const PackageTrainAsk *ask, const DataBlock *block, Diag *d) {
  for (uint32_t i = 0; ask->save && i < block->nfields; i++) {
    const char *path = block->field[i].source.path;
    if (path && *path != '/') path = arena_printf(a, "%s/%s", ask->directory, path);
    if (!path || !disk_same_file(ask->save, path)) continue;
    diag_error(d, DIAG_USAGE, (Pos){0}, "%s is also read in this run, as data", ask->save);
    return diag_hint(d, "name another file to write");
  }
  return !ask->save || package_may_save(ask->save, d);
}

static Feed *open_data(Arena *a, const Package *p, const PackageTrainAsk *ask,
                       const Program *program, Diag *d) {
  DataBlock *block = arena_new_of(a, DataBlock);
  char why[PACK_WHY];
  size_t bytes;
  uint32_t n = 0;
  int64_t rows = 0;
  const char *at = source_file(a, p->source, p->training->file, &bytes, d);
  if (!at) return NULL;
  if (!pack_read(a, NULL, &pack_of_data_block, at, bytes, d, block, why) ||
      !data_block_sound(block, why)) {
    (void)package_damaged(p->source, p->training->file, why, d);
    return NULL;
  }
  FeedInput *input = arena_array(a, FeedInput, program->ntensors + 1);
  if (!may_save(a, ask, block, d) || !list_inputs(p, ask, program, block, input, &n, &rows, d))
    return NULL;
  return feed_open(n, input, rows, block->shuffle, block->seed + ask->exec.seed, false,
                   ask->directory, d);
}

// -- the job ------------------------------------------------------------------------------------

bool package_train_steps(const Package *p, const Feed *feed, int64_t asked, TrainJob *job,
                         Diag *d) {
  const PackageTrainFacts *f = p->training;
  int64_t batches = feed_batches(feed);
  job->steps = asked ? asked : f->steps;
  if (!job->steps && f->epochs && batches)
    job->steps = f->epochs > INT64_MAX / batches ? INT64_MAX : f->epochs * batches;
  if (job->steps > 0) return true;
  if (f->epochs)
    return diag_error(d, DIAG_DATA_SHAPE, (Pos){0},
                      "the data has fewer rows than one batch: %lld of %lld",
                      (long long)feed_rows(feed), (long long)feed_batch(feed));
  diag_error(d, DIAG_USAGE, (Pos){0}, "the train block of %s says neither steps nor epochs",
             p->path);
  return diag_hint(d, "say --steps 1000, or say --set train.steps=1000");
}

static bool fill_job(const Package *p, const PackageTrainAsk *ask, const PackageTraining *t,
                     TrainJob *job, Diag *d) {
  const PackageTrainFacts *f = p->training;
  job->train = t->exec;
  job->feed = t->feed;
  job->seed = ask->exec.seed;
  job->log_every = f->log;
  job->skip = f->skip;
  job->skipped = f->skipped;
  job->shown = f->shown;
  job->nshown = f->nshown;
  train_count_units(job);
  for (uint32_t i = 0; i < f->nshown; i++)
    if (program_tensor(t->program, TENSOR_OUTPUT, f->shown[i]) < 0)
      return package_damaged(p->source, PACKAGE_FILE, "shows an output that there is not", d);
  return package_train_steps(p, t->feed, ask->steps, job, d);
}

// Makes the Exec, with the values of the package or of a file.
static bool bind_program(const Package *p, const PackageProgram *program,
                         const PackageTrainAsk *ask, Diag *d, PackageTraining *out, TrainJob *job) {
  ExecOptions options = ask->exec;
  options.must_be_finite = p->watch;
  out->made = true;
  out->exec = package_exec(program, &options, d);
  return out->exec && package_load(p, out->program, out->exec, d) &&
         (!ask->values ||
          package_read_values(out->program, out->exec, ask->values, &job->before, d));
}

bool package_train_open(Arena *a, const Package *p, const PackageTrainAsk *ask, Diag *d,
                        PackageTraining *out, TrainJob *job) {
  const PackageProgram *program = package_program(p, "train");
  *out = (PackageTraining){0};
  *job = (TrainJob){.before = p->steps};
  if (!program || !p->training) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "%s is a package without data to train on", p->path);
    return diag_hint(d, "compile the model with --for train; it needs a block data train");
  }
  if (p->training->evaluates) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0},
               "the training of %s depends on evaluations, which packages do not make", p->path);
    return diag_hint(d, "compile the model without stop_early and without a plateau schedule");
  }
  out->program = &program->program;
  out->exec = ask->own;
  if (!out->exec && !bind_program(p, program, ask, d, out, job)) return false;
  out->feed = open_data(a, p, ask, out->program, d);
  return out->feed && fill_job(p, ask, out, job, d);
}

int package_train_run(const PackageTraining *t, TrainJob *job, const char *save, bool first,
                      Diag *d) {
  int64_t done = 0;
  job->ahead = true;
  job->done = &done;
  int code = train_run(job, d);
  bool good = (code == 0 || code == EXIT_INTERRUPTED) && exec_check(t->exec, d);
  bool saved = !good || !save ||
               package_save_values(t->program, t->exec, save, job->before + done, first, d);
  return saved ? code : 0;
}

void package_train_free(PackageTraining *t) {
  if (t->made) exec_free(t->exec);
  feed_close(t->feed);
  *t = (PackageTraining){0};
}
