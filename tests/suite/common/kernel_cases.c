// Kernels over all of kernel.h, for kernel_case.h: every pointwise op on every type that it takes
// (in the vector loop at both positions and in scalar code; lengths that leave tails; extents known
// and from slots), reductions, accumulators over several chunks, gathers and scatters, narrow
// floats, register tiles, the status word, and random kernels.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/kernel_case.h"

static bool flt(Dtype t) { return dtype_is_float(t); }

// -- pointwise ops ------------------------------------------------------------------------------

// Position of the vector loop: none (scalar code), last inner loop, last outer loop.
enum { AT_NONE, AT_INNER, AT_OUTER, PLACES };
static const char *const place_name[] = {"scalar", "inner", "outer"};

static KLevel pointwise_loops(Case *c, int place, int64_t n, int64_t valid) {
  case_loop(c, true, 3, 3);
  case_loop(c, place == AT_OUTER, n, valid);
  c->k.vector = place == AT_NONE ? -1 : 1;
  c->k.block = 256;
  return place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
}

typedef struct OpTypes {
  Op op;
  const char *types; // f: floats, i: i32, l: i64, u: u8, b: bool
  int data;
  double tol;
} OpTypes;

static const OpTypes pointwise[] = {
    {OP_SILU, "f", DATA_SPECIAL, 0},
    {OP_SILU_SLOPE, "f", DATA_SPECIAL, 1e-7},
    {OP_GELU, "f", DATA_SPECIAL, 1e-9},
    {OP_GELU_SLOPE, "f", DATA_SPECIAL, 1e-7},
    {OP_GELU_TANH, "f", DATA_SPECIAL, 1e-9},
    {OP_GELU_TANH_SLOPE, "f", DATA_SPECIAL, 1e-7},
    {OP_NEG, "fil", DATA_SPECIAL, 0},
    {OP_EXP, "f", DATA_REAL, 0},
    {OP_LOG, "f", DATA_POSITIVE, 0},
    {OP_LOG1P, "f", DATA_POSITIVE, 0},
    {OP_EXPM1, "f", DATA_REAL, 0},
    {OP_SQRT, "f", DATA_POSITIVE, 0},
    {OP_RSQRT, "f", DATA_POSITIVE, 0},
    {OP_ABS, "fil", DATA_SPECIAL, 0},
    {OP_SIGN, "fil", DATA_SPECIAL, 0},
    {OP_FLOOR, "f", DATA_SPECIAL, 0},
    {OP_CEIL, "f", DATA_SPECIAL, 0},
    {OP_TRUNC, "f", DATA_SPECIAL, 0},
    {OP_ROUND, "f", DATA_SPECIAL, 0},
    {OP_SIN, "f", DATA_SPECIAL, 0},
    {OP_COS, "f", DATA_SPECIAL, 0},
    {OP_TANH, "f", DATA_SPECIAL, 0},
    {OP_SIGMOID, "f", DATA_SPECIAL, 0},
    {OP_RELU, "filu", DATA_SPECIAL, 0},
    {OP_ERF, "f", DATA_SPECIAL, 0},
    {OP_SOFTPLUS, "f", DATA_SPECIAL, 0},
    {OP_RECIPROCAL, "f", DATA_SPECIAL, 0},
    {OP_NOT, "b", DATA_REAL, 0},
    {OP_ADD, "filu", DATA_WILD, 1e-7},
    {OP_SUB, "filu", DATA_WILD, 1e-7},
    {OP_MUL, "filu", DATA_WILD, 0},
    {OP_DIV, "f", DATA_POSITIVE, 0},
    {OP_MOD, "fil", DATA_WILD, 0},
    {OP_FLOOR_DIV, "fil", DATA_WILD, 0},
    {OP_POW, "f", DATA_POSITIVE, 0},
    {OP_POW, "il", DATA_SMALL, 0},
    {OP_MAXIMUM, "filub", DATA_SPECIAL, 0},
    {OP_MINIMUM, "filub", DATA_SPECIAL, 0},
    {OP_EQ, "filub", DATA_SPECIAL, 0},
    {OP_NE, "filub", DATA_SPECIAL, 0},
    {OP_LT, "filub", DATA_SPECIAL, 0},
    {OP_LE, "filub", DATA_SPECIAL, 0},
    {OP_AND, "b", DATA_REAL, 0},
    {OP_OR, "b", DATA_REAL, 0},
    {OP_BIT_AND, "i", DATA_WILD, 0},
    {OP_BIT_OR, "i", DATA_WILD, 0},
    {OP_BIT_XOR, "i", DATA_WILD, 0},
    {OP_SHIFT_LEFT, "i", DATA_SMALL, 0},
    {OP_SHIFT_LEFT, "i", DATA_WILD, 0},
    {OP_SHIFT_RIGHT, "i", DATA_SMALL, 0},
    {OP_SHIFT_RIGHT, "i", DATA_WILD, 0},
    {OP_CLIP, "filu", DATA_SPECIAL, 0},
    {OP_ARG_KEY, "fiub", DATA_SPECIAL, 0},
};

