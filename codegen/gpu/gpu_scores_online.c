// The maximum and the sum of a softmax in one pass over the scores (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018). Two phases of a kernel
//
//   phase p      m = max a
//   phase p + 1  z = sum exp(a - m')     m' is m, rounded to the type of the scores
//
// (gpu_scores_form.c) become one. Each thread keeps the maximum of its scores so far and the sum of
// exp(a - maximum), which it scales when the maximum grows. At the end of the phase the four
// threads of a row join their maxima. Then the statements of the row in phase p + 1 run, which give
// m', and the threads add their sums, scaled to m'. A row whose scores are all -inf gets NaN, as by
// two passes.
//
// In a sweep (GpuScores.sweep) a product follows. Its sums are those of all threads of a row, which
// therefore have the same maximum at each tile. The sums are scaled when it grows, and divided by z
// at the end.
#include "codegen/cpu/emit_internal.h"
#include "codegen/gpu/gpu_scores.h"
#ifdef MESHC_HAVE_LLVM
#include "codegen/cpu/emit_math_internal.h"

static LLVMValueRef lowest(Emit *e) { return emit_identity(e, OP_MAX, TYPE_F32, false); }

// Emits exp(a - m).
static LLVMValueRef power(Emit *e, LLVMValueRef a, LLVMValueRef m) {
  return math_exp(e, LLVMBuildFSub(e->b, a, m, ""));
}

// Emits m, or 0 where m is -inf, the maximum of no scores: -inf - -inf would be NaN.
static LLVMValueRef base_of(Emit *e, LLVMValueRef m) {
  LLVMValueRef none = LLVMBuildFCmp(e->b, LLVMRealOEQ, m, lowest(e), "");
  return pick(e, none, LLVMConstNull(e->f32), m);
}

// Emits the maximum of m in the four threads of a row.
static LLVMValueRef maximum_of_row(GpuScoresEmit *x, LLVMValueRef m) {
  for (int lane = 1; lane < GPU_SCORES_THREADS; lane *= 2)
    m = emit_join(&x->g->e, OP_MAX, TYPE_F32, m, gpu_shuffle(x->g, GPU_SHUFFLE_XOR, m, lane));
  return m;
}

LLVMValueRef gpu_scores_online_add(GpuScoresEmit *x, const GpuOnline *o, int half, int n,
                                   LLVMValueRef *a) {
  Emit *e = &x->g->e;
  const GpuCell *max = &x->cell[half][o->max], *sum = &x->cell[half][o->sum];
  LLVMValueRef old = emit_read(e, e->f32, max->at), m = old, part = NULL;
  for (int i = 0; i < n; i++) m = emit_join(e, OP_MAX, TYPE_F32, m, a[i]);
  if (x->t->sweep) m = maximum_of_row(x, m);
  LLVMValueRef base = base_of(e, m), scale = power(e, old, base);
  for (int i = 0; i < n; i++) {
    a[i] = power(e, a[i], base);
    part = part ? LLVMBuildFAdd(e->b, part, a[i], "") : a[i];
  }
  LLVMTypeRef type = reg_type(e, sum->type);
  LLVMValueRef z = LLVMBuildFMul(e->b, emit_read(e, type, sum->at),
                                 emit_coerce(e, scale, TYPE_F32, sum->type), "");
  z = LLVMBuildFAdd(e->b, z, emit_coerce(e, part, TYPE_F32, sum->type), "");
  LLVMBuildStore(e->b, z, sum->at);
  LLVMBuildStore(e->b, m, max->at);
  return scale;
}

// Emits the factor that scales what was summed for the maximum of a half's row so far to the
// maximum that the sum of the softmax subtracts.
static LLVMValueRef scale_of(GpuScoresEmit *x, const GpuOnline *o, int half) {
  Emit *e = &x->g->e;
  Dtype type = e->k->stmt[o->least].type;
  LLVMValueRef m = emit_coerce(e, x->row_value[half][o->least], type, TYPE_F32);
  return power(e, emit_read(e, e->f32, x->cell[half][o->max].at), m);
}

void gpu_scores_online_scale(GpuScoresEmit *x, const GpuOnline *o) {
  Emit *e = &x->g->e;
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    const GpuCell *sum = &x->cell[h][o->sum];
    LLVMValueRef z = emit_read(e, reg_type(e, sum->type), sum->at);
    z = LLVMBuildFMul(e->b, z, emit_coerce(e, scale_of(x, o, h), TYPE_F32, sum->type), "");
    LLVMBuildStore(e->b, z, sum->at);
  }
}

void gpu_scores_sweep_end(GpuScoresEmit *x, const GpuSums *sums) {
  Emit *e = &x->g->e;
  int divisor = e->k->stmt[x->t->ratio].arg[1];
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    LLVMValueRef z = emit_coerce(e, x->row_value[h][divisor], e->k->stmt[divisor].type, TYPE_F32);
    LLVMValueRef scale = LLVMBuildFDiv(e->b, scale_of(x, &x->softmax, h), z, "");
    gpu_sums_scale(x->g, sums, h, scale);
  }
}
#endif
