// Selection of a training step: builds the model in training mode, then every train block in turn,
// as often as its key `repeat` says. A block computes its loss with the current parameters, the
// gradients, and the optimizer's update. Input: a Model with train blocks, and a Fetch. Output: a
// graph with updates as outputs.
//
//   train d_loss { parameters = "disc.*" }      d_loss(disc, gen) -> disc'
//   train g_loss { parameters = "gen.*" }       g_loss(disc', gen) -> gen'
//
// The first block uses the parameters that the step began with, so it shares its forward pass with
// the requested values; equal parts of later passes merge with it. Gradients of a later block do
// not flow through earlier updates: updated parameters enter it through stop_gradient.
//
// `accumulate = n` splits inputs into n micro-batches. They follow one another in the graph, each
// with its own forward and backward pass. Their gradients are added while they are still partial
// sums on the mesh, so that one all_reduce serves all micro-batches.
#include <string.h>

#include "frontend/step/step_internal.h"

// More nodes than this for each node of the model are rare in a training step: its forward pass,
// gradients and updates.
enum { STEP_NODES = 10 };

const char select_watched[] = "train.losses", select_skipped[] = "train.skipped",
           select_rate[] = "train.lr", select_norm[] = "train.grad_norm";

static bool is_reserved(const char *output, const char *name) {
  size_t n = strlen(name);
  return strncmp(output, name, n) == 0 && (output[n] == '\0' || output[n] == '.');
}

bool select_reserved(const char *output) {
  return is_reserved(output, select_watched) || is_reserved(output, select_skipped) ||
         is_reserved(output, select_rate) || is_reserved(output, select_norm) ||
         is_reserved(output, select_pushed) || is_reserved(output, select_changed);
}

// -- micro-batches ------------------------------------------------------------------------------

// Inserts the dim `parts`, of micro-batches or replicas, before the dim of rows of each input.
// s->over is the dim of the rows of one part: row i of the whole batch is row i % size(over) of
// part i / size(over).
static bool split_inputs(Step *s, DimId parts) {
  Graph *g = s->g;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    Decl *d = &g->decl.at[i];
    int at = 0;
    while (at < d->rank && d->dims[at] != s->over) at++;
    if (d->kind != DECL_INPUT || at == d->rank) continue;
    if (d->rank == MAX_RANK)
      return diag_error(s->m->diag, DIAG_UNSUPPORTED, d->pos,
                        "%s splits the input '%s', which has %d dims already",
                        s->replica ? "sync" : "accumulate", d->name, MAX_RANK);
    memmove(&d->dims[at + 1], &d->dims[at], sizeof *d->dims * (size_t)(d->rank - at));
    d->dims[at] = parts;
    d->rank++;
  }
  return true;
}

// Prepares the micro-batches and replicas. Splits the inputs if the train block has `accumulate` or
// `sync`. Returns false after an error.
static bool parts_open(Step *s) {
  Graph *g = s->g;
  DataBlock *data = &g->spec.data[DATA_TRAIN];
  s->nparts = 1;
  if (g->spec.train[0].sync) {
    s->over = data->over;
    const char *name = dim_get(g->dims, s->over)->name; // "b.local", and that of the replicas "b"
    size_t n = strlen(name) - strlen(".local");
    s->replica = data->micro = dim_find(g->dims, arena_text(s->m->arena, name, n));
    if (!s->replica) BUG("no dim of replicas");
    s->part = arena_array(s->m->arena, StepPart, 1);
    return split_inputs(s, s->replica) && replicas_open(s);
  }
  if (g->spec.train[0].accumulate > 1) {
    s->nparts = g->spec.train[0].accumulate;
    if (s->m->parts > 0 && s->m->parts < s->nparts) s->nparts = s->m->parts;
    s->over = data->over;
    s->micro = data->micro =
        dim_find(g->dims, arena_printf(s->m->arena, "%s.micro", dim_get(g->dims, s->over)->name));
    if (!s->micro) BUG("no dim of micro-batches");
  }
  s->part = arena_array(s->m->arena, StepPart, s->nparts);
  return s->nparts == 1 || split_inputs(s, s->micro);
}

