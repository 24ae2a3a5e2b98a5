// Private: a training step under construction (select_train.c, optim*.c). A *round* is one
// repetition of a train block (its key `repeat`).
//
// Train blocks run one after another. At each point of the step a parameter has a value: the one
// that the step began with, or the result of the last update. All updates take effect together when
// the step commits.
#ifndef FRONTEND_STEP_H
#define FRONTEND_STEP_H

#include "frontend/step/select_internal.h"

// One micro-batch. Without `accumulate` there is one, the whole batch.
typedef struct StepPart {
  const RegionId *region; // select_regions
  // indexed by DeclId - 1: the node that replaces an input or state; 0: it is not replaced
  NodeId *instead;
  // indexed by model node: its copy among the nodes that compute the requested values, in which
  // parameters have their values from the start of the step
  const NodeId *map;
} StepPart;

typedef struct Step {
  const Model *m;
  Graph *g;
  Wants wants;
  Nodes roots; // model nodes of the requested values and of the updates of states
  int64_t nparts;
  StepPart *part;
  // over: the dim of the rows of a micro-batch; micro: the dim that numbers micro-batches; 0
  // without `accumulate`
  DimId over, micro;
  // with `sync`, the dim of the replicas, else 0; own, by DeclId - 1: the slot with the parameters
  // of the replicas, 0: all replicas have the same. NULL without `sync`
  DimId replica;
  DeclId *own;
  // asynchronous updates: the step outputs gradients and makes no update; or it makes the updates,
  // and gradients of `pushes` replicas are one step of the training. 0: updates are synchronous
  bool push;
  int64_t pushes;
  // now, block, kept and fresh are indexed by DeclId - 1
  VEC(NodeId) now;     // the value after the last update; 0: not updated yet
  VEC(uint32_t) block; // for a slot: 1 + index of the train block that it serves; else 0
  VEC(NodeId) kept;    // bool node, true if this step makes an update; 0: every step does
  VEC(NodeId) fresh;   // bool node, true if no earlier step made an update; 0: true in step 0 only
  VEC(DeclId) order;   // updated declarations, in order of their first update
  NodeId scale;        // f32 node by which the loss is multiplied; 0: the loss is not scaled
  TrainAsk ask;
  // indexed by train block, only with ask.log: nodes of the learning rate and of the norm of all
  // gradients, from the last round of the block
  NodeId *rate, *norm;
  // with ask.finite, an f32 node: its value is 0, or NaN if a gradient is not finite. Otherwise 0
  NodeId finite;
} Step;

// -- step.c
// Extends the tables indexed by DeclId - 1 to declarations that were added to the graph.
void step_grow(Step *s);
// Returns the value of d at this point of the step, in the type of d.
NodeId step_value(Step *s, DeclId d);
// Makes `value` the value of d from this point on, cast to the type of d.
void step_assign(Step *s, DeclId d, NodeId value);
// Returns the slot `which` of parameter p in train block `block`. The first call declares it, over
// the `rank` dims in `dims`. Its name is "optimizer.w.m", or "optimizer.w.m_1" for a later block
// that trains w too.
DeclId step_slot(Step *s, uint32_t block, DeclId p, const char *which, Dtype type, int rank,
                 const DimId *dims);
// Returns the scalar state `name`; the first call declares it with the initial value `start`.
DeclId step_state(Step *s, const char *name, Dtype type, double start);
// Adds the values after the last updates to the outputs of the graph.
void step_put_updates(Step *s);

// -- replicas.c
// Declares the parameters of the replicas. Returns false after an error.
MUST_USE bool replicas_open(Step *s);
// Adds an output for each parameter of the model that the replicas have, which leaves it as it is.
void replicas_keep(const Step *s);
// Makes instead[DeclId - 1] the parameters of the replicas.
void replicas_enter(const Step *s, NodeId *instead);
// Returns x with the replicas combined by the reduction op, or x if they all have the same.
NodeId replicas_joined(const Step *s, Op op, NodeId x);
// Replaces the updates of states that differ between replicas by their means. Returns false after
// an error.
MUST_USE bool replicas_join_states(Step *s);

// -- optim.c
// Builds the update of train block `block` in its round `round`: the next values of the n
// parameters from the gradients of the loss by them. If the loss is scaled, the gradients are those
// of the loss times step->scale.
void optimizer_build(Step *s, uint32_t block, int64_t round, uint32_t n, const DeclId *params,
                     const NodeId *gradients);
