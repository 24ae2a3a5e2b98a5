// Selection: reduces the whole model to the values that one command requests. Input: a Model and a
// Fetch. Output: the graph of an inference (`run`), which the passes compile. This file also has
// the helpers for training steps (select_train.c) and evaluations (select_eval.c).
//
//   run --fetch probs,grad(w)     only the nodes of probs, of the loss, and of its gradient by w
#include "frontend/step/select_internal.h"

#include <string.h>

// -- copy of the needed nodes -------------------------------------------------------------------

// Returns the constant `training` for a TRAINING node, and the selected branch for a `where` with a
// constant condition, so that the other branch needs no feed. Returns 0 for other nodes.
static NodeId folded(Graph *g, const Graph *from, NodeId n, const NodeId *map, bool training) {
  Dims dims = *graph_node(from, n)->dims;
  const Node *node = graph_node(from, n);
  if (node->op == OP_TRAINING) return graph_const(g, TYPE_BOOL, training);
  if (node->op != OP_WHERE) return 0;
  const Node *c = graph_node(g, map[node->args[0]]);
  if (c->op != OP_CONST) return 0;
  NodeId taken = map[node->args[c->attr->num[0] != 0 ? 1 : 2]];
  const Dims *have = graph_node(g, taken)->dims;
  for (int i = 0; i < have->n; i++)
    if (!dims_has(&dims, have->at[i]) && !dims_add(g->dims, &dims, have->at[i]))
      BUG("a value of too many dims");
  return graph_broadcast(g, taken, &dims);
}

// Returns a table indexed by NodeId: true if one of the n roots needs the node.
static bool *needed(const Graph *from, Arena *a, uint32_t n, const NodeId *roots) {
  bool *need = arena_array(a, bool, graph_count(from) + 1);
  for (uint32_t i = 0; i < n; i++) need[roots[i]] = true;
  for (NodeId i = graph_count(from); i > 0; i--)
    for (int k = 0; need[i] && k < graph_node(from, i)->nargs; k++)
      need[graph_node(from, i)->args[k]] = true;
  return need;
}

const RegionId *select_regions(const Model *m, Graph *g) {
  const Graph *from = m->graph;
  RegionId *map = arena_array(m->arena, RegionId, from->region.n + 1);
  for (uint32_t i = 0; i < from->region.n; i++) {
    Region r = from->region.at[i];
    r.parent = map[r.parent];
    map[i + 1] = graph_region(g, &r);
  }
  return map;
}

NodeId select_at(Graph *g, NodeId x, DimId d, int64_t at) {
  Attr attr = {.ndims = 1, .dims = &d, .affine = {.offset = at, .divisor = 1}};
  return graph_add(g, OP_WINDOW, 1, &x, &attr);
}

// Copies a random draw. Its key depends on c->round, the number of the repetition of a train block.
// A micro-batch gets its part of the draw for the whole batch, so that accumulation does not change
// the numbers.
static NodeId draw(const SelectCopy *c, const Node *n) {
  Attr attr = *n->attr;
  DimId dims[MAX_RANK];
  DimId parts = c->micro ? c->micro : c->replica;
  bool split = parts && dims_has(n->dims, c->over) && n->dims->n < MAX_RANK;
  attr.key ^= c->round * 0x9e3779b97f4a7c15u;
  if (!split) return graph_add(c->g, (Op)n->op, 0, NULL, &attr);
  memcpy(dims, n->attr->dims, n->attr->ndims * sizeof *dims);
  dims[attr.ndims++] = parts;
  attr.dims = dims;
  NodeId whole = graph_add(c->g, (Op)n->op, 0, NULL, &attr);
  return c->micro ? select_at(c->g, whole, c->micro, c->part) : whole;
}

