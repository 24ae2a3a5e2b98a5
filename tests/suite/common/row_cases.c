// Kernels with few rows of many elements, which several blocks of threads of a GPU compute together
// (codegen/gpu/gpu_row_parts.c): all types of cells, several phases, stores for each row and for
// each element, rows of two loops, incomplete and empty rows.
#include "tests/suite/common/kernel_case.h"

enum { ROWS = 3 };

typedef struct Row {
  const char *name;
  int64_t size[2], valid[2]; // of the inner loops; size[0] 0: there is one
  bool vector;               // whether the last inner loop is the vector loop
} Row;

static const Row rows[] = {
    {"even", {0, 33024}, {0, 33024}, true},
    {"ragged", {0, 33003}, {0, 33003}, true},
    {"incomplete", {0, 34000}, {0, 20001}, true},
    {"empty", {0, 33000}, {0, 0}, true},
    {"without vectors", {0, 33003}, {0, 33001}, false},
    {"of two loops", {40, 901}, {39, 900}, true},
};

static void add_loops(Case *c, const Row *r) {
  bool two = r->size[0] > 0;
  case_loop(c, true, ROWS, ROWS - 1);
  if (two) case_loop(c, false, r->size[0], r->valid[0]);
  case_loop(c, false, r->size[1], r->valid[1]);
  c->k.vector = r->vector ? (int8_t)(two ? 2 : 1) : -1;
}

static int add_array(Case *c, const Row *r, Dtype t, bool written) {
  int64_t one = r->size[1], all = r->size[0] ? r->size[0] * one : one;
  int64_t stride[3] = {all, r->size[0] ? one : 1, 1};
  return case_pointer(c, t, written, r->size[0] ? 3 : 2, stride);
}

static void store_row(Case *c, Dtype t, int phase, int x) {
  case_store(c, case_pointer(c, t, true, STRIDES(1)), LEVEL_OUTER, phase, x);
}

// exp(x - max) / sum, with maximum and logarithm of the sum stored for each row.
static void add_softmax(const Row *r, Dtype t, Dtype wide) {
  Case *c = case_new("long rows %s, softmax %s", r->name, dtype_text(t));
  add_loops(c, r);
  int in = add_array(c, r, t, false), out = add_array(c, r, t, true);
  int m = case_reduce(c, OP_MAX, wide, 0, case_load_as(c, in, wide, 0)), e[2];
  store_row(c, wide, 1, m);
  for (int i = 0; i < 2; i++) {
    int x = case_op2(c, OP_SUB, wide, LEVEL_INNER, 1 + i, case_load_as(c, in, wide, 1 + i), m);
    e[i] = case_op1(c, OP_EXP, wide, LEVEL_INNER, 1 + i, x);
    if (i == 0) e[0] = case_reduce(c, OP_SUM, wide, 1, e[0]);
  }
  store_row(c, wide, 2, case_op1(c, OP_LOG, wide, LEVEL_OUTER, 2, e[0]));
  case_store(c, out, LEVEL_INNER, 2, case_op2(c, OP_DIV, wide, LEVEL_INNER, 2, e[1], e[0]));
  c->k.nphases = 3;
  c->tol = 1e-4;
}

// Reductions of several kinds in one phase, of which only the rows are stored.
static void add_several(const Row *r, Dtype t) {
  static const Op ops[] = {OP_SUM, OP_MAX, OP_MIN};
  Case *c = case_new("long rows %s, reductions %s", r->name, dtype_text(t));
  add_loops(c, r);
  int x = case_load(c, add_array(c, r, t, false), LEVEL_INNER, 0), y[countof(ops)];
  for (size_t i = 0; i < countof(ops); i++) y[i] = case_reduce(c, ops[i], t, 0, x);
  for (size_t i = 0; i < countof(ops); i++) store_row(c, t, 1, y[i]);
  c->k.nphases = 2;
  c->tol = dtype_is_float(t) ? 1e-4 : 0;
}

void row_cases_add(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_I32, TYPE_I64};
  for (size_t i = 0; i < countof(rows); i++) {
    add_softmax(&rows[i], TYPE_F32, TYPE_F32);
    if (i < 2) add_softmax(&rows[i], TYPE_BF16, TYPE_F32);
    add_several(&rows[i], types[i % countof(types)]);
  }
}
