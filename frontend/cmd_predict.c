// predict: outputs for any number of rows, in batches of the model's size; the last one may be
// shorter.
#include "frontend/verify.h"

#include <stdlib.h>
#include <string.h>

typedef struct Predict {
  Session *s;
  DimId over;
  const char *over_name;
  int64_t batch, rows; // of the model; in all
  FedList feeds;
  Feed *feed; // of --data, else NULL
  const Graph *graph;
  Compilation made;
  Exec *exec;
  uint32_t nresults;
  Result *result; // over all rows
  int *axis;      // that runs over the rows
  Verified verified;
} Predict;

static bool one_source(const Session *s) {
  const OptionUse *data = option_use(s->opt, OPTION_DATA);
  if (!data || !option_given(s->opt, OPTION_FEED)) return true;
  diag_error(s->diag, DIAG_USAGE, data->pos, "rows are either those of --feed or those of --data");
  return false;
}

// The dim of rows: that of the data blocks, else the first of what is fed.
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
  if (!p->over) {
    diag_error(p->s->diag, DIAG_USAGE, (Pos){0},
               "predict needs rows: --feed NAME=FILE, or --data test");
    return false;
  }
  p->over_name = dim_get(g->dims, p->over)->name;
  p->batch = dim_get(g->dims, p->over)->size;
  return true;
}

static int axis_of(const Predict *p, const char *const *dim, int rank) {
  for (int i = 0; i < rank; i++)
    if (strcmp(dim[i], p->over_name) == 0) return i;
  return -1;
}

// Rows of an array, counted along `axis`, from src (of src_rows) to dst (of dst_rows).
static void copy_rows(const Array *shape, int axis, char *dst, int64_t dst_rows, int64_t dst_at,
                      const char *src, int64_t src_rows, int64_t src_at, int64_t n) {
  int64_t outer = 1, inner = dtype_bytes(shape->type);
  for (int i = 0; i < axis; i++) outer *= shape->size[i];
  for (int i = axis + 1; i < shape->rank; i++) inner *= shape->size[i];
  for (int64_t i = 0; i < outer; i++)
    memcpy(dst + (i * dst_rows + dst_at) * inner, src + (i * src_rows + src_at) * inner,
           (size_t)(n * inner));
}

// All fed arrays that have the rows must have equally many.
static bool count_fed(Predict *p) {
  const Graph *g = p->s->model->graph;
  const Fed *first = NULL;
  for (uint32_t i = 0; i < p->feeds.n; i++) {
    const Fed *f = &p->feeds.at[i];
    const Decl *d = &g->decl.at[f->decl - 1];
    for (int k = 0; k < d->rank; k++) {
      if (d->dims[k] != p->over) continue;
      if (first && f->array.size[k] != p->rows) {
        diag_error(p->s->diag, DIAG_DATA_SHAPE, f->use.pos, "%s has %lld rows, %s has %lld",
                   d->name, (long long)f->array.size[k], g->decl.at[first->decl - 1].name,
                   (long long)p->rows);
        return false;
      }
      first = f;
      p->rows = f->array.size[k];
    }
  }
  if (first) return true;
  diag_error(p->s->diag, DIAG_USAGE, (Pos){0}, "no input that is fed runs over %s", p->over_name);
  return false;
}

static bool open_rows(Predict *p) {
  BlockKind block;
  const char *wanted = option_text(p->s->opt, OPTION_DATA);
  if (p->feeds.n) return feeds_cover(p->s, p->graph, &p->feeds) && count_fed(p);
  if (!data_choose(p->s, wanted ? wanted : "test", &block)) return false;
  p->feed = data_open(p->s, p->graph, block, true);
  if (!p->feed) return false;
  p->rows = feed_rows(p->feed);
  return true;
}

