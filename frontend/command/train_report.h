// What `meshc train` prints while it trains.
#ifndef FRONTEND_TRAIN_REPORT_H
#define FRONTEND_TRAIN_REPORT_H

#include "frontend/driver/progress.h"
#include "runtime/runtime.h"

typedef struct TrainReporter {
  const TrainJob *job;
  FILE *out;          // where lines go
  const char *header; // first line: model, parameters, mesh, device, bytes
  bool quiet;         // only what was asked for: the last evaluation
  bool first;         // of the ranks: it says what all of them could say, and shows progress
  bool saves_params;  // the program saves the parameters after an interruption
  Progress progress;
  double began;        // clock
  double last_seconds; // of training, at the last line
  int64_t last_step;
} TrainReporter;

// A TrainJob.report: prints the event, and notes signals from TRAIN_BEGINS to TRAIN_ENDS.
void train_report(void *reporter, const TrainReport *r);

#endif
