// Cases of layouts: windows, ordered operations, random draws and marks.
#include "tests/suite/common/layout_maker.h"

static NodeId window(Maker *m, NodeId x, DimId from, int nto, const DimId *to, Affine f,
                     double fill) {
  Attr t = {.ndims = 1, .dims = &from, .nto = (uint8_t)nto, .to = to, .affine = f, .num = {fill}};
  return graph_add(m->g, OP_WINDOW, 1, &x, &t);
}

static NodeId window_at(Maker *m, NodeId x, DimId from, int nto, const DimId *to, Affine f,
                        NodeId start, double fill) {
  Attr t = {.ndims = 1, .dims = &from, .nto = (uint8_t)nto, .to = to, .affine = f, .num = {fill}};
  return graph_add(m->g, OP_WINDOW_AT, 2, (NodeId[]){x, start}, &t);
}

static NodeId contract(Maker *m, NodeId x, NodeId y, int n, const DimId *dims) {
  return graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                   &(Attr){.type = TYPE_F32, .ndims = (uint8_t)n, .dims = dims});
}

static NodeId sum(Maker *m, NodeId x, DimId d) {
  return graph_reduce(m->g, OP_SUM, x, &(Dims){.n = 1, .at = {d}});
}

// -- windows: m (12) is the source, n (10) and v (7) are results, k (3) and two (2) are taps --

static void slice(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->m), m->m, 1, &m->v, (Affine){1, 0, 3, 1}, 0));
}
static void slice_step(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->m), m->m, 1, &m->h, (Affine){2, 0, 1, 1}, 0));
}
static void slice_same(Maker *m) { // the new dim has the name of the old one
  maker_result(m, window(m, X(m, m->b, m->v), m->v, 1, &m->v, (Affine){1, 0, 2, 1}, 0));
}
static void pad(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->v), m->v, 1, &m->m, (Affine){1, 0, -2, 1}, 0));
}
static void pad_value(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->v), m->v, 1, &m->m, (Affine){1, 0, -2, 1}, 1.5));
}
static void pad_of_terms(Maker *m) { // the fill of a padded partial sum is counted once
  NodeId x = contract(m, X(m, m->d, m->v), X(m, m->d), 1, &m->d);
  NodeId y = window(m, x, m->v, 1, &m->m, (Affine){1, 0, -2, 1}, 1.5);
  maker_result(
      m, graph_binary(m->g, OP_ADD, y, window(m, x, m->v, 1, &m->m, (Affine){1, 0, -4, 1}, 0)));
}
static void shift(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->n), m->n, 1, &m->n, (Affine){1, 0, -1, 1}, 0));
}
static void shift_far(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->n), m->n, 1, &m->n, (Affine){1, 0, 6, 1}, 0));
}
static void shift_out(Maker *m) { // the window contains nothing of the source
  maker_result(m, window(m, X(m, m->b, m->n), m->n, 1, &m->n, (Affine){1, 0, 100, 1}, 2));
}
static void reverse(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->n), m->n, 1, &m->n, (Affine){-1, 0, 9, 1}, 0));
}
static void select_one(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->v), m->v, 0, NULL, (Affine){0, 0, 4, 1}, 0));
}
static void select_integer(Maker *m) {
  maker_result(m, window(m, IDS(m, m->b, m->v), m->v, 0, NULL, (Affine){0, 0, 4, 1}, 0));
}
static void select_bool(Maker *m) {
  NodeId x = graph_binary(m->g, OP_LT, X(m, m->b, m->v), graph_const(m->g, TYPE_F32, 0));
  maker_result(m, window(m, x, m->v, 0, NULL, (Affine){0, 0, 6, 1}, 0));
}
static void select_filled(Maker *m) {
  maker_result(m, window(m, X(m, m->b, m->v), m->v, 0, NULL, (Affine){0, 0, 9, 1}, 3));
}
static void select_at(Maker *m) {
  NodeId at = graph_add(m->g, OP_STEP, 0, NULL, NULL); // 3
  maker_result(m, window_at(m, X(m, m->b, m->v), m->v, 0, NULL, (Affine){0, 0, 1, 1}, at, 0));
}
static void slice_at(Maker *m) {
  NodeId at = graph_add(m->g, OP_STEP, 0, NULL, NULL);
  maker_result(m, window_at(m, X(m, m->b, m->m), m->m, 1, &m->h, (Affine){1, 0, 0, 1}, at, 0));
}
static void slice_at_filled(Maker *m) {
  NodeId at = graph_add(m->g, OP_STEP, 0, NULL, NULL);
  maker_result(m, window_at(m, X(m, m->b, m->v), m->v, 1, &m->h, (Affine){1, 0, 0, 1}, at, -1));
}
static void slice_at_of_terms(Maker *m) {
  NodeId at = graph_add(m->g, OP_STEP, 0, NULL, NULL),
         x = contract(m, X(m, m->d, m->v), X(m, m->d), 1, &m->d);
  maker_result(m, window_at(m, x, m->v, 1, &m->h, (Affine){1, 0, 0, 1}, at, 0));
}

