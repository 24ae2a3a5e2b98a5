// Kernels with computed positions, guards and random draws, for kernel_case.h: loads that run over
// both ends of a tensor, along and across vectors; strides; quotients; register tiles whose guards
// are known at every depth; draws at any position; 3x3 convolutions that Winograd's algorithm
// computes.
#include <stdlib.h>

#include "ir/base/philox.h"
#include "tests/suite/common/kernel_case.h"

enum { AT_NONE, AT_INNER, AT_OUTER, PLACES };
static const char *const place_name[] = {"scalar", "inner", "outer"};

static int position(Case *c, KLevel level, int walk, int a, int64_t step, int more) {
  int s = case_stmt(c, K_POSITION, OP_CAST, TYPE_I64, level, 0, a, more, NO_STMT, walk);
  c->stmt[s].step = step;
  return s;
}

// Adds a statement 0 <= x < limit; with `slot` the limit comes from a slot.
static int inside(Case *c, KLevel level, int x, int64_t limit, bool slot, int guard) {
  int s = case_stmt(c, K_INSIDE, OP_CAST, TYPE_BOOL, level, 0, x, guard, NO_STMT, -1);
  c->stmt[s].step = limit;
  if (slot) {
    c->stmt[s].slot = c->k.nslots;
    c->slot[c->k.nslots++] = limit;
  }
  return s;
}

static int guarded(Case *c, KLevel level, int p, int guard) {
  int s = case_load(c, p, level, 0);
  c->stmt[s].arg[1] = guard;
  return s;
}

// y[i, j] = x[j * step + shift, i] where the index is inside 0..limit-1. The vector loop is j; with
// `across` it is i.
static void run_case(Dtype t, int place, bool across, int64_t step, int64_t shift, bool slot) {
  const int64_t n = 45, m = 35, limit = 40;
  Case *c =
      case_new("window %s %s%s step %lld shift %lld%s", dtype_text(t), place_name[place],
               across ? " across" : "", (long long)step, (long long)shift, slot ? " slot" : "");
  case_loop(c, true, across ? n : m, across ? n : m);
  case_loop(c, place == AT_OUTER, across ? m : n, across ? m : n - 5);
  c->k.vector = place == AT_NONE ? -1 : 1;
  c->k.block = 20;
  KLevel level = place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
  int64_t at[2] = {across ? step : 0, across ? 0 : step},
          x[2] = {across ? m * step : 1, across ? 1 : m * step};
  int64_t y[2] = {across ? 1 : n, across ? n : 1};
  int g = inside(c, level, position(c, level, case_walk(c, shift, 2, at), NO_STMT, 0, NO_STMT),
                 limit, slot, NO_STMT);
  int p = case_pointer(c, t, false, 2, x);
  c->ptr[p].offset = shift * m;
  c->size[p] = limit * m;
  case_store(c, case_pointer(c, t, true, 2, y), level, 0, guarded(c, level, p, g));
}

static void add_runs(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_BOOL, TYPE_I32, TYPE_U64};
  static const int64_t moves[][2] = {{1, 0}, {1, -3}, {1, 7}, {2, -1}, {-1, 30}};
  for (size_t t = 0; t < countof(types); t++)
    for (int place = 0; place < PLACES; place++)
      for (size_t i = 0; i < countof(moves); i++)
        for (int kind = 0; kind < 4; kind++)
          if (t == 0 || (int)i == kind)
            run_case(types[t], place, kind & 1, moves[i][0], moves[i][1], kind & 2);
}

// y[j] = x[(j + shift) / by] where the division leaves no remainder.
static void quotient_case(int place, int64_t by, int64_t shift) {
  const int64_t n = 77, limit = 20;
  Case *c = case_new("quotient %s by %lld shift %lld", place_name[place], (long long)by,
                     (long long)shift);
  case_loop(c, true, 2, 2);
  case_loop(c, place == AT_OUTER, n, n);
  c->k.vector = place == AT_NONE ? -1 : 1;
  c->k.block = 64;
  KLevel level = place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
  int none = case_walk(c, 0, 0, NULL);
  int whole = position(c, level, case_walk(c, shift, STRIDES(0, 1)), NO_STMT, 0, NO_STMT);
  int q = case_stmt(c, K_QUOTIENT, OP_CAST, TYPE_I64, level, 0, whole, NO_STMT, NO_STMT, -1);
  c->stmt[q].step = by;
  int exact = inside(c, level, position(c, level, none, q, -by, whole), 1, false, NO_STMT);
  int g = inside(c, level, q, limit, true, exact);
  int p = case_pointer(c, TYPE_F32, false, STRIDES(1, 0));
  int y = case_stmt(c, K_LOAD_AT, OP_CAST, TYPE_F32, level, 0, q, g, NO_STMT, p);
  c->stmt[y].step = 3;
  c->size[p] = (limit - 1) * 3 + 2;
  case_store(c, case_pointer(c, TYPE_F32, true, STRIDES(n, 1)), level, 0, y);
}

