// Decides which updates the processors with equal parameters divide among them.
//
// A parameter that is replicated over an axis has equal blocks on all processors along it. Those
// that run on one machine share one block in memory, and each updates a part of it ("weight update
// sharding": Xu et al., "Automatic cross-replica sharding of weight update in data-parallel
// training", 2020; with shared memory nothing is gathered afterwards):
//
//   each its own    all_reduce(g) to 0 and 1   0: w = f(w, g)          1: w' = f(w', g')
//   divided         all_reduce(g) to 0         0: w[0..n/2) = f(w, g)  1: w[n/2..n) = f(w, g)
//
// A divided set runs with the operands of the first of these processors. Its kernel has no
// accumulators, and it writes nothing but tensors that are shared in the same way. Where an update
// is sharded and its result gathered, the processors gather into the shared block, once:
//
//   each its own    all_gather(p) to w and w'
//   shared          all_gather(p) to w
//
// A tensor is shared if divided sets and such all_gathers alone write it.
//
// Input: the instructions, before buffers have offsets. Output: ProgTensor.shared,
// KernelSet.divided, CollPart.once.
#include "codegen/program/program_internal.h"

// By tensor: processors with equal blocks may still share it. The search starts with all tensors
// that a kernel writes, and takes away those that other instructions write, until nothing changes.
typedef struct Sharing {
  Builder *b;
  bool *shared;
  bool changed;
} Sharing;

// -- which tensors are shared ------------------------------------------------------------------

static Axes replicated(const Builder *b, int32_t tensor) {
  return tensor_replicated(b->g->mesh, &b->tensor.at[tensor]);
}

static void keep_apart(Sharing *s, Ref written) {
  if (written.tensor < 0 || !s->shared[written.tensor]) return;
  s->shared[written.tensor] = false;
  s->changed = true;
}

// Returns the first persistent tensor that a set of arguments of kernel k writes; -1 if there is
// none.
static int32_t first_written(const Kernel *k, const KernelSet *set) {
  for (int p = 0; p < k->nptr; p++)
    if (k->ptr[p].written && set->ptr[p].tensor >= 0) return set->ptr[p].tensor;
  return -1;
}

// Returns whether processors can divide a set of kernel k, as far as is known.
static bool divisible(const Sharing *s, const ProgKernel *code, const Kernel *k,
                      const KernelSet *set) {
  int32_t first = first_written(k, set);
  if (first < 0 || code->partial_bytes) return false;
  Axes axes = replicated(s->b, first);
  for (int p = 0; p < k->nptr; p++) {
    int32_t t = set->ptr[p].tensor;
    if (!k->ptr[p].written) continue;
    if (t < 0 || !s->shared[t] || set->ptr[p].stride || !axes_equal(replicated(s->b, t), axes))
      return false;
  }
  return axes_size(s->b->g->mesh, axes) > 1;
}

// Returns the bytes of all tensors that a launch writes.
static int64_t bytes_written(const Builder *b, const KernelLaunch *l) {
  const Kernel *k = b->kernels.at[l->kernel];
  int64_t bytes = 0;
  for (uint32_t i = 0; i < l->nsets; i++)
    for (int p = 0; p < k->nptr; p++)
      if (k->ptr[p].written && l->set[i].ptr[p].tensor >= 0)
        bytes += b->tensor.at[l->set[i].ptr[p].tensor].bytes;
  return bytes;
}

// Takes away the tensors that a launch writes in sets that cannot be divided. A launch that writes
// little is not divided: a meeting of all processors costs more.
static void check_launch(Sharing *s, const KernelLaunch *l) {
  const Kernel *k = s->b->kernels.at[l->kernel];
  bool small = bytes_written(s->b, l) < SOLO_BYTES;
  for (uint32_t i = 0; i < l->nsets; i++) {
    if (!small && divisible(s, &s->b->kernel.at[l->kernel], k, &l->set[i])) continue;
    for (int p = 0; p < k->nptr; p++)
      if (k->ptr[p].written) keep_apart(s, l->set[i].ptr[p]);
  }
}

// Returns whether part i of a collective gathers a tensor whose blocks all members of a group have:
// all write the same values, and all have read the former ones before the first writes.
static bool gathers(const Builder *b, const Collective *c, uint32_t i) {
  Ref dst = c->part[i].dst;
  return c->kind == COLL_ALL_GATHER && dst.tensor >= 0 && !dst.stride &&
         axes_equal(replicated(b, dst.tensor), c->axes);
}

static void check_instr(Sharing *s, const Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: check_launch(s, &in->u.kernel); break;
  case INSTR_GEMM:
    keep_apart(s, in->u.gemm.c);
    if (gemm_writes_extra(&in->u.gemm, GEMM_AUX)) keep_apart(s, *gemm_extra(&in->u.gemm, GEMM_AUX));
    break;
  case INSTR_ORDERED: keep_apart(s, in->u.ordered.dst); break;
  case INSTR_MATRIX: keep_apart(s, in->u.matrix.dst); break;
  case INSTR_FILL: keep_apart(s, in->u.fill.dst); break;
  case INSTR_COPY: keep_apart(s, in->u.copy.dst); break;
  case INSTR_COLLECTIVE:
    for (uint32_t p = 0; p < in->u.collective.nparts; p++)
      if (!gathers(s->b, &in->u.collective, p)) keep_apart(s, in->u.collective.part[p].dst);
    break;
  case INSTR_COMMIT:
  case INSTR_LOOP:
  case INSTR_END: break;
  }
}

