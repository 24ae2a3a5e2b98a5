// Finds properties of the accumulators of a kernel (K_ACCUM): which add values in blocks, where
// their results are in the partial row of a chunk, and how many units a chunk may have.
#include "codegen/fuse/kernel.h"

#include "ir/program/sums.h"

int64_t kernel_units(const Kernel *k) {
  int64_t n = 1;
  for (int l = 0; l < k->nouter; l++)
    n = size_times(n, l == k->vector ? ceil_div(loop_rounds(k, l), k->block) : loop_rounds(k, l));
  return n;
}

bool stmt_folds(const KStmt *s) {
  return (s->kind == K_REDUCE || s->kind == K_ACCUM) && s->op == OP_SUM && s->type == TYPE_F32;
}

// Returns the number of elements that ACCUM statement s has in the partial row, saturated at a
// large number. The partial row is the memory for the accumulators of a chunk. *each: how many
// values one unit, an iteration of the outer loops, adds to each element.
static int64_t row_elements(const Kernel *k, int s, int64_t *each) {
  int64_t n = 1;
  *each = k->vector >= 0 && k->vector < k->nouter ? k->block : 1;
  for (int l = k->nouter; l < k->nouter + k->ninner; l++) {
    if (k->ptr[k->stmt[s].index].stride[l])
      n = size_times(n, loop_rounds(k, l));
    else if (k->stmt[s].level == LEVEL_INNER)
      *each = size_times(*each, loop_rounds(k, l));
  }
  return n;
}

// Returns the bytes that the whole kernel k accesses, at least 1. Each element of each pointer
// counts once.
static double all_bytes(const Kernel *k) {
  double bytes = 1;
  for (int p = 0; p < k->nptr; p++) {
    double n = (double)dtype_bytes(k->ptr[p].type);
    for (int l = 0; l < k->nouter + k->ninner; l++)
      if (k->ptr[p].stride[l]) n *= (double)loop_rounds(k, l);
    bytes += n;
  }
  return bytes;
}

// Returns the upper limit of the units of a chunk. It is the number of all units unless an ACCUM of
// f32 has several elements, which are then in memory. In that case it is the larger of two numbers:
// the units that access twice KERNEL_CHUNK_BYTES, and the units of the kernel / KERNEL_CHUNKS.
int64_t kernel_chunk_units(const Kernel *k) {
  int64_t units = kernel_units(k), most = units, each;
  for (int s = 0; s < k->nstmts; s++) {
    if (k->stmt[s].kind != K_ACCUM || !stmt_folds(&k->stmt[s])) continue;
    if (row_elements(k, s, &each) == 1) continue;
    int64_t n = (int64_t)(2.0 * KERNEL_CHUNK_BYTES * (double)units / all_bytes(k)),
            part = ceil_div(units, KERNEL_CHUNKS);
    if (n < part) n = part;
    if (n < most) most = n;
  }
  return most;
}

bool kernel_accum_wide(const Kernel *k, int s) {
  int64_t each;
  if (k->images || !stmt_folds(&k->stmt[s]) || k->stmt[s].kind != K_ACCUM ||
      row_elements(k, s, &each) == 1)
    return false;
  return size_times(each, kernel_chunk_units(k)) > SUM_LEAF;
}

static bool accum_moves(const Kernel *k, int s, int l) {
  return l >= k->nouter && k->ptr[k->stmt[s].index].stride[l] != 0;
}

// Returns the product of the lengths of some loops: those from loop `first` on along which ACCUM
// statement s has several elements.
static int64_t accum_length(const Kernel *k, int s, int first) {
  int64_t n = 1;
  for (int l = first; l < k->nouter + k->ninner; l++)
    if (accum_moves(k, s, l)) n *= k->loop[l].size;
  return n;
}

int64_t accum_elements(const Kernel *k, int s) { return accum_length(k, s, k->nouter); }

int64_t accum_stride(const Kernel *k, int s, int l) {
  return accum_moves(k, s, l) ? accum_length(k, s, l + 1) : 0;
}

int64_t accum_row_bytes(const Kernel *k, int s) {
  return ceil_div(accum_elements(k, s) * dtype_bytes(k->stmt[s].type), 64) * 64;
}

int64_t accum_offset(const Kernel *k, int s) {
  int64_t at = 0;
  for (int i = 0; i < s; i++) {
    if (k->stmt[i].kind != K_ACCUM) continue;
    at += accum_row_bytes(k, i);
    if (kernel_accum_wide(k, i))
      at += ceil_div(accum_elements(k, i) * dtype_bytes(TYPE_F64), 64) * 64;
  }
  return at;
}
