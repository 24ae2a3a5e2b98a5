// train and eval: the blocks of the model brought together with the runtime's loop.
#include "frontend/driver/last_batch.h"
#include "frontend/report/log_directory.h"
#include "frontend/verify/verify.h"
#include "runtime/train/loop.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

// A program with its data.
typedef struct Part {
  const Graph *graph;
  Compilation made;
  Exec *exec;
  Feed *feed;
  uint32_t nmetrics;
  const Metric *metric;
  LastBatch last; // of an evaluation
  Verified verified;
} Part;

static void part_free(Part *p) {
  last_batch_free(&p->last); // it uses tensors of the other
  exec_free(p->exec);
  feed_close(p->feed);
  code_free(p->made.code);
}

// -- training -----------------------------------------------------------------------------------

static bool train_part(Session *s, Part *p) {
  const TrainAsk ask = {.finite = option_given(s->opt, OPTION_CHECK),
                        .log = option_given(s->opt, OPTION_LOG_DIR)};
  p->graph = select_train_as(s->arena, s->model, NULL, &ask);
  if (!p->graph) return false;
  p->feed = data_open(s, p->graph, DATA_TRAIN, false);
  if (!p->feed || !session_compile(s, p->graph, "train", NULL, NULL, &p->made)) return false;
  bool several = program_tensor(p->made.compiled->program, TENSOR_OUTPUT, select_watched) >= 0;
  p->exec = session_exec(s, &p->made, NULL, several ? select_watched : s->model->loss);
  return p->exec != NULL;
}

static bool averages(const Session *s) {
  const ModelSpec *spec = &s->model->graph->spec;
  return spec->ntrain && spec->train[0].average != 0;
}

// What is evaluated, with whole batches and with the rows of the last one.
typedef struct EvalGraphs {
  const Graph *whole, *last; // last NULL: whole batches are all
  EvalMetric *metric, *of_last;
  uint32_t nmetrics;
} EvalGraphs;

// Metrics whose parts differ in the last batch, as an unrolled loop over rows has them, are not put
// together from parts.
static bool select_both(Session *s, const Model *last, EvalAsk *ask, EvalGraphs *e) {
  uint32_t n;
  bool *whole = arena_array(s->arena, bool, e->nmetrics + 1), apart = false;
  e->last = select_eval_as(s->arena, last, ask, &n, &e->of_last);
  if (!e->last) return false;
  for (uint32_t i = 0; i < e->nmetrics; i++)
    apart |= whole[i] = !last_batch_alike(&e->metric[i], &e->of_last[i]);
  if (!apart) return true;
  ask->whole = whole;
  e->whole = select_eval_as(s->arena, s->model, ask, &n, &e->metric);
  e->last = select_eval_as(s->arena, last, ask, &n, &e->of_last);
  return e->whole && e->last;
}

// Selects what the part evaluates; *last gets what runs its last batch, NULL: the same program.
static bool select_part(Session *s, BlockKind block, bool average, Part *p, const Graph **last) {
  EvalAsk ask = {.average = average};
  EvalGraphs e = {0};
  e.whole = select_eval_as(s->arena, s->model, &ask, &e.nmetrics, &e.metric);
  p->feed = e.whole ? data_open(s, e.whole, block, true) : NULL;
  if (!p->feed) return false;
  int64_t rows = feed_rows(p->feed), incomplete = rows % feed_batch(p->feed);
  const Model *m = incomplete ? last_batch_model(s, data_over(s, block), incomplete, rows) : NULL;
  if (incomplete && (!m || !select_both(s, m, &ask, &e))) return false;
  bool fits = !incomplete ||
              last_batch_fits(s->arena, e.whole, e.last, s->model->graph->spec.data[block].over);
  *last = fits ? NULL : e.last;
  p->graph = e.whole;
  p->nmetrics = e.nmetrics;
  p->metric = metrics_of(s, e.nmetrics, e.metric);
  return !incomplete || last_batch_sized(s, e.whole, e.last, fits);
}

static bool eval_part(Session *s, BlockKind block, const Exec *share, Part *p) {
  const Graph *last;
  bool average = share && averages(s); // `eval` loads the averages as the parameters
  if (!select_part(s, block, average, p, &last) ||
      !session_compile(s, p->graph, "eval", data_over(s, block), NULL, &p->made))
    return false;
  p->exec = session_exec(s, &p->made, share, NULL);
  int64_t rows = feed_rows(p->feed) % feed_batch(p->feed);
  return p->exec &&
         (!last || last_batch_open(s, last, rows, p->exec, p->made.compiled->program, &p->last));
}

