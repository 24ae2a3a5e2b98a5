// Streams and events of the stand-in of libcuda, and the capture of streams.
#include "tests/standin/cuda/stream.h"
#include "tests/standin/cuda/host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/base/mem.h"

static struct CUstream_st default_stream = {.blocking = true};
static bool has_default;

static void stream_release(void *handle) {
  struct CUstream_st *s = handle;
  clock_free(&s->clock);
  clock_free(&s->capture_clock);
}

static struct CUstream_st *stream_new(bool blocking) {
  struct CUstream_st *s = handle_new(HANDLE_STREAM, sizeof *s, stream_release);
  s->lane = order_add_lane(state.order);
  s->blocking = blocking;
  return s;
}

struct CUstream_st *stream_of(CudaStream stream) {
  if (stream) {
    handle_check(stream, HANDLE_STREAM, state_call());
    return stream;
  }
  if (!has_default) default_stream.lane = order_add_lane(state.order);
  has_default = true;
  return &default_stream;
}

// -- enqueueing ---------------------------------------------------------------------------------

static void join_blocking(void *handle, void *clock) {
  const struct CUstream_st *s = handle;
  if (s->blocking) clock_join(clock, &s->clock);
}

void stream_order(struct CUstream_st *s) {
  clock_join(&s->clock, &state.host);
  if (s == &default_stream)
    handle_each(HANDLE_STREAM, join_blocking, &s->clock);
  else if (s->blocking)
    clock_join(&s->clock, &default_stream.clock);
}

static void graph_add(struct CUgraph_st *g, Work w, struct CUstream_st *s) {
  if (g->n == g->room) {
    g->room = 2 * g->room + 16;
    g->node = mem_grow(g->node, g->room * sizeof *g->node);
  }
  Node *node = &g->node[g->n++];
  *node = (Node){.work = w, .lane = s->capture_lane};
  clock_join(&node->behind, &s->capture_clock);
  clock_cover(&s->capture_clock, s->capture_lane, ++g->length[s->capture_lane]);
}

CudaResult stream_enqueue(CudaStream stream, Work w) {
  struct CUstream_st *s = stream_of(stream);
  if (s->capture) {
    graph_add(s->capture, w, s);
    return s->capture->broken ? CUDA_CAPTURE_INVALID : CUDA_OK;
  }
  CudaResult r = s == &default_stream ? capture_disturbed() : CUDA_OK;
  if (r == CUDA_OK) {
    stream_order(s);
    work_run(&w, s->lane, &s->clock);
    clock_cover(&s->clock, s->lane, order_lane_length(state.order, s->lane));
  } else
    r = CUDA_CAPTURE_IMPLICIT;
  work_free(&w);
  return r;
}

CudaResult stream_wait(CudaStream stream) {
  struct CUstream_st *s = stream_of(stream);
  if (s->capture) {
    s->capture->broken = true;
    return CUDA_CAPTURE_UNSUPPORTED;
  }
  stream_order(s);
  return state_wait(&s->clock);
}

int meshc_standin_enqueue(void *stream, const char *name, const StandinAccess *access, int n,
                          void (*run)(void *copy), const void *argument, size_t bytes) {
  BEGIN(name);
  END(stream_enqueue(stream, work_new(name, access, n, run, argument, bytes)));
}

// -- streams ------------------------------------------------------------------------------------

CudaResult cuStreamCreate(CudaStream *stream, unsigned flags) {
  BEGIN("cuStreamCreate");
  if (!current_context) END(CUDA_BAD_CONTEXT);
  if (flags > CUDA_STREAM_NON_BLOCKING) END(CUDA_BAD_VALUE);
  *stream = stream_new(flags != CUDA_STREAM_NON_BLOCKING);
  END(CUDA_OK);
}

CudaResult cuStreamDestroy_v2(CudaStream stream) {
  BEGIN("cuStreamDestroy");
  handle_check(stream, HANDLE_STREAM, state_call());
  if (stream->capture) standin_fail("cuStreamDestroy destroys a stream that is captured");
  handle_destroy(stream);
  END(CUDA_OK);
}

