// Computes the sizes and counts of the instructions of a bound program, and which of them one
// worker runs alone. Sizes are computed from run-time slots (Program.slot). A slot is a number that
// differs between processors, or depends on the number of rows in a batch.
#include "runtime/exec/exec_internal.h"

static int64_t size_value(const Context *c, Size s) {
  return s.slot < 0 ? s.base : s.base * c->slot[s.slot];
}

// Restricts a set that processors divide to the units of processor c.
static void divide_units(const Exec *e, const Context *c, int32_t divided, BoundSet *set) {
  int64_t rank = 0, units = set->units;
  const Context *first;
  uint32_t t = (uint32_t)divided - 1;
  Axes axes = tensor_replicated(&e->program->mesh, &e->program->tensor[t]);
  int64_t n = exec_sharers(e, c, axes, t, &rank, &first);
  set->from = units * rank / n;
  set->units = units * (rank + 1) / n - set->from;
}

static void size_kernel(const Exec *e, const Context *c, const KernelLaunch *l, BoundKernel *b) {
  b->chunks = b->units = 0;
  for (uint32_t s = 0; s < l->nsets; s++) {
    BoundSet *set = &b->set[s];
    for (int i = 0; i < b->kernel->nslot; i++) {
      int32_t slot = l->set[s].slot[i];
      set->slot[i] = slot < 0 ? 0 : c->slot[slot];
    }
    set->units = size_value(c, l->set[s].units);
    if (l->set[s].divided) divide_units(e, c, l->set[s].divided, set);
    set->chunks = ceil_div(set->units, b->grain);
    set->first = b->chunks;
    b->chunks += set->chunks;
    b->units += set->units;
  }
}

static void size_gemm(const Context *c, BoundGemm *b) {
  b->m = size_value(c, b->what->m);
  b->n = size_value(c, b->what->n);
  b->k = size_value(c, b->what->k);
  b->batches = 1;
  for (int i = 0; i < b->what->nbatch; i++) {
    b->count[i] = size_value(c, b->what->batch[i].count);
    b->batches *= b->count[i];
  }
}

static void size_ordered(const Context *c, BoundOrdered *b) {
  b->n = size_value(c, b->what->n);
  b->rows = 1;
  for (int i = 0; i < b->what->nrows; i++) {
    b->count[i] = size_value(c, b->what->row[i].count);
    b->rows *= b->count[i];
  }
}

static void size_matrix(const Context *c, BoundMatrix *b) {
  b->matrices = b->right = 1;
  for (int i = 0; i < b->what->nbatch; i++) {
    b->count[i] = size_value(c, b->what->batch[i].count);
    b->matrices *= b->count[i];
  }
  for (int i = 0; i < b->what->nright; i++) {
    b->right_count[i] = size_value(c, b->what->right[i].count);
    b->right *= b->right_count[i];
  }
  if (matrix_rows[b->what->kind].result != MATRIX_SOLUTION) b->right = 0;
}

static void size_collective(const Context *c, const Collective *w, BoundInstr *b) {
  for (uint32_t i = 0; i < w->nparts; i++)
    for (int d = 0; d < w->part[i].rank; d++) {
      b->u.valid.src[i * MAX_RANK + (uint32_t)d] = size_value(c, w->part[i].src_valid[d]);
      b->u.valid.dst[i * MAX_RANK + (uint32_t)d] = size_value(c, w->part[i].dst_valid[d]);
    }
}

static void size_instr(const Exec *e, const Context *c, const Instr *in, BoundInstr *b) {
  switch (in->kind) {
  case INSTR_KERNEL:
    size_kernel(e, c, &in->u.kernel, &b->u.kernel);
    b->solo =
        b->u.kernel.units <= b->u.kernel.grain; // the launch has one chunk, so it is not divided
    break;
  case INSTR_GEMM: {
    size_gemm(c, &b->u.gemm);
    const BoundGemm *p = &b->u.gemm;
    b->solo = gemm_flops((double)p->m, (double)p->n, (double)p->k, (double)p->batches) < SOLO_FLOPS;
    break;
  }
  case INSTR_ORDERED:
    size_ordered(c, &b->u.ordered);
    b->solo = b->u.ordered.rows * b->u.ordered.n < SOLO_ORDERED;
    break;
  case INSTR_MATRIX:
    size_matrix(c, &b->u.matrix);
    b->solo = matrix_work(&b->u.matrix) < SOLO_FLOPS;
    break;
  case INSTR_COLLECTIVE: size_collective(c, &in->u.collective, b); break;
  case INSTR_LOOP: b->u.loop.count = size_value(c, in->u.loop.count); break;
  case INSTR_FILL:
  case INSTR_COPY:
  case INSTR_END:
  case INSTR_COMMIT: break;
  }
}

