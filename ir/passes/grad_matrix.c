// Derivative rules of operations on matrices: cholesky, solve and others (Giles, "Collected matrix
// derivative results for forward and reverse mode algorithmic differentiation", 2008; Murray,
// "Differentiation of the Cholesky decomposition", 2016).
//
// i are the rows and j the columns of the matrix a. Where a product needs a dim twice, a twin of
// the same size takes the second place: t for j. Products sum over named dims, so a transpose is
// the same value with the roles of the dims exchanged: solve[j, i](a, g) solves the transposed
// system.
#include "ir/passes/grad_internal.h"

static DimId rows(const Grad *c) { return c->n.attr->dims[0]; }
static DimId columns(const Grad *c) { return c->n.attr->dims[1]; }

static NodeId times(Grad *c, NodeId x, NodeId y) { return graph_binary(c->g, OP_MUL, x, y); }

// Returns x with the dim `from` renamed to `to`.
static NodeId as(Grad *c, NodeId x, DimId from, DimId to) {
  Attr attr = {.ndims = 1, .dims = &from, .nto = 1, .to = &to};
  return graph_add(c->g, OP_RENAME, 1, &x, &attr);
}

// Returns x with two dims renamed at once.
static NodeId as_both(Grad *c, NodeId x, DimId a, DimId to_a, DimId b, DimId to_b) {
  Attr attr = {.ndims = 2, .dims = (DimId[]){a, b}, .nto = 2, .to = (DimId[]){to_a, to_b}};
  return graph_add(c->g, OP_RENAME, 1, &x, &attr);
}

// Returns the product of x and y, summed over dim `over`.
static NodeId product(Grad *c, NodeId x, NodeId y, DimId over) {
  Attr attr = {.type = (Dtype)c->n.type, .ndims = 1, .dims = &over};
  return graph_add(c->g, OP_CONTRACT, 2, (NodeId[]){x, y}, &attr);
}

// Returns a solution for the matrix `a` whose rows and columns are the given dims.
static NodeId solve(Grad *c, Op op, unsigned flags, DimId row, DimId column, NodeId a, NodeId b) {
  Attr attr = {.ndims = 2, .dims = (DimId[]){row, column}, .flags = flags};
  return graph_add(c->g, op, 2, (NodeId[]){a, b}, &attr);
}

static NodeId order(Grad *c, Op op, DimId a, DimId b) {
  return graph_binary(c->g, op, graph_index(c->g, a), graph_index(c->g, b));
}

// -- systems ------------------------------------------------------------------------------------

// Derivative of x = a^-1 b: db = a^-T dx, and da = -db x^T. Of a triangular matrix only one
// triangle has a gradient.
static void grad_solution(Grad *c, Op op, unsigned flags) {
  NodeId db = solve(c, op, flags, columns(c), rows(c), c->n.args[0], c->dy);
  grad_to(c, 1, db);
  if (!grad_wanted(c, 0)) return;
  NodeId x = graph_unary(c->g, OP_NEG, c->id);
  if (op == OP_SOLVE) {
    grad_product_to(c, 0, db, x);
    return;
  }
  Dims keep = *graph_node(c->g, c->n.args[0])->dims;
  NodeId da = graph_contract(c->g, 2, (NodeId[]){db, x}, &keep, (Dtype)c->n.type);
  bool upper = c->n.attr->flags & MATRIX_UPPER;
  NodeId own = order(c, OP_LE, upper ? rows(c) : columns(c), upper ? columns(c) : rows(c));
  grad_to(c, 0, graph_where(c->g, own, da, grad_const(c, 0)));
}

void grad_solve(Grad *c) { grad_solution(c, OP_SOLVE, 0); }
void grad_triangular_solve(Grad *c) {
  grad_solution(c, OP_TRIANGULAR_SOLVE, c->n.attr->flags ^ MATRIX_UPPER);
}

// -- determinants -------------------------------------------------------------------------------

