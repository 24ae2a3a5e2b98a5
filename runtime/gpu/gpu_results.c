// What the host reads of each step: whether it was good, and the scalar outputs. The judge
// (ir/program/gpu_step.h) writes them to a slot of page-locked memory. Faults of launches stay on
// the GPU until the host fetches them: the steps behind do not run, so they are not overwritten.
#include "runtime/gpu/gpu_plan_internal.h"

#include <stdlib.h>
#include <string.h>

// -- the scalars --------------------------------------------------------------------------------

static bool is_scalar(const ProgTensor *x) {
  return x->kind == TENSOR_OUTPUT && x->bytes > 0 && x->bytes <= SCALAR_BYTES &&
         (x->bytes & (x->bytes - 1)) == 0;
}

// An output that is a view of a persistent tensor gets its value after the commit, when the judge
// has written the slot: it is copied to the host when it is read (DeviceWork.fetches).
static bool is_view(const ProgTensor *x) { return x->at.tensor >= 0; }

static void list_tensor(DeviceWork *w, uint32_t t) {
  const Exec *e = w->exec;
  for (int64_t c = e->first; c < e->first + e->own; c++)
    w->scalar[w->nscalars++] =
        (GpuScalar){.tensor = t, .context = c, .bytes = e->program->tensor[t].bytes};
}

void gpu_results_list(DeviceWork *w) {
  const Program *p = w->exec->program;
  w->scalar = arena_array(w->arena, GpuScalar, p->ntensors * (size_t)w->exec->own + 1);
  w->is_scalar = arena_array(w->arena, bool, p->ntensors + 1);
  for (uint32_t t = 0; t < p->ntensors; t++) {
    const ProgTensor *x = &p->tensor[t];
    w->is_scalar[t] = is_scalar(x) && !is_view(x);
    w->fetches = w->fetches || (is_scalar(x) && is_view(x));
    if (w->is_scalar[t] || (int32_t)t == w->exec->finite_tensor) list_tensor(w, t);
  }
}

bool gpu_results_new(DeviceWork *w) {
  for (int i = 0; i < GPU_SLOTS; i++) {
    void *at;
    if (!cuda_good(cuda.MemHostAlloc(&at, sizeof(GpuResult) + w->nscalars * SCALAR_BYTES, 0),
                   "cuMemHostAlloc", w->diag))
      return false;
    w->result[i] = at;
    if (!cuda_good(cuda.EventCreate(&w->done[i], CUDA_EVENT_NO_TIMING), "cuEventCreate", w->diag))
      return false;
  }
  return true;
}

void gpu_results_free(DeviceWork *w) {
  for (int i = 0; i < GPU_SLOTS; i++) {
    if (w->result[i]) (void)cuda.MemFreeHost(w->result[i]);
    if (w->done[i]) (void)cuda.EventDestroy(w->done[i]);
  }
}

void gpu_results_prepare(DeviceWork *w) {
  const GpuResult r = {.asked = exec_stop_requested(w->exec)};
  memcpy(w->result[w->sequence % GPU_SLOTS], &r, sizeof r);
}

GpuVerdict gpu_results_take(DeviceWork *w, const Flight *f) {
  const char *slot = w->result[f->sequence % GPU_SLOTS];
  GpuResult r;
  memcpy(&r, slot, sizeof r);
  if (r.sequence != f->sequence) BUG("the result of a step is that of another one");
  for (uint32_t i = 0; i < w->nscalars; i++) {
    const GpuScalar *s = &w->scalar[i];
    memcpy(w->exec->context[s->context].tensor[s->tensor],
           slot + sizeof r + (size_t)i * SCALAR_BYTES, (size_t)s->bytes);
  }
  w->exec->asked = w->exec->asked || r.asked;
  return (GpuVerdict)r.verdict;
}

bool gpu_results_have(const DeviceWork *w, uint32_t t) { return w->is_scalar[t]; }

// -- the judge ----------------------------------------------------------------------------------

// Returns GpuValue.exponent of tensor t: the bits of the exponent if its value must be finite, else
// 0.
static uint64_t exponent_of(const DeviceWork *w, uint32_t t) {
  static const uint64_t bits[TYPE_COUNT] = {[TYPE_F64] = 0x7ff0000000000000,
                                            [TYPE_F32] = 0x7f800000,
                                            [TYPE_BF16] = 0x7f80,
                                            [TYPE_F16] = 0x7c00};
  return (int32_t)t == w->exec->finite_tensor ? bits[w->exec->program->tensor[t].type] : 0;
}

// Writes the GpuValues of the judge's record, which begins at `to`.
static void put_values(const DeviceWork *w, char *to) {
  for (uint32_t i = 0; i < w->nscalars; i++) {
    const GpuScalar *s = &w->scalar[i];
    GpuValue v = {.at = gpu_translate(w, w->exec->context[s->context].tensor[s->tensor]),
                  .bytes = s->bytes,
                  .exponent = exponent_of(w, s->tensor)};
    memcpy(to + sizeof(GpuJudging) + i * sizeof v, &v, sizeof v);
  }
}