static bool is_train_loss(const Session *s, const char *name) {
  const ModelSpec *spec = &s->model->graph->spec;
  for (uint32_t i = 0; i < spec->ntrain; i++)
    if (strcmp(spec->train[i].loss, name) == 0) return true;
  return false;
}

// Scalars among the outputs: the losses first, then metrics.
static const char *const *shown_names(Session *s, const Graph *g, uint32_t *n) {
  const char **names = arena_array(s->arena, const char *, g->output.n + 1);
  *n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < g->output.n; i++) {
      const Output *o = &g->output.at[i];
      bool shown = o->kind == OUT_VALUE && o->rank == 0 && !select_reserved(o->name);
      if (shown && is_train_loss(s, o->name) == (pass == 0)) names[(*n)++] = o->name;
    }
  return (const char *const *)names;
}

static bool has_output(const Graph *g, const char *name) {
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_VALUE && !strcmp(g->output.at[i].name, name)) return true;
  return false;
}

// What only the log gets: "lr" and "grad_norm", of several blocks "lr.d_loss" ...
static void log_names(Session *s, const Graph *g, TrainJob *job) {
  const char **name = arena_array(s->arena, const char *, g->output.n + 1),
             **as = arena_array(s->arena, const char *, g->output.n + 1);
  for (uint32_t i = 0; i < g->output.n; i++) {
    const char *output = g->output.at[i].name;
    bool scalar =
        g->output.at[i].kind == OUT_VALUE && g->output.at[i].rank == 0 && select_reserved(output);
    if (!scalar || !strcmp(output, select_watched) || !strcmp(output, select_skipped)) continue;
    name[job->nlogged] = output;
    as[job->nlogged++] = strchr(output, '.') + 1;
  }
  job->logged = name;
  job->logged_as = as;
  if (has_output(g, select_skipped)) job->skipped = select_skipped;
}

static const char *header(Session *s, const Part *p) {
  const char *figures = arena_printf(s->arena, "%d threads, %s, %s", exec_workers(p->exec),
                                     code_cpu(), s->blas ? s->blas : "no BLAS");
  return arena_printf(
      s->arena, "%s: %lld parameters, mesh %s, cpu (%s), predicted %.3f ms a step, %s a processor",
      s->opt->argument.at[0], (long long)parameter_count(s->model->graph),
      mesh_text(s->arena, &s->model->mesh), figures, 1e3 * predicted_seconds(s, &p->made),
      bytes_text(s->arena, exec_bytes(p->exec)));
}

static bool count_steps(Session *s, const Part *p, int64_t *steps) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  *steps = spec->steps ? spec->steps : spec->epochs * feed_batches(p->feed);
  if (*steps > 0) return true;
  diag_error(s->diag, DIAG_MISSING_KEY, spec->pos,
             spec->epochs ? "the data has fewer rows than one batch"
                          : "the train block says neither steps nor epochs");
  if (!spec->epochs) diag_hint(s->diag, "add: steps = 1000, or say --set train.steps=1000");
  return false;
}

// stop_early looks at the evaluations; without `evaluate` there is one an epoch.
static bool stop_early(Session *s, const Part *p, bool evaluates, TrainJob *job) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  if (!spec->stop_early) return true;
  job->stop = spec->stop_early;
  job->patience = spec->patience;
  job->stop_least = spec->stop_best == BEST_MIN;
  if (job->evaluate == 0) job->evaluate = feed_batches(p->feed);
  if (evaluates) return true;
  diag_error(s->diag, DIAG_NO_DATA_BLOCK, spec->pos,
             "stop_early evaluates, and the model has neither data valid nor data test");
  diag_hint(s->diag, "add: data valid over b { x = csv(\"file.csv\", columns = 0..4) }");
  return false;
}

// What a step works on: rows, or the tokens that its first source of tokens gives.
static void count_units(const Part *p, TrainJob *job) {
  const FeedInput *input;
  uint32_t n = feed_inputs(p->feed, &input);
  job->batch = feed_batch(p->feed);
  job->unit = job->units = "rows";
  for (uint32_t i = 0; i < n; i++) {
    SourceKind kind = input[i].source->kind;
    if (kind != SOURCE_TOKENS && kind != SOURCE_TEXT) continue;
    for (int k = 0; k < input[i].rank; k++)
      if (k != input[i].over) job->batch *= input[i].size[k];
    job->unit = "tok";
    job->units = "tokens";
    return;
  }
}

