// Runs the steps of an Exec on the GPU.
//
//   part 0   header and inputs to the GPU; all operations up to INSTR_COMMIT; faults and scalar
//            outputs to the host
//   judge    the host waits for part 0 and decides whether the step is committed (exec_judge)
//   part 1   the operations after INSTR_COMMIT, for which the host does not wait
//
// The operations of a part are enqueued one by one in the first step, while the stream captures
// them into a graph; each step launches the graph. With MESHC_GPU_EAGER, in a step that is timed
// and in one whose values are looked at, they are enqueued one by one in every step.
#include "runtime/gpu/gpu_internal.h"

#include "ir/base/philox.h"

#include <stdlib.h>
#include <string.h>

// -- enqueueing ---------------------------------------------------------------------------------

static bool enqueue_round(DeviceWork *w, const StepPlan *p, uint32_t r) {
  for (uint32_t i = r ? p->round.at[r - 1].end : 0; i < p->round.at[r].end; i++)
    if (!gpu_enqueue(w, p, &p->op.at[i])) return false;
  return true;
}

// Enqueues what the operations before the commit find in GPU memory: the header, and statuses that
// report no fault.
static bool enqueue_start(DeviceWork *w, const StepPlan *p) {
  return gpu_copy_up(w, w->header, w->given, sizeof *w->given) &&
         gpu_clear(w, p->status_at, p->nstatus * sizeof(GpuStatus));
}

// Enqueues what comes after the operations of part 0: scalar outputs and statuses to w->seen.
static bool enqueue_results(DeviceWork *w, const StepPlan *p) {
  for (uint32_t i = 0; i < w->nscalars; i++) {
    const GpuScalar *s = &w->scalar[i];
    CudaAddress from = gpu_translate(w, w->exec->context[s->context].tensor[s->tensor]);
    if (!gpu_copy_down(w, w->seen + i * SCALAR_BYTES, from, (size_t)s->bytes)) return false;
  }
  return gpu_copy_down(w, w->seen + w->nscalars * SCALAR_BYTES, p->status_at,
                       p->nstatus * sizeof(GpuStatus));
}

typedef bool RunRound(DeviceWork *w, const StepPlan *p, uint32_t r);

// Enqueues a part, its rounds by `run_round`.
static bool enqueue_part(DeviceWork *w, const StepPlan *p, int part, RunRound *run_round) {
  uint32_t from = part ? p->commit : 0, to = part ? p->round.n : p->commit;
  if (part == 0 && !enqueue_start(w, p)) return false;
  for (uint32_t r = from; r < to; r++)
    if (!run_round(w, p, r)) return false;
  return part == 1 || enqueue_results(w, p);
}

// -- graphs -------------------------------------------------------------------------------------

static bool capture(DeviceWork *w, StepPlan *p, int part) {
  CudaStream stream = w->code->gpu->stream;
  CudaGraph graph = NULL;
  if (!cuda_good(cuda.StreamBeginCapture(stream, CUDA_CAPTURE_THREAD), "cuStreamBeginCapture",
                 w->diag))
    return false;
  bool good = enqueue_part(w, p, part, enqueue_round);
  CudaResult ended = cuda.StreamEndCapture(stream, &graph);
  good = good && cuda_good(ended, "cuStreamEndCapture", w->diag) &&
         cuda_good(cuda.GraphInstantiate(&p->graph[part], graph, 0), "cuGraphInstantiate", w->diag);
  if (graph) (void)cuda.GraphDestroy(graph);
  return good;
}

static bool run_graph(DeviceWork *w, StepPlan *p, int part) {
  if (!p->graph[part] && !capture(w, p, part)) return false;
  return cuda_good(cuda.GraphLaunch(p->graph[part], w->code->gpu->stream), "cuGraphLaunch",
                   w->diag);
}

// -- steps whose instructions run one by one ----------------------------------------------------

