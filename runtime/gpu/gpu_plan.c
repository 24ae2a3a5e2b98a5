// The plan of a step: walks the instructions of a bound program as the workers of the CPU do, with
// loops unrolled, and lists the operations of the stream (gpu_ops.c).
#include "ir/base/units.h"
#include "runtime/gpu/gpu_plan_internal.h"

#include <stdlib.h>

// -- the walk -----------------------------------------------------------------------------------

// Returns whether all processors run the loop at instruction i equally often. If not, adds an
// error.
static bool loops_agree(DeviceWork *w, uint32_t i) {
  const Exec *e = w->exec;
  for (int64_t c = e->first + 1; c < e->first + e->own; c++)
    if (e->context[c].instr[i].u.loop.count != e->context[e->first].instr[i].u.loop.count)
      return gpu_lacks(w, i, "loops whose number of rounds differs between processors");
  return true;
}

// What `walk` calls for each round of a step, with what a plan does for it.
typedef bool RoundVisit(DeviceWork *w, StepPlan *p, GpuRound *round, const InstrPlan *of);

static const GpuRound no_instr = {.instr = UINT32_MAX, .status = UINT32_MAX};

static bool visit_own(DeviceWork *w, StepPlan *p, RoundVisit *visit, InstrPlan of) {
  GpuRound round = no_instr;
  return visit(w, p, &round, &of);
}

// Calls `visit` for each run of an instruction, loops and their ends excepted, in order. *commits
// tells whether INSTR_COMMIT is among them.
static bool walk_instrs(DeviceWork *w, StepPlan *p, RoundVisit *visit, bool *commits) {
  const Exec *e = w->exec;
  LoopSteps steps = {0};
  bool varies[LOOP_DEPTH + 1] = {false}; // by depth: GpuRound.varies
  for (uint32_t i = 0; i < e->program->ninstrs;) {
    const BoundInstr *b = &e->context[e->first].instr[i];
    const Instr *in = &e->program->instr[i];
    *commits = *commits || b->kind == INSTR_COMMIT;
    if (b->kind == INSTR_LOOP || b->kind == INSTR_END) {
      if (b->kind == INSTR_LOOP) {
        if (!loops_agree(w, i)) return false;
        varies[steps.depth + 1] = varies[steps.depth] || in->u.loop.count.slot >= 0;
      }
      i = exec_loop_pass(e, b, i, &steps);
      continue;
    }
    GpuRound round = {
        .instr = i, .status = UINT32_MAX, .varies = varies[steps.depth], .steps = steps};
    if (!visit(w, p, &round, gpu_ops_of(b->kind))) return false;
    i++;
  }
  return true;
}

// Calls `visit` for each round of a step, in order.
static bool walk(DeviceWork *w, StepPlan *p, RoundVisit *visit) {
  static const InstrPlan inputs = {gpu_inputs_measure, gpu_inputs_plan, NULL},
                         judge = {gpu_judge_measure, gpu_judge_plan, NULL};
  bool commits = false;
  return visit_own(w, p, visit, inputs) && walk_instrs(w, p, visit, &commits) &&
         (commits || visit_own(w, p, visit, judge));
}

static bool measure(DeviceWork *w, StepPlan *p, GpuRound *round, const InstrPlan *of) {
  p->need.rounds++;
  if (of->lacks) return gpu_lacks(w, round->instr, of->lacks);
  return !of->measure || of->measure(w, p, round);
}

bool gpu_plan_defers(const Exec *e) { return e->defers && !e->nonfinite; }

bool gpu_is_lasting(const Program *p, Ref r) {
  while (r.tensor >= 0 && p->tensor[r.tensor].at.tensor != r.tensor) r = p->tensor[r.tensor].at;
  return r.tensor >= 0;
}

// Returns whether a product writes memory that outlives the step. Operands that it may only read
// are taken as written.
static bool writes_lasting(const Program *p, const Gemm *g) {
  bool lasting = gpu_is_lasting(p, g->c);
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    const Ref *extra = gemm_extra(g, i);
    lasting = lasting || (extra && gpu_is_lasting(p, *extra));
  }
  return lasting;
}

