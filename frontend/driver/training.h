// Training and evaluation as the blocks of a model describe them: programs bound to data and
// metrics.
#ifndef FRONTEND_TRAINING_H
#define FRONTEND_TRAINING_H

#include "frontend/driver/last_batch.h"

// A program, the data that it runs on, and of an evaluation its metrics.
typedef struct ProgramRun {
  const Graph *graph;
  Compilation made;
  Exec *exec;
  Feed *feed;
  uint32_t nmetrics;
  const Metric *metric;
  LastBatch last; // of an evaluation
} ProgramRun;
// The program whose tensors it shares must outlive it.
void program_run_free(ProgramRun *p);

// Compiles and binds the evaluation of a data block; `share` as in ExecOptions. False after an
// error; then, too, program_run_free.
MUST_USE bool evaluation_open(Session *s, BlockKind block, const Exec *share, ProgramRun *p);

// Compiles and binds a training step and, where the model has data for one, the evaluation that
// shares its tensors. Fills the job of the training loop, except for where it reports: `out`,
// `header`, logs, checkpoints. False after an error; then, too, program_run_free, test first.
MUST_USE bool training_open(Session *s, const Exec *share, ProgramRun *train, ProgramRun *test,
                            TrainJob *job);

#endif
