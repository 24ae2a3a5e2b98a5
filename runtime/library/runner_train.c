// Executables that train: the files of the model's data block from a folder, lines with the losses
// as `meshc train` prints them, and the parameters to a file.
#include <signal.h>
#include <stdio.h>

#include "ir/base/stop.h"
#include "runtime/library/runner.h"
#include "runtime/package/package_train.h"

// -- signals --------------------------------------------------------------------------------------

// From now on the first SIGINT, SIGTERM or SIGHUP ends the training after its step, so that what
// was trained is saved. A later one ends the process at once (ir/base/stop.h).
static void note_signals(void) {
  static const int noted[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < countof(noted); i++) (void)stop_catch(noted[i], NULL);
}

// -- training -------------------------------------------------------------------------------------

static void report(void *context, const TrainReport *r) {
  const TrainJob *job = context;
  char number[METRIC_NUMBER];
  if (r->event == TRAIN_ENDS && r->code == 0 && r->skipped)
    printf("%lld of %lld steps were skipped: the loss or a gradient was not finite\n",
           (long long)r->skipped, (long long)r->step);
  if (r->event == TRAIN_INTERRUPTED)
    fprintf(stderr, "stopped by a signal after step %lld\n", (long long)r->step);
  if (r->event != TRAIN_STEP || !r->due) return;
  printf("step %lld/%lld", (long long)r->step, (long long)job->steps);
  for (uint32_t i = 0; i < job->nshown; i++)
    printf("  %s %s", job->shown[i], metric_number(train_shown(job, i), number));
  putchar('\n');
  (void)fflush(stdout);
}

static void train(Runner *r, PackageTraining *t, TrainJob *job) {
  job->report = report;
  job->report_context = job;
  note_signals();
  r->code = package_train_run(t, job, r->save, true, r->diag);
}

void runner_train(Runner *r, const Package *p) {
  const PackageTrainAsk ask = {
      .directory = r->directory ? r->directory : ".",
      .values = r->params,
      .save = r->save,
      .steps = r->steps,
      .threads = (int)r->threads,
      .exec = {.threads = (int)r->threads, .seed = p->seed, .stop_request = &stop_signal}};
  PackageTraining t;
  TrainJob job;
  if (package_train_open(r->arena, p, &ask, r->diag, &t, &job)) train(r, &t, &job);
  package_train_free(&t);
}
