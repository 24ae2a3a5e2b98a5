// Executables that train: the files of the model's data block from a folder, lines with the losses
// as `meshc train` prints them, and the parameters to a file.
#include <stdio.h>

#include "runtime/library/runner.h"
#include "runtime/package/package_batch.h"
#include "runtime/package/package_train.h"

static void report(void *context, const TrainReport *r) {
  const TrainJob *job = context;
  char number[METRIC_NUMBER];
  if (r->event == TRAIN_ENDS && r->code == 0 && r->skipped)
    printf("%lld of %lld steps were skipped: the loss or a gradient was not finite\n",
           (long long)r->skipped, (long long)r->step);
  if (r->event != TRAIN_STEP || !r->due) return;
  printf("step %lld/%lld", (long long)r->step, (long long)job->steps);
  for (uint32_t i = 0; i < job->nshown; i++)
    printf("  %s %s", job->shown[i], metric_number(train_shown(job, i), number));
  putchar('\n');
  (void)fflush(stdout);
}

void runner_train(Runner *r, const Package *p) {
  const PackageTrainAsk ask = {.directory = r->directory ? r->directory : ".",
                               .values = r->params,
                               .save = r->save,
                               .steps = r->steps,
                               .threads = (int)r->threads,
                               .exec = {.threads = (int)r->threads, .seed = p->seed}};
  PackageTraining t;
  TrainJob job;
  int64_t done = 0;
  if (package_train_open(r->arena, p, &ask, r->diag, &t, &job)) {
    job.report = report;
    job.report_context = &job;
    job.ahead = true;
    job.done = &done;
    if (train_run(&job, r->diag) == 0 && exec_check(t.exec, r->diag) && r->save)
      (void)!package_save_values(t.program, t.exec, r->save, job.before + done, true, r->diag);
  }
  package_train_free(&t);
}
