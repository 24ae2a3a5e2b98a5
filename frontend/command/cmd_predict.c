// The command predict: computes outputs for any number of rows, in batches of the model's size; the
// last batch may be shorter. Input: a model, parameters, and rows from --feed or --data. Output:
// files, text or JSON.
#include "frontend/command/package_command.h"
#include "frontend/driver/progress.h"
#include "frontend/driver/training.h"
#include "frontend/verify/verify.h"
#include "runtime/train/loop.h"

#include <stdlib.h>
#include <string.h>

typedef struct Predict {
  Session *s;
  DimId over;
  const char *over_name;
  bool shuffled;       // rows of --data are not in the order of their files
  int64_t batch, rows; // number of rows of a whole batch, and of all input
  FedList feeds;
  ProgramRun run; // run.feed reads the data of --data; with --feed it is NULL
  uint32_t nresults;
  Result *result; // arrays with all rows
  int *axis;      // for each result: which axis runs over rows
  Verified verified;
} Predict;

static bool one_source(const Session *s) {
  const OptionUse *data = option_use(s->opt, OPTION_DATA);
  if (!data || !option_given(s->opt, OPTION_FEED)) return true;
  return diag_error(s->diag, DIAG_USAGE, data->pos,
                    "rows come either from --feed or from --data, not from both");
}

// Chooses the dim of the rows: the batch dim of the data blocks, else the first dim of the first
// input that is fed. Returns false after an error.
static bool choose_rows(Predict *p) {
  const Graph *g = p->s->model->graph;
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (g->spec.data[k].present) p->over = g->spec.data[k].over;
  const OptionUse *use = option_use(p->s->opt, OPTION_FEED);
  size_t n = use ? strcspn(use->text, "=") : 0;
  if (!one_source(p->s)) return false;
  for (uint32_t i = 0; i < g->decl.n && !p->over; i++) {
    const Decl *d = &g->decl.at[i];
    if (d->kind == DECL_INPUT && d->rank && strlen(d->name) == n &&
        memcmp(d->name, use->text, n) == 0)
      p->over = d->dims[0];
  }
  if (!p->over)
    return diag_error(p->s->diag, DIAG_USAGE, (Pos){0},
                      "predict needs rows: --feed NAME=FILE, or --data test");
  p->over_name = dim_get(g->dims, p->over)->name;
  p->batch = dim_get(g->dims, p->over)->size;
  return true;
}

static int axis_of(const Predict *p, const char *const *dim, int rank) {
  for (int i = 0; i < rank; i++)
    if (strcmp(dim[i], p->over_name) == 0) return i;
  return -1;
}

// Sets p->rows to the number of rows in the arrays that are fed. All arrays that run over rows must
// have the same number. Returns false after an error.
static bool count_fed(Predict *p) {
  const Graph *g = p->s->model->graph;
  const Fed *first = NULL;
  for (uint32_t i = 0; i < p->feeds.n; i++) {
    const Fed *f = &p->feeds.at[i];
    const Decl *d = &g->decl.at[f->decl - 1];
    for (int k = 0; k < d->rank; k++) {
      if (d->dims[k] != p->over) continue;
      if (first && f->array.size[k] != p->rows)
        return diag_error(p->s->diag, DIAG_DATA_SHAPE, f->use.pos, "%s has %lld row%s, %s has %lld",
                          d->name, (long long)f->array.size[k], plural(f->array.size[k]),
                          g->decl.at[first->decl - 1].name, (long long)p->rows);
      first = f;
      p->rows = f->array.size[k];
    }
  }
  if (first) return true;
  return diag_error(p->s->diag, DIAG_USAGE, (Pos){0}, "no input that is fed runs over %s",
                    p->over_name);
}

static bool open_rows(Predict *p) {
  BlockKind block;
  const char *wanted = option_text(p->s->opt, OPTION_DATA);
  if (p->feeds.n) return feeds_cover(p->s, p->run.graph, &p->feeds) && count_fed(p);
  if (!data_choose(p->s, wanted ? wanted : "test", &block)) return false;
  p->run.feed = data_open(p->s, p->run.graph, block, true);
  if (!p->run.feed) return false;
  p->rows = feed_rows(p->run.feed);
  p->shuffled = p->s->model->graph->spec.data[block].shuffle;
  return true;
}

