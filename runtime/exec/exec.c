// Executor: workers walk the instructions of a bound Program for the processors of a mesh.
//
// A processor of the mesh is a context of this process (docs/decisions.md, 22), a worker is a
// thread. With as many contexts as workers or more, each worker has some and runs them one after
// the other up to the next collective, so that nobody waits in between. With 4 processors and 2
// workers:
//
//   worker 0: kernels of 0, kernels of 1 |barrier| collective |barrier| ...
//   worker 1: kernels of 2, kernels of 3 |barrier| collective |barrier| ...
//
// With fewer contexts, several workers share one: they divide the chunks of a kernel or the panels
// of a GEMM. Chunks do not depend on the number of workers (docs/decisions.md, 18), and so neither
// do the bits of the results.
//
// In a loop with rows (Instr.u.loop.rows) they divide the rows instead: each runs all rounds for
// its rows, and they meet after the loop only.
//
// A program launches a kernel on operand sets: tensors to which the kernel is applied, one set
// after another. Chunks and units are parts of this work (exec_internal.h).
#include "ir/base/philox.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/product_internal.h"
#include "runtime/exec/thin_product.h"
#include "runtime/exec/trace.h"

#include <math.h>
#include <string.h>

// -- running one instruction --------------------------------------------------------------------

Seat exec_seat(const Exec *e, int worker, int crew) {
  int64_t p = e->own, w = crew, first = e->first;
  if (p >= w) return (Seat){first + worker * p / w, first + (worker + 1) * p / w, 0, 1};
  // workers ceil(c * w / p) to ceil((c + 1) * w / p) - 1 share context c
  int64_t context = worker * p / w;
  int64_t lo = ceil_div(context * w, p), hi = ceil_div((context + 1) * w, p);
  return (Seat){first + context, first + context + 1, (int)(worker - lo), (int)(hi - lo)};
}

// Returns how many workers share a context if all workers run the step.
static int sharers_of(const Exec *e, int64_t context) {
  int64_t p = e->own, w = e->workers, c = context - e->first;
  return p >= w ? 1 : (int)(ceil_div((c + 1) * w, p) - ceil_div(c * w, p));
}

void exec_note_fault(Exec *e, int64_t context, int worker, uint32_t instr, const Status *s,
                     const LoopSteps *steps) {
  StepFault *f = &e->fault[context * e->workers + worker];
  if (s->code == 0 || f->status.code != 0) return;
  *f = (StepFault){.instr = instr, .status = *s};
  for (int i = 0; i < steps->depth && i < FAULT_DEPTH; i++) f->at[i] = steps->at[i];
}

// Returns the addresses of the n operands of a kernel for one operand set (the tensors of one
// application of the kernel). If operands move in loops, these are the addresses for the current
// iterations, in an array of this worker.
static void *const *pointers(const Exec *e, int worker, const BoundSet *set, int n,
                             const LoopSteps *steps) {
  if (!set->ref || steps->depth == 0) return set->ptr;
  void **moved = e->moved[worker];
  for (int i = 0; i < n; i++)
    moved[i] = (char *)set->ptr[i] + ref_moved(set->ref[i], steps->depth, steps->at);
  return moved;
}

// Returns the arguments of a call of kernel b for one operand set (the tensors of one application
// of the kernel).
static KernelCall call_of(const Exec *e, int worker, const BoundKernel *b, const BoundSet *set,
                          const LoopSteps *steps, Status *status) {
  return (KernelCall){.ptr = pointers(e, worker, set, b->kernel->nptr, steps),
                      .slot = set->slot,
                      .num = set->num,
                      .partial = b->partial + set->first * b->kernel->partial_bytes,
                      .status = status,
                      .step = e->step,
                      .seed = philox_seed(e->seed)};
}

