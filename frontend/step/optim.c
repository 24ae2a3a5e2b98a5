// Builds the updates of the optimizers. Input: the gradients of one train block, and its
// specification (TrainSpec). Output: for every trained parameter, nodes for its next value and for
// the next values of its slots. The formulas are those of PyTorch:
//
//   adam:  m' = b1 m + (1-b1) g,  v' = b2 v + (1-b2) g^2,  c = 1 - b^t in update number t, from 1
//          w' = w - lr/c1 m' / (sqrt(v')/sqrt(c2) + eps)
//
// All parameters of one type get the same shape of expression, so that one kernel serves them all.
// Scalars (learning rate, bias corrections) are separate nodes that are computed once a step.
// Arithmetic is in f32, or in f64 for f64 parameters.
#include <math.h>
#include <string.h>

#include "frontend/step/step_internal.h"

static NodeId num(const Optim *o, double x) { return optim_num(o, x); }
static NodeId root(const Optim *o, NodeId x) { return graph_unary(o->g, OP_SQRT, x); }

// -- the learning rate --------------------------------------------------------------------------

// Returns how far the schedule is: from 0 at the end of the warmup to 1 at step s->total, and 0 or
// 1 outside.
static NodeId progress(const Optim *o, const ScheduleSpec *s) {
  NodeId u = quot(o, sub(o, optim_steps(o), num(o, s->warmup)), num(o, s->total - s->warmup));
  NodeId clipped[] = {u, num(o, 0), num(o, 1)};
  return graph_add(o->g, OP_CLIP, 3, clipped, NULL);
}

static NodeId pieces(const Optim *o, const ScheduleSpec *s) {
  NodeId y = num(o, s->value[s->npieces - 1]);
  for (int64_t i = s->npieces - 2; i >= 0; i--)
    y = graph_where(o->g, graph_binary(o->g, OP_LT, optim_steps(o), num(o, s->at[i])),
                    num(o, s->value[i]), y);
  return y;
}

// Returns the factor by which the schedule multiplies the learning rate after the warmup.
static NodeId after_warmup(const Optim *o, const ScheduleSpec *s) {
  switch (s->kind) {
  case SCHEDULE_CONSTANT: break;
  case SCHEDULE_LINEAR: return sub(o, num(o, 1), mul(o, num(o, 1 - s->final), progress(o, s)));
  case SCHEDULE_COSINE: {
    NodeId wave = graph_unary(o->g, OP_COS, mul(o, progress(o, s), num(o, 3.14159265358979323846)));
    return add(o, num(o, s->final), mul(o, num(o, 0.5 * (1 - s->final)), add(o, wave, num(o, 1))));
  }
  case SCHEDULE_INVERSE_SQRT:
    return root(o, quot(o, num(o, s->scale),
                        graph_binary(o->g, OP_MAXIMUM, optim_steps(o), num(o, s->scale))));
  case SCHEDULE_EXPONENTIAL:
    return graph_binary(o->g, OP_POW, num(o, s->rate), quot(o, optim_steps(o), num(o, s->every)));
  case SCHEDULE_STEP:
    return graph_binary(o->g, OP_POW, num(o, s->factor),
                        graph_unary(o->g, OP_FLOOR, quot(o, optim_steps(o), num(o, s->every))));
  case SCHEDULE_PIECEWISE: return pieces(o, s);
  }
  return num(o, 1);
}

// Returns the learning rate of this step: the base rate, with decay, times the factor of the
// schedule.
static NodeId learning_rate(const Optim *o) {
  const ScheduleSpec *s = &o->train->schedule;
  NodeId lr = num(o, o->spec->lr);
  if (o->spec->decay != 0)
    lr = quot(o, lr, add(o, num(o, 1), mul(o, optim_steps(o), num(o, o->spec->decay))));
  if (s->kind == SCHEDULE_CONSTANT && s->warmup == 0) return lr;
  NodeId factor = after_warmup(o, s);
  if (s->warmup > 0) {
    NodeId rising = quot(o, add(o, optim_steps(o), num(o, 1)), num(o, s->warmup));
    factor = graph_where(o->g, graph_binary(o->g, OP_LT, optim_steps(o), num(o, s->warmup)), rising,
                         factor);
  }
  return mul(o, lr, factor);
}

// -- parts of several update rules --------------------------------------------------------------

static DeclId slot_new(const Optim *o, const char *which) {
  const Decl *p = &o->g->decl.at[o->param - 1];
  return optim_slot(o, which, p->rank, p->dims);
}

// Sets the slot `which` to decay * slot + gain * x, and returns that value.
static NodeId average(const Optim *o, const char *which, double decay, double gain, NodeId x) {
  DeclId slot = slot_new(o, which);
  NodeId fresh = gain == 1 ? x : mul(o, num(o, gain), x);
  NodeId next = add(o, mul(o, num(o, decay), step_value(o->step, slot)), fresh);
  optim_put(o, slot, next);
  return next;
}

