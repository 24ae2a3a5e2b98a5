// The text of a Program, for dumps.
//
//   tensor t0 = param w : f32[d = 8, h = 16 in 8 over cols] declared (0, 1) 256 bytes at t0+0
//      0 kernel k3 relu.3 grain 64 chunks 1
//       units 64 pointers (t0+0, work+128) slots (s0) numbers ()
#include "ir/program/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/stream.h"

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
