// Selection: from the whole model to what one command asks of it.
//
//   run --fetch probs,grad(w)     the nodes of probs, and of the loss with its gradient by w;
//   nothing else
#include "frontend/select.h"

#include <string.h>

// -- copying what is needed -----------------------------------------------------------------------

// where(true, a, b) is a, so that the branch not taken needs no feed.
static NodeId folded(Graph *g, const Graph *from, NodeId n, const NodeId *map, bool training) {
  const Node *node = graph_node(from, n);
  if (node->op == OP_TRAINING) return graph_const(g, TYPE_BOOL, training);
  if (node->op != OP_WHERE) return 0;
  const Node *c = graph_node(g, map[node->args[0]]);
  if (c->op != OP_CONST) return 0;
  return graph_broadcast(g, map[node->args[c->attr.num[0] != 0 ? 1 : 2]], &node->dims);
}

Graph *select_copy(const Model *m, bool training, uint32_t n, const NodeId *roots, NodeId **map) {
  const Graph *from = m->graph;
  Graph *g = graph_like(m->arena, from, STAGE_GRAD);
  bool *need = arena_array(m->arena, bool, graph_count(from) + 1);
  *map = arena_array(m->arena, NodeId, graph_count(from) + 1);
  for (uint32_t i = 0; i < n; i++) need[roots[i]] = true;
  for (NodeId i = graph_count(from); i > 0; i--)
    for (int k = 0; need[i] && k < graph_node(from, i)->nargs; k++)
      need[graph_node(from, i)->args[k]] = true;
  for (NodeId i = 1; i <= graph_count(from); i++) {
    if (!need[i]) continue;
    NodeId known = folded(g, from, i, *map, training);
    (*map)[i] = known ? known : graph_copy(g, from, i, *map);
  }
  return g;
}

void select_output(Graph *g, const char *as, NodeId v, const Name *name) {
  const Dims *dims = &graph_node(g, v)->dims;
  Output o = {.kind = OUT_VALUE, .name = as, .value = v, .rank = dims->n};
  bool stated = name && name->stated && name->rank == dims->n;
  memcpy(o.dims, stated ? name->dims : dims->at, sizeof o.dims);
  vec_push(g->arena, g->output) = o;
}

// -- what is asked for ----------------------------------------------------------------------------

typedef struct Want {
  const char *as; // "w", "grad(w)"
  const Name *name;
  bool gradient;
} Want;

typedef struct Wants {
  const Model *m;
  const Fetch *fetch;
  NodeId loss; // of gradients
  VEC(Want) list;
} Wants;

static Pos asked_at(const Wants *w) { return w->fetch ? w->fetch->pos : (Pos){0}; }

static void unknown(const Wants *w, const char *name) {
  Diag *d = w->m->diag;
  const Graph *g = w->m->graph;
  const char **near = arena_array(w->m->arena, const char *, g->name.n);
  for (uint32_t i = 0; i < g->name.n; i++) near[i] = g->name.at[i].name;
  diag_error(d, DIAG_UNKNOWN_FETCH, asked_at(w), "the model has no value '%s'", name);
  diag_nearest(d, name, near, g->name.n);
}

// "grad(w)" and "gradient(w)": w, else NULL.
static const char *inside_gradient(const Model *m, const char *text) {
  size_t head = !strncmp(text, "grad(", 5)       ? 5
                : !strncmp(text, "gradient(", 9) ? 9
                                                 : 0,
         n = strlen(text);
  return head && n > head + 1 && text[n - 1] == ')'
             ? arena_text(m->arena, text + head, n - head - 1)
             : NULL;
}

static void want_add(Wants *w, const char *text) {
  const Model *m = w->m;
  const char *by = inside_gradient(m, text);
  const Name *name = graph_find_name(m->graph, by ? by : text);
  Want want = {
      .as = by ? arena_printf(m->arena, "grad(%s)", by) : text, .name = name, .gradient = by};
  if (!name) {
    unknown(w, by ? by : text);
    return;
  }
  if (by && !dtype_is_float((Dtype)graph_node(m->graph, name->value)->type)) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, asked_at(w), "'%s' is %s: there is no gradient by it",
               by, dtype_text((Dtype)graph_node(m->graph, name->value)->type));
    return;
  }
  for (uint32_t i = 0; i < w->list.n; i++)
    if (!strcmp(w->list.at[i].as, want.as)) return;
  vec_push(m->arena, w->list) = want;
}

// The loss that gradients are of: --loss, else the model's.
static void want_loss(Wants *w) {
  const Model *m = w->m;
  const char *given = w->fetch ? w->fetch->loss : NULL;
  bool gradients = false;
  for (uint32_t i = 0; i < w->list.n; i++) gradients |= w->list.at[i].gradient;
  w->loss = m->loss_node;
  if (given) {
    const Name *name = graph_find_name(m->graph, given);
    if (!name) {
      unknown(w, given);
      return;
    }
    const Node *n = graph_node(m->graph, name->value);
    w->loss = name->value;
    if (n->dims.n)
      diag_error(m->diag, DIAG_NOT_SCALAR, asked_at(w), "the loss '%s' is no scalar", given);
    else if (!dtype_is_float((Dtype)n->type))
      diag_error(m->diag, DIAG_BAD_TYPE, asked_at(w), "the loss '%s' is %s", given,
                 dtype_text((Dtype)n->type));
  } else if (gradients && !w->loss) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, asked_at(w),
               "a gradient of what? the model has no loss");
    diag_hint(m->diag, "name a scalar: --loss NAME");
  }
}