// Returns StepPlan.halves. A product after the commit is computed in any case. That changes nothing
// in a step that is not committed, unless the result outlives the step.
static bool needs_halves(const Program *p) {
  bool after_commit = false, halves = false;
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    after_commit = after_commit || in->kind == INSTR_COMMIT;
    halves = halves || (after_commit && in->kind == INSTR_GEMM && writes_lasting(p, &in->u.gemm));
  }
  return halves;
}

static StepPlan plan_begin(const Exec *e) {
  return (StepPlan){.rows = e->rows,
                    .defers = gpu_plan_defers(e),
                    .halves = needs_halves(e->program),
                    .commit = UINT32_MAX};
}

bool gpu_plan_measure(DeviceWork *w, PlanNeed *need) {
  StepPlan p = plan_begin(w->exec);
  p.need.table = gpu_signs_record(w);
  bool good = walk(w, &p, measure);
  *need = p.need;
  return good;
}

static bool add_round(DeviceWork *w, StepPlan *p, GpuRound *round, const InstrPlan *of) {
  gpu_messages_join(p, round->instr);
  if (of->plan && !of->plan(w, p, round)) return false;
  if (p->signs && (p->round.n + 1) % p->signs == 0) gpu_signs_add(w, p);
  round->end = p->op.n;
  vec_push(p->arena, p->round) = *round;
  return true;
}

// -- memory of the plan -------------------------------------------------------------------------

static bool allocate(DeviceWork *w, CudaAddress *at, size_t n, const char *what) {
  if (n == 0) return true;
  const char *call =
      arena_printf(w->arena, "cuMemAlloc of %s for %s", bytes_text(w->arena, (int64_t)n), what);
  return cuda_good(cuda.MemAlloc(at, n), call, w->diag);
}

static bool send_table(DeviceWork *w, StepPlan *p) {
  bool good = allocate(w, &p->table_at, p->table_bytes, "the operands of launches") &&
              gpu_copy_up(w, p->table_at, p->table, p->table_bytes) && gpu_wait(w);
  free(p->table);
  p->table = NULL;
  return good;
}

// Messages also carry the gaps between the elements of a box in a slot. So slots are cleared first:
// nothing sends memory that was never written.
static bool make_slots(DeviceWork *w, StepPlan *p) {
  return gpu_slots_reserve(w, p) &&
         allocate(w, &p->slots_at, p->need.slots, "messages between GPUs") &&
         gpu_clear(w, p->slots_at, p->need.slots);
}

bool gpu_plan_new(DeviceWork *w, StepPlan *p) {
  PlanNeed need;
  if (!gpu_plan_measure(w, &need)) return false;
  *p = plan_begin(w->exec);
  p->arena = arena_new();
  arena_keep(p->arena); // gpu_plan_free frees it
  p->need = need;
  if (!allocate(w, &p->status_at, need.statuses, "the faults of launches") ||
      !gpu_clear(w, p->status_at, need.statuses) ||
      !allocate(w, &p->scratch_at, need.scratch, "sorting and sums in parts") || !make_slots(w, p))
    return false;
  p->table = mem_zeroed(need.table + 1, 1);
  gpu_signs_begin(w, p);
  if (!walk(w, p, add_round) || diag_errors(w->diag)) return false;
  gpu_messages_join(p, UINT32_MAX);
  return send_table(w, p);
}

void gpu_plan_free(StepPlan *p) {
  if (!p->arena) return;
  gpu_graph_free(p);
  if (p->table_at) (void)cuda.MemFree(p->table_at);
  if (p->status_at) (void)cuda.MemFree(p->status_at);
  if (p->scratch_at) (void)cuda.MemFree(p->scratch_at);
  if (p->slots_at) (void)cuda.MemFree(p->slots_at);
  gpu_slots_release(p);
  free(p->table);
  arena_free(p->arena);
  *p = (StepPlan){0};
}
