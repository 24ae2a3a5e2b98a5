// Trains with a package of --for train on the files that its data block names, as `meshc train`
// does with the model.
#ifndef RUNTIME_PACKAGE_TRAIN_H
#define RUNTIME_PACKAGE_TRAIN_H

#include "runtime/package/package.h"

typedef struct PackageTrainAsk {
  const char *directory; // where relative paths of the data begin
  const char *values;    // a file with parameters and optimizer state to go on from, or NULL
  Exec *own;             // of the program, with its values; NULL: one is made
  const char *save;      // a file that is written afterwards, which must be no data; or NULL
  int64_t steps;         // of this run; 0: as many as the train block says
  int threads;           // that decode images; 0: as many as cores
  ExecOptions exec;
} PackageTrainAsk;

typedef struct PackageTraining {
  Exec *exec;
  bool made; // package_train_free frees it
  Feed *feed;
  const Program *program;
} PackageTraining;
// Opens the data, binds the program, and fills *job but for the callback. Returns false after an
// error in d. After success and after an error the caller calls package_train_free, after
// train_run.
MUST_USE bool package_train_open(Arena *a, const Package *p, const PackageTrainAsk *ask, Diag *d,
                                 PackageTraining *out, TrainJob *job);
// Sets job->steps to `asked`, or if that is 0 to as many as the train block says. Returns false
// after an error in d: it says none.
MUST_USE bool package_train_steps(const Package *p, const Feed *feed, int64_t asked, TrainJob *job,
                                  Diag *d);
// Runs the training, then writes parameters and optimizer state to file `save`, if it is not NULL
// and the training ended well or was interrupted; only the process with `first` writes. Returns the
// exit code of train_run, or 0 if the file cannot be written: the error is in d.
int package_train_run(const PackageTraining *t, TrainJob *job, const char *save, bool first,
                      Diag *d);
void package_train_free(PackageTraining *t);

#endif