// Returns a^-T, over the dims of a.
static NodeId inverse_transposed(Grad *c) {
  DimId i = rows(c), j = columns(c), t = dim_twin(c->g->dims, i, "inverse");
  NodeId one = graph_cast(c->g, order(c, OP_EQ, i, t), (Dtype)c->n.type);
  return as(c, solve(c, OP_SOLVE, 0, i, j, c->n.args[0], one), t, i);
}

void grad_logdet(Grad *c) { grad_to(c, 0, times(c, c->dy, inverse_transposed(c))); }

// The determinant times the inverse: a singular matrix has no such gradient.
void grad_determinant(Grad *c) {
  grad_to(c, 0, times(c, times(c, c->dy, c->id), inverse_transposed(c)));
}

// -- cholesky -----------------------------------------------------------------------------------

// Returns the mean of x over i and j and its transpose.
static NodeId symmetric(Grad *c, NodeId x, DimId i, DimId j) {
  NodeId sum = graph_binary(c->g, OP_ADD, x, as_both(c, x, i, j, j, i));
  return times(c, sum, grad_const(c, 0.5));
}

// Derivative of cholesky: with p = L^T dL, of which the lower triangle and half of the diagonal are
// kept, da is the symmetric part of L^-T p L^-1.
void grad_cholesky(Grad *c) {
  Graph *g = c->g;
  DimId i = rows(c), j = columns(c), t = dim_twin(g->dims, j, "other");
  NodeId zero = grad_const(c, 0), half = grad_const(c, 0.5), one = grad_const(c, 1);
  NodeId p = product(c, c->id, as(c, c->dy, j, t), i); // over j, t
  NodeId share = graph_where(g, order(c, OP_EQ, j, t), half, one);
  p = graph_where(g, order(c, OP_LE, t, j), times(c, p, share), zero);
  NodeId left = solve(c, OP_TRIANGULAR_SOLVE, MATRIX_UPPER, j, i, c->id, p); // L^-T p, over i, t
  // (L^-T p) L^-1 is the solution s of s L = L^-T p, for each row of which L^T is the matrix.
  left = as_both(c, left, i, t, t, j);
  NodeId s = solve(c, OP_TRIANGULAR_SOLVE, MATRIX_UPPER, j, i, c->id, left); // over t, i
  grad_to(c, 0, symmetric(c, as(c, s, t, j), i, j));
}

// -- factors in a stack -------------------------------------------------------------------------

// Returns the rows of a stack x from `first` on, as dim `to`.
static NodeId part(Grad *c, NodeId x, int64_t first, DimId to) {
  DimId from = c->n.attr->to[0];
  Attr attr = {.ndims = 1, .dims = &from, .nto = 1, .to = &to, .affine = {1, 0, first, 1}};
  return graph_add(c->g, OP_WINDOW, 1, &x, &attr);
}

// Returns row `at` of a stack x.
static NodeId row_of(Grad *c, NodeId x, int64_t at) {
  DimId from = c->n.attr->to[0];
  Attr attr = {.ndims = 1, .dims = &from, .affine = {0, 0, at, 1}};
  return graph_add(c->g, OP_WINDOW, 1, &x, &attr);
}

static int64_t size(Grad *c, DimId d) { return dim_get(c->g->dims, d)->size; }
static NodeId sub(Grad *c, NodeId x, NodeId y) { return graph_binary(c->g, OP_SUB, x, y); }
static NodeId add(Grad *c, NodeId x, NodeId y) { return graph_binary(c->g, OP_ADD, x, y); }
static NodeId over(Grad *c, NodeId x, NodeId y) { return graph_binary(c->g, OP_DIV, x, y); }

