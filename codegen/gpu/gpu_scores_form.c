// Recognises the softmax of a kernel with scores of attention. In: a Kernel. Out: GpuOnline, the
// maximum and the sum of a softmax in two phases, which are computed together; and whether a third
// phase multiplies values by that softmax, so that all three are computed in one sweep:
//
//   phase p        m = max a
//   phase p + 1    z = sum exp(a - m)
//   phase p + 2    o = sum exp(a - m) / z * f * value      f: factors that need neither m nor z
#include "codegen/cpu/emit_internal.h"
#include "codegen/gpu/gpu_scores.h"
#include "ir/base/mem.h"

#include <stdlib.h>

int gpu_scores_reduction(const Kernel *k, int phase) {
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

// Returns the statement that is subtracted from the scores of the maximum in exponential `power`:
// the maximum, perhaps rounded. Returns NO_STMT if there is none.
static int subtracted(const Kernel *k, const GpuOnline *o, int power) {
  const KStmt *minus = &k->stmt[without_casts(k, k->stmt[power].arg[0])], *m = &k->stmt[o->max];
  bool found = minus->kind == K_OP && minus->op == OP_SUB &&
               without_casts(k, minus->arg[1]) == o->max &&
               same_scores(k, without_casts(k, m->arg[0]), without_casts(k, minus->arg[0]));
  return found ? minus->arg[1] : NO_STMT;
}

bool gpu_scores_online(const Kernel *k, int phase, GpuOnline *out) {
  int max = gpu_scores_reduction(k, phase), sum = gpu_scores_reduction(k, phase + 1);
  if (max == NO_STMT || sum == NO_STMT) return false;
  const KStmt *m = &k->stmt[max], *z = &k->stmt[sum];
  if (m->op != OP_MAX || m->type != TYPE_F32 || z->op != OP_SUM || z->type != TYPE_F32)
    return false;
  int power = without_casts(k, z->arg[0]);
  if (k->stmt[power].kind != K_OP || k->stmt[power].op != OP_EXP) return false;
  *out = (GpuOnline){.max = max, .sum = sum, .power = power};
  out->least = subtracted(k, out, power);
  return out->least != NO_STMT;
}

// -- sweeps ---------------------------------------------------------------------------------------

// Returns by statement whether it is the maximum or a score, or depends on one of them: a factor of
// the softmax must not. The caller frees the array.
static bool *late_statements(const Kernel *k, const GpuOnline *o) {
  bool *late = mem_zeroed(k->nstmts, sizeof *late);
  for (int i = 0; i < k->nstmts; i++) {
    late[i] = i == o->max || k->stmt[i].kind == K_DOT;
    for (int j = 0; j < 3; j++) late[i] |= k->stmt[i].arg[j] != NO_STMT && late[k->stmt[i].arg[j]];
  }
  return late;
}

static bool is_zero(const KStmt *s) { return s->kind == K_NUM && s->step == NUMBER_ZERO; }

// Returns the argument of statement `id` that it scales by a factor, or by 1 / z: then it is
// *ratio. Returns NO_STMT if it does no such thing.
static int scaled(const Kernel *k, const GpuOnline *o, const bool *late, int id, int *ratio) {
  const KStmt *s = &k->stmt[id];
  const int32_t *a = s->arg;
  if (s->kind != K_OP || !dtype_is_float(s->type)) return NO_STMT;
  switch ((int)s->op) {
  case OP_NEG: return a[0];
  case OP_CAST: return dtype_is_float(k->stmt[a[0]].type) ? a[0] : NO_STMT;
  case OP_WHERE: return is_zero(&k->stmt[a[2]]) && !late[a[0]] ? a[1] : NO_STMT;
  case OP_MUL: return !late[a[1]] ? a[0] : !late[a[0]] ? a[1] : NO_STMT;
  case OP_DIV:
    if (!late[a[1]]) return a[0];
    if (*ratio != NO_STMT || without_casts(k, a[1]) != o->sum) return NO_STMT;
    *ratio = id;
    return a[0];
  }
  return NO_STMT;
}

bool gpu_scores_sweep(const Kernel *k, const GpuOnline *o, int left, int *power, int *ratio) {
  bool *late = late_statements(k, o);
  int at = left;
  *ratio = NO_STMT;
  while (at != NO_STMT && (k->stmt[at].kind != K_OP || k->stmt[at].op != OP_EXP))
    at = scaled(k, o, late, at, ratio);
  free(late);
  *power = at;
  return at != NO_STMT && *ratio != NO_STMT && subtracted(k, o, at) != NO_STMT;
}

void gpu_scores_weights(const Kernel *k, const GpuScores *t, bool *needed) {
  needed[t->left] = true;
  for (int i = t->left; i >= 0; i--)
    for (int j = 0; j < (i == t->ratio ? 1 : 3) && needed[i] && i != t->power; j++)
      if (k->stmt[i].arg[j] != NO_STMT) needed[k->stmt[i].arg[j]] = true;
}

// Sets computed[i] to false for the inner statements of a phase that are not in `kept`.
static void keep_only(const Kernel *k, int phase, const bool *kept, bool *computed) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].phase == phase && k->stmt[i].level == LEVEL_INNER) computed[i] = kept[i];
}

void gpu_scores_computed(const Kernel *k, const GpuScores *t, bool *computed) {
  bool *kept = mem_zeroed(k->nstmts, sizeof *kept);
  GpuOnline o;
  for (int i = 0; i < k->nstmts; i++) computed[i] = true;
  for (int phase = 0; phase + 1 < k->nphases; phase++) {
    if (!gpu_scores_online(k, phase, &o)) continue;
    kept[o.power] = kept[o.sum] = true;
    keep_only(k, phase + 1, kept, computed);
  }
  if (t->sweep) {
    gpu_scores_weights(k, t, kept);
    needed_stmts(k, t->right, kept);
    kept[t->power] = false; // it is the one of the sum
    keep_only(k, k->stmt[t->sum].phase, kept, computed);
  }
  free(kept);
}