static bool letter_has(const char *letters, Dtype t) {
  char want = flt(t)           ? 'f'
              : t == TYPE_I32  ? 'i'
              : t == TYPE_I64  ? 'l'
              : t == TYPE_U8   ? 'u'
              : t == TYPE_BOOL ? 'b'
                               : 'x';
  return strchr(letters, want) != NULL;
}

static const int64_t lengths[][2] = {{1, 1},       {7, 7},    {16, 16},    {33, 33},
                                     {1000, 1000}, {1000, 0}, {1000, 613}, {40, 17}};

static void pointwise_case(const OpTypes *o, Dtype t, int place, const int64_t *n) {
  Case *c = case_new("%s %s %s %lld/%lld", op_row(o->op)->text, dtype_text(t), place_name[place],
                     (long long)n[1], (long long)n[0]);
  KLevel level = pointwise_loops(c, place, n[0], n[1]);
  bool compares = o->op == OP_EQ || o->op == OP_NE || o->op == OP_LT || o->op == OP_LE,
       key = o->op == OP_ARG_KEY;
  Dtype out = compares ? TYPE_BOOL : key ? TYPE_U64 : t;
  int nargs = op_row(o->op)->nargs, a[3] = {NO_STMT, NO_STMT, NO_STMT};
  for (int i = 0; i < nargs; i++)
    a[i] =
        case_load(c, case_pointer(c, key && i ? TYPE_I32 : t, false, STRIDES(n[0], 1)), level, 0);
  int y = case_stmt(c, K_OP, o->op, out, level, 0, a[0], a[1], a[2], -1);
  case_store(c, case_pointer(c, out, true, STRIDES(n[0], 1)), level, 0, y);
  c->data = o->data;
  c->tol = flt(t) ? o->tol : 0;
}

static void add_pointwise(void) {
  for (size_t i = 0; i < countof(pointwise); i++)
    for (int t = 0; t < TYPE_COUNT; t++) {
      if (!letter_has(pointwise[i].types, (Dtype)t) ||
          (pointwise[i].op == OP_ARG_KEY && t == TYPE_F64))
        continue;
      // Every length in one position, a few lengths in the others: the code depends on the
      // position, the tails depend on the length.
      for (size_t n = 0; n < countof(lengths); n++)
        for (int place = 0; place < PLACES; place++)
          if (place == AT_INNER ? (t == TYPE_F32 || n == 3 || n == 6) : n == 3)
            pointwise_case(&pointwise[i], (Dtype)t, place, lengths[n]);
    }
}

// Stores past the caches: whole lines, and a tail under a mask.
static void add_streams(void) {
  for (int t = 0; t < TYPE_COUNT; t++)
    for (int place = AT_INNER; place <= AT_OUTER; place++)
      for (int n = 0; n < 2; n++) {
        Case *c = case_new("streamed %s %s %d", dtype_text((Dtype)t), place_name[place], n);
        KLevel level = pointwise_loops(c, place, 1024, n ? 1024 : 613);
        int x = case_load(c, case_pointer(c, (Dtype)t, false, STRIDES(1024, 1)), level, 0);
        int to = case_pointer(c, (Dtype)t, true, STRIDES(1024, 1));
        c->ptr[to].streamed = true;
        case_store(c, to, level, 0, x);
      }
}

static void add_casts(void) {
  for (int from = 0; from < TYPE_COUNT; from++)
    for (int to = 0; to < TYPE_COUNT; to++) {
      if (from == to || from == TYPE_U64 || to == TYPE_U64) continue;
      Case *c = case_new("cast %s %s", dtype_text((Dtype)from), dtype_text((Dtype)to));
      KLevel level = pointwise_loops(c, from % 2 ? AT_OUTER : AT_INNER, 200, 200);
      int a = case_load(c, case_pointer(c, (Dtype)from, false, STRIDES(200, 1)), level, 0);
      case_store(c, case_pointer(c, (Dtype)to, true, STRIDES(200, 1)), level, 0,
                 case_op1(c, OP_CAST, (Dtype)to, level, 0, a));
      c->data = from == TYPE_F64 && (to == TYPE_BF16 || to == TYPE_F16) ? DATA_REAL : DATA_SPECIAL;
    }
}

