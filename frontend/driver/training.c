// Opens training and evaluation for the blocks of a model: selects and compiles the programs, opens
// their data, and fills the job of the training loop (runtime/train). See training.h.
#include "frontend/driver/asynchronous.h"

#include <string.h>

void program_run_free(ProgramRun *p) {
  last_batch_free(&p->last); // first, because its program uses tensors of p->exec
  exec_free(p->sync.exec);   // as well
  for (int64_t i = 0; i < p->stale.n; i++) exec_free(p->stale.worker[i]);
  exec_free(p->exec);
  feed_close(p->feed);
  compilation_free(&p->stale.made);
  compilation_free(&p->made);
  compilation_free(&p->sync.made);
}

bool program_open(Session *s, const char *purpose, const char *over, const Exec *share,
                  ProgramRun *p) {
  if (!session_compile(s, p->graph, purpose, over, NULL, &p->made)) return false;
  p->exec = session_exec(s, &p->made, share, NULL);
  return p->exec != NULL;
}

const Compilation *training_step(const ProgramRun *p) {
  return p->stale.graph ? &p->stale.made : &p->made;
}

static bool open_step(Session *s, const Exec *share, ProgramRun *p) {
  const TrainAsk ask = {.finite = option_given(s->opt, OPTION_CHECK),
                        .log = option_given(s->opt, OPTION_LOG_DIR)};
  p->graph = select_train_as(s->arena, s->model, NULL, &ask);
  if (!p->graph) return false;
  p->feed = data_open(s, p->graph, DATA_TRAIN, false);
  if (!p->feed || !session_compile(s, p->graph, "train", NULL, NULL, &p->made)) return false;
  bool several = program_tensor(p->made.compiled->program, TENSOR_OUTPUT, select_watched) >= 0;
  p->exec = session_exec(s, &p->made, share, several ? select_watched : s->model->loss);
  return p->exec != NULL;
}

bool training_without_sync(const Session *s, const char *what) {
  const ModelSpec *spec = &s->model->graph->spec;
  if (!spec->ntrain || !(spec->train[0].sync || spec->train[0].ahead)) return true;
  diag_error(s->diag, DIAG_UNSUPPORTED, spec->train[0].sync_pos,
             spec->train[0].ahead ? "%s has no servers for the updates of sync = stale(...)"
                                  : "%s does not average the replicas of sync",
             what);
  return diag_hint(s->diag, "use train, or leave out the key sync");
}

// Opens the program that joins the replicas of a training, if it has replicas. Returns false after
// an error.
static bool open_sync(Session *s, ProgramRun *p, TrainJob *job) {
  const Graph *g = select_sync(s->arena, p->graph);
  if (!g) return true;
  if (!session_compile(s, g, "sync", NULL, NULL, &p->sync.made)) return false;
  job->sync = p->sync.exec = session_exec(s, &p->sync.made, p->exec, NULL);
  job->sync_every = g->spec.train[0].sync;
  return p->sync.exec != NULL;
}

// Loads the parameters of --params, and gives them to all replicas. Returns false after an error.
static bool load_parameters(Session *s, const ProgramRun *p, TrainJob *job) {
  if (!params_load(s, p->exec, p->made.compiled->program, true, &job->before)) return false;
  if (!job->sync || exec_step(job->sync, SYNC_SPREAD, true) == STEP_OK) return true;
  exec_fault(job->sync, s->diag);
  return false;
}

// The graphs of an evaluation for whole batches and for the last, incomplete batch, each with its
// metrics.
typedef struct EvalGraphs {
  const Graph *whole, *last; // `last` is NULL if all batches are whole
  EvalMetric *metric, *of_last;
  uint32_t nmetrics;
} EvalGraphs;

// Selects the graphs for whole batches and for the last batch. A metric is computed from the
// results of its reductions, combined over all batches. If the graph for the last batch has other
// reductions, for example in an unrolled loop over rows, the metric is the mean of its values in
// all batches, weighted by their rows.
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

// Selects the evaluation of a data block, and sets p->feed, p->graph and the metrics of p. *last
// gets the graph for the last, incomplete batch. *last gets NULL if the program for whole batches
// runs that batch. Returns false after an error.
static bool select_part(Session *s, BlockKind block, bool average, ProgramRun *p,
                        const Graph **last) {
  EvalAsk ask = {.average = average};
  EvalGraphs e = {0};
  e.whole = select_eval_as(s->arena, s->model, &ask, &e.nmetrics, &e.metric);
  p->feed = e.whole ? data_open(s, e.whole, block, true) : NULL;
  if (!p->feed) return false;
  int64_t rows = feed_rows(p->feed), incomplete = rows % feed_batch(p->feed);
  const Model *m = incomplete ? last_batch_model(s, data_over(s, block), incomplete, rows) : NULL;
  if (incomplete && (!m || !select_both(s, m, &ask, &e))) return false;
  DimId over = s->model->graph->spec.data[block].over;
  bool fits = !incomplete || last_batch_fits(s->arena, e.whole, e.last, over);
  *last = fits ? NULL : e.last;
  p->graph = e.whole;
  p->nmetrics = e.nmetrics;
  p->metric = metrics_of(s, e.nmetrics, e.metric);
  return !incomplete || last_batch_sized(s, e.whole, e.last, over, fits);
}

