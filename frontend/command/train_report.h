// Prints the progress of `meshc train`. Input: the events of the training loop (TrainJob.report).
#ifndef FRONTEND_TRAIN_REPORT_H
#define FRONTEND_TRAIN_REPORT_H

#include "frontend/driver/progress.h"
#include "runtime/runtime.h"

typedef struct TrainReporter {
  const TrainJob *job;
  FILE *out;          // stream for lines
  const char *header; // first line: model, parameters, mesh, device, bytes
  bool quiet;         // print only the last evaluation
  bool first;         // this is rank 0, which alone prints messages and shows progress
  bool saves_params;  // the command saves the parameters also after an interruption
  bool package;       // it trains a package, which has no checkpoints
  Progress progress;
  double began;        // clock_seconds at the start of the training
  double last_seconds; // TrainReport.seconds of the last printed step
  int64_t last_step;   // the number of that step
} TrainReporter;

// Prints one event of a training. Called as TrainJob.report; `reporter` is a TrainReporter. From
// TRAIN_BEGINS to TRAIN_ENDS signals are recorded as stop requests (signals.h).
void train_report(void *reporter, const TrainReport *r);

#endif
