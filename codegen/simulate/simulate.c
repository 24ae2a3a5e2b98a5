// How long one run of a program takes on a machine, by its figures alone: nothing is run or
// measured.
//
// The instructions of one processor are walked in order with two clocks, that of its core and that
// of its link.
//
//   kernel       the longer of its bytes and its operations, and a launch
//   product      2 (mnk + half (mn + nk + km)) operations at `flops`, its bytes from beyond l2, and a launch
//   collective   coll_seconds on the link; `shared`: a meeting, and its operands read and written in memory
//
// Without `overlap` the core waits for every collective. With it a collective begins when its
// operands are there and the link is free, and the first instruction that touches what it writes,
// or writes what it reads, waits for its end:
//
//   core  | k1 |-- k2 --|  k3 waits ..|k3 |        seconds = compute + what is waited for
//   link       |=== all_reduce ======|             hidden  = transfer - what is waited for
//
// P processors on C cores: each core runs ceil(P / C) of them one after the other, or C / P cores
// share one.
//
// Bytes come out of the second-level cache if few enough others have been touched since they were
// last, out of the third-level cache likewise, else out of memory. The program is walked twice, and
// the second walk counts, as steps follow one another; loops are walked for two rounds, of which
// the second stands for the rest.
#include <math.h>
#include <string.h>

#include "codegen/simulate/simulate_internal.h"

// -- two clocks ---------------------------------------------------------------------------------

static bool common(const Sim *s, Ref a, int64_t bytes, const MemoryRange *b) {
  int64_t at = sim_offset(s, a);
  return a.tensor == b->tensor && at < b->end && b->first < at + bytes;
}

static MemoryRange span_of(const Sim *s, Ref r, int64_t bytes) {
  int64_t at = sim_offset(s, r);
  return (MemoryRange){r.tensor, at, at + bytes};
}

// The time at which memory that an instruction is about to use is free of collectives under way;
// they are over then.
static double free_at(const Sim *s, Ref r, int64_t bytes, bool writes, double now) {
  for (uint32_t i = 0; i < s->pending.n; i++) {
    const Pending *p = &s->pending.at[i];
    if (p->end > now && (common(s, r, bytes, &p->to) || (writes && common(s, r, bytes, &p->from))))
      now = p->end;
  }
  return now;
}

static void retire(Sim *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->pending.n; i++)
    if (s->pending.at[i].end > s->now) s->pending.at[n++] = s->pending.at[i];
  s->pending.n = n;
}

static void wait_until(Sim *s, double t) {
  if (t <= s->now) return;
  s->waited += t - s->now;
  s->now = t;
  retire(s);
}

static double kernel_free(const Sim *s, const KernelLaunch *l, double now) {
  const Kernel *k = s->c->kernels[l->kernel];
  for (uint32_t i = 0; i < l->nsets; i++) {
    double extent[MAX_LOOPS];
    sim_extents(s, k, &l->set[i], extent);
    for (int p = 0; p < k->nptr; p++) {
      PointerSpan r = kernel_pointer_span(k, p, extent);
      now = free_at(s, l->set[i].ptr[p], r.indirect ? sim_bytes_from(s, l->set[i].ptr[p]) : r.span,
                    k->ptr[p].written, now);
    }
  }
  return now;
}

static double operands_free(const Sim *s, const Instr *in) {
  double now = s->now;
  int64_t span[3];
  switch (in->kind) {
  case INSTR_KERNEL: return kernel_free(s, &in->u.kernel, now);
  case INSTR_GEMM:
    sim_gemm_spans(s, &in->u.gemm, span);
    now = free_at(s, in->u.gemm.a, span[0], false, now);
    now = free_at(s, in->u.gemm.b, span[1], false, now);
    return free_at(s, in->u.gemm.c, span[2], true, now);
  case INSTR_ORDERED:
    now = free_at(s, in->u.ordered.src, sim_bytes_from(s, in->u.ordered.src), false, now);
    return free_at(s, in->u.ordered.dst, sim_bytes_from(s, in->u.ordered.dst), true, now);
  case INSTR_COPY:
    now = free_at(s, in->u.copy.src, in->u.copy.bytes, false, now); // and what it writes
    return free_at(s, in->u.copy.dst, in->u.copy.bytes, true, now);
  case INSTR_FILL: return free_at(s, in->u.fill.dst, in->u.fill.bytes, true, now);
  case INSTR_COLLECTIVE:
    for (uint32_t i = 0; i < in->u.collective.nparts; i++) {
      const CollPart *p = &in->u.collective.part[i];
      now = free_at(s, p->src, part_bytes(p, p->src_block, in->u.collective.type), false, now);
      now = free_at(s, p->dst, part_bytes(p, p->dst_block, in->u.collective.type), true, now);
    }
    return now;
  case INSTR_COMMIT: return s->link > now ? s->link : now; // all of them are done
  case INSTR_LOOP:
  case INSTR_END: return now;
  }
  BUG("an instruction of kind %d", (int)in->kind);
}

