// Predicts how long one run of a program takes on a machine, from the machine's figures alone. In:
// a Program and its kernels, a Machine. Out: a Simulation.
//
// The instructions of one processor are walked in order with two clocks, one of its core and one of
// its link.
//
//   kernel       a launch, and the longer of its memory traffic and its operations
//   GEMM         2 (mnk + half (mn + nk + km)) operations at `flops`, traffic from l3 and memory, a
//                launch; the result is m by n, k is summed; `half` is the figure Machine.half
//                For GPUs the formulas of all instructions but collectives are in simulate_gpu.c
//   collective   coll_seconds on the link; if processors share memory, a barrier and memory traffic
//
// If the machine has no `overlap`, the core waits for every collective. Otherwise a collective
// begins when its operands and the link are free. The first instruction that touches its
// destination or writes its source waits until the collective ends:
//
//   core  | k1 |-- k2 --|  k3 waits ..|k3 |        seconds = compute + time waited
//   link       |=== all_reduce ======|             hidden  = transfer - time waited
//
// P processors on C cores: each core runs ceil(P / C) of them one after the other, or C / P cores
// share one processor.
//
// simulate_access.c decides which cache serves an access. The program is walked twice, and the
// times of the second walk count, because a step finds the caches as the step before has left them.
// Of each loop two rounds are walked; all further rounds take as long as the second.
#include <math.h>
#include <string.h>

#include "codegen/simulate/simulate_internal.h"

const char *const limit_texts[] = {[LIMIT_NONE] = "none",
                                   [LIMIT_BYTES] = "bytes",
                                   [LIMIT_OPERATIONS] = "operations",
                                   [LIMIT_LATENCY] = "latency"};

// -- two clocks ---------------------------------------------------------------------------------

static MemoryRange range_of(const Sim *s, const Access *a) {
  int64_t at = sim_offset(s, a->at);
  return (MemoryRange){a->at.tensor, at, at + a->span};
}

static bool overlap(const MemoryRange *a, const MemoryRange *b) {
  return a->tensor == b->tensor && a->first < b->end && b->first < a->end;
}

// Returns the earliest time, not before `now`, at which access `a` is possible. Then no collective
// writes the memory of `a` and, if `a` is a write, none reads that memory.
static double free_at(const Sim *s, const Access *a, double now) {
  MemoryRange r = range_of(s, a);
  for (uint32_t i = 0; i < s->pending.n; i++) {
    const Pending *p = &s->pending.at[i];
    if (p->end > now && (overlap(&r, &p->to) || (a->writes && overlap(&r, &p->from)))) now = p->end;
  }
  return now;
}

// Returns the time at which all accesses of the current instruction are possible. A commit, which
// makes new values of persistent tensors valid, waits for all collectives.
static double operands_free(const Sim *s, const Instr *in) {
  double now = s->t.now;
  if (in->kind == INSTR_COMMIT && s->t.link > now) now = s->t.link;
  for (uint32_t i = 0; i < s->access.n; i++) now = free_at(s, &s->access.at[i], now);
  return now;
}

// Removes from s->pending the collectives that have ended by now (s->t.now).
static void retire(Sim *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->pending.n; i++)
    if (s->pending.at[i].end > s->t.now) s->pending.at[n++] = s->pending.at[i];
  s->pending.n = n;
}

static void wait_until(Sim *s, double t) {
  if (t <= s->t.now) return;
  s->t.waited += t - s->t.now;
  s->t.now = t;
  retire(s);
}

// Runs a collective that takes `seconds` seconds on the link, the connection between processors. It
// starts at time `ready` or when the link is free, whichever is later. Without overlap of transfer
// and computation the core waits these seconds. s->access has pairs: source and destination of each
// tensor.
static void run_collective(Sim *s, double ready, double seconds) {
  s->t.transfer += seconds;
  if (s->m->overlap < 1) {
    s->t.waited += seconds;
    s->t.now += seconds;
    return;
  }
  double start = ready > s->t.link ? ready : s->t.link;
  s->t.link = start + seconds;
  for (uint32_t i = 0; i < s->access.n; i += 2)
    vec_push(s->a, s->pending) =
        (Pending){s->t.link, range_of(s, &s->access.at[i]), range_of(s, &s->access.at[i + 1])};
}

