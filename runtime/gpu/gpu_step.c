// Runs the steps of an Exec on the GPU, without waiting for one before the next is started.
//
//   start    the inputs are copied to the GPU in a stream of their own; the operations of the step
//            are put into the main stream as graphs, and an event behind them
//   finish   the host waits for the event and reads the slot of results
//
// The GPU itself decides whether a step is committed, and ends the steps behind one that is not
// (ir/program/gpu_step.h). GPUs of several ranks decide together, by a message within the step, and
// all ranks have the same steps under way: so a step that is not committed ends on all GPUs. Their
// hosts meet only after a fault, to find the first one. Where the GPU cannot leave out what is
// after the commit (StepPlan.halves), a step runs in two parts, and the host waits between them.
//
// There are no graphs, and operations are put into the stream one by one, if the environment has
// MESHC_GPU_EAGER, in steps that are timed (gpu_times.c), and in those whose values are looked at
// (Exec.nonfinite).
#include "runtime/gpu/gpu_internal.h"

#include "ir/base/philox.h"

#include <stdlib.h>
#include <string.h>

// -- courses that run one by one ----------------------------------------------------------------

static bool plain_round(DeviceWork *w, const StepPlan *p, uint32_t r, Course course) {
  for (uint32_t i = r ? p->round.at[r - 1].end : 0; i < p->round.at[r].end; i++)
    if (!gpu_enqueue(w, p, &p->op.at[i], course)) return false;
  return true;
}

// Puts an operation of instruction `instr` into its stream. Marks where the instruction begins and
// ends in the stream of messages (GPU_FORK, GPU_DONE), and where the main stream waits for that one
// (GPU_JOIN), so that the wait counts for no instruction.
static bool timed_op(DeviceWork *w, const StepPlan *p, const GpuOp *op, uint32_t instr,
                     Course course) {
  const Gpu *g = w->code->gpu;
  bool good = true;
  if (!w->alone && op->kind == GPU_DONE) good = gpu_times_mark(w, g->beside, UINT32_MAX, NULL);
  if (!w->alone && op->kind == GPU_JOIN) good = gpu_times_mark(w, g->stream, UINT32_MAX, NULL);
  good = good && gpu_enqueue(w, p, op, course);
  if (!w->alone && op->kind == GPU_FORK) good = good && gpu_times_mark(w, g->beside, instr, NULL);
  return good;
}

// Runs a round, and marks where it begins in the main stream. A collective in the stream of
// messages has nothing there that is timed.
static bool timed_round(DeviceWork *w, const StepPlan *p, uint32_t r, Course course) {
  uint32_t instr = p->round.at[r].instr, first = r ? p->round.at[r - 1].end : 0,
           end = p->round.at[r].end;
  bool beside = !w->alone && first < end && p->op.at[first].kind == GPU_FORK;
  const char *what = beside ? NULL : r == 0 ? "inputs" : "decision";
  if (!gpu_times_mark(w, w->code->gpu->stream, beside ? UINT32_MAX : instr, what)) return false;
  for (uint32_t i = first; i < end; i++)
    if (!timed_op(w, p, &p->op.at[i], instr, course)) return false;
  return true;
}

static bool is_instr(const GpuRound *round) { return round->instr != UINT32_MAX; }

// Runs a round, and lets the executor look at the values that it has computed (Exec.look).
static bool looked_round(DeviceWork *w, const StepPlan *p, uint32_t r, Course course) {
  Exec *e = w->exec;
  const GpuRound *round = &p->round.at[r];
  if (!plain_round(w, p, r, course) || !gpu_wait(w)) return false;
  if (!is_instr(round) || e->program->instr[round->instr].kind == INSTR_COMMIT) return true;
  for (int64_t c = e->first; c < e->first + e->own; c++) e->look(e, c, round->instr, &round->steps);
  return !diag_errors(w->diag);
}

