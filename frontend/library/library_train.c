// Trains and evaluates a model over its data blocks and reports progress through the caller's
// callback. The loops are in runtime/train.
#include "frontend/library/library_internal.h"

typedef struct Reporting {
  meshc_model *model;
  meshc_progress_function *progress; // the caller's callback, or NULL
  void *context;
} Reporting;

void library_run_free(ProgramRun *p) {
  program_run_free(p);
  *p = (ProgramRun){0};
}

static void call(const Reporting *r, const meshc_progress *p) {
  if (r->progress && r->progress(r->context, p)) r->model->stop = 1;
}

static void report(void *context, const TrainReport *t) {
  const Reporting *r = context;
  meshc_model *m = r->model;
  const TrainJob *job = &m->job;
  meshc_progress p = {.step = t->step, .steps = job->steps, .value = m->value};
  if (t->event == TRAIN_STEP) {
    for (uint32_t i = 0; i < job->nshown; i++) m->value[i] = exec_scalar(job->train, job->shown[i]);
    p.data = "train", p.count = job->nshown, p.name = job->shown;
    call(r, &p);
  } else if (t->event == TRAIN_EVALUATED && t->metric) {
    p.data = job->test_name, p.count = job->nmetrics, p.name = m->metric_name;
    p.value = t->metric;
    call(r, &p);
  }
}

static const char *const *metric_names(const Session *s, uint32_t n, const Metric *metric) {
  const char **names = arena_array(s->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) names[i] = metric[i].name;
  return (const char *const *)names;
}

// -- training -----------------------------------------------------------------------------------

static bool open_training(meshc_model *m) {
  if (m->train.exec) return true;
  if (!m->s.model->graph->spec.ntrain)
    return diag_error(m->s.diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
  if (!library_store(m)) return false;
  m->s.stop_request = &m->stop;
  if (!training_open(&m->s, library_shared(m), &m->train, &m->test, &m->job)) {
    library_run_free(&m->test);
    library_run_free(&m->train);
    return false;
  }
  if (!m->trainer) m->trainer = m->train.exec;
  m->default_steps = m->job.steps;
  m->value = arena_array(m->s.arena, double, m->job.nshown + 1);
  m->metric_name = metric_names(&m->s, m->job.nmetrics, m->job.metric);
  return true;
}

typedef struct Training {
  Reporting reporting;
  int64_t steps;
} Training;

static bool train(meshc_model *m, void *context) {
  Training *t = context;
  int64_t done = 0;
  if (t->steps < 0)
    return diag_error(m->s.diag, DIAG_USAGE, (Pos){0}, "a training of %lld steps",
                      (long long)t->steps);
  if (!open_training(m)) return false;
  m->stop = 0;
  m->job.steps = t->steps ? t->steps : m->default_steps;
  m->job.before = m->steps;
  m->job.report = report;
  m->job.report_context = &t->reporting;
  m->job.done = &done;
  int code = train_run(&m->job, m->s.diag);
  m->steps += done;
  feed_position(m->train.feed, &m->epoch, &m->row);
  return code == 0 || code == EXIT_INTERRUPTED;
}

int meshc_train(meshc_model *m, int64_t steps, meshc_progress_function *progress, void *context,
                meshc_error **error) {
  Training t = {{m, progress, context}, steps};
  return library_call(m, train, &t, error);
}

// -- evaluation ---------------------------------------------------------------------------------

typedef struct Evaluating {
  Reporting reporting;
  const char *data;
} Evaluating;

static bool run_evaluation(meshc_model *m, const Evaluating *e, BlockKind block, ProgramRun *p) {
  int64_t rows;
  Session *s = &m->s;
  if (!evaluation_open(s, block, library_store(m)->exec, p)) return false;
  double *value = arena_array(s->arena, double, p->nmetrics + 1);
  if (eval_metrics(p->exec, p->last.exec, p->feed, p->nmetrics, p->metric, value, &rows, NULL,
                   s->diag) != 0)
    return false;
  const meshc_progress done = {.step = m->steps,
                               .steps = m->steps,
                               .data = block_text(block),
                               .count = p->nmetrics,
                               .name = metric_names(s, p->nmetrics, p->metric),
                               .value = value};
  call(&e->reporting, &done);
  return true;
}

static bool evaluate(meshc_model *m, void *context) {
  const Evaluating *e = context;
  BlockKind block;
  m->s.stop_request = &m->stop;
  m->stop = 0;
  const char *data = e->data ? e->data : "test";
  library_option(m, OPTION_DATA, data); // gives errors of data_choose a position
  bool found = data_choose(&m->s, data, &block);
  library_option(m, OPTION_DATA, NULL);
  if (!found || !library_store(m)) return false;
  bool good = run_evaluation(m, e, block, &m->eval);
  library_run_free(&m->eval);
  return good;
}

int meshc_evaluate(meshc_model *m, const char *data, meshc_progress_function *progress,
                   void *context, meshc_error **error) {
  Evaluating e = {{m, progress, context}, data};
  return library_call(m, evaluate, &e, error);
}
