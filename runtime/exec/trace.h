// A trace of some steps: what every processor did, and when.
#ifndef RUNTIME_TRACE_H
#define RUNTIME_TRACE_H

#include "runtime/runtime.h"

typedef struct Trace Trace;
Trace *trace_new(int workers); // NULL: no memory
void trace_free(Trace *t);
// From here on records the steps of e in t; with NULL, records nothing any more.
void exec_trace(Exec *e, Trace *t);
// Writes what was traced of e as a Chrome trace (chrome://tracing, Perfetto): a process a
// processor, a track for computing and one for communication, arrows between the parts of one
// collective. False after an error in d.
MUST_USE bool trace_write(const Trace *t, const Exec *e, const char *path, Diag *d);

// -- for the executor ---------------------------------------------------------------------------
// Adds to the list of this worker that the processor has run instruction `instr` of its program,
// from `began` (clock_seconds) to now. For a collective `sequence` is the number of the call.
void trace_add(Trace *t, int worker, int64_t processor, uint32_t instr, int64_t step,
               uint64_t sequence, double began);

#endif
