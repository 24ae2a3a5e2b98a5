// The log directory of `train --log-dir`: metrics, a TensorBoard file, a report.
#ifndef FRONTEND_WATCH_H
#define FRONTEND_WATCH_H

#include "frontend/driver/session.h"
#include "runtime/exec/trace.h"
#include "runtime/train/log.h"

typedef struct LogDirectory {
  const char *folder; // NULL: no log
  const Compilation *train;
  Compilation made; // the program that computes gradients
  Exec *gradients;
  Log *log;
  const Exec *traced;
  Trace *trace; // with --trace
} LogDirectory;
// With --log-dir: opens the log and compiles the program for its histograms. Adds both to `job`,
// whose `train` and `start` must be set. Returns false after an error. Call log_directory_end in
// either case.
MUST_USE bool log_directory_begin(Session *s, const Compilation *train, TrainJob *job,
                                  LogDirectory *w);
// Returns true if the options can be used together, false after an error. Call it before anything
// is computed.
MUST_USE bool log_directory_check(const Session *s);
// Closes the files and writes the report. Returns false after an error.
MUST_USE bool log_directory_end(Session *s, LogDirectory *w);

// -- log_graph.c
// Returns the graph of every processor in the format GraphDef of TensorBoard; *bytes gets its
// length. The caller frees it. NULL if there is no memory.
void *graph_def(Session *s, const Graph *g, size_t *bytes);
// -- report.c: writes DIR/report.html from the compilation and DIR/metrics.jsonl ----------------
MUST_USE bool report_write(Session *s, const char *folder, const Compilation *train);

#endif
