// Finds kernels that only scatter, and divides them among blocks of threads. In: a Kernel. Out:
// GpuOwners.
//
//   columns   the loops along which each scatter moves and on which no index depends
//   terms     all other loops: their rounds, in order, are what is added
//   row       the index of a scatter: where a term goes, for all columns
//
// A row has one owner, a block of threads that adds the terms of this row in their order. So the
// result does not depend on the order in which blocks run, and needs no atomic additions. A block
// reads the indices of all terms, and the values of its own rows only. For wide rows several blocks
// have the same rows, and other columns. A row to which most terms go is the work of its owner
// alone.
//
// The gradient of an embedding with 1024 terms and 768 columns has 128 owners of rows, each of
// which is 3 blocks of 256 threads. Owner 4 has rows 4, 132, 260 and so on: neighbouring rows may
// be frequent together, as they are in a vocabulary that is sorted by frequency.
#include "codegen/gpu/gpu_scatter.h"

enum {
  MOST_THREADS = 256,
  MOST_BLOCKS = 512, // enough for the multiprocessors of any GPU
  LEAST_TERMS = 64,  // fewer have no owners
  OWNED_TERMS = 8    // for each owner: it waits for one after the other
};

static LoopSet moving(const Kernel *k, const KPtr *p) {
  LoopSet out = 0;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (p->stride[l]) out |= (LoopSet)1 << l;
  return out;
}

void gpu_scatter_needs(const Kernel *k, int s, bool *needed) {
  for (int i = 0; i < k->nstmts; i++) needed[i] = i == s;
  for (int i = s; i >= 0; i--)
    for (int j = 0; needed[i] && j < 3; j++)
      if (k->stmt[i].arg[j] != NO_STMT) needed[k->stmt[i].arg[j]] = true;
}

// Returns whether scatters are all that k does. Checks of indices that a scatter needs belong to
// it.
static bool only_scatters(Arena *a, const Kernel *k) {
  bool *used = arena_array(a, bool, k->nstmts + 1), *needed = arena_array(a, bool, k->nstmts + 1);
  for (int s = 0; s < k->nstmts; s++) {
    if (k->stmt[s].kind != K_SCATTER) continue;
    gpu_scatter_needs(k, s, needed);
    for (int i = 0; i < k->nstmts; i++) used[i] = used[i] || needed[i];
  }
  for (int i = 0; i < k->nstmts; i++)
    if (stmt_has_effect(k, &k->stmt[i]) && !used[i]) return false;
  return k->nphases == 1;
}

bool gpu_scatter_plan(Arena *a, const Kernel *k, const LoopSet *dep, GpuOwners *o) {
  LoopSet all = ((LoopSet)1 << (k->nouter + k->ninner)) - 1, columns = all;
  bool any = false;
  for (int s = 0; s < k->nstmts; s++) {
    const KStmt *x = &k->stmt[s];
    if (x->kind != K_SCATTER) continue;
    columns &= moving(k, &k->ptr[x->index]) & ~dep[x->arg[1]];
    any = true;
  }
  if (!any || !only_scatters(a, k)) return false;
  int64_t width = kernel_rounds(k, columns), terms = kernel_rounds(k, all & ~columns);
  int threads = (int)clamp64(ceil_div(width, GPU_WARP) * GPU_WARP, GPU_WARP, MOST_THREADS);
  int groups = (int)clamp64(ceil_div(width, threads), 1, MOST_BLOCKS);
  int owners = (int)clamp64(terms / OWNED_TERMS, 1, MOST_BLOCKS / groups);
  *o = (GpuOwners){.terms = all & ~columns,
                   .columns = columns,
                   .threads = threads,
                   .groups = groups,
                   .owners = owners};
  return owners > 1 && terms >= LEAST_TERMS;
}

int gpu_scatter_shared(const GpuOwners *o) { return 4 * o->threads / GPU_WARP; }

char *gpu_scatter_print(Arena *a, const GpuOwners *o) {
  return arena_printf(a, "%d owners of rows, %d block%s of %d threads for each", o->owners,
                      o->groups, plural(o->groups), o->threads);
}