// Runs chunks lo..hi-1 of a kernel launch. A chunk is a part of the launch that one worker (thread)
// runs in one call of the kernel. Chunks are numbered over all operand sets, the tensors to which
// the kernel is applied in turn.
static void run_chunks(Exec *e, int64_t context, uint32_t instr, int worker, int64_t lo, int64_t hi,
                       const LoopSteps *steps) {
  const BoundKernel *b = &bound_instr(e, context, instr, steps)->u.kernel;
  int64_t partial = b->kernel->partial_bytes;
  Status status = {0};
  for (uint32_t s = 0; s < b->nsets; s++) {
    const BoundSet *set = &b->set[s];
    int64_t from = lo > set->first ? lo - set->first : 0;
    int64_t to = hi - set->first < set->chunks ? hi - set->first : set->chunks;
    KernelCall call = call_of(e, worker, b, set, steps, &status);
    // If chunks have no partial results, one call of the kernel runs neighbouring chunks together.
    int64_t stride = partial ? 1 : to - from;
    for (int64_t c = from; c < to; c += stride) {
      int64_t end = (c + stride) * b->grain;
      call.partial = b->partial + (set->first + c) * partial;
      b->kernel->run(&call, set->from + c * b->grain,
                     set->from + (end < set->units ? end : set->units));
      exec_note_fault(e, context, worker, instr, &status, steps);
    }
  }
}

static void combine_chunks(Exec *e, int64_t context, uint32_t instr, int worker,
                           const LoopSteps *steps) {
  const BoundKernel *b = &bound_instr(e, context, instr, steps)->u.kernel;
  Status status = {0};
  for (uint32_t s = 0; s < b->nsets; s++) {
    const BoundSet *set = &b->set[s];
    KernelCall call = call_of(e, worker, b, set, steps, &status);
    b->kernel->combine(&call, set->chunks);
  }
  exec_note_fault(e, context, worker, instr, &status, steps);
}

// Returns the work memory of a worker (thread), or NULL if the program needs none.
static void *scratch_of(const Exec *e, int worker) {
  return e->scratch ? e->scratch + worker * e->scratch_bytes : NULL;
}

static void run_ordered(const Exec *e, const BoundOrdered *at_base, int worker, int member,
                        int members, const LoopSteps *steps) {
  BoundOrdered moved = *at_base;
  moved.src += ref_moved(moved.what->src, steps->depth, steps->at);
  moved.dst += ref_moved(moved.what->dst, steps->depth, steps->at);
  int64_t lo, hi;
  share_of(moved.rows, ordered_unit(&moved), member, members, &lo, &hi);
  ordered_run(&moved, lo, hi, scratch_of(e, worker));
}

BoundMatrix exec_matrix(const BoundMatrix *at_base, const LoopSteps *steps) {
  BoundMatrix moved = *at_base;
  moved.a += ref_moved(moved.what->a, steps->depth, steps->at);
  moved.b += ref_moved(moved.what->b, steps->depth, steps->at);
  moved.dst += ref_moved(moved.what->dst, steps->depth, steps->at);
  return moved;
}

static void run_matrix(const Exec *e, const BoundMatrix *at_base, int worker, int member,
                       int members, const LoopSteps *steps) {
  BoundMatrix moved = exec_matrix(at_base, steps);
  int64_t lo, hi;
  share_of(moved.matrices, 1, member, members, &lo, &hi);
  matrix_run(&moved, lo, hi, scratch_of(e, worker));
}

// Returns the number of the first chunk that worker `member` runs; a chunk is a part of a kernel
// launch. The launch is divided into about equal numbers of units (iterations of the outermost loop
// of the kernel), not of chunks. The reason is that some chunks have fewer units than others.
static int64_t first_chunk(const BoundKernel *b, int64_t member, int64_t members) {
  int64_t unit = b->units / members * member + b->units % members * member / members;
  for (uint32_t s = 0; s < b->nsets; s++) {
    const BoundSet *set = &b->set[s];
    if (unit < set->units) return set->first + ceil_div(unit, b->grain);
    unit -= set->units;
  }
  return b->chunks;
}