static void add_selections(void) {
  for (int t = 0; t < TYPE_COUNT; t++)
    for (int place = 0; place < PLACES; place++) {
      Case *c = case_new("where %s %s", dtype_text((Dtype)t), place_name[place]);
      KLevel level = pointwise_loops(c, place, 50, 41);
      int p = case_load(c, case_pointer(c, TYPE_BOOL, false, STRIDES(50, 1)), level, 0);
      int a = case_load(c, case_pointer(c, (Dtype)t, false, STRIDES(1, 3)), level, 0);
      int b = case_load(c, case_pointer(c, (Dtype)t, false, STRIDES(50, 0)), level, 0);
      int y = case_stmt(c, K_OP, OP_WHERE, (Dtype)t, level, 0, p, a, b, -1);
      case_store(c, case_pointer(c, (Dtype)t, true, STRIDES(1, 4)), level, 0, y);
      c->data = DATA_SPECIAL;
    }
}

static void add_counters(void) {
  for (int place = 0; place < PLACES; place++) {
    Case *c = case_new("index, step, num, to_partial %s", place_name[place]);
    KLevel level = pointwise_loops(c, place, 50, 41);
    c->slot[c->k.nslots] = 1000;
    int i = case_stmt(c, K_OP, OP_INDEX, TYPE_I32, level, 0, NO_STMT, NO_STMT, NO_STMT, 1);
    c->stmt[i].slot = c->k.nslots++;
    int j = case_stmt(c, K_OP, OP_INDEX, TYPE_I32, level, 0, NO_STMT, NO_STMT, NO_STMT, 0);
    int s =
        case_op2(c, OP_ADD, TYPE_I32, level, 0, i, case_op2(c, OP_MUL, TYPE_I32, level, 0, j, i));
    int step =
        case_stmt(c, K_OP, OP_STEP, TYPE_I32, LEVEL_PROLOGUE, 0, NO_STMT, NO_STMT, NO_STMT, -1);
    s = case_op2(c, OP_ADD, TYPE_I32, level, 0, s, step);
    int f = case_op1(c, OP_CAST, TYPE_F32, level, 0, s);
    int num =
        case_stmt(c, K_NUM, OP_ADD, TYPE_F32, LEVEL_PROLOGUE, 0, NO_STMT, NO_STMT, NO_STMT, 0);
    c->k.nnum = 1;
    c->num[0] = 0.25;
    int own[2];
    for (int q = 0; q < 2; q++) {
      own[q] = case_op1(c, OP_TO_PARTIAL, TYPE_F32, level, 0, f);
      c->slot[c->k.nslots] = q;
      c->stmt[own[q]].slot = c->k.nslots++;
    }
    int y = case_op2(c, OP_SUB, TYPE_F32, level, 0,
                     case_op2(c, OP_MUL, TYPE_F32, level, 0, own[0], num), own[1]);
    case_store(c, case_pointer(c, TYPE_F32, true, STRIDES(50, 1)), level, 0, y);
  }
}

static void add_key_index(void) {
  for (int place = 0; place < PLACES; place++) {
    Case *c = case_new("argmax %s", place_name[place]);
    case_loop(c, true, 5, 5);
    case_loop(c, place == AT_OUTER, 37, 37);
    if (place == AT_OUTER) case_loop(c, false, 21, 19);
    c->k.vector = place == AT_NONE ? -1 : 1;
    c->k.block = 16;
    int in = place == AT_OUTER ? 2 : 1;
    int x = case_load(c,
                      place == AT_OUTER ? case_pointer(c, TYPE_F32, false, STRIDES(37 * 21, 1, 37))
                                        : case_pointer(c, TYPE_F32, false, STRIDES(37, 1)),
                      LEVEL_INNER, 0);
    int i = case_stmt(c, K_OP, OP_INDEX, TYPE_I32, LEVEL_INNER, 0, NO_STMT, NO_STMT, NO_STMT, in);
    int best = case_reduce(c, OP_MAX, TYPE_U64, 0,
                           case_op2(c, OP_ARG_KEY, TYPE_U64, LEVEL_INNER, 0, x, i));
    c->k.nphases = 2;
    int y = case_op1(c, OP_KEY_INDEX, TYPE_I32, LEVEL_OUTER, 1, best);
    case_store(c,
               place == AT_OUTER ? case_pointer(c, TYPE_I32, true, STRIDES(37, 1))
                                 : case_pointer(c, TYPE_I32, true, STRIDES(1)),
               LEVEL_OUTER, 1, y);
    c->data = DATA_SPECIAL;
  }
}