// Room for all rows of every output; one that does not run over them is an error.
static bool open_results(Predict *p) {
  const Program *program = p->made.compiled->program;
  p->result = arena_array(p->s->arena, Result, p->graph->output.n + 1);
  p->axis = arena_array(p->s->arena, int, p->graph->output.n + 1);
  for (uint32_t i = 0; i < p->graph->output.n; i++) {
    const Output *o = &p->graph->output.at[i];
    Result r;
    if (!result_read(p->s, p->exec, program, TENSOR_OUTPUT, o->name, &r)) return false;
    int axis = axis_of(p, r.dim, r.array.rank);
    free(r.array.data); // only the shape was wanted
    r.array.data = NULL;
    if (axis < 0) {
      diag_error(p->s->diag, DIAG_USAGE,
                 option_use(p->s->opt, OPTION_FETCH) ? option_use(p->s->opt, OPTION_FETCH)->pos
                                                     : (Pos){0},
                 "%s does not run over %s: predict gives rows", o->name, p->over_name);
      diag_hint(p->s->diag, "see meshc eval for the metrics of a data block");
      return false;
    }
    r.array.elements = r.array.elements / p->batch * p->rows;
    r.array.size[axis] = p->rows;
    if (session_first(p->s)) r.array.data = malloc((size_t)(r.array.elements * dtype_bytes(r.array.type)) + 1);
    if (session_first(p->s) && !r.array.data) {
      diag_error(p->s->diag, DIAG_NO_MEMORY, (Pos){0}, "no memory for %lld rows of %s",
                 (long long)p->rows, o->name);
      return false;
    }
    p->axis[p->nresults] = axis;
    p->result[p->nresults++] = r;
  }
  return true;
}

// -- batches -------------------------------------------------------------------------------------

static bool write_fed(const Predict *p, const Fed *f, int64_t first, int64_t rows) {
  const Decl *d = &p->s->model->graph->decl.at[f->decl - 1];
  if (program_tensor(p->made.compiled->program, TENSOR_INPUT, d->name) < 0) return true;
  int axis = 0;
  while (axis < d->rank && d->dims[axis] != p->over) axis++;
  if (axis == d->rank) {
    exec_write(p->exec, TENSOR_INPUT, d->name, f->array.type, f->array.data);
    return true;
  }
  char *part =
      malloc((size_t)(f->array.elements / p->rows * rows * dtype_bytes(f->array.type)) + 1);
  if (!part) {
    diag_error(p->s->diag, DIAG_NO_MEMORY, (Pos){0}, "no memory for a batch of %s", d->name);
    return false;
  }
  copy_rows(&f->array, axis, part, rows, 0, f->array.data, p->rows, first, rows);
  exec_write(p->exec, TENSOR_INPUT, d->name, f->array.type, part);
  free(part);
  return true;
}

// The rows of the next batch, written to the program; 0 after an error.
static int64_t next_batch(Predict *p, int64_t first) {
  if (!p->feed) {
    int64_t rows = p->rows - first < p->batch ? p->rows - first : p->batch;
    exec_rows(p->exec, rows < p->batch ? rows : -1);
    for (uint32_t i = 0; i < p->feeds.n; i++)
      if (!write_fed(p, &p->feeds.at[i], first, rows)) return 0;
    return rows;
  }
  const FeedInput *input;
  uint32_t n = feed_inputs(p->feed, &input);
  const void **data = arena_array(p->s->arena, const void *, n + 1);
  int64_t rows = feed_next(p->feed, data);
  if (rows <= 0) {
    if (rows < 0) feed_fault(p->feed, p->s->diag);
    return 0;
  }
  exec_rows(p->exec, rows < p->batch ? rows : -1);
  for (uint32_t i = 0; i < n; i++)
    exec_write(p->exec, TENSOR_INPUT, input[i].name, input[i].type, data[i]);
  return rows;
}

static bool take_results(Predict *p, int64_t first, int64_t rows) {
  for (uint32_t i = 0; i < p->nresults; i++) {
    Result *r = &p->result[i], one;
    if (!result_read(p->s, p->exec, p->made.compiled->program, TENSOR_OUTPUT, r->name, &one))
      return false;
    if (!session_first(p->s)) continue;
    copy_rows(&r->array, p->axis[i], r->array.data, p->rows, first, one.array.data, rows, 0, rows);
    array_free(&one.array);
  }
  return true;
}