// Calls a function of e->probe if e->probe is set and instruction i is a kernel of the first
// processor of this process. With `before` this is the function for a kernel that is about to run,
// otherwise the one for a kernel that has run.
static void probe(const Exec *e, int64_t context, uint32_t i, int worker, const LoopSteps *steps,
                  bool before) {
  const BoundInstr *b = bound_instr(e, context, i, steps);
  if (!e->probe || context != e->first || b->kind != INSTR_KERNEL || b->u.kernel.units == 0) return;
  const KernelLaunch *launch = &e->program->instr[i].u.kernel;
  KernelCall call = call_of(e, worker, &b->u.kernel, &b->u.kernel.set[0], steps, NULL);
  call.num = launch->set[0].num; // the correct numbers, without an injected fault
  if (before)
    e->probe->before(e->probe->self, launch->kernel, i, &call);
  else
    e->probe->after(e->probe->self, i);
}

// Returns what worker `member` of a context prefetches before instruction i.
static ThinAhead *find_ahead(const Exec *e, int64_t context, uint32_t i, int worker, int member,
                             int members) {
  const Context *c = &e->context[context];
  ThinAhead *a = &e->ahead[worker];
  uint32_t next = c->next_thin[i];
  if (next == a->instr) return a;
  *a = (ThinAhead){NULL, NULL, next};
  if (next == UINT32_MAX) return a;
  Product g = thin_gemm(&c->instr[next].u.gemm, &(LoopSteps){0});
  *a = thin_first(&g, member, members);
  a->instr = next;
  return a;
}

// Waits for the other workers of a context before instruction i, or after the one before it. A
// worker that waits prefetches what it reads first in the next thin product: memory would be idle.
static void wait_members(const Exec *e, int64_t context, uint32_t i, int worker, int member,
                         int members) {
  Barrier *meet = e->of_context[context];
  if (!e->context[context].next_thin) {
    barrier_wait(meet);
    return;
  }
  ThinAhead *kept = find_ahead(e, context, i, worker, member, members), own = *kept;
  barrier_wait_working(meet, thin_prefetch, &own);
  if (own.at != kept->at) kept->at = own.at;
}

// Runs the share of one worker of instruction i, a thin product. It has two halves where rows of B
// are lines of memory. The workers meet between them.
static void run_thin(const Exec *e, int64_t context, uint32_t i, int worker, int member,
                     int members, const LoopSteps *steps) {
  Product g = thin_gemm(&bound_instr(e, context, i, steps)->u.gemm, steps);
  ThinTurn *turn = &e->turn[context - e->first];
  float *part = (float *)(void *)(e->thin + (context - e->first) * e->thin_bytes);
  if (g.tb) {
    thin_columns(&g, turn, member, members);
    return;
  }
  thin_lines(&g, part, turn, member, members);
  if (members > 1) wait_members(e, context, i + 1, worker, member, members);
  thin_sum(&g, part, member, members);
}

// Runs the share of one worker of a GEMM. A worker that runs the step alone computes the shares of
// all that would share the context, if results depend on the sizes of shares.
static void run_shares(const Exec *e, int64_t context, uint32_t i, int worker, int member,
                       int members, const LoopSteps *steps) {
  const BoundInstr *b = bound_instr(e, context, i, steps);
  if (b->u.gemm.thin) {
    run_thin(e, context, i, worker, member, members, steps);
    return;
  }
  bool others = e->crew == 1 && !b->solo && product_is_blas(b->u.gemm.way);
  int all = others ? sharers_of(e, context) : members;
  for (int m = 0; m < all; m++)
    if (all != members || m == member) run_gemm(&b->u.gemm, scratch_of(e, worker), m, all, steps);
}