static Limit limit_of(const SimParts *p) {
  double most = fmax(p->operations, fmax(p->bytes, p->latency));
  if (most <= 0) return LIMIT_NONE;
  if (p->latency >= most) return LIMIT_LATENCY;
  return p->bytes >= most ? LIMIT_BYTES : LIMIT_OPERATIONS;
}

static void run_instr(Sim *s, uint32_t i) {
  const Instr *in = &s->p->instr[i];
  s->instr = i;
  double seconds = sim_seconds(s, in), ready = operands_free(s, in);
  s->of[i] += seconds;
  s->limit[i] = (uint8_t)limit_of(&s->parts);
  if (in->kind == INSTR_COLLECTIVE) {
    run_collective(s, ready, seconds);
    return;
  }
  wait_until(s, ready);
  s->t.now += seconds;
  s->t.compute += seconds;
}

// -- loops --------------------------------------------------------------------------------------

static void run_range(Sim *s, uint32_t lo, uint32_t hi);

// Advances all clocks by `times` times the time of the last iteration of a loop, without simulating
// the iteration again. `before` has the clocks at the start of that iteration.
static void repeat_round(Sim *s, const Clocks *before, double times) {
  // After each round the link is ahead of the core by the same time.
  double link = s->t.link - s->t.now;
  for (uint32_t i = 0; i < s->pending.n; i++)
    s->pending.at[i].end += times * (s->t.now - before->now);
  s->t.now += times * (s->t.now - before->now);
  s->t.link = s->t.now + link;
  s->t.compute += times * (s->t.compute - before->compute);
  s->t.transfer += times * (s->t.transfer - before->transfer);
  s->t.waited += times * (s->t.waited - before->waited);
}

static void run_loop(Sim *s, uint32_t begin) {
  const Instr *in = &s->p->instr[begin];
  uint32_t end = in->u.loop.end;
  int64_t count = (int64_t)sim_size(s, in->u.loop.count);
  double *before = arena_array(s->a, double, end - begin + 1);
  if (s->depth == LOOP_DEPTH) BUG("loops nest deeper than %d", (int)LOOP_DEPTH);
  int depth = s->depth++;
  for (int64_t t = 0; t < count && t < 2; t++) {
    Clocks c = s->t;
    s->at[depth] = in->u.loop.reverse ? count - 1 - t : t;
    memcpy(before, &s->of[begin], (end - begin + 1) * sizeof *before);
    run_range(s, begin + 1, end);
    if (t == 0) continue;
    double times = (double)(count - 2);
    repeat_round(s, &c, times);
    for (uint32_t i = begin; i <= end; i++) s->of[i] += times * (s->of[i] - before[i - begin]);
  }
  s->depth--;
}

// -- loops of which one runs --------------------------------------------------------------------

// What a guarded loop has added to the clocks and to the times of its instructions.
typedef struct Added {
  Clocks t;
  double *of; // by instruction of the loop
} Added;

static void add_clocks(Clocks *t, const Clocks *by, double sign) {
  t->now += sign * by->now;
  t->link += sign * by->link;
  t->compute += sign * by->compute;
  t->transfer += sign * by->transfer;
  t->waited += sign * by->waited;
}

// Takes back what loop `begin` has added.
static void take_back(Sim *s, uint32_t begin, const Added *x) {
  uint32_t end = s->p->instr[begin].u.loop.end;
  add_clocks(&s->t, &x->t, -1);
  for (uint32_t i = begin; i <= end; i++) s->of[i] -= x->of[i - begin];
}