// Concatenation: where(index < end, first, second shifted to follow it).
static void concat(Maker *m) {
  NodeId first = window(m, X(m, m->b, m->v), m->v, 1, &m->m, (Affine){1, 0, 0, 1}, 0);
  NodeId second = window(m, X(m, m->b, m->d), m->d, 1, &m->m, (Affine){1, 0, -7, 1}, 0);
  NodeId end = graph_const(m->g, TYPE_I32, 7);
  maker_result(
      m, graph_where(m->g, graph_binary(m->g, OP_LT, graph_index(m->g, m->m), end), first, second));
}
static void concat_bool(Maker *m) {
  NodeId x = graph_binary(m->g, OP_LT, X(m, m->b, m->v), graph_const(m->g, TYPE_F32, 0));
  NodeId y = graph_cast(m->g, IDS(m, m->b, m->d), TYPE_U8);
  x = graph_cast(m->g, window(m, x, m->v, 1, &m->m, (Affine){1, 0, 0, 1}, 0), TYPE_I32);
  y = graph_cast(m->g, window(m, y, m->d, 1, &m->m, (Affine){1, 0, -7, 1}, 0), TYPE_I32);
  maker_result(m, graph_binary(m->g, OP_ADD, x, y));
}

static void patches(Maker *m) {
  maker_result(
      m, window(m, X(m, m->b, m->n), m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 1, -1, 1}, 0));
}
static void patches_filled(Maker *m) {
  NodeId x = window(m, X(m, m->b, m->n), m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 2, -2, 1}, -3);
  maker_result(m, graph_reduce(m->g, OP_MAX, x, &(Dims){.n = 1, .at = {m->k}}));
}
static void pool(Maker *m) { // even blocks read only their own block
  NodeId x = window(m, X(m, m->b, m->m), m->m, 2, (DimId[]){m->h, m->two}, (Affine){2, 1, 0, 1}, 0);
  maker_result(m, graph_reduce(m->g, OP_MAX, x, &(Dims){.n = 1, .at = {m->two}}));
}
static void convolution(Maker *m) { // x[b, n, d], w[k, d, e]
  NodeId x =
      window(m, X(m, m->b, m->n, m->d), m->n, 2, (DimId[]){m->v, m->k}, (Affine){1, 1, 0, 1}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->d, m->e), 2, (DimId[]){m->k, m->d}));
}
static void convolution_stride(Maker *m) {
  NodeId x =
      window(m, X(m, m->b, m->m, m->d), m->m, 2, (DimId[]){m->h, m->k}, (Affine){2, 1, -1, 1}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->d, m->e), 2, (DimId[]){m->k, m->d}));
}
static void convolution_dilated(Maker *m) {
  NodeId x = window(m, X(m, m->n, m->d), m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 2, -2, 1}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->d), 2, (DimId[]){m->k, m->d}));
}
static void convolution_grouped(Maker *m) { // e: groups
  NodeId x = window(m, X(m, m->b, m->n, m->e, m->two), m->n, 2, (DimId[]){m->n, m->k},
                    (Affine){1, 1, -1, 1}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->e, m->two), 2, (DimId[]){m->k, m->two}));
}
static void convolution_plane(Maker *m) { // windows along both n and v
  NodeId x = window(m, X(m, m->n, m->v), m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 1, -1, 1}, 0);
  x = window(m, x, m->v, 2, (DimId[]){m->v, m->two}, (Affine){1, 1, 0, 1}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->two, m->d), 2, (DimId[]){m->k, m->two}));
}
static void convolution_twice(Maker *m) {
  NodeId x = X(m, m->n, m->d);
  for (int i = 0; i < 2; i++) {
    NodeId p = window(m, x, m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 1, -1, 1}, 0);
    NodeId y = contract(m, p, X(m, m->k, m->d, m->e), 2, (DimId[]){m->k, m->d});
    x = maker_op(m, OP_RENAME, 1, (NodeId[]){graph_unary(m->g, OP_TANH, y)}, 1, &m->e, 1, &m->d);
  }
  maker_result(m, x);
}
static void fold(Maker *m) { // each of h patches of k elements is added to m = 2 h
  NodeId x =
      window(m, X(m, m->b, m->h, m->k), m->h, 2, (DimId[]){m->m, m->k}, (Affine){1, -1, 0, 2}, 0);
  maker_result(m, sum(m, x, m->k));
}
static void transposed(Maker *m) { // a product sums over the taps
  NodeId x =
      window(m, X(m, m->b, m->h, m->d), m->h, 2, (DimId[]){m->m, m->k}, (Affine){1, -1, 1, 2}, 0);
  maker_result(m, contract(m, x, X(m, m->k, m->d), 2, (DimId[]){m->k, m->d}));
}
static void window_narrow(Maker *m) {
  NodeId x = graph_cast(m->g, X(m, m->b, m->n), TYPE_BF16);
  x = window(m, x, m->n, 2, (DimId[]){m->n, m->k}, (Affine){1, 1, -1, 1}, 0);
  maker_result(m, graph_cast(m->g, sum(m, x, m->k), TYPE_F32));
}