static void run_instr(Exec *e, int64_t context, uint32_t i, int worker, int member, int members,
                      const LoopSteps *steps) {
  const BoundInstr *b = bound_instr(e, context, i, steps);
  if (b->kind == INSTR_GEMM) run_shares(e, context, i, worker, member, members, steps);
  if (b->kind == INSTR_FILL || b->kind == INSTR_COPY) run_copy(b, member, members, steps);
  if (b->kind == INSTR_ORDERED) run_ordered(e, &b->u.ordered, worker, member, members, steps);
  if (b->kind == INSTR_MATRIX) run_matrix(e, &b->u.matrix, worker, member, members, steps);
  if (b->kind != INSTR_KERNEL) return;
  const BoundKernel *k = &b->u.kernel;
  int64_t at = k->rank * members + member, of = k->sharers * members;
  run_chunks(e, context, i, worker, first_chunk(k, at, of), first_chunk(k, at + 1, of), steps);
}

// -- loops --------------------------------------------------------------------------------------

// Begins the first iteration of the loop at instruction i. Returns false if the loop has no
// iterations.
static bool loop_enter(const Exec *e, const BoundInstr *b, uint32_t i, LoopSteps *s) {
  if (b->u.loop.count == 0 || (b->u.loop.guard && !*b->u.loop.guard)) return false;
  s->at[s->depth++] = e->program->instr[i].u.loop.reverse ? b->u.loop.count - 1 : 0;
  return true;
}

// Advances the loop whose first instruction has index `begin` to its next iteration. Returns false
// after the last iteration.
static bool loop_next(const Exec *e, const BoundInstr *b, uint32_t begin, LoopSteps *s) {
  int64_t *at = &s->at[s->depth - 1];
  *at += e->program->instr[begin].u.loop.reverse ? -1 : 1;
  bool goes_on = !b->u.loop.guard || *b->u.loop.guard;
  if (goes_on && *at >= 0 && *at < b->u.loop.count) return true;
  s->depth--;
  return false;
}

uint32_t exec_loop_pass(const Exec *e, const BoundInstr *b, uint32_t i, LoopSteps *s) {
  const Instr *in = &e->program->instr[i];
  if (b->kind == INSTR_LOOP) return loop_enter(e, b, i, s) ? i + 1 : in->u.loop.end + 1;
  return loop_next(e, b, in->u.end.begin, s) ? in->u.end.begin + 1 : i + 1;
}

// If the profile is on and `worker` is 0, adds the seconds since the previous call to the time of
// instruction i.
static void profile_stamp(Exec *e, uint32_t i, int worker) {
  if (!e->timed || worker != 0) return;
  double t = clock_seconds();
  e->seconds[i] += t - e->stamp;
  e->stamp = t;
}

static double trace_start(const Exec *e) { return e->trace ? clock_seconds() : 0; }

static void trace_end(const Exec *e, int64_t context, uint32_t i, int worker, double began) {
  if (e->trace) trace_add(e->trace, worker, e->context[context].processor, i, e->step, 0, began);
}

// -- instructions between two meetings of all workers -------------------------------------------

// Returns whether the partial results of the chunks of b are combined, and whether several
// processors divide these chunks.
static bool combines(const BoundInstr *b) {
  return b->kind == INSTR_KERNEL && b->u.kernel.kernel->combine;
}
static bool is_divided(const BoundInstr *b) { return b->u.kernel.sharers > 1; }

static void run_alone(Exec *e, int64_t context, uint32_t i, int worker, const LoopSteps *steps) {
  const BoundInstr *b = bound_instr(e, context, i, steps);
  probe(e, context, i, worker, steps, true);
  run_instr(e, context, i, worker, 0, 1, steps);
  if (combines(b) && !is_divided(b)) combine_chunks(e, context, i, worker, steps);
  probe(e, context, i, worker, steps, false);
}

// Runs rows lo..hi-1 of a kernel in a loop with rows.
static void run_rows(Exec *e, int64_t context, uint32_t i, int worker, int64_t lo, int64_t hi,
                     const LoopSteps *steps) {
  const BoundKernel *b = &bound_instr(e, context, i, steps)->u.kernel;
  Status status = {0};
  KernelCall call = call_of(e, worker, b, &b->set[0], steps, &status);
  int64_t strip = b->units / b->strips;
  for (int64_t s = 0; s < b->strips; s++)
    b->kernel->run(&call, s * strip + lo * b->row_units, s * strip + hi * b->row_units);
  exec_note_fault(e, context, worker, i, &status, steps);
}

