// Adds functions of many operations to random graphs: Fourier transforms, as products with constant
// matrices, and factors of matrices.
#include <math.h>

#include "tests/suite/common/layout_random.h"

static const Dims *dims_of(Maker *m, NodeId x) { return graph_node(m->g, x)->dims; }

static NodeId number(Maker *m, double x) { return graph_const(m->g, TYPE_F32, x); }

static int64_t size_of(Maker *m, DimId d) { return dim_get(m->dims, d)->size; }

// Returns whether values in the region of x may get the dims of matrices and transforms: no loop
// around it runs over one of them. The language refuses such values, too.
static bool gets_dims(Maker *m, NodeId x) {
  const DimId dims[] = {m->d, m->e, m->h, m->k, m->m};
  bool all = true;
  for (size_t i = 0; i < countof(dims); i++)
    all = all && random_loop_fits(m, graph_node(m->g, x)->region, dims[i]);
  return all;
}

// -- Fourier transforms ---------------------------------------------------------------------------
//
// They have the form that the frontend gives them (frontend/builtin/builtin_fft.c). Real and
// imaginary parts are along the dim `two`.

static NodeId constant(Maker *m, int ndims, const DimId *dims, const double *data) {
  Attr t = {.type = TYPE_F32, .ndims = (uint8_t)ndims, .dims = dims, .ndata = 1};
  for (int i = 0; i < ndims; i++) t.ndata *= size_of(m, dims[i]);
  double *rounded = arena_array(m->a, double, t.ndata);
  for (int64_t i = 0; i < t.ndata; i++) rounded[i] = dtype_round(TYPE_F32, data[i]);
  t.data = rounded;
  return graph_add(m->g, OP_VALUES, 0, NULL, &t);
}

static double turn(double sign, int64_t k, int64_t n) {
  return sign * 2 * acos(-1) * (double)k / (double)n;
}

// Transforms x along `from`, all of its elements, to `to`; x may be real.
static NodeId stage(Maker *m, NodeId x, DimId from, DimId to, double sign) {
  DimId twin = dim_twin(m->dims, m->two, "other"), dims[4] = {from};
  int n = 1, parts = dims_has(dims_of(m, x), m->two) ? 2 : 1;
  int64_t r = size_of(m, from);
  double *data = arena_array(m->a, double, r *r * 4), *at = data;
  for (int64_t a = 0; a < r; a++)
    for (int p = 0; p < parts; p++)
      for (int64_t k = 0; k < r; k++)
        for (int q = 0; q < 2; q++) {
          double angle = turn(sign, a * k, r);
          *at++ = p == q ? cos(angle) : q ? sin(angle) : -sin(angle);
        }
  if (parts == 2) dims[n++] = m->two;
  dims[n++] = to;
  dims[n++] = twin;
  NodeId y = graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, constant(m, n, dims, data)},
                       &(Attr){.type = TYPE_F32, .ndims = (uint8_t)parts, .dims = dims});
  return maker_op(m, OP_RENAME, 1, &y, 1, &twin, 1, &m->two);
}

// Multiplies x by exp(sign 2 pi i a b / n) at position a of the first dim and b of the second; n is
// the product of their sizes.
static NodeId turned(Maker *m, NodeId x, const DimId dims[2], double sign) {
  int64_t rows = size_of(m, dims[0]), columns = size_of(m, dims[1]), n = rows * columns;
  double *re = arena_array(m->a, double, n), *im = arena_array(m->a, double, n);
  for (int64_t i = 0; i < n; i++) {
    double angle = turn(sign, i / columns * (i % columns), n);
    re[i] = cos(angle), im[i] = sin(angle);
  }
  Attr other = {.ndims = 1, .dims = &m->two, .nto = 1, .to = &m->two, .affine = {-1, 0, 1, 1}};
  NodeId signs = constant(m, 1, &m->two, (double[]){-1, 1});
  NodeId real = graph_binary(m->g, OP_MUL, x, constant(m, 2, dims, re)),
         imaginary = graph_binary(m->g, OP_MUL, signs, constant(m, 2, dims, im));
  return graph_binary(
      m->g, OP_ADD, real,
      graph_binary(m->g, OP_MUL, graph_add(m->g, OP_WINDOW, 1, &x, &other), imaginary));
}

// The transform along m, whose 12 elements are 4 times 3, in two stages.
static NodeId staged(Maker *m, NodeId x, double sign) {
  DimId wave = dim_derived(m->dims, m->m, "wave", size_of(m, m->k));
  x = maker_op(m, OP_SPLIT, 1, &x, 1, &m->m, 2, (DimId[]){m->d, m->k});
  x = turned(m, stage(m, x, m->d, m->e, sign), (DimId[]){m->e, m->k}, sign);
  x = stage(m, x, m->k, wave, sign);
  return maker_op(m, OP_MERGE, 1, &x, 2, (DimId[]){wave, m->e}, 1, &m->m);
}

