// The update rule of Adafactor without a first moment (Shazeer and Stern, "Adafactor: adaptive
// learning rates with sublinear memory cost", 2018). The learning rate is given, instead of the
// relative step of the paper:
//
//   beta = 1 - (t + 1)^-0.8,  s = g^2 + 1e-30
//   r' = beta r + (1 - beta) mean[col](s),  c' = beta c + (1 - beta) mean[row](s)
//   v = r' c' / mean[row](r')        factored; for small parameters and vectors:
//   v = v' = beta v + (1 - beta) s
//   u = g / sqrt(v),  u = u / max(1, rms(u)),  w' = w - lr max(1e-3, rms(w)) u
#include <math.h>

#include "frontend/step/step_internal.h"

enum { FACTORED = 128 }; // the factored form needs at least this size of the second largest dim

static NodeId largest(const Optim *o, NodeId x, double y) {
  return optim_two(o, OP_MAXIMUM, x, optim_num(o, y));
}

static NodeId rms(const Optim *o, NodeId x) {
  Dims all = optim_dims(o->step, x);
  return graph_unary(o->g, OP_SQRT, graph_reduce(o->g, OP_MEAN, mul(o, x, x), &all));
}

// Returns 1 - beta as (t + 1)^-0.8, without cancellation.
static NodeId fresh_share(const Optim *o) {
  return optim_two(o, OP_POW, add(o, optim_updates(o), optim_num(o, 1)), optim_num(o, -0.8));
}

static NodeId moved(const Optim *o, DeclId slot, NodeId x) {
  NodeId old = step_value(o->step, slot);
  NodeId next = add(o, old, mul(o, fresh_share(o), sub(o, x, old)));
  optim_put(o, slot, next);
  return next;
}

// Finds the two largest dims of the parameter, as indices into its declaration; of dims of equal
// size the first one comes first. Returns false if the second moment of the parameter is not
// factored.
static bool largest_dims(const Optim *o, int *row, int *col) {
  const Decl *p = &o->g->decl.at[o->param - 1];
  *row = *col = -1;
  for (int i = 0; i < p->rank; i++) {
    int64_t n = dim_get(o->g->dims, p->dims[i])->size;
    if (*row < 0 || n > dim_get(o->g->dims, p->dims[*row])->size)
      *col = *row, *row = i;
    else if (*col < 0 || n > dim_get(o->g->dims, p->dims[*col])->size)
      *col = i;
  }
  return *col >= 0 && dim_get(o->g->dims, p->dims[*col])->size >= FACTORED;
}

// Updates the slot `which`, a moving average, with the mean of `square` over one dim of the
// parameter: that at index `gone`. Returns the updated slot.
static NodeId marginal(const Optim *o, const char *which, int gone, NodeId square) {
  Decl p = o->g->decl.at[o->target - 1];
  Dims over = {.n = 1, .at = {o->g->decl.at[o->param - 1].dims[gone]}};
  int at = 0;
  while (p.dims[at] != over.at[0]) at++;
  for (; at + 1 < p.rank; at++) p.dims[at] = p.dims[at + 1];
  DeclId slot = optim_slot(o, which, p.rank - 1, p.dims);
  return moved(o, slot, graph_reduce(o->g, OP_MEAN, square, &over));
}

static NodeId second_moment(const Optim *o, NodeId square) {
  int row, col;
  Decl p = o->g->decl.at[o->param - 1];
  if (!largest_dims(o, &row, &col)) return moved(o, optim_own_slot(o, "v"), square);
  NodeId r = marginal(o, "r", col, square), c = marginal(o, "c", row, square);
  Dims over = {.n = 1, .at = {p.dims[row]}};
  return mul(o, quot(o, r, graph_reduce(o->g, OP_MEAN, r, &over)), c);
}

NodeId update_adafactor(const Optim *o) {
  NodeId square = add(o, mul(o, o->grad, o->grad), optim_num(o, 1e-30));
  NodeId u = mul(o, o->grad, graph_unary(o->g, OP_RSQRT, second_moment(o, square)));
  NodeId rate = mul(o, o->lr, largest(o, rms(o, o->w), 1e-3));
  return sub(o, o->w, mul(o, quot(o, rate, largest(o, rms(o, u), 1)), u));
}