// Copies constant n, a number that depends on how many rows a batch has. In evaluations the copy is
// the node that computes the number (`counted`, indexed as Model.numbers), else the constant for a
// full batch.
static NodeId row_number(const SelectCopy *c, const Node *n, const NodeId *counted) {
  return c->rows ? graph_cast(c->g, counted[n->attr->tag - 1], (Dtype)n->type)
                 : graph_const(c->g, (Dtype)n->type, n->attr->num[0]);
}

// Copies node n of the model of one replica, with arguments that may have the dim of the replicas.
// A carry has it always: whether the values of later steps have it is not known yet.
static NodeId copy_replicas(const SelectCopy *c, const Node *n, NodeId *args, const Attr *attr) {
  char why[200];
  for (int k = 0; k < n->nargs && (n->op == OP_CARRY || n->op == OP_SCAN); k++) {
    Dims all = *graph_node(c->g, args[k])->dims;
    if (dims_has(&all, c->replica)) continue;
    if (dims_add(c->g->dims, &all, c->replica)) args[k] = graph_broadcast(c->g, args[k], &all);
  }
  NodeId made = graph_try(c->g, (Op)n->op, n->nargs, args, attr, 0, why);
  if (made) return made;
  diag_error(c->m->diag, DIAG_UNSUPPORTED, n->origin->pos,
             "this value differs between the replicas of sync, which %s does not allow: %s",
             op_row((Op)n->op)->text, why);
  return graph_zeros(c->g, (Dtype)n->type, n->dims);
}

// Returns the step of the training in which a replica with asynchronous updates takes a step.
static NodeId training_step_of(const SelectCopy *c, const Node *n) {
  NodeId all = graph_add(c->g, OP_STEP, 0, NULL, n->attr);
  return graph_binary(c->g, OP_FLOOR_DIV, all, graph_const(c->g, TYPE_I32, (double)c->turns));
}

static NodeId copy_one(const SelectCopy *c, NodeId id, const NodeId *map, const NodeId *counted) {
  const Node *n = graph_node(c->m->graph, id);
  NodeId args[MAX_ARGS];
  Attr attr = *n->attr;
  if (n->attr->decl && c->instead && c->instead[n->attr->decl - 1])
    return c->instead[n->attr->decl - 1];
  NodeId known = folded(c->g, c->m->graph, id, map, c->training);
  if (known) return known;
  for (int k = 0; k < n->nargs; k++) args[k] = map[n->args[k]];
  if (c->region) attr.region = c->region[attr.region];
  c->g->origin = *n->origin;
  if (n->op == OP_CONST && attr.tag) return row_number(c, n, counted);
  if (n->op == OP_STEP && c->turns) return training_step_of(c, n);
  if (op_is_draw((Op)n->op)) return draw(c, n);
  if (c->replica) return copy_replicas(c, n, args, &attr);
  return graph_add(c->g, (Op)n->op, n->nargs, args, &attr);
}

NodeId *select_into(const SelectCopy *c, uint32_t n, const NodeId *roots) {
  const Graph *from = c->m->graph;
  Origin before = c->g->origin;
  const bool *need = needed(from, c->m->arena, n, roots);
  NodeId *map = arena_array(c->m->arena, NodeId, graph_count(from) + 1);
  const NodeId *counted = c->rows ? row_number_nodes(c->m, c->g, c->rows, need) : NULL;
  for (NodeId i = 1; i <= graph_count(from); i++)
    if (need[i]) map[i] = copy_one(c, i, map, counted);
  c->g->origin = before;
  return map;
}

Output *select_output(Graph *g, const char *as, NodeId v, const Name *name) {
  const Dims *dims = graph_node(g, v)->dims;
  Output o = {.kind = OUT_VALUE, .name = as, .value = v, .rank = dims->n};
  bool stated = name && name->stated && name->rank == dims->n;
  memcpy(o.dims, stated ? name->dims : dims->at, sizeof o.dims);
  Output *out = &vec_push(g->arena, g->output);
  *out = o;
  return out;
}

// -- the requested values -----------------------------------------------------------------------

