// Kernels with few columns of many elements, which blocks of threads of a GPU compute side by side
// (codegen/gpu/gpu_columns.c): all numbers of columns, several phases, stores for each column and
// for each element, rows of two loops, incomplete and empty ones.
#include "tests/suite/common/kernel_case.h"

enum { TABLES = 3 };

typedef struct Column {
  const char *name;
  int64_t columns, block;
  int64_t size[2], valid[2]; // of the inner loops; size[0] 0: there is one
} Column;

static const Column columns[] = {
    {"whole", 64, 64, {0, 100}, {0, 100}},
    {"in blocks", 128, 64, {0, 100}, {0, 100}},
    {"with a last block", 100, 64, {0, 70}, {0, 70}},
    {"odd", 7, 64, {0, 300}, {0, 300}},
    {"of two", 2, 64, {0, 600}, {0, 600}},
    {"short", 32, 64, {0, 20}, {0, 20}},
    {"incomplete", 24, 64, {0, 100}, {0, 61}},
    {"empty", 16, 16, {0, 40}, {0, 0}},
    {"of two loops", 40, 64, {9, 31}, {9, 30}},
};

static bool has_two(const Column *x) { return x->size[0] > 0; }

static void add_loops(Case *c, const Column *x) {
  case_loop(c, true, TABLES, TABLES - 1);
  case_loop(c, true, x->columns, x->columns);
  if (has_two(x)) case_loop(c, false, x->size[0], x->valid[0]);
  case_loop(c, false, x->size[1], x->valid[1]);
  c->k.vector = 1;
  c->k.block = x->block;
}

static int add_array(Case *c, const Column *x, Dtype t, bool written) {
  int64_t one = x->size[1] * x->columns, all = has_two(x) ? x->size[0] * one : one;
  int64_t stride[4] = {all, 1, has_two(x) ? one : x->columns, x->columns};
  return case_pointer(c, t, written, has_two(x) ? 4 : 3, stride);
}

static void store_column(Case *c, const Column *x, Dtype t, int phase, int value) {
  case_store(c, case_pointer(c, t, true, STRIDES(x->columns, 1)), LEVEL_OUTER, phase, value);
}

// exp(x - max) / sum, with maximum and logarithm of the sum stored for each column.
static void add_softmax(const Column *x, Dtype t) {
  Case *c = case_new("long columns %s, softmax %s", x->name, dtype_text(t));
  add_loops(c, x);
  int in = add_array(c, x, t, false), out = add_array(c, x, t, true);
  int m = case_reduce(c, OP_MAX, TYPE_F32, 0, case_load_as(c, in, TYPE_F32, 0)), e[2];
  store_column(c, x, TYPE_F32, 1, m);
  for (int i = 0; i < 2; i++) {
    int d =
        case_op2(c, OP_SUB, TYPE_F32, LEVEL_INNER, 1 + i, case_load_as(c, in, TYPE_F32, 1 + i), m);
    e[i] = case_op1(c, OP_EXP, TYPE_F32, LEVEL_INNER, 1 + i, d);
    if (i == 0) e[0] = case_reduce(c, OP_SUM, TYPE_F32, 1, e[0]);
  }
  store_column(c, x, TYPE_F32, 2, case_op1(c, OP_LOG, TYPE_F32, LEVEL_OUTER, 2, e[0]));
  case_store(c, out, LEVEL_INNER, 2, case_op2(c, OP_DIV, TYPE_F32, LEVEL_INNER, 2, e[1], e[0]));
  c->k.nphases = 3;
  c->tol = 1e-4;
}

// Reductions of several kinds in one phase, of which only the columns are stored.
static void add_several(const Column *x, Dtype t) {
  static const Op ops[] = {OP_SUM, OP_MAX, OP_MIN};
  Case *c = case_new("long columns %s, reductions %s", x->name, dtype_text(t));
  add_loops(c, x);
  int value = case_load(c, add_array(c, x, t, false), LEVEL_INNER, 0), y[countof(ops)];
  for (size_t i = 0; i < countof(ops); i++) y[i] = case_reduce(c, ops[i], t, 0, value);
  for (size_t i = 0; i < countof(ops); i++) store_column(c, x, t, 1, y[i]);
  c->k.nphases = 2;
  c->tol = dtype_is_float(t) ? 1e-4 : 0;
}

// Many reductions in one phase, of which the last are stored.
static void add_many(const Column *x) {
  enum { MANY = 32, STORED = 6 };
  Case *c = case_new("long columns %s, %d reductions", x->name, MANY);
  add_loops(c, x);
  int value = case_load(c, add_array(c, x, TYPE_F32, false), LEVEL_INNER, 0), y[MANY];
  for (int i = 0; i < MANY; i++) y[i] = case_reduce(c, i % 2 ? OP_SUM : OP_MAX, TYPE_F32, 0, value);
  for (int i = MANY - STORED; i < MANY; i++) store_column(c, x, TYPE_F32, 1, y[i]);
  c->k.nphases = 2;
  c->tol = 1e-4;
}

void column_cases_add(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_I32, TYPE_I64};
  for (size_t i = 0; i < countof(columns); i++) {
    add_softmax(&columns[i], i % 3 ? TYPE_F32 : TYPE_BF16);
    add_several(&columns[i], types[i % countof(types)]);
    add_many(&columns[i]);
  }
}
