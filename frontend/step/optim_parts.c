// Parts that the update rules of all optimizers share: the counters of steps and updates, slots,
// and the assignment of next values.
#include "frontend/step/step_internal.h"

// Counts only the steps whose update was made. As with PyTorch's GradScaler, a skipped update
// counts neither for the bias correction nor for schedules.
NodeId optim_steps(const Optim *o) {
  int64_t n = updates_a_step(o->train);
  NodeId steps = graph_add(o->g, OP_STEP, 0, NULL, NULL);
  if (o->skipped && n > 1)
    return graph_unary(o->g, OP_FLOOR,
                       optim_two(o, OP_DIV, optim_updates(o), optim_num(o, (double)n)));
  return graph_cast(o->g, o->skipped ? optim_two(o, OP_SUB, steps, o->skipped) : steps, o->type);
}

NodeId optim_updates(const Optim *o) {
  int64_t n = updates_a_step(o->train);
  if (n == 1) return optim_steps(o);
  NodeId all = graph_cast(o->g, graph_add(o->g, OP_STEP, 0, NULL, NULL), o->type);
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
