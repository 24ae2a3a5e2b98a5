// Programs: the values of run-time scalars (slots), searches in the list of tensors, the bytes that
// collectives send, the memory that a program needs, and the places that instructions refer to.
#include "ir/program/program.h"

#include <stddef.h>
#include <string.h>

const char *coll_text(CollKind k) {
  static const char *const text[COLL_COUNT] = {
#define COLL(id, text) text,
#include "ir/program/coll.def"
#undef COLL
  };
  return text[k];
}

int coll_rounds(CollKind k) { return k == COLL_ALL_REDUCE ? 2 : 1; }

int64_t coll_wire_bytes(CollKind k, int64_t group, int64_t bytes) {
  if (group <= 1) return 0;
  if (k == COLL_PERMUTE) return bytes;
  int64_t each = bytes / group, rest = bytes % group; // bytes * (group - 1) could overflow
  return coll_rounds(k) * each * (group - 1) + ceil_div(coll_rounds(k) * rest * (group - 1), group);
}

double coll_sent_share(CollKind k, double group) {
  return k == COLL_PERMUTE ? group > 1 : coll_rounds(k) * (group - 1) / group;
}

const InstrValue *program_instr_value(const Program *p, uint32_t i) {
  const InstrNote *note = p->note ? &p->note[i] : NULL;
  if (!note || !note->nvalues) return NULL;
  for (uint32_t k = 0; k < note->nvalues; k++)
    if (note->value[k].value) return &note->value[k];
  return &note->value[0];
}

const char *program_instr_name(const Program *p, uint32_t i, Pos *pos) {
  static const char *const kind[] = {
      [INSTR_KERNEL] = "kernel", [INSTR_GEMM] = "product", [INSTR_ORDERED] = "ordered",
      [INSTR_MATRIX] = "matrix", [INSTR_FILL] = "fill",    [INSTR_COPY] = "copy",
      [INSTR_COMMIT] = "commit", [INSTR_LOOP] = "loop",    [INSTR_END] = "end"};
  const InstrValue *made = program_instr_value(p, i);
  *pos = made ? made->pos : (Pos){0};
  if (made && made->value) return made->value;
  if (p->instr[i].kind == INSTR_COLLECTIVE) return coll_text(p->instr[i].u.collective.kind);
  return made ? made->op : kind[p->instr[i].kind];
}

// -- slots --------------------------------------------------------------------------------------