// C[b, r, v] = sum over k, j of x[r + k - 1, j] w[k, j, v]. The guard is known at the depth of loop
// k. With `late` loop j is inside k.
static void tile_case(int64_t rows, int64_t n, int64_t depth, bool late, bool turned) {
  const int64_t taps = 3, b = 2;
  Case *c = case_new("tile of windows %lld by %lld depth %lld%s%s", (long long)rows, (long long)n,
                     (long long)depth, late ? " late" : "", turned ? " turned" : "");
  case_loop(c, true, b, b);
  case_loop(c, true, rows, rows - (turned && n > 32));
  case_loop(c, true, n, n - (late && n > 32));
  case_loop(c, false, late ? depth : taps, late ? depth : taps);
  case_loop(c, false, late ? taps : depth, late ? taps : depth);
  c->k.rows = 1;
  c->k.vector = 2;
  c->k.block = 32;
  c->k.nphases = 2;
  int k = late ? 4 : 3, j = 7 - k;
  int64_t at[5] = {0, 1}, x[5] = {rows * depth, depth}, w[5] = {0, 0, 1};
  at[k] = turned ? -1 : 1, x[k] = turned ? -depth : depth, w[k] = depth * n;
  x[j] = 1, w[j] = n;
  int64_t shift = turned ? 1 : -1;
  int g = inside(c, LEVEL_INNER,
                 position(c, LEVEL_INNER, case_walk(c, shift, 5, at), NO_STMT, 0, NO_STMT), rows,
                 true, NO_STMT);
  int p = case_pointer(c, TYPE_F32, false, 5, x);
  c->ptr[p].offset = shift * depth;
  c->size[p] = b * rows * depth;
  int a = guarded(c, LEVEL_INNER, p, g),
      f = case_load(c, case_pointer(c, TYPE_F32, false, 5, w), LEVEL_INNER, 0);
  int s = case_reduce(c, OP_SUM, TYPE_F32, 0, case_op2(c, OP_MUL, TYPE_F32, LEVEL_INNER, 0, a, f));
  if (n > 32)
    s = case_op2(c, OP_ADD, TYPE_F32, LEVEL_OUTER, 1, s,
                 case_load(c, case_pointer(c, TYPE_F32, false, STRIDES(0, 0, 1)), LEVEL_OUTER, 0));
  case_store(c, case_pointer(c, TYPE_F32, true, STRIDES(rows * n, n, 1, 0, 0)), LEVEL_OUTER, 1, s);
  c->tol = depth > 100 ? 1e-3 : 1e-4;
}

// The forms of the window of a convolution: without padding; with padding; backwards, as in the
// gradient of the first two; without padding, and with one loop over kx and the channels.
enum { CONV_VALID, CONV_SAME, CONV_BACK_VALID, CONV_BACK_SAME, CONV_JOINED, CONVS };