static Pos asked_at(const Wants *w) { return w->fetch ? w->fetch->pos : (Pos){0}; }

static void unknown(const Wants *w, const char *name, Pos at) {
  Diag *d = w->m->diag;
  const Graph *g = w->m->graph;
  const char **near = arena_array(w->m->arena, const char *, g->name.n);
  for (uint32_t i = 0; i < g->name.n; i++) near[i] = g->name.at[i].name;
  diag_error(d, DIAG_UNKNOWN_FETCH, at, "the model has no value '%s'", name);
  diag_nearest(d, name, near, g->name.n);
}

// Returns "w" for "grad(w)" and "gradient(w)", else NULL.
static const char *inside_gradient(const Model *m, const char *text) {
  size_t head = !strncmp(text, "grad(", 5)       ? 5
                : !strncmp(text, "gradient(", 9) ? 9
                                                 : 0,
         n = strlen(text);
  if (!head || text[n - 1] != ')') return NULL;
  for (n--; n > head && text[n - 1] == ' ';) n--;
  head += strspn(text + head, " ");
  return n > head ? arena_text(m->arena, text + head, n - head) : NULL;
}

enum { MAX_WANTED = 10000 };

// Adds a value, or "grad(w)", to the list of requests, once. Gives an error if the model has no
// such value or if the value has no gradient.
static void want_add(Wants *w, const char *text) {
  const Model *m = w->m;
  const char *by = inside_gradient(m, text);
  const Name *name = graph_find_name(m->graph, by ? by : text);
  Want want = {
      .as = by ? arena_printf(m->arena, "grad(%s)", by) : text, .name = name, .gradient = by};
  if (!name) {
    unknown(w, by ? by : text, asked_at(w));
    return;
  }
  if (by && !dtype_is_float((Dtype)graph_node(m->graph, name->value)->type)) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, asked_at(w), "'%s' is %s: it has no gradient", by,
               dtype_text((Dtype)graph_node(m->graph, name->value)->type));
    return;
  }
  want.as = intern(m->names, want.as);
  if (map_get(&w->seen, want.as) || w->list.n > MAX_WANTED) return;
  if (w->list.n == MAX_WANTED) {
    diag_error(m->diag, DIAG_TOO_DEEP, asked_at(w), "this asks for more than %d values",
               MAX_WANTED);
    diag_hint(m->diag, "name some of them: --fetch NAME,...");
  }
  map_put(m->arena, &w->seen, want.as, w);
  vec_push(m->arena, w->list) = want;
}

// Sets w->loss, whose gradients are requested, to the value of --loss, else to the loss of the
// model.
static void want_loss(Wants *w) {
  const Model *m = w->m;
  const char *given = w->fetch ? w->fetch->loss : NULL;
  bool gradients = false;
  for (uint32_t i = 0; i < w->list.n; i++) gradients |= w->list.at[i].gradient;
  w->loss = m->loss_node;
  if (given) {
    const Name *name = graph_find_name(m->graph, given);
    if (!name) {
      unknown(w, given, w->fetch->loss_pos);
      return;
    }
    const Node *n = graph_node(m->graph, name->value);
    w->loss = name->value;
    if (n->dims->n)
      diag_error(m->diag, DIAG_NOT_SCALAR, w->fetch->loss_pos, "the loss '%s' is not a scalar",
                 given);
    else if (!dtype_is_float((Dtype)n->type))
      diag_error(m->diag, DIAG_BAD_TYPE, w->fetch->loss_pos,
                 "the loss '%s' must be a float, not %s", given, dtype_text((Dtype)n->type));
  } else if (gradients && !w->loss) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, asked_at(w),
               "a gradient needs a loss, and the model has none");
    diag_hint(m->diag, "name a scalar: --loss NAME");
  }
}

