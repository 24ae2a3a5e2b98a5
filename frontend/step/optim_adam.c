// The update rules of Adam and of the optimizers that are derived from it. The slots m and v are
// averages of the gradient g and of its square; c = 1 - beta^t in update number t, from 1:
//
//   adam    w' = w - lr m / c1 / (sqrt(v / c2) + eps)                Kingma and Ba, 2014
//   adamw   w also loses lr weight_decay w                           Loshchilov and Hutter, 2017
//   nadam   momentum looks ahead, and is scheduled                   Dozat, 2016
//   radam   the step is scaled by how certain v is                   Liu et al., 2019
//   lamb    the step of each parameter is in proportion to its norm  You et al., 2019
//
// nadam and radam are those of PyTorch, whose weight decay is added to the gradient.
#include <math.h>

#include "frontend/step/step_internal.h"

static NodeId second_moment(const Optim *o, NodeId g) {
  return optim_average(o, "v", o->spec->beta2, 1 - o->spec->beta2, mul(o, g, g));
}

static NodeId first_moment(const Optim *o, NodeId g) {
  return optim_average(o, "m", o->spec->beta1, 1 - o->spec->beta1, g);
}

// Returns sqrt(v / c2) + eps.
static NodeId spread(const Optim *o, NodeId v) {
  NodeId by = graph_unary(o->g, OP_RSQRT, optim_correction(o, o->spec->beta2));
  return add(o, mul(o, optim_root(o, v), by), optim_num(o, o->spec->eps));
}

NodeId update_adamw(const Optim *o) {
  NodeId m = first_moment(o, o->grad), v = second_moment(o, o->grad);
  NodeId rate = quot(o, o->lr, optim_correction(o, o->spec->beta1));
  return sub(o, optim_shrunk(o), quot(o, mul(o, rate, m), spread(o, v)));
}

// Adam is AdamW with a weight_decay of 0.
NodeId update_adam(const Optim *o) { return update_adamw(o); }

// -- nadam --------------------------------------------------------------------------------------

// Returns the momentum of update t, mu = beta1 (1 - 0.96^(t momentum_decay) / 2), where t is a
// node.
static NodeId momentum_at(const Optim *o, NodeId t) {
  NodeId power = mul(o, t, optim_num(o, log(0.96) * o->spec->momentum_decay));
  NodeId half = mul(o, optim_num(o, 0.5), graph_unary(o->g, OP_EXP, power));
  return mul(o, optim_num(o, o->spec->beta1), sub(o, optim_num(o, 1), half));
}

// Returns 1 - (1 - x) * mu.
static NodeId shortened(const Optim *o, NodeId x, NodeId mu) {
  return sub(o, optim_num(o, 1), mul(o, sub(o, optim_num(o, 1), x), mu));
}

// The slot q is 1 minus the product of the momentums of all updates, so that it starts at 0:
//
//   q' = 1 - (1 - q) mu(t),  ahead = 1 - (1 - q') mu(t + 1)
//   w' = w - lr (mu(t + 1) m' / ahead + (1 - mu(t)) g / q') / (sqrt(v / c2) + eps)
NodeId update_nadam(const Optim *o) {
  NodeId g = optim_decayed(o), one = optim_num(o, 1), t = add(o, optim_updates(o), one);
  NodeId mu = momentum_at(o, t), next = momentum_at(o, add(o, t, one));
  DeclId slot = optim_slot(o, "q", 0, NULL);
  NodeId q = shortened(o, step_value(o->step, slot), mu), ahead = shortened(o, q, next);
  optim_put(o, slot, q);
  NodeId m = first_moment(o, g), v = second_moment(o, g);
  NodeId of_m = mul(o, mul(o, o->lr, quot(o, next, ahead)), m);
  NodeId of_g = mul(o, mul(o, o->lr, quot(o, sub(o, one, mu), q)), g);
  return sub(o, o->w, quot(o, add(o, of_m, of_g), spread(o, v)));
}