// Returns the names of the rows, which are the files of images that are read; none if there are
// none.
static ClassNames row_names(const Predict *p) {
  const FeedInput *input;
  uint32_t n = p->run.feed ? feed_inputs(p->run.feed, &input) : p->feeds.n;
  if (p->shuffled) return (ClassNames){0};
  for (uint32_t i = 0; i < n; i++) {
    ClassNames names = p->run.feed ? source_row_names(p->s->arena, input[i].source, p->s->directory)
                                   : p->feeds.at[i].rows;
    if (names.n == p->rows) return names;
  }
  return (ClassNames){0};
}

// Allocates the results with room for all rows. Returns false after an error, such as an output
// that does not run over the rows.
static bool open_results(Predict *p) {
  const Program *program = p->run.made.compiled->program;
  ClassNames names = row_names(p);
  p->result = arena_array(p->s->arena, Result, p->run.graph->output.n + 1);
  p->axis = arena_array(p->s->arena, int, p->run.graph->output.n + 1);
  for (uint32_t i = 0; i < p->run.graph->output.n; i++) {
    const Output *o = &p->run.graph->output.at[i];
    Result r;
    if (!result_read(p->s, p->run.exec, program, TENSOR_OUTPUT, o->name, &r)) return false;
    int axis = axis_of(p, r.dim, r.array.rank);
    free(r.array.data); // only the shape is needed
    r.array.data = NULL;
    if (axis < 0) {
      diag_error(p->s->diag, DIAG_USAGE,
                 option_use(p->s->opt, OPTION_FETCH) ? option_use(p->s->opt, OPTION_FETCH)->pos
                                                     : (Pos){0},
                 "%s does not run over %s: predict gives rows", o->name, p->over_name);
      return diag_hint(p->s->diag, "see meshc eval for the metrics of a data block");
    }
    r.array.elements = r.array.elements / p->batch * p->rows;
    r.array.size[axis] = p->rows;
    if (session_first(p->s))
      r.array.data = mem_alloc((size_t)(r.array.elements * dtype_bytes(r.array.type)) + 1);
    result_classes(p->s, p->run.graph, &r);
    if (!r.axis[axis].n) r.axis[axis] = names;
    r.files = axis == 0 && names.n > 0;
    p->axis[p->nresults] = axis;
    p->result[p->nresults++] = r;
  }
  return true;
}

// -- batches ------------------------------------------------------------------------------------

// Returns whether the separate program for the last batch runs a batch of this many rows.
static bool is_last(const Predict *p, int64_t rows) {
  return p->run.last.exec && rows == p->run.last.rows;
}

static const Program *program_for(const Predict *p, int64_t rows) {
  return (is_last(p, rows) ? &p->run.last.made : &p->run.made)->compiled->program;
}

// Returns the bound program that runs a batch of this many rows, and sets its number of valid rows.
static Exec *exec_for(const Predict *p, int64_t rows) {
  if (is_last(p, rows)) return p->run.last.exec;
  exec_rows(p->run.exec, rows < p->batch ? rows : -1);
  return p->run.exec;
}

static bool write_fed(const Predict *p, const Fed *f, int64_t first, int64_t rows) {
  const Decl *d = &p->s->model->graph->decl.at[f->decl - 1];
  Exec *e = exec_for(p, rows);
  if (program_tensor(program_for(p, rows), TENSOR_INPUT, d->name) < 0) return true;
  int axis = 0;
  while (axis < d->rank && d->dims[axis] != p->over) axis++;
  if (axis == d->rank) {
    exec_write(e, TENSOR_INPUT, d->name, f->array.type, f->array.data);
    return true;
  }
  char *part =
      mem_alloc((size_t)(f->array.elements / p->rows * rows * dtype_bytes(f->array.type)) + 1);
  array_copy_rows(&f->array, axis, (ArrayRows){part, rows, 0},
                  (ArrayRows){f->array.data, p->rows, first}, rows);
  exec_write(e, TENSOR_INPUT, d->name, f->array.type, part);
  free(part);
  return true;
}