// Returns whether the members of a context run the loop of instruction b apart, each for its rows.
static bool runs_by_rows(const Exec *e, const BoundInstr *b, int members) {
  return b->kind == INSTR_LOOP && members > 1 && b->u.loop.rows > 0 &&
         b->u.loop.rows >= b->u.loop.least * members && !e->probe && !e->nonfinite;
}

// Runs all rounds of the loop at instruction `begin` for the rows of one member.
static void run_loop_rows(Exec *e, int64_t context, uint32_t begin, int worker, Seat s,
                          LoopSteps *steps) {
  const BoundInstr *instr = e->context[context].instr;
  uint32_t end = e->program->instr[begin].u.loop.end;
  int64_t rows = instr[begin].u.loop.rows;
  int64_t lo = rows * s.member / s.members, hi = rows * (s.member + 1) / s.members;
  uint32_t i = exec_loop_pass(e, &instr[begin], begin, steps);
  while (i <= end) {
    if (i == end) {
      i = exec_loop_pass(e, &instr[i], i, steps);
      continue;
    }
    double began = trace_start(e);
    run_rows(e, context, i, worker, lo, hi, steps);
    if (s.member == 0) trace_end(e, context, i, worker, began);
    profile_stamp(e, i, worker);
    i++;
  }
}

// Returns whether a byte in memory decides whether the loop of instruction b, its begin or end,
// goes on.
static bool is_guarded(const BoundInstr *b) {
  return (b->kind == INSTR_LOOP || b->kind == INSTR_END) && b->u.loop.guard;
}

// Passes the begin or end of a loop, bound as b, in a segment. Returns the index of the next
// instruction. If the loop is `solo`, member 0 runs it alone.
static uint32_t pass_loop(const Exec *e, int64_t context, const BoundInstr *b, uint32_t i, Seat s,
                          LoopSteps *steps) {
  if (b->kind == INSTR_LOOP && b->u.loop.solo && s.member > 0)
    return e->program->instr[i].u.loop.end + 1;
  // Member 0 may have computed the guard alone, and its memory may be used again once it is read.
  bool guarded = is_guarded(b) && !b->u.loop.solo && s.members > 1;
  if (guarded) barrier_wait(e->of_context[context]);
  uint32_t next = exec_loop_pass(e, b, i, steps);
  if (guarded) barrier_wait(e->of_context[context]);
  return next;
}

// Runs the share of one member of an instruction that all members of a context divide. They meet
// after it and, if member 0 may have run something alone (`apart`), before it. Returns whether
// member 0 runs something alone after that.
static bool run_together(Exec *e, int64_t context, uint32_t i, int worker, Seat s, bool apart,
                         const LoopSteps *steps) {
  const BoundInstr *b = bound_instr(e, context, i, steps);
  if (s.member == 0) probe(e, context, i, worker, steps, true);
  if (apart || e->probe) wait_members(e, context, i, worker, s.member, s.members);
  run_instr(e, context, i, worker, s.member, s.members, steps);
  wait_members(e, context, i + 1, worker, s.member, s.members);
  bool alone = combines(b) && !is_divided(b);
  if (alone && s.member == 0) combine_chunks(e, context, i, worker, steps);
  if (s.member == 0) probe(e, context, i, worker, steps, false);
  return alone || e->probe;
}

