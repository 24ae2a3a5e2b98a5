// The maximum and the sum of a softmax in one pass over the scores (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018). Two phases of a kernel
//
//   phase p      m = max a
//   phase p + 1  z = sum exp(a - m')     m' is m, rounded to the type of the scores
//
// become one. Each thread keeps the maximum of its scores so far and the sum of exp(a - maximum),
// which it scales when the maximum grows. At the end of the phase the four threads of a row join
// their maxima. Then the statements of the row in phase p + 1 run, which give m', and the threads
// add their sums, scaled to m'. A row whose scores are all -inf gets NaN, as by two passes.
#include "codegen/cpu/emit_internal.h"
#include "codegen/gpu/gpu_scores.h"
#include "ir/base/mem.h"

#include <stdlib.h>

// -- the form -------------------------------------------------------------------------------------

// Returns the only reduction of a phase, or NO_STMT.
static int only_reduction(const Kernel *k, int phase) {
  int found = NO_STMT;
  for (int i = 0; i < k->nstmts; i++) {
    if (k->stmt[i].kind != K_REDUCE || k->stmt[i].phase != phase) continue;
    if (found != NO_STMT) return NO_STMT;
    found = i;
  }
  return found;
}

// Returns the statement that `id` converts from another type of float, or `id` itself.
static int without_casts(const Kernel *k, int id) {
  while (k->stmt[id].kind == K_OP && k->stmt[id].op == OP_CAST &&
         dtype_is_float(k->stmt[id].type) && dtype_is_float(k->stmt[k->stmt[id].arg[0]].type))
    id = k->stmt[id].arg[0];
  return id;
}

// Returns whether statements a and b have the same value: they are one, or inner statements of two
// phases that do the same. known: by statement, 1 + the statement that is known to have its value.
// Each is looked at once, however often its value is used.
static bool same_value(const Kernel *k, int *known, int a, int b) {
  if (a == b) return true;
  if (a == NO_STMT || b == NO_STMT) return false;
  if (known[a] == b + 1) return true;
  const KStmt *x = &k->stmt[a], *y = &k->stmt[b];
  bool same = x->kind == y->kind && x->op == y->op && x->type == y->type && x->index == y->index &&
              x->other == y->other && x->slot == y->slot && x->step == y->step &&
              x->level == y->level && x->level == LEVEL_INNER && !stmt_has_effect(k, x);
  for (int i = 0; i < 3 && same; i++)
    same = (x->arg[i] == NO_STMT && y->arg[i] == NO_STMT) ||
           same_value(k, known, x->arg[i], y->arg[i]);
  if (same) known[a] = b + 1;
  return same;
}

static bool same_scores(const Kernel *k, int a, int b) {
  int *known = mem_zeroed(k->nstmts, sizeof *known);
  bool same = same_value(k, known, a, b);
  free(known);
  return same;
}

bool gpu_scores_online(const Kernel *k, int phase, GpuOnline *out) {
  int max = only_reduction(k, phase), sum = only_reduction(k, phase + 1);
  if (max == NO_STMT || sum == NO_STMT) return false;
  const KStmt *m = &k->stmt[max], *z = &k->stmt[sum];
  if (m->op != OP_MAX || m->type != TYPE_F32 || z->op != OP_SUM || z->type != TYPE_F32)
    return false;
  const KStmt *power = &k->stmt[without_casts(k, z->arg[0])];
  if (power->kind != K_OP || power->op != OP_EXP) return false;
  const KStmt *minus = &k->stmt[without_casts(k, power->arg[0])];
  if (minus->kind != K_OP || minus->op != OP_SUB) return false;
  *out = (GpuOnline){.max = max, .sum = sum, .least = minus->arg[1]};
  return without_casts(k, minus->arg[1]) == max &&
         same_scores(k, without_casts(k, m->arg[0]), without_casts(k, minus->arg[0]));
}

#ifdef MESHC_HAVE_LLVM
#include "codegen/cpu/emit_math_internal.h"

static LLVMValueRef lowest(Emit *e) { return emit_identity(e, OP_MAX, TYPE_F32, false); }

// Emits exp(a - m), where m may be the maximum of no scores yet.
static LLVMValueRef power(Emit *e, LLVMValueRef a, LLVMValueRef m) {
  return math_exp(e, LLVMBuildFSub(e->b, a, m, ""));
}

// Emits a value that is equal to m if that is finite, else 0: -inf - -inf would be NaN.
static LLVMValueRef finite(Emit *e, LLVMValueRef m) {
  LLVMValueRef none = LLVMBuildFCmp(e->b, LLVMRealOEQ, m, lowest(e), "");
  return pick(e, none, LLVMConstNull(e->f32), m);
}

void gpu_scores_online_add(GpuScoresEmit *x, const GpuOnline *o, int half, int n,
                           const LLVMValueRef *a) {
  Emit *e = &x->g->e;
  const GpuCell *max = &x->cell[half][o->max], *sum = &x->cell[half][o->sum];
  LLVMValueRef old = emit_read(e, e->f32, max->at), m = old, part = NULL;
  for (int i = 0; i < n; i++) m = emit_join(e, OP_MAX, TYPE_F32, m, a[i]);
  LLVMValueRef base = finite(e, m);
  for (int i = 0; i < n; i++) {
    LLVMValueRef y = power(e, a[i], base);
    part = part ? LLVMBuildFAdd(e->b, part, y, "") : y;
  }
  LLVMTypeRef type = reg_type(e, sum->type);
  LLVMValueRef scale = emit_coerce(e, power(e, old, base), TYPE_F32, sum->type);
  LLVMValueRef z = LLVMBuildFMul(e->b, emit_read(e, type, sum->at), scale, "");
  z = LLVMBuildFAdd(e->b, z, emit_coerce(e, part, TYPE_F32, sum->type), "");
  LLVMBuildStore(e->b, z, sum->at);
  LLVMBuildStore(e->b, m, max->at);
}

void gpu_scores_online_scale(GpuScoresEmit *x, const GpuOnline *o) {
  Emit *e = &x->g->e;
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    const GpuCell *max = &x->cell[h][o->max], *sum = &x->cell[h][o->sum];
    Dtype type = e->k->stmt[o->least].type;
    LLVMValueRef m = emit_coerce(e, x->row_value[h][o->least], type, TYPE_F32);
    LLVMValueRef scale = power(e, emit_read(e, e->f32, max->at), m);
    LLVMValueRef z = emit_read(e, reg_type(e, sum->type), sum->at);
    z = LLVMBuildFMul(e->b, z, emit_coerce(e, scale, TYPE_F32, sum->type), "");
    LLVMBuildStore(e->b, z, sum->at);
  }
}
#endif