static void find_shared(Sharing *s) {
  do {
    s->changed = false;
    for (uint32_t i = 0; i < s->b->instr.n; i++) check_instr(s, &s->b->instr.at[i]);
  } while (s->changed);
}

// Marks the sets that are divided, and the tensors that they write.
static void mark_launch(Sharing *s, KernelLaunch *l) {
  const Kernel *k = s->b->kernels.at[l->kernel];
  for (uint32_t i = 0; i < l->nsets; i++) {
    KernelSet *set = &l->set[i];
    if (!divisible(s, &s->b->kernel.at[l->kernel], k, set)) continue;
    set->divided = 1 + first_written(k, set);
    for (int p = 0; p < k->nptr; p++)
      if (k->ptr[p].written) s->b->tensor.at[set->ptr[p].tensor].shared = true;
  }
}

// Marks the parts of a collective that gather a shared tensor.
static void mark_gather(Sharing *s, Collective *c) {
  for (uint32_t i = 0; i < c->nparts; i++) {
    int32_t t = c->part[i].dst.tensor;
    if (!gathers(s->b, c, i) || !s->shared[t]) continue;
    s->b->tensor.at[t].shared = true;
    c->part[i].once = 1 + t;
  }
}

// -- which collectives have one result ----------------------------------------------------------

// By buffer: the tensor of the divided sets that use it, 1 + its index. 0: no use was seen,
// APART: others use it, too.
typedef int32_t BufferUse;
enum { APART = -1 };

static void note_use(Builder *b, BufferUse *use, Ref r, int32_t divided) {
  if (r.tensor >= 0) return;
  BufferUse *u = &use[r.offset];
  bool same =
      divided && (!*u || (*u > 0 && axes_equal(replicated(b, *u - 1), replicated(b, divided - 1))));
  *u = same ? divided : APART;
}

static void note_instr(Builder *b, BufferUse *use, const Instr *in) {
  const KernelLaunch *l = &in->u.kernel;
  for (uint32_t s = 0; in->kind == INSTR_KERNEL && s < l->nsets; s++)
    for (int p = 0; p < b->kernel.at[l->kernel].nptr; p++)
      note_use(b, use, l->set[s].ptr[p], l->set[s].divided);
  if (in->kind == INSTR_GEMM) {
    note_use(b, use, in->u.gemm.a, 0);
    note_use(b, use, in->u.gemm.b, 0);
    for (int x = 0; x < GEMM_EXTRAS; x++)
      if (gemm_extra(&in->u.gemm, x)) note_use(b, use, *gemm_extra(&in->u.gemm, x), 0);
  }
  if (in->kind == INSTR_ORDERED) note_use(b, use, in->u.ordered.src, 0);
  if (in->kind == INSTR_MATRIX) {
    note_use(b, use, in->u.matrix.a, 0);
    note_use(b, use, in->u.matrix.b, 0);
  }
  if (in->kind == INSTR_COPY) note_use(b, use, in->u.copy.src, 0);
  for (uint32_t p = 0; in->kind == INSTR_COLLECTIVE && p < in->u.collective.nparts; p++)
    note_use(b, use, in->u.collective.part[p].src, 0);
}

static bool axes_within(Axes some, Axes all) {
  for (int i = 0; i < some.n; i++)
    if (!axes_has(all, some.at[i])) return false;
  return true;
}

static void mark_parts(Builder *b, const BufferUse *use, Collective *c) {
  for (uint32_t i = 0; c->kind == COLL_ALL_REDUCE && i < c->nparts; i++) {
    CollPart *p = &c->part[i];
    if (p->dst.tensor >= 0 || p->dst.stride || b->buffer.at[p->dst.offset].kept) continue;
    BufferUse u = use[p->dst.offset];
    if (u > 0 && axes_within(c->axes, replicated(b, u - 1))) p->once = u;
  }
}

void updates_divide(Builder *b) {
  if (mesh_size(b->g->mesh) == 1) return;
  Sharing s = {.b = b, .shared = arena_array(b->a, bool, b->tensor.n + 1)};
  for (uint32_t t = 0; t < b->tensor.n; t++) s.shared[t] = b->tensor.at[t].at.tensor == (int32_t)t;
  find_shared(&s);
  BufferUse *use = arena_array(b->a, BufferUse, b->buffer.n + 1);
  for (uint32_t i = 0; i < b->instr.n; i++) {
    if (b->instr.at[i].kind == INSTR_KERNEL) mark_launch(&s, &b->instr.at[i].u.kernel);
    if (b->instr.at[i].kind == INSTR_COLLECTIVE) mark_gather(&s, &b->instr.at[i].u.collective);
    note_instr(b, use, &b->instr.at[i]);
  }
  for (uint32_t i = 0; i < b->instr.n; i++)
    if (b->instr.at[i].kind == INSTR_COLLECTIVE) mark_parts(b, use, &b->instr.at[i].u.collective);
}
