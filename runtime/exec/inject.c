// Injected faults of --fault: makes an element that a collective delivers, or a number of a kernel,
// wrong, so that tests see that --verify finds it.
#include "runtime/exec/exec_internal.h"

uint32_t exec_inject_instr(const Exec *e) {
  int64_t call = e->inject.kernel ? e->inject.call : -1;
  for (uint32_t i = 0; i < e->program->ninstrs && call >= 0; i++) {
    const Instr *in = &e->program->instr[i];
    if (in->kind == INSTR_KERNEL && e->program->kernel[in->u.kernel.kernel].nnum > 0 && call-- == 0)
      return i;
  }
  return UINT32_MAX;
}

const double *exec_inject_numbers(const Exec *e, const ProgKernel *k, const double *num) {
  double *wrong = arena_copy(e->memory, num, sizeof *num * k->nnum);
  wrong[0] = 1.5 * wrong[0] + 1;
  return wrong;
}

// A collective may have several parts, one for each tensor. The element that becomes wrong is the
// first element of the first of these tensors that is not empty.
void exec_inject(Exec *e, uint32_t i) {
  const Collective *w = &e->program->instr[i].u.collective;
  int64_t r = e->inject.processor;
  if ((int64_t)e->call[i].sequence != e->inject.call || !exec_is_own(e, r)) return;
  const CommMember *m = &e->member[i][r];
  for (uint32_t part = 0; part < w->nparts; part++) {
    bool empty = false;
    for (int d = 0; d < w->part[part].rank; d++)
      empty = empty || m->dst_valid[part * MAX_RANK + (uint32_t)d] == 0;
    if (empty) continue;
    double x = dtype_load(w->type, m->dst[part]);
    dtype_store(w->type, m->dst[part],
                dtype_round(w->type, w->type == TYPE_BOOL ? x == 0 : 1.5 * x + 1));
    return;
  }
}