static bool run_course(DeviceWork *w, StepPlan *p, Course course) {
  bool (*run_round)(DeviceWork *, const StepPlan *, uint32_t, Course) = w->exec->nonfinite
                                                                            ? looked_round
                                                                        : w->times.on ? timed_round
                                                                                      : plain_round;
  w->alone = w->exec->nonfinite || w->exec->timed;
  if (run_round == plain_round && !w->eager) return gpu_graph_run(w, p, course);
  for (uint32_t r = course_from(p, course); r < course_to(p, course); r++)
    if (!run_round(w, p, r, course)) return false;
  return gpu_times_mark(w, w->code->gpu->stream, UINT32_MAX, NULL) && gpu_times_end(w);
}

// -- starting a step ----------------------------------------------------------------------------

// Returns the plan for the rows of the batch, which is made when it is needed first. Returns NULL
// after an error.
static StepPlan *plan_for_rows(DeviceWork *w) {
  StepPlan *p = &w->plan[w->exec->rows >= 0];
  if (p->arena && p->rows == w->exec->rows && p->defers == gpu_plan_defers(w->exec)) return p;
  if (w->nflights > 0) BUG("a step is started behind others that had other rows");
  if (p->arena && !gpu_wait(w)) return NULL; // the second part of an earlier step may still read it
  gpu_plan_free(p);
  return gpu_plan_new(w, p) ? p : NULL;
}

// Makes the plan of the next step, if it is for other rows than those before it. New kinds of
// products keep the library's first proposals: algorithms are measured before the first step only.
static StepPlan *plan_for_step(DeviceWork *w) {
  StepPlan *p = plan_for_rows(w);
  gpu_products_settle(w->code->gpu->products);
  return p;
}

// Enqueues the copy of the header that launches read, unless the judge of the step before leaves it
// as this step needs it. `whole`: the judge of this step will advance GpuHeader.step.
static bool set_header(DeviceWork *w, bool whole) {
  const Exec *e = w->exec;
  GpuHeader wanted = {
      .step = e->step, .seed = philox_seed(e->seed), .go = 1, .sequence = w->sequence};
  bool same = memcmp(&wanted, &w->expected, sizeof wanted) == 0;
  w->expected = wanted;
  w->expected.step += whole;
  w->expected.sequence++;
  if (same) return true;
  if (w->nflights > 0) BUG("a step is started behind others that it does not follow");
  *w->given = wanted;
  return gpu_copy_up(w, w->header, w->given, sizeof wanted);
}

// Puts the inputs and a course of the next step into the streams, and notes the step as the last
// one under way. Returns false after an error.
static bool take_off(DeviceWork *w, StepPlan *p, Course course) {
  const Exec *e = w->exec;
  Flight f = {.step = e->step, .sequence = w->sequence, .commit = e->commit, .plan = p};
  CudaEvent done = w->done[f.sequence % GPU_SLOTS];
  if (w->nflights == GPU_SLOTS) BUG("too many steps are under way");
  gpu_results_prepare(w);
  if (w->code->gpu->comms) gpu_comms_advance(w->code->gpu->comms);
  if (!set_header(w, course == COURSE_WHOLE) || !gpu_inputs_send(w) || !run_course(w, p, course) ||
      !cuda_good(cuda.EventRecord(done, w->code->gpu->stream), "cuEventRecord", w->diag))
    return false;
  w->flight[w->nflights++] = f;
  w->sequence++;
  gpu_changed(w, TENSOR_OUTPUT, TENSOR_OUTPUT);
  if (course == COURSE_WHOLE) gpu_changed(w, TENSOR_PARAM, TENSOR_SLOT);
  return true;
}

// -- finishing a step ---------------------------------------------------------------------------

// Adds what the collectives of a part of the step have sent to the counters of the Exec. part:
// index in StepPlan.count.
static void count_sent(const DeviceWork *w, const StepPlan *p, int part) {
  CommCount *all = &w->exec->comm->count;
  const CommCount *more = &p->count[part];
  for (int k = 0; k < COLL_COUNT; k++) {
    all->calls[k] += more->calls[k];
    all->bytes[k] += more->bytes[k];
    all->wire_bytes[k] += more->wire_bytes[k];
  }
}

