// Trains and evaluates a model over its data blocks and reports progress through the caller's
// callback. The loops are in runtime/train.
#include "frontend/library/library_internal.h"

#include "frontend/driver/asynchronous.h"

void library_run_free(ProgramRun *p) {
  program_run_free(p);
  *p = (ProgramRun){0};
}

static void call(const Reporting *r, const meshc_progress *p) {
  if (r->progress && r->progress(r->context, p)) r->model->stop = 1;
}

static void report(void *context, const TrainReport *t) {
  const Reporting *r = context;
  CompiledModel *m = library_model_of(r->model);
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

static bool open_training(CompiledModel *m) {
  if (m->train.exec) return true;
  if (!m->s.model->graph->spec.ntrain)
    return diag_error(m->s.diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
  if (stale_given(&m->s) && !training_without_sync(&m->s, "the library")) return false;
  if (!library_store(&m->base)) return false;
  m->s.stop_request = &m->base.stop;
  if (!training_open(&m->s, library_shared(&m->base), &m->train, &m->test, &m->job)) {
    library_run_free(&m->test);
    library_run_free(&m->train);
    return false;
  }
  if (!m->base.trainer) m->base.trainer = m->train.exec;
  m->default_steps = m->job.steps;
  m->value = arena_array(m->s.arena, double, m->job.nshown + 1);
  m->metric_name = metric_names(&m->s, m->job.nmetrics, m->job.metric);
  return true;
}

bool library_train(meshc_model *model, int64_t steps, const Reporting *to) {
  CompiledModel *m = library_model_of(model);
  Reporting reporting = *to;
  int64_t done = 0;
  if (!open_training(m)) return false;
  m->job.steps = steps ? steps : m->default_steps;
  m->job.before = model->steps;
  m->job.report = report;
  m->job.report_context = &reporting;
  m->job.done = &done;
  int code = train_run(&m->job, m->s.diag);
  model->steps += done;
  feed_position(m->train.feed, &m->epoch, &m->row);
  return code == 0 || code == EXIT_INTERRUPTED;
}

// -- evaluation ---------------------------------------------------------------------------------

static bool run_evaluation(CompiledModel *m, const Reporting *to, BlockKind block, ProgramRun *p) {
  int64_t rows;
  Session *s = &m->s;
  if (!evaluation_open(s, block, library_store(&m->base)->exec, p)) return false;
  double *value = arena_array(s->arena, double, p->nmetrics + 1);
  if (eval_metrics(p->exec, p->last.exec, p->feed, p->nmetrics, p->metric, value, &rows, NULL,
                   s->diag) != 0)
    return false;
  const meshc_progress done = {.step = m->base.steps,
                               .steps = m->base.steps,
                               .data = block_text(block),
                               .count = p->nmetrics,
                               .name = metric_names(s, p->nmetrics, p->metric),
                               .value = value};
  call(to, &done);
  return true;
}

bool library_evaluate(meshc_model *model, const char *data, const Reporting *to) {
  CompiledModel *m = library_model_of(model);
  BlockKind block;
  m->s.stop_request = &model->stop;
  library_option(m, OPTION_DATA, data); // gives errors of data_choose a position
  bool found = data_choose(&m->s, data, &block);
  library_option(m, OPTION_DATA, NULL);
  if (!found || !library_store(model)) return false;
  bool good = run_evaluation(m, to, block, &m->eval);
  library_run_free(&m->eval);
  return good;
}
