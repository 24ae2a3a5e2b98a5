// When the operations of a step ran: events in the streams mark where each instruction begins, and
// are read when the step has ended. So nothing waits between operations.
//
//   stream    mark: x1 | operations of x1 | mark: x2 | operations of x2 | mark: nothing
//
// An instruction took the time between its mark and the next one of its stream. That includes the
// time in which the stream waited: for another stream, or for the host to enqueue an operation.
#include "runtime/exec/trace.h"
#include "runtime/gpu/gpu_internal.h"

enum { MOST_MARKS = 1 << 15 }; // so many are read at once; long loops are timed in several parts

static bool make_event(DeviceWork *w, CudaEvent *event) {
  return *event ||
         cuda_good(cuda.EventCreate(event, CUDA_EVENT_BLOCKING), "cuEventCreate", w->diag);
}

static bool record(DeviceWork *w, CudaEvent event, CudaStream stream) {
  return cuda_good(cuda.EventRecord(event, stream), "cuEventRecord", w->diag);
}

// The host's clock is read when the GPU, which was idle, has reached an event. All moments are
// counted from there.
bool gpu_times_begin(DeviceWork *w) {
  GpuTimes *t = &w->times;
  t->on = w->exec->timed || w->exec->trace;
  t->mark.n = 0;
  if (!t->on) return true;
  if (!gpu_wait(w) || !make_event(w, &t->origin) || !record(w, t->origin, w->code->gpu->stream) ||
      !gpu_wait(w))
    return false;
  t->origin_was = clock_seconds();
  return true;
}

static bool add_mark(DeviceWork *w, GpuMark m) {
  GpuTimes *t = &w->times;
  if (t->mark.n == t->event.n) vec_push(w->arena, t->event) = NULL;
  CudaEvent *event = &t->event.at[t->mark.n];
  vec_push(w->arena, t->mark) = m;
  return make_event(w, event) && record(w, *event, m.stream);
}

// A full list is read, and begins anew with the same mark. A collective in the stream of messages
// whose end was not marked yet is then not timed.
bool gpu_times_mark(DeviceWork *w, CudaStream stream, uint32_t instr, const char *what) {
  GpuMark m = {.stream = stream, .instr = instr, .what = what};
  if (!w->times.on) return true;
  return add_mark(w, m) && (w->times.mark.n < MOST_MARKS || (gpu_times_end(w) && add_mark(w, m)));
}

// Adds what ran behind a mark to the profile and to the trace. began: seconds from the origin to
// the mark; took: seconds from the mark to the next one.
static void note(const DeviceWork *w, const GpuMark *m, double began, double took) {
  Exec *e = w->exec;
  const GpuTimes *t = &w->times;
  TraceSpan span = {.instr = m->instr,
                    .what = m->what,
                    .copies = m->stream == w->code->gpu->copies,
                    .processor = e->first,
                    .step = e->step,
                    .began = t->origin_was + began,
                    .ended = t->origin_was + began + took};
  if (e->timed && m->instr != UINT32_MAX) e->seconds[m->instr] += took;
  if (e->trace) trace_add_span(e->trace, &span);
}

// Returns the next mark of the same stream, or the number of marks.
static uint32_t next_mark(const GpuTimes *t, uint32_t i) {
  uint32_t next = i + 1;
  while (next < t->mark.n && t->mark.at[next].stream != t->mark.at[i].stream) next++;
  return next;
}

// Reads the seconds between two events that the GPU has reached.
static bool read_seconds(DeviceWork *w, CudaEvent from, CudaEvent to, double *seconds) {
  float milliseconds = 0;
  if (!cuda_good(cuda.EventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime", w->diag))
    return false;
  *seconds = 1e-3 * (double)milliseconds;
  return true;
}

// Reads when mark i was reached, and how long what is behind it took, and adds both to the profile
// and to the trace.
static bool read_mark(DeviceWork *w, uint32_t i) {
  const GpuTimes *t = &w->times;
  const GpuMark *m = &t->mark.at[i];
  uint32_t next = next_mark(t, i);
  double began, took;
  if ((m->instr == UINT32_MAX && !m->what) || next == t->mark.n) return true;
  if (!read_seconds(w, t->origin, t->event.at[i], &began) ||
      !read_seconds(w, t->event.at[i], t->event.at[next], &took))
    return false;
  note(w, m, began, took);
  return true;
}

// Waits until all marks are reached. In the middle of a step the main stream may not have joined
// the stream of messages.
static bool wait_for_marks(DeviceWork *w) {
  const Gpu *g = w->code->gpu;
  return gpu_wait(w) &&
         (!g->beside ||
          gpu_comms_wait(g->comms, g->beside, "the end of a step (cuStreamQuery)", w->diag));
}

bool gpu_times_end(DeviceWork *w) {
  GpuTimes *t = &w->times;
  if (!t->on) return true;
  if (!wait_for_marks(w)) return false;
  for (uint32_t i = 0; i < t->mark.n; i++)
    if (!read_mark(w, i)) return false;
  t->mark.n = 0;
  return true;
}

void gpu_times_free(DeviceWork *w) {
  GpuTimes *t = &w->times;
  if (t->origin) (void)cuda.EventDestroy(t->origin);
  for (uint32_t i = 0; i < t->event.n; i++)
    if (t->event.at[i]) (void)cuda.EventDestroy(t->event.at[i]);
}