// Returns the number of calls of collectives in a part of a step. part: as for count_sent.
static int64_t calls_of(const StepPlan *p, int part) {
  int64_t n = 0;
  for (int k = 0; k < COLL_COUNT; k++) n += p->count[part].calls[k];
  return n;
}

// Counts the collectives of a step that is about to start, as the CPU does when it calls them. If
// one of them is that of an injected signal (--fault kill, stop), the rank ends or stops here.
static void count_calls(DeviceWork *w, const StepPlan *p) {
  Exec *e = w->exec;
  int64_t n = calls_of(p, 0) + (e->commit ? calls_of(p, 1) : 0);
  if (e->ranks) ranks_signal(e->ranks, (int64_t)e->sequence, n);
  e->sequence += (uint64_t)n;
}

// Takes back what count_calls has counted of a step that was not good, and of those behind it. The
// CPU does not call these collectives.
static void discount_calls(DeviceWork *w, const Flight *bad) {
  int64_t n = bad->commit ? calls_of(bad->plan, 1) : 0;
  for (int i = 0; i < w->nflights; i++)
    n += calls_of(w->flight[i].plan, 0) + calls_of(w->flight[i].plan, 1);
  w->exec->sequence -= (uint64_t)n;
}

// Waits for the steps behind one that was not good, and forgets them: they have changed nothing.
static bool recall(DeviceWork *w, const Flight *bad) {
  discount_calls(w, bad);
  w->nflights = 0;
  w->expected.go = 0; // the header must be set again
  return gpu_wait(w);
}

// Waits for the end of a step. Where ranks wait for one another, that must end if one is lost.
static bool wait_for(DeviceWork *w, const Flight *f) {
  const Gpu *g = w->code->gpu;
  CudaEvent done = w->done[f->sequence % GPU_SLOTS];
  if (g->comms)
    return gpu_comms_wait_event(g->comms, done, "the end of a step (cuEventQuery)", w->diag);
  return cuda_good(cuda.EventSynchronize(done), "the end of a step (cuEventSynchronize)", w->diag);
}

// Takes over the faults of a step that was not good because of them. Only the ranks on whose GPUs
// they were have them: so all ranks, which know of the verdict, meet and tell one another.
static bool find_faults(DeviceWork *w, const Flight *f) {
  Exec *e = w->exec;
  if (!gpu_results_faults(w, f->plan)) return false;
  if (e->ranks) exec_vote(e);
  return e->result != STEP_FAILED;
}

// Waits for the first step under way and takes its results over. Returns false after an error.
static bool land(DeviceWork *w, Flight *f) {
  Exec *e = w->exec;
  static const StepResult results[] = {[GPU_STEP_GOOD] = STEP_OK,
                                       [GPU_STEP_NOT_FINITE] = STEP_NOT_FINITE,
                                       [GPU_STEP_FAULTY] = STEP_BAD_INDEX};
  *f = w->flight[0];
  memmove(w->flight, w->flight + 1, (size_t)--w->nflights * sizeof *f);
  exec_step_begins(e, f->step, f->commit);
  if (!wait_for(w, f)) return false;
  GpuVerdict verdict = gpu_results_take(w, f);
  if (verdict == GPU_STEP_HALTED) BUG("a step was halted behind one that was good");
  count_sent(w, f->plan, 0);
  e->result = results[verdict];
  return verdict == GPU_STEP_GOOD ||
         (recall(w, f) && (verdict != GPU_STEP_FAULTY || find_faults(w, f)));
}

// -- the functions of the device ----------------------------------------------------------------

// Runs a step in two parts, between which the host leaves out the second one if the step is not
// good.
static bool run_halves(DeviceWork *w, StepPlan *p) {
  Exec *e = w->exec;
  Flight f;
  if (!take_off(w, p, COURSE_FIRST) || !land(w, &f)) return false;
  exec_decide(e);
  if (e->stop || p->commit == p->round.n) return true;
  count_sent(w, p, 1);
  gpu_changed(w, TENSOR_PARAM, TENSOR_SLOT);
  return run_course(w, p, COURSE_SECOND);
}