CudaResult cuStreamSynchronize(CudaStream stream) {
  BEGIN("cuStreamSynchronize");
  END(stream_wait(stream));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void stream_seems_slow(void) {
  if (state.slow <= 0) return;
  state.slow_from = now();
  host_show(0);
}

// Returns whether the last graph still seems to run, and shows what it has written meanwhile.
static bool seems_to_run(void) {
  if (state.slow_from == 0) return false;
  double share = (now() - state.slow_from) / state.slow;
  host_show(share);
  if (share >= 1) state.slow_from = 0;
  return share < 1;
}

CudaResult cuStreamQuery(CudaStream stream) {
  BEGIN("cuStreamQuery");
  struct CUstream_st *s = stream_of(stream);
  if (seems_to_run()) END(CUDA_NOT_READY);
  if (!s->capture && state.hangs && clock_covers(&s->clock, state.hung_lane, state.hung))
    END(CUDA_NOT_READY);
  END(stream_wait(stream));
}

// -- events -------------------------------------------------------------------------------------

static void event_release(void *handle) {
  struct CUevent_st *e = handle;
  clock_free(&e->clock);
  clock_free(&e->capture_clock);
}

static struct CUevent_st *event_of(CudaEvent event) {
  handle_check(event, HANDLE_EVENT, state_call());
  return event;
}

CudaResult cuEventCreate(CudaEvent *event, unsigned flags) {
  BEGIN("cuEventCreate");
  if (!current_context) END(CUDA_BAD_CONTEXT);
  struct CUevent_st *e = handle_new(HANDLE_EVENT, sizeof *e, event_release);
  e->timed = !(flags & CUDA_EVENT_NO_TIMING);
  *event = e;
  END(CUDA_OK);
}

CudaResult cuEventDestroy_v2(CudaEvent event) {
  BEGIN("cuEventDestroy");
  handle_destroy(event_of(event));
  END(CUDA_OK);
}

static void clock_copy(Clock *to, const Clock *from) {
  if (to->n) memset(to->at, 0, to->n * sizeof *to->at);
  clock_join(to, from);
}

CudaResult cuEventRecord(CudaEvent event, CudaStream stream) {
  BEGIN("cuEventRecord");
  struct CUevent_st *e = event_of(event);
  struct CUstream_st *s = stream_of(stream);
  e->seconds = now();
  e->recorded = true;
  e->asked = 0;
  e->capture = s->capture;
  if (s->capture) {
    clock_copy(&e->capture_clock, &s->capture_clock);
    END(CUDA_OK);
  }
  stream_order(s);
  clock_copy(&e->clock, &s->clock);
  END(CUDA_OK);
}

// Returns what a call that waits for an event has to return before it waits.
static CudaResult event_check(const struct CUevent_st *e) {
  return e->capture ? CUDA_CAPTURED_EVENT : capture_disturbed();
}

// An event is not ready when it is asked for the first time: programs must not count on it.
CudaResult cuEventQuery(CudaEvent event) {
  BEGIN("cuEventQuery");
  struct CUevent_st *e = event_of(event);
  CudaResult r = event_check(e);
  if (r != CUDA_OK || !e->recorded) END(r);
  bool hung = state.hangs && clock_covers(&e->clock, state.hung_lane, state.hung);
  if (e->asked++ == 0 || hung || seems_to_run()) END(CUDA_NOT_READY);
  END(state_wait(&e->clock));
}

CudaResult cuEventSynchronize(CudaEvent event) {
  BEGIN("cuEventSynchronize");
  struct CUevent_st *e = event_of(event);
  CudaResult r = event_check(e);
  END(r == CUDA_OK ? state_wait(&e->clock) : r);
}

CudaResult cuEventElapsedTime(float *milliseconds, CudaEvent from, CudaEvent to) {
  BEGIN("cuEventElapsedTime");
  struct CUevent_st *a = event_of(from), *b = event_of(to);
  if (!a->recorded || !b->recorded || !a->timed || !b->timed) END(CUDA_BAD_HANDLE);
  if (a->capture || b->capture) END(CUDA_CAPTURED_EVENT);
  *milliseconds = (float)(1000 * (b->seconds - a->seconds));
  END(CUDA_OK);
}

// -- capture ------------------------------------------------------------------------------------

static uint32_t add_lane(struct CUgraph_st *g) {
  g->length = mem_grow(g->length, (g->lanes + 1) * sizeof *g->length);
  g->length[g->lanes] = 0;
  return g->lanes++;
}

static void capture_join(struct CUstream_st *s, struct CUgraph_st *g) {
  s->capture = g;
  s->capture_lane = add_lane(g);
  clock_copy(&s->capture_clock, &(Clock){0});
}

CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  BEGIN("cuStreamWaitEvent");
  struct CUstream_st *s = stream_of(stream);
  struct CUevent_st *e = event_of(event);
  (void)flags;
  if (++state.waits == state.lost_wait) END(CUDA_OK);
  if (e->capture) {
    if (!e->capture->origin || e->capture->handle.destroyed)
      standin_fail("cuStreamWaitEvent waits for event %u, which was recorded in a capture that has "
                   "ended: record it again before",
                   e->handle.number);
    if (s->capture && s->capture != e->capture) END(CUDA_CAPTURE_MERGE);
    if (!s->capture) capture_join(s, e->capture);
    clock_join(&s->capture_clock, &e->capture_clock);
    END(CUDA_OK);
  }
  if (s->capture) {
    s->capture->broken = true;
    END(CUDA_CAPTURE_ISOLATION);
  }
  if (e->recorded) clock_join(&s->clock, &e->clock);
  END(CUDA_OK);
}

