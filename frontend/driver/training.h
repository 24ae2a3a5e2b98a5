// Selects, compiles and binds the programs of training and evaluation that a model's blocks
// describe, and opens their data. Input: a loaded session. Output: a ProgramRun for each, and the
// TrainJob that the loop in runtime/train runs.
#ifndef FRONTEND_TRAINING_H
#define FRONTEND_TRAINING_H

#include "frontend/driver/last_batch.h"

// A bound program and the data that it runs on; for an evaluation also its metrics.
typedef struct ProgramRun {
  const Graph *graph;
  Compilation made;
  Exec *exec;
  Feed *feed;
  uint32_t nmetrics;
  const Metric *metric;
  // of a training: the program that joins its replicas (select_sync); sync.exec is NULL without
  // them
  struct {
    Compilation made;
    Exec *exec;
  } sync;
  // of a training with asynchronous updates (asynchronous.h), whose servers run the program above:
  // the step of a replica, and the groups of processors of this process that run it
  struct {
    const Graph *graph;
    Compilation made;
    int64_t n;
    Exec **worker;
  } stale;
  LastBatch last; // program for the last, incomplete batch of an evaluation
} ProgramRun;
// Frees all parts of p. The program whose tensors p shares must be freed later.
void program_run_free(ProgramRun *p);

// Compiles p->graph for `purpose` (Selected) and binds the program. `share` is the program whose
// tensors the new program uses, or NULL. Returns false after an error. The caller calls
// program_run_free after success and after an error.
MUST_USE bool program_open(Session *s, const char *purpose, const char *over, const Exec *share,
                           ProgramRun *p);
// Compiles and binds the evaluation of a data block. `share` is the program whose tensors the
// evaluation uses (ExecOptions.share), or NULL. Returns false after an error. The caller calls
// program_run_free after success and after an error.
MUST_USE bool evaluation_open(Session *s, BlockKind block, const Exec *share, ProgramRun *p);

// Returns the program of the step that computes losses and gradients.
const Compilation *training_step(const ProgramRun *p);
// Returns the n names of the scalar outputs that a training prints: the losses first, then the
// metrics.
const char *const *training_shown(Session *s, const Graph *g, uint32_t *n);
// Returns whether the step g has an output of this name.
bool training_has_output(const Graph *g, const char *name);
// Reports an error if the model trains replicas (`sync`): only the training loop joins them. `what`
// is what takes steps without it. Returns false after the error.
MUST_USE bool training_without_sync(const Session *s, const char *what);

// Compiles and binds the training step and, if the model has data for it, the evaluation that
// shares its tensors. Loads the parameters of --params. Fills *job except the callbacks, the log
// and the checkpoints, which the caller adds. Returns false after an error. After success and after
// an error the caller calls program_run_free, for `test` before `train`.
MUST_USE bool training_open(Session *s, const Exec *share, ProgramRun *train, ProgramRun *test,
                            TrainJob *job);

#endif