// Outputs the n gradients of the only train block, clipped, for servers that make the updates.
void optimizer_push(Step *s, uint32_t n, const DeclId *params, const NodeId *gradients);
// -- server.c
// Outputs x, in type `type`, under the name by which a server gets it for declaration d.
void server_push(Step *s, DeclId d, Dtype type, NodeId x);
// Outputs how the step changes the states of the model. Returns false after an error.
MUST_USE bool server_push_states(Step *s, const NodeId *map);
// -- optim_scale.c
// Replaces the n gradients by the gradients divided by the scale, and builds the next value of the
// scale. Returns a bool node that is true if all gradients are finite.
NodeId scale_build(Step *s, uint32_t n, NodeId *gradients);
// Returns the i32 state that counts the skipped updates of a block.
DeclId scale_skipped(Step *s, uint32_t block);
// Returns an f32 scalar node: 0 if all gradients are finite, else NaN. With `settled` it reads the
// gradients after partial sums are added over the processors, so that it also finds an overflow of
// that sum.
NodeId gradients_finite(Graph *g, uint32_t n, const NodeId *gradients, bool settled);

static inline int64_t updates_a_step(const TrainSpec *t) { return t->repeat > 1 ? t->repeat : 1; }

// optim_parts.c, optim_*.c, optim.c: the update of one parameter, under construction.
typedef struct Optim {
  Step *step;
  Graph *g;
  const TrainSpec *train;
  const OptimizerSpec *spec;
  uint32_t block;
  int64_t round; // number of the round of the block, from 0; below the block's `repeat`
  DeclId param;
  DeclId target; // what is updated: param, or the slot with the parameters of the replicas
  Dtype type;    // type in which the update is computed: f32 or f64
  NodeId w, grad, lr;
  NodeId keep;    // bool node, true if the update is made; 0: every update is made
  NodeId skipped; // i32 node, the number of earlier updates of the block that were skipped; 0: no
                  // update is ever skipped
} Optim;
typedef NodeId UpdateRule(const Optim *o); // returns the next value of o->param
UpdateRule update_adafactor, update_muon;
UpdateRule update_adam, update_adamw, update_nadam, update_radam, update_lamb; // optim_adam.c
// Returns the slot `which` of o->param, over the `rank` dims in `dims`, in type o->type.
DeclId optim_slot(const Optim *o, const char *which, int rank, const DimId *dims);
// Makes `value` the next value of `target`. If o->keep is false at run time, `target` keeps its
// value.
void optim_put(const Optim *o, DeclId target, NodeId value);

static inline NodeId optim_num(const Optim *o, double x) { return graph_const(o->g, o->type, x); }
static inline NodeId optim_two(const Optim *o, Op op, NodeId x, NodeId y) {
  return graph_binary(o->g, op, x, y);
}
static inline NodeId add(const Optim *o, NodeId x, NodeId y) { return optim_two(o, OP_ADD, x, y); }
static inline NodeId sub(const Optim *o, NodeId x, NodeId y) { return optim_two(o, OP_SUB, x, y); }
static inline NodeId mul(const Optim *o, NodeId x, NodeId y) { return optim_two(o, OP_MUL, x, y); }
static inline NodeId quot(const Optim *o, NodeId x, NodeId y) { return optim_two(o, OP_DIV, x, y); }
// Returns a node for x op y, or y if x is 0. A loop that adds terms starts with x = 0.
static inline NodeId joined(Graph *g, Op op, NodeId x, NodeId y) {
  return x ? graph_binary(g, op, x, y) : y;
}
static inline NodeId optim_root(const Optim *o, NodeId x) { return graph_unary(o->g, OP_SQRT, x); }
// Returns the slot `which` over the dims of o->target.
DeclId optim_own_slot(const Optim *o, const char *which);
// Sets the slot `which` to decay * slot + gain * x, and returns that value.
NodeId optim_average(const Optim *o, const char *which, double decay, double gain, NodeId x);
// Returns 1 - beta^t, where t is the number of this update, from 1.
NodeId optim_correction(const Optim *o, double beta);
// Returns whether o->param has weight decay.
bool optim_decays(const Optim *o);
// Returns w (1 - lr * weight_decay), or w if this parameter has no weight decay.
NodeId optim_shrunk(const Optim *o);
// Returns the gradient plus weight_decay * w, or the gradient if there is no weight decay.
NodeId optim_decayed(const Optim *o);
// Returns the dims of x over which the norm of a parameter is: all but that of the replicas.
Dims optim_dims(const Step *s, NodeId x);
// Returns the square root of the sum of x^2 over the dims `over`.
NodeId optim_norm(const Optim *o, NodeId x, const Dims *over);
// optim_rate.c: returns the learning rate of this step: the rate of o->spec, with its decay, times
// the factor of the schedule.
NodeId optim_rate(const Optim *o);
// optim_rate.c: builds the next values of the states of `plateau`, if the block has this schedule.
void plateau_build(Step *s, uint32_t block);
// Returns a node with the number of steps before this one whose updates were not skipped.
NodeId optim_steps(const Optim *o);
// Returns a node with the number of updates that the block made before this one.
NodeId optim_updates(const Optim *o);

#endif
