// Finds the values of a step that processors of one process keep once for all of them.
//
// A value that is replicated over an axis is equal on all processors along it. If these processors
// are threads of one process, one copy is enough: it is in the work arena of the first of them, and
// they divide the kernels that compute it.
//
//   each its own    all_reduce(y) to 0 and 1   0: g = f(y)          1: g' = f(y')
//   in common       all_reduce(y) to 0         0: g[0..n/2) = f(y)  1: g[n/2..n) = f(y)
//
// A value can be common if each of these writes it, outside of loops: the feed of an input, an
// all_reduce or all_gather along the same axes, or a kernel all of whose results are common. All
// processors meet before such an instruction, so that nobody still needs what it overwrites, and
// after it, so that nobody reads results that are not complete. Where the first processor
// overwrites a value before the next meeting, others may still read it: such a value is not common.
// So common values need no more memory than others.
//
// Two sets of axes belong to each buffer. Along those of `alike` its value is equal on all
// processors; that follows from what it is computed from. Those of `common` are a part of them, as
// far as the instructions that write it allow. Both begin with all axes and lose some until nothing
// changes.
//
// Input: the instructions and the offsets of buffers. Output: PlanBuffer.common, from which
// plan_memory sets Ref.common, and KernelLaunch.common.
#include "codegen/program/program_internal.h"

enum {
  LEAST_BYTES = SOLO_BYTES, // to compute less alike costs no more than a meeting
  MOST_BIRTHS = 64,         // values that are looked at before the next meeting
  ROUNDS = 16               // after so many rounds in which values are taken away, all are
};

struct Common {
  Builder *b;
  uint32_t *root; // by buffer: whose memory it is a part of, or has from round to round of a loop
  uint32_t *last; // by root: the last instruction that uses its value
  AxisSet *alike, *common; // by root
  bool *written;           // by root: an instruction or a feed writes it
  AxisSet read;            // along which all operands of the current instruction are alike
  int loops;               // number of loops around it
  AxisSet same_rounds;     // along which these loops have the same number of rounds
  bool changed;
};

static int64_t least_bytes(const Common *c) {
  int64_t least = c->b->opt->common_bytes;
  return least ? least : LEAST_BYTES;
}

static uint32_t memory_of(const Common *c, int64_t buffer) { return c->root[buffer]; }

static void keep_only(Common *c, AxisSet *set, AxisSet some) {
  if (!(*set & ~some)) return;
  *set &= some;
  c->changed = true;
}

// -- along which axes values are alike -----------------------------------------------------------

static AxisSet footprint_axes(const Footprint *f) {
  return f->affine.divisor ? axis_set(f->out_axes) | axis_set(f->tap_axes) : 0;
}

// Returns the axes along which slot s, a number of the program, may differ.
static AxisSet slot_axes(const Builder *b, int32_t s) {
  AxisSet all = 0;
  for (; s >= 0; s = b->slot.at[s].times - 1) {
    const Slot *x = &b->slot.at[s];
    all |= axis_set(x->axes) | axis_set(x->within) | footprint_axes(&x->footprint);
  }
  return all;
}

static AxisSet tensor_alike(const Builder *b, int32_t t) {
  return axis_set(tensor_replicated(b->g->mesh, &b->tensor.at[t]));
}

static AxisSet ref_alike(const Common *c, Ref r) {
  return r.tensor >= 0 ? tensor_alike(c->b, r.tensor) : c->alike[memory_of(c, r.offset)];
}

static void size_read(Common *c, Size s) { c->read &= ~slot_axes(c->b, s.slot); }

static void ref_read(void *common, Ref *r) {
  Common *c = common;
  c->read &= ref_alike(c, *r);
}

static void written(Common *c, Ref r, AxisSet alike) {
  if (r.tensor < 0) keep_only(c, &c->alike[memory_of(c, r.offset)], alike);
}

static void kernel_alike(Common *c, const KernelLaunch *l) {
  const Kernel *k = c->b->kernels.at[l->kernel];
  for (uint32_t s = 0; s < l->nsets; s++) {
    size_read(c, l->set[s].units);
    for (int i = 0; i < c->b->kernel.at[l->kernel].nslot; i++)
      c->read &= ~slot_axes(c->b, l->set[s].slot[i]);
  }
  for (uint32_t s = 0; s < l->nsets; s++)
    for (int p = 0; p < k->nptr; p++)
      if (k->ptr[p].written) written(c, l->set[s].ptr[p], c->read);
}

