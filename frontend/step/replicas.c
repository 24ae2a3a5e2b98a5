// Replicas of a training step: local SGD (Lin et al., "Don't use large mini-batches, use local
// SGD", 2018). With `sync = every(k, replicas = n)` each of n replicas has parameters of its own,
// trains on its part of the batch, and every k steps the replicas take the mean of their
// parameters.
//
// The dim of the replicas, which has the name of the batch dim, is a dim like any other. The model
// of one replica is copied with inputs over [b, b.local] and parameters over [b, ...]; every value
// that depends on them gets the dim b. The loss of a step is the sum of the losses of the replicas,
// so a gradient is that of its replica. With a layout rule b -> rows no gradient crosses rows.
//
//   param w[d]             the mean of the replicas; a training step neither reads nor writes it
//   slot replica.w[b, d]   the parameters of the replicas, which a step trains
//
// The graph of select_sync connects the two. It runs between steps.
#include <string.h>

#include "frontend/step/step_internal.h"

static const char prefix[] = "replica.";

bool replica_slot(const char *name) { return !strncmp(name, prefix, strlen(prefix)); }

// Declares the slot replica.NAME of parameter p.
static bool declare(Step *s, DeclId p) {
  Graph *g = s->g;
  Decl d = g->decl.at[p - 1];
  Decl slot = {.kind = DECL_SLOT, .type = d.type, .rank = d.rank, .of = p, .pos = d.pos};
  if (d.rank == MAX_RANK)
    return diag_error(s->m->diag, DIAG_UNSUPPORTED, d.pos,
                      "sync gives '%s' a dim of replicas, and it has %d dims already", d.name,
                      MAX_RANK);
  slot.name = arena_printf(g->arena, "%s%s", prefix, d.name);
  slot.dims[slot.rank++ - d.rank] = s->replica;
  memcpy(slot.dims + 1, d.dims, sizeof *d.dims * d.rank);
  s->own[p - 1] = graph_decl(g, &slot);
  return true;
}

bool replicas_open(Step *s) {
  Graph *g = s->g;
  uint32_t n = g->decl.n;
  bool good = true;
  s->own = arena_array(s->m->arena, DeclId, n + 1);
  for (DeclId p = 1; p <= n; p++)
    if (train_trains(s->m->arena, g->spec.train, &g->decl.at[p - 1])) good &= declare(s, p);
  return good;
}

static void put_update(Graph *g, DeclId d, NodeId value) {
  vec_push(g->arena, g->output) =
      (Output){.kind = OUT_UPDATE, .name = g->decl.at[d - 1].name, .target = d, .value = value};
}

// Without an update of its own, the parameter would not be a tensor of the program with the
// sharding that its rules ask for, and the programs of evaluations could not share it.
void replicas_keep(const Step *s) {
  Graph *g = s->g;
  for (DeclId p = 1; s->own && p <= s->m->graph->decl.n; p++)
    if (s->own[p - 1]) put_update(g, p, graph_decl_node(g, p));
}

void replicas_enter(const Step *s, NodeId *instead) {
  for (DeclId p = 1; s->own && p <= s->m->graph->decl.n; p++)
    if (s->own[p - 1]) instead[p - 1] = graph_decl_node(s->g, s->own[p - 1]);
}

NodeId replicas_joined(const Step *s, Op op, NodeId x) {
  Graph *g = s->g;
  const Node *n = graph_node(g, x);
  if (!s->replica || !dims_has(n->dims, s->replica)) return x;
  Dims over = {.n = 1, .at = {s->replica}};
  if (!dtype_is_float((Dtype)n->type)) x = graph_cast(g, x, TYPE_F32);
  return graph_reduce(g, op, x, &over);
}

// All processors keep one value of a state: the mean of what the replicas make it.
bool replicas_join_states(Step *s) {
  bool good = true;
  for (uint32_t i = 0; s->replica && i < s->g->output.n; i++) {
    Output *o = &s->g->output.at[i];
    const Node *n = graph_node(s->g, o->value);
    const Decl *d = &s->g->decl.at[o->target - 1];
    if (o->kind != OUT_UPDATE || !dims_has(n->dims, s->replica)) continue;
    if (dtype_is_float((Dtype)n->type)) {
      o->value = replicas_joined(s, OP_MEAN, o->value);
      continue;
    }
    good = diag_error(s->m->diag, DIAG_UNSUPPORTED, d->pos,
                      "sync takes the mean of the replicas' states, and '%s' is %s", d->name,
                      dtype_text((Dtype)n->type));
  }
  return good;
}

// -- the graph between steps --------------------------------------------------------------------

// The graph that joins the replicas. Its step number is a SyncWay.
typedef struct Sync {
  Graph *g;
  Dims replica;            // the dim of the replicas
  NodeId spread, averaged; // bool: the step number is SYNC_SPREAD, SYNC_AVERAGE
} Sync;

static NodeId way_is(Graph *g, SyncWay way) {
  NodeId step = graph_add(g, OP_STEP, 0, NULL, NULL);
  return graph_binary(g, OP_EQ, step, graph_const(g, TYPE_I32, way));
}

// Returns x with the dim of the replicas, equal for all of them.
static NodeId spread_over(const Sync *s, NodeId x) {
  Dims all = *graph_node(s->g, x)->dims;
  if (!dims_add(s->g->dims, &all, s->replica.at[0])) BUG("a slot of too many dims");
  return graph_broadcast(s->g, x, &all);
}

static void join_parameter(const Sync *s, DeclId slot) {
  Graph *g = s->g;
  DeclId p = g->decl.at[slot - 1].of;
  NodeId own = graph_decl_node(g, slot), w = graph_decl_node(g, p);
  NodeId mean = graph_where(g, s->spread, w, graph_reduce(g, OP_MEAN, own, &s->replica));
  NodeId either = graph_binary(g, OP_OR, s->spread, s->averaged);
  put_update(g, p, mean);
  put_update(g, slot, graph_where(g, either, spread_over(s, mean), own));
}

static void join_slot(const Sync *s, DeclId slot) {
  Graph *g = s->g;
  NodeId own = graph_decl_node(g, slot);
  NodeId mean = spread_over(s, graph_reduce(g, OP_MEAN, own, &s->replica));
  put_update(g, slot, graph_where(g, s->averaged, mean, own));
}

Graph *select_sync(Arena *a, const Graph *train) {
  const TrainSpec *t = train->spec.train;
  if (!train->spec.ntrain || !t->sync) return NULL;
  Graph *g = graph_like(a, train, STAGE_GRAD);
  Sync s = {.g = g, .replica = {.n = 1, .at = {g->spec.data[DATA_TRAIN].micro}}};
  s.spread = way_is(g, SYNC_SPREAD);
  s.averaged = way_is(g, SYNC_AVERAGE);
  for (DeclId d = 1; d <= g->decl.n; d++) {
    const Decl *decl = &g->decl.at[d - 1];
    bool has = decl->kind == DECL_SLOT && decl->rank && decl->dims[0] == s.replica.at[0];
    g->origin = (Origin){.pos = t->pos, .value = decl->name, .why = "sync", .backward = true};
    if (has && replica_slot(decl->name))
      join_parameter(&s, d);
    else if (has && t->sync_slots)
      join_slot(&s, d);
  }
  return g;
}