// Requests the values of a command without names: the losses and metrics, and all outputs if
// `outputs`.
static void want_all(Wants *w, bool outputs) {
  const Graph *g = w->m->graph;
  for (uint32_t i = 0; i < g->name.n && outputs; i++)
    if (g->name.at[i].kind == NAME_OUTPUT) want_add(w, g->name.at[i].name);
  for (uint32_t i = 0; i < g->spec.ntrain; i++) want_add(w, g->spec.train[i].loss);
  if (w->m->loss) want_add(w, w->m->loss);
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_METRIC) want_add(w, g->name.at[i].name);
}

bool wants_read(Wants *w, const Model *m, const Fetch *f, bool outputs) {
  int errors = diag_errors(m->diag);
  *w = (Wants){.m = m, .fetch = f};
  if (f && f->n)
    for (uint32_t i = 0; i < f->n; i++) want_add(w, f->name[i]);
  else
    want_all(w, outputs);
  if (!w->list.n && diag_errors(m->diag) == errors) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, asked_at(w),
               "the model has no output, loss or metric: nothing to compute");
    diag_hint(m->diag, "name values: --fetch NAME,...");
  }
  want_loss(w);
  return diag_errors(m->diag) == errors;
}

void wants_roots(const Wants *w, Nodes *roots) {
  Arena *a = w->m->arena;
  for (uint32_t i = 0; i < w->list.n; i++) {
    vec_push(a, *roots) = w->list.at[i].name->value;
    if (w->list.at[i].gradient) vec_push(a, *roots) = w->loss;
  }
}

void select_name_gradient(const Model *m, Graph *g, DeclId of, NodeId gradient) {
  Origin origin = *graph_node(g, gradient)->origin;
  if (!of || !origin.backward) return;
  if (replica_slot(g->decl.at[of - 1].name)) of = g->decl.at[of - 1].of;
  origin.gradient_of = g->decl.at[of - 1].name;
  origin.value = intern_printf(m->names, "grad(%s)", origin.gradient_of);
  graph_set_origin(g, gradient, &origin);
}

NodeId *wants_gradients(const Wants *w, Graph *g, const NodeId *map) {
  Nodes by = {0};
  for (uint32_t i = 0; i < w->list.n; i++)
    if (w->list.at[i].gradient) vec_push(w->m->arena, by) = map[w->list.at[i].name->value];
  NodeId *out = arena_array(w->m->arena, NodeId, by.n + 1);
  NodeId loss = by.n ? map[w->loss] : 0;
  if (loss && graph_node(g, loss)->dims->n) { // one for each replica: the sum of them all
    Dims all = *graph_node(g, loss)->dims;
    loss = graph_reduce(g, OP_SUM, loss, &all);
  }
  if (by.n) graph_gradients(g, loss, (int)by.n, by.at, out);
  for (uint32_t i = 0; i < by.n; i++)
    select_name_gradient(w->m, g, graph_node(g, by.at[i])->attr->decl, out[i]);
  return out;
}

Graph *select_run(Arena *a, const Model *m, const Fetch *f) {
  Wants w;
  if (!wants_read(&w, m, f, true)) return NULL;
  Nodes roots = {0};
  wants_roots(&w, &roots);
  Graph *g = graph_like(m->arena, m->graph, STAGE_GRAD);
  SelectCopy c = {.m = m, .g = g, .training = f && f->training};
  if (f && f->rows) c.rows = rows_mark(m->arena, m->graph, f->rows).dim;
  NodeId *map = select_into(&c, roots.n, roots.at);
  const NodeId *gradient = wants_gradients(&w, g, map);
  for (uint32_t i = 0; i < w.list.n; i++) {
    const Want *want = &w.list.at[i];
    NodeId value = want->gradient ? *gradient++ : map[want->name->value];
    Output *o = select_output(g, want->as, value, want->name);
    if (want->gradient) o->gradient_of = want->name->name;
  }
  if (!c.rows) return graph_prune_in_place(a, g, STAGE_GRAD);
  RowFacts rows = rows_mark(a, g, f->rows);
  return rows_count_means(a, g, &rows);
}