static size_t record_bytes(const DeviceWork *w) {
  return sizeof(GpuJudging) + w->nscalars * sizeof(GpuValue);
}

bool gpu_judge_measure(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  (void)round;
  p->commit = 0; // what follows comes after the commit
  p->need.table += record_bytes(w);
  return true;
}

// Adds a launch of the judge, on the record of `l`. flags: what it does.
static void add_judge(DeviceWork *w, StepPlan *p, const Launching *l, int32_t flags) {
  GpuEntry entry = gpu_judge_entry();
  GpuOp *op = gpu_ops_launch(p, w->code->judge, l, 1, 1, entry.threads, entry.shared);
  op->u.launch.flags = flags;
}

// Adds the exchange of votes among all ranks, in the main stream: all collectives are joined here.
static void add_vote(DeviceWork *w, StepPlan *p) {
  Message *m = arena_array(p->arena, Message, 1);
  void *vote = (void *)(uintptr_t)(w->header + GPU_VOTE_AT);
  *m = (Message){.kind = MESSAGE_REDUCE,
                 .from = vote,
                 .to = vote,
                 .count = VOTE_NUMBERS,
                 .type = TYPE_I64,
                 .monoid = MONOID_MAX};
  vec_push(p->arena, p->op) =
      (GpuOp){.kind = GPU_MESSAGES,
              .u.messages = {.axes = mesh_axes(&w->exec->program->mesh), .n = 1, .at = m}};
}

static bool has_peers(const DeviceWork *w) {
  const GpuComms *comms = w->code->gpu->comms;
  return comms && gpu_comms_several(comms);
}

bool gpu_judge_plan(DeviceWork *w, StepPlan *p, GpuRound *round) {
  bool votes = has_peers(w);
  GpuJudging j = {.statuses = p->status_at, .nstatuses = p->nstatus, .nvalues = w->nscalars};
  Launching l = {.nsets = 1};
  char *to = gpu_table_add(p, record_bytes(w), &l.table);
  (void)round;
  for (int i = 0; i < GPU_SLOTS; i++) j.slot[i] = (uintptr_t)w->result[i];
  memcpy(to, &j, sizeof j);
  put_values(w, to);
  add_judge(w, p, &l, votes ? GPU_LOOKS : GPU_LOOKS | GPU_DECIDES | GPU_COMMITS);
  if (votes) {
    add_vote(w, p);
    add_judge(w, p, &l, GPU_DECIDES | GPU_COMMITS);
  }
  p->commit = p->round.n + 1; // the rounds so far, and this one
  return true;
}

// -- signs of progress --------------------------------------------------------------------------

enum {
  SIGNS = 32,      // about how many signs a long step has
  SIGN_ROUNDS = 16 // least number of rounds between two signs: a shorter step has none
};

size_t gpu_signs_record(const DeviceWork *w) { return has_peers(w) ? sizeof(GpuJudging) : 0; }

void gpu_signs_begin(DeviceWork *w, StepPlan *p) {
  if (!has_peers(w)) return;
  const GpuJudging j = {.sign = gpu_comms_sign(w->code->gpu->comms)};
  memcpy(gpu_table_add(p, sizeof j, &p->sign), &j, sizeof j);
  p->signs = p->need.rounds / SIGNS > SIGN_ROUNDS ? p->need.rounds / SIGNS : SIGN_ROUNDS;
}

void gpu_signs_add(DeviceWork *w, StepPlan *p) {
  const Launching l = {.nsets = 1, .table = p->sign};
  add_judge(w, p, &l, GPU_SIGNS | (int32_t)((p->round.n + 1) / p->signs) << GPU_PHASE_BIT);
}

// -- faults -------------------------------------------------------------------------------------

// Takes over the faults of a step. status: StepPlan.status_at, on the host.
static void note_faults(DeviceWork *w, const StepPlan *p, const GpuStatus *status) {
  Exec *e = w->exec;
  for (uint32_t r = 0; r < p->round.n; r++) {
    const GpuRound *round = &p->round.at[r];
    for (int64_t c = 0; c < e->own && round->status != UINT32_MAX; c++)
      exec_note_fault(e, e->first + c, 0, round->instr, &status[round->status + c].first,
                      &round->steps);
  }
}

bool gpu_results_faults(DeviceWork *w, const StepPlan *p) {
  size_t bytes = p->nstatus * sizeof(GpuStatus);
  GpuStatus *status = mem_zeroed(p->nstatus + 1u, sizeof *status);
  bool good = gpu_copy_down(w, status, p->status_at, bytes) && gpu_wait(w) &&
              gpu_clear(w, p->status_at, bytes);
  if (good) note_faults(w, p, status);
  free(status);
  return good;
}