static bool same_name(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

// Computes the block that processor r has of the dim of slot s (a scalar that differs between
// processors). *offset gets the index of the block's first element, counted from the start of the
// block under the axes s->within. *valid gets its number of valid elements. `rows` is the valid
// length of the whole dim.
static void slot_block(const Mesh *m, const Slot *s, int64_t r, int64_t rows, int64_t *offset,
                       int64_t *valid) {
  int64_t length = s->whole;
  *offset = 0;
  *valid = rows;
  for (int i = 0; i < s->axes.n; i++) {
    int axis = s->axes.at[i];
    length = ceil_div(length, m->axis[axis].size);
    int64_t skipped = mesh_coord(m, r, axis) * length;
    if (i >= s->within.n) *offset += skipped;
    *valid = clamp64(*valid - skipped, 0, length);
  }
}

// Returns the elements that step `step` of its loop needs, or the mean if `step` is negative.
static int64_t live_count(const Slot *s, int64_t step) {
  int64_t sum = 0;
  if (step >= 0) return s->live[step < s->steps ? step : s->steps - 1];
  for (int64_t i = 0; i < s->steps; i++) sum += s->live[i];
  return ceil_div(sum, s->steps);
}

int64_t slot_valid(const Program *p, const Slot *s, int64_t rows) {
  if (rows < 0) return s->whole;
  if (s->batch) return ceil_div(rows * s->whole, s->batch);
  return same_name(p->over, s->dim) ? rows : s->whole;
}

// Returns the value of slot s (a scalar that differs between processors) on processor r, without
// the factor Slot.times.
static int64_t slot_base(const Program *p, const Slot *s, int64_t r, int64_t rows, int64_t step) {
  if (s->live)
    return ceil_div(live_count(s, step) * (s->scale ? s->scale : 1), s->div ? s->div : 1);
  int64_t offset, valid, value = 0, all = slot_valid(p, s, rows);
  if (s->footprint.affine.divisor) {
    footprint_interval(&p->mesh, &s->footprint, s->whole, r, &offset, &valid);
    valid = clamp64(all - offset, 0, valid);
  } else {
    slot_block(&p->mesh, s, r, all, &offset, &valid);
  }
  switch (s->kind) {
  case SLOT_EXTENT: value = valid; break;
  case SLOT_OFFSET: value = offset; break;
  case SLOT_RANK: value = axes_rank(&p->mesh, s->axes, r); break;
  }
  return ceil_div(value * (s->scale ? s->scale : 1), s->div ? s->div : 1);
}

Slot slot_of_dim(const DimTable *t, DimId d, SlotKind kind) {
  const Dim *dim = dim_get(t, d), *whole = dim_get(t, dim->whole);
  return (Slot){.kind = kind,
                .dim = whole->name,
                .whole = whole->size,
                .axes = dim->axes,
                .footprint = dim->footprint};
}

static bool footprint_equal(const Footprint *a, const Footprint *b) {
  return a->out_size == b->out_size && a->tap_size == b->tap_size &&
         axes_equal(a->out_axes, b->out_axes) && axes_equal(a->tap_axes, b->tap_axes) &&
         memcmp(&a->affine, &b->affine, sizeof a->affine) == 0;
}

bool slot_equal(const Slot *a, const Slot *b) {
  return a->kind == b->kind && strcmp(a->dim ? a->dim : "", b->dim ? b->dim : "") == 0 &&
         a->whole == b->whole && a->batch == b->batch && axes_equal(a->axes, b->axes) &&
         axes_equal(a->within, b->within) && a->scale == b->scale && a->div == b->div &&
         a->times == b->times && footprint_equal(&a->footprint, &b->footprint) &&
         a->live == b->live && a->loop == b->loop;
}

int64_t program_slot_in(const Program *p, int32_t s, int64_t r, int64_t rows, int64_t step) {
  int64_t value = 1;
  uint32_t links = 0;
  for (int32_t at = s; at >= 0; at = p->slot[at].times - 1) {
    if ((uint32_t)at >= p->nslots || links++ == p->nslots) BUG("slot %d has no value", (int)s);
    value *= slot_base(p, &p->slot[at], r, rows, step);
  }
  return value;
}

int64_t program_slot(const Program *p, int32_t s, int64_t r, int64_t rows) {
  return program_slot_in(p, s, r, rows, -1);
}

// Returns slot s, or a slot that is its factor, if it changes from step to step of a loop; else -1.
static int32_t live_link(const Program *p, int32_t s) {
  for (; s >= 0; s = p->slot[s].times - 1)
    if (p->slot[s].live) return s;
  return -1;
}

static int32_t live_of_set(const Program *p, const KernelLaunch *l, const KernelSet *set) {
  int32_t live = live_link(p, set->units.slot);
  for (int i = 0; i < p->kernel[l->kernel].nslot && live < 0; i++)
    live = live_link(p, set->slot[i]);
  return live;
}

int32_t program_live_slot(const Program *p, const Instr *in) {
  int32_t live = -1;
  if (in->kind == INSTR_KERNEL)
    for (uint32_t i = 0; i < in->u.kernel.nsets && live < 0; i++)
      live = live_of_set(p, &in->u.kernel, &in->u.kernel.set[i]);
  if (in->kind != INSTR_GEMM) return live;
  const Size sizes[] = {in->u.gemm.m, in->u.gemm.n, in->u.gemm.k};
  for (int i = 0; i < 3 && live < 0; i++) live = live_link(p, sizes[i].slot);
  for (int i = 0; i < in->u.gemm.nbatch && live < 0; i++)
    live = live_link(p, in->u.gemm.batch[i].count.slot);
  return live;
}

int32_t program_tensor(const Program *p, TensorKind kind, const char *name) {
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensor[i].kind == kind && strcmp(p->tensor[i].name, name) == 0) return (int32_t)i;
  return -1;
}