// -- radam --------------------------------------------------------------------------------------

// The length of the average v in updates, rho(t) = rho - 2 t beta2^t / c2, and its limit rho. In
// f64: for beta2 near 1, rho(t) is a small difference of large numbers.
typedef struct Length {
  Optim o;
  double limit;
  NodeId at; // rho(t), a scalar f64 node
} Length;

static Length length_of(const Optim *o) {
  Length l = {.o = *o, .limit = 2 / (1 - o->spec->beta2) - 1};
  l.o.type = TYPE_F64;
  NodeId t = add(&l.o, optim_updates(&l.o), optim_num(&l.o, 1));
  NodeId c2 = optim_correction(&l.o, o->spec->beta2);
  NodeId lost = quot(&l.o, mul(&l.o, t, sub(&l.o, optim_num(&l.o, 1), c2)), c2);
  l.at = sub(&l.o, optim_num(&l.o, l.limit), mul(&l.o, optim_num(&l.o, 2), lost));
  return l;
}

// Returns sqrt(c2 (rho(t) - 4) (rho(t) - 2) rho / ((rho - 4) (rho - 2) rho(t))), with rho(t) of at
// least 5.
static NodeId rectification(const Length *l) {
  const Optim *o = &l->o;
  NodeId x = optim_two(o, OP_MAXIMUM, l->at, optim_num(o, 5));
  NodeId above = mul(o, sub(o, x, optim_num(o, 4)), sub(o, x, optim_num(o, 2)));
  above = mul(o, above, optim_correction(o, o->spec->beta2));
  double scale = l->limit / ((l->limit - 4) * (l->limit - 2));
  return optim_root(o, quot(o, mul(o, above, optim_num(o, scale)), x));
}

// The step is rectified if rho(t) > 5, as in PyTorch; the paper has 4. Before that it is that of
// momentum alone: w' = w - lr m / c1.
NodeId update_radam(const Optim *o) {
  Length l = length_of(o);
  NodeId g = optim_decayed(o), m = first_moment(o, g), v = second_moment(o, g);
  NodeId step = mul(o, quot(o, o->lr, optim_correction(o, o->spec->beta1)), m);
  if (l.limit <= 5) return sub(o, o->w, step); // rho(t) never exceeds its limit
  NodeId by = quot(o, graph_cast(o->g, rectification(&l), o->type),
                   add(o, optim_root(o, v), optim_num(o, o->spec->eps)));
  NodeId certain = graph_binary(o->g, OP_LT, optim_num(&l.o, 5), l.at);
  return sub(o, o->w, mul(o, step, graph_where(o->g, certain, by, optim_num(o, 1))));
}

// -- lamb ---------------------------------------------------------------------------------------

// r = m / c1 / (sqrt(v / c2) + eps) + weight_decay w,  w' = w - lr norm(w) / norm(r) r
//
// The factor norm(w) / norm(r) is 1 if one of the norms is 0. The norms are over the whole tensor.
NodeId update_lamb(const Optim *o) {
  NodeId m = first_moment(o, o->grad), v = second_moment(o, o->grad), zero = optim_num(o, 0);
  NodeId mean = mul(o, m, graph_unary(o->g, OP_RECIPROCAL, optim_correction(o, o->spec->beta1)));
  NodeId r = quot(o, mean, spread(o, v));
  if (optim_decays(o)) r = add(o, r, mul(o, optim_num(o, o->spec->weight_decay), o->w));
  Dims all = optim_dims(o->step, o->w);
  NodeId of_w = optim_norm(o, o->w, &all), of_r = optim_norm(o, r, &all);
  NodeId both = graph_binary(o->g, OP_LT, zero, optim_two(o, OP_MINIMUM, of_w, of_r));
  NodeId ratio = graph_where(o->g, both, quot(o, of_w, of_r), optim_num(o, 1));
  return sub(o, o->w, mul(o, mul(o, o->lr, ratio), r));
}