// C[b, y, x, v] = relu(bias[v] + sum over ky, kx, k of x[b, y + ky, x + kx, k] w[ky, kx, k, v]).
static void convolution_case(int form, int64_t rows, int64_t columns, int64_t depth, int64_t n) {
  const int64_t b = 2, taps = 3;
  bool back = form == CONV_BACK_VALID || form == CONV_BACK_SAME, joined = form == CONV_JOINED;
  int64_t more = form == CONV_VALID || joined ? 2 : form == CONV_BACK_VALID ? -2 : 0;
  int64_t height = rows + more, width = columns + more, sign = back ? -1 : 1;
  int64_t shift = form == CONV_SAME ? -1 : form == CONV_BACK_SAME ? 1 : 0;
  Case *c = case_new("convolution %d of %lld x %lld, %lld to %lld", form, (long long)rows,
                     (long long)columns, (long long)depth, (long long)n);
  int64_t outer[4] = {b, rows, columns, n};
  for (int i = 0; i < 4; i++) case_loop(c, true, outer[i], outer[i]);
  case_loop(c, false, taps, taps);
  if (!joined) case_loop(c, false, taps, taps);
  case_loop(c, false, joined ? taps * depth : depth, joined ? taps * depth : depth);
  static int64_t part[8][2];
  static int parts = 0;
  if (joined) {
    part[parts][0] = taps, part[parts][1] = depth;
    c->k.loop[5].nparts = 2;
    c->k.loop[5].part = part[parts++];
  }
  c->k.rows = 2;
  c->k.vector = 3;
  c->k.block = n < 64 ? n : 64;
  c->k.nphases = 2;
  int64_t x[7] = {height * width * depth, width * depth, depth, 0, sign * width * depth},
          w[7] = {0, 0, 0, 1, taps * depth * n};
  x[5] = joined ? 1 : sign * depth, x[6] = 1;
  w[5] = joined ? n : depth * n, w[6] = n;
  int loops = joined ? 6 : 7, guard = NO_STMT;
  for (int axis = 0; axis < 2 && more <= 0; axis++) {
    int64_t at[7] = {0};
    at[1 + axis] = 1, at[4 + axis] = sign;
    int p = position(c, LEVEL_INNER, case_walk(c, shift, 7, at), NO_STMT, 0, NO_STMT);
    guard = inside(c, LEVEL_INNER, p, axis ? width : height, false, guard);
  }
  int p = case_pointer(c, TYPE_F32, false, loops, x);
  c->ptr[p].offset = shift * (width + 1) * depth;
  c->size[p] = b * height * width * depth;
  int a = guard == NO_STMT ? case_load(c, p, LEVEL_INNER, 0) : guarded(c, LEVEL_INNER, p, guard),
      f = case_load(c, case_pointer(c, TYPE_F32, false, loops, w), LEVEL_INNER, 0);
  int s = case_reduce(c, OP_SUM, TYPE_F32, 0, case_op2(c, OP_MUL, TYPE_F32, LEVEL_INNER, 0, a, f));
  s = case_op2(c, OP_ADD, TYPE_F32, LEVEL_OUTER, 1, s,
               case_load(c, case_pointer(c, TYPE_F32, false, STRIDES(0, 0, 0, 1)), LEVEL_OUTER, 0));
  s = case_op1(c, OP_RELU, TYPE_F32, LEVEL_OUTER, 1, s);
  case_store(c, case_pointer(c, TYPE_F32, true, STRIDES(rows * columns * n, columns * n, n, 1)),
             LEVEL_OUTER, 1, s);
  c->tol = depth > 100 ? 1e-3 : 1e-4;
}

// C[ky, kx, k, v] = sum over b, y, x of x[b, y + ky, x + kx, k] s[b, y, x, v], with units that are
// images. With `same` the image is padded. With `turned` the result is C[v, kx, ky, k].
static void gradient_case(bool same, bool turned, int64_t b, int64_t rows, int64_t columns,
                          int64_t depth, int64_t n) {
  const int64_t taps = 3, height = rows + (same ? 0 : 2), width = columns + (same ? 0 : 2);
  Case *c = case_new("gradient of a convolution of %lld x %lld, %lld to %lld%s%s", (long long)rows,
                     (long long)columns, (long long)depth, (long long)n, same ? " same" : "",
                     turned ? " turned" : "");
  case_loop(c, true, b, b);
  int64_t inner[6] = {rows, columns, taps, taps, depth, n};
  for (int i = 0; i < 6; i++) case_loop(c, false, inner[i], inner[i]);
  c->k.vector = 6;
  c->k.images = true;
  int guard = NO_STMT;
  for (int axis = 0; axis < 2 && same; axis++) {
    int64_t at[7] = {0};
    at[1 + axis] = 1, at[3 + axis] = 1;
    int p = position(c, LEVEL_INNER, case_walk(c, -1, 7, at), NO_STMT, 0, NO_STMT);
    guard = inside(c, LEVEL_INNER, p, axis ? width : height, false, guard);
  }
  int p = case_pointer(
      c, TYPE_F32, false,
      STRIDES(height * width * depth, width * depth, depth, width * depth, depth, 1, 0));
  c->ptr[p].offset = same ? -(width + 1) * depth : 0;
  c->size[p] = b * height * width * depth;
  int x = same ? guarded(c, LEVEL_INNER, p, guard) : case_load(c, p, LEVEL_INNER, 0);
  int s = case_load(
      c, case_pointer(c, TYPE_F32, false, STRIDES(rows * columns * n, columns * n, n, 0, 0, 0, 1)),
      LEVEL_INNER, 0);
  int64_t plain[7] = {0, 0, 0, taps * depth * n, depth * n, n, 1},
          other[7] = {0, 0, 0, depth, taps * depth, 1, taps * taps * depth};
  int out = case_pointer(c, TYPE_F32, true, 7, turned ? other : plain);
  case_accum(c, OP_SUM, TYPE_F32, out, LEVEL_INNER, 0,
             case_op2(c, OP_MUL, TYPE_F32, LEVEL_INNER, 0, x, s));
  c->tol = 1e-3;
}