// -- ordered ------------------------------------------------------------------------------------

static NodeId ordered(Maker *m, Op op, NodeId x, DimId d, unsigned flags) {
  return graph_add(m->g, op, 1, &x, &(Attr){.ndims = 1, .dims = &d, .flags = flags});
}
static void cumsum(Maker *m) { maker_result(m, ordered(m, OP_CUMSUM, X(m, m->b, m->v), m->v, 0)); }
static void cumsum_before(Maker *m) {
  maker_result(m, ordered(m, OP_CUMSUM, X(m, m->b, m->n), m->n, ORDER_EXCLUSIVE));
}
static void cumsum_reverse(Maker *m) {
  maker_result(m, ordered(m, OP_CUMSUM, X(m, m->b, m->v), m->v, ORDER_REVERSE | ORDER_EXCLUSIVE));
}
static void cumsum_terms(Maker *m) {
  NodeId x = contract(m, X(m, m->d, m->v), X(m, m->d), 1, &m->d);
  maker_result(m, ordered(m, OP_CUMSUM, x, m->v, 0));
}
static void cumsum_narrow(Maker *m) {
  NodeId x = ordered(m, OP_CUMSUM, graph_cast(m->g, X(m, m->b, m->v), TYPE_BF16), m->v, 0);
  maker_result(m, graph_cast(m->g, x, TYPE_F32));
}
static void cumsum_integers(Maker *m) {
  NodeId x = IDS(m, m->b, m->v), y = ordered(m, OP_CUMSUM, graph_cast(m->g, x, TYPE_U8), m->v, 0);
  maker_result(m, graph_binary(m->g, OP_ADD, ordered(m, OP_CUMSUM, x, m->v, 0),
                               graph_cast(m->g, y, TYPE_I32)));
}
static void cumprod(Maker *m) {
  maker_result(m, ordered(m, OP_CUMPROD, X(m, m->b, m->v), m->v, 0));
}
static void cumprod_before(Maker *m) {
  maker_result(m, ordered(m, OP_CUMPROD, X(m, m->b, m->n), m->n, ORDER_EXCLUSIVE));
}
static void cumprod_reverse(Maker *m) {
  NodeId x = IDS(m, m->b, m->v), y = ordered(m, OP_CUMPROD, X(m, m->v, m->d), m->v, ORDER_REVERSE);
  maker_result(m, graph_binary(m->g, OP_MUL, y,
                               graph_cast(m->g, ordered(m, OP_CUMPROD, x, m->v, 0), TYPE_F32)));
}
// The last element and the largest element of each id: a scatter of positions, and one of keys.
static NodeId chosen(Maker *m, NodeId x, NodeId ids, NodeId terms, Op decode) {
  Attr by = {.ndims = 1, .dims = &m->b, .nto = 1, .to = &m->v, .monoid = MONOID_MAX};
  NodeId best = graph_add(m->g, OP_SCATTER_ADD, 2, (NodeId[]){terms, ids}, &by), at = best;
  NodeId zero = graph_const(m->g, TYPE_I32, 0), one = graph_const(m->g, TYPE_I32, 1);
  at = decode == OP_KEY_INDEX ? graph_unary(m->g, decode, best)
                              : graph_binary(m->g, decode, best, one);
  NodeId args[2] = {x, graph_binary(m->g, OP_MAXIMUM, at, zero)};
  NodeId found = graph_add(m->g, OP_TAKE, 2, args, &(Attr){.ndims = 1, .dims = &m->b});
  return graph_where(m->g, graph_binary(m->g, OP_LE, zero, at), found,
                     graph_const(m->g, TYPE_F32, 0.5));
}
static void scatter_set(Maker *m) {
  NodeId one = graph_const(m->g, TYPE_I32, 1), x = X(m, m->b, m->d);
  maker_result(m, chosen(m, x, IDS(m, m->b),
                         graph_binary(m->g, OP_ADD, graph_index(m->g, m->b), one), OP_SUB));
}
static void scatter_max(Maker *m) {
  NodeId x = X(m, m->b, m->d);
  maker_result(m, chosen(m, x, IDS(m, m->b, m->d),
                         graph_binary(m->g, OP_ARG_KEY, x, graph_index(m->g, m->b)), OP_KEY_INDEX));
}
static void cummax(Maker *m) { maker_result(m, ordered(m, OP_CUMMAX, X(m, m->b, m->v), m->v, 0)); }
static void cummax_reverse(Maker *m) {
  maker_result(m, ordered(m, OP_CUMMAX, X(m, m->b, m->v), m->v, ORDER_REVERSE));
}
static void cummax_integers(Maker *m) {
  maker_result(m, ordered(m, OP_CUMMAX, IDS(m, m->b, m->v), m->v, 0));
}
static void cum_index(Maker *m) {
  maker_result(m, ordered(m, OP_CUM_INDEX, X(m, m->b, m->v), m->v, 0));
}
static void argsort(Maker *m) {
  maker_result(m, ordered(m, OP_ARGSORT, X(m, m->b, m->v), m->v, ORDER_DESCENDING));
}
static void argsort_integers(Maker *m) {
  maker_result(m, ordered(m, OP_ARGSORT, IDS(m, m->b, m->n), m->n, 0));
}
static void sort(Maker *m) {
  NodeId x = X(m, m->b, m->v), ids = ordered(m, OP_ARGSORT, x, m->v, 0);
  maker_result(m, maker_op(m, OP_TAKE, 2, (NodeId[]){x, ids}, 1, &m->v, 0, NULL));
}
static NodeId top(Maker *m, NodeId x, DimId from, DimId to) {
  return maker_op(m, OP_TOP_K, 1, &x, 1, &from, 1, &to);
}
static void top_one(Maker *m, DimId from, DimId to) {
  NodeId x = X(m, m->b, from), ids = top(m, x, from, to);
  maker_result(m, maker_op(m, OP_TAKE, 2, (NodeId[]){x, ids}, 1, &from, 0, NULL));
}
static void top_two(Maker *m) { top_one(m, m->m, m->two); }
static void top_many(Maker *m) { top_one(m, m->n, m->v); }
static void top_ties(Maker *m) { maker_result(m, top(m, IDS(m, m->b, m->n), m->n, m->two)); }
static void top_long(Maker *m) { // a dim of 120, so that candidates are worthwhile; zeros tie with
                                 // the padding of short blocks
  DimId wide = dim_add(m->dims, "wide", 119, (Pos){0});
  NodeId row = graph_binary(m->g, OP_MUL, graph_index(m->g, wide), graph_const(m->g, TYPE_I32, 37));
  NodeId x = graph_binary(m->g, OP_MOD, graph_binary(m->g, OP_ADD, IDS(m, m->b), row),
                          graph_const(m->g, TYPE_I32, 11));
  x = graph_binary(m->g, OP_MAXIMUM, x, graph_const(m->g, TYPE_I32, 9));
  maker_result(m, top(m, x, wide, m->k));
}
static void top_declared(Maker *m) {
  DimId wide = dim_add(m->dims, "wide", 61, (Pos){0});
  top_one(m, wide, m->two);
}