// Returns 1 - beta^t, where t is the number of this update, from 1. The form -expm1(t log(beta))
// does not cancel for beta near 1.
static NodeId correction(const Optim *o, double beta) {
  NodeId t = add(o, optim_updates(o), num(o, 1));
  return graph_unary(o->g, OP_NEG, graph_unary(o->g, OP_EXPM1, mul(o, t, num(o, log(beta)))));
}

static bool decays(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  if (s->weight_decay == 0) return false;
  return !s->no_decay ||
         !patterns_match(o->g->arena, s->no_decay, o->g->decl.at[o->param - 1].name);
}

// Returns w (1 - lr * weight_decay), or w if this parameter has no weight decay.
static NodeId shrunk(const Optim *o) {
  if (!decays(o)) return o->w;
  return mul(o, o->w, sub(o, num(o, 1), mul(o, o->lr, num(o, o->spec->weight_decay))));
}

// -- rules: each returns the next value of the parameter ----------------------------------------

static NodeId update_sgd(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId g = decays(o) ? add(o, o->grad, mul(o, o->w, num(o, s->weight_decay))) : o->grad;
  if (s->momentum != 0) {
    NodeId v = average(o, "v", s->momentum, 1, g);
    g = s->nesterov ? add(o, g, mul(o, num(o, s->momentum), v)) : v;
  }
  return sub(o, o->w, mul(o, o->lr, g));
}

static NodeId update_adamw(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId m = average(o, "m", s->beta1, 1 - s->beta1, o->grad);
  NodeId v = average(o, "v", s->beta2, 1 - s->beta2, mul(o, o->grad, o->grad));
  NodeId rate = quot(o, o->lr, correction(o, s->beta1));
  NodeId spread = graph_unary(o->g, OP_RSQRT, correction(o, s->beta2));
  NodeId scale = add(o, mul(o, root(o, v), spread), num(o, s->eps));
  return sub(o, shrunk(o), quot(o, mul(o, rate, m), scale));
}

// Adam is AdamW with a weight_decay of 0.
static NodeId update_adam(const Optim *o) { return update_adamw(o); }

static NodeId update_adagrad(const Optim *o) {
  NodeId v = average(o, "v", 1, 1, mul(o, o->grad, o->grad));
  return sub(o, o->w, quot(o, mul(o, o->lr, o->grad), add(o, root(o, v), num(o, o->spec->eps))));
}

static NodeId update_rmsprop(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId v = average(o, "v", s->rho, 1 - s->rho, mul(o, o->grad, o->grad));
  NodeId d = quot(o, o->grad, add(o, root(o, v), num(o, s->eps)));
  if (s->momentum != 0) d = average(o, "m", s->momentum, 1, d);
  return sub(o, o->w, mul(o, o->lr, d));
}

static NodeId update_lion(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  DeclId slot = slot_new(o, "m");
  NodeId m = step_value(o->step, slot);
  NodeId ahead = add(o, mul(o, num(o, s->beta1), m), mul(o, num(o, 1 - s->beta1), o->grad));
  optim_put(o, slot, add(o, mul(o, num(o, s->beta2), m), mul(o, num(o, 1 - s->beta2), o->grad)));
  return sub(o, shrunk(o), mul(o, o->lr, graph_unary(o->g, OP_SIGN, ahead)));
}

static UpdateRule *const rules[] = {
#define OPTIMIZER(id, name) update_##name,
#include "ir/program/optimizer.def"
};

// -- clipping -----------------------------------------------------------------------------------

// Returns the norm of all gradients together, or 0 if there are none. Its type is f32, or f64 if
// one of the gradients is f64.
static NodeId norm_of(Graph *g, uint32_t n, const NodeId *gradients) {
  NodeId sum = 0;
  Dtype type = TYPE_F32;
  for (uint32_t i = 0; i < n; i++)
    type = dtype_join(type, (Dtype)graph_node(g, gradients[i])->type);
  for (uint32_t i = 0; i < n; i++) {
    NodeId x = graph_cast(g, gradients[i], type);
    Dims all = graph_node(g, x)->dims;
    NodeId one = graph_reduce(g, OP_SUM, graph_binary(g, OP_MUL, x, x), &all);
    sum = joined(g, OP_ADD, sum, one);
  }
  return sum ? graph_unary(g, OP_SQRT, sum) : 0;
}

// Returns the factor c / max(norm, c) for clip_norm = c, or 0 if the block does not clip by norm.
static NodeId norm_factor(Graph *g, const TrainSpec *t, NodeId norm) {
  if (t->clip_norm <= 0 || !norm) return 0;
  NodeId limit = graph_const(g, (Dtype)graph_node(g, norm)->type, t->clip_norm);
  return graph_binary(g, OP_DIV, limit, graph_binary(g, OP_MAXIMUM, norm, limit));
}