// Runs instructions lo..hi-1, and the loops in them, for one context (a processor of the mesh).
// None of these instructions needs a meeting of all workers (threads). If several workers share the
// context, member 0 of them runs instructions marked `solo` alone. Each other instruction is
// divided among them, and they meet before and after it.
static void run_segment(Exec *e, int64_t context, uint32_t lo, uint32_t hi, int worker, Seat s,
                        LoopSteps *steps) {
  // true: member 0 may have run instructions alone since the last meeting, so the workers must meet
  // before the next instruction that is divided among them
  bool apart = false;
  for (uint32_t i = lo; i < hi; i++) {
    const BoundInstr *b = bound_instr(e, context, i, steps);
    if (runs_by_rows(e, b, s.members)) {
      if (apart) barrier_wait(e->of_context[context]);
      run_loop_rows(e, context, i, worker, s, steps);
      barrier_wait(e->of_context[context]);
      i = e->program->instr[i].u.loop.end;
      profile_stamp(e, i, worker);
      apart = false;
      continue;
    }
    if (b->kind == INSTR_LOOP || b->kind == INSTR_END) {
      apart = apart || b->u.loop.solo;
      i = pass_loop(e, context, b, i, s, steps) - 1;
      continue;
    }
    double began = trace_start(e);
    bool alone = s.members == 1 || b->solo;
    if (alone && s.member == 0) run_alone(e, context, i, worker, steps);
    apart = alone || run_together(e, context, i, worker, s, apart, steps);
    if (s.member == 0) trace_end(e, context, i, worker, began);
    if (alone && e->nonfinite) e->look(e, context, i, steps);
    profile_stamp(e, i, worker);
  }
}

// -- running a step -----------------------------------------------------------------------------

static bool is_faulty(const Exec *e) {
  for (int64_t i = 0; i < e->processors * e->workers; i++)
    if (e->fault[i].status.code != 0) return true;
  return false;
}

static bool is_finite(const Exec *e) {
  if (e->finite_tensor < 0) return true;
  const ProgTensor *t = &e->program->tensor[e->finite_tensor];
  if (!exec_fetch(e, (uint32_t)e->finite_tensor)) return true; // the device says why
  for (int64_t r = e->first; r < e->first + e->own; r++)
    if (!isfinite(dtype_load(t->type, e->context[r].tensor[e->finite_tensor]))) return false;
  return true;
}

// The first fault that a rank (process) has seen in a step. Ranks send it to each other in the note
// of the step (RankNote.data).
typedef struct FaultNote {
  int64_t context;
  StepFault fault;
} FaultNote;
_Static_assert(sizeof(FaultNote) <= NOTE_DATA, "a fault fits a note");

static void take_fault(Exec *e, const FaultNote *t) {
  StepFault *f = &e->fault[t->context * e->workers];
  if (t->fault.status.code && t->context >= 0 && t->context < e->processors && f->status.code == 0)
    *f = t->fault;
}

bool exec_stop_requested(const Exec *e) { return e->stop_request && *e->stop_request; }

void exec_vote(Exec *e) {
  enum { ASKED = 256 };
  RankNote mine = {.what = NOTE_STEP,
                   .sequence = e->sequence,
                   .value = e->result + (exec_stop_requested(e) ? ASKED : 0)};
  FaultNote told = {0};
  const RankNote *const *all;
  const StepFault *f = exec_first_fault(e);
  if (f) told = (FaultNote){(f - e->fault) / e->workers, *f};
  memcpy(mine.data, &told, sizeof told);
  if (!ranks_meet(e->ranks, &mine, false, &all)) {
    e->result = STEP_FAILED;
    return;
  }
  for (int i = 0; i < ranks_count(e->ranks); i++) {
    memcpy(&told, all[i]->data, sizeof told);
    take_fault(e, &told);
    StepResult theirs = (StepResult)(all[i]->value % ASKED);
    e->asked = e->asked || all[i]->value >= ASKED;
    if (theirs != STEP_OK && (e->result == STEP_OK || theirs < e->result)) e->result = theirs;
  }
}

// Sets e->result, the result of a step, from the faults of all processors and from the value of the
// output that must be finite. A device may have judged the step itself.
static void judge(Exec *e) {
  if (e->result != STEP_OK || (e->device && e->judged)) return;
  if (is_faulty(e))
    e->result = STEP_BAD_INDEX;
  else if (!is_finite(e))
    e->result = STEP_NOT_FINITE;
  if (e->ranks && !e->judged && !e->alone) exec_vote(e);
  e->judged = true;
}