// The last batch by the program of its own.
static bool verify_last(Session *s, Part *p, Feed *f) {
  VerifyJob job = {.graph = p->last.graph,
                   .made = &p->last.made,
                   .exec = p->last.exec,
                   .purpose = "eval",
                   .rows = -1};
  if (!feed_seek(f, 0, feed_rows(f) - p->last.rows, s->diag) ||
      !verify_batch(s, p->last.exec, f, &job.rows))
    return false;
  job.rows = -1;
  exec_rows(p->last.exec, -1);
  return verify_more(s, &job, &p->verified);
}

// The step of a part on the first batch, which another feed reads, and on the last one where it has
// a program of its own.
static bool verify_part(Session *s, Part *p, BlockKind block, int64_t step) {
  VerifyJob job = {.graph = p->graph,
                   .made = &p->made,
                   .exec = p->exec,
                   .purpose = block == DATA_TRAIN ? "train" : "eval",
                   .rows = -1,
                   .step = step,
                   .commit = block == DATA_TRAIN};
  if (!option_given(s->opt, OPTION_VERIFY)) return true;
  Feed *f = data_open(s, p->graph, block, block != DATA_TRAIN);
  bool good = f != NULL;
  if (good && (!p->last.exec || feed_rows(f) > p->last.rows))
    good = verify_batch(s, p->exec, f, &job.rows) && verify_step(s, &job, &p->verified);
  good = good && (!p->last.exec || verify_last(s, p, f));
  feed_close(f);
  return good;
}

// -- where a step stops being finite ------------------------------------------------------------

typedef struct Locating {
  Session *s;
  const Part *train;
  const TrainJob *job;
} Locating;

static void say_located(const Session *s, const NotFinite *f, Diag *d) {
  Arena *a = s->arena;
  char number[METRIC_NUMBER];
  const Mesh *m = &s->model->mesh;
  const char *at = *f->where ? arena_printf(a, "[%s]", f->where) : "", *who = "";
  for (int i = 0; i < m->naxes; i++)
    who = arena_printf(a, "%s%s%s=%lld", who, i ? ", " : "", m->axis[i].name,
                       (long long)mesh_coord(m, f->processor, i));
  if (*who) who = arena_printf(a, " on processor %lld (%s)", (long long)f->processor, who);
  if (s->ranks)
    who = arena_printf(a, "%s of rank %lld", who,
                       (long long)(f->processor / ranks_processors(s->ranks)));
  const char *round =
      f->round >= 0 ? arena_printf(a, ", in step %lld of its loop", (long long)f->round) : "";
  const char *name = f->name ? f->name : "a value without a name",
             *number_text = metric_number(f->value, number);
  if (f->given)
    diag_note(d, f->pos, "the step begins with %s%s = %s%s", name, at, number_text, who);
  else
    diag_note(d, f->pos,
              "the first value that is not finite: %s%s = %s, which %s makes in the %s pass%s%s",
              name, at, number_text, f->op, f->backward ? "backward" : "forward", round, who);
}

// Runs the failing step again with one kernel an operation. Its state is that before the step,
// which did not commit.
static void locate(void *context, int64_t step, const void **data, Diag *d) {
  Locating *l = context;
  Session unfused = *l->s;
  Compilation made = {0};
  NotFinite found = {0};
  unfused.unfused = unfused.trial = true;
  Exec *e = NULL;
  if (session_compile(&unfused, l->train->graph, "train", NULL, NULL, &made))
    e = session_exec(&unfused, &made, l->train->exec, NULL);
  if (e) {
    give_batch(e, l->job->feed, data);
    if (exec_find_not_finite(e, step, &found) && found.found)
      say_located(l->s, &found, d);
    else
      diag_note(d, (Pos){0},
                "run again with one kernel an operation, every value of the step is finite");
  }
  exec_free(e);
  code_free(made.code);
}