static NodeId clipped(const Optim *o, NodeId factor, NodeId grad) {
  double c = o->train->clip_value;
  if (factor) grad = mul(o, grad, graph_cast(o->g, factor, o->type));
  if (c <= 0) return grad;
  return graph_add(o->g, OP_CLIP, 3, (NodeId[]){grad, num(o, -c), num(o, c)}, NULL);
}

// -- updates of a train block -------------------------------------------------------------------

// Returns the optimizer of a parameter: that of the first group whose pattern matches its name,
// else that of the block.
static const OptimizerSpec *spec_of(const Graph *g, const TrainSpec *t, DeclId param) {
  for (uint32_t i = 0; i < t->ngroups; i++)
    if (patterns_match(g->arena, t->group[i].pattern, g->decl.at[param - 1].name))
      return &t->group[i].optimizer;
  return &t->optimizer;
}

// Builds the update of the parameter o->param. `factor` is the node that scales the gradient for
// clipping by norm; 0: the gradient is not scaled.
static void update_one(Optim *o, NodeId factor, NodeId gradient) {
  Graph *g = o->g;
  Decl d = g->decl.at[o->param - 1]; // a copy, because adding slots reallocates the declarations
  o->type = d.type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  g->origin.value = d.name;
  g->origin.pos = o->spec->pos;
  o->w = graph_cast(g, step_value(o->step, o->param), o->type);
  o->lr = learning_rate(o);
  o->grad = clipped(o, factor, graph_cast(g, gradient, o->type));
  optim_put(o, o->param, rules[o->spec->kind](o));
}

// Stores what the log shows for a train block: the learning rate of the block's optimizer, and the
// norm of its gradients before clipping. `any` is the update of one of its parameters, whichever.
static void report(Step *s, const Optim *any, NodeId norm) {
  Optim o = *any;
  if (!s->ask.log) return;
  o.spec = &o.train->optimizer;
  o.type = TYPE_F32;
  s->rate[o.block] = learning_rate(&o);
  s->norm[o.block] = norm ? norm : num(&o, 0);
}

// Builds the count of skipped updates of a block with a scaled loss. At run time the count is
// `before` before this update, and grows by 1 if o->keep is false. Also sets Step.kept and
// Step.fresh of the n parameters, which the averages of the parameters read.
static void count_skipped(Step *s, const Optim *o, NodeId before, uint32_t n,
                          const DeclId *params) {
  Graph *g = s->g;
  NodeId more = graph_binary(g, OP_ADD, before, graph_const(g, TYPE_I32, 1));
  step_assign(s, scale_skipped(s, o->block), graph_where(g, o->keep, before, more));
  NodeId made = graph_binary(g, OP_MUL, graph_add(g, OP_STEP, 0, NULL, NULL),
                             graph_const(g, TYPE_I32, (double)updates_a_step(o->train)));
  NodeId none = graph_binary(g, OP_EQ, made, before);
  for (uint32_t i = 0; i < n; i++) {
    NodeId *kept = &s->kept.at[params[i] - 1], *fresh = &s->fresh.at[params[i] - 1];
    *kept = joined(g, OP_OR, *kept, o->keep);
    if (o->round == 0) *fresh = joined(g, OP_AND, *fresh, none);
  }
}

void optimizer_build(Step *s, uint32_t block, int64_t round, uint32_t n, const DeclId *params,
                     const NodeId *gradients) {
  Graph *g = s->g;
  const TrainSpec *train = &g->spec.train[block];
  Origin before = g->origin;
  g->origin = (Origin){.pos = train->optimizer.pos, .why = "optimizer", .backward = true};
  NodeId *own = arena_array(g->arena, NodeId, n + 1);
  memcpy(own, gradients, n * sizeof *own);
  Optim o = {.step = s, .g = g, .train = train, .block = block, .round = round};
  if (s->scale) {
    o.skipped = step_value(s, scale_skipped(s, block));
    o.keep = scale_build(s, n, own);
    count_skipped(s, &o, o.skipped, n, params);
  } else if (s->ask.finite) {
    s->finite = joined(g, OP_ADD, s->finite, gradients_finite(g, n, own, true));
  }
  NodeId norm = train->clip_norm > 0 || s->ask.log ? norm_of(g, n, own) : 0;
  NodeId factor = norm_factor(g, train, norm);
  report(s, &o, norm);
  for (uint32_t i = 0; i < n; i++) {
    o.spec = spec_of(g, train, params[i]);
    o.param = params[i];
    update_one(&o, factor, own[i]);
  }
  g->origin = before;
}