// The first batch, which of a data block another feed reads.
static bool verify(Predict *p) {
  VerifyJob job = {.graph = p->graph, .made = &p->made, .exec = p->exec, .purpose = "eval", .rows = -1};
  BlockKind block;
  const char *wanted = option_text(p->s->opt, OPTION_DATA);
  if (!option_given(p->s->opt, OPTION_VERIFY)) return true;
  if (!p->feed) {
    int64_t rows = next_batch(p, 0);
    job.rows = rows < p->batch ? rows : -1;
    return rows > 0 && verify_step(p->s, &job, &p->verified);
  }
  if (!data_choose(p->s, wanted ? wanted : "test", &block)) return false;
  Feed *f = data_open(p->s, p->graph, block, true);
  bool good = f && verify_batch(p->s, p->exec, f, &job.rows) && verify_step(p->s, &job, &p->verified);
  feed_close(f);
  return good;
}

static bool predict_all(Predict *p) {
  if (!verify(p)) return false;
  if (p->feed) exec_want(p->exec, p->feed);
  for (int64_t first = 0; first < p->rows;) {
    int64_t rows = next_batch(p, first);
    if (rows <= 0) return false;
    if (exec_step(p->exec, 0, false) != STEP_OK) {
      exec_fault(p->exec, p->s->diag);
      return false;
    }
    if (!take_results(p, first, rows)) return false;
    first += rows;
  }
  return exec_check(p->exec, p->s->diag);
}

// Without --fetch: the outputs of the model that run over the rows.
static Fetch fetch_outputs(const Predict *p) {
  Fetch f = session_fetch(p->s);
  const Graph *g = p->s->model->graph;
  if (f.n) return f;
  const char **names = arena_array(p->s->arena, const char *, g->name.n + 1);
  for (uint32_t i = 0; i < g->name.n; i++) {
    const Name *name = &g->name.at[i];
    bool runs = name->value && dims_has(&graph_node(g, name->value)->dims, p->over);
    if (name->kind == NAME_OUTPUT && runs) names[f.n++] = name->name;
  }
  f.name = names;
  return f;
}

static bool prepare(Predict *p) {
  Session *s = p->s;
  if (!values_check(s) || !session_load(s) || !choose_rows(p) || !feeds_read(s, p->over, &p->feeds)) return false;
  Fetch fetch = fetch_outputs(p);
  if (!fetch.n) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "the model has no output that runs over %s",
               p->over_name);
    diag_hint(s->diag, "name values: --fetch NAME,...");
    return false;
  }
  p->graph = select_run(s->arena, s->model, &fetch);
  if (!p->graph || !open_rows(p) ||
      !session_compile(s, p->graph, "eval", p->over_name, NULL, &p->made))
    return false;
  p->exec = session_exec(s, &p->made, NULL, NULL);
  return p->exec && values_load(s, p->exec, p->made.compiled->program) &&
         open_results(p);
}

static void print_json(const Predict *p) {
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.predict/1"));
  json_object_set_new(out, "model", json_string(p->s->opt->argument.at[0]));
  json_object_set_new(out, "rows", json_integer(p->rows));
  json_object_set_new(out, "values", results_json(p->nresults, p->result));
  verified_json(out, &p->verified);
  json_finish(out);
}

int cmd_predict(Session *s) {
  Predict p = {.s = s};
  if (prepare(&p) && predict_all(&p) && session_first(s) && results_finite(s, p.nresults, p.result) &&
      results_write(s, p.nresults, p.result) && option_given(s->opt, OPTION_JSON))
    print_json(&p);
  for (uint32_t i = 0; i < p.nresults; i++) array_free(&p.result[i].array);
  feeds_free(&p.feeds);
  feed_close(p.feed);
  exec_free(p.exec);
  code_free(p.made.code);
  return 0;
}
