// Adds to random graphs what most of them lack: operations on other types than f32, on matrices,
// and guarded regions, as `cond` and a scan with `while` make them.
#include <string.h>

#include "tests/suite/common/layout_random.h"

static const Dims *dims_of(Maker *m, NodeId x) { return graph_node(m->g, x)->dims; }

static NodeId number(Maker *m, Dtype type, double x) { return graph_const(m->g, type, x); }

// -- types --------------------------------------------------------------------------------------

// Adds an operation of this type of float on x, and on y if both fit.
static NodeId float_op(Maker *m, Dtype type, NodeId x, NodeId y) {
  static const Op one[] = {OP_NEG, OP_TANH, OP_RELU, OP_SIGMOID, OP_ABS, OP_SIN, OP_ERF, OP_SILU};
  static const Op two[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAXIMUM, OP_MINIMUM};
  static const Op over[] = {OP_SUM, OP_MEAN, OP_MAX, OP_MIN};
  const Dims *s = dims_of(m, x);
  bool fit = random_fits(m, x, y);
  uint32_t kind = maker_draw(m, 4);
  DimId d = s->n ? random_dim(m, s) : 0;
  if (kind == 0 && d)
    return graph_reduce(m->g, over[maker_draw(m, countof(over))], x, &(Dims){.n = 1, .at = {d}});
  if (kind == 1 && fit) return graph_binary(m->g, two[maker_draw(m, countof(two))], x, y);
  if (kind == 2 && fit) {
    Attr t = {.type = type, .ndims = d && dims_has(dims_of(m, y), d), .dims = &d};
    NodeId z = graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, y}, &t);
    return graph_binary(m->g, OP_MUL, z, number(m, type, 0.25));
  }
  return graph_unary(m->g, one[maker_draw(m, countof(one))], x);
}

// Computes one to three operations in f64, bf16 or f16. Their range is small: f16 ends at 65,504.
static NodeId random_typed(Maker *m, NodeId x, NodeId y) {
  static const Dtype types[] = {TYPE_F64, TYPE_BF16, TYPE_F16};
  Dtype type = types[maker_draw(m, countof(types))];
  NodeId z = graph_cast(m->g, graph_unary(m->g, OP_TANH, x), type),
         w = graph_cast(m->g, graph_unary(m->g, OP_SIN, y), type);
  for (uint32_t i = 1 + maker_draw(m, 3); i > 0; i--) z = float_op(m, type, z, w);
  return graph_cast(m->g, z, TYPE_F32);
}

// Computes with the positions along dims of x and y, which are exact in every type of integer.
static NodeId random_integer(Maker *m, NodeId x, NodeId y) {
  static const Dtype types[] = {TYPE_I32, TYPE_I64, TYPE_U8, TYPE_I32};
  static const Op two[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAXIMUM, OP_MINIMUM, OP_MOD, OP_FLOOR_DIV};
  static const Op bits[] = {OP_BIT_AND, OP_BIT_OR, OP_BIT_XOR, OP_SHIFT_LEFT, OP_SHIFT_RIGHT};
  static const Op over[] = {OP_SUM, OP_MAX, OP_MIN};
  const Dims s = *dims_of(m, x), t = *dims_of(m, y);
  if (!s.n || !t.n) return 0;
  Dtype type = types[maker_draw(m, countof(types))];
  NodeId i = graph_cast(m->g, graph_index(m->g, random_dim(m, &s)), type),
         j = graph_cast(m->g, graph_index(m->g, random_dim(m, &t)), type);
  Op op = type == TYPE_I32 && maker_draw(m, 2) ? bits[maker_draw(m, countof(bits))]
                                               : two[maker_draw(m, countof(two))];
  if (op == OP_MOD || op == OP_FLOOR_DIV) j = graph_binary(m->g, OP_ADD, j, number(m, type, 1));
  NodeId z = graph_binary(m->g, op, i, j);
  if (maker_draw(m, 2))
    z = graph_reduce(m->g, over[maker_draw(m, countof(over))], z,
                     &(Dims){.n = 1, .at = {random_dim(m, dims_of(m, z))}});
  z = graph_binary(m->g, OP_MUL, graph_cast(m->g, z, TYPE_F32), number(m, TYPE_F32, 0x1p-6));
  return random_fits(m, x, z) ? graph_binary(m->g, OP_ADD, x, z) : 0;
}

// Chooses between x and y by a bool that is stored or reduced.
static NodeId random_truth(Maker *m, NodeId x, NodeId y) {
  static const Op two[] = {OP_AND, OP_OR, OP_NE, OP_EQ};
  if (!random_fits(m, x, y)) return 0;
  NodeId a = graph_binary(m->g, OP_LE, x, number(m, TYPE_F32, 0.3)),
         b = graph_binary(m->g, OP_LT, number(m, TYPE_F32, -0.7), y);
  NodeId c = graph_binary(m->g, two[maker_draw(m, countof(two))], a, b);
  const Dims *s = dims_of(m, c);
  if (s->n && maker_draw(m, 2))
    c = graph_reduce(m->g, maker_draw(m, 2) ? OP_ANY : OP_ALL, c,
                     &(Dims){.n = 1, .at = {random_dim(m, s)}});
  if (maker_draw(m, 2)) c = graph_unary(m->g, OP_NOT, c);
  return graph_where(m->g, c, x, y);
}