// -- reductions, accumulators -------------------------------------------------------------------

static const struct {
  Op op;
  const char *types;
} reductions[] = {
    {OP_SUM, "fil"},  {OP_MAX, "filub"}, {OP_MIN, "filub"},
    {OP_PROD, "fil"}, {OP_ANY, "b"},     {OP_ALL, "b"},
};

// Loops: outer (3, n) with inner m, or outer 3 with inner (m, n). The vector loop is n.
static void reduce_case(Op op, Dtype t, int place, int64_t m, int64_t n, int64_t valid) {
  Case *c = case_new("%s %s %s %lldx%lld/%lld", op_row(op)->text, dtype_text(t), place_name[place],
                     (long long)m, (long long)valid, (long long)n);
  case_loop(c, true, 3, 3);
  if (place == AT_OUTER) case_loop(c, true, n, valid);
  case_loop(c, false, m, m);
  if (place != AT_OUTER) case_loop(c, false, n, valid);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 64;
  int64_t s[3] = {m * n, place == AT_OUTER ? 1 : n, place == AT_OUTER ? n : 1};
  Dtype acc = t == TYPE_BF16 || t == TYPE_F16 ? TYPE_F32 : t;
  int r = case_reduce(c, op, acc, 0, case_load(c, case_pointer(c, t, false, 3, s), LEVEL_INNER, 0));
  c->k.nphases = 2;
  int out = place == AT_OUTER ? case_pointer(c, acc, true, STRIDES(n, 1))
                              : case_pointer(c, acc, true, STRIDES(1));
  case_store(c, out, LEVEL_OUTER, 1, r);
  c->data = op == OP_PROD ? DATA_POSITIVE : op == OP_SUM ? DATA_REAL : DATA_SPECIAL;
  if (op == OP_PROD && !flt(t)) c->data = DATA_SMALL;
  c->tol = flt(t) && (op == OP_SUM || op == OP_PROD) ? 1e-4 : 0;
}

static void accum_case(Op op, Dtype t, int place, bool moves, KLevel level) {
  Case *c = case_new("accum %s %s %s%s level %d", op_row(op)->text, dtype_text(t),
                     place_name[place], moves ? " row" : "", (int)level);
  const int64_t n = 45, m = 6;
  case_loop(c, true, 7, 7);
  if (place == AT_OUTER) case_loop(c, true, n, 39);
  case_loop(c, false, m, m);
  if (place != AT_OUTER) case_loop(c, false, n, 39);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 20;
  int64_t s[3] = {m * n, place == AT_OUTER ? 1 : n, place == AT_OUTER ? n : 1};
  int64_t in_row[3] = {0, place == AT_OUTER ? 0 : 2 * n, place == AT_OUTER ? 3 : 2}, none[3] = {0};
  int64_t last[3] = {0, 0, 1};
  Dtype acc = t == TYPE_BF16 || t == TYPE_F16 ? TYPE_F32 : t;
  int x = case_load(c, case_pointer(c, t, false, 3, s), LEVEL_INNER, 0);
  if (level == LEVEL_OUTER) {
    c->k.nphases = 2;
    x = case_reduce(c, op, acc, 0, x);
  }
  case_accum(c, op, acc, case_pointer(c, acc, true, 3, moves ? in_row : none), level,
             level == LEVEL_OUTER, x);
  if (moves && place == AT_INNER)
    case_accum(c, op, acc, case_pointer(c, acc, true, 3, last), level, 0, x);
  c->data = op == OP_PROD ? DATA_POSITIVE : op == OP_SUM ? DATA_REAL : DATA_SPECIAL;
  if (op == OP_PROD && !flt(t)) c->data = DATA_SMALL;
  if (op == OP_PROD && flt(t)) c->data = DATA_SMALL;
  c->tol = flt(t) && op == OP_SUM ? 1e-4 : 0;
}