static void gemm_alike(Common *c, const Gemm *g) {
  size_read(c, g->m);
  size_read(c, g->n);
  size_read(c, g->k);
  for (int i = 0; i < g->nbatch; i++) size_read(c, g->batch[i].count);
  written(c, g->c, c->read);
  if (gemm_writes_extra(g, GEMM_AUX)) written(c, *gemm_extra(g, GEMM_AUX), c->read);
}

static void ordered_alike(Common *c, const Ordered *o) {
  size_read(c, o->n);
  for (int i = 0; i < o->nrows; i++) size_read(c, o->row[i].count);
  written(c, o->dst, c->read);
}

static void matrix_alike(Common *c, const MatrixCall *m) {
  for (int i = 0; i < m->nbatch; i++) size_read(c, m->batch[i].count);
  for (int i = 0; i < m->nright; i++) size_read(c, m->right[i].count);
  written(c, m->dst, c->read);
}

// Returns along which axes result p of a collective is alike.
static AxisSet result_alike(const Common *c, const Collective *w, const CollPart *p) {
  AxisSet before = ref_alike(c, p->src), group = axis_set(w->axes);
  for (int d = 0; d < p->rank; d++) {
    before &= ~(slot_axes(c->b, p->src_valid[d].slot) & ~group);
    before &= ~(slot_axes(c->b, p->dst_valid[d].slot) & ~group);
  }
  if (w->kind == COLL_ALL_REDUCE || w->kind == COLL_ALL_GATHER) return before | group;
  return w->kind == COLL_PERMUTE ? 0 : before & ~group;
}

static void instr_alike(Common *c, Instr *in) {
  int nptr = in->kind == INSTR_KERNEL ? c->b->kernel.at[in->u.kernel.kernel].nptr : 0;
  c->read = c->same_rounds;
  if (in->kind != INSTR_COLLECTIVE) instr_refs(in, nptr, ref_read, c);
  switch (in->kind) {
  case INSTR_KERNEL: kernel_alike(c, &in->u.kernel); break;
  case INSTR_GEMM: gemm_alike(c, &in->u.gemm); break;
  case INSTR_ORDERED: ordered_alike(c, &in->u.ordered); break;
  case INSTR_MATRIX: matrix_alike(c, &in->u.matrix); break;
  case INSTR_COPY: written(c, in->u.copy.dst, c->read); break;
  case INSTR_COLLECTIVE:
    for (uint32_t p = 0; p < in->u.collective.nparts; p++) {
      const CollPart *part = &in->u.collective.part[p];
      written(c, part->dst, result_alike(c, &in->u.collective, part));
    }
    break;
  case INSTR_FILL:
  case INSTR_COMMIT:
  case INSTR_LOOP:
  case INSTR_END: break;
  }
}

static void loop_alike(Common *c, const Instr *in) {
  if (in->kind == INSTR_LOOP) {
    c->loops++;
    c->same_rounds &= ~slot_axes(c->b, in->u.loop.count.slot);
  }
  if (in->kind == INSTR_END && --c->loops == 0) c->same_rounds = ~(AxisSet)0;
}

// -- which values are common ---------------------------------------------------------------------

static void written_in_common(Common *c, Ref r, AxisSet axes) {
  if (r.tensor >= 0) return;
  c->written[memory_of(c, r.offset)] = true;
  keep_only(c, &c->common[memory_of(c, r.offset)], axes);
}

// Returns along which axes processors may divide launch l, whose results are common: 0 along none.
static AxisSet launch_axes(const Common *c, const KernelLaunch *l) {
  const Kernel *k = c->b->kernels.at[l->kernel];
  AxisSet axes = ~(AxisSet)0;
  int64_t bytes = 0;
  for (uint32_t s = 0; s < l->nsets; s++)
    for (int p = 0; p < k->nptr; p++) {
      Ref r = l->set[s].ptr[p];
      if (!k->ptr[p].written) continue;
      if (r.tensor >= 0 || r.stride || l->set[s].divided) return 0;
      axes &= c->common[memory_of(c, r.offset)];
      bytes += c->b->buffer.at[r.offset].bytes;
    }
  return c->loops || bytes < least_bytes(c) ? 0 : axes;
}

static void launch_in_common(Common *c, const KernelLaunch *l) {
  const Kernel *k = c->b->kernels.at[l->kernel];
  AxisSet axes = launch_axes(c, l);
  for (uint32_t s = 0; s < l->nsets; s++)
    for (int p = 0; p < k->nptr; p++)
      if (k->ptr[p].written) written_in_common(c, l->set[s].ptr[p], axes);
}