// -- draws and marks ----------------------------------------------------------------------------

static void draws(Maker *m) {
  Attr t = {.ndims = 2, .dims = (DimId[]){m->b, m->v}, .key = 12345};
  NodeId u = graph_add(m->g, OP_RANDOM_UNIFORM, 0, NULL, &t),
         n = graph_add(m->g, OP_RANDOM_NORMAL, 0, NULL, &t);
  maker_result(m, graph_binary(m->g, OP_ADD, graph_binary(m->g, OP_MUL, u, X(m, m->b, m->v)), n));
}
static void checkpoint(Maker *m) {
  NodeId x = contract(m, X(m, m->b, m->d), X(m, m->d, m->h), 1, &m->d);
  maker_result(m, graph_unary(m->g, OP_TANH, graph_unary(m->g, OP_CHECKPOINT, x)));
}
static NodeId pinned(Maker *m, NodeId x, int n, const DimId *dims, const uint8_t *axes) {
  Attr t = {.ndims = (uint8_t)n, .dims = dims, .axes = {.n = (uint8_t)n}};
  for (int i = 0; i < n; i++) t.axes.at[i] = axes[i];
  return graph_add(m->g, OP_PIN, 1, &x, &t);
}
static void pin(Maker *m) {
  NodeId x = contract(m, X(m, m->b, m->d), X(m, m->d, m->h), 1, &m->d);
  NodeId y = pinned(m, x, 1, &m->h, (uint8_t[]){(uint8_t)(m->mesh.naxes - 1)});
  maker_result(m, graph_binary(m->g, OP_ADD, graph_unary(m->g, OP_TANH, y), x));
}
static void pin_whole(Maker *m) {
  NodeId x = graph_unary(m->g, OP_TANH, X(m, m->b, m->d));
  maker_result(m, graph_binary(m->g, OP_MUL, pinned(m, x, 0, NULL, NULL), x));
}
static void pin_two(Maker *m) {
  NodeId x = graph_unary(m->g, OP_TANH, X(m, m->b, m->h));
  int n = m->mesh.naxes > 1 ? 2 : 1;
  maker_result(
      m, graph_unary(m->g, OP_TANH,
                     pinned(m, x, n, (DimId[]){m->h, m->h}, (uint8_t[]){(uint8_t)(n - 1), 0})));
}