static void add_reductions(void) {
  for (size_t i = 0; i < countof(reductions); i++)
    for (int t = 0; t < TYPE_COUNT; t++)
      for (int place = 0; place < PLACES; place++) {
        if (!letter_has(reductions[i].types, (Dtype)t) &&
            !(t == TYPE_U64 && reductions[i].op == OP_MAX))
          continue;
        Op op = reductions[i].op;
        reduce_case(op, (Dtype)t, place, 3, op == OP_PROD ? 9 : 77, op == OP_PROD ? 9 : 77);
        if (t == TYPE_F32) reduce_case(op, TYPE_F32, place, 2, 300, 0);
        if (t == TYPE_F32 && op != OP_PROD) reduce_case(op, TYPE_F32, place, 1, 1000, 999);
        if (t == TYPE_U64) continue;
        accum_case(op, (Dtype)t, place, false, LEVEL_INNER);
        accum_case(op, (Dtype)t, place, true, LEVEL_INNER);
        accum_case(op, (Dtype)t, place, false, LEVEL_OUTER);
      }
}

// Adds softmax of rows in three phases, with the logarithm of the sum accumulated.
static void add_softmax(void) {
  for (int64_t n = 5; n < 400; n = n * 2 + 3) {
    Case *c = case_new("softmax %lld", (long long)n);
    case_loop(c, true, 9, 8);
    case_loop(c, false, n, n);
    c->k.vector = 1;
    c->k.nphases = 3;
    int in = case_pointer(c, TYPE_F32, false, STRIDES(n, 1)),
        out = case_pointer(c, TYPE_F32, true, STRIDES(n, 1));
    int m = case_reduce(c, OP_MAX, TYPE_F32, 0, case_load(c, in, LEVEL_INNER, 0));
    int e1 = case_op1(
        c, OP_EXP, TYPE_F32, LEVEL_INNER, 1,
        case_op2(c, OP_SUB, TYPE_F32, LEVEL_INNER, 1, case_load(c, in, LEVEL_INNER, 1), m));
    int s = case_reduce(c, OP_SUM, TYPE_F32, 1, e1);
    int e2 = case_op1(
        c, OP_EXP, TYPE_F32, LEVEL_INNER, 2,
        case_op2(c, OP_SUB, TYPE_F32, LEVEL_INNER, 2, case_load(c, in, LEVEL_INNER, 2), m));
    case_store(c, out, LEVEL_INNER, 2, case_op2(c, OP_DIV, TYPE_F32, LEVEL_INNER, 2, e2, s));
    int l = case_op2(c, OP_ADD, TYPE_F32, LEVEL_OUTER, 2,
                     case_op1(c, OP_LOG, TYPE_F32, LEVEL_OUTER, 2, s), m);
    case_accum(c, OP_SUM, TYPE_F32, case_pointer(c, TYPE_F32, true, STRIDES(0, 0)), LEVEL_OUTER, 2,
               l);
    c->tol = 1e-5;
  }
}

// -- contractions in register tiles -------------------------------------------------------------

// C[m, n] = relu(sum_k A[m, k] B[k, n] + bias[n]). `turned`: B[n, k], and the vector loop is k.
static void tile_case(Dtype t, int64_t m, int64_t mv, int64_t n, int64_t nv, int64_t k, bool turned,
                      int chunks) {
  Case *c =
      case_new("tile %s %lld/%lldx%lld/%lldx%lld%s", dtype_text(t), (long long)mv, (long long)m,
               (long long)nv, (long long)n, (long long)k, turned ? " turned" : "");
  Dtype acc = t == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  case_loop(c, true, m, mv);
  case_loop(c, true, n, nv);
  case_loop(c, false, k, k);
  c->k.vector = turned ? 2 : 1;
  c->k.block = 64;
  c->k.rows = 0;
  c->k.nphases = 2;
  int a = case_load(c, case_pointer(c, t, false, STRIDES(k, 0, 1)), LEVEL_INNER, 0);
  int b = case_load(c,
                    turned ? case_pointer(c, t, false, STRIDES(0, k, 1))
                           : case_pointer(c, t, false, STRIDES(0, 1, n)),
                    LEVEL_INNER, 0);
  int s = case_reduce(c, OP_SUM, acc, 0, case_op2(c, OP_MUL, acc, LEVEL_INNER, 0, a, b));
  int y = case_op2(c, OP_ADD, acc, LEVEL_OUTER, 1, s,
                   case_load(c, case_pointer(c, t, false, STRIDES(0, 1, 0)), LEVEL_OUTER, 1));
  case_store(c, case_pointer(c, t, true, STRIDES(n, 1, 0)), LEVEL_OUTER, 1,
             case_op1(c, OP_RELU, acc, LEVEL_OUTER, 1, y));
  int64_t none[3] = {0};
  case_accum(c, OP_MAX, acc, case_pointer(c, acc, true, 3, none), LEVEL_OUTER, 1, y);
  c->chunks = chunks;
  c->tol = 1e-4;
}

