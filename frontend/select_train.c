// Selection of a training step: the model in training mode, then for each train block, as often as
// it repeats, its loss on the parameters as they are by then, gradients, the optimiser's update.
//
//   train d_loss { parameters = "disc.*" }      d_loss(disc, gen) -> disc'
//   train g_loss { parameters = "gen.*" }       g_loss(disc', gen) -> gen'
//
// The first block finds the parameters that the step began with, so that its forward pass is that
// of the values handed out; equal parts of later passes merge with it. What earlier updates made of
// a parameter is no function of the later ones: it enters through stop_gradient.
#include <string.h>

#include "frontend/step.h"

const char select_watched[] = "train.losses";

// -- values in the course of the step -------------------------------------------------------------

static void step_grow(Step *s) {
  while (s->now.n < s->g->decl.n) vec_push(s->m->arena, s->now) = 0;
  while (s->block.n < s->g->decl.n) vec_push(s->m->arena, s->block) = 0;
}

NodeId step_value(Step *s, DeclId d) {
  step_grow(s);
  return s->now.at[d - 1] ? s->now.at[d - 1] : graph_decl_node(s->g, d);
}

void step_assign(Step *s, DeclId d, NodeId value) {
  step_grow(s);
  if (!s->now.at[d - 1]) vec_push(s->m->arena, s->order) = d;
  s->now.at[d - 1] = graph_cast(s->g, value, s->g->decl.at[d - 1].type);
}

DeclId step_slot(Step *s, uint32_t block, DeclId p, const char *which, Dtype type, int rank,
                 const DimId *dims) {
  Graph *g = s->g;
  Decl d = {.kind = DECL_SLOT, .type = type, .rank = (uint8_t)rank, .of = p};
  d.pos = g->decl.at[p - 1].pos;
  memcpy(d.dims, dims, sizeof *dims * (size_t)rank);
  for (unsigned i = 0;; i++) {
    const char *number = i ? arena_printf(g->arena, "_%u", i) : "";
    d.name = arena_printf(g->arena, "optimizer.%s.%s%s", g->decl.at[p - 1].name, which, number);
    DeclId old = graph_find_decl(g, d.name);
    if (!old) break;
    step_grow(s);
    if (s->block.at[old - 1] == block + 1) return old;
  }
  DeclId id = graph_decl(g, &d);
  step_grow(s);
  s->block.at[id - 1] = block + 1;
  return id;
}

DeclId step_state(Step *s, const char *name, Dtype type, double start) {
  Decl d = {.kind = DECL_STATE, .name = name, .type = type, .init = {.a = start}};
  DeclId old = graph_find_decl(s->g, name);
  return old ? old : graph_decl(s->g, &d);
}

// -- one block ------------------------------------------------------------------------------------

typedef struct Round {
  Step *s;
  uint32_t block;
  int64_t number;
  uint32_t n;
  DeclId *param;    // that the block trains
  NodeId *instead;  // by DeclId - 1
} Round;

static void params_of(Round *r) {
  Step *s = r->s;
  const TrainSpec *t = &s->g->spec.train[r->block];
  uint32_t ndecls = s->m->graph->decl.n;
  step_grow(s);
  r->param = arena_array(s->m->arena, DeclId, ndecls + 1);
  r->instead = arena_array(s->m->arena, NodeId, ndecls + 1);
  for (DeclId d = 1; d <= ndecls; d++) {
    if (s->now.at[d - 1]) r->instead[d - 1] = graph_unary(s->g, OP_STOP, s->now.at[d - 1]);
    if (train_trains(s->m->arena, t, &s->g->decl.at[d - 1])) r->param[r->n++] = d;
  }
}

// The loss as it is differentiated, and the scale that it bears.
static NodeId scaled_loss(Step *s, NodeId loss) {
  if (!s->g->spec.train[0].scaled) return loss;
  s->scale = step_value(s, step_state(s, "optimizer.loss_scale", TYPE_F32, 0x1p16));
  Dtype type = (Dtype)graph_node(s->g, loss)->type;
  return graph_binary(s->g, OP_MUL, loss, graph_cast(s->g, s->scale, type));
}

// The loss of the round, on the parameters that it begins with.
static NodeId round_build(Round *r, uint32_t copies) {
  Step *s = r->s;
  Graph *g = s->g;
  NodeId root = graph_find_name(s->m->graph, g->spec.train[r->block].loss)->value;
  SelectCopy c = {.m = s->m, .g = g, .training = true, .number = copies,
                  .round = (uint64_t)r->number, .instead = r->instead};
  const NodeId *map = select_into(&c, 1, &root);
  NodeId *by = arena_array(s->m->arena, NodeId, r->n + 1),
         *gradient = arena_array(s->m->arena, NodeId, r->n + 1);
  for (uint32_t i = 0; i < r->n; i++) {
    NodeId now = r->instead[r->param[i] - 1];
    by[i] = now ? now : graph_decl_node(g, r->param[i]);
  }
  graph_gradients(g, scaled_loss(s, map[root]), (int)r->n, by, gradient);
  for (uint32_t i = 0; i < r->n; i++) select_name_gradient(s->m, g, r->param[i], gradient[i]);
  optimizer_build(s, r->block, r->number, r->n, r->param, gradient);
  return map[root];
}

// -- the average of the parameters ----------------------------------------------------------------