// Makes micro-batch k read its rows of each input that has rows.
static void part_inputs(Step *s, int64_t k) {
  Graph *g = s->g;
  for (DeclId d = 1; s->micro && d <= s->m->graph->decl.n; d++) {
    const Decl *decl = &g->decl.at[d - 1];
    if (decl->kind != DECL_INPUT) continue;
    g->origin = (Origin){.pos = decl->pos, .value = decl->name, .why = "micro-batch"};
    NodeId whole = graph_decl_node(g, d);
    if (dims_has(graph_node(g, whole)->dims, s->micro))
      s->part[k].instead[d - 1] = select_at(g, whole, s->micro, k);
  }
}

// Makes micro-batch k read the states that micro-batch k - 1 wrote, because every micro-batch
// updates the states. Gradients do not flow from one micro-batch to another through a state.
static void part_states(Step *s, int64_t k) {
  const Graph *from = s->m->graph;
  if (k == 0) return;
  const StepPart *before = &s->part[k - 1];
  for (uint32_t i = 0; i < from->output.n; i++) {
    const Output *o = &from->output.at[i];
    s->part[k].instead[o->target - 1] = graph_unary(s->g, OP_STOP, before->map[o->value]);
  }
}

static SelectCopy copy_of(const Step *s, int64_t k) {
  return (SelectCopy){.m = s->m,
                      .g = s->g,
                      .training = true,
                      .over = s->over,
                      .micro = s->micro,
                      .part = k,
                      .turns = s->push ? s->g->spec.train[0].replicas : 0,
                      .replica = s->replica};
}

// Builds the requested values of micro-batch k, unless they are built already.
static void part_build(Step *s, int64_t k) {
  StepPart *p = &s->part[k];
  SelectCopy c = copy_of(s, k);
  if (p->map) return;
  p->instead = arena_array(s->m->arena, NodeId, s->m->graph->decl.n + 1);
  part_inputs(s, k);
  part_states(s, k);
  replicas_enter(s, p->instead);
  if (k > 0) p->region = select_regions(s->m, s->g);
  c.region = p->region;
  c.instead = p->instead;
  p->map = select_into(&c, s->roots.n, s->roots.at);
}

// Returns sum + x. x is a value of one micro-batch, `sum` the sum over the earlier micro-batches,
// or 0 for the first one.
static NodeId part_sum(Step *s, NodeId sum, NodeId x) {
  Dtype type = (Dtype)graph_node(s->g, x)->type;
  if (s->nparts == 1) return x;
  x = graph_cast(s->g, x, dtype_is_float(type) ? dtype_accumulator(type) : TYPE_F32);
  return joined(s->g, OP_ADD, sum, x);
}

static NodeId part_mean(Step *s, NodeId sum) {
  if (s->nparts == 1) return sum;
  Dtype type = (Dtype)graph_node(s->g, sum)->type;
  return graph_binary(s->g, OP_MUL, sum, graph_const(s->g, type, 1 / (double)s->nparts));
}

// -- one block ----------------------------------------------------------------------------------

// One round of a train block under construction: a pass over all micro-batches, and an update.
typedef struct Round {
  Step *s;
  uint32_t block; // index of the train block
  int64_t number; // number of the round in the block, from 0; below the block's `repeat`
  uint32_t n;     // number of parameters that the block trains
  DeclId *param;  // the parameters that the block trains
  NodeId *by;     // for each parameter, the node with respect to which its gradient is taken
  // indexed by DeclId - 1: stop_gradient of the value after the earlier rounds of all blocks; 0:
  // the declaration is not updated yet
  NodeId *now;
  NodeId *sum; // for each parameter, its gradient, summed over micro-batches
} Round;