static void want_all(Wants *w, bool outputs) {
  const Graph *g = w->m->graph;
  for (uint32_t i = 0; i < g->name.n && outputs; i++)
    if (g->name.at[i].kind == NAME_OUTPUT) want_add(w, g->name.at[i].name);
  if (w->m->loss) want_add(w, w->m->loss);
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_METRIC) want_add(w, g->name.at[i].name);
}

static bool wants_read(Wants *w, const Model *m, const Fetch *f, bool outputs) {
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

// -- the two graphs -------------------------------------------------------------------------------

typedef VEC(NodeId) Nodes;

static void push_roots(const Wants *w, Nodes *roots) {
  Arena *a = w->m->arena;
  for (uint32_t i = 0; i < w->list.n; i++) {
    vec_push(a, *roots) = w->list.at[i].name->value;
    if (w->list.at[i].gradient) vec_push(a, *roots) = w->loss;
  }
}

// The nodes that gradients are taken by, behind those that `by` has already.
static void push_gradients(const Wants *w, const NodeId *map, Nodes *by) {
  for (uint32_t i = 0; i < w->list.n; i++)
    if (w->list.at[i].gradient) vec_push(w->m->arena, *by) = map[w->list.at[i].name->value];
}

// The value that a fetched parameter or state has after the step, or 0.
static NodeId updated(const Graph *g, NodeId n) {
  DeclId d = graph_node(g, n)->attr.decl;
  for (uint32_t i = 0; i < g->output.n && d; i++)
    if (g->output.at[i].kind == OUT_UPDATE && g->output.at[i].target == d)
      return g->output.at[i].value;
  return 0;
}

static void put_outputs(const Wants *w, Graph *g, const NodeId *map, const NodeId *gradient) {
  uint32_t updates = g->output.n;
  for (uint32_t i = 0; i < w->list.n; i++) {
    const Want *want = &w->list.at[i];
    NodeId now = map[want->name->value], next = updates ? updated(g, now) : 0;
    select_output(g, want->as, want->gradient ? *gradient++ : next ? next : now, want->name);
  }
}

// Gradients of declared tensors bear their name from here on: in the ledger of collectives, and for
// `layout gradients:`. A gradient that is a value of the forward graph keeps the name it has.
static void name_gradients(const Model *m, Graph *g, const Nodes *by, const NodeId *gradient) {
  for (uint32_t i = 0; i < by->n; i++) {
    const Node *of = graph_node(g, by->at[i]);
    Origin *origin = &g->node.at[gradient[i]].origin;
    if (!of->attr.decl || !origin->backward) continue;
    origin->value = intern_printf(m->names, "grad(%s)", g->decl.at[of->attr.decl - 1].name);
  }
}

Graph *select_run(Arena *a, const Model *m, const Fetch *f) {
  Wants w;
  if (!wants_read(&w, m, f, true)) return NULL;
  Nodes roots = {0}, by = {0};
  NodeId *map;
  push_roots(&w, &roots);
  Graph *g = select_copy(m, f && f->training, roots.n, roots.at, &map);
  push_gradients(&w, map, &by);
  NodeId *gradient = arena_array(m->arena, NodeId, by.n + 1);
  if (by.n) graph_gradients(g, map[w.loss], (int)by.n, by.at, gradient);
  name_gradients(m, g, &by, gradient);
  put_outputs(&w, g, map, gradient);
  return graph_reach(a, g, STAGE_GRAD, NULL);
}

static bool trainable(const Model *m) {
  if (m->graph->spec.ntrain && m->loss_node) return true;
  diag_error(m->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
  return false;
}

// Gradients by the trained parameters come first, those that are fetched behind them. A fetched
// gradient of another loss (--loss) is built apart.
static void train_gradients(const Wants *w, Graph *g, const NodeId *map, uint32_t nparams,
                            Nodes *by, NodeId *out) {
  bool apart = w->loss != w->m->loss_node;
  uint32_t first = apart ? nparams : by->n;
  graph_gradients(g, map[w->m->loss_node], (int)first, by->at, out);
  if (by->n > first)
    graph_gradients(g, map[w->loss], (int)(by->n - first), by->at + first, out + first);
}

Graph *select_train(Arena *a, const Model *m, const Fetch *f) {
  Wants w;
  if (!trainable(m) || !wants_read(&w, m, f, false)) return NULL;
  Nodes roots = {0}, by = {0};
  NodeId *map;
  VEC(DeclId) params = {0};
  push_roots(&w, &roots);
  vec_push(m->arena, roots) = m->loss_node;
  for (uint32_t i = 0; i < m->graph->output.n; i++)
    vec_push(m->arena, roots) = m->graph->output.at[i].value;
  Graph *g = select_copy(m, true, roots.n, roots.at, &map);
  for (uint32_t i = 0; i < g->decl.n; i++) {
    if (g->decl.at[i].kind != DECL_PARAM || g->decl.at[i].frozen) continue;
    vec_push(m->arena, params) = i + 1;
    vec_push(m->arena, by) = graph_decl_node(g, i + 1);
  }
  push_gradients(&w, map, &by);
  NodeId *gradient = arena_array(m->arena, NodeId, by.n + 1);
  train_gradients(&w, g, map, params.n, &by, gradient);
  name_gradients(m, g, &by, gradient);
  for (uint32_t i = 0; i < m->graph->output.n; i++) {
    Output o = m->graph->output.at[i];
    o.value = map[o.value];
    vec_push(g->arena, g->output) = o;
  }
  optimizer_build(g, m->graph->spec.train, params.n, params.at, gradient);
  put_outputs(&w, g, map, gradient + params.n);
  return graph_reach(a, g, STAGE_GRAD, NULL);
}