// Writes the batch that begins with row `first` to the program. Returns its number of rows, or 0
// after an error.
static int64_t next_batch(Predict *p, int64_t first) {
  if (!p->run.feed) {
    int64_t rows = p->rows - first < p->batch ? p->rows - first : p->batch;
    for (uint32_t i = 0; i < p->feeds.n; i++)
      if (!write_fed(p, &p->feeds.at[i], first, rows)) return 0;
    return rows;
  }
  const FeedInput *input;
  uint32_t n = feed_inputs(p->run.feed, &input);
  const void **data = arena_array(p->s->arena, const void *, n + 1);
  int64_t rows = feed_next(p->run.feed, data);
  if (rows <= 0) {
    if (rows < 0) feed_fault(p->run.feed, p->s->diag);
    return 0;
  }
  for (uint32_t i = 0; i < n; i++)
    exec_write(exec_for(p, rows), TENSOR_INPUT, input[i].name, input[i].type, data[i]);
  return rows;
}

static bool take_results(Predict *p, int64_t first, int64_t rows) {
  for (uint32_t i = 0; i < p->nresults; i++) {
    Result *r = &p->result[i], one;
    if (!result_read(p->s, exec_for(p, rows), program_for(p, rows), TENSOR_OUTPUT, r->name, &one))
      return false;
    if (!session_first(p->s)) continue;
    array_widen(&one.array, p->axis[i], r->array.size); // a dim of the rows' size is shorter, too
    array_copy_rows(&r->array, p->axis[i], (ArrayRows){r->array.data, p->rows, first},
                    (ArrayRows){one.array.data, rows, 0}, rows);
    array_free(&one.array);
  }
  return true;
}

// Verifies (verify.h) the step on the batch that begins with row `first`. With --data, f is a
// second feed that reads this batch, so that p->run.feed keeps its position. Otherwise f is NULL.
// Returns false after an error.
static bool verify_at(Predict *p, Feed *f, int64_t first) {
  int64_t rows = p->rows - first < p->batch ? p->rows - first : p->batch, got;
  VerifyJob job = {.graph = p->run.graph,
                   .made = &p->run.made,
                   .exec = exec_for(p, rows),
                   .purpose = "eval",
                   .rows = rows < p->batch ? rows : -1};
  if (is_last(p, rows)) job.graph = p->run.last.graph, job.made = &p->run.last.made, job.rows = -1;
  if (!f && next_batch(p, first) <= 0) return false;
  if (f && (!feed_seek(f, 0, first, p->s->diag) || !verify_batch(p->s, job.exec, f, &got)))
    return false;
  if (is_last(p, rows)) exec_rows(job.exec, -1);
  return verify_more(p->s, &job, &p->verified);
}

// Verifies the first batch and, if a separate program runs it, the last batch, for --verify.
// Returns false after an error.
static bool verify(Predict *p) {
  BlockKind block;
  const char *wanted = option_text(p->s->opt, OPTION_DATA);
  Feed *f = NULL;
  if (!option_given(p->s->opt, OPTION_VERIFY)) return true;
  if (p->run.feed && (!data_choose(p->s, wanted ? wanted : "test", &block) ||
                      !(f = data_open(p->s, p->run.graph, block, true))))
    return false;
  bool good = verify_at(p, f, 0) && (!p->run.last.exec || p->rows < p->batch ||
                                     verify_at(p, f, p->rows - p->run.last.rows));
  feed_close(f);
  return good;
}

static bool predict_batches(Predict *p, Progress *progress) {
  for (int64_t first = 0; first < p->rows;) {
    int64_t rows = next_batch(p, first);
    if (rows <= 0) return false;
    Exec *e = exec_for(p, rows);
    if (exec_step(e, 0, false) != STEP_OK) {
      step_fault(e, p->run.feed, 0, p->s->diag);
      return false;
    }
    if (!take_results(p, first, rows)) return false;
    first += rows;
    progress_show(progress, "%lld of %lld row%s", (long long)first, (long long)p->rows,
                  plural(p->rows));
  }
  return true;
}

