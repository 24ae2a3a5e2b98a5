// Decides which loads request data from memory in advance (CpuPlan.ahead). In: a kernel and its
// plan. Out: for each K_LOAD, how many bytes ahead of its address it prefetches.
//
// The processor's own prefetchers stop at each page of 4 KiB, and a loop of many instructions holds
// only few loads at a time in the reorder buffer. A prefetch one or two KiB ahead keeps the memory
// busy during the arithmetic. It pays for arrays that are larger than the first cache and that are
// read from the first element to the last.
//
// A kernel of one phase prefetches a fixed distance ahead, or the same part of a later row if it
// reads a part of each row. In a kernel of several phases a unit reads its row in every phase. The
// last phase that loads the row prefetches a later row, so that the first phase finds it in a
// cache.
//
// A register tile prefetches its weights if they are in panels (codegen/order/loop_panels.c): what
// the next rounds of the inner loops read, and at the end of a panel the next panel. A loop reads
// its weights from the second cache in every round.
#include "codegen/cpu/emit_internal.h"

enum {
  AHEAD_BYTES = 2048,      // distance of a prefetch, unless the next row is prefetched
  AHEAD_READING = 1024,    // distance in arrays of a kernel that stores no array
  AHEAD_LEAST = 128 << 10, // arrays of fewer bytes are not prefetched
  AHEAD_ROW = 64 << 10     // rows of more bytes are read from memory in every phase
};

// Returns the distance in an array that is read run after run. Where nothing is stored, a short one
// reads more bytes per second.
static int64_t stream_distance(const Kernel *k) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_STORE) return AHEAD_BYTES;
  return AHEAD_READING;
}

// Returns how many bytes ahead a load through pointer p prefetches, if it reads runs of neighbours:
// stream_distance if the runs follow one another, else as many whole distances between two runs.
// Returns 0 if it reads few bytes.
static int64_t distance(const Kernel *k, const KPtr *p) {
  int64_t n = p->stride[k->vector] == 1 ? loop_rounds(k, k->vector) : 0,
          size = dtype_bytes(p->type);
  int l = k->vector - 1;
  for (; l >= 0 && n && (p->stride[l] == n || p->stride[l] == 0); l--)
    if (p->stride[l]) n = size_times(n, loop_rounds(k, l));
  if (size_times(n, size) >= AHEAD_LEAST) return stream_distance(k);
  int64_t apart = l >= 0 && n ? p->stride[l] * size : 0;
  if (apart <= 0 || apart > AHEAD_ROW || size_times(apart, loop_rounds(k, l)) < AHEAD_LEAST)
    return 0;
  return ceil_div(AHEAD_BYTES, apart) * apart;
}

// Returns the bytes of a row that a unit reads in several phases. 0: it reads its row once, or the
// row is long.
static int64_t row_bytes(const Kernel *k, const KPtr *p) {
  if (k->vector < k->nouter || k->nphases == 1) return 0;
  int64_t n = size_times(loop_rounds(k, k->vector), dtype_bytes(p->type));
  return n > AHEAD_ROW ? 0 : n;
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
  int64_t far = s->arg[1] == NO_STMT ? distance(k, p) : 0, row = row_bytes(k, p);
  if (!row || !far) return far;
  if (loaded_later(k, plan, at)) return 0;
  return ceil_div(far > AHEAD_BYTES ? far : AHEAD_BYTES, row) * row;
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
  bool plain = k->vector >= 0 && k->rows < 0 && !k->images && !p->slab_step;
  for (int i = 0; i < k->nstmts && plain; i++)
    if (is_load(k, p, i)) ahead[i] = (int32_t)ahead_of(k, p, i);
  for (int i = 0; i < k->nstmts && !p->slab_step; i++)
    if (k->stmt[i].kind == K_LOAD && has_panels(k, &k->ptr[k->stmt[i].index]))
      ahead[i] = AHEAD_BYTES;
  return ahead;
}
