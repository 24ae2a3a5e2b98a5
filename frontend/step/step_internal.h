// Private: a training step under construction (select_train.c, optim*.c).
//
// Blocks run one after another, so a parameter has a value at every point of the step: as it began,
// or what the last update made of it. Updates take effect together when the step commits.
#ifndef FRONTEND_STEP_H
#define FRONTEND_STEP_H

#include "frontend/step/select_internal.h"

// One micro-batch as the step begins; without `accumulate` there is one, the whole batch.
typedef struct StepPart {
  const RegionId *region;
  NodeId *instead;   // by DeclId - 1: its inputs and states, 0: those of the graph
  const NodeId *map; // the values that were asked for, on the parameters that the step began with
} StepPart;

typedef struct Step {
  const Model *m;
  Graph *g;
  Wants wants;
  Nodes roots; // of the values that were asked for, and of updates of states
  int64_t nparts;
  StepPart *part;
  DimId over, micro;   // rows of a micro-batch, and their number; 0 without
  VEC(NodeId) now;     // by DeclId - 1: the value after the last update, 0: as the step began
  VEC(uint32_t) block; // of a slot: the number of the train block that it serves, plus 1
  VEC(DeclId) order;   // in which they were first assigned
  NodeId scale;        // of the loss, f32; 0: none (decision 26)
  VEC(NodeId)
  kept; // by DeclId - 1: bool, whether one of the updates of a parameter is made; 0: all are
  VEC(NodeId)
  fresh; // by DeclId - 1: bool, whether no update was made before this step; 0: in step 0
  TrainAsk ask;
  NodeId *rate, *norm; // by block, of its last round: the learning rate, the norm of all gradients;
                       // 0 without ask.log
  NodeId finite;       // f32: 0, or NaN where a gradient is not finite; 0: not asked for
} Step;

// step.c. Makes room for declarations that were added.
void step_grow(Step *s);
// The value of d at this point of the step, in its own type.
NodeId step_value(Step *s, DeclId d);
void step_assign(Step *s, DeclId d, NodeId value);
// The slot `which` of parameter p in block number `block`, declared on first use over `rank` of p's
// dims: "optimizer.w.m", or "optimizer.w.m_1" for a later block that trains w too.
DeclId step_slot(Step *s, uint32_t block, DeclId p, const char *which, Dtype type, int rank,
                 const DimId *dims);
DeclId step_state(Step *s, const char *name, Dtype type, double start);

// optim.c: update number `round` of the block in this step, of its parameters by their gradients of
// the loss (times step->scale if the loss is scaled).
void optimizer_build(Step *s, uint32_t block, int64_t round, uint32_t n, const DeclId *params,
                     const NodeId *gradients);
// optim_scale.c: the gradients without the scale; whether all are finite, as a bool node, and what
// becomes of the scale.
NodeId scale_build(Step *s, uint32_t n, NodeId *gradients);
// The state that counts the updates of a block which were not made, i32.
DeclId scale_skipped(Step *s, uint32_t block);
// 0, or NaN where one of the gradients is not finite: f32. `settled`: after the processors' partial
// sums have met, so that an overflow of their sum is seen.
NodeId gradients_finite(Graph *g, uint32_t n, const NodeId *gradients, bool settled);

static inline int64_t updates_a_step(const TrainSpec *t) { return t->repeat > 1 ? t->repeat : 1; }

// optim_parts.c, optim_adafactor.c, optim.c: one parameter's update in the making.
typedef struct Optim {
  Step *step;
  Graph *g;
  const TrainSpec *train;
  const OptimizerSpec *spec;
  uint32_t block;
  int64_t round; // which of the block's updates in this step
  DeclId param;
  Dtype type; // that the update is computed in
  NodeId w, grad, lr;
  NodeId keep;    // bool: whether the update is made; 0: always
  NodeId skipped; // i32: updates of the block that were not made before; 0: all were
} Optim;
typedef NodeId UpdateRule(const Optim *o); // the next value of the parameter
UpdateRule update_adafactor;
// A slot over some of the parameter's dims, and its next value.
DeclId optim_slot(const Optim *o, const char *which, int rank, const DimId *dims);
void optim_put(const Optim *o, DeclId target, NodeId value);

static inline NodeId optim_num(const Optim *o, double x) { return graph_const(o->g, o->type, x); }
static inline NodeId optim_two(const Optim *o, Op op, NodeId x, NodeId y) {
  return graph_binary(o->g, op, x, y);
}
NodeId optim_steps(const Optim *o);   // the step counter, less the steps whose updates were skipped
NodeId optim_updates(const Optim *o); // updates that the block has made before this one

#endif