// Runs a guarded loop. If it runs exactly if an earlier loop does not, the time of the two is that
// of the one that takes longer.
static void run_guarded(Sim *s, uint32_t begin) {
  uint32_t n = s->p->instr[begin].u.loop.end - begin + 1, other = s->c->instead[begin];
  Added *x = arena_new_of(s->a, Added);
  Clocks before = s->t;
  x->of = arena_array(s->a, double, n);
  for (uint32_t i = 0; i < n; i++) x->of[i] = -s->of[begin + i];
  run_loop(s, begin);
  x->t = s->t;
  add_clocks(&x->t, &before, -1);
  for (uint32_t i = 0; i < n; i++) x->of[i] += s->of[begin + i];
  if (!s->added) s->added = arena_array(s->a, struct Added *, s->p->ninstrs + 1);
  s->added[begin] = x;
  if (!other || !s->added[other - 1]) return;
  bool less = x->t.now < s->added[other - 1]->t.now;
  take_back(s, less ? begin : other - 1, less ? x : s->added[other - 1]);
}

static void run_range(Sim *s, uint32_t lo, uint32_t hi) {
  for (uint32_t i = lo; i < hi; i++) {
    if (s->p->instr[i].kind != INSTR_LOOP) {
      run_instr(s, i);
      continue;
    }
    if (s->p->instr[i].u.loop.guarded && s->c->instead)
      run_guarded(s, i);
    else
      run_loop(s, i);
    i = s->p->instr[i].u.loop.end;
  }
}

// -- a step -------------------------------------------------------------------------------------

static Sim sim_new(Arena *a, const Compiled *c, const Machine *m) {
  Sim s = {.a = a,
           .c = c,
           .p = c->program,
           .m = m,
           .processors = (double)mesh_size(&c->program->mesh),
           .contexts = 1,
           .team = 1};
  if (m->cores > 0 && s.processors > m->cores) s.contexts = ceil(s.processors / m->cores);
  if (m->cores > 0 && s.processors < m->cores) s.team = floor(m->cores / s.processors);
  s.of = arena_array(a, double, s.p->ninstrs + 1);
  s.limit = arena_array(a, uint8_t, s.p->ninstrs + 1);
  sim_zones(&s);
  return s;
}

Simulation *simulate_cores(Arena *a, const Compiled *c, const Machine *m) {
  Arena *scratch = arena_new();
  Sim s = sim_new(scratch, c, m);
  Simulation *out = arena_new_of(a, Simulation);
  for (int walk = 0; walk < 2; walk++) {
    s.t = (Clocks){0};
    s.pending.n = 0;
    s.segment++;
    memset(s.of, 0, sizeof *s.of * s.p->ninstrs);
    run_range(&s, 0, s.p->ninstrs);
    wait_until(&s, s.t.link);
  }
  bool cores_meet =
      m->cores > 1 && (s.processors > 1 || s.team > 1); // all cores meet before and after a step
  double meet = m->gpu ? gpu_step_seconds(m) : cores_meet ? m->latency : 0;
  *out = (Simulation){.seconds = s.t.now + meet,
                      .compute = s.t.compute + meet,
                      .transfer = s.t.transfer,
                      .hidden = s.t.transfer - s.t.waited};
  out->of = arena_copy(a, s.of, sizeof *s.of * (s.p->ninstrs + 1));
  out->limit = arena_copy(a, s.limit, s.p->ninstrs + 1);
  for (uint32_t i = 0; i < s.p->ninstrs; i++) out->of_kind[s.p->instr[i].kind] += s.of[i];
  arena_free(scratch);
  return out;
}

Simulation *simulate(Arena *a, const Compiled *c, const Machine *m) {
  Simulation *all = simulate_cores(a, c, m);
  bool chooses =
      !m->gpu && mesh_size(&c->program->mesh) == 1 && m->cores > 1 && all->seconds < LONG_STEP;
  if (!chooses) return all;
  Machine core = *m;
  core.cores = 1;
  Simulation *one = simulate_cores(a, c, &core);
  return one->seconds < all->seconds ? one : all;
}
