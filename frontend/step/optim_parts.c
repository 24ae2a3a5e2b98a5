// Parts that the update rules of all optimizers share: the counters of steps and updates, slots,
// the assignment of next values, weight decay and norms.
#include "frontend/step/step_internal.h"

#include <math.h>

// Counts only the steps whose update was made. As with PyTorch's GradScaler, a skipped update
// counts neither for the bias correction nor for schedules.
NodeId optim_steps(const Optim *o) {
  int64_t n = updates_a_step(o->train), pushes = o->step->pushes;
  NodeId steps = graph_add(o->g, OP_STEP, 0, NULL, NULL);
  if (pushes)
    steps = graph_binary(o->g, OP_FLOOR_DIV, steps, graph_const(o->g, TYPE_I32, (double)pushes));
  if (o->skipped && n > 1)
    return graph_unary(o->g, OP_FLOOR,
                       optim_two(o, OP_DIV, optim_updates(o), optim_num(o, (double)n)));
  return graph_cast(o->g, o->skipped ? optim_two(o, OP_SUB, steps, o->skipped) : steps, o->type);
}

NodeId optim_updates(const Optim *o) {
  int64_t n = updates_a_step(o->train);
  NodeId all = graph_cast(o->g, graph_add(o->g, OP_STEP, 0, NULL, NULL), o->type);
  if (o->step->pushes) return all;
  if (n == 1) return optim_steps(o);
  all = optim_two(o, OP_MUL, all, optim_num(o, (double)n));
  all = optim_two(o, OP_ADD, all, optim_num(o, (double)o->round));
  return o->skipped ? optim_two(o, OP_SUB, all, graph_cast(o->g, o->skipped, o->type)) : all;
}

DeclId optim_slot(const Optim *o, const char *which, int rank, const DimId *dims) {
  return step_slot(o->step, o->block, o->param, which, o->type, rank, dims);
}

void optim_put(const Optim *o, DeclId target, NodeId value) {
  NodeId before = step_value(o->step, target);
  value = graph_cast(o->g, value, (Dtype)graph_node(o->g, before)->type);
  step_assign(o->step, target, o->keep ? graph_where(o->g, o->keep, value, before) : value);
}

DeclId optim_own_slot(const Optim *o, const char *which) {
  const Decl *p = &o->g->decl.at[o->target - 1];
  return optim_slot(o, which, p->rank, p->dims);
}

NodeId optim_average(const Optim *o, const char *which, double decay, double gain, NodeId x) {
  DeclId slot = optim_own_slot(o, which);
  NodeId fresh = gain == 1 ? x : mul(o, optim_num(o, gain), x);
  NodeId next = add(o, mul(o, optim_num(o, decay), step_value(o->step, slot)), fresh);
  optim_put(o, slot, next);
  return next;
}

// The form -expm1(t log(beta)) does not cancel for beta near 1.
NodeId optim_correction(const Optim *o, double beta) {
  NodeId t = add(o, optim_updates(o), optim_num(o, 1));
  NodeId power = graph_unary(o->g, OP_EXPM1, mul(o, t, optim_num(o, log(beta))));
  return graph_unary(o->g, OP_NEG, power);
}

bool optim_decays(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  if (s->weight_decay == 0) return false;
  return !s->no_decay ||
         !patterns_match(o->g->arena, s->no_decay, o->g->decl.at[o->param - 1].name);
}

NodeId optim_shrunk(const Optim *o) {
  if (!optim_decays(o)) return o->w;
  NodeId decay = mul(o, o->lr, optim_num(o, o->spec->weight_decay));
  return mul(o, o->w, sub(o, optim_num(o, 1), decay));
}

NodeId optim_decayed(const Optim *o) {
  if (!optim_decays(o)) return o->grad;
  return add(o, o->grad, mul(o, o->w, optim_num(o, o->spec->weight_decay)));
}

Dims optim_dims(const Step *s, NodeId x) {
  Dims all = *graph_node(s->g, x)->dims;
  if (s->replica && dims_has(&all, s->replica)) dims_remove(&all, s->replica);
  return all;
}

NodeId optim_norm(const Optim *o, NodeId x, const Dims *over) {
  return optim_root(o, graph_reduce(o->g, OP_SUM, mul(o, x, x), over));
}