void exec_decide(Exec *e) {
  e->stop = e->result != STEP_OK || !e->commit;
  e->judged = true;
}

static bool all_meet(const Exec *e, uint32_t i) {
  const BoundInstr *b = &e->context[e->first].instr[i];
  if (b->kind == INSTR_LOOP || b->kind == INSTR_END) return b->u.loop.meets;
  return b->kind == INSTR_COLLECTIVE || b->kind == INSTR_COMMIT ||
         (b->kind == INSTR_KERNEL && b->u.kernel.meets);
}

static void wait_all(Exec *e) {
  if (e->crew > 1) barrier_wait(e->all);
}

// Runs instruction i, a collective or the COMMIT, at which all workers (threads) meet. Returns
// false if the step ends here. In loops, member 0 of each context (processor) first sets the
// addresses of the operands. No other worker reads these addresses meanwhile: all workers have left
// the previous collective, and none has passed the first barrier of this collective.
static bool meet(Exec *e, uint32_t i, int worker, Seat s, const LoopSteps *steps) {
  const Instr *in = &e->program->instr[i];
  for (int64_t c = s.first; c < s.last && steps->depth && s.member == 0; c++)
    exec_move_operands(e, c, i, steps);
  for (int64_t c = 0; c < e->processors && steps->depth && worker == 0; c++)
    if (!exec_is_own(e, c)) exec_move_operands(e, c, i, steps);
  if (in->kind == INSTR_COLLECTIVE && worker == 0) {
    e->call[i].sequence = e->sequence++;
    e->call[i].defers = e->defers && !e->nonfinite;
  }
  wait_all(e);
  if (in->kind == INSTR_COMMIT) {
    if (worker == 0) judge(e), exec_decide(e);
    wait_all(e);
    return !e->stop;
  }
  bool ok = comm_run(e->comm, &e->call[i], worker, e->crew);
  if (!ok && worker == 0) e->result = STEP_FAILED;
  wait_all(e);
  if (e->inject.call >= 0 && !e->inject.kernel) {
    if (worker == 0 && ok) exec_inject(e, i);
    wait_all(e);
  }
  return e->result != STEP_FAILED;
}

// Waits for all workers (threads) of all ranks (processes) of this machine. Returns false if the
// step ends here.
static bool wait_machine(Exec *e, int worker) {
  wait_all(e);
  if (!e->ranks) return true;
  if (worker == 0 && !ranks_meet_local(e->ranks, false)) e->result = STEP_FAILED;
  wait_all(e);
  return e->result != STEP_FAILED;
}

// Runs kernel launch i, in which processors divide sets, or the chunks of all sets. The operands
// that they share are complete before the launch, and nobody reads the results before all
// processors have run their parts. `met`: all have just met.
static bool run_divided(Exec *e, uint32_t i, int worker, Seat s, bool met, LoopSteps *steps) {
  if (!met && !wait_machine(e, worker)) return false;
  for (int64_t c = s.first; c < s.last; c++) run_segment(e, c, i, i + 1, worker, s, steps);
  if (!wait_machine(e, worker)) return false;
  const BoundInstr *b = &e->context[s.first].instr[i];
  if (!combines(b) || !is_divided(b)) return true;
  for (int64_t c = s.first; c < s.last; c++)
    if (e->context[c].instr[i].u.kernel.rank == 0 && s.member == 0)
      combine_chunks(e, c, i, worker, steps);
  return wait_machine(e, worker);
}

// Passes the begin or end of a loop with meetings of all workers. Returns the index of the next
// instruction.
static uint32_t pass_meeting_loop(const Exec *e, uint32_t i, Seat s, LoopSteps *steps) {
  // of the worker's own context, whose guards it has waited for
  const BoundInstr *b = &e->context[s.first].instr[i];
  // Member 0 may have run the last instructions before the loop, or of a round, alone.
  bool shared = s.members > 1;
  if (shared) barrier_wait(e->of_context[s.first]);
  uint32_t next = exec_loop_pass(e, b, i, steps);
  if (shared && is_guarded(b)) barrier_wait(e->of_context[s.first]);
  return next;
}

