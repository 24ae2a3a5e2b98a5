// The log directory of `train --log-dir`: metrics, a TensorBoard file, a report.
#ifndef FRONTEND_WATCH_H
#define FRONTEND_WATCH_H

#include "frontend/driver/session.h"
#include "runtime/exec/trace.h"
#include "runtime/train/log.h"

typedef struct LogDirectory {
  const char *folder; // path of the log directory; NULL: this process writes no log
  const Compilation *train;
  Compilation made; // the program that computes gradients for histograms
  Exec *gradients;
  Log *log;
  const Exec *traced;
  Trace *trace; // times of the step with --trace, else NULL
} LogDirectory;
// Opens the log directory that --log-dir names, and compiles the program that computes its
// histograms. Adds both to `job`, whose `train` and `start` must be set. Returns false after an
// error. The caller must call log_directory_end after success and after an error.
MUST_USE bool log_directory_begin(Session *s, const Compilation *train, TrainJob *job,
                                  LogDirectory *w);
// Checks that --trace is not given without --log-dir. Returns false after an error. Call it before
// anything is computed.
MUST_USE bool log_directory_check(const Session *s);
// Closes the files of the log directory and writes its report. Returns false after an error.
MUST_USE bool log_directory_end(Session *s, LogDirectory *w);

// -- log_graph.c
// Returns the graph of every processor, or of the first one if that is too large, in TensorBoard's
// format GraphDef. The caller frees the memory, and *bytes gets its length. Returns NULL if there
// is no memory.
void *graph_def(Session *s, const Graph *g, size_t *bytes);
// -- report.c
// Writes report.html into `folder`, from the compilation and from the file metrics.jsonl in
// `folder`. Returns false after an error.
MUST_USE bool report_write(Session *s, const char *folder, const Compilation *train);

#endif