// Fills r->param with the parameters that the block trains, r->by with their current values, and
// r->now.
static void round_open(Round *r) {
  Step *s = r->s;
  Arena *a = s->m->arena;
  const TrainSpec *t = &s->g->spec.train[r->block];
  uint32_t ndecls = s->m->graph->decl.n;
  step_grow(s);
  r->param = arena_array(a, DeclId, ndecls + 1);
  r->by = arena_array(a, NodeId, ndecls + 1);
  r->now = arena_array(a, NodeId, ndecls + 1);
  r->sum = arena_array(a, NodeId, ndecls + 1);
  for (DeclId d = 1; d <= ndecls; d++) {
    NodeId now = s->now.at[d - 1];
    if (now) r->now[d - 1] = graph_unary(s->g, OP_STOP, now);
    if (!train_trains(a, t, &s->g->decl.at[d - 1])) continue;
    DeclId own = s->own && s->own[d - 1] ? s->own[d - 1] : d;
    r->by[r->n] = now ? r->now[d - 1] : graph_decl_node(s->g, own);
    r->param[r->n++] = d;
  }
}

// Returns the loss to differentiate. With loss scaling, sets s->scale and returns the loss times
// it.
static NodeId scaled_loss(Step *s, NodeId loss) {
  if (!s->g->spec.train[0].scaled) return loss;
  s->scale = step_value(s, step_state(s, "optimizer.loss_scale", TYPE_F32, 0x1p16));
  Dtype type = (Dtype)graph_node(s->g, loss)->type;
  return graph_binary(s->g, OP_MUL, loss, graph_cast(s->g, s->scale, type));
}

// Returns the loss of micro-batch k, computed with the parameters at the start of the round. Adds
// its gradients to r->sum.
static NodeId round_part(Round *r, int64_t k) {
  Step *s = r->s;
  Arena *a = s->m->arena;
  uint32_t ndecls = s->m->graph->decl.n;
  bool first = r->block == 0 && r->number == 0; // shares its forward pass with the requested values
  part_build(s, k);
  NodeId root = graph_find_name(s->m->graph, s->g->spec.train[r->block].loss)->value;
  NodeId *instead = arena_array(a, NodeId, ndecls + 1),
         *gradient = arena_array(a, NodeId, r->n + 1);
  for (uint32_t i = 0; i < ndecls; i++) instead[i] = r->now[i] ? r->now[i] : s->part[k].instead[i];
  SelectCopy c = copy_of(s, k);
  c.round = (uint64_t)r->number;
  c.instead = instead;
  c.region = first ? s->part[k].region : select_regions(s->m, s->g);
  NodeId loss = select_into(&c, 1, &root)[root];
  s->g->origin = *graph_node(s->g, loss)->origin;
  NodeId all = replicas_joined(s, OP_SUM, loss);
  graph_gradients(s->g, scaled_loss(s, all), (int)r->n, r->by, gradient);
  for (uint32_t i = 0; i < r->n; i++) {
    s->g->origin = *graph_node(s->g, gradient[i])->origin;
    r->sum[i] = part_sum(s, r->sum[i], gradient[i]);
  }
  s->g->origin = *graph_node(s->g, loss)->origin;
  return replicas_joined(s, OP_MEAN, loss);
}

// Builds one round of a block: the loss and gradients of all micro-batches, their means, and the
// update. Returns the loss.
static NodeId round_build(Round *r) {
  Step *s = r->s;
  Graph *g = s->g;
  NodeId loss = 0;
  round_open(r);
  for (int64_t k = 0; k < s->nparts; k++) {
    NodeId one = round_part(r, k);
    g->origin = (Origin){.pos = g->spec.train[r->block].pos, .why = "accumulate"};
    loss = part_sum(s, loss, one);
  }
  for (uint32_t i = 0; i < r->n; i++) {
    g->origin = *graph_node(g, r->sum[i])->origin;
    r->sum[i] = part_mean(s, r->sum[i]);
    select_name_gradient(s->m, g, r->param[i], r->sum[i]);
  }
  g->origin = (Origin){.pos = g->spec.train[r->block].pos, .why = "loss"};
  loss = part_mean(s, loss);
  if (s->push)
    optimizer_push(s, r->n, r->param, r->sum);
  else
    optimizer_build(s, r->block, r->number, r->n, r->param, r->sum);
  return loss;
}