// Adds the seconds of a round to the profile.
static bool timed_round(DeviceWork *w, const StepPlan *p, uint32_t r) {
  CudaStream stream = w->code->gpu->stream;
  float milliseconds;
  for (int i = 0; i < 2; i++)
    if (!w->clock[i] &&
        !cuda_good(cuda.EventCreate(&w->clock[i], CUDA_EVENT_BLOCKING), "cuEventCreate", w->diag))
      return false;
  if (!cuda_good(cuda.EventRecord(w->clock[0], stream), "cuEventRecord", w->diag) ||
      !enqueue_round(w, p, r) ||
      !cuda_good(cuda.EventRecord(w->clock[1], stream), "cuEventRecord", w->diag) || !gpu_wait(w) ||
      !cuda_good(cuda.EventElapsedTime(&milliseconds, w->clock[0], w->clock[1]),
                 "cuEventElapsedTime", w->diag))
    return false;
  w->exec->seconds[p->round.at[r].instr] += 1e-3 * (double)milliseconds;
  return true;
}

// Lets the executor look at the values of a round.
static bool looked_round(DeviceWork *w, const StepPlan *p, uint32_t r) {
  Exec *e = w->exec;
  const GpuRound *round = &p->round.at[r];
  if (!enqueue_round(w, p, r) || !gpu_wait(w)) return false;
  if (e->program->instr[round->instr].kind == INSTR_COMMIT) return true;
  for (int64_t c = e->first; c < e->first + e->own; c++) e->look(e, c, round->instr, &round->steps);
  return !diag_errors(w->diag);
}

static bool run_part(DeviceWork *w, StepPlan *p, int part) {
  if (w->exec->nonfinite) return enqueue_part(w, p, part, looked_round);
  if (w->exec->timed) return enqueue_part(w, p, part, timed_round);
  if (w->eager) return enqueue_part(w, p, part, enqueue_round);
  return run_graph(w, p, part);
}

// -- results ------------------------------------------------------------------------------------

static void take_scalars(DeviceWork *w) {
  for (uint32_t i = 0; i < w->nscalars; i++) {
    const GpuScalar *s = &w->scalar[i];
    memcpy(w->exec->context[s->context].tensor[s->tensor], w->seen + i * SCALAR_BYTES,
           (size_t)s->bytes);
    w->side[s->tensor] = SIDE_BOTH;
  }
}

// Takes over the faults of the launches of part 0, in the order in which they ran. Part 1 has not
// run yet, and its statuses are empty.
static void take_faults(DeviceWork *w, const StepPlan *p) {
  Exec *e = w->exec;
  const GpuStatus *status = (const GpuStatus *)(void *)(w->seen + w->nscalars * SCALAR_BYTES);
  for (uint32_t r = 0; r < p->round.n && p->nstatus; r++) {
    const GpuRound *round = &p->round.at[r];
    for (int64_t c = 0; c < e->own && round->status != UINT32_MAX; c++)
      exec_note_fault(e, e->first + c, 0, round->instr, &status[round->status + c].first,
                      &round->steps);
  }
}

// -- the functions of the device ----------------------------------------------------------------

// Makes room for what a step copies to the host. Returns false after an error.
static bool make_seen(DeviceWork *w, const StepPlan *p) {
  size_t needed = w->nscalars * SCALAR_BYTES + p->nstatus * sizeof(GpuStatus) + 1;
  void *at;
  if (needed <= w->seen_bytes) return true;
  if (!cuda_good(cuda.MemHostAlloc(&at, needed, 0), "cuMemHostAlloc", w->diag)) return false;
  if (w->seen) (void)cuda.MemFreeHost(w->seen);
  w->seen = at;
  w->seen_bytes = needed;
  for (int i = 0; i < PLANS; i++) gpu_plan_forget(&w->plan[i]);
  return true;
}

// Returns the plan for the rows of the batch, which is made when it is needed first. Returns NULL
// after an error.
static StepPlan *plan_for_rows(DeviceWork *w) {
  StepPlan *p = &w->plan[w->exec->rows >= 0];
  if (p->arena && p->rows == w->exec->rows && p->defers == gpu_plan_defers(w->exec)) return p;
  if (p->arena && !gpu_wait(w)) return NULL; // part 1 of an earlier step may still read it
  gpu_plan_free(p);
  return gpu_plan_new(w, p) && make_seen(w, p) ? p : NULL;
}