static void run_collective(Sim *s, const Collective *w, double ready, double seconds) {
  s->transfer += seconds;
  if (s->m->overlap < 1) {
    s->waited += seconds;
    s->now += seconds;
    return;
  }
  double start = ready > s->link ? ready : s->link;
  s->link = start + seconds;
  for (uint32_t i = 0; i < w->nparts; i++) {
    const CollPart *p = &w->part[i];
    vec_push(s->a, s->pending) =
        (Pending){s->link, span_of(s, p->src, part_bytes(p, p->src_block, w->type)),
                  span_of(s, p->dst, part_bytes(p, p->dst_block, w->type))};
  }
}

static void run_instr(Sim *s, uint32_t i) {
  const Instr *in = &s->p->instr[i];
  double ready = operands_free(s, in), seconds = sim_seconds(s, in);
  s->of[i] += seconds;
  if (in->kind == INSTR_COLLECTIVE) {
    run_collective(s, &in->u.collective, ready, seconds);
    return;
  }
  wait_until(s, ready);
  s->now += seconds;
  s->compute += seconds;
}

// -- loops --------------------------------------------------------------------------------------

static void run_range(Sim *s, uint32_t lo, uint32_t hi);

typedef struct Clocks {
  double now, link, compute, transfer, waited;
} Clocks;
static Clocks clocks(const Sim *s) {
  return (Clocks){s->now, s->link, s->compute, s->transfer, s->waited};
}

// The last round `times` times more.
static void repeat_round(Sim *s, const Clocks *before, double times) {
  double link = s->link - s->now; // what is under way stays as far ahead
  for (uint32_t i = 0; i < s->pending.n; i++)
    s->pending.at[i].end += times * (s->now - before->now);
  s->now += times * (s->now - before->now);
  s->link = s->now + link;
  s->compute += times * (s->compute - before->compute);
  s->transfer += times * (s->transfer - before->transfer);
  s->waited += times * (s->waited - before->waited);
}

static void run_loop(Sim *s, uint32_t begin) {
  const Instr *in = &s->p->instr[begin];
  uint32_t end = in->u.loop.end;
  int64_t count = (int64_t)sim_size(s, in->u.loop.count);
  double *before = arena_array(s->a, double, end - begin + 1);
  if (s->depth == LOOP_DEPTH) BUG("loops nest deeper than %d", (int)LOOP_DEPTH);
  int depth = s->depth++;
  for (int64_t t = 0; t < count && t < 2; t++) {
    Clocks c = clocks(s);
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

static void run_range(Sim *s, uint32_t lo, uint32_t hi) {
  for (uint32_t i = lo; i < hi; i++) {
    if (s->p->instr[i].kind != INSTR_LOOP) {
      run_instr(s, i);
      continue;
    }
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
  sim_zones(&s);
  return s;
}

Simulation *simulate(Arena *a, const Compiled *c, const Machine *m) {
  Arena *scratch = arena_new();
  Sim s = sim_new(scratch, c, m);
  Simulation *out = arena_new_of(a, Simulation);
  for (int walk = 0; walk < 2; walk++) {
    s.now = s.link = s.compute = s.transfer = s.waited = 0;
    s.pending.n = 0;
    s.segment++;
    memset(s.of, 0, sizeof *s.of * s.p->ninstrs);
    run_range(&s, 0, s.p->ninstrs);
    wait_until(&s, s.link);
  }
  double meet = m->cores > 1 && (s.processors > 1 || s.team > 1)
                    ? m->latency
                    : 0; // the cores begin and end together
  *out = (Simulation){.seconds = s.now + meet,
                      .compute = s.compute + meet,
                      .transfer = s.transfer,
                      .hidden = s.transfer - s.waited};
  out->of = arena_copy(a, s.of, sizeof *s.of * (s.p->ninstrs + 1));
  for (uint32_t i = 0; i < s.p->ninstrs; i++) out->of_kind[s.p->instr[i].kind] += s.of[i];
  arena_free(scratch);
  return out;
}
