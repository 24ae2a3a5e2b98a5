// The copy of an Exec's memory on the GPU. Each memory of the Exec on the host (persistent tensors
// and work arena of each processor, zeros) has a copy of equal size, so that binding stays as it
// is: gpu_translate translates the addresses that it has computed.
//
// Each tensor is newer on one side or equal on both (TensorSide). Tensors that an Exec shares are
// those of the other Exec, whose DeviceWork has their memory and their side.
#include "ir/base/units.h"
#include "runtime/gpu/gpu_internal.h"

#include <stdlib.h>
#include <string.h>

// -- memory -------------------------------------------------------------------------------------

// Returns how many bytes of its memory of persistent tensors (Context.own) a processor uses. The
// tensors at the end may be unused: those that are in the memory of another processor.
static int64_t bytes_kept(const Exec *e, int64_t r) {
  int64_t bytes = 0;
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    if (e->own_offset[t] < 0 || !exec_keeps(e, r, t)) continue;
    int64_t end = e->own_offset[t] + e->program->tensor[t].bytes;
    bytes = end > bytes ? end : bytes;
  }
  return bytes;
}

static void list_span(DeviceWork *w, const char *host, int64_t bytes) {
  if (bytes > 0) w->span[w->nspans++] = (GpuSpan){.host = host, .bytes = bytes};
}

static int by_host(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const GpuSpan *)a)->host, y = (uintptr_t)((const GpuSpan *)b)->host;
  return (x > y) - (x < y);
}

static void list_spans(DeviceWork *w) {
  const Exec *e = w->exec;
  w->span = arena_array(w->arena, GpuSpan, 2 * e->own + 1);
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    list_span(w, e->context[r].own, bytes_kept(e, r));
    list_span(w, e->context[r].arena, e->program->arena_bytes);
  }
  list_span(w, e->zeros, e->zeros_bytes);
  qsort(w->span, w->nspans, sizeof *w->span, by_host);
}

static int64_t add_bytes(int64_t a, int64_t b) { return size_add(a, b, &a) ? a : INT64_MAX; }

// Returns the bytes that are allocated on the GPU for w, with `need` for a plan. An incomplete
// batch has a plan of its own, which needs at most as much. What products share may be there
// already.
static int64_t bytes_needed(const DeviceWork *w, const PlanNeed *need) {
  int64_t bytes = GPU_HEADER_BYTES + GPU_SLOTS * w->inputs.bytes;
  for (uint32_t i = 0; i < w->nspans; i++) bytes = add_bytes(bytes, w->span[i].bytes);
  for (int i = 0; i < (w->exec->program->over ? PLANS : 1); i++)
    bytes = add_bytes(bytes, (int64_t)(need->table + need->statuses + need->scratch + need->slots));
  bool workspace = need->products && !w->code->gpu->products;
  return workspace ? add_bytes(bytes, GPU_WORKSPACE_BYTES) : bytes;
}

static bool enough_memory(DeviceWork *w) {
  const Exec *e = w->exec;
  size_t available, all;
  PlanNeed need;
  if (!gpu_plan_measure(w, &need)) return false;
  int64_t needed = bytes_needed(w, &need);
  if (!cuda_good(cuda.MemGetInfo(&available, &all), "cuMemGetInfo", w->diag)) return false;
  if ((uint64_t)needed <= available) return true;
  diag_error(
      w->diag, DIAG_NO_MEMORY, (Pos){0},
      "out of memory: %lld processor%s of the program for %s need%s %lld bytes (%s) on the GPU "
      "(%s), and %lld bytes (%s) are available",
      (long long)e->own, plural(e->own), e->program->for_, e->own == 1 ? "s" : "",
      (long long)needed, bytes_text(w->arena, needed), w->code->gpu->name, (long long)available,
      bytes_text(w->arena, (int64_t)available));
  return diag_hint(w->diag, e->ranks ? "take a smaller batch, or more ranks"
                                     : "take a smaller batch: all processors of the mesh are on "
                                       "one GPU");
}

bool gpu_memory_new(DeviceWork *w) {
  list_spans(w);
  if (!enough_memory(w)) return false;
  for (uint32_t i = 0; i < w->nspans; i++) {
    GpuSpan *s = &w->span[i];
    const char *call = arena_printf(w->arena, "cuMemAlloc of %s", bytes_text(w->arena, s->bytes));
    if (!cuda_good(cuda.MemAlloc(&s->at, (size_t)s->bytes), call, w->diag) ||
        !cuda_good(cuda.MemsetD8Async(s->at, 0, (size_t)s->bytes, w->code->gpu->stream),
                   "cuMemsetD8Async", w->diag))
      return false;
  }
  w->side = arena_array(w->arena, uint8_t, w->exec->program->ntensors + 1);
  memset(w->side, SIDE_HOST, w->exec->program->ntensors);
  return true;
}

void gpu_memory_free(DeviceWork *w) {
  for (uint32_t i = 0; i < w->nspans; i++)
    if (w->span[i].at) (void)cuda.MemFree(w->span[i].at);
}

static const GpuSpan *span_of(const DeviceWork *w, const char *host) {
  uint32_t lo = 0, hi = w->nspans;
  while (lo < hi) { // the last span that begins at `host` or before
    uint32_t middle = (lo + hi) / 2;
    if ((uintptr_t)w->span[middle].host <= (uintptr_t)host)
      lo = middle + 1;
    else
      hi = middle;
  }
  bool inside = lo > 0 && host - w->span[lo - 1].host <= w->span[lo - 1].bytes;
  return inside ? &w->span[lo - 1] : NULL;
}

