// Decides which loads request data from memory in advance (CpuPlan.ahead). In: a kernel and its
// plan. Out: for each K_LOAD, how many bytes ahead of its address it prefetches.
//
// The processor's own prefetchers stop at each page of 4 KiB, and a loop of many instructions holds
// only few loads at a time in the reorder buffer. A prefetch some kilobytes ahead keeps the memory
// busy during the arithmetic. It pays for arrays that are larger than the first cache and that are
// read from the first element to the last.
//
// An outer vector loop prefetches a fixed distance ahead. With an inner one, a unit reads a row in
// every phase. The last phase that loads the row prefetches the next row, so that the first phase
// finds it in a cache.
//
// A register tile prefetches its weights if they are in panels (codegen/order/loop_panels.c): what
// the next rounds of the inner loops read, and at the end of a panel the next panel. A loop reads
// its weights from the second cache in every round.
#include "codegen/cpu/emit_internal.h"

enum {
  AHEAD_BYTES = 2048,      // distance of a prefetch, unless the next row is prefetched
  AHEAD_LEAST = 128 << 10, // arrays of fewer bytes are not prefetched
  AHEAD_ROW = 64 << 10     // rows of more bytes are read from memory in every phase
};

// Returns the bytes of the array that pointer p reads from the first element to the last: over the
// vector loop and the loops outside of it whose elements follow one another.
static int64_t straight_bytes(const Kernel *k, const KPtr *p) {
  int64_t n = 1;
  for (int l = k->vector; l >= 0 && p->stride[l] == n; l--) n = size_times(n, loop_rounds(k, l));
  return size_times(n, dtype_bytes(p->type));
}

// Returns the bytes of a row, the elements of an inner vector loop. 0: the vector loop is an outer
// one, or a unit reads its row once.
static int64_t row_bytes(const Kernel *k, const KPtr *p) {
  if (k->vector < k->nouter || k->nphases == 1) return 0;
  int64_t n = size_times(loop_rounds(k, k->vector), dtype_bytes(p->type));
  return n < AHEAD_BYTES || n > AHEAD_ROW ? 0 : n;
}

static bool is_load(const Kernel *k, const CpuPlan *p, int at) {
  return k->stmt[at].kind == K_LOAD && p->kept.use[at] != ROW_UNUSED;
}

static bool loaded_later(const Kernel *k, const CpuPlan *p, int at) {
  const KStmt *s = k->stmt;
  for (int i = at + 1; i < k->nstmts; i++)
    if (is_load(k, p, i) && s[i].index == s[at].index && s[i].phase > s[at].phase) return true;
  return false;
}

static int64_t ahead_of(const Kernel *k, const CpuPlan *plan, int at) {
  const KStmt *s = &k->stmt[at];
  const KPtr *p = &k->ptr[s->index];
  if (s->arg[1] != NO_STMT || straight_bytes(k, p) < AHEAD_LEAST) return 0;
  int64_t row = row_bytes(k, p);
  if (!row) return AHEAD_BYTES;
  return loaded_later(k, plan, at) ? 0 : row;
}

// Returns whether p is a pointer to panels: the vectors of a tile, one summed element after
// another.
static bool has_panels(const Kernel *k, const KPtr *p) {
  if (k->rows < 0 || k->vector != k->nouter - 1 || !k->ninner) return false;
  return p->stride[k->vector] == 1 && p->stride[k->rows] == 0 &&
         p->stride[k->nouter + k->ninner - 1] == k->block;
}

int32_t *ahead_plan(Arena *a, const Kernel *k, const CpuPlan *p) {
  int32_t *ahead = arena_array(a, int32_t, k->nstmts + 1);
  bool plain = k->vector >= 0 && k->rows < 0 && k->ninner <= 1 && !p->slab_step;
  for (int i = 0; i < k->nstmts && plain; i++)
    if (is_load(k, p, i)) ahead[i] = (int32_t)ahead_of(k, p, i);
  for (int i = 0; i < k->nstmts && !p->slab_step; i++)
    if (k->stmt[i].kind == K_LOAD && has_panels(k, &k->ptr[k->stmt[i].index]))
      ahead[i] = AHEAD_BYTES;
  return ahead;
}