bool evaluation_open(Session *s, BlockKind block, const Exec *share, ProgramRun *p) {
  const Graph *last;
  // Without `share` the command is eval, which loads the averages as the parameters (values_load).
  bool average = share && values_averaged(s);
  if (!select_part(s, block, average, p, &last) ||
      !program_open(s, "eval", data_over(s, block), share, p))
    return false;
  int64_t rows = feed_rows(p->feed) % feed_batch(p->feed);
  return (!last || last_batch_open(s, last, rows, p->exec, p->made.compiled->program, &p->last));
}

static bool is_train_loss(const Session *s, const char *name) {
  const ModelSpec *spec = &s->model->graph->spec;
  for (uint32_t i = 0; i < spec->ntrain; i++)
    if (strcmp(spec->train[i].loss, name) == 0) return true;
  return false;
}

const char *const *training_shown(Session *s, const Graph *g, uint32_t *n) {
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

bool training_has_output(const Graph *g, const char *name) {
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_VALUE && !strcmp(g->output.at[i].name, name)) return true;
  return false;
}

// Fills in *job the names of values that are logged and not printed: "lr" and "grad_norm". With
// several train blocks the name of the block's loss follows: "lr.d_loss".
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
  if (training_has_output(g, select_skipped)) job->skipped = select_skipped;
}

static bool count_steps(Session *s, const ProgramRun *p, int64_t *steps) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  *steps = spec->steps ? spec->steps : spec->epochs * feed_batches(p->feed);
  if (*steps > 0) return true;
  diag_error(s->diag, DIAG_MISSING_KEY, spec->pos,
             spec->epochs ? "the data has fewer rows than one batch"
                          : "the train block says neither steps nor epochs");
  if (!spec->epochs) diag_hint(s->diag, "add: steps = 1000, or say --set train.steps=1000");
  return false;
}

// Sets up the evaluations that `key` of the train block needs. If the block does not give
// `evaluate`, there is one in each epoch. Returns false after an error if the model has no data to
// evaluate.
static bool needs_evaluations(Session *s, const ProgramRun *p, const char *key, bool evaluates,
                              TrainJob *job) {
  if (job->evaluate == 0) job->evaluate = feed_batches(p->feed);
  if (evaluates) return true;
  diag_error(s->diag, DIAG_NO_DATA_BLOCK, s->model->graph->spec.train[0].pos,
             "%s evaluates, and the model has neither data valid nor data test", key);
  return diag_hint(s->diag, "add: data valid over b { x = csv(\"file.csv\", columns = 0..4) }");
}

// Fills the conditions of stop_early, which are checked after each evaluation. Returns false after
// an error.
static bool stop_early(Session *s, const ProgramRun *p, bool evaluates, TrainJob *job) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  if (!spec->stop_early) return true;
  job->stop = spec->stop_early;
  job->patience = spec->patience;
  job->stop_minimise = spec->stop_best == BEST_MIN;
  return needs_evaluations(s, p, "stop_early", evaluates, job);
}

// Fills the states of the schedules `plateau`. Returns false after an error.
static bool plateaus(Session *s, const ProgramRun *p, bool evaluates, TrainJob *job) {
  const ModelSpec *spec = &s->model->graph->spec;
  Hearer *h = arena_array(s->arena, Hearer, spec->ntrain + 1);
  for (uint32_t i = 0; i < spec->ntrain; i++) {
    const ScheduleSpec *schedule = &spec->train[i].schedule;
    if (schedule->kind != SCHEDULE_PLATEAU) continue;
    h[job->nhearers++] = (Hearer){.metric = schedule->of,
                                  .value = plateau_name(s->arena, i, plateau_value),
                                  .fresh = plateau_name(s->arena, i, plateau_fresh)};
    if (!needs_evaluations(s, p, "plateau", evaluates, job)) return false;
  }
  job->hearer = h;
  return true;
}

bool training_open(Session *s, const Exec *share, ProgramRun *train, ProgramRun *test,
                   TrainJob *job) {
  const TrainSpec *spec = &s->model->graph->spec.train[0];
  const DataBlock *data = s->model->graph->spec.data;
  BlockKind block = data[DATA_VALID].present ? DATA_VALID : DATA_TEST;
  *job = (TrainJob){
      .test_name = block_text(block), .log_every = spec->log, .evaluate = spec->evaluate};
  bool opened = stale_given(s) ? stale_open_programs(s, train, job)
                               : open_step(s, share, train) && open_sync(s, train, job);
  if (!opened || !count_steps(s, train, &job->steps) ||
      !stop_early(s, train, data[block].present, job) ||
      !plateaus(s, train, data[block].present, job))
    return false;
  if (data[block].present && !evaluation_open(s, block, train->exec, test)) return false;
  job->train = train->exec;
  job->feed = train->feed;
  job->eval = test->exec;
  job->last = test->last.exec;
  job->test = test->feed;
  job->metric = test->metric;
  job->nmetrics = test->nmetrics;
  job->shown =
      training_shown(s, train->stale.graph ? train->stale.graph : train->graph, &job->nshown);
  job->skip = spec->on_nonfinite == NONFINITE_SKIP;
  log_names(s, train->graph, job); // servers output nothing
  train_count_units(job);
  return load_parameters(s, train, job);
}