static bool predict_all(Predict *p) {
  if (!session_same_files(p->s, true) || !verify(p)) return false;
  if (p->run.feed) exec_restrict_feed(p->run.exec, p->run.last.exec, p->run.feed);
  Progress progress;
  progress_start(&progress, session_remarks(p->s), PROGRESS_AFTER);
  bool good = predict_batches(p, &progress);
  progress_clear(&progress);
  return good && exec_check(p->run.exec, p->s->diag) &&
         (!p->run.last.exec || exec_check(p->run.last.exec, p->s->diag));
}

// Returns the names of --fetch, else the outputs of the model that run over the rows.
static Fetch fetch_outputs(const Predict *p) {
  Fetch f = session_fetch(p->s);
  const Graph *g = p->s->model->graph;
  if (f.n) return f;
  const char **names = arena_array(p->s->arena, const char *, g->name.n + 1);
  for (uint32_t i = 0; i < g->name.n; i++) {
    const Name *name = &g->name.at[i];
    bool runs = name->value && dims_has(graph_node(g, name->value)->dims, p->over);
    if (name->kind == NAME_OUTPUT && runs) names[f.n++] = name->name;
  }
  f.name = names;
  return f;
}

// Selects the graph for a last, incomplete batch into *last. It is NULL if there is no such batch,
// or if the program for whole batches runs it. Returns false after an error.
static bool select_last(Predict *p, Fetch *fetch, const Graph **last) {
  Session *s = p->s;
  int64_t rows = p->rows % p->batch;
  *last = NULL;
  if (!rows) return true;
  Model *m = last_batch_model(s, p->over_name, rows, p->rows);
  fetch->rows = p->over;
  p->run.graph = select_run(s->arena, s->model, fetch);
  if (!p->run.graph || !m) return false;
  fetch->rows = dim_find(m->graph->dims, p->over_name);
  const Graph *g = select_run(s->arena, m, fetch);
  bool fits = g && last_batch_fits(s->arena, p->run.graph, g, p->over);
  *last = fits ? NULL : g;
  return g && last_batch_sized(s, p->run.graph, g, p->over, fits) &&
         (fits || last_batch_room(s, p->run.graph, g));
}

static bool prepare(Predict *p) {
  const Graph *last;
  Session *s = p->s;
  if (!values_check(s) || !results_check(s) || !session_load(s) || !choose_rows(p) ||
      !feeds_read(s, p->over, &p->feeds))
    return false;
  Fetch fetch = fetch_outputs(p);
  if (!fetch.n) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "the model has no output that runs over %s",
               p->over_name);
    return diag_hint(s->diag, "name values: --fetch NAME,...");
  }
  p->run.graph = select_run(s->arena, s->model, &fetch);
  if (!p->run.graph || !open_rows(p) || !select_last(p, &fetch, &last) ||
      !program_open(s, "eval", p->over_name, NULL, &p->run))
    return false;
  const Program *program = p->run.made.compiled->program;
  int64_t before;
  return values_load(s, p->run.exec, program, false, &before) &&
         (!last ||
          last_batch_open(s, last, p->rows % p->batch, p->run.exec, program, &p->run.last)) &&
         open_results(p);
}

static void print_json(const Predict *p) {
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.predict/1"));
  json_object_set_new(out, "model", json_text(p->s->opt->argument.at[0]));
  json_object_set_new(out, "rows", json_integer(p->rows));
  json_object_set_new(out, "values", results_json(p->nresults, p->result));
  verified_json(out, &p->verified);
  json_finish(out);
}

int cmd_predict(Session *s) {
  if (package_given(s)) return package_command(s);
  Predict p = {.s = s};
  if (prepare(&p) && predict_all(&p) && session_first(s) &&
      results_finite(s, p.nresults, p.result) && results_write(s, p.nresults, p.result) &&
      option_given(s->opt, OPTION_JSON))
    print_json(&p);
  for (uint32_t i = 0; i < p.nresults; i++) array_free(&p.result[i].array);
  feeds_free(&p.feeds);
  program_run_free(&p.run);
  return 0;
}
