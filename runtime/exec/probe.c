// Finds the first value of a step that is not finite: one worker checks the results of every
// instruction right after it has run. The program should have one kernel for each operation, as
// with --no-fuse.
#include "runtime/exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The value of Found.instr (the instruction that computed the value found) for a value that no
// instruction computed, such as a parameter.
static const uint32_t GIVEN = UINT32_MAX;

// The first value that is not finite, as far as a rank (process) knows. Ranks send it to each other
// in their notes (RankNote.data).
typedef struct Found {
  // number of instructions that the processor had run when the value was found; 0: it was not
  // finite before the step; -1: no value was found
  int64_t order;
  int64_t processor, element, round;
  double value;
  uint32_t instr; // index of the instruction, or GIVEN
  uint32_t made;  // index of the value in the InstrNote.value of the instruction; for GIVEN the
                  // index of the tensor
  uint16_t cause; // of an operation on matrices: its MatrixFault
  int32_t pivot;
} Found;
_Static_assert(sizeof(Found) <= NOTE_DATA, "what is found fits a note");

struct FiniteProbe {
  int64_t *count; // by context: the number of instructions run so far
  bool *seen;     // by context: whether a value was found, so that later ones are not looked for
  Found first;    // the first value found in any context of this process
};

// Returns the number of elements of processor r's block along d that are not padding. A dim without
// axes, such as that of a block extended by the halo of its neighbours, has no padding: the result
// is d->block.
static int64_t valid_of(const Mesh *m, const ProgDim *d, int64_t r) {
  int64_t left = d->axes.n ? d->whole - block_offset(m, d, r) : d->block;
  return clamp64(left, 0, d->block);
}

// Returns the index in `block` of the first element that is not finite, padding excluded, or -1 if
// there is no such element. *value gets the element. `dim` has the dims of the block, the slowest
// in memory first.
static int64_t look(const Exec *e, int64_t r, Dtype type, int rank, const ProgDim *dim,
                    const char *block, double *value) {
  int64_t n = 1, bytes = dtype_bytes(type);
  for (int i = 0; i < rank; i++) n *= dim[i].block;
  if (e->under_way && !exec_fetch_bytes(e, block, n * bytes)) return -1;
  for (int64_t at = 0; at < n; at++) {
    *value = dtype_load(type, block + at * bytes);
    if (isfinite(*value)) continue;
    int64_t rest = at;
    bool valid = true;
    for (int i = rank - 1; i >= 0; rest /= dim[i].block, i--)
      valid &= rest % dim[i].block < valid_of(&e->program->mesh, &dim[i], r);
    if (valid) return at;
  }
  return -1;
}

static bool earlier(const Found *a, const Found *b) {
  if (b->order < 0) return a->order >= 0;
  return a->order >= 0 &&
         (a->order < b->order || (a->order == b->order && a->processor < b->processor));
}

static void found(Exec *e, int64_t context, Found f) {
  e->nonfinite->seen[context] = true;
  if (earlier(&f, &e->nonfinite->first)) e->nonfinite->first = f;
}

static const char *result_of(const Exec *e, int64_t context, uint32_t i, const InstrValue *m,
                             const LoopSteps *steps) {
  const BoundInstr *b = &e->context[context].instr[i];
  const Instr *in = &e->program->instr[i];
  const BoundSet *set;
  switch (b->kind) {
  case INSTR_KERNEL:
    set = &b->u.kernel.set[m->set];
    return (const char *)set->ptr[m->ptr] +
           (set->ref ? ref_moved(set->ref[m->ptr], steps->depth, steps->at) : 0);
  case INSTR_GEMM: // elements that are left out may be anything
    if (gemm_has_gaps(&in->u.gemm)) return NULL;
    if (m->ptr > 0)
      return b->u.gemm.extra[GEMM_AUX] +
             ref_moved(*gemm_extra(&in->u.gemm, GEMM_AUX), steps->depth, steps->at);
    return b->u.gemm.c + ref_moved(in->u.gemm.c, steps->depth, steps->at);
  case INSTR_ORDERED:
    return b->u.ordered.dst + ref_moved(in->u.ordered.dst, steps->depth, steps->at);
  case INSTR_MATRIX: return b->u.matrix.dst + ref_moved(in->u.matrix.dst, steps->depth, steps->at);
  case INSTR_COLLECTIVE: return b->u.valid.to[m->ptr];
  default: return NULL;
  }
}

// Returns why an element of the result of instruction i is not finite, if the instruction is an
// operation on matrices. One worker runs the step, so that its work memory is free.
static MatrixFault matrix_fault(const Exec *e, int64_t context, uint32_t i, int64_t element,
                                const LoopSteps *steps) {
  const BoundInstr *b = &e->context[context].instr[i];
  if (b->kind != INSTR_MATRIX) return (MatrixFault){0};
  BoundMatrix moved = exec_matrix(&b->u.matrix, steps);
  return matrix_why(&moved, element, e->scratch);
}