static void add_tiles(void) {
  for (int chunks = 1; chunks < 4; chunks += 2) {
    tile_case(TYPE_F32, 32, 32, 100, 100, 20, false, chunks);
    tile_case(TYPE_F32, 29, 27, 150, 131, 33, false, chunks);
    tile_case(TYPE_F32, 13, 13, 20, 18, 70, true, chunks);
    tile_case(TYPE_F64, 10, 10, 70, 70, 15, false, chunks);
    tile_case(TYPE_BF16, 12, 12, 65, 65, 15, false, chunks);
    tile_case(TYPE_F32, 3, 3, 10, 10, 64, false, chunks);
    tile_case(TYPE_F32, 16, 0, 40, 40, 8, false, chunks);
  }
}

// -- products in packed blocks -------------------------------------------------------------------

// C[m, n] = relu(sum_{j, k} A[m, j, k] B[j, k, n]), large enough for kernel_product. The factors
// have their columns, rows or summed elements next to each other, by left and right: 0: as written,
// 1: transposed, 2: no loop has stride 1.
static void product_case(Dtype t, int64_t m, int64_t mv, int64_t n, int64_t nv, int64_t j,
                         int64_t k, int left, int right, int chunks) {
  Case *c = case_new("product %s %lld/%lldx%lld/%lldx%lldx%lld left %d right %d", dtype_text(t),
                     (long long)mv, (long long)m, (long long)nv, (long long)n, (long long)j,
                     (long long)k, left, right);
  Dtype acc = t == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  case_loop(c, true, m, mv);
  case_loop(c, true, n, nv);
  case_loop(c, false, j, j);
  case_loop(c, false, k, k);
  c->k.vector = 1;
  c->k.block = 64;
  c->k.rows = 0;
  c->k.nphases = 2;
  int pa = left == 0   ? case_pointer(c, t, false, STRIDES(j * k, 0, k, 1))
           : left == 1 ? case_pointer(c, t, false, STRIDES(1, 0, k * m, m))
                       : case_pointer(c, t, false, STRIDES(2 * k * j, 0, 2 * k, 2));
  int pb = right == 0   ? case_pointer(c, t, false, STRIDES(0, 1, k * n, n))
           : right == 1 ? case_pointer(c, t, false, STRIDES(0, j * k, k, 1))
                        : case_pointer(c, t, false, STRIDES(0, 2 * j * k, 2 * k, 2));
  int a = case_load(c, pa, LEVEL_INNER, 0), b = case_load(c, pb, LEVEL_INNER, 0);
  int s = case_reduce(c, OP_SUM, acc, 0, case_op2(c, OP_MUL, acc, LEVEL_INNER, 0, a, b));
  case_store(c, case_pointer(c, acc, true, STRIDES(n, 1, 0, 0)), LEVEL_OUTER, 1,
             case_op1(c, OP_RELU, acc, LEVEL_OUTER, 1, s));
  c->chunks = chunks;
  c->tol = 1e-4;
}

static void add_products(void) {
  for (int way = 0; way < 9; way++)
    product_case(TYPE_F32, 60, 51, 99, 90, 2, 99, way / 3, way % 3, 1 + way % 3);
  product_case(TYPE_F32, 33, 33, 70, 70, 1, 500, 0, 1, 2);
  product_case(TYPE_F32, 64, 64, 64, 64, 50, 7, 0, 0, 1);
  product_case(TYPE_F64, 40, 40, 70, 70, 3, 150, 0, 1, 2);
  product_case(TYPE_F64, 40, 39, 70, 70, 3, 150, 1, 0, 1);
  product_case(TYPE_BF16, 65, 65, 80, 80, 3, 90, 0, 1, 3);
  product_case(TYPE_F32, 64, 0, 64, 64, 3, 90, 0, 0, 1);
}

// -- gathers, scatters, checks ------------------------------------------------------------------

