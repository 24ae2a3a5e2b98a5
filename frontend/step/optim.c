// Builds the updates of the optimizers. Input: the gradients of one train block, and its
// specification (TrainSpec). Output: for every trained parameter, nodes for its next value and for
// the next values of its slots. The formulas are those of PyTorch. The rules that are derived from
// Adam are in optim_adam.c; the learning rate is in optim_rate.c.
//
// All parameters of one type get the same shape of expression, so that one kernel serves them all.
// Scalars (learning rate, bias corrections) are separate nodes that are computed once a step.
// Arithmetic is in f32, or in f64 for f64 parameters.
#include <string.h>

#include "frontend/step/step_internal.h"

// -- rules: each returns the next value of the parameter ----------------------------------------

static NodeId update_sgd(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId g = optim_decayed(o);
  if (s->momentum != 0) {
    NodeId v = optim_average(o, "v", s->momentum, 1, g);
    g = s->nesterov ? add(o, g, mul(o, optim_num(o, s->momentum), v)) : v;
  }
  return sub(o, o->w, mul(o, o->lr, g));
}

static NodeId update_adagrad(const Optim *o) {
  NodeId v = optim_average(o, "v", 1, 1, mul(o, o->grad, o->grad));
  return sub(o, o->w,
             quot(o, mul(o, o->lr, o->grad), add(o, optim_root(o, v), optim_num(o, o->spec->eps))));
}

static NodeId update_rmsprop(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId v = optim_average(o, "v", s->rho, 1 - s->rho, mul(o, o->grad, o->grad));
  NodeId d = quot(o, o->grad, add(o, optim_root(o, v), optim_num(o, s->eps)));
  if (s->momentum != 0) d = optim_average(o, "m", s->momentum, 1, d);
  return sub(o, o->w, mul(o, o->lr, d));
}

// Zeiler, "ADADELTA: an adaptive learning rate method", 2012. The paper has no learning rate.
//
//   v' = rho v + (1 - rho) g^2,  d = sqrt(u + eps) / sqrt(v' + eps) g,  u' = rho u + (1 - rho) d^2
static NodeId update_adadelta(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  NodeId g = optim_decayed(o), eps = optim_num(o, s->eps);
  NodeId v = optim_average(o, "v", s->rho, 1 - s->rho, mul(o, g, g));
  NodeId u = step_value(o->step, optim_own_slot(o, "u"));
  NodeId d = mul(o, quot(o, optim_root(o, add(o, u, eps)), optim_root(o, add(o, v, eps))), g);
  (void)optim_average(o, "u", s->rho, 1 - s->rho, mul(o, d, d));
  return sub(o, o->w, mul(o, o->lr, d));
}

static NodeId update_lion(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  DeclId slot = optim_own_slot(o, "m");
  NodeId m = step_value(o->step, slot);
  NodeId ahead =
      add(o, mul(o, optim_num(o, s->beta1), m), mul(o, optim_num(o, 1 - s->beta1), o->grad));
  optim_put(o, slot,
            add(o, mul(o, optim_num(o, s->beta2), m), mul(o, optim_num(o, 1 - s->beta2), o->grad)));
  return sub(o, optim_shrunk(o), mul(o, o->lr, graph_unary(o->g, OP_SIGN, ahead)));
}

static UpdateRule *const rules[] = {
#define OPTIMIZER(id, name) update_##name,
#include "ir/program/optimizer.def"
};

// -- clipping -----------------------------------------------------------------------------------

// Returns the norm of all gradients together, or 0 if there are none. Its type is f32, or f64 if
// one of the gradients is f64. With replicas each has a norm of its own.
static NodeId norm_of(const Step *s, uint32_t n, const NodeId *gradients) {
  Graph *g = s->g;
  NodeId sum = 0;
  Dtype type = TYPE_F32;
  Origin before = g->origin;
  g->origin.value = "norm(gradients)";
  g->origin.why = "norm";
  for (uint32_t i = 0; i < n; i++)
    type = dtype_join(type, (Dtype)graph_node(g, gradients[i])->type);
  for (uint32_t i = 0; i < n; i++) {
    NodeId x = graph_cast(g, gradients[i], type);
    Dims all = optim_dims(s, x);
    NodeId one = graph_reduce(g, OP_SUM, graph_binary(g, OP_MUL, x, x), &all);
    sum = joined(g, OP_ADD, sum, one);
  }
  if (sum) sum = graph_unary(g, OP_SQRT, sum);
  g->origin = before;
  return sum;
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
  return graph_add(o->g, OP_CLIP, 3, (NodeId[]){grad, optim_num(o, -c), optim_num(o, c)}, NULL);
}

// -- updates of a train block -------------------------------------------------------------------

// Builds the update of the parameter o->param. `factor` is the node that scales the gradient for
// clipping by norm; 0: the gradient is not scaled.
static void update_one(Optim *o, NodeId factor, NodeId gradient) {
  Graph *g = o->g;
  Decl d = g->decl.at[o->param - 1]; // a copy, because adding slots reallocates the declarations
  o->type = d.type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  g->origin.value = d.name;
  g->origin.pos = o->spec->pos;
  o->target = o->step->own && o->step->own[o->param - 1] ? o->step->own[o->param - 1] : o->param;
  o->w = graph_cast(g, step_value(o->step, o->target), o->type);
  o->lr = optim_rate(o);
  o->grad = clipped(o, factor, graph_cast(g, gradient, o->type));
  optim_put(o, o->target, rules[o->spec->kind](o));
}

// Stores what the log shows for a train block: the learning rate of the block's optimizer, and the
// norm of its gradients before clipping. `any` is the update of one of its parameters, whichever.
static void report(Step *s, const Optim *any, NodeId norm) {
  Optim o = *any;
  if (!s->ask.log) return;
  o.spec = &o.train->optimizer;
  o.type = TYPE_F32;
  s->rate[o.block] = optim_rate(&o);
  s->norm[o.block] = norm ? replicas_joined(s, OP_MEAN, norm) : optim_num(&o, 0);
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
  if (round == 0) plateau_build(s, block);
  NodeId norm = train->clip_norm > 0 || s->ask.log ? norm_of(s, n, own) : 0;
  NodeId factor = norm_factor(g, train, norm);
  report(s, &o, norm);
  for (uint32_t i = 0; i < n; i++) {
    o.spec = train_optimizer(g, train, g->decl.at[params[i] - 1].name);
    o.param = params[i];
    update_one(&o, factor, own[i]);
  }
  g->origin = before;
}

void optimizer_push(Step *s, uint32_t n, const DeclId *params, const NodeId *gradients) {
  Graph *g = s->g;
  const TrainSpec *train = &g->spec.train[0];
  Origin before = g->origin;
  g->origin = (Origin){.pos = train->optimizer.pos, .why = "push", .backward = true};
  Optim o = {.step = s, .g = g, .train = train};
  if (s->ask.finite) s->finite = gradients_finite(g, n, gradients, true);
  NodeId factor = norm_factor(g, train, train->clip_norm > 0 ? norm_of(s, n, gradients) : 0);
  for (uint32_t i = 0; i < n; i++) {
    o.type = g->decl.at[params[i] - 1].type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
    g->origin.value = g->decl.at[params[i] - 1].name;
    server_push(s, params[i], o.type, clipped(&o, factor, graph_cast(g, gradients[i], o.type)));
  }
  g->origin = before;
}