CudaAddress gpu_translate(const DeviceWork *w, const void *host) {
  for (const Exec *e = w->exec; e; e = e->share) {
    const GpuSpan *s = span_of(e->work_on_device ? e->work_on_device : w, host);
    if (s) return s->at + (CudaAddress)((const char *)host - s->host);
  }
  if (!diag_errors(w->diag))
    diag_error(w->diag, DIAG_FILE_MALFORMED, (Pos){0},
               "the program for %s reads or writes outside of its memory", w->exec->program->for_);
  return 0;
}

// -- sides of tensors ---------------------------------------------------------------------------

// A tensor with memory of its own, and the Exec that has this memory.
typedef struct KeptTensor {
  DeviceWork *work;
  uint32_t tensor;
} KeptTensor;

// Returns the tensor whose memory tensor t of w->exec uses. It may be another one of this program,
// of which t is a view, or one of the Exec that w->exec shares.
static KeptTensor kept_tensor(DeviceWork *w, uint32_t t) {
  for (;;) {
    const Exec *e = w->exec;
    const ProgTensor *x = &e->program->tensor[t];
    if (x->at.tensor >= 0 && x->at.tensor != (int32_t)t) {
      t = (uint32_t)x->at.tensor;
    } else if (x->at.tensor >= 0 && e->own_offset[t] < 0) {
      t = (uint32_t)program_tensor(e->share->program, x->kind, x->name);
      w = e->share->work_on_device;
    } else {
      return (KeptTensor){w, t};
    }
  }
}

// Returns whether processor r has memory of its own for tensor t.
static bool keeps(const Exec *e, int64_t r, uint32_t t) {
  return !tensor_is_persistent(e->program, t) || exec_keeps(e, r, t);
}

static bool move_block(DeviceWork *w, char *host, int64_t bytes, bool up) {
  if (bytes == 0) return true;
  CudaAddress at = gpu_translate(w, host);
  return up ? gpu_copy_up(w, at, host, (size_t)bytes) : gpu_copy_down(w, host, at, (size_t)bytes);
}

// Enqueues copies of all blocks of a tensor that w->exec uses, to the GPU or to the host. Errors
// are those of w, even if the memory is that of another Exec.
static bool move_tensor(DeviceWork *w, KeptTensor k, bool up) {
  const Exec *e = k.work->exec;
  for (int64_t r = e->first; r < e->first + e->own; r++)
    if (keeps(e, r, k.tensor) &&
        !move_block(w, e->context[r].tensor[k.tensor], e->program->tensor[k.tensor].bytes, up))
      return false;
  k.work->side[k.tensor] = SIDE_BOTH;
  return true;
}

bool gpu_upload(DeviceWork *w) {
  for (uint32_t t = 0; t < w->exec->program->ntensors; t++) {
    TensorKind kind = w->exec->program->tensor[t].kind;
    if (kind == TENSOR_OUTPUT || kind == TENSOR_INPUT) continue;
    KeptTensor k = kept_tensor(w, t);
    if (k.work->side[k.tensor] == SIDE_HOST && !move_tensor(w, k, true)) return false;
  }
  return true;
}

void gpu_changed(DeviceWork *w, TensorKind first, TensorKind last) {
  for (uint32_t t = 0; t < w->exec->program->ntensors; t++) {
    const ProgTensor *x = &w->exec->program->tensor[t];
    // an output that is a view of a persistent tensor changes with it
    bool view = x->kind == TENSOR_OUTPUT && x->at.tensor >= 0;
    if (x->kind < first || x->kind > last || view) continue;
    KeptTensor k = kept_tensor(w, t);
    k.work->side[k.tensor] = SIDE_GPU;
  }
}

void gpu_wrote(DeviceWork *w, uint32_t t) {
  KeptTensor k = kept_tensor(w, t);
  k.work->side[k.tensor] = SIDE_HOST;
}

// Waits until the stream is empty.
static bool wait_stream(DeviceWork *w) {
  const Gpu *g = w->code->gpu;
  if (g->comms)
    return gpu_comms_wait(g->comms, g->stream, "the end of a step (cuStreamQuery)", w->diag);
  return cuda_good(cuda.StreamSynchronize(g->stream), "the end of a step (cuStreamSynchronize)",
                   w->diag);
}

bool gpu_wait(DeviceWork *w) {
  if (!diag_errors(w->diag) && gpu_use(w->code->gpu, w->diag) && wait_stream(w)) return true;
  w->exec->result = STEP_FAILED;
  return false;
}

bool gpu_fetch(DeviceWork *w, uint32_t t) {
  KeptTensor k = kept_tensor(w, t);
  if (diag_errors(w->diag)) return false;
  if (gpu_results_have(w, t)) return true;
  if (k.work->side[k.tensor] != SIDE_GPU) return true;
  return gpu_use(w->code->gpu, w->diag) && move_tensor(w, k, false) && gpu_wait(w);
}

bool gpu_fetch_bytes(DeviceWork *w, const void *host, int64_t bytes) {
  char *to = (char *)(uintptr_t)host;
  return !diag_errors(w->diag) && gpu_use(w->code->gpu, w->diag) &&
         move_block(w, to, bytes, false) && gpu_wait(w);
}
