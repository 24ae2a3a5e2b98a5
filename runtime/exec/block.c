// Blocks: which elements of a full tensor a processor holds, and where they are in its buffer.
//
// Several axes may split one dim: each splits the blocks of the previous axis (docs/decisions.md,
// 8). Elements of a block that are not padding are called valid. A visit goes over the valid
// elements in runs along the dim that is last in memory. It gives for each run of n elements the
// offset `at` in the block and the offset `index` in the full tensor, in declared order of dims:
//
//   x[b = 5, d = 3], b over 2 processors, processor 1: (at 0, index 9, n 3), (at 3, index 12, n 3)
#include "runtime/exec/exec_internal.h"

#include <string.h>

// Returns the length of a block of dim d after the first level + 1 of its axes have split it. In
// most dims this is the size of the dim, divided by the size of each of these axes in turn and
// rounded up. In dims made by split[] or merge[], this rule may not give d->block after the last
// axis. Then the length is d->block times the sizes of the remaining axes.
static int64_t level_block(const Mesh *m, const ProgDim *d, int level) {
  int64_t nested = d->whole, length = d->whole, inner = d->block;
  for (int i = 0; i < d->axes.n; i++) {
    nested = ceil_div(nested, m->axis[d->axes.at[i]].size);
    if (i == level) length = nested;
    if (i > level) inner *= m->axis[d->axes.at[i]].size;
  }
  return nested == d->block ? length : inner;
}

static void block_bounds(const Mesh *m, const ProgDim *d, int64_t r, int64_t rows, int64_t *offset,
                         int64_t *valid) {
  *offset = 0;
  *valid = rows;
  for (int i = 0; i < d->axes.n; i++) {
    int64_t length = level_block(m, d, i);
    int64_t skipped = mesh_coord(m, r, d->axes.at[i]) * length;
    *offset += skipped;
    *valid = clamp64(*valid - skipped, 0, length);
  }
}

int64_t block_offset(const Mesh *m, const ProgDim *d, int64_t r) {
  int64_t offset, valid;
  block_bounds(m, d, r, d->whole, &offset, &valid);
  return offset;
}

// Returns the number of elements of the full dim d. For the batch dim (Program.over) this is
// `rows`, unless `rows` is -1.
static int64_t dim_elements(const Program *p, const ProgDim *d, int64_t rows) {
  bool fewer = rows >= 0 && p->over && d->name && strcmp(p->over, d->name) == 0;
  return fewer ? rows : d->whole;
}

// Returns the number of valid elements of the full dim d. A dim that is made of the batch dim, as
// by a rename, has all elements of a whole batch in arrays, and valid ones in proportion to rows.
// Whatever a damaged package says, neither the array nor the block has fewer.
static int64_t valid_elements(const Program *p, const ProgDim *d, int64_t rows) {
  const Slot *s = d->extent >= 0 ? &p->slot[d->extent] : NULL;
  int64_t n = dim_elements(p, d, rows), most = n < d->whole ? n : d->whole;
  return s && s->batch ? clamp64(slot_valid(p, s, rows), 0, most) : most;
}

int64_t block_valid(const Program *p, const ProgDim *d, int64_t r, int64_t rows) {
  int64_t offset, valid;
  block_bounds(&p->mesh, d, r, valid_elements(p, d, rows), &offset, &valid);
  return valid;
}

int64_t block_full_bytes(const Program *p, const ProgTensor *t, int64_t rows) {
  int64_t n = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= dim_elements(p, &t->dim[d], rows);
  return n;
}

int64_t block_replica(const Mesh *m, const ProgTensor *t, int64_t r) {
  return axes_rank(m, tensor_replicated(m, t), r);
}
int64_t block_replicas(const Mesh *m, const ProgTensor *t) {
  return axes_size(m, tensor_replicated(m, t));
}
int64_t block_first(const Mesh *m, const ProgTensor *t, int64_t r) {
  return axes_peer(m, tensor_replicated(m, t), r, 0);
}

// Advances `counter`, an index in a box of `rank` dims, to the next index in row-major order.
// Advances *a and *b, the offsets of the element at that index in two arrays, accordingly. Returns
// false after the last index.
static bool next_in_box(int rank, const int64_t *size, int64_t *counter, const int64_t *a_stride,
                        int64_t *a, const int64_t *b_stride, int64_t *b) {
  for (int d = rank - 1; d >= 0; d--) {
    *a += a_stride[d];
    *b += b_stride[d];
    if (++counter[d] < size[d]) return true;
    *a -= counter[d] * a_stride[d];
    *b -= counter[d] * b_stride[d];
    counter[d] = 0;
  }
  return false;
}

void block_visit(const Program *p, const ProgTensor *t, int64_t r, int64_t rows, BlockRun *run,
                 void *context) {
  block_visit_part(p, t, r, rows, NULL, run, context);
}

// Sets the strides of the dims, which are in physical order, in the full tensor, or in a part of
// it: they are those of the declared order.
static void whole_strides(const Program *p, const ProgTensor *t, int64_t rows,
                          const BlockPart *part, int64_t *stride) {
  int64_t next = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->declared[i];
    stride[d] = next;
    next *= part && part->dim == d ? part->n : dim_elements(p, &t->dim[d], rows);
  }
}

void block_visit_part(const Program *p, const ProgTensor *t, int64_t r, int64_t rows,
                      const BlockPart *part, BlockRun *run, void *context) {
  int64_t valid[MAX_RANK], block_stride[MAX_RANK], whole_stride[MAX_RANK], counter[MAX_RANK] = {0};
  int64_t stride = 1, at = 0, index = 0;
  whole_strides(p, t, rows, part, whole_stride);
  for (int d = t->rank - 1; d >= 0; d--) {
    int64_t offset = block_offset(&p->mesh, &t->dim[d], r);
    block_stride[d] = stride;
    stride *= t->dim[d].block;
    valid[d] = block_valid(p, &t->dim[d], r, rows);
    if (part && part->dim == d) {
      int64_t from = clamp64(part->first - offset, 0, valid[d]);
      valid[d] = clamp64(part->first + part->n - offset, from, valid[d]) - from;
      at += from * block_stride[d];
      offset += from - part->first;
    }
    if (valid[d] == 0) return;
    index += offset * whole_stride[d];
  }
  int last = t->rank - 1;
  if (last < 0) {
    run(context, 0, 0, 1, 1);
    return;
  }
  do run(context, at, index, whole_stride[last], valid[last]);
  while (next_in_box(last, valid, counter, block_stride, &at, whole_stride, &index));
}

void box_copy(int rank, const int64_t *size, int64_t each, char *dst, const int64_t *dst_stride,
              const char *src, const int64_t *src_stride) {
  int64_t counter[MAX_RANK] = {0}, to = 0, from = 0, run = 1;
  int last = rank - 1;
  for (int d = 0; d < rank; d++)
    if (size[d] == 0) return;
  if (rank > 0 && dst_stride[last] == 1 && src_stride[last] == 1) run = size[last--];
  do memcpy(dst + to * each, src + from * each, (size_t)(run * each));
  while (next_in_box(last + 1, size, counter, dst_stride, &to, src_stride, &from));
}