// Returns along which axes part p of a collective has one result for all.
static AxisSet part_axes(const Common *c, const Collective *w, const CollPart *p) {
  if (c->loops || p->once || p->dst.tensor >= 0 || p->dst.stride) return 0;
  if (w->kind != COLL_ALL_REDUCE && w->kind != COLL_ALL_GATHER) return 0;
  AxisSet group = axis_set(w->axes), axes = c->common[memory_of(c, p->dst.offset)];
  bool small = c->b->buffer.at[p->dst.offset].bytes < least_bytes(c);
  return small || (axes & group) != group ? 0 : group;
}

static void instr_in_common(Common *c, Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: launch_in_common(c, &in->u.kernel); break;
  case INSTR_COLLECTIVE:
    for (uint32_t p = 0; p < in->u.collective.nparts; p++) {
      const CollPart *part = &in->u.collective.part[p];
      written_in_common(c, part->dst, part_axes(c, &in->u.collective, part));
    }
    break;
  case INSTR_GEMM:
    written_in_common(c, in->u.gemm.c, 0);
    if (gemm_writes_extra(&in->u.gemm, GEMM_AUX))
      written_in_common(c, *gemm_extra(&in->u.gemm, GEMM_AUX), 0);
    break;
  case INSTR_ORDERED: written_in_common(c, in->u.ordered.dst, 0); break;
  case INSTR_MATRIX: written_in_common(c, in->u.matrix.dst, 0); break;
  case INSTR_FILL: written_in_common(c, in->u.fill.dst, 0); break;
  case INSTR_COPY: written_in_common(c, in->u.copy.dst, 0); break;
  case INSTR_COMMIT:
  case INSTR_LOOP:
  case INSTR_END: break;
  }
}

// -- all instructions ----------------------------------------------------------------------------

typedef void InstrRule(Common *c, Instr *in);

// Applies a rule to all instructions until nothing changes.
static void settle(Common *c, InstrRule *rule) {
  do {
    c->changed = false;
    c->loops = 0;
    c->same_rounds = ~(AxisSet)0;
    for (uint32_t i = 0; i < c->b->instr.n; i++) {
      loop_alike(c, &c->b->instr.at[i]);
      rule(c, &c->b->instr.at[i]);
    }
  } while (c->changed);
}

static void inputs_alike(Common *c) {
  for (uint32_t t = 0; t < c->b->tensor.n; t++) {
    const ProgTensor *x = &c->b->tensor.at[t];
    if (x->kind == TENSOR_INPUT) written(c, x->at, tensor_alike(c->b, (int32_t)t));
  }
}

// The feed of an input writes it between two steps.
static void inputs_in_common(Common *c) {
  for (uint32_t t = 0; t < c->b->tensor.n; t++) {
    const ProgTensor *x = &c->b->tensor.at[t];
    if (x->kind == TENSOR_INPUT)
      written_in_common(c, x->at, x->bytes < least_bytes(c) ? 0 : ~(AxisSet)0);
  }
}

// Returns the axes if there are several processors along them, otherwise 0.
static AxisSet several(const Builder *b, AxisSet axes) {
  return axes_size(b->g->mesh, axis_set_list(axes)) > 1 ? axes : 0;
}

// -- values that others still read ---------------------------------------------------------------

static bool all_meet(const Common *c, const Instr *in) {
  const KernelLaunch *l = &in->u.kernel;
  if (in->kind != INSTR_KERNEL) return in->kind == INSTR_COLLECTIVE || in->kind == INSTR_COMMIT;
  for (uint32_t s = 0; s < l->nsets; s++)
    if (l->set[s].divided) return true;
  return several(c->b, launch_axes(c, l)) != 0;
}

// Returns by instruction the first meeting of all from it on. A meeting in a loop may not take
// place, so it does not count.
static uint32_t *meetings(Arena *a, const Common *c) {
  uint32_t n = c->b->instr.n, next = n, *meeting = arena_array(a, uint32_t, n + 1);
  int loops = 0;
  for (uint32_t i = n; i-- > 0;) {
    const Instr *in = &c->b->instr.at[i];
    loops += (in->kind == INSTR_END) - (in->kind == INSTR_LOOP);
    if (loops == 0 && all_meet(c, in)) next = i;
    meeting[i] = next;
  }
  meeting[n] = n;
  return meeting;
}

