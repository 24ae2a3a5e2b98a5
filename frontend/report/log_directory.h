// What `train --log-dir` leaves: metrics, TensorBoard's file, a report.
#ifndef FRONTEND_WATCH_H
#define FRONTEND_WATCH_H

#include "frontend/driver/session.h"
#include "runtime/exec/trace.h"
#include "runtime/train/log.h"

typedef struct LogDirectory {
  const char *folder; // NULL: nothing is watched
  const Compilation *train;
  Compilation made; // of the gradients
  Exec *gradients;
  Log *log;
  const Exec *traced;
  Trace *trace; // with --trace
} LogDirectory;
// With --log-dir: opens the log, compiles what its histograms need, gives both to job, whose train
// and start are set. False after an error; then, too, log_directory_end.
MUST_USE bool log_directory_begin(Session *s, const Compilation *train, TrainJob *job,
                                  LogDirectory *w);
// Whether the options fit, before anything is computed. False after an error.
MUST_USE bool log_directory_check(const Session *s);
// Closes the files and writes the report. False after an error.
MUST_USE bool log_directory_end(Session *s, LogDirectory *w);

// -- log_graph.c: the graph of every processor as a GraphDef, malloc'd; NULL without memory -----
void *graph_def(Session *s, const Graph *g, size_t *bytes);
// -- report.c: DIR/report.html, from the compile and DIR/metrics.jsonl --------------------------
MUST_USE bool report_write(Session *s, const char *folder, const Compilation *train);

#endif
