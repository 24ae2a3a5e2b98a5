// Selection of an evaluation: a metric over a whole data set from sums over batches.
//
//   perplexity = exp(mean[b](l))     per batch: part 0 = sum[b](l); at the end: exp(part.0 / rows)
//
// From the metric downwards scalar arithmetic goes into the `finish` graph, until a reduction over
// the batch dim is met: that becomes a part, combined over batches by its monoid. What does not
// depend on the batch is a part too. A scalar of any other kind is averaged, weighted by rows, with
// a warning; a reduction over the batch inside another one sees one batch only, with the same
// warning.
#include <string.h>

#include "frontend/select.h"
#include "runtime/runtime.h"

typedef struct Split {
  const Model *m;
  Graph *g; // the program's graph: parts are added to it
  DimId over;
  const bool *batch; // node depends on the batch
  const bool *mixed; // so does something in it, or it, that lacks the batch dim
  const Name *name;  // of the metric under work
  Graph *finish;
  NodeId *map; // node of g -> node of finish
  VEC(const char *) output;
  VEC(int) how;
  bool inexact; // something mixes rows in a way that batches cannot give
} Split;

// -- parts ----------------------------------------------------------------------------------------

static NodeId input_of(Split *s, const char *name, Dtype type) {
  DeclId d = graph_find_decl(s->finish, name);
  Decl decl = {.kind = DECL_INPUT, .name = name, .type = type};
  return graph_decl_node(s->finish, d ? d : graph_decl(s->finish, &decl));
}

// Hands `value` out of the program as the next part; its combination is an input of `finish`.
static NodeId part_new(Split *s, NodeId value, int how) {
  uint32_t i = s->output.n;
  const char *as = arena_printf(s->g->arena, "%s.part.%u", s->name->name, i);
  Output o = {.kind = OUT_VALUE, .name = as, .value = value};
  vec_push(s->g->arena, s->g->output) = o;
  vec_push(s->m->arena, s->output) = as;
  vec_push(s->m->arena, s->how) = how;
  return input_of(s, arena_printf(s->m->arena, "part.%u", i), (Dtype)graph_node(s->g, value)->type);
}

// Sum over all rows divided by their number times the size of the other reduced dims.
static NodeId part_mean(Split *s, const Node *n) {
  Dims over = {0};
  double others = 1;
  for (int i = 0; i < n->attr.ndims; i++) {
    if (!dims_add(s->g->dims, &over, n->attr.dims[i])) BUG("mean over too many dims");
    if (n->attr.dims[i] != s->over) others *= (double)dim_get(s->g->dims, n->attr.dims[i])->size;
  }
  Dtype type = (Dtype)n->type;
  NodeId x = n->args[0];
  if (dtype_class((Dtype)graph_node(s->g, x)->type) == CLASS_INT) x = graph_cast(s->g, x, type);
  NodeId part = part_new(s, graph_reduce(s->g, OP_SUM, x, &over), PART_SUM);
  NodeId rows = graph_cast(s->finish, input_of(s, "rows", TYPE_F64), type);
  NodeId count = graph_binary(s->finish, OP_MUL, rows, graph_const(s->finish, type, others));
  return graph_binary(s->finish, OP_DIV, graph_cast(s->finish, part, type), count);
}

// `any` is a maximum of 0 and 1, `all` a minimum.
static NodeId part_bool(Split *s, NodeId n, int how) {
  NodeId part = part_new(s, graph_cast(s->g, n, TYPE_I32), how);
  return graph_binary(s->finish, OP_NE, part, graph_const(s->finish, TYPE_I32, 0));
}

static bool reduces_batch(const Split *s, const Node *n) {
  for (int i = 0; i < n->attr.ndims; i++)
    if (n->attr.dims[i] == s->over && n->dims.n == 0) return true;
  return false;
}

// What node n is in `finish`, when it is a reduction over the batch that can be put together; else
// 0.
static NodeId part_of_reduction(Split *s, NodeId id) {
  static const struct {
    Op op;
    int how;
  } monoids[] = {
      {OP_SUM, PART_SUM}, {OP_CONTRACT, PART_SUM}, {OP_MAX, PART_MAX},
      {OP_MIN, PART_MIN}, {OP_PROD, PART_PROD},
  };
  Node n = *graph_node(s->g, id); // nodes move when the graph grows
  if (!reduces_batch(s, &n)) return 0;
  for (int i = 0; i < n.nargs; i++) s->inexact |= s->mixed[n.args[i]];
  s->g->origin = n.origin; // a part stands where the reduction did
  if (n.op == OP_MEAN) return part_mean(s, &n);
  if (n.op == OP_ANY || n.op == OP_ALL)
    return part_bool(s, id, n.op == OP_ANY ? PART_MAX : PART_MIN);
  for (size_t i = 0; i < countof(monoids); i++)
    if (n.op == monoids[i].op) return part_new(s, id, monoids[i].how);
  return 0;
}

// -- one metric -----------------------------------------------------------------------------------

static bool is_arithmetic(const Split *s, NodeId id) {
  const Node *n = graph_node(s->g, id);
  return n->op == OP_CONST ||
         (s->batch[id] && op_row((Op)n->op)->cls == POINTWISE && n->dims.n == 0);
}

