// Kernels that only scatter, for code that divides rows among blocks of threads
// (codegen/gpu/gpu_scatter_plan.c): types, columns before and behind the terms, terms of several
// loops, columns of several blocks, incomplete extents, several scatters, checked indices. Sums are
// those of additions in the order of the terms: the tolerance is that of one rounding.
#include "tests/suite/common/kernel_case.h"

// Loops of a scatter, slowest first. Indices run over the loops of terms but those that are summed.
typedef enum Role { NOTHING, TERM, SUMMED, COLUMN } Role;
enum { LOOPS = 4 };

typedef struct Scatter {
  const char *name;
  Role role[LOOPS];
  int64_t size[LOOPS], missing[LOOPS]; // missing: by which the valid length is shorter
  int nouter;
  bool vector;  // whether the last outer loop, not the last inner one, is the vector loop
  int scatters; // number of them, each with indices of its own
  bool checked; // whether the indices are checked: those from 9 on are out of range
} Scatter;

static const Scatter scatters[] = {
    {"terms inside", {COLUMN, TERM}, {40, 300}, .nouter = 1, .vector = true, .scatters = 1},
    {"terms outside", {TERM, COLUMN}, {300, 40}, .nouter = 1, .scatters = 1},
    {"all outside", {TERM, COLUMN}, {130, 33}, .nouter = 2, .vector = true, .scatters = 1},
    {"no columns", {TERM}, {257}, .nouter = 0, .scatters = 1},
    {"wide rows", {COLUMN, TERM}, {600, 70}, .nouter = 1, .vector = true, .scatters = 1},
    {"two loops of terms", {TERM, COLUMN, TERM}, {9, 20, 21}, .nouter = 2, .scatters = 1},
    {"two loops of columns", {COLUMN, TERM, COLUMN}, {5, 90, 7}, .nouter = 2, .scatters = 1},
    {"summed inside", {TERM, COLUMN, SUMMED}, {70, 12, 5}, .nouter = 2, .scatters = 1},
    {"summed outside", {SUMMED, COLUMN, TERM}, {4, 12, 70}, .nouter = 1, .scatters = 1},
    {"incomplete", {COLUMN, TERM}, {40, 300}, {7, 41}, .nouter = 1, .vector = true, .scatters = 1},
    {"incomplete, terms outside", {TERM, COLUMN}, {300, 40}, {33, 5}, .nouter = 1, .scatters = 1},
    {"no terms", {TERM, COLUMN}, {80, 8}, {80, 0}, .nouter = 1, .scatters = 1},
    {"two scatters", {COLUMN, TERM}, {8, 100}, .nouter = 1, .vector = true, .scatters = 2},
    {"checked", {TERM, COLUMN}, {200, 16}, .nouter = 1, .scatters = 1, .checked = true},
    {"two checked", {COLUMN, TERM}, {16, 200}, {1, 2}, .nouter = 1, .scatters = 2, .checked = true},
};

// Sets the strides of a dense array over the loops whose roles are in `roles`, a bit for each.
static void dense(const Scatter *s, unsigned roles, int64_t *stride) {
  int64_t at = 1;
  for (int l = LOOPS - 1; l >= 0; l--) {
    if (!s->size[l] || !(roles >> s->role[l] & 1)) continue;
    stride[l] = at;
    at *= s->size[l];
  }
}

static int64_t columns_of(const Scatter *s) {
  int64_t n = 1;
  for (int l = 0; l < LOOPS; l++)
    if (s->role[l] == COLUMN) n *= s->size[l];
  return n;
}

static int add_index(Case *c, const Scatter *s, KLevel level) {
  int64_t stride[LOOPS] = {0};
  dense(s, 1u << TERM, stride);
  int at = case_load(c, case_pointer(c, TYPE_I32, false, LOOPS, stride), level, 0);
  if (!s->checked) return at;
  at = case_stmt(c, K_OP, OP_BOUND, TYPE_I32, level, 0, at, NO_STMT, NO_STMT, 0);
  c->stmt[at].step = 9;
  c->k.nnum = 1;
  c->num[0] = 5;
  return at;
}

// Adds a scatter of -x, with its index at level `at`.
static void add_scatter(Case *c, const Scatter *s, Dtype t, Op op, KLevel at, KLevel level) {
  int64_t x[LOOPS] = {0}, row[LOOPS] = {0};
  dense(s, ~0u, x);
  dense(s, 1u << COLUMN, row);
  int index = add_index(c, s, at);
  int value = case_load(c, case_pointer(c, t, false, LOOPS, x), level, 0);
  value = case_op1(c, OP_NEG, t, level, 0, value);
  int to = case_pointer(c, t, true, LOOPS, row);
  int scatter = case_stmt(c, K_SCATTER, op, t, level, 0, value, index, NO_STMT, to);
  c->stmt[scatter].step = columns_of(s);
}

static void add_case(const Scatter *s, Dtype t, Op op) {
  Case *c = case_new("%s %s of %s", op_row(op)->text, s->name, dtype_text(t));
  KLevel index = LEVEL_OUTER;
  for (int l = 0; l < LOOPS && s->size[l]; l++) {
    case_loop(c, l < s->nouter, s->size[l], s->size[l] - s->missing[l]);
    if (l >= s->nouter && s->role[l] == TERM) index = LEVEL_INNER;
  }
  int loops = c->k.nouter + c->k.ninner;
  c->k.vector = (int8_t)((s->vector ? c->k.nouter : loops) - 1);
  c->k.block = 16;
  KLevel level = c->k.ninner ? LEVEL_INNER : LEVEL_OUTER;
  for (int i = 0; i < s->scatters; i++) add_scatter(c, s, t, op, index, level);
  c->data = DATA_INDEX;
}

void scatter_cases_add(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_I32};
  for (size_t i = 0; i < countof(scatters); i++)
    for (size_t t = 0; t < countof(types); t++) {
      add_case(&scatters[i], types[t], OP_SUM);
      if (t % 3 == 0) add_case(&scatters[i], types[t], OP_MAX);
    }
}
