// Programs: the values of run-time scalars (slots), searches in the list of tensors, and the text
// of a program.
//
//   tensor 0 param w : f32[d = 8/8, h = 16/8 over cols] 256 bytes at t0+0  # model.mesh
//   0 kernel k3 units=64 set 0: p = t0+0, work+128; slots = s0
#include "ir/program/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/stream.h"

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

int64_t program_scratch(const Program *p) {
  int64_t most = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    int64_t bytes =
        in->kind == INSTR_ORDERED  ? scratch_of(p, &in->u.ordered)
        : in->kind == INSTR_MATRIX ? matrix_scratch(p, &in->u.matrix)
        : in->kind == INSTR_GEMM
            ? gemm_scratch(in->u.gemm.factors, most_of(in->u.gemm.n), most_of(in->u.gemm.k))
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

// -- text ---------------------------------------------------------------------------------------

typedef struct Out {
  const Program *p;
  FILE *file;
  Arena *a; // texts that are parts of lines; freed after printing
} Out;

#define put(o, ...) fprintf((o)->file, __VA_ARGS__)
#define text_of(o, ...) arena_printf((o)->a, __VA_ARGS__)

static const char *or_dash(const char *text) { return text ? text : "-"; }

static const char *ref_text(const Out *o, Ref r) {
  const char *common =
      r.common ? text_of(o, "(%s)", axes_text(o->a, &o->p->mesh, axis_set_list(r.common))) : "";
  const char *text = r.tensor < 0 ? text_of(o, "work%s+%" PRId64, common, r.offset)
                                  : text_of(o, "t%" PRId32 "+%" PRId64, r.tensor, r.offset);
  for (int i = 0; r.stride && i < LOOP_DEPTH; i++)
    if (r.stride[i]) text = text_of(o, "%s+%" PRId64 "*step%d", text, r.stride[i], i);
  return text;
}

static const char *size_text(const Out *o, Size s) {
  if (s.slot < 0) return text_of(o, "%" PRId64, s.base);
  return s.base == 1 ? text_of(o, "s%" PRId32, s.slot)
                     : text_of(o, "%" PRId64 "*s%" PRId32, s.base, s.slot);
}

static const char *axes_of(const Out *o, Axes x) { return axes_text(o->a, &o->p->mesh, x); }

static void put_footprint(const Out *o, const Footprint *x) {
  const Affine *f = &x->affine;
  put(o, " footprint [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] of %" PRId64 " over %s",
      f->out, f->tap, f->offset, f->divisor, x->out_size, axes_of(o, x->out_axes));
  if (x->tap_size != 1) put(o, " taps %" PRId64 " over %s", x->tap_size, axes_of(o, x->tap_axes));
}

static void put_slot(const Out *o, uint32_t i) {
  static const char *const kinds[] = {
      [SLOT_EXTENT] = "extent", [SLOT_OFFSET] = "offset", [SLOT_RANK] = "rank"};
  const Slot *s = &o->p->slot[i];
  put(o, "slot s%" PRIu32 " = %s of %s = %" PRId64 " over %s", i, kinds[s->kind], or_dash(s->dim),
      s->whole, axes_of(o, s->axes));
  if (s->batch) put(o, " in %" PRId64 " rows", s->batch);
  if (s->within.n) put(o, " within %s", axes_of(o, s->within));
  if (s->footprint.affine.divisor) put_footprint(o, &s->footprint);
  if (s->scale) put(o, " times %" PRId64, s->scale);
  if (s->div) put(o, " by %" PRId64, s->div);
  if (s->times) put(o, " times s%" PRId32, s->times - 1);
  if (s->live) put(o, " by step of loop %" PRId32 ":", s->loop);
  for (int64_t k = 0; s->live && k < s->steps; k++) put(o, " %" PRId64, s->live[k]);
  put(o, "\n");
}

static const char *dims_of(const Out *o, int rank, const ProgDim *d) {
  const char *text = "";
  for (int i = 0; i < rank; i++, d++) {
    text = text_of(o, "%s%s%s = %" PRId64, text, i ? ", " : "", or_dash(d->name), d->whole);
    if (d->axes.n)
      text = text_of(o, "%s in %" PRId64 " over %s", text, d->block, axes_of(o, d->axes));
    if (d->extent >= 0) text = text_of(o, "%s valid s%" PRId32, text, d->extent);
  }
  return text;
}

static void put_init(const Out *o, const Init *init) {
  static const char *const kinds[] = {INIT_NAMES};
  put(o, " init %s", kinds[init->kind]);
  switch (init->kind) {
  case INIT_CONSTANT: put(o, "(%.17g)", init->a); break;
  case INIT_NORMAL:
  case INIT_TRUNCATED_NORMAL:
  case INIT_UNIFORM: put(o, "(%.17g, %.17g)", init->a, init->b); break;
  case INIT_ORTHOGONAL:
    put(o, "(rows %#x, each %#x)", (unsigned)init->split, (unsigned)init->each);
    break;
  case INIT_DATA: put(o, "(%" PRId64 " number%s)", init->ndata, plural(init->ndata)); break;
  case INIT_FILE: put(o, "(%s, %s)", or_dash(init->path), or_dash(init->key)); break;
  }
}

static void put_tensor(const Out *o, uint32_t i) {
  static const char *const kinds[] = {
      [TENSOR_INPUT] = "input", [TENSOR_PARAM] = "param",       [TENSOR_STATE] = "state",
      [TENSOR_SLOT] = "slot",   [TENSOR_CONSTANT] = "constant", [TENSOR_OUTPUT] = "output"};
  const ProgTensor *t = &o->p->tensor[i];
  put(o, "tensor t%" PRIu32 " = %s %s : %s[%s] declared (", i, kinds[t->kind], or_dash(t->name),
      dtype_text(t->type), dims_of(o, t->rank, t->dim));
  for (int k = 0; k < t->rank; k++) put(o, "%s%d", k ? ", " : "", t->declared[k]);
  put(o, ") %" PRId64 " bytes at %s", t->bytes, ref_text(o, t->at));
  if (t->of >= 0) put(o, " of t%" PRId32, t->of);
  if (t->shared) put(o, " shared");
  bool starts = t->kind == TENSOR_PARAM || t->kind == TENSOR_STATE || t->kind == TENSOR_SLOT;
  if (starts) put_init(o, &t->init);
  put(o, "\n");
  int64_t n = 1;
  for (int k = 0; k < t->rank; k++) n *= t->dim[k].whole;
  if (t->kind != TENSOR_CONSTANT || !t->data) return;
  put(o, "  data");
  for (int64_t k = 0; k < n; k++) put(o, " %.17g", t->data[k]);
  put(o, "\n");
}

static void put_kernel(const Out *o, uint32_t i) {
  const ProgKernel *k = &o->p->kernel[i];
  put(o, "kernel k%" PRIu32 " = %s pointers %u slots %u numbers %u partial %" PRId64 " bytes\n", i,
      or_dash(k->name), k->nptr, k->nslot, k->nnum, k->partial_bytes);
  for (const char *text = k->text; text && *text;) {
    size_t n = strcspn(text, "\n");
    put(o, "  | %.*s\n", (int)n, text);
    text += n + (text[n] == '\n');
  }
}

static void put_set(const Out *o, const ProgKernel *k, const KernelSet *s) {
  put(o, "    units %s pointers (", size_text(o, s->units));
  for (int i = 0; i < k->nptr; i++) put(o, "%s%s", i ? ", " : "", ref_text(o, s->ptr[i]));
  put(o, ") slots (");
  for (int i = 0; i < k->nslot; i++) put(o, "%ss%" PRId32, i ? ", " : "", s->slot[i]);
  put(o, ") numbers (");
  for (int i = 0; i < k->nnum; i++) put(o, "%s%.17g", i ? ", " : "", s->num[i]);
  put(o, ")");
  if (s->divided) put(o, " divided as t%" PRId32, s->divided - 1);
  if (s->sum) put(o, " summed over %s", axes_of(o, s->sum->axes));
  put(o, "\n");
}

static void put_launch(const Out *o, const KernelLaunch *l) {
  const ProgKernel *k = &o->p->kernel[l->kernel];
  put(o, "kernel k%" PRIu32 " %s grain %" PRId64 " chunks %" PRId64, l->kernel, or_dash(k->name),
      l->grain, l->chunks);
  if (k->partial_bytes) put(o, " partial at %s", ref_text(o, l->partial));
  if (l->common) put(o, " divided over %s", axes_of(o, axis_set_list(l->common)));
  if (l->strips) put(o, " strips %" PRId64 " by %" PRId64, l->strips, l->row_units);
  put(o, "\n");
  for (uint32_t i = 0; i < l->nsets; i++) put_set(o, k, &l->set[i]);
}

static void put_pieces(const Out *o, const Gemm *x) {
  if (x->by_step) put(o, "    a piece for each step of loop %" PRId32 "\n", x->by_step - 1);
  for (int32_t i = 0; i < x->npieces; i++) {
    const GemmPiece *p = &x->piece[i];
    put(o,
        "    piece m %" PRId64 "..%" PRId64 " n %" PRId64 "..%" PRId64 " k %" PRId64 "..%" PRId64
        "\n",
        p->from[0], p->to[0], p->from[1], p->to[1], p->from[2], p->to[2]);
  }
}

static void put_epilogue(const Out *o, const Gemm *x) {
  static const char *const names[] = {
      [GEMM_ADDEND] = "adds", [GEMM_BIAS] = "bias", [GEMM_AUX] = "reads"};
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (gemm_extra(x, i))
      put(o, "    %s %s\n", gemm_writes_extra(x, i) ? "stores" : names[i],
          ref_text(o, *gemm_extra(x, i)));
  if (x->epilogue && x->epilogue->act) put(o, "    %s\n", gemm_act_text(x->epilogue->act));
}

static void put_gemm(const Out *o, const Gemm *x) {
  const char *of = x->tf32                 ? " by tf32"
                   : x->factors == x->type ? ""
                                           : text_of(o, " of %s", dtype_text(x->factors));
  put(o, "product %s%s m = %s, n = %s, k = %s; ", dtype_text(x->type), of, size_text(o, x->m),
      size_text(o, x->n), size_text(o, x->k));
  put(o, "a = %s%s by %" PRId64 ", b = %s%s by %" PRId64 ", c = %s by %" PRId64 "\n",
      ref_text(o, x->a), x->ta ? " transposed" : "", x->lda, ref_text(o, x->b),
      x->tb ? " transposed" : "", x->ldb, ref_text(o, x->c), x->ldc);
  for (int i = 0; i < x->nbatch; i++)
    put(o, "    batch %s strides (%" PRId64 ", %" PRId64 ", %" PRId64 ")\n",
        size_text(o, x->batch[i].count), x->batch[i].a, x->batch[i].b, x->batch[i].c);
  put_pieces(o, x);
  put_epilogue(o, x);
}

static void put_ordered(const Out *o, const Ordered *x) {
  static const char *const kinds[] = {"cumsum",    "cumprod", "cummax",
                                      "cum_index", "argsort", "top_k"};
  static const char *const flags[] = {" exclusive", " reverse", " descending"};
  put(o, "%s", kinds[x->kind]);
  for (unsigned i = 0; i < countof(flags); i++)
    if (x->flags >> i & 1) put(o, "%s", flags[i]);
  put(o, " %s n = %s", dtype_text(x->type), size_text(o, x->n));
  if (x->k) put(o, " k = %" PRId64, x->k);
  put(o, "; %s by %" PRId64 " -> %s by %" PRId64 "\n", ref_text(o, x->src), x->src_step,
      ref_text(o, x->dst), x->dst_step);
  for (int i = 0; i < x->nrows; i++)
    put(o, "    rows %s strides (%" PRId64 ", %" PRId64 ")\n", size_text(o, x->row[i].count),
        x->row[i].src, x->row[i].dst);
}

static void put_matrix(const Out *o, const MatrixCall *x) {
  bool two = matrix_rows[x->kind].result == MATRIX_SOLUTION;
  put(o, "%s%s %s %" PRId64 " x %" PRId64 "; %s by (%" PRId64 ", %" PRId64 ")",
      matrix_rows[x->kind].text, x->flags & MATRIX_UPPER ? " upper" : "", dtype_text(x->type), x->m,
      x->n, ref_text(o, x->a), x->a_row, x->a_column);
  if (two) put(o, ", %s by %" PRId64, ref_text(o, x->b), x->b_row);
  put(o, " -> %s by (%" PRId64 ", %" PRId64 ")\n", ref_text(o, x->dst), x->dst_row, x->dst_column);
  for (int i = 0; i < x->nbatch; i++)
    put(o, "    matrices %s strides (%" PRId64 ", %" PRId64 ", %" PRId64 ")\n",
        size_text(o, x->batch[i].count), x->batch[i].a, x->batch[i].b, x->batch[i].dst);
  for (int i = 0; i < x->nright; i++)
    put(o, "    columns %s strides (%" PRId64 ", %" PRId64 ")\n", size_text(o, x->right[i].count),
        x->right[i].b, x->right[i].dst);
}

static const char *block_of(const Out *o, int rank, const int64_t *block, const Size *valid) {
  const char *text = "";
  for (int i = 0; i < rank; i++) {
    text = text_of(o, "%s%s%" PRId64, text, i ? ", " : "", block[i]);
    if (valid[i].slot >= 0 || valid[i].base != block[i])
      text = text_of(o, "%s valid %s", text, size_text(o, valid[i]));
  }
  return text;
}

static void put_part(const Out *o, const CollPart *x) {
  put(o, "    %s: %s [%s] -> ", or_dash(x->value), ref_text(o, x->src),
      block_of(o, x->rank, x->src_block, x->src_valid));
  put(o, "%s [%s]", ref_text(o, x->dst), block_of(o, x->rank, x->dst_block, x->dst_valid));
  if (x->gathered >= 0) put(o, " gathered %d", x->gathered);
  if (x->split >= 0) put(o, " split %d", x->split);
  if (x->whole) put(o, " of %" PRId64, x->whole);
  if (x->footprint.affine.divisor) put_footprint(o, &x->footprint);
  for (int d = 0; d < x->rank; d++)
    if (x->moved[d].whole)
      put(o, " moved %d of %" PRId64 ", %s to %s", d, x->moved[d].whole,
          axes_of(o, x->moved[d].from), axes_of(o, x->moved[d].to));
  if (x->once) put(o, " once for t%" PRId32, x->once - 1);
  if (x->deferred) put(o, " deferred");
  put(o, "\n");
}

static void put_collective(const Out *o, const Collective *c) {
  put(o, "%s over %s", coll_text(c->kind), axes_of(o, c->axes));
  if (c->to.n) put(o, " to %s", axes_of(o, c->to));
  put(o, " %s %s %" PRId64 " bytes, %" PRId64 " sent, %s%s%s\n", dtype_text(c->type),
      monoid_text(c->monoid), c->bytes, c->wire_bytes, c->backward ? "backward" : "forward",
      c->why ? ": " : "", c->why ? c->why : "");
  for (uint32_t i = 0; i < c->nparts; i++) put_part(o, &c->part[i]);
}

static void put_instr(const Out *o, uint32_t i) {
  const Instr *x = &o->p->instr[i];
  put(o, "%4" PRIu32 " ", i);
  switch (x->kind) {
  case INSTR_KERNEL: put_launch(o, &x->u.kernel); break;
  case INSTR_GEMM: put_gemm(o, &x->u.gemm); break;
  case INSTR_COLLECTIVE: put_collective(o, &x->u.collective); break;
  case INSTR_ORDERED: put_ordered(o, &x->u.ordered); break;
  case INSTR_MATRIX: put_matrix(o, &x->u.matrix); break;
  case INSTR_FILL:
    put(o, "fill %s %" PRId64 " bytes%s\n", ref_text(o, x->u.fill.dst), x->u.fill.bytes,
        x->u.fill.streamed ? " streamed" : "");
    break;
  case INSTR_COPY:
    put(o, "copy %s = %s %" PRId64 " bytes\n", ref_text(o, x->u.copy.dst),
        ref_text(o, x->u.copy.src), x->u.copy.bytes);
    break;
  case INSTR_COMMIT: put(o, "commit\n"); break;
  case INSTR_LOOP:
    put(o, "loop %s = %s%s to %" PRIu32 "\n", or_dash(x->u.loop.dim), size_text(o, x->u.loop.count),
        x->u.loop.reverse ? " reverse" : "", x->u.loop.end);
    if (x->u.loop.guarded) put(o, "    if %s\n", ref_text(o, x->u.loop.guard));
    if (x->u.loop.rows) put(o, "    from %" PRId64 " rows a worker\n", x->u.loop.rows);
    break;
  case INSTR_END:
    put(o, "end of %" PRIu32 "\n", x->u.end.begin);
    if (x->u.end.stops) put(o, "    while %s\n", ref_text(o, x->u.end.alive));
    break;
  }
}

static void put_program(const Out *o) {
  const Program *p = o->p;
  put(o, "program for %s of %s mesh (", or_dash(p->for_), or_dash(p->model));
  for (int i = 0; i < p->mesh.naxes; i++)
    put(o, "%s%s = %" PRId64, i ? ", " : "", p->mesh.axis[i].name, p->mesh.axis[i].size);
  put(o, ") over %s work %" PRId64 " bytes, %" PRId64 " flops in products\n", or_dash(p->over),
      p->arena_bytes, p->flops);
  for (uint32_t i = 0; i < p->nslots; i++) put_slot(o, i);
  for (uint32_t i = 0; i < p->ntensors; i++) put_tensor(o, i);
  for (uint32_t i = 0; i < p->nkernels; i++) put_kernel(o, i);
  for (uint32_t i = 0; i < p->nchecks; i++)
    put(o, "check %" PRIu32 " = %s in 0..%s = %" PRId64 " position [%s]\n", i,
        or_dash(p->check[i].value), or_dash(p->check[i].dim), p->check[i].size,
        dims_of(o, p->check[i].rank, p->check[i].loop));
  for (uint32_t i = 0; i < p->ninstrs; i++) put_instr(o, i);
}

char *program_print(Arena *a, const Program *p) {
  TextStream text;
  Out out = {.p = p, .file = stream_begin(&text), .a = arena_new()};
  put_program(&out);
  arena_free(out.a);
  return stream_end(&text, a);
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

bool program_may_skip(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_LOOP && p->instr[i].u.loop.guarded) return true;
  return false;
}

void instr_refs(Instr *in, int nptr, void (*visit)(void *context, Ref *r), void *context) {
  switch (in->kind) {
  case INSTR_KERNEL:
    for (uint32_t s = 0; s < in->u.kernel.nsets; s++)
      for (int p = 0; p < nptr; p++) visit(context, &in->u.kernel.set[s].ptr[p]);
    if (in->u.kernel.partial.offset >= 0) visit(context, &in->u.kernel.partial);
    break;
  case INSTR_GEMM:
    visit(context, &in->u.gemm.a);
    visit(context, &in->u.gemm.b);
    visit(context, &in->u.gemm.c);
    for (int x = 0; x < GEMM_EXTRAS; x++)
      if (gemm_extra(&in->u.gemm, x)) visit(context, gemm_extra(&in->u.gemm, x));
    break;
  case INSTR_COLLECTIVE:
    for (uint32_t p = 0; p < in->u.collective.nparts; p++) {
      visit(context, &in->u.collective.part[p].src);
      visit(context, &in->u.collective.part[p].dst);
    }
    break;
  case INSTR_ORDERED:
    visit(context, &in->u.ordered.src);
    visit(context, &in->u.ordered.dst);
    break;
  case INSTR_MATRIX:
    visit(context, &in->u.matrix.a);
    visit(context, &in->u.matrix.b);
    visit(context, &in->u.matrix.dst);
    break;
  case INSTR_FILL: visit(context, &in->u.fill.dst); break;
  case INSTR_COPY:
    visit(context, &in->u.copy.dst);
    visit(context, &in->u.copy.src);
    break;
  case INSTR_LOOP:
    if (in->u.loop.guarded) visit(context, &in->u.loop.guard);
    break;
  case INSTR_END:
    if (in->u.end.stops) visit(context, &in->u.end.alive);
    break;
  case INSTR_COMMIT: break;
  }
}