// Derivative of a = Q R: with M = R dR^T - dQ^T Q, and its lower triangle copied to the upper one,
// da = (dQ + Q M) R^-T.
void grad_qr(Grad *c) {
  DimId i = rows(c), j = columns(c), k = c->n.attr->to[1], t = dim_twin(c->g->dims, k, "other");
  int64_t m = size(c, i);
  NodeId q = part(c, c->id, 0, i), r = part(c, c->id, m, j), dq = part(c, c->dy, 0, i),
         dr = part(c, c->dy, m, j);
  NodeId lower = sub(c, product(c, r, as(c, dr, k, t), j), product(c, dq, as(c, q, k, t), i));
  NodeId both = graph_where(c->g, order(c, OP_LE, t, k), lower, as_both(c, lower, k, t, t, k));
  NodeId b = add(c, dq, as(c, product(c, q, both, k), t, k));
  grad_to(c, 0, solve(c, OP_TRIANGULAR_SOLVE, MATRIX_UPPER, k, j, r, b));
}

// Derivative of the values w and vectors V of a symmetric matrix: the symmetric part of
// V (diag(dw) + (V^T dV) / (w_t - w_k)) V^T. Of equal values the vectors have no derivative.
void grad_eigh(Grad *c) {
  DimId i = rows(c), j = columns(c), k = c->n.attr->to[1], t = dim_twin(c->g->dims, k, "other");
  int64_t n = size(c, i);
  NodeId v = part(c, c->id, 0, i), w = row_of(c, c->id, n), dv = part(c, c->dy, 0, i),
         dw = row_of(c, c->dy, n);
  NodeId same = order(c, OP_EQ, k, t), gap = sub(c, as(c, w, k, t), w);
  NodeId mixed =
      over(c, product(c, v, as(c, dv, k, t), i), graph_where(c->g, same, grad_const(c, 1), gap));
  NodeId inner = graph_where(c->g, same, dw, mixed);
  NodeId left = product(c, v, inner, k); // over i, t
  NodeId da = product(c, left, as_both(c, v, i, j, k, t), t);
  grad_to(c, 0, symmetric(c, da, i, j));
}

// Returns the part of da that lies outside the span of the vectors x, over d and k, whose gradient
// is dx: (dx - x x^T dx) / s times the transpose of the vectors y.
static NodeId outside(Grad *c, DimId d, NodeId x, NodeId dx, NodeId s, NodeId y) {
  DimId k = c->n.attr->to[1], t = dim_twin(c->g->dims, k, "other");
  NodeId within = product(c, as(c, x, k, t), dx, d); // over t, k
  NodeId rest = sub(c, dx, product(c, as(c, x, k, t), within, t));
  return product(c, over(c, rest, s), y, k);
}

// Derivative of a = U S V^T (Townsend, "Differentiating the singular value decomposition", 2016).
// With the skew parts P of U^T dU and Q of V^T dV, both divided by s_t^2 - s_k^2,
// da = U (P S + S Q + diag(dS)) V^T, plus what lies outside the span of U or V.
void grad_svd(Grad *c) {
  DimId i = rows(c), j = columns(c), k = c->n.attr->to[1], t = dim_twin(c->g->dims, k, "other");
  int64_t m = size(c, i), n = size(c, j);
  NodeId u = part(c, c->id, 0, i), v = part(c, c->id, m, j), s = row_of(c, c->id, m + n);
  NodeId du = part(c, c->dy, 0, i), dv = part(c, c->dy, m, j), ds = row_of(c, c->dy, m + n);
  NodeId st = as(c, s, k, t), same = order(c, OP_EQ, k, t);
  NodeId p = product(c, u, as(c, du, k, t), i), q = product(c, v, as(c, dv, k, t), j);
  p = times(c, sub(c, p, as_both(c, p, k, t, t, k)), st);
  q = times(c, sub(c, q, as_both(c, q, k, t, t, k)), s);
  NodeId gap = times(c, sub(c, st, s), add(c, st, s));
  NodeId mixed = over(c, add(c, p, q), graph_where(c->g, same, grad_const(c, 1), gap));
  NodeId left = product(c, u, graph_where(c->g, same, ds, mixed), k); // over i, t
  NodeId da = product(c, left, as(c, v, k, t), t);
  if (m > size(c, k)) da = add(c, da, outside(c, i, u, du, s, v));
  if (n > size(c, k)) da = add(c, da, outside(c, j, v, dv, s, u));
  grad_to(c, 0, da);
}
