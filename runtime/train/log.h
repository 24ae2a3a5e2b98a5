// The log of a training: metrics.jsonl, and TensorBoard's event file beside it.
#ifndef RUNTIME_LOG_H
#define RUNTIME_LOG_H

#include "runtime/runtime.h"

// -- log.c: metrics.jsonl, one object a step ----------------------------------------------------
typedef struct Log Log;
typedef struct LogOptions {
  const char *directory; // folder of the log, which must exist
  int64_t start;         // number of steps done before this run; lines of later steps are removed
  const void *graph;     // bytes of a GraphDef, the graph that TensorBoard shows, or NULL
  size_t graph_bytes;
} LogOptions;
// Opens the files of a log. Returns NULL after an error in d.
Log *log_open(const LogOptions *opt, Diag *d);
// Logs a step: begins its JSON object, with n values by name and the seconds since training began.
void log_step(Log *l, int64_t step, double seconds, uint32_t n, const char *const *name,
              const double *value);
// Adds an evaluation on data block `data` to the JSON object of the last step, such as "test":
// {"loss": 0.3}.
void log_evaluation(Log *l, const char *data, uint32_t n, const char *const *name,
                    const double *value);
// Writes a histogram of n values for a step to the event file.
void log_histogram(Log *l, int64_t step, const char *name, Dtype type, int64_t n,
                   const void *values);
// Closes the files of the log. Returns false after an error in d if any write to them has failed.
MUST_USE bool log_close(Log *l, Diag *d);
// Writes all that was logged to disk. Called before a checkpoint is written, so that the log has
// all steps of the checkpoint.
void log_sync(Log *l);
// Returns the path of a file of the log that could not be written, once for each file; *error gets
// the errno. Returns NULL if there is no such file. After a failed write nothing more is written to
// the file.
const char *log_fault(Log *l, int *error);

// -- events.c: the event file of TensorBoard ----------------------------------------------------
typedef struct Events Events;
Events *events_open(const char *directory, Diag *d);
void events_graph(Events *e, const void *graph, size_t n);
void events_scalar(Events *e, int64_t step, const char *tag, double value);
void events_histogram(Events *e, int64_t step, const char *tag, Dtype type, int64_t n,
                      const void *values);
void events_flush(Events *e, bool sync);
int events_error(const Events *e); // returns the errno of the first write that failed, or 0
const char *events_path(const Events *e);
MUST_USE bool events_close(Events *e, Diag *d);

#endif