static void graph_release(void *handle) { graph_clear(handle); }

CudaResult cuStreamBeginCapture_v2(CudaStream stream, CudaCapture mode) {
  BEGIN("cuStreamBeginCapture");
  struct CUstream_st *s = stream_of(stream);
  if (!stream) END(CUDA_CAPTURE_UNSUPPORTED);
  if (s->capture) END(CUDA_ILLEGAL_STATE);
  struct CUgraph_st *g = handle_new(HANDLE_GRAPH, sizeof *g, graph_release);
  g->origin = stream;
  g->mode = mode;
  g->thread = (unsigned long)pthread_self();
  capture_join(s, g);
  END(CUDA_OK);
}

static void end_capture(void *handle, void *graph) {
  struct CUstream_st *s = handle;
  if (s->capture == graph) s->capture = NULL;
}

// Whether all lanes of a graph end before the end of the stream from which it was captured.
static bool is_joined(const struct CUgraph_st *g) {
  for (uint32_t lane = 0; lane < g->lanes; lane++)
    if (!clock_covers(&g->origin->capture_clock, lane, g->length[lane])) return false;
  return true;
}

CudaResult cuStreamEndCapture(CudaStream stream, CudaGraph *graph) {
  BEGIN("cuStreamEndCapture");
  struct CUstream_st *s = stream_of(stream);
  struct CUgraph_st *g = s->capture;
  *graph = NULL;
  if (!g) END(CUDA_ILLEGAL_STATE);
  if (g->origin != stream) END(CUDA_CAPTURE_UNMATCHED);
  bool joined = is_joined(g);
  handle_each(HANDLE_STREAM, end_capture, g);
  g->origin = NULL;
  if (g->broken || !joined) {
    handle_destroy(g);
    END(g->broken ? CUDA_CAPTURE_INVALID : CUDA_CAPTURE_UNJOINED);
  }
  *graph = g;
  END(CUDA_OK);
}

CudaResult cuStreamIsCapturing(CudaStream stream, CudaCapturing *status) {
  BEGIN("cuStreamIsCapturing");
  const struct CUgraph_st *g = stream_of(stream)->capture;
  *status = !g ? CUDA_CAPTURING_NONE : g->broken ? CUDA_CAPTURING_INVALID : CUDA_CAPTURING_ACTIVE;
  END(CUDA_OK);
}

static void disturb(void *handle, void *disturbed) {
  struct CUgraph_st *g = handle;
  bool here = g->thread == (unsigned long)pthread_self();
  if (!g->origin || g->mode == CUDA_CAPTURE_RELAXED || (g->mode == CUDA_CAPTURE_THREAD && !here))
    return;
  g->broken = true;
  *(bool *)disturbed = true;
}

CudaResult capture_disturbed(void) {
  bool disturbed = false;
  handle_each(HANDLE_GRAPH, disturb, &disturbed);
  return disturbed ? CUDA_CAPTURE_UNSUPPORTED : CUDA_OK;
}