// Searches the results of instruction i on one processor (context) for a value that is not finite.
// Does nothing if such a value was found on this processor before.
static void probe_look(Exec *e, int64_t context, uint32_t i, const LoopSteps *steps) {
  FiniteProbe *p = e->nonfinite;
  int64_t order = ++p->count[context], r = e->context[context].processor;
  for (uint32_t k = 0; k < e->program->note[i].nvalues && !p->seen[context]; k++) {
    const InstrValue *m = &e->program->note[i].value[k];
    const char *block = dtype_is_float(m->type) ? result_of(e, context, i, m, steps) : NULL;
    double value;
    int64_t at = block ? look(e, r, m->type, m->rank, m->dim, block, &value) : -1;
    if (at < 0) continue;
    MatrixFault why = matrix_fault(e, context, i, at, steps);
    found(e, context,
          (Found){order, r, at, steps->depth ? steps->at[steps->depth - 1] : -1, value, i, k,
                  (uint16_t)why.cause, why.pivot});
  }
}

static void look_at_given(Exec *e) {
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    const ProgTensor *x = &e->program->tensor[t];
    if (x->kind > TENSOR_SLOT || !dtype_is_float(x->type) || !exec_fetch(e, t)) continue;
    for (int64_t c = e->first; c < e->first + e->own; c++) {
      double value;
      int64_t r = e->context[c].processor;
      int64_t at = e->nonfinite->seen[c]
                       ? -1
                       : look(e, r, x->type, x->rank, x->dim, e->context[c].tensor[t], &value);
      if (at >= 0) found(e, c, (Found){0, r, at, -1, value, GIVEN, t, 0, 0});
    }
  }
}

// Replaces e->nonfinite->first, the first value that is not finite, by the earliest such value of
// any rank (process). Returns false once the run has failed.
static bool agree(Exec *e) {
  RankNote mine = {.what = NOTE_STEP, .sequence = e->sequence};
  const RankNote *const *all;
  if (!e->ranks) return true;
  memcpy(mine.data, &e->nonfinite->first, sizeof e->nonfinite->first);
  if (!ranks_meet(e->ranks, &mine, false, &all)) return false;
  for (int i = 0; i < ranks_count(e->ranks); i++) {
    Found f;
    memcpy(&f, all[i]->data, sizeof f);
    if (earlier(&f, &e->nonfinite->first)) e->nonfinite->first = f;
  }
  return true;
}

static void say_why(const Exec *e, const Found *f, NotFinite *out) {
  static const char *const text[] = {
      [MATRIX_NOT_POSITIVE] = "the matrix is not positive definite",
      [MATRIX_SINGULAR] = "the matrix is singular",
      [MATRIX_NEGATIVE] = "the determinant is negative",
      [MATRIX_NOT_CONVERGED] = "the iteration did not converge",
  };
  static const char *const pivot[] = {
      [MATRIX_NOT_POSITIVE] = "not positive", [MATRIX_SINGULAR] = "zero"};
  if (!f->cause) return;
  if (!f->pivot) {
    snprintf(out->why, sizeof out->why, "%s", text[f->cause]);
    return;
  }
  snprintf(out->why, sizeof out->why, "%s: pivot %d of %lld is %s", text[f->cause], f->pivot,
           (long long)e->program->instr[f->instr].u.matrix.n, pivot[f->cause]);
}

static void describe(const Exec *e, NotFinite *out) {
  const Program *p = e->program;
  const Found *f = &e->nonfinite->first;
  const bool given = f->instr == GIVEN;
  const InstrValue *m = given ? NULL : &p->note[f->instr].value[f->made];
  const ProgTensor *t = given ? &p->tensor[f->made] : NULL;
  const ProgDim *dim = given ? t->dim : m->dim;
  *out = (NotFinite){.found = true,
                     .given = given,
                     .processor = f->processor,
                     .round = f->round,
                     .value = f->value,
                     .name = given ? t->name : m->value,
                     .op = given ? NULL : m->op,
                     .backward = !given && m->backward,
                     .pos = given ? t->pos : m->pos};
  int rank = given ? t->rank : m->rank;
  int64_t index[MAX_RANK], rest = f->element;
  for (int i = rank - 1; i >= 0; rest /= dim[i].block, i--)
    index[i] = block_offset(&p->mesh, &dim[i], f->processor) + rest % dim[i].block;
  for (int i = 0; i < rank; i++) {
    size_t n = strlen(out->where);
    snprintf(out->where + n, sizeof out->where - n, "%s%s=%lld", n ? ", " : "", dim[i].name,
             (long long)index[i]);
  }
  if (!given) say_why(e, f, out);
}

bool exec_find_not_finite(Exec *e, int64_t step, NotFinite *out) {
  FiniteProbe p = {.count = mem_zeroed((size_t)e->processors, sizeof *p.count),
                   .seen = mem_zeroed((size_t)e->processors, sizeof *p.seen),
                   .first = {.order = -1}};
  *out = (NotFinite){0};
  bool good = e->program->note != NULL;
  if (good) {
    e->nonfinite = &p;
    e->look = probe_look;
    look_at_given(e);
    good = exec_step(e, step, false) != STEP_FAILED && agree(e);
    if (good && p.first.order >= 0) describe(e, out);
    e->nonfinite = NULL;
  }
  free(p.count);
  free(p.seen);
  return good;
}
