// Builds the learning rate of a step: the rate of the optimizer times the factor of the schedule
// (docs/language/training.md has the formulas). All of it is scalar nodes, computed once a step.
//
// The factor of `plateau` is a state, because it depends on the evaluations so far. The training
// loop writes the value of an evaluation to a state too, and the next step takes it up:
//
//   evaluation           value = 0.31, fresh = 1
//   the next step        if fresh: compare value with best, lower factor if need be; fresh = 0
//
// So checkpoints hold all that `plateau` knows, and all processors decide alike.
#include <float.h>
#include <math.h>

#include "frontend/step/step_internal.h"

static const double pi = 3.14159265358979323846;

// -- schedules ----------------------------------------------------------------------------------

// Returns how far the steps are from `begin` on: from 0 there to 1 after `length` more, and 0 or 1
// outside.
static NodeId progress(const Optim *o, double begin, double length) {
  NodeId u = quot(o, sub(o, optim_steps(o), optim_num(o, begin)), optim_num(o, length));
  NodeId clipped[] = {u, optim_num(o, 0), optim_num(o, 1)};
  return graph_add(o->g, OP_CLIP, 3, clipped, NULL);
}

static NodeId ramp(const Optim *o, const ScheduleSpec *s) {
  return progress(o, s->warmup, s->total - s->warmup);
}

// Returns a line from `from` at u = 0 to `to` at u = 1.
static NodeId line(const Optim *o, double from, double to, NodeId u) {
  return sub(o, optim_num(o, from), mul(o, optim_num(o, from - to), u));
}

// Returns half a cosine from `from` at u = 0 to `to` at u = 1.
static NodeId half_wave(const Optim *o, double from, double to, NodeId u) {
  NodeId wave = graph_unary(o->g, OP_COS, mul(o, u, optim_num(o, pi)));
  return add(o, optim_num(o, to),
             mul(o, optim_num(o, 0.5 * (from - to)), add(o, wave, optim_num(o, 1))));
}

static NodeId pieces(const Optim *o, const ScheduleSpec *s) {
  NodeId y = optim_num(o, s->value[s->npieces - 1]);
  for (int64_t i = s->npieces - 2; i >= 0; i--)
    y = graph_where(o->g, graph_binary(o->g, OP_LT, optim_steps(o), optim_num(o, s->at[i])),
                    optim_num(o, s->value[i]), y);
  return y;
}

// One cycle (Smith and Topin, "Super-convergence", 2017), with the phases of PyTorch's OneCycleLR.
static NodeId one_cycle(const Optim *o, const ScheduleSpec *s) {
  double top = s->rise * s->total - 1; // the step with the factor 1
  if (top <= 0) return half_wave(o, 1, s->final, progress(o, 0, s->total - 1));
  NodeId up = half_wave(o, s->start, 1, progress(o, 0, top));
  NodeId down = half_wave(o, 1, s->final, progress(o, top, s->total - 1 - top));
  return graph_where(o->g, graph_binary(o->g, OP_LT, optim_steps(o), optim_num(o, top)), up, down);
}

// Cosine with restarts (Loshchilov and Hutter, "SGDR", 2016): cycle k has every * grow^k steps. In
// f64, so that the number of the cycle is right in its first step: the logarithm of a power may be
// too small by its rounding error, so 1e-9 is added to it.
static NodeId restarts(const Optim *narrow, const ScheduleSpec *s) {
  Optim wide = *narrow;
  const Optim *o = &wide;
  wide.type = TYPE_F64;
  NodeId one = optim_num(o, 1), zero = optim_num(o, 0);
  NodeId t = optim_two(o, OP_MAXIMUM, sub(o, optim_steps(o), optim_num(o, s->warmup)), zero);
  NodeId done = quot(o, t, optim_num(o, s->every)), length = one, begin = zero;
  if (s->grow == 1) {
    begin = graph_unary(o->g, OP_FLOOR, done);
  } else {
    NodeId power = add(o, mul(o, done, optim_num(o, s->grow - 1)), one);
    NodeId cycles = quot(o, graph_unary(o->g, OP_LOG, power), optim_num(o, log(s->grow)));
    cycles = graph_unary(o->g, OP_FLOOR, add(o, cycles, optim_num(o, 1e-9)));
    length = graph_unary(o->g, OP_EXP, mul(o, cycles, optim_num(o, log(s->grow))));
    begin = quot(o, sub(o, length, one), optim_num(o, s->grow - 1));
  }
  NodeId u = optim_two(o, OP_MAXIMUM, quot(o, sub(o, done, begin), length), zero);
  return graph_cast(o->g, half_wave(o, 1, s->final, u), narrow->type);
}

// Warmup, stable, decay (Hu et al., "MiniCPM", 2024), with a decay along a line.
static NodeId stable_decay(const Optim *o, const ScheduleSpec *s) {
  return line(o, 1, s->final, progress(o, s->total - s->decay, s->decay));
}

// -- plateau ------------------------------------------------------------------------------------