static bool begin_call(const DeviceWork *w) {
  return !diag_errors(w->diag) && gpu_use(w->code->gpu, w->diag);
}

// Scalars that are fetched are those of the last step that was started: so no other step may be
// under way where there are any.
int gpu_ahead(const DeviceWork *w) { return w->plan[0].halves || w->fetches ? 1 : GPU_SLOTS; }

bool gpu_start(DeviceWork *w) {
  if (!begin_call(w)) return false;
  StepPlan *p = plan_for_step(w);
  if (!p || !gpu_upload(w) || !gpu_times_begin(w)) return false;
  count_calls(w, p);
  if (p->halves) return run_halves(w, p);
  return take_off(w, p, w->exec->commit ? COURSE_WHOLE : COURSE_FIRST);
}

bool gpu_finish(DeviceWork *w) {
  Exec *e = w->exec;
  Flight f;
  if (!begin_call(w)) return false;
  if (w->nflights == 0) return true; // a step in two parts has its result
  if (!land(w, &f)) return false;
  exec_decide(e);
  if (!e->stop) count_sent(w, f.plan, 1);
  return true;
}

static bool make_header(DeviceWork *w) {
  void *given;
  if (!cuda_good(cuda.MemHostAlloc(&given, sizeof *w->given, 0), "cuMemHostAlloc", w->diag))
    return false;
  w->given = given;
  return cuda_good(cuda.MemAlloc(&w->header, GPU_HEADER_BYTES), "cuMemAlloc", w->diag);
}

// Makes the communicators. NCCL takes memory for them, so this comes before gpu_memory_new compares
// what the program needs with what is left.
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
  w->of_diag = arena_new();
  w->diag = diag_new(w->of_diag);
  w->eager = eager && *eager && strcmp(eager, "0") != 0;
  w->next = w->code->gpu->works;
  w->code->gpu->works = w;
  gpu_results_list(w);
  gpu_inputs_list(w);
  if (gpu_use(w->code->gpu, w->diag) && make_comms(w) && gpu_memory_new(w) && make_header(w) &&
      gpu_results_new(w) && gpu_inputs_new(w) && plan_for_rows(w) &&
      gpu_tune(w->code->gpu, e->program, w->diag)) {
    arena_keep(w->arena);
    arena_keep(w->of_diag);
    return w;
  }
  gpu_why(w, d);
  gpu_end(w);
  return NULL;
}

// Ends all messages under way, which other ranks may not answer. NCCL waits there for the end of
// all graphs that have messages of its communicators, so the graphs of all Execs are freed before.
// A graph that is running is freed when it ends.
static void abort_messages(const Gpu *g) {
  for (DeviceWork *w = g->works; w && g->comms; w = w->next)
    for (int i = 0; i < PLANS; i++) gpu_graph_free(&w->plan[i]);
  gpu_comms_abort(g->comms);
}

static void forget(Gpu *g, const DeviceWork *w) {
  DeviceWork **at = &g->works;
  while (*at != w) at = &(*at)->next;
  *at = w->next;
}

void gpu_end(DeviceWork *w) {
  if (!w) return;
  (void)cuda.CtxSetCurrent(w->code->gpu->context);
  if (diag_errors(w->diag) || (w->exec->ranks && ranks_failed(w->exec->ranks)))
    abort_messages(w->code->gpu);
  forget(w->code->gpu, w);
  (void)cuda.StreamSynchronize(w->code->gpu->copies);
  (void)cuda.StreamSynchronize(w->code->gpu->stream);
  for (int i = 0; i < PLANS; i++) gpu_plan_free(&w->plan[i]);
  gpu_times_free(w);
  gpu_memory_free(w);
  gpu_inputs_free(w);
  gpu_results_free(w);
  if (w->header) (void)cuda.MemFree(w->header);
  if (w->given) (void)cuda.MemFreeHost(w->given);
  arena_free(w->arena);
  arena_free(w->of_diag);
  free(w);
}

void gpu_why(const DeviceWork *w, Diag *d) { diag_take(d, w->diag); }
