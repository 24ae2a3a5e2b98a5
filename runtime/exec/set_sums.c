// Binds the operands that kernels sum over processors (SetSum): the addresses of the blocks of all
// processors of a group.
#include "runtime/exec/exec_internal.h"

// With several machines, processors do not share all memory. Verification and injected faults need
// the results of collectives.
static bool defers(const Exec *e) {
  bool one_machine = !e->ranks || ranks_local_processors(e->ranks) == e->processors;
  return one_machine && !e->apart && e->inject.call < 0;
}

static void bind_sum(const Exec *e, const Context *c, const KernelSet *s, BoundSet *set) {
  const Mesh *m = &e->program->mesh;
  const SetSum *sum = s->sum;
  Axes sharers = tensor_replicated(m, &e->program->tensor[s->divided - 1]);
  int64_t first = axes_peer(m, sharers, c->processor, 0); // all of them use its operands
  for (int64_t k = 1; k < axes_size(m, sum->axes); k++) {
    const Context *other = &e->context[axes_peer(m, sum->axes, first, k)];
    set->ptr[sum->others + k - 1] = e->defers ? other->arena + s->ptr[sum->own].offset : e->zeros;
  }
}

// Calls bind_sum for each set with a sum. Returns the most bytes of a block of such a set.
static int64_t each_sum(const Exec *e, bool binds) {
  int64_t most = 0;
  for (uint32_t i = 0; i < e->program->ninstrs; i++) {
    const KernelLaunch *l = &e->program->instr[i].u.kernel;
    for (uint32_t s = 0; e->program->instr[i].kind == INSTR_KERNEL && s < l->nsets; s++) {
      if (!l->set[s].sum) continue;
      if (l->set[s].sum->bytes > most) most = l->set[s].sum->bytes;
      for (int64_t r = e->first; binds && r < e->first + e->own; r++)
        bind_sum(e, &e->context[r], &l->set[s], &e->context[r].instr[i].u.kernel.set[s]);
    }
  }
  return most;
}

void exec_bind_sums(Exec *e) {
  int64_t most = each_sum(e, false);
  e->defers = defers(e);
  if (most > 0 && !e->defers) e->zeros = mem_zeroed(1, (size_t)most);
  if (e->zeros) e->zeros_bytes = most;
  (void)each_sum(e, true);
}
