// Finds the values of a row that several phases of a kernel use and that are cheaper to keep than
// to recompute, such as e^(x - max) in a softmax. In: a kernel. Out: KernelRows.
#include "codegen/fuse/kernel.h"

enum {
  ROWS_BYTES = 65536, // upper limit of the bytes of all rows that are kept: they stay in a cache
  ROW_WORTH = 8       // least cost of a value that is kept, in additions
};

static bool has_rows(const Kernel *k) {
  return k->ninner == 1 && k->vector == k->nouter && k->rows < 0 && k->nphases > 1 &&
         k->loop[k->vector].size > 0;
}

static bool is_pure(const Kernel *k, const KStmt *s) {
  return s->level == LEVEL_INNER && !stmt_has_effect(k, s);
}

// Returns the first statement that computes the same value as statement `at`. same: the result for
// each earlier statement.
static int32_t first_same(const Kernel *k, const int32_t *same, int32_t at) {
  const KStmt *s = &k->stmt[at];
  for (int32_t j = 0; j < at && is_pure(k, s); j++) {
    const KStmt *t = &k->stmt[j];
    bool equal = is_pure(k, t) && t->kind == s->kind && t->op == s->op && t->type == s->type &&
                 t->index == s->index && t->slot == s->slot && t->step == s->step;
    for (int i = 0; i < 3 && equal; i++)
      equal = t->arg[i] == s->arg[i] ||
              (t->arg[i] != NO_STMT && s->arg[i] != NO_STMT && same[t->arg[i]] == same[s->arg[i]]);
    if (equal) return j;
  }
  return at;
}

static void mark_inner_args(const Kernel *k, int at, bool *marked) {
  for (int i = 0; i < 3; i++) {
    int32_t a = k->stmt[at].arg[i];
    if (a != NO_STMT && k->stmt[a].level == LEVEL_INNER && k->stmt[a].kind != K_REDUCE)
      marked[a] = true;
  }
}

// Returns the cost of the statements of the inner loop from which statement `at` is computed, with
// its own, in additions.
static double cost_of(Arena *scratch, const Kernel *k, int at) {
  double cost = 0;
  ArenaMark mark = arena_mark(scratch);
  bool *marked = arena_array(scratch, bool, k->nstmts);
  marked[at] = true;
  for (int i = at; i >= 0; i--) {
    if (!marked[i]) continue;
    cost += k->stmt[i].kind == K_OP ? op_row(k->stmt[i].op)->cost : 1;
    mark_inner_args(k, i, marked);
  }
  arena_reset(scratch, mark);
  return cost;
}

// Keeps the value of statement `first` for statement `at`, if that pays and the memory suffices.
// of[i]: the loops on which statement i depends. *bytes: the memory of the rows kept so far.
static bool keep(Arena *a, const Kernel *k, const LoopSet *of, KernelRows *rows, int first, int at,
                 int64_t *bytes) {
  const KStmt *s = &k->stmt[at];
  if (k->stmt[first].phase == s->phase || s->kind != K_OP || !dtype_is_float(s->type)) return false;
  if (!(of[at] >> k->vector & 1)) return false;
  if (cost_of(a, k, at) < ROW_WORTH) return false;
  if (rows->use[first] != ROW_KEPT) {
    int64_t more = size_times(k->loop[k->vector].size, dtype_bytes(s->type) > 4 ? 8 : 4);
    if (*bytes + more > ROWS_BYTES) return false;
    *bytes += more;
    rows->use[first] = ROW_KEPT;
  }
  rows->use[at] = ROW_LOADED;
  rows->from[at] = first;
  return true;
}

KernelRows kernel_rows(Arena *a, const Kernel *k) {
  KernelRows rows = {arena_array(a, uint8_t, k->nstmts + 1),
                     arena_array(a, int32_t, k->nstmts + 1)};
  if (!has_rows(k)) return rows;
  int64_t bytes = 0;
  LoopSet *of = arena_array(a, LoopSet, k->nstmts);
  int32_t *same = arena_array(a, int32_t, k->nstmts);
  bool *needed = arena_array(a, bool, k->nstmts);
  for (int32_t i = 0; i < k->nstmts; i++) {
    of[i] = stmt_loops(k, of, &k->stmt[i]);
    same[i] = first_same(k, same, i);
  }
  for (int i = k->nstmts - 1; i >= 0; i--) {
    bool inner = is_pure(k, &k->stmt[i]);
    if (inner && !needed[i])
      rows.use[i] = ROW_UNUSED;
    else if (!inner || !keep(a, k, of, &rows, same[i], i, &bytes))
      mark_inner_args(k, i, needed);
  }
  return rows;
}
