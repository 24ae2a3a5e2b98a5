// Kernels that are products of matrices, for code that computes them in tiles
// (codegen/gpu/gpu_product_plan.c): types, orders of factors in memory, sizes that no tile divides,
// rows, columns and depths of several loops, batches, incomplete extents, factors and results that
// are computed, long sums.
#include "tests/suite/common/kernel_case.h"

enum { BATCH, ROW, ROW2, COLUMN, COLUMN2, DEPTH, DEPTH2, LOOPS }; // the loops of a product

// How a factor lies in memory.
typedef enum Order { BY_DEPTH, BY_ROWS, APART } Order;   // APART: no neighbours
typedef enum Left { PLAIN_LEFT, SCALED, WINDOWED } Left; // how its elements are computed
typedef enum Result { PLAIN_RESULT, BIAS_GELU, MASKED } Result;

typedef struct Product {
  const char *name;
  int64_t size[LOOPS];    // 0: there is no such loop
  int64_t missing[LOOPS]; // elements by which the valid length of a loop is shorter
  Order order[2];
  Left left;
  Result result;
  int64_t offset[2]; // elements before the factors: their addresses are no multiples of 16
  bool shared[2];    // whether all batches have the same factor
  bool turned;       // columns before rows
} Product;

static const Product products[] = {
    {"even", {0, 128, 0, 128, 0, 64}, .turned = false},
    {"ragged", {0, 131, 0, 77, 0, 43}, .turned = false},
    {"neighbours in rows", {0, 72, 0, 136, 0, 40}, .order = {BY_ROWS, BY_ROWS}},
    {"neighbours in rows, ragged", {0, 75, 0, 139, 0, 37}, .order = {BY_ROWS, BY_ROWS}},
    {"left by rows", {0, 80, 0, 48, 0, 24}, .order = {BY_ROWS, BY_DEPTH}},
    {"right by rows", {0, 40, 0, 80, 0, 48}, .order = {BY_DEPTH, BY_ROWS}},
    {"apart", {0, 33, 0, 34, 0, 35}, .order = {APART, APART}},
    {"not aligned", {0, 48, 0, 64, 0, 32}, .offset = {1, 3}},
    {"not aligned, by rows", {0, 48, 0, 64, 0, 32}, .order = {BY_ROWS, BY_ROWS}, .offset = {2, 1}},
    {"one is not aligned", {0, 48, 0, 64, 0, 32}, .order = {BY_DEPTH, BY_ROWS}, .offset = {0, 1}},
    {"batches", {3, 40, 0, 48, 0, 32}, .order = {BY_DEPTH, BY_ROWS}},
    {"batches that share the right factor", {3, 24, 0, 40, 0, 32}, .shared = {false, true}},
    {"batches that share the left factor", {3, 24, 0, 40, 0, 33}, .shared = {true, false}},
    {"incomplete", {2, 60, 0, 70, 0, 50}, .missing = {1, 7, 0, 9, 0, 13}},
    {"incomplete, by rows",
     {2, 60, 0, 72, 0, 50},
     .missing = {0, 7, 0, 9, 0, 3},
     .order = {BY_ROWS, BY_ROWS}},
    {"no rows", {0, 32, 0, 32, 0, 32}, .missing = {0, 32}},
    {"no terms", {0, 32, 0, 32, 0, 32}, .missing = {0, 0, 0, 0, 0, 32}},
    {"rows of two loops", {0, 5, 16, 48, 0, 32}, .order = {BY_ROWS, BY_DEPTH}},
    {"columns of two loops", {2, 40, 0, 6, 9, 32}, .order = {BY_DEPTH, BY_ROWS}},
    {"depth of two loops", {0, 40, 0, 40, 0, 6, 8}, .turned = false},
    {"all of two loops", {2, 5, 7, 4, 9, 3, 17}, .missing = {0, 1, 2, 1, 0, 0, 1}},
    {"columns first", {0, 40, 0, 56, 0, 32}, .turned = true},
    {"columns first, by rows", {0, 40, 0, 56, 0, 32}, .order = {BY_ROWS, BY_ROWS}, .turned = true},
    {"computed factor", {0, 50, 0, 60, 0, 40}, .left = SCALED},
    {"computed factor by rows", {0, 50, 0, 60, 0, 40}, .order = {BY_ROWS, BY_ROWS}, .left = SCALED},
    {"window", {2, 30, 0, 40, 0, 3, 16}, .order = {BY_DEPTH, BY_ROWS}, .left = WINDOWED},
    {"bias and gelu", {0, 66, 0, 70, 0, 32}, .order = {BY_DEPTH, BY_ROWS}, .result = BIAS_GELU},
    {"bias and gelu, batches", {2, 34, 0, 35, 0, 32}, .result = BIAS_GELU},
    {"masked", {2, 40, 0, 40, 0, 20}, .order = {BY_DEPTH, BY_ROWS}, .result = MASKED},
    {"both computed", {2, 40, 0, 48, 0, 36}, .left = SCALED, .result = BIAS_GELU},
    {"long sums", {0, 16, 0, 16, 0, 1300}, .order = {BY_ROWS, BY_ROWS}},
    {"long sums, ragged", {0, 17, 0, 19, 0, 777}, .turned = false},
    {"depth in parts", {0, 24, 0, 16, 0, 1050}, .order = {BY_ROWS, BY_ROWS}},
    {"depth in parts, incomplete batches",
     {2, 20, 0, 17, 0, 70, 16},
     .missing = {0, 3, 0, 2, 0, 31},
     .order = {BY_DEPTH, BY_ROWS},
     .result = BIAS_GELU},
    {"depth in parts, no terms", {0, 16, 0, 16, 0, 70, 16}, .missing = {0, 0, 0, 0, 0, 70}},
    {"depth in parts, computed factor", {0, 16, 0, 20, 0, 1100}, .left = SCALED, .turned = true},
    {"many tiles", {0, 300, 0, 80, 0, 16}, .order = {BY_DEPTH, BY_ROWS}},
};

