// A trace of some steps: what every processor did, and when.
#ifndef RUNTIME_TRACE_H
#define RUNTIME_TRACE_H

#include "runtime/runtime.h"

typedef struct Trace Trace;
Trace *trace_new(int workers); // returns NULL if there is not enough memory
void trace_free(Trace *t);
// Begins to record the steps of e in t. If t is NULL, ends the recording.
void exec_trace(Exec *e, Trace *t);
// Writes what was recorded of e as a Chrome trace (chrome://tracing, Perfetto). Each processor of
// the mesh is a process of the trace, with a track for computing and one for communication. Arrows
// join the events of one call of a collective. A GPU is one process, which has the number of its
// first processor, and a third track for copies of inputs. Returns false after an error in d.
MUST_USE bool trace_write(const Trace *t, const Exec *e, const char *path, Diag *d);

// -- for the executor ---------------------------------------------------------------------------
// Adds an event to the list of this worker: the processor has run instruction `instr` of its
// program from `began` (clock_seconds) to now. For a collective, `sequence` is the number of the
// call.
void trace_add(Trace *t, int worker, int64_t processor, uint32_t instr, int64_t step,
               uint64_t sequence, double began);

// An event: what ran from `began` to `ended`, which are seconds of clock_seconds. On a GPU it ran
// for all processors of this process.
typedef struct TraceSpan {
  uint32_t instr;    // the instruction that ran; UINT32_MAX: none, and `what` says what ran
  const char *what;  // lives as long as the trace
  bool copies;       // it belongs to the track for copies of inputs
  int64_t processor; // on a GPU, the first one of this process
  int64_t step;
  double began, ended;
} TraceSpan;
// Adds an event of a GPU. Thread rule: the thread that runs the steps.
void trace_add_span(Trace *t, const TraceSpan *s);

#endif