// -- matrices -----------------------------------------------------------------------------------

// Returns a matrix over d and e for each element of the other dims of x, which has d and not e. It
// is symmetric with 9 on the diagonal and at most 1 elsewhere, so that errors stay small.
static NodeId regular_matrix(Maker *m, NodeId x) {
  NodeId row = graph_unary(m->g, OP_TANH, x),
         column = maker_op(m, OP_RENAME, 1, &row, 1, &m->d, 1, &m->e);
  if (!random_fits(m, row, column)) return 0;
  NodeId same = graph_binary(m->g, OP_EQ, graph_index(m->g, m->d), graph_index(m->g, m->e));
  return graph_where(m->g, same, number(m, TYPE_F32, 9), graph_binary(m->g, OP_MUL, row, column));
}

static NodeId random_matrix(Maker *m, NodeId x, NodeId y) {
  static const Op ops[] = {OP_CHOLESKY, OP_TRIANGULAR_SOLVE, OP_SOLVE,
                           OP_SOLVE,    OP_DETERMINANT,      OP_LOGDET};
  if (!(x = random_rows(m, x))) return 0;
  NodeId a = regular_matrix(m, x);
  Op op = ops[maker_draw(m, countof(ops))];
  if (!a) return 0;
  NodeId right =
      dims_has(dims_of(m, y), m->d) && !dims_has(dims_of(m, y), m->e) && random_fits(m, a, y) ? y
                                                                                              : x;
  bool solves = op == OP_TRIANGULAR_SOLVE || op == OP_SOLVE;
  NodeId z =
      maker_op(m, op, solves ? 2 : 1, (NodeId[]){a, right}, 2, (DimId[]){m->d, m->e}, 0, NULL);
  return op == OP_DETERMINANT ? graph_binary(m->g, OP_MUL, z, number(m, TYPE_F32, 0x1p-12))
                              : random_scaled(m, z);
}

// -- guarded regions ------------------------------------------------------------------------------

// A guarded region: carry 0 is the guard, carries 1 and 2 are x and y; the results follow.
enum { ENTRIES = 3, RESULTS = 2 };
typedef struct Guarded {
  RegionId region;
  NodeId carry[ENTRIES];
} Guarded;

static NodeId carry_of(Maker *m, RegionId region, uint32_t k, NodeId start) {
  return graph_add(m->g, OP_CARRY, 1, &start, &(Attr){.region = region, .carry = k});
}

// Opens a region that runs if `guard`, a scalar, is true.
static Guarded guarded_begin(Maker *m, RegionId around, DimId once, NodeId guard, NodeId x,
                             NodeId y) {
  NodeId start[ENTRIES] = {guard, x, y};
  Guarded r = {.region =
                   graph_region(m->g, &(Region){.parent = around, .t = once, .guarded = true})};
  for (uint32_t i = 0; i < ENTRIES; i++) r.carry[i] = carry_of(m, r.region, i, start[i]);
  return r;
}

// Sets out[] to the n results: `next` if the region runs, else `start`.
static void guarded_end(Maker *m, const Guarded *r, uint32_t n, const NodeId *start,
                        const NodeId *next, NodeId *out) {
  NodeId args[ENTRIES + RESULTS], result[RESULTS];
  memcpy(args, r->carry, sizeof r->carry);
  for (uint32_t i = 0; i < n; i++) {
    result[i] = carry_of(m, r->region, ENTRIES + i, start[i]);
    args[ENTRIES + i] = next[i];
  }
  NodeId scan = graph_add(m->g, OP_SCAN, (int)(ENTRIES + n), args, &(Attr){.region = r->region});
  for (uint32_t i = 0; i < n; i++)
    out[i] = graph_add(m->g, OP_FINAL, 2, (NodeId[]){scan, result[i]}, NULL);
}

// Returns a bool scalar of which rounding decides nothing: by the step, which is 3, or whether any
// of the numbers is large.
static NodeId random_guard(Maker *m, NodeId x) {
  if (maker_draw(m, 2))
    return graph_binary(m->g, OP_LT, graph_add(m->g, OP_STEP, 0, NULL, NULL),
                        number(m, TYPE_I32, maker_draw(m, 7)));
  NodeId large = graph_binary(m->g, OP_LT, number(m, TYPE_F32, maker_draw(m, 3)), x);
  return dims_of(m, x)->n ? graph_reduce(m->g, OP_ANY, large, dims_of(m, x)) : large;
}

// Returns the dim of the region in `around`, which a region around that one must not have.
static DimId once_dim(Maker *m, RegionId around) {
  const char *name = intern_printf(m->names, "once%d", region_depth(m->g, around));
  DimId d = dim_find(m->dims, name);
  return d ? d : dim_add(m->dims, name, 1, (Pos){0});
}