// -- the average of the parameters --------------------------------------------------------------

// Updates the average of parameter p: average' = a average + (1 - a) w', and average' = w' in the
// first step. Skipped updates do not move the average; it equals w until the first update is made.
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
  NodeId moved = graph_binary(g, OP_ADD, old,
                              graph_binary(g, OP_MUL, share, graph_binary(g, OP_SUB, fresh, old)));
  NodeId first = s->fresh.at[p - 1], kept = s->kept.at[p - 1];
  if (!first)
    first =
        graph_binary(g, OP_EQ, graph_add(g, OP_STEP, 0, NULL, NULL), graph_const(g, TYPE_I32, 0));
  if (kept) moved = graph_where(g, kept, moved, old);
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

// -- the step -----------------------------------------------------------------------------------

static bool trainable(const Model *m) {
  if (m->graph->spec.ntrain && m->loss_node) return true;
  return diag_error(m->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
}

// Adds the updates of states as outputs, with the values of the last micro-batch. With asynchronous
// updates a server makes them. Returns false after an error.
static bool put_state_updates(Step *s) {
  const NodeId *map = s->part[s->nparts - 1].map;
  if (s->push) return server_push_states(s, map);
  graph_copy_outputs(s->g, s->m->graph, map);
  return replicas_join_states(s);
}

// Returns the value that node n, a parameter or state, has after the step. Returns other nodes
// unchanged.
static NodeId after_step(const Step *s, NodeId n) {
  DeclId d = graph_node(s->g, n)->attr->decl;
  for (uint32_t i = 0; i < s->g->output.n && d; i++)
    if (s->g->output.at[i].kind == OUT_UPDATE && s->g->output.at[i].target == d)
      return s->g->output.at[i].value;
  return n;
}

// Merges a value that has rows: node[k] is the value in micro-batch k, or node[0] that of all
// replicas. The result has the rows of the whole batch. *order gets the order of dims that the
// model states, or that of node[0], with the dim of the whole batch instead of s->over, the dim of
// the rows of a micro-batch.
static NodeId whole_of(Step *s, const Want *want, const NodeId *node, Name *order) {
  Graph *g = s->g;
  Dims dims = *graph_node(g, node[0])->dims, all = dims;
  const char *name = arena_printf(s->m->arena, "%s.whole", dim_get(g->dims, s->over)->name);
  DimId whole = dim_find(g->dims, name);
  DimId parts = s->replica ? s->replica : s->micro;
  int64_t rows = dim_get(g->dims, parts)->size * dim_get(g->dims, s->over)->size;
  if (!whole) whole = dim_add(g->dims, name, rows, (Pos){0});
  if (s->replica) {
    dims_remove(&dims, s->replica);
  } else if (!dims_add(g->dims, &all, s->micro)) {
    diag_error(s->m->diag, DIAG_UNSUPPORTED, s->wants.fetch ? s->wants.fetch->pos : (Pos){0},
               "accumulate splits '%s', which has %d dims already", want->as, MAX_RANK);
    return node[0];
  }
  NodeId x = s->replica ? node[0] : 0, part = graph_index(g, parts);
  for (int64_t k = 0; k < s->nparts && s->micro; k++) {
    NodeId one = graph_broadcast(g, node[k], &all);
    x = x ? graph_where(g, graph_binary(g, OP_EQ, part, graph_const(g, TYPE_I32, (double)k)), one,
                        x)
          : one;
  }
  Attr attr = {.ndims = 2, .dims = (DimId[]){parts, s->over}, .nto = 1, .to = &whole};
  order->stated = true;
  order->rank = dims.n;
  if (!want->name->stated || want->name->rank != dims.n)
    memcpy(order->dims, dims.at, sizeof order->dims);
  for (int i = 0; i < dims.n; i++)
    if (order->dims[i] == s->over) order->dims[i] = whole;
  return graph_add(g, OP_MERGE, 1, &x, &attr);
}

// Returns one value from node[k], the value in micro-batch k: merged values if they have rows, else
// their mean. A gradient with rows is also divided by the number n of micro-batches: the loss of
// the step is the mean of n losses, and only one of them depends on a row. *order: as in whole_of.
static NodeId value_joined(Step *s, const Want *want, const NodeId *node, Name *order) {
  NodeId sum = 0;
  const Dims *dims = graph_node(s->g, node[0])->dims;
  bool split = s->micro || (s->replica && dims_has(dims, s->replica));
  if (split && dims_has(dims, s->over)) {
    NodeId x = whole_of(s, want, node, order);
    return want->gradient ? part_mean(s, x) : x;
  }
  for (int64_t k = 0; k < s->nparts; k++) sum = part_sum(s, sum, node[k]);
  if (s->replica) s->g->origin = *graph_node(s->g, sum)->origin;
  return replicas_joined(s, OP_MEAN, part_mean(s, sum));
}

// Returns a requested value. A loss comes from the last round of its block. A parameter or state
// has its value at the end of the step. Any other value is computed with the parameters at the
// start of the step.
static NodeId value_of(Step *s, const Want *want, const NodeId *loss, Name *order) {
  NodeId *node = arena_array(s->m->arena, NodeId, s->nparts);
  for (uint32_t i = 0; i < s->g->spec.ntrain && !want->gradient; i++)
    if (!strcmp(s->g->spec.train[i].loss, want->as)) return loss[i];
  for (int64_t k = 0; k < s->nparts; k++) node[k] = s->part[k].map[want->name->value];
  DeclId d = graph_node(s->m->graph, want->name->value)->attr->decl;
  bool kept = d && s->m->graph->decl.at[d - 1].kind != DECL_INPUT;
  return kept ? replicas_joined(s, OP_MEAN, after_step(s, s->part[0].map[want->name->value]))
              : value_joined(s, want, node, order);
}

// Adds the requested values and gradients as outputs. loss[i] is the loss of train block i.
static void put_values(Step *s, const NodeId *loss) {
  NodeId **gradient = arena_array(s->m->arena, NodeId *, s->nparts),
         *node = arena_array(s->m->arena, NodeId, s->nparts);
  uint32_t asked = 0;
  for (int64_t k = 0; k < s->nparts; k++)
    gradient[k] = wants_gradients(&s->wants, s->g, s->part[k].map);
  for (uint32_t i = 0; i < s->wants.list.n; i++) {
    const Want *want = &s->wants.list.at[i];
    for (int64_t k = 0; k < s->nparts && want->gradient; k++) node[k] = gradient[k][asked];
    asked += want->gradient;
    Name order = *want->name;
    NodeId value =
        want->gradient ? value_joined(s, want, node, &order) : value_of(s, want, loss, &order);
    Output *o = select_output(s->g, want->as, value, &order);
    if (want->gradient) o->gradient_of = want->name->name;
  }
}

// Builds all rounds of all blocks. loss[i] gets the loss of the last round of block i. Returns the
// sum of the losses of all rounds, and their number in *rounds.
static NodeId blocks_build(Step *s, NodeId *loss, uint32_t *rounds) {
  const ModelSpec *spec = &s->g->spec;
  NodeId sum = 0;
  for (uint32_t i = 0; i < spec->ntrain; i++)
    for (int64_t k = 0; k < (spec->train[i].repeat ? spec->train[i].repeat : 1); k++) {
      Round r = {.s = s, .block = i, .number = k};
      loss[i] = round_build(&r);
      Dtype own = dtype_accumulator((Dtype)graph_node(s->g, loss[i])->type);
      Dtype type = sum ? dtype_join((Dtype)graph_node(s->g, sum)->type, own) : own;
      NodeId one = graph_cast(s->g, loss[i], type);
      sum = sum ? graph_binary(s->g, OP_ADD, graph_cast(s->g, sum, type), one) : one;
      ++*rounds;
    }
  return sum;
}

static void put_log(Step *s) {
  const ModelSpec *spec = &s->g->spec;
  for (uint32_t i = 0; s->ask.log && i < spec->ntrain; i++) {
    const char *loss =
        spec->ntrain > 1 ? arena_printf(s->m->arena, ".%s", spec->train[i].loss) : "";
    select_output(s->g, arena_printf(s->g->arena, "%s%s", select_rate, loss), s->rate[i], NULL);
    select_output(s->g, arena_printf(s->g->arena, "%s%s", select_norm, loss), s->norm[i], NULL);
  }
}

static void put_skipped(Step *s) {
  NodeId sum = 0;
  for (uint32_t i = 0; s->scale && i < s->g->spec.ntrain; i++) {
    NodeId one = step_value(s, scale_skipped(s, i));
    sum = joined(s->g, OP_ADD, sum, one);
  }
  if (sum) select_output(s->g, select_skipped, sum, NULL);
}

Graph *select_train(Arena *a, const Model *m, const Fetch *f) {
  return select_train_as(a, m, f, &(TrainAsk){0});
}

Graph *select_train_as(Arena *a, const Model *m, const Fetch *f, const TrainAsk *ask) {
  uint32_t rounds = 0;
  int errors = diag_errors(m->diag);
  if (m->part) m = m->part; // of a micro-batch or replica
  Step s = {.m = m, .g = graph_like(m->arena, m->graph, STAGE_GRAD), .ask = *ask};
  const ModelSpec *spec = &s.g->spec;
  graph_reserve(s.g, STEP_NODES * graph_count(m->graph));
  s.rate = arena_array(m->arena, NodeId, spec->ntrain + 1);
  s.norm = arena_array(m->arena, NodeId, spec->ntrain + 1);
  s.ask.finite |= spec->ntrain && spec->train[0].on_nonfinite == NONFINITE_SKIP;
  s.push = spec->ntrain && spec->train[0].ahead;
  s.ask.log &= !s.push; // the servers have the learning rate
  if (!trainable(m) || !wants_read(&s.wants, m, f, f != NULL) || !parts_open(&s)) return NULL;
  wants_roots(&s.wants, &s.roots);
  for (uint32_t i = 0; i < m->graph->output.n; i++)
    vec_push(m->arena, s.roots) = m->graph->output.at[i].value;
  NodeId *loss = arena_array(m->arena, NodeId, s.g->spec.ntrain + 1);
  part_build(&s, 0); // the forward pass of requested values comes first in the graph
  NodeId sum = blocks_build(&s, loss, &rounds);
  if (!put_state_updates(&s)) return NULL;
  averages_build(&s);
  step_put_updates(&s);
  replicas_keep(&s);
  put_values(&s, loss);
  put_skipped(&s);
  put_log(&s);
  if (s.finite) sum = graph_binary(s.g, OP_ADD, sum, s.finite);
  // At run time the step commits if this sum is finite. With one round and no check of gradients
  // the output is not needed: then the loss is checked.
  if (rounds > 1 || s.finite) select_output(s.g, select_watched, sum, NULL);
  return diag_errors(m->diag) == errors ? graph_prune_in_place(a, s.g, STAGE_GRAD) : NULL;
}