static void draw_case(Op op, Dtype type, int place, int64_t stride, int64_t offset) {
  const int64_t n = 300;
  Case *c = case_new("%s %s stride %lld from %lld", op_row(op)->text, place_name[place],
                     (long long)stride, (long long)offset);
  case_loop(c, true, 2, 2);
  case_loop(c, place == AT_OUTER, n, n - 7);
  c->k.vector = place == AT_NONE ? -1 : 1;
  c->k.block = 64;
  c->k.nnum = 2;
  c->num[0] = 0xdeadbeefU, c->num[1] = 0x12345678U;
  KLevel level = place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
  int at =
      position(c, level, case_walk(c, offset, STRIDES(stride * n, stride)), NO_STMT, 0, NO_STMT);
  int y = case_stmt(c, K_OP, op, type, level, 0, at, NO_STMT, NO_STMT, 0);
  case_store(c, case_pointer(c, type, true, STRIDES(n, 1)), level, 0, y);
  // the largest radius of a normal draw is 5.77, in f64 8.58
  c->tol = op == OP_RANDOM_UNIFORM ? 0
           : type == TYPE_F64      ? 9 * PHILOX_NORMAL_ERROR64
                                   : 6 * PHILOX_NORMAL_ERROR;
}

void window_cases_add(void) {
  add_runs();
  for (int place = 0; place < PLACES; place++)
    for (int64_t by = 2; by <= 4; by++) quotient_case(place, by, by - 3);
  for (int64_t rows = 3; rows <= 33; rows += 10)
    for (int kind = 0; kind < 4; kind++) tile_case(rows, 32, 5, kind & 1, kind & 2);
  // the tile ends in a short vector
  for (int kind = 0; kind < 4; kind++) tile_case(17, kind & 1 ? 24 : 40, 5, false, kind & 2);
  // more elements than a cache holds: the code works in slabs; chunks and blocks of the vector loop
  // cut the runs
  for (int kind = 0; kind < 4; kind++)
    tile_case(13 + 15 * (kind & 1), 70, 530 + kind, kind & 1, kind & 2);
  for (int form = 0; form < CONVS; form++) {
    convolution_case(form, 9, 12, 32, 32);
    convolution_case(form, 6, 8, 16, 16);
    convolution_case(form, 8, 7, 112, 128);
  }
  for (int kind = 0; kind < 4; kind++) {
    gradient_case(kind & 1, kind & 2, 5, 6, 9, 32, 48);
    gradient_case(kind & 1, kind & 2, 4, 11, 4, 64, 32);
    gradient_case(kind & 1, kind & 2, 3, 8, 8, 16, 16);
  }
  for (int place = 0; place < PLACES; place++)
    for (int op = OP_RANDOM_UNIFORM; op <= OP_RANDOM_NORMAL; op++)
      for (int f64 = 0; f64 < 2; f64++) {
        draw_case((Op)op, f64 ? TYPE_F64 : TYPE_F32, place, 1, 0);
        draw_case((Op)op, f64 ? TYPE_F64 : TYPE_F32, place, 5, INT64_C(4294967290));
      }
}