const LayoutCase window_cases[] = {
    {"slice", slice},
    {"slice_step", slice_step},
    {"slice_same", slice_same},
    {"pad", pad},
    {"pad_value", pad_value},
    {"pad_of_terms", pad_of_terms},
    {"shift", shift},
    {"shift_far", shift_far},
    {"shift_out", shift_out},
    {"reverse", reverse},
    {"select", select_one},
    {"select_integer", select_integer},
    {"select_bool", select_bool},
    {"select_filled", select_filled},
    {"select_at", select_at},
    {"slice_at", slice_at},
    {"slice_at_filled", slice_at_filled},
    {"slice_at_of_terms", slice_at_of_terms},
    {"concat", concat},
    {"concat_bool", concat_bool},
    {"patches", patches},
    {"patches_filled", patches_filled},
    {"pool", pool},
    {"convolution", convolution},
    {"convolution_stride", convolution_stride},
    {"convolution_dilated", convolution_dilated},
    {"convolution_grouped", convolution_grouped},
    {"convolution_plane", convolution_plane},
    {"convolution_twice", convolution_twice},
    {"fold", fold},
    {"transposed", transposed},
    {"window_narrow", window_narrow},
    {"cumsum", cumsum},
    {"cumsum_before", cumsum_before},
    {"cumsum_reverse", cumsum_reverse},
    {"cumsum_terms", cumsum_terms},
    {"cumsum_narrow", cumsum_narrow},
    {"cumsum_integers", cumsum_integers},
    {"cumprod", cumprod},
    {"cumprod_before", cumprod_before},
    {"cumprod_reverse", cumprod_reverse},
    {"scatter_set", scatter_set},
    {"scatter_max", scatter_max},
    {"cummax", cummax},
    {"cummax_reverse", cummax_reverse},
    {"cummax_integers", cummax_integers},
    {"cum_index", cum_index},
    {"argsort", argsort},
    {"argsort_integers", argsort_integers},
    {"sort", sort},
    {"top_two", top_two},
    {"top_many", top_many},
    {"top_ties", top_ties},
    {"top_long", top_long},
    {"top_declared", top_declared},
    {"draws", draws},
    {"checkpoint", checkpoint},
    {"pin", pin},
    {"pin_whole", pin_whole},
    {"pin_two", pin_two},
};
const size_t window_case_count = countof(window_cases);