Axes tensor_replicated(const Mesh *m, const ProgTensor *t) {
  Axes rest = {0};
  for (int a = 0; a < m->naxes; a++) {
    bool splits = false;
    for (int d = 0; d < t->rank; d++) splits = splits || axes_has(t->dim[d].axes, a);
    if (!splits) rest.at[rest.n++] = (uint8_t)a;
  }
  return rest;
}

static int64_t size_on(const Program *p, Size s, int64_t r, int64_t rows) {
  return s.slot < 0 ? s.base : s.base * program_slot(p, s.slot, r, rows);
}

bool program_may_skip(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_LOOP && p->instr[i].u.loop.guarded) return true;
  return false;
}

void program_count(const Program *p, int64_t r, int64_t rows, ProgramCount part[2]) {
  int64_t times[LOOP_DEPTH + 1] = {1};
  int depth = 0, at = 0;
  memset(part, 0, 2 * sizeof *part);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    if (in->kind == INSTR_COMMIT) at = 1;
    if (in->kind == INSTR_END) depth--;
    if (in->kind == INSTR_LOOP) {
      if (depth == LOOP_DEPTH) BUG("loops nest deeper than %d", LOOP_DEPTH);
      times[depth + 1] = times[depth] * size_on(p, in->u.loop.count, r, rows);
      depth++;
    }
    if (in->kind != INSTR_COLLECTIVE) continue;
    const Collective *c = &in->u.collective;
    part[at].calls[c->kind] += times[depth];
    part[at].bytes[c->kind] += times[depth] * c->bytes;
    part[at].wire_bytes[c->kind] += times[depth] * c->wire_bytes;
  }
}

void program_count_add(ProgramCount *sum, const ProgramCount *x) {
  for (int k = 0; k < COLL_COUNT; k++) {
    sum->calls[k] += x->calls[k];
    sum->bytes[k] += x->bytes[k];
    sum->wire_bytes[k] += x->wire_bytes[k];
  }
}