// Runs instruction i, at which all workers meet, and records it. Returns false if the step ends.
static bool run_meeting(Exec *e, uint32_t i, int worker, Seat s, const LoopSteps *steps) {
  double began = trace_start(e);
  bool goes_on = meet(e, i, worker, s, steps);
  bool looks = e->nonfinite && goes_on && e->program->instr[i].kind == INSTR_COLLECTIVE;
  for (int64_t c = s.first; c < s.last; c++) {
    if (e->trace && s.member == 0)
      trace_add(e->trace, worker, e->context[c].processor, i, e->step, e->call[i].sequence, began);
    if (looks) e->look(e, c, i, steps);
  }
  profile_stamp(e, i, worker);
  return goes_on;
}

static void run_worker(void *exec, int worker) {
  Exec *e = exec;
  Seat s = exec_seat(e, worker, e->crew);
  uint32_t n = e->program->ninstrs, i = 0;
  LoopSteps steps = {0};
  bool met = false; // the instruction before instruction i was a meeting of all
  if (e->timed && worker == 0) e->stamp = clock_seconds();
  for (;;) {
    uint32_t end = i;
    while (end < n && !all_meet(e, end)) end++;
    for (int64_t c = s.first; c < s.last; c++) run_segment(e, c, i, end, worker, s, &steps);
    if (end == n) return;
    InstrKind kind = e->program->instr[end].kind;
    if (kind == INSTR_LOOP || kind == INSTR_END) {
      i = pass_meeting_loop(e, end, s, &steps);
      met = false;
      continue;
    }
    bool goes_on = kind == INSTR_KERNEL ? run_divided(e, end, worker, s, met && end == i, &steps)
                                        : run_meeting(e, end, worker, s, &steps);
    if (!goes_on) return;
    i = end + 1;
    met = true;
  }
}

// Chooses e->crew, the number of workers (threads) that run a step: all, or one. If no instruction
// is divided among workers (e->small), one worker runs the steps of one processor. Otherwise the
// faster choice is measured (crew.h). The choice does not affect results. Where results of single
// instructions are looked at, one worker runs the step.
static void choose_crew(Exec *e) {
  bool alone = e->alone || (e->small && e->own == 1) || e->probe || e->nonfinite;
  e->crew = alone || crew_is_one(&e->choice) ? 1 : e->workers;
}

static void run_crew(Exec *e) {
  choose_crew(e);
  double began = clock_seconds();
  if (e->crew == 1)
    run_worker(e, 0);
  else
    team_run(e->team, run_worker, e);
  if (e->workers > 1 && !e->probe && !e->nonfinite && !e->alone)
    crew_note(&e->choice, clock_seconds() - began);
}

void exec_step_begins(Exec *e, int64_t step, bool commit) {
  e->step = step;
  e->commit = commit;
  e->judged = e->stop = false;
  e->result = STEP_OK;
  memset(e->fault, 0, sizeof *e->fault * (size_t)(e->processors * e->workers));
}

int exec_ahead(const Exec *e) { return e->device ? e->device->ahead(e->work_on_device) : 1; }

void exec_start(Exec *e, int64_t step, bool commit) {
  exec_step_begins(e, step, commit);
  e->under_way = true;
  if (!e->device)
    run_crew(e);
  else if (!e->device->start(e->work_on_device))
    e->result = STEP_FAILED;
  e->under_way = false;
}

StepResult exec_finish(Exec *e) {
  e->under_way = true;
  if (e->device && !e->device->finish(e->work_on_device)) e->result = STEP_FAILED;
  e->under_way = false;
  e->steps++;
  exec_count_predicted(e);
  judge(e);
  return e->result;
}

StepResult exec_step(Exec *e, int64_t step, bool commit) {
  exec_start(e, step, commit);
  return exec_finish(e);
}
