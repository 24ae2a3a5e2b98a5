// The two halves of a training step with asynchronous updates. A replica computes gradients and
// pushes them; servers, each with a shard of the parameters, make the updates, in the order in
// which gradients arrive.
//
//   replica   loss, w, s         -> train.push.w = gradient of w, train.change.s   (select_train.c)
//   server    train.push.w, w, m -> w', m'                                         (select_server)
//
// The tensors of a server have the names of a training without servers, so checkpoints and
// evaluations are those of any training. A state of the model is a mean over replicas: each pushes
// how its step changed the state, and a server adds that change divided by the number of replicas.
#include <string.h>

#include "frontend/step/step_internal.h"

const char select_pushed[] = "train.push", select_changed[] = "train.change";

// Gradients and changes have different names, because a layout splits gradients as parameters.
static const char *push_name(const Graph *g, DeclId d) {
  const Decl *decl = &g->decl.at[d - 1];
  return arena_printf(g->arena, "%s.%s", decl->kind == DECL_PARAM ? select_pushed : select_changed,
                      decl->name);
}

static Dtype push_type(Dtype type) { return type == TYPE_F64 ? TYPE_F64 : TYPE_F32; }

// -- the step of a replica ----------------------------------------------------------------------

void server_push(Step *s, DeclId d, Dtype type, NodeId x) {
  Graph *g = s->g;
  const Decl *decl = &g->decl.at[d - 1];
  Name order = {.stated = true, .rank = decl->rank};
  Dims all = {0};
  memcpy(order.dims, decl->dims, sizeof order.dims);
  for (int i = 0; i < decl->rank; i++)
    if (!dims_add(g->dims, &all, decl->dims[i])) BUG("a declaration of too many dims");
  NodeId value = graph_broadcast(g, graph_cast(g, x, type), &all);
  Output *o = select_output(g, push_name(g, d), value, &order);
  if (decl->kind == DECL_PARAM) o->gradient_of = decl->name;
}

bool server_push_states(Step *s, const NodeId *map) {
  const Graph *from = s->m->graph;
  bool good = true;
  for (uint32_t i = 0; i < from->output.n; i++) {
    const Output *o = &from->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    const Decl *decl = &s->g->decl.at[o->target - 1];
    Dtype type = push_type(decl->type);
    s->g->origin = *graph_node(s->g, map[o->value])->origin;
    if (dtype_is_float(decl->type)) {
      NodeId after = graph_cast(s->g, map[o->value], type),
             before = graph_cast(s->g, graph_decl_node(s->g, o->target), type);
      server_push(s, o->target, type, graph_binary(s->g, OP_SUB, after, before));
      continue;
    }
    good = diag_error(s->m->diag, DIAG_UNSUPPORTED, decl->pos,
                      "sync = stale(...) adds up changes of the replicas' states, and '%s' is %s",
                      decl->name, dtype_text(decl->type));
  }
  return good;
}

// -- the update of a server ---------------------------------------------------------------------

// Declares the input of the server for declaration d of the model. Returns its node.
static NodeId pushed(Step *s, DeclId d) {
  Decl decl = s->g->decl.at[d - 1];
  Decl in = {.kind = DECL_INPUT,
             .name = push_name(s->g, d),
             .type = push_type(decl.type),
             .rank = decl.rank,
             .pos = decl.pos};
  memcpy(in.dims, decl.dims, sizeof in.dims);
  return graph_decl_node(s->g, graph_decl(s->g, &in));
}

static void update_states(Step *s) {
  const Graph *from = s->m->graph;
  Graph *g = s->g;
  for (uint32_t i = 0; i < from->output.n; i++) {
    const Output *o = &from->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    g->origin = (Origin){.pos = from->decl.at[o->target - 1].pos,
                         .value = from->decl.at[o->target - 1].name,
                         .why = "server"};
    NodeId change = pushed(s, o->target);
    Dtype type = (Dtype)graph_node(g, change)->type;
    NodeId share = graph_binary(g, OP_MUL, change, graph_const(g, type, 1 / (double)s->pushes));
    NodeId before = graph_cast(g, step_value(s, o->target), type);
    step_assign(s, o->target, graph_binary(g, OP_ADD, before, share));
  }
}

// Adds an output for each parameter and state that no update changes, which leaves it as it is.
// Without it, it would not be a tensor of the program with the sharding that its rules ask for, and
// the programs of evaluations could not share it.
static void keep_others(Step *s) {
  for (DeclId d = 1; d <= s->m->graph->decl.n; d++) {
    DeclKind kind = s->g->decl.at[d - 1].kind;
    NodeId now = step_value(s, d);
    if ((kind == DECL_PARAM || kind == DECL_STATE) && now == graph_decl_node(s->g, d))
      step_assign(s, d, now);
  }
}

Graph *select_server(Arena *a, const Model *m) {
  const TrainSpec *train = m->graph->spec.train;
  Step s = {.m = m, .g = graph_like(m->arena, m->graph, STAGE_GRAD), .pushes = train->replicas};
  uint32_t n = 0;
  // The replicas have clipped the gradients.
  TrainSpec *own = arena_new_of(m->arena, TrainSpec);
  *own = *train;
  own->ahead = 0;
  own->clip_norm = own->clip_value = 0;
  s.g->spec.train = own;
  DeclId *param = arena_array(m->arena, DeclId, m->graph->decl.n + 1);
  NodeId *gradient = arena_array(m->arena, NodeId, m->graph->decl.n + 1);
  for (DeclId d = 1; d <= m->graph->decl.n; d++) {
    if (!train_trains(m->arena, train, &m->graph->decl.at[d - 1])) continue;
    s.g->origin =
        (Origin){.pos = train->pos, .value = m->graph->decl.at[d - 1].name, .why = "server"};
    param[n] = d;
    gradient[n++] = pushed(&s, d);
  }
  optimizer_build(&s, 0, 0, n, param, gradient);
  update_states(&s);
  keep_others(&s);
  step_put_updates(&s);
  return graph_prune_in_place(a, s.g, STAGE_GRAD);
}