static NodeId averaged(Split *s, NodeId id) {
  s->inexact |= s->batch[id];
  Dtype type = (Dtype)graph_node(s->g, id)->type;
  NodeId part =
      part_new(s, dtype_is_float(type) ? id : graph_cast(s->g, id, TYPE_F32), PART_ROW_MEAN);
  return graph_cast(s->finish, part, type);
}

// Builds `finish` for the arithmetic above the parts.
static NodeId split_metric(Split *s, NodeId root, uint32_t count) {
  bool *need = arena_array(s->m->arena, bool, count + 1);
  s->map = arena_array(s->m->arena, NodeId, count + 1);
  need[root] = true;
  for (NodeId i = root; i > 0; i--)
    for (int k = 0; need[i] && is_arithmetic(s, i) && k < graph_node(s->g, i)->nargs; k++)
      need[graph_node(s->g, i)->args[k]] = true;
  for (NodeId i = 1; i <= root; i++) {
    if (!need[i]) continue;
    if (is_arithmetic(s, i))
      s->map[i] = graph_copy(s->finish, s->g, i, s->map);
    else if (!(s->map[i] = part_of_reduction(s, i)))
      s->map[i] = averaged(s, i);
  }
  return s->map[root];
}

static bool is_ratio(const Split *s, NodeId root) {
  const Node *n = graph_node(s->g, root);
  return n->op == OP_MEAN && n->attr.ndims == 1 && n->attr.dims[0] == s->over &&
         graph_node(s->g, n->args[0])->type == TYPE_BOOL;
}

static EvalMetric metric_build(Split *s, NodeId root, uint32_t count) {
  s->finish = graph_new(s->m->arena, s->g->dims, s->g->mesh, STAGE_GRAPH);
  s->output.n = s->how.n = 0;
  s->output.at = NULL, s->how.at = NULL;
  s->output.cap = s->how.cap = 0;
  s->inexact = false;
  EvalMetric e = {.name = s->name->name, .ratio = is_ratio(s, root)};
  Output value = {.kind = OUT_VALUE, .name = "value", .value = split_metric(s, root, count)};
  vec_push(s->finish->arena, s->finish->output) = value;
  e.nparts = s->output.n;
  e.output = s->output.at;
  e.how = s->how.at;
  e.finish = s->finish;
  if (s->inexact)
    diag_warning(s->m->diag, DIAG_ROW_WEIGHTED, s->name->pos,
                 "'%s' mixes rows: over a data set it is put together from its batches, weighted "
                 "by their rows",
                 e.name);
  return e;
}

// -- the evaluation -------------------------------------------------------------------------------

static DimId batch_dim(const Model *m) {
  static const BlockKind order[] = {DATA_VALID, DATA_TEST, DATA_TRAIN};
  for (size_t i = 0; i < countof(order); i++)
    if (m->graph->spec.data[order[i]].present) return m->graph->spec.data[order[i]].over;
  diag_error(m->diag, DIAG_NO_DATA_BLOCK, (Pos){0}, "the model has no data block to evaluate on");
  return 0;
}

static void mark_batch(Split *s) {
  uint32_t count = graph_count(s->g);
  bool *batch = arena_array(s->m->arena, bool, count + 1),
       *mixed = arena_array(s->m->arena, bool, count + 1);
  for (NodeId i = 1; i <= count; i++) {
    const Node *n = graph_node(s->g, i);
    bool has = dims_has(&n->dims, s->over);
    batch[i] = has;
    for (int k = 0; k < n->nargs; k++) {
      batch[i] |= batch[n->args[k]];
      mixed[i] |= mixed[n->args[k]];
    }
    mixed[i] |= batch[i] && !has;
  }
  s->batch = batch;
  s->mixed = mixed;
}

typedef VEC(const Name *) Metrics;

// The loss first, then the metrics in order.
static void list_metrics(const Model *m, Metrics *out) {
  const Name *loss = m->loss ? graph_find_name(m->graph, m->loss) : NULL;
  if (loss) vec_push(m->arena, *out) = loss;
  for (uint32_t i = 0; i < m->graph->name.n; i++) {
    const Name *n = &m->graph->name.at[i];
    if (n->kind == NAME_METRIC && n != loss) vec_push(m->arena, *out) = n;
  }
}

Graph *select_eval(Arena *a, const Model *m, uint32_t *nmetrics, EvalMetric **metric) {
  Metrics list = {0};
  VEC(NodeId) roots = {0};
  NodeId *map;
  DimId over = batch_dim(m);
  if (!over) return NULL;
  list_metrics(m, &list);
  if (!list.n) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, (Pos){0},
               "the model has no loss and no metric to evaluate");
    return NULL;
  }
  for (uint32_t i = 0; i < list.n; i++) vec_push(m->arena, roots) = list.at[i]->value;
  Graph *g = select_copy(m, false, roots.n, roots.at, &map);
  Split s = {.m = m, .g = g, .over = over};
  mark_batch(&s);
  uint32_t count = graph_count(g);
  *nmetrics = list.n;
  *metric = arena_array(a, EvalMetric, list.n);
  for (uint32_t i = 0; i < list.n; i++) {
    s.name = list.at[i];
    (*metric)[i] = metric_build(&s, map[roots.at[i]], count);
  }
  return graph_reach(a, g, STAGE_GRAD, NULL);
}