const char plateau_value[] = "value", plateau_fresh[] = "fresh";

const char *plateau_name(Arena *a, uint32_t block, const char *which) {
  const char *number = block ? arena_printf(a, "_%u", block) : "";
  return arena_printf(a, "optimizer.plateau.%s%s", which, number);
}

static NodeId plateau_state(Step *s, uint32_t block, const char *which, double start, DeclId *out) {
  DeclId d = step_state(s, plateau_name(s->g->arena, block, which), TYPE_F32, start);
  if (out) *out = d;
  return step_value(s, d);
}

void plateau_build(Step *s, uint32_t block) {
  Graph *g = s->g;
  const ScheduleSpec *p = &g->spec.train[block].schedule;
  if (p->kind != SCHEDULE_PLATEAU) return;
  bool most = p->best == BEST_MAX;
  DeclId fresh_state, best_state, bad_state, factor_state;
  NodeId value = plateau_state(s, block, plateau_value, 0, NULL);
  NodeId fresh = plateau_state(s, block, plateau_fresh, 0, &fresh_state);
  NodeId best =
      plateau_state(s, block, "best", most ? -(double)FLT_MAX : (double)FLT_MAX, &best_state);
  NodeId bad = plateau_state(s, block, "bad", 0, &bad_state);
  NodeId factor = plateau_state(s, block, "factor", 1, &factor_state);
  const Optim o = {.step = s, .g = g, .type = TYPE_F32};
  NodeId zero = optim_num(&o, 0), due = graph_binary(g, OP_LT, zero, fresh);
  NodeId limit = mul(&o, best, optim_num(&o, most ? 1 + p->threshold : 1 - p->threshold));
  NodeId better = most ? optim_two(&o, OP_LT, limit, value) : optim_two(&o, OP_LT, value, limit);
  NodeId count = graph_where(g, better, zero, add(&o, bad, optim_num(&o, 1)));
  NodeId lower = optim_two(&o, OP_LT, optim_num(&o, p->patience), count);
  NodeId lowered = optim_two(&o, OP_MAXIMUM, mul(&o, factor, optim_num(&o, p->factor)),
                             optim_two(&o, OP_MINIMUM, factor, optim_num(&o, p->final)));
  step_assign(s, best_state, graph_where(g, due, graph_where(g, better, value, best), best));
  step_assign(s, bad_state, graph_where(g, due, graph_where(g, lower, zero, count), bad));
  step_assign(s, factor_state, graph_where(g, due, graph_where(g, lower, lowered, factor), factor));
  step_assign(s, fresh_state, zero);
}

// -- the rate -----------------------------------------------------------------------------------

// Returns the factor by which the schedule multiplies the learning rate after the warmup.
static NodeId after_warmup(const Optim *o, const ScheduleSpec *s) {
  switch (s->kind) {
  case SCHEDULE_CONSTANT: break;
  case SCHEDULE_LINEAR: return line(o, 1, s->final, ramp(o, s));
  case SCHEDULE_COSINE: return half_wave(o, 1, s->final, ramp(o, s));
  case SCHEDULE_INVERSE_SQRT:
    return optim_root(o, quot(o, optim_num(o, s->scale),
                              optim_two(o, OP_MAXIMUM, optim_steps(o), optim_num(o, s->scale))));
  case SCHEDULE_EXPONENTIAL:
    return optim_two(o, OP_POW, optim_num(o, s->rate),
                     quot(o, optim_steps(o), optim_num(o, s->every)));
  case SCHEDULE_STEP:
    return optim_two(o, OP_POW, optim_num(o, s->factor),
                     graph_unary(o->g, OP_FLOOR, quot(o, optim_steps(o), optim_num(o, s->every))));
  case SCHEDULE_PIECEWISE: return pieces(o, s);
  case SCHEDULE_ONE_CYCLE: return one_cycle(o, s);
  case SCHEDULE_RESTARTS: return restarts(o, s);
  case SCHEDULE_STABLE_DECAY: return stable_decay(o, s);
  case SCHEDULE_PLATEAU:
    return graph_cast(o->g, plateau_state(o->step, o->block, "factor", 1, NULL), o->type);
  }
  return optim_num(o, 1);
}

NodeId optim_rate(const Optim *o) {
  const ScheduleSpec *s = &o->train->schedule;
  NodeId lr = optim_num(o, o->spec->lr);
  if (o->spec->decay != 0)
    lr = quot(o, lr, add(o, optim_num(o, 1), mul(o, optim_steps(o), optim_num(o, o->spec->decay))));
  if (s->kind == SCHEDULE_CONSTANT && s->warmup == 0) return lr;
  NodeId factor = after_warmup(o, s);
  if (s->warmup > 0) {
    NodeId rising = quot(o, add(o, optim_steps(o), optim_num(o, 1)), optim_num(o, s->warmup));
    factor = graph_where(o->g, graph_binary(o->g, OP_LT, optim_steps(o), optim_num(o, s->warmup)),
                         rising, factor);
  }
  return mul(o, lr, factor);
}