// Adds what the collectives of a part have sent to the counters of the Exec.
static void count_sent(const DeviceWork *w, const StepPlan *p, int part) {
  CommCount *all = &w->exec->comm->count;
  const CommCount *more = &p->count[part];
  for (int k = 0; k < COLL_COUNT; k++) {
    all->calls[k] += more->calls[k];
    all->bytes[k] += more->bytes[k];
    all->wire_bytes[k] += more->wire_bytes[k];
  }
}

static bool run(DeviceWork *w) {
  Exec *e = w->exec;
  StepPlan *p = plan_for_rows(w);
  if (!p || !gpu_upload(w)) return false;
  *w->given = (GpuHeader){.step = e->step, .seed = philox_seed(e->seed), .go = 1};
  if (!run_part(w, p, 0) || !gpu_wait(w)) return false;
  count_sent(w, p, 0);
  gpu_changed(w, TENSOR_OUTPUT, TENSOR_OUTPUT);
  take_scalars(w);
  take_faults(w, p);
  exec_judge(e);
  if (e->stop || p->commit == p->round.n) return true;
  count_sent(w, p, 1);
  gpu_changed(w, TENSOR_PARAM, TENSOR_SLOT);
  return run_part(w, p, 1);
}

bool gpu_step(DeviceWork *w) {
  return !diag_errors(w->diag) && gpu_use(w->code->gpu, w->diag) && run(w);
}

// Lists the outputs that are scalars, on all processors.
static void list_scalars(DeviceWork *w) {
  const Exec *e = w->exec;
  w->scalar = arena_array(w->arena, GpuScalar, e->program->ntensors * (size_t)e->own + 1);
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    const ProgTensor *x = &e->program->tensor[t];
    if (x->kind != TENSOR_OUTPUT || x->at.tensor >= 0 || x->bytes > SCALAR_BYTES) continue;
    for (int64_t c = e->first; c < e->first + e->own; c++)
      w->scalar[w->nscalars++] = (GpuScalar){.tensor = t, .context = c, .bytes = x->bytes};
  }
}

static bool make_header(DeviceWork *w) {
  void *given;
  if (!cuda_good(cuda.MemHostAlloc(&given, sizeof *w->given, 0), "cuMemHostAlloc", w->diag))
    return false;
  w->given = given;
  return cuda_good(cuda.MemAlloc(&w->header, sizeof *w->given), "cuMemAlloc", w->diag);
}

// The memory of the communicators is taken before that of the program is compared with what is
// left.
static bool make_comms(DeviceWork *w) {
  const Gpu *g = w->code->gpu;
  return !g->comms || gpu_comms_add(g->comms, w->exec->program, g->stream, w->diag);
}

DeviceWork *gpu_begin(const ExecDevice *device, Exec *e, Diag *d) {
  DeviceWork *w = mem_zeroed(1, sizeof *w);
  const char *eager = getenv("MESHC_GPU_EAGER");
  w->exec = e;
  w->code = (const GpuProgram *)(const void *)device;
  w->arena = arena_new();
  w->diag = diag_new(w->arena);
  w->eager = eager && *eager && strcmp(eager, "0") != 0;
  list_scalars(w);
  if (gpu_use(w->code->gpu, w->diag) && make_comms(w) && gpu_memory_new(w) && make_header(w) &&
      plan_for_rows(w)) {
    arena_keep(w->arena);
    return w;
  }
  gpu_why(w, d);
  gpu_end(w);
  return NULL;
}

void gpu_end(DeviceWork *w) {
  if (!w) return;
  (void)cuda.CtxSetCurrent(w->code->gpu->context);
  if (diag_errors(w->diag) || (w->exec->ranks && ranks_failed(w->exec->ranks)))
    gpu_comms_abort(w->code->gpu->comms);
  (void)cuda.StreamSynchronize(w->code->gpu->stream);
  for (int i = 0; i < PLANS; i++) gpu_plan_free(&w->plan[i]);
  for (int i = 0; i < 2; i++)
    if (w->clock[i]) (void)cuda.EventDestroy(w->clock[i]);
  gpu_memory_free(w);
  if (w->header) (void)cuda.MemFree(w->header);
  if (w->given) (void)cuda.MemFreeHost(w->given);
  if (w->seen) (void)cuda.MemFreeHost(w->seen);
  arena_free(w->arena);
  free(w);
}

void gpu_why(const DeviceWork *w, Diag *d) { diag_take(d, w->diag); }