// A gather if op is OP_TAKE, else a scatter that combines by op.
static void gather_case(Dtype t, int place, Op op, bool uniform) {
  bool scatter = op != OP_TAKE;
  Case *c = case_new("%s %s %s%s", scatter ? op_row(op)->text : "gather", dtype_text(t),
                     place_name[place], uniform ? " uniform" : "");
  const int64_t n = 45, m = 5;
  case_loop(c, true, m, m);
  if (place == AT_OUTER) case_loop(c, true, n, 39);
  case_loop(c, false, 4, 4);
  if (place != AT_OUTER) case_loop(c, false, n, 39);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 20;
  int v = place == AT_OUTER ? 1 : 2, in = 3 - v;
  int64_t id[3] = {0}, x[3] = {0}, table[3] = {0};
  id[0] = uniform ? 1 : n;
  if (!uniform) id[v] = 1;
  x[0] = 4 * n, x[v] = 1, x[in] = n;
  table[in] = uniform ? n : 1;
  if (uniform) table[v] = 1;
  KLevel level = uniform || place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
  int i = case_load(c, case_pointer(c, TYPE_I32, false, 3, id), level, 0);
  int64_t step = uniform ? 4 * n : 4;
  if (scatter) {
    int y = case_load(c, case_pointer(c, t, false, 3, x), LEVEL_INNER, 0);
    case_stmt(c, K_SCATTER, op, t, LEVEL_INNER, 0, y, i, NO_STMT,
              case_pointer(c, t, true, 3, table));
    c->stmt[c->k.nstmts - 1].step = step;
  } else {
    int y = case_stmt(c, K_LOAD_AT, OP_ADD, t, LEVEL_INNER, 0, i, NO_STMT, NO_STMT,
                      case_pointer(c, t, false, 3, table));
    c->stmt[y].step = step;
    case_store(c, case_pointer(c, t, true, 3, x), LEVEL_INNER, 0, y);
  }
  c->data = DATA_INDEX;
  c->tol = flt(t) && scatter ? 1e-4 : 0;
}

static void add_gathers(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_I32, TYPE_I64};
  for (size_t t = 0; t < countof(types); t++)
    for (int place = 0; place < PLACES; place++)
      for (int kind = 0; kind < 6; kind++) {
        static const Op ops[] = {OP_TAKE, OP_SUM, OP_MAX};
        if (kind < 2 || (types[t] != TYPE_BF16 && (kind < 4 || types[t] == TYPE_I32)))
          gather_case(types[t], place, ops[kind / 2], kind % 2);
      }
}

static void add_checks(void) {
  for (int place = 0; place < PLACES; place++)
    for (int limit = 5; limit <= 12; limit += 7) {
      Case *c = case_new("bound %s %d", place_name[place], limit);
      KLevel level = pointwise_loops(c, place, 50, 41);
      int x = case_load(c, case_pointer(c, TYPE_I32, false, STRIDES(50, 1)), level, 0);
      int y = case_stmt(c, K_OP, OP_BOUND, TYPE_I32, level, 0, x, NO_STMT, NO_STMT, 0);
      c->stmt[y].step = limit;
      c->k.nnum = 1;
      c->num[0] = 5;
      case_store(c, case_pointer(c, TYPE_I32, true, STRIDES(50, 1)), level, 0, y);
      c->data = DATA_INDEX;
    }
}

static void add_bases(void) {
  Case *c = case_new("base slots");
  case_loop(c, true, 4, 4);
  case_loop(c, false, 30, 30);
  c->k.vector = 1;
  c->slot[0] = 3;
  c->k.nslots = 1;
  int p = case_pointer(c, TYPE_F32, false, STRIDES(30, 1)),
      q = case_pointer(c, TYPE_F32, true, STRIDES(60, 2));
  c->ptr[p].nbases = c->ptr[q].nbases = 1;
  c->ptr[p].base[0] = (KBase){0, 7};
  c->ptr[q].base[0] = (KBase){0, 11};
  case_store(c, q, LEVEL_INNER, 0, case_load(c, p, LEVEL_INNER, 0));
}

// Adds a kernel without outer loops: it has one unit.
static void add_no_outer(void) {
  Case *c = case_new("no outer loop");
  case_loop(c, false, 130, 129);
  c->k.vector = 0;
  c->k.nphases = 2;
  int s = case_reduce(c, OP_SUM, TYPE_F64, 0,
                      case_load(c, case_pointer(c, TYPE_F64, false, STRIDES(1)), LEVEL_INNER, 0));
  case_store(c, case_pointer(c, TYPE_F64, true, STRIDES(0)), LEVEL_OUTER, 1, s);
  c->tol = 1e-12;
  c->chunks = 1;
}

// -- random kernels -----------------------------------------------------------------------------

static int64_t random_size(void) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 17, 40};
  return sizes[case_below((int)countof(sizes))];
}