// The numbers of a product's loops in its kernel.
typedef struct Numbers {
  int at[LOOPS]; // -1: there is no such loop
} Numbers;

static Numbers add_loops(Case *c, const Product *p) {
  static const int usual[] = {BATCH, ROW, ROW2, COLUMN, COLUMN2, DEPTH, DEPTH2};
  static const int turned[] = {BATCH, COLUMN, COLUMN2, ROW, ROW2, DEPTH, DEPTH2};
  Numbers n;
  int next = 0;
  for (int i = 0; i < LOOPS; i++) {
    int l = p->turned ? turned[i] : usual[i];
    n.at[l] = p->size[l] ? next++ : -1;
    if (p->size[l]) case_loop(c, l < DEPTH, p->size[l], p->size[l] - p->missing[l]);
  }
  c->k.vector = (int8_t)(c->k.nouter - 1);
  c->k.block = c->k.loop[c->k.vector].size < 64 ? c->k.loop[c->k.vector].size : 64;
  c->k.nphases = 2;
  return n;
}

// Adds a pointer to a dense array over the n loops `order`, slowest first, `apart` elements from
// one to the next.
static int add_array(Case *c, const Product *p, const Numbers *n, Dtype t, bool written,
                     int64_t apart, int count, const int *order) {
  int64_t stride[MAX_LOOPS] = {0}, next = apart;
  for (int i = count - 1; i >= 0; i--) {
    if (n->at[order[i]] < 0) continue;
    stride[n->at[order[i]]] = next;
    next *= p->size[order[i]];
  }
  return case_pointer(c, t, written, c->k.nouter + c->k.ninner, stride);
}

static int add_factor(Case *c, const Product *p, const Numbers *n, Dtype t, int side) {
  int x = side ? COLUMN : ROW, order[5] = {BATCH, x, x + 1, DEPTH, DEPTH2};
  if (p->order[side] == BY_ROWS) {
    order[1] = DEPTH, order[2] = DEPTH2;
    order[3] = x, order[4] = x + 1;
  }
  int skip = p->shared[side];
  int at = add_array(c, p, n, t, false, p->order[side] == APART ? 2 : 1, 5 - skip, order + skip);
  c->ptr[at].offset = p->offset[side];
  return at;
}

// Adds the load of a window: element (row + depth - 1, second depth), which is 0 outside.
static int add_window(Case *c, const Product *p, const Numbers *n, Dtype t) {
  int64_t rows = p->size[ROW], width = p->size[DEPTH2], at[MAX_LOOPS] = {0}, x[MAX_LOOPS] = {0};
  at[n->at[ROW]] = at[n->at[DEPTH]] = 1;
  x[n->at[ROW]] = x[n->at[DEPTH]] = width;
  x[n->at[DEPTH2]] = 1;
  x[n->at[BATCH]] = rows * width;
  int walk = case_walk(c, -1, c->k.nouter + c->k.ninner, at);
  int position =
      case_stmt(c, K_POSITION, OP_CAST, TYPE_I64, LEVEL_INNER, 0, NO_STMT, NO_STMT, NO_STMT, walk);
  int inside =
      case_stmt(c, K_INSIDE, OP_CAST, TYPE_BOOL, LEVEL_INNER, 0, position, NO_STMT, NO_STMT, -1);
  c->stmt[inside].step = rows;
  int from = case_pointer(c, t, false, c->k.nouter + c->k.ninner, x);
  c->ptr[from].offset = -width;
  c->size[from] = p->size[BATCH] * rows * width;
  int load = case_load(c, from, LEVEL_INNER, 0);
  c->stmt[load].arg[1] = inside;
  return load;
}