// The roots in the order of the instructions that write them first: those of instruction i are
// root[at[i] .. at[i + 1]).
typedef struct Births {
  uint32_t *at, *root;
} Births;

static Births births_of(Arena *a, const Common *c) {
  const Builder *b = c->b;
  Births out = {arena_array(a, uint32_t, b->instr.n + 3),
                arena_array(a, uint32_t, b->buffer.n + 1)};
  for (uint32_t i = 0; i < b->buffer.n; i++)
    if (memory_of(c, i) == i) out.at[b->buffer.at[i].first + 2]++;
  for (uint32_t i = 2; i < b->instr.n + 3; i++) out.at[i] += out.at[i - 1];
  for (uint32_t i = 0; i < b->buffer.n; i++)
    if (memory_of(c, i) == i) out.root[out.at[b->buffer.at[i].first + 1]++] = i;
  return out;
}

static bool overlap(const PlanBuffer *x, const PlanBuffer *y) {
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

// Returns whether the first processor overwrites common value v while others may still read it:
// after the last instruction that uses v and before the next meeting, or in place, unless the
// result is common to the same processors.
static bool is_overwritten(const Common *c, const Births *births, const uint32_t *meeting,
                           uint32_t v) {
  const PlanBuffer *all = c->b->buffer.at;
  uint32_t last = c->last[v], end = last < c->b->instr.n ? meeting[last] : last;
  uint32_t from = births->at[last], to = births->at[end > last ? end : last + 1];
  if (last >= c->b->instr.n) return false;
  if (to - from > MOST_BIRTHS) return true;
  for (uint32_t i = from; i < to; i++) {
    uint32_t x = births->root[i];
    bool in_place = all[x].first == last && c->common[x] == c->common[v];
    if (x != v && overlap(&all[x], &all[v]) && !in_place) return true;
  }
  return false;
}

// Takes such values away. Returns whether there were any.
static bool take_overwritten(Common *c) {
  Arena *scratch = arena_new();
  Births births = births_of(scratch, c);
  const uint32_t *meeting = meetings(scratch, c);
  bool any = false;
  for (uint32_t i = 0; i < c->b->buffer.n; i++) {
    if (memory_of(c, i) != i || !c->common[i] || !is_overwritten(c, &births, meeting, i)) continue;
    c->common[i] = 0;
    any = true;
  }
  arena_free(scratch);
  return any;
}

// -- all of it -----------------------------------------------------------------------------------

Common *common_begin(Builder *b) {
  if (mesh_size(b->g->mesh) == 1 || b->opt->gpu) return NULL;
  Common *c = arena_new_of(b->a, Common);
  uint32_t n = b->buffer.n + 1;
  *c = (Common){.b = b,
                .root = arena_array(b->a, uint32_t, n),
                .last = arena_array(b->a, uint32_t, n),
                .alike = arena_array(b->a, AxisSet, n),
                .common = arena_array(b->a, AxisSet, n),
                .written = arena_array(b->a, bool, n)};
  for (uint32_t i = 0; i < b->buffer.n; i++) {
    c->root[i] = plan_owner(b, i);
    c->last[i] = b->buffer.at[i].last;
  }
  return c;
}

void common_find(Common *c) {
  if (!c) return;
  Builder *b = c->b;
  for (uint32_t i = 0; i < b->buffer.n; i++) c->alike[i] = axis_set(mesh_axes(b->g->mesh));
  inputs_alike(c);
  settle(c, instr_alike);
  for (uint32_t i = 0; i < b->buffer.n; i++) c->common[i] = several(b, c->alike[i]);
  inputs_in_common(c);
  settle(c, instr_in_common);
  for (uint32_t i = 0; i < b->buffer.n; i++)
    c->common[i] = c->written[i] ? several(b, c->common[i]) : 0;
  for (int round = 0; take_overwritten(c); round++) {
    settle(c, instr_in_common);
    for (uint32_t i = 0; i < b->buffer.n && round == ROUNDS; i++) c->common[i] = 0;
  }
  for (uint32_t i = 0; i < b->buffer.n; i++) b->buffer.at[i].common = c->common[memory_of(c, i)];
  for (uint32_t i = 0; i < b->instr.n; i++) {
    loop_alike(c, &b->instr.at[i]);
    KernelLaunch *l = &b->instr.at[i].u.kernel;
    if (b->instr.at[i].kind == INSTR_KERNEL) l->common = several(b, launch_axes(c, l));
  }
}