// average' = a average + (1 - a) w', in the first step w'.
static void average_one(Step *s, DeclId p, double decay) {
  Graph *g = s->g;
  NodeId w = step_value(s, p);
  Decl d = g->decl.at[p - 1];
  d.type = d.type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  Decl slot = {.kind = DECL_SLOT, .type = d.type, .rank = d.rank, .of = p, .pos = d.pos};
  slot.name = arena_printf(g->arena, "average.%s", d.name);
  memcpy(slot.dims, d.dims, sizeof slot.dims);
  DeclId id = graph_decl(g, &slot);
  NodeId old = step_value(s, id), fresh = graph_cast(g, w, d.type);
  NodeId share = graph_const(g, d.type, 1 - decay);
  NodeId moved = graph_binary(
      g, OP_ADD, old, graph_binary(g, OP_MUL, share, graph_binary(g, OP_SUB, fresh, old)));
  NodeId first = graph_binary(g, OP_EQ, graph_add(g, OP_STEP, 0, NULL, NULL),
                              graph_const(g, TYPE_I32, 0));
  step_assign(s, id, graph_where(g, first, fresh, moved));
}

static void averages_build(Step *s) {
  Graph *g = s->g;
  const TrainSpec *t = g->spec.train;
  if (t[0].average == 0) return;
  g->origin = (Origin){.pos = t[0].pos, .why = "average", .backward = true};
  for (DeclId d = 1; d <= s->m->graph->decl.n; d++) {
    bool trained = false;
    for (uint32_t i = 0; i < g->spec.ntrain; i++)
      trained |= train_trains(s->m->arena, &t[i], &g->decl.at[d - 1]);
    if (trained) average_one(s, d, t[0].average);
  }
}

// -- the step -------------------------------------------------------------------------------------

static bool trainable(const Model *m) {
  if (m->graph->spec.ntrain && m->loss_node) return true;
  diag_error(m->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
  return false;
}

// Updates of states see what the step began with.
static void put_state_updates(Step *s, const NodeId *map) {
  const Graph *from = s->m->graph;
  for (uint32_t i = 0; i < from->output.n; i++) {
    Output o = from->output.at[i];
    o.value = map[o.value];
    vec_push(s->g->arena, s->g->output) = o;
  }
}

static void put_updates(Step *s) {
  for (uint32_t i = 0; i < s->order.n; i++) {
    DeclId d = s->order.at[i];
    Output o = {.kind = OUT_UPDATE,
                .name = s->g->decl.at[d - 1].name,
                .target = d,
                .value = s->now.at[d - 1]};
    vec_push(s->g->arena, s->g->output) = o;
  }
}

// After the step a state is what its update made of it, and so is a parameter.
static NodeId after_step(const Step *s, NodeId n) {
  DeclId d = graph_node(s->g, n)->attr.decl;
  for (uint32_t i = 0; i < s->g->output.n && d; i++)
    if (s->g->output.at[i].kind == OUT_UPDATE && s->g->output.at[i].target == d)
      return s->g->output.at[i].value;
  return n;
}

// A loss is that of its block's last round, everything else as the step began.
static NodeId value_of(const Step *s, const Want *want, const NodeId *map, const NodeId *loss) {
  for (uint32_t i = 0; i < s->g->spec.ntrain; i++)
    if (!strcmp(s->g->spec.train[i].loss, want->as)) return loss[i];
  return after_step(s, map[want->name->value]);
}

// What must be finite for the step to commit where there are several losses: their sum.
static void put_watched(Step *s, NodeId sum, uint32_t rounds) {
  if (rounds > 1) select_output(s->g, select_watched, sum, NULL);
}

Graph *select_train(Arena *a, const Model *m, const Fetch *f) {
  Wants w;
  if (!trainable(m) || !wants_read(&w, m, f, false)) return NULL;
  Step s = {.m = m, .g = graph_like(m->arena, m->graph, STAGE_GRAD)};
  Graph *g = s.g;
  Nodes roots = {0};
  wants_roots(&w, &roots);
  for (uint32_t i = 0; i < m->graph->output.n; i++)
    vec_push(m->arena, roots) = m->graph->output.at[i].value;
  SelectCopy c = {.m = m, .g = g, .training = true};
  const NodeId *map = select_into(&c, roots.n, roots.at);
  put_state_updates(&s, map);
  uint32_t ntrain = g->spec.ntrain, rounds = 0;
  NodeId *loss = arena_array(m->arena, NodeId, ntrain + 1), sum = 0;
  for (uint32_t i = 0; i < ntrain; i++)
    for (int64_t k = 0; k < (g->spec.train[i].repeat ? g->spec.train[i].repeat : 1); k++) {
      Round r = {.s = &s, .block = i, .number = k};
      params_of(&r);
      loss[i] = round_build(&r, rounds++);
      NodeId as_f32 = graph_cast(g, loss[i], TYPE_F32);
      sum = sum ? graph_binary(g, OP_ADD, sum, as_f32) : as_f32;
    }
  averages_build(&s);
  put_updates(&s);
  const NodeId *gradient = wants_gradients(&w, g, map);
  for (uint32_t i = 0; i < w.list.n; i++) {
    const Want *want = &w.list.at[i];
    select_output(g, want->as, want->gradient ? *gradient++ : value_of(&s, want, map, loss),
                  want->name);
  }
  put_watched(&s, sum, rounds);
  return graph_reach(a, g, STAGE_GRAD, NULL);
}