static int add_left(Case *c, const Product *p, const Numbers *n, Dtype t) {
  if (p->left == WINDOWED) return add_window(c, p, n, t);
  int x = case_load(c, add_factor(c, p, n, t, 0), LEVEL_INNER, 0);
  if (p->left == PLAIN_LEFT) return x;
  int scale = case_load(c, add_array(c, p, n, t, false, 1, 1, (int[]){ROW}), LEVEL_OUTER, 0);
  return case_op2(c, OP_MUL, t, LEVEL_INNER, 0, case_op1(c, OP_RELU, t, LEVEL_INNER, 0, x), scale);
}

static int widened(Case *c, int x, Dtype t) {
  return c->stmt[x].type == t ? x : case_op1(c, OP_CAST, t, c->stmt[x].level, c->stmt[x].phase, x);
}

static int counter(Case *c, const Numbers *n, int loop) {
  return case_stmt(c, K_OP, OP_INDEX, TYPE_I32, LEVEL_OUTER, 1, NO_STMT, NO_STMT, NO_STMT,
                   n->at[loop]);
}

static void add_result(Case *c, const Product *p, const Numbers *n, Dtype t, int sum) {
  static const int all[] = {BATCH, ROW, ROW2, COLUMN, COLUMN2};
  Dtype wide = c->stmt[sum].type;
  int x = sum;
  if (p->result == BIAS_GELU) {
    int bias = case_load(c, add_array(c, p, n, t, false, 1, 1, (int[]){COLUMN}), LEVEL_OUTER, 1);
    x = case_op2(c, OP_ADD, wide, LEVEL_OUTER, 1, sum, widened(c, bias, wide));
    case_store(c, add_array(c, p, n, wide, true, 1, 5, all), LEVEL_OUTER, 1, x);
    x = case_op1(c, OP_GELU, wide, LEVEL_OUTER, 1, x);
  } else if (p->result == MASKED) {
    int keep =
        case_op2(c, OP_LE, TYPE_BOOL, LEVEL_OUTER, 1, counter(c, n, ROW), counter(c, n, COLUMN));
    int other = case_load(c, add_array(c, p, n, wide, false, 1, 2, all), LEVEL_OUTER, 1);
    x = case_stmt(c, K_OP, OP_WHERE, wide, LEVEL_OUTER, 1, keep, sum, other, -1);
  }
  case_store(c, add_array(c, p, n, t, true, 1, 5, all), LEVEL_OUTER, 1, x);
}

static void add_product(const Product *p, Dtype left, Dtype right, Dtype result) {
  Dtype sum = left == TYPE_F64 || right == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  Case *c = case_new("product %s, %s %s %s", p->name, dtype_text(left), dtype_text(right),
                     dtype_text(result));
  Numbers n = add_loops(c, p);
  int a = widened(c, add_left(c, p, &n, left), sum);
  int b = widened(c, case_load(c, add_factor(c, p, &n, right, 1), LEVEL_INNER, 0), sum);
  int s = case_reduce(c, OP_SUM, sum, 0, case_op2(c, OP_MUL, sum, LEVEL_INNER, 0, a, b));
  add_result(c, p, &n, result, s);
  c->tol = sum == TYPE_F64 ? 1e-12 : p->size[DEPTH] > 500 ? 1e-3 : 1e-4;
  // computed factors of narrow types are rounded; such numbers need no rounding
  if (p->left == SCALED) c->data = DATA_SMALL;
}

void tile_cases_add(void) {
  static const Dtype types[][3] = {
      {TYPE_F32, TYPE_F32, TYPE_F32},   {TYPE_BF16, TYPE_BF16, TYPE_BF16},
      {TYPE_F16, TYPE_F16, TYPE_F16},   {TYPE_F64, TYPE_F64, TYPE_F64},
      {TYPE_BF16, TYPE_BF16, TYPE_F32}, {TYPE_BF16, TYPE_F32, TYPE_F32}};
  for (size_t i = 0; i < countof(products); i++)
    for (size_t t = 0; t < countof(types); t++)
      add_product(&products[i], types[t][0], types[t][1], types[t][2]);
}