static bool is_shared(const BoundInstr *b) {
  for (int64_t i = 0; b->in_step && i < b->steps; i++)
    if (!b->in_step[i].solo) return true;
  return !b->solo && b->kind != INSTR_COLLECTIVE && b->kind != INSTR_COMMIT &&
         b->kind != INSTR_LOOP && b->kind != INSTR_END;
}

// Returns the number of rows of the loop at instruction i, 0: its instructions run as a whole.
static int64_t rows_of_loop(const Program *p, const Context *c, uint32_t i) {
  if (!p->instr[i].u.loop.rows || c->instr[i + 1].kind != INSTR_KERNEL) return 0;
  const BoundKernel *k = &c->instr[i + 1].u.kernel;
  return k->units / (k->strips * k->row_units);
}

// Marks each loop as `solo` if it has no collective and none of its instructions is divided among
// workers (threads). Then one worker runs the whole loop.
static void find_solo_loops(const Program *p, Context *c) {
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_LOOP) continue;
    bool solo = true;
    for (uint32_t k = i + 1; k < p->instr[i].u.loop.end; k++)
      solo = solo && !is_shared(&c->instr[k]);
    c->instr[i].u.loop.solo = solo && !c->instr[i].u.loop.meets;
    c->instr[i].u.loop.rows = rows_of_loop(p, c, i);
    c->instr[i].u.loop.least = p->instr[i].u.loop.rows;
    BoundInstr *end = &c->instr[p->instr[i].u.loop.end];
    const char *alive = end->u.loop.guard;
    end->u.loop = c->instr[i].u.loop;
    end->u.loop.guard = alive;
  }
}

// Returns whether at least two workers can run the loop of instruction b for their rows.
static bool loop_is_divided(const BoundInstr *b) {
  return b->kind == INSTR_LOOP && b->u.loop.rows && b->u.loop.rows >= 2 * b->u.loop.least;
}

// -- instructions whose sizes change from step to step of a loop ---------------------------------

// Gives a copy of a bound instruction memory of its own for what size_instr sets.
static void own_sizes(Exec *e, BoundInstr *b) {
  if (b->kind != INSTR_KERNEL) return;
  BoundKernel *k = &b->u.kernel;
  k->set = arena_copy(e->memory, k->set, k->nsets * sizeof *k->set);
  for (uint32_t s = 0; s < k->nsets; s++)
    k->set[s].slot = arena_array(e->memory, int64_t, k->kernel->nslot + 1u);
}

void exec_bind_steps(Exec *e, const Context *c, uint32_t i) {
  const Program *p = e->program;
  BoundInstr *b = &c->instr[i];
  int32_t slot = program_live_slot(p, &p->instr[i]);
  if (slot < 0) return;
  b->loop = p->slot[slot].loop;
  BoundInstr *steps = arena_array(e->memory, BoundInstr, p->slot[slot].steps);
  for (int64_t k = 0; k < p->slot[slot].steps; k++) {
    steps[k] = *b;
    own_sizes(e, &steps[k]);
  }
  b->in_step = steps;
  b->steps = p->slot[slot].steps;
}

// Computes the slots of processor c in step `step` of all loops; in no step if it is negative.
static void set_slots(const Exec *e, Context *c, int64_t step) {
  for (uint32_t s = 0; s < e->program->nslots; s++)
    c->slot[s] = program_slot_in(e->program, (int32_t)s, c->processor, e->rows, step);
}

static void size_steps(const Exec *e, Context *c) {
  const Program *p = e->program;
  int64_t most = 0;
  for (uint32_t s = 0; s < p->nslots; s++)
    if (p->slot[s].live && p->slot[s].steps > most) most = p->slot[s].steps;
  for (int64_t step = 0; step < most; step++) {
    set_slots(e, c, step);
    for (uint32_t i = 0; i < p->ninstrs; i++) {
      BoundInstr *b = &c->instr[i];
      if (b->in_step && step < b->steps) size_instr(e, c, &p->instr[i], &b->in_step[step]);
    }
  }
}

void exec_bind_sizes(Exec *e) {
  const Program *p = e->program;
  e->small = true;
  for (int64_t r = 0; r < e->processors; r++) {
    Context *c = &e->context[r];
    if (exec_is_own(e, r)) size_steps(e, c);
    set_slots(e, c, -1);
    for (uint32_t i = 0; i < p->ninstrs; i++) {
      if (!exec_is_own(e, r) && p->instr[i].kind != INSTR_COLLECTIVE) continue;
      size_instr(e, c, &p->instr[i], &c->instr[i]);
      if (is_shared(&c->instr[i])) e->small = false;
    }
    if (exec_is_own(e, r)) find_solo_loops(p, c);
    for (uint32_t i = 0; i < p->ninstrs; i++)
      if (exec_is_own(e, r) && loop_is_divided(&c->instr[i])) e->small = false;
  }
  program_count(p, e->first, e->rows, e->moves);
}