static int train(Session *s, Part *train_with, Part *test_with) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  const DataBlock *data = s->model->graph->spec.data;
  BlockKind block = data[DATA_VALID].present ? DATA_VALID : DATA_TEST;
  TrainJob job = {.test_name = block_text(block), .log = spec->log, .evaluate = spec->evaluate};
  int64_t done = 0;
  if (!train_part(s, train_with) || !count_steps(s, train_with, &job.steps)) return 0;
  if (!stop_early(s, train_with, data[block].present, &job)) return 0;
  if (data[block].present && !eval_part(s, block, train_with->exec, test_with)) return 0;
  const Program *p = train_with->made.compiled->program;
  if (!params_load(s, train_with->exec, p, true, &job.before)) return 0;
  job.train = train_with->exec;
  job.feed = train_with->feed;
  job.eval = test_with->exec;
  job.last = test_with->last.exec;
  job.test = test_with->feed;
  job.metric = test_with->metric;
  job.nmetrics = test_with->nmetrics;
  job.shown = shown_names(s, train_with->graph, &job.nshown);
  job.skip = spec->on_nonfinite == NONFINITE_SKIP;
  log_names(s, train_with->graph, &job);
  count_units(train_with, &job);
  job.quiet = option_given(s->opt, OPTION_QUIET);
  job.terminal = isatty(STDERR_FILENO) && session_first(s);
  job.out = session_output(s);
  job.ranks = s->ranks;
  job.header = header(s, train_with);
  job.done = &done;
  Watch watch = {0};
  Locating locating = {s, train_with, &job};
  if (option_given(s->opt, OPTION_CHECK)) job.locate = locate, job.locating = &locating;
  job.keeps = option_given(s->opt, OPTION_SAVE_PARAMS);
  bool ready = checkpoints_begin(s, &job) && watch_begin(s, &train_with->made, &job, &watch);
  ready = ready && session_same_files(s, true) &&
          verify_part(s, train_with, DATA_TRAIN, job.before + job.start);
  int code = ready ? train_run(&job, s->diag) : 0;
  ready = ready && exec_check(job.train, s->diag) && (!job.eval || exec_check(job.eval, s->diag)) &&
          (!job.last || exec_check(job.last, s->diag));
  saver_free(job.saver);
  // a signal leaves the parameters where no checkpoint has them; a log that could not be written
  // does not keep them back
  bool save = ready && (code == 0 || (code == EXIT_INTERRUPTED && !job.saver));
  if (save && !params_save(s, train_with->exec, p, job.before + done))
    code = 0; // what was said decides
  return watch_end(s, &watch) ? code : 0;
}

int cmd_train(Session *s) {
  Part train_with = {0}, test_with = {0};
  if (!results_check(s) || !params_check(s) || !checkpoints_check(s) || !watch_check(s) ||
      !session_load(s))
    return 0;
  if (!s->model->graph->spec.ntrain) {
    diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "%s has no train block",
               s->opt->argument.at[0]);
    return 0;
  }
  int code = train(s, &train_with, &test_with);
  part_free(&test_with); // it uses tensors of the other
  part_free(&train_with);
  return code;
}

// -- evaluation ---------------------------------------------------------------------------------

static void print_metrics(const Session *s, BlockKind block, const Part *p, const double *value,
                          int64_t rows) {
  if (option_given(s->opt, OPTION_JSON)) {
    json_t *out = json_object(), *metrics = json_object();
    for (uint32_t i = 0; i < p->nmetrics; i++)
      json_object_set_new(metrics, p->metric[i].name,
                          isfinite(value[i]) ? json_real(value[i]) : json_null());
    verified_json(out, &p->verified);
    json_object_set_new(out, "schema", json_string("meshc.eval/1"));
    json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
    json_object_set_new(out, "data", json_text(block_text(block)));
    json_object_set_new(out, "rows", json_integer(rows));
    json_object_set_new(out, "metrics", metrics);
    json_finish(out);
    return;
  }
  for (uint32_t i = 0; i < p->nmetrics; i++) {
    char text[METRIC_NUMBER];
    printf("%s %s %s", block_text(block), p->metric[i].name, metric_number(value[i], text));
    if (p->metric[i].ratio) printf(" (%.0f/%lld)", round(value[i] * (double)rows), (long long)rows);
    printf("\n");
  }
}

static int evaluate(Session *s, BlockKind block, Part *p) {
  int64_t rows, before;
  if (!eval_part(s, block, NULL, p) ||
      !values_load(s, p->exec, p->made.compiled->program, false, &before))
    return 0;
  double *value = arena_array(s->arena, double, p->nmetrics + 1);
  Progress progress;
  if (!session_same_files(s, true) || !verify_part(s, p, block, 0)) return 0;
  progress_start(&progress, session_first(s) && !option_given(s->opt, OPTION_QUIET),
                 PROGRESS_AFTER);
  int code = eval_metrics(p->exec, p->last.exec, p->feed, p->nmetrics, p->metric, value, &rows,
                          &progress, s->diag);
  progress_clear(&progress);
  bool good = code == 0 && exec_check(p->exec, s->diag) &&
              (!p->last.exec || exec_check(p->last.exec, s->diag));
  if (good) print_metrics(s, block, p, value, rows);
  return code;
}

int cmd_eval(Session *s) {
  BlockKind block;
  Part p = {0};
  const char *wanted = option_text(s->opt, OPTION_DATA);
  if (!values_check(s) || !session_load(s) || !data_choose(s, wanted ? wanted : "test", &block))
    return 0;
  int code = evaluate(s, block, &p);
  part_free(&p);
  return code;
}