static void random_loops(Case *c) {
  int nouter = case_below(3) + (case_below(4) != 0), ninner = case_below(3);
  if (nouter > RANK_LIMIT) nouter = RANK_LIMIT;
  if (nouter + ninner == 0) nouter = 1;
  for (int i = 0; i < nouter + ninner; i++) {
    int64_t n = random_size();
    case_loop(c, i < nouter, n, case_below(3) ? n : case_below((int)n + 1));
  }
  int kind = case_below(3);
  if (kind == 1 && ninner) c->k.vector = (int8_t)(nouter + ninner - 1);
  if (kind == 2 && nouter) c->k.vector = (int8_t)(nouter - 1);
  c->k.block = random_size();
  if (case_below(3) == 0 && nouter > 0 && c->k.vector != 0)
    c->k.rows = (int8_t)case_below(c->k.vector == nouter - 1 ? nouter - 1 : nouter);
  if (c->k.rows == c->k.vector) c->k.rows = -1;
  c->k.nphases = (uint8_t)(1 + case_below(3));
  c->chunks = 1 + case_below(4);
}

// Adds a pointer that moves along some of loops 0..n, or along all of them if `all`. It is dense
// over these loops, sometimes in another order.
static int random_pointer(Case *c, Dtype t, bool written, int n, bool all) {
  int64_t s[MAX_LOOPS] = {0}, at = 1;
  bool turned = case_below(4) == 0;
  for (int i = 0; i < n; i++) {
    int l = turned ? i : n - 1 - i;
    if (!all && case_below(3) == 0) continue;
    s[l] = at;
    at *= c->k.loop[l].size;
  }
  return case_pointer(c, t, written, n, s);
}

// Returns a statement that statements of this level and phase may use, or NO_STMT.
static int random_value(const Case *c, KLevel level, int phase) {
  for (int tries = 0; tries < 20 && c->k.nstmts; tries++) {
    int i = case_below(c->k.nstmts);
    const KStmt *s = &c->stmt[i];
    if (s->type != TYPE_F32 || s->kind == K_STORE || s->kind == K_ACCUM || s->kind == K_SCATTER)
      continue;
    if (s->kind == K_REDUCE       ? s->phase < phase
        : s->level == LEVEL_OUTER ? s->phase <= phase
                                  : level == LEVEL_INNER && s->phase == phase)
      return i;
  }
  return NO_STMT;
}

static void random_stmts(Case *c, KLevel level, int phase) {
  static const Op ops[] = {OP_ADD, OP_SUB, OP_MAXIMUM, OP_MINIMUM, OP_MUL};
  int n = level == LEVEL_OUTER ? c->k.nouter : c->k.nouter + c->k.ninner;
  for (int i = 1 + case_below(4); i > 0 && c->k.nstmts < MAX_S - 6; i--) {
    int a = random_value(c, level, phase), b = random_value(c, level, phase);
    if (a == NO_STMT || case_below(3) == 0) {
      if (c->k.nptr < MAX_P - 4)
        case_load(c, random_pointer(c, TYPE_F32, false, n, false), level, phase);
    } else {
      case_op2(c, ops[case_below((int)countof(ops))], TYPE_F32, level, phase, a,
               b == NO_STMT ? a : b);
    }
  }
  int v = random_value(c, level, phase);
  if (v == NO_STMT) return;
  if (level == LEVEL_INNER && case_below(2))
    case_reduce(c, case_below(2) ? OP_SUM : OP_MAX, TYPE_F32, phase, v);
  if (case_below(3) == 0 && c->k.nptr < MAX_P - 1) {
    int64_t s[MAX_LOOPS] = {0}, at = 1;
    for (int l = n - 1; l >= c->k.nouter; l--)
      if (case_below(2)) s[l] = at, at *= c->k.loop[l].size;
    case_accum(c, case_below(2) ? OP_SUM : OP_MIN, TYPE_F32, case_pointer(c, TYPE_F32, true, n, s),
               level, phase, v);
  }
  if ((case_below(2) || phase == c->k.nphases - 1) && c->k.nptr < MAX_P)
    case_store(c, random_pointer(c, TYPE_F32, true, n, true), level, phase, v);
}

static void add_random(int n) {
  for (int i = 0; i < n; i++) {
    Case *c = case_new("random %d", i);
    random_loops(c);
    for (int phase = 0; phase < c->k.nphases; phase++) {
      random_stmts(c, LEVEL_OUTER, phase);
      if (c->k.ninner) random_stmts(c, LEVEL_INNER, phase);
    }
    c->data = DATA_SMALL;
    c->tol = 1e-5;
  }
}

void kernel_cases_add(int randoms) {
  add_pointwise();
  add_streams();
  add_casts();
  add_selections();
  add_counters();
  add_key_index();
  add_reductions();
  add_softmax();
  add_tiles();
  add_products();
  add_gathers();
  add_checks();
  add_bases();
  add_no_outer();
  add_random(randoms);
}