int64_t program_bytes(const Program *p) {
  int64_t bytes = p->arena_bytes;
  for (uint32_t t = 0; t < p->ntensors; t++)
    if (tensor_is_persistent(p, t))
      bytes += ceil_div(p->tensor[t].bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
  return bytes;
}

// Returns the largest value that a size has on a processor.
static int64_t most_on(const Program *p, Size s) {
  int64_t most = 0;
  for (int64_t r = 0; r < mesh_size(&p->mesh); r++) {
    int64_t n = size_on(p, s, r, -1);
    if (n > most) most = n;
  }
  return most;
}

static int64_t scratch_of(const Program *p, const Ordered *o) {
  if (o->kind != ORDERED_ARGSORT && o->kind != ORDERED_TOP_K) return 0;
  return ceil_div(2 * most_on(p, o->n) * ORDERED_ENTRY, MEMORY_ALIGN) * MEMORY_ALIGN;
}

static int64_t most_of(Size s) { return s.slot < 0 ? s.base : INT64_MAX; }

// Returns the most columns that the right-hand side of a solution has on a processor.
static int64_t matrix_right(const Program *p, const MatrixCall *m) {
  int64_t n = matrix_rows[m->kind].result == MATRIX_SOLUTION;
  for (int i = 0; i < m->nright; i++) n *= most_on(p, m->right[i].count);
  return n;
}

static int64_t matrix_scratch(const Program *p, const MatrixCall *m) {
  MatrixSizes s = {m->m, m->n, matrix_right(p, m)};
  int64_t bytes = matrix_room(m->kind, &s) * (int64_t)sizeof(double);
  return ceil_div(bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
}

static int64_t scratch_of_gemm(const Gemm *g) {
  return gemm_scratch(g, most_of(g->m), most_of(g->n), most_of(g->k));
}

int64_t program_scratch(const Program *p) {
  int64_t most = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    int64_t bytes = in->kind == INSTR_ORDERED  ? scratch_of(p, &in->u.ordered)
                    : in->kind == INSTR_MATRIX ? matrix_scratch(p, &in->u.matrix)
                    : in->kind == INSTR_GEMM   ? scratch_of_gemm(&in->u.gemm)
                                               : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

Program *program_of_values(Arena *a, const Program *all, bool slots) {
  Program *p = arena_copy(a, all, sizeof *p);
  p->tensor = arena_array(a, ProgTensor, all->ntensors + 1);
  p->ntensors = p->ninstrs = p->nkernels = p->nchecks = 0;
  p->arena_bytes = 0;
  for (uint32_t i = 0; i < all->ntensors; i++) {
    TensorKind kind = all->tensor[i].kind;
    if (kind != TENSOR_PARAM && kind != TENSOR_STATE && !(slots && kind == TENSOR_SLOT)) continue;
    p->tensor[p->ntensors] = all->tensor[i];
    p->tensor[p->ntensors].at.tensor = (int32_t)p->ntensors;
    p->tensor[p->ntensors++].of = -1;
  }
  return p;
}

int64_t ref_moved(Ref r, int depth, const int64_t *at) {
  int64_t bytes = 0;
  for (int i = 0; r.stride && i < depth; i++) bytes += at[i] * r.stride[i];
  return bytes;
}

// -- places ---------------------------------------------------------------------------------------

// The places of an instruction, beside those that are lists or may be absent.
#define AT(member) offsetof(Instr, u.member)
static const struct {
  int n;
  size_t at[3];
} places_of[] = {
    [INSTR_GEMM] = {3, {AT(gemm.a), AT(gemm.b), AT(gemm.c)}},
    [INSTR_ORDERED] = {2, {AT(ordered.src), AT(ordered.dst)}},
    [INSTR_MATRIX] = {3, {AT(matrix.a), AT(matrix.b), AT(matrix.dst)}},
    [INSTR_FILL] = {1, {AT(fill.dst)}},
    [INSTR_COPY] = {2, {AT(copy.dst), AT(copy.src)}},
    [INSTR_END] = {0},
};
#undef AT

static void launch_refs(KernelLaunch *l, int nptr, VisitRef *visit, void *context) {
  for (uint32_t s = 0; s < l->nsets; s++)
    for (int p = 0; p < nptr; p++) visit(context, &l->set[s].ptr[p]);
  if (l->partial.offset >= 0) visit(context, &l->partial);
}

void instr_refs(Instr *in, int nptr, VisitRef *visit, void *context) {
  for (int i = 0; i < places_of[in->kind].n; i++)
    visit(context, (Ref *)(void *)((char *)in + places_of[in->kind].at[i]));
  if (in->kind == INSTR_KERNEL) launch_refs(&in->u.kernel, nptr, visit, context);
  for (int x = 0; in->kind == INSTR_GEMM && x < GEMM_EXTRAS; x++)
    if (gemm_extra(&in->u.gemm, x)) visit(context, gemm_extra(&in->u.gemm, x));
  for (uint32_t p = 0; in->kind == INSTR_COLLECTIVE && p < in->u.collective.nparts; p++) {
    visit(context, &in->u.collective.part[p].src);
    visit(context, &in->u.collective.part[p].dst);
  }
  if (in->kind == INSTR_LOOP && in->u.loop.guarded) visit(context, &in->u.loop.guard);
  if (in->kind == INSTR_END && in->u.end.stops) visit(context, &in->u.end.alive);
}