NodeId random_transform(Maker *m, NodeId x, NodeId y) {
  const Dims *s = dims_of(m, x);
  (void)y;
  bool d = dims_has(s, m->d), e = dims_has(s, m->e), k = dims_has(s, m->k);
  double sign = maker_draw(m, 2) ? 1 : -1;
  int64_t n;
  if (!gets_dims(m, x) || !dims_elements(m->dims, s, &n) || n > 1000) return 0;
  if (dims_has(s, m->m) && !d && !e && !k) return random_scaled(m, staged(m, x, sign));
  if (d == e) return 0;
  return random_scaled(m, d ? stage(m, x, m->d, m->e, sign) : stage(m, x, m->e, m->d, sign));
}

// -- factors of matrices --------------------------------------------------------------------------

NodeId random_rows(Maker *m, NodeId x) {
  bool d = dims_has(dims_of(m, x), m->d), e = dims_has(dims_of(m, x), m->e);
  if ((d && e) || !gets_dims(m, x)) return 0;
  if (d) return x;
  if (e) return maker_op(m, OP_RENAME, 1, &x, 1, &m->e, 1, &m->d);
  NodeId i = graph_cast(m->g, graph_index(m->g, m->d), TYPE_F32);
  return random_fits(m, x, i)
             ? graph_binary(m->g, OP_ADD, x, graph_binary(m->g, OP_MUL, i, number(m, 0.25)))
             : 0;
}

// Returns a matrix of the given rows and the columns d for each element of the other dims of x. Its
// diagonal is 9, 17, 25 and 33, and its other elements are at most a half, so that eigenvalues and
// singular values are far apart.
static NodeId spread_matrix(Maker *m, NodeId x, DimId rows) {
  NodeId others = graph_unary(m->g, OP_TANH, x);
  if (!dims_has(dims_of(m, x), rows)) {
    NodeId column = maker_op(m, OP_RENAME, 1, &others, 1, &m->d, 1, &rows);
    if (!random_fits(m, others, column)) return 0;
    others = graph_binary(m->g, OP_MUL, others, column);
  }
  NodeId i = graph_index(m->g, rows), j = graph_index(m->g, m->d);
  NodeId step = graph_binary(m->g, OP_MUL, graph_cast(m->g, j, TYPE_F32), number(m, 8));
  return graph_where(m->g, graph_binary(m->g, OP_EQ, i, j),
                     graph_binary(m->g, OP_ADD, step, number(m, 9)),
                     graph_binary(m->g, OP_MUL, others, number(m, 0.5)));
}

// Returns rows of a stack from `first` on as dim `to`, or row `first` if that is 0.
static NodeId part_of(Maker *m, NodeId stack, DimId along, int64_t first, DimId to) {
  Attr t = {.ndims = 1,
            .dims = &along,
            .nto = to != 0,
            .to = &to,
            .affine = {.out = to != 0, .offset = first, .divisor = 1}};
  return random_scaled(m, graph_add(m->g, OP_WINDOW, 1, &stack, &t));
}

// Returns one of the factors of a matrix, whose rows are h or as many as d.
NodeId random_factors(Maker *m, NodeId x, NodeId y) {
  static const Op ops[] = {OP_QR, OP_SVD, OP_EIGH};
  (void)y;
  if (!(x = random_rows(m, x))) return 0;
  bool tall = dims_has(dims_of(m, x), m->h);
  Op op = ops[maker_draw(m, tall ? 2 : 3)];
  DimId rows = tall ? m->h : dim_twin(m->dims, m->d, "rows");
  NodeId a = spread_matrix(m, x, rows);
  if (!a) return 0;
  int64_t nrows = size_of(m, rows), n = size_of(m, m->d);
  int64_t all = op == OP_QR ? nrows + n : op == OP_SVD ? nrows + n + 1 : n + 1;
  DimId to[2] = {dim_derived(m->dims, m->e, arena_printf(m->a, "stack%d", (int)all), all), m->e};
  NodeId stack = maker_op(m, op, 1, &a, 2, (DimId[]){rows, m->d}, 2, to);
  uint32_t part = maker_draw(m, op == OP_SVD ? 3 : 2);
  if (part == 0) return part_of(m, stack, to[0], 0, tall ? m->h : m->d);
  if (part == 2 || op == OP_EIGH) return part_of(m, stack, to[0], all - 1, 0);
  return part_of(m, stack, to[0], nrows, m->d);
}