static NodeId zeros(Maker *m, const Dims *over) {
  Dims dims = *over;
  return graph_broadcast(m->g, number(m, TYPE_F32, 0), &dims);
}

// Returns a value of one to three operations, the first of them on x.
static NodeId random_chain(Maker *m, NodeId x, NodeId y) {
  for (uint32_t i = 1 + maker_draw(m, 3); i > 0; i--) {
    NodeId next = random_node(m, x, y);
    if (next) x = next;
  }
  return x;
}

// Returns whether a region can be added in that of x, and y be read there.
static bool region_fits(Maker *m, NodeId x, NodeId y) {
  RegionId around = graph_node(m->g, x)->region;
  return region_depth(m->g, around) <= 1 &&
         region_encloses(m->g, graph_node(m->g, y)->region, around);
}

static NodeId random_cond(Maker *m, NodeId x, NodeId y) {
  RegionId around = graph_node(m->g, x)->region;
  if (!region_fits(m, x, y)) return 0;
  DimId once = once_dim(m, around);
  NodeId guard = random_guard(m, x), other = graph_unary(m->g, OP_NOT, guard), result;
  Guarded yes = guarded_begin(m, around, once, guard, x, y);
  NodeId z = random_chain(m, yes.carry[1], yes.carry[2]), none = zeros(m, dims_of(m, z));
  Dims over = *dims_of(m, z), all = *dims_of(m, y);
  guarded_end(m, &yes, 1, &none, &z, &result);
  Guarded no = guarded_begin(m, around, once, other, x, y);
  NodeId mean = all.n ? graph_reduce(m->g, OP_MEAN, no.carry[2], &all) : no.carry[2];
  NodeId next = graph_broadcast(m->g, graph_unary(m->g, OP_TANH, mean), &over);
  guarded_end(m, &no, 1, &result, &next, &result);
  return result;
}

// Returns whether the loop goes on: by the position along t, or as random_guard.
static NodeId goes_on(Maker *m, RegionId loop, DimId t, NodeId h) {
  if (maker_draw(m, 3) == 0) return random_guard(m, h);
  NodeId index = graph_index(m->g, t);
  Attr at = {.region = loop, .ndims = 1, .dims = &t};
  return graph_binary(m->g, OP_LT, graph_add(m->g, OP_AT, 1, &index, &at),
                      number(m, TYPE_I32, maker_draw(m, 8)));
}

// Adds a loop over a dim of x that ends when a condition is false for the first time. Its result is
// the last value of its carry h, or values of all steps, which are zero after the end.
//
//   scan t (h = start) while c { z = operations on h and x; h = h / 2 + mean of z; yield z }
static NodeId random_while(Maker *m, NodeId x, NodeId y) {
  RegionId around = graph_node(m->g, x)->region;
  Dims keep = *dims_of(m, x);
  if (!keep.n || !region_fits(m, x, y)) return 0;
  DimId t = random_dim(m, &keep);
  if (!random_loop_fits(m, around, t) || dims_has(dims_of(m, y), t)) return 0;
  dims_remove(&keep, t);
  bool reverse = maker_draw(m, 2);
  RegionId loop = graph_region(m->g, &(Region){.parent = around, .t = t, .reverse = reverse});
  NodeId h = carry_of(m, loop, 0, random_start(m, &keep, x, y, t)),
         alive = carry_of(m, loop, 1, number(m, TYPE_BOOL, 1));
  NodeId go = graph_binary(m->g, OP_AND, alive, goes_on(m, loop, t, h));
  NodeId now = graph_add(m->g, OP_AT, 1, &x, &(Attr){.region = loop, .ndims = 1, .dims = &t});
  Guarded body = guarded_begin(m, loop, once_dim(m, loop), go, now, h);
  NodeId z = random_chain(m, body.carry[1], body.carry[2]);
  if (dims_has(dims_of(m, z), t)) z = body.carry[1];
  NodeId start[RESULTS] = {h, zeros(m, dims_of(m, z))}, out[RESULTS];
  guarded_end(m, &body, RESULTS, start, (NodeId[]){random_next(m, body.carry[2], z), z}, out);
  NodeId scan = graph_add(m->g, OP_SCAN, 2, (NodeId[]){out[0], go}, &(Attr){.region = loop});
  if (maker_draw(m, 2)) return graph_add(m->g, OP_FINAL, 2, (NodeId[]){scan, h}, NULL);
  return graph_add(m->g, OP_COLLECT, 2, (NodeId[]){scan, out[1]}, &(Attr){.ndims = 1, .dims = &t});
}

NodeId random_more(Maker *m, NodeId x, NodeId y) {
  static Grow *const grow[] = {random_typed, random_integer, random_truth,     random_matrix,
                               random_cond,  random_while,   random_transform, random_factors};
  return grow[maker_draw(m, countof(grow))](m, x, y);
}
