// The inputs of steps, which come to the GPU while earlier steps run. A batch is written to a slot
// of page-locked memory, copied to a slot on the GPU by a stream of its own, and moved from there
// to the places where the step reads it, as the first operation of the step:
//
//   Context.tensor -> slot of the host -> slot of the GPU -> place in the work memory
//
// Steps take the slots of the GPU in turn, which operations find from GpuHeader.sequence: so one
// graph serves all steps. A step whose inputs were not written again reads those of the step before
// it: the same slot of the host is copied to its slot of the GPU, unless that has it already.
#include "runtime/gpu/gpu_plan_internal.h"

#include <string.h>

static bool is_input(const Exec *e, uint32_t t) {
  return e->program->tensor[t].kind == TENSOR_INPUT && e->program->tensor[t].bytes > 0;
}

static int64_t aligned(int64_t bytes) { return ceil_div(bytes, MEMORY_ALIGN) * MEMORY_ALIGN; }

void gpu_inputs_list(DeviceWork *w) {
  const Exec *e = w->exec;
  GpuInputs *in = &w->inputs;
  in->input = arena_array(w->arena, GpuInput, e->program->ntensors * (size_t)e->own + 1);
  int64_t at = 0;
  for (uint32_t t = 0; t < e->program->ntensors; t++)
    for (int64_t c = e->first; is_input(e, t) && c < e->first + e->own; c++) {
      in->input[in->n++] = (GpuInput){.tensor = t,
                                      .context = c,
                                      .at = at,
                                      .bytes = e->program->tensor[t].bytes,
                                      .place = e->context[c].tensor[t]};
      at += aligned(e->program->tensor[t].bytes);
    }
  in->bytes = at;
  in->fresh = arena_array(w->arena, bool, in->n + 1);
}

// Makes a slot of the host the one to which the Exec writes inputs. With ranks it writes them to
// its own memory, which other ranks read, and complete_slot copies them.
static void use_slot(DeviceWork *w, int slot) {
  GpuInputs *in = &w->inputs;
  in->current = slot;
  for (uint32_t i = 0; i < in->n && !w->exec->ranks; i++) {
    const GpuInput *x = &in->input[i];
    w->exec->context[x->context].tensor[x->tensor] = in->host[slot] + x->at;
  }
}

static bool make_slots(DeviceWork *w) {
  GpuInputs *in = &w->inputs;
  for (int i = 0; i < GPU_SLOTS; i++) {
    void *at;
    in->used[i] = in->has[i] = -1;
    if (!cuda_good(cuda.MemHostAlloc(&at, (size_t)in->bytes, 0), "cuMemHostAlloc", w->diag))
      return false;
    in->host[i] = memset(at, 0, (size_t)in->bytes);
  }
  return cuda_good(cuda.EventCreate(&in->copied, CUDA_EVENT_NO_TIMING), "cuEventCreate", w->diag) &&
         cuda_good(cuda.MemAlloc(&in->device, GPU_SLOTS * (size_t)in->bytes),
                   "cuMemAlloc of slots for inputs", w->diag);
}

bool gpu_inputs_new(DeviceWork *w) {
  if (w->inputs.n == 0) return true;
  if (!make_slots(w)) return false;
  use_slot(w, 0);
  return true;
}

void gpu_inputs_free(DeviceWork *w) {
  GpuInputs *in = &w->inputs;
  for (int i = 0; i < GPU_SLOTS; i++)
    if (in->host[i]) (void)cuda.MemFreeHost(in->host[i]);
  if (in->copied) (void)cuda.EventDestroy(in->copied);
  if (in->device) (void)cuda.MemFree(in->device);
}

// Returns whether no step under way reads a slot.
static bool is_free(const DeviceWork *w, int slot) {
  return w->nflights == 0 || w->inputs.used[slot] < w->flight[0].sequence;
}

// Chooses the slot of the host for the inputs of the next step: the current one, or another one if
// steps under way read it. At most GPU_SLOTS - 1 are under way when inputs are written, so that one
// is free.
static void choose_slot(DeviceWork *w) {
  GpuInputs *in = &w->inputs;
  int slot = in->current;
  for (int i = 0; i < GPU_SLOTS && !is_free(w, slot); i++) slot = (in->current + 1 + i) % GPU_SLOTS;
  if (!is_free(w, slot)) BUG("an input is written while all slots are in use");
  in->before = in->current;
  if (slot != in->current) use_slot(w, slot);
  memset(in->fresh, 0, in->n * sizeof *in->fresh);
  in->written = true;
  in->version++;
}

void gpu_writes(DeviceWork *w, uint32_t t) {
  GpuInputs *in = &w->inputs;
  if (w->exec->program->tensor[t].kind != TENSOR_INPUT || in->n == 0) return;
  if (!in->written) choose_slot(w);
  for (uint32_t i = 0; i < in->n; i++)
    if (in->input[i].tensor == t) in->fresh[i] = true;
}

// Fills what the current slot lacks: inputs that were not written are those of the step before.
// With ranks all inputs come from the memory of the Exec.
static void complete_slot(const DeviceWork *w) {
  const GpuInputs *in = &w->inputs;
  for (uint32_t i = 0; i < in->n; i++) {
    const GpuInput *x = &in->input[i];
    if (w->exec->ranks)
      memcpy(in->host[in->current] + x->at, x->place, (size_t)x->bytes);
    else if (!in->fresh[i] && in->before != in->current)
      memcpy(in->host[in->current] + x->at, in->host[in->before] + x->at, (size_t)x->bytes);
  }
}

// Copies the current slot of the host to slot number `slot` of the GPU.
static bool copy_slot(DeviceWork *w, int slot) {
  GpuInputs *in = &w->inputs;
  const Gpu *g = w->code->gpu;
  CudaAddress to = in->device + (CudaAddress)(slot * in->bytes);
  in->has[slot] = in->version;
  return gpu_times_mark(w, g->copies, UINT32_MAX, "inputs") &&
         cuda_good(cuda.MemcpyHtoDAsync(to, in->host[in->current], (size_t)in->bytes, g->copies),
                   "cuMemcpyHtoDAsync", w->diag) &&
         gpu_times_mark(w, g->copies, UINT32_MAX, NULL) &&
         cuda_good(cuda.EventRecord(in->copied, g->copies), "cuEventRecord", w->diag) &&
         cuda_good(cuda.StreamWaitEvent(g->stream, in->copied, 0), "cuStreamWaitEvent", w->diag);
}

bool gpu_inputs_send(DeviceWork *w) {
  GpuInputs *in = &w->inputs;
  int slot = (int)(w->sequence % GPU_SLOTS);
  if (in->n == 0) return true;
  if (in->written) complete_slot(w);
  in->written = false;
  in->before = in->current;
  in->used[in->current] = w->sequence;
  return in->has[slot] == in->version || copy_slot(w, slot);
}

// -- the first operation of a step --------------------------------------------------------------

bool gpu_inputs_measure(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  (void)round;
  p->need.table += w->inputs.n * gpu_table_move_record();
  return true;
}

bool gpu_inputs_plan(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const GpuInputs *in = &w->inputs;
  Launching l = {0};
  for (uint32_t i = 0; i < in->n; i++) {
    const GpuInput *x = &in->input[i];
    GpuMove m = {.to = gpu_translate(w, x->place),
                 .from = in->device + (CudaAddress)x->at,
                 .bytes = x->bytes,
                 .stride = in->bytes};
    gpu_table_move(p, &m, &l);
  }
  return gpu_ops_move(w, p, round, &l);
}
