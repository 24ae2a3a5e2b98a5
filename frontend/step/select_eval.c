// Selection of an evaluation: computes metrics over a whole data set from values of single batches.
// Input: a Model with a data block. Output: a program for one batch, whose outputs are parts; for
// each metric, how parts are combined over batches, and a graph `finish` that computes the metric
// from the combined parts.
//
//   perplexity = exp(mean[b](l))     per batch: part 0 = sum[b](l); at the end: exp(part.0 / rows)
//
// Starting at the metric and going to its arguments, nodes without the batch dim go into `finish`.
// The walk ends at a reduction over the batch dim: it becomes a part, which is combined over
// batches element by element by the reduction's monoid. A value that does not depend on the batch
// is also a part. Any other value is averaged over the batches, weighted by their rows, with a
// warning. A reduction over the batch inside another one reduces a single batch only, with the same
// warning.
#include <string.h>

#include "frontend/step/select_internal.h"
#include "runtime/runtime.h"

typedef struct Split {
  const Model *m;
  Graph *g; // graph of the program for one batch, to which parts are added
  DimId over;
  RowFacts rows; // facts of g before parts were added
  // indexed by NodeId: true if the node is, or reads, a gradient of a value that depends on the
  // batch. Such a gradient contains means that are divided by the rows of a single batch
  const bool *graded;
  const Name *name; // the metric that is being split
  Graph *finish;
  NodeId *map; // indexed by node of g: the node of `finish` that computes it; 0: not built
  // lists with one item for each part of the metric
  VEC(const char *) output; // name of the output
  VEC(int) how;             // MetricPart.how: how values of batches are combined
  Nodes value;              // node of g
  bool inexact; // rows are combined so that values of batches cannot give the exact metric
} Split;

// -- parts of a metric --------------------------------------------------------------------------

static NodeId input_of(Split *s, const char *name, Dtype type, const Dims *dims) {
  DeclId d = graph_find_decl(s->finish, name);
  Decl decl = {.kind = DECL_INPUT, .name = name, .type = type, .rank = dims->n};
  memcpy(decl.dims, dims->at, sizeof decl.dims);
  return graph_decl_node(s->finish, d ? d : graph_decl(s->finish, &decl));
}

// Makes `value` the next part of the metric, an output of the program. `how` is MetricPart.how.
// Returns the input of `finish` that gets the part after it is combined over the batches.
static NodeId part_new(Split *s, NodeId value, int how) {
  uint32_t i = s->output.n;
  const char *as = arena_printf(s->g->arena, "%s.part.%u", s->name->name, i);
  select_output(s->g, as, value, NULL);
  vec_push(s->m->arena, s->output) = as;
  vec_push(s->m->arena, s->how) = how;
  vec_push(s->m->arena, s->value) = value;
  const Node *n = graph_node(s->g, value);
  return input_of(s, arena_printf(s->m->arena, "part.%u", i), (Dtype)n->type, n->dims);
}

static NodeId rows_of(Split *s, Dtype type) {
  return graph_cast(s->finish, input_of(s, "rows", TYPE_F64, &(Dims){0}), type);
}

// Returns the dims that reduction n removes. *others gets how many of the elements that it combines
// into one belong to each row of the batch.
static Dims reduced(const Split *s, const Node *n, double *others) {
  Dims over = {0};
  *others = 1 / (double)dim_get(s->g->dims, s->over)->size;
  for (int i = 0; i < n->attr->ndims; i++) {
    if (!dims_add(s->g->dims, &over, n->attr->dims[i])) BUG("reduction over too many dims");
    *others *= (double)dim_get(s->g->dims, n->attr->dims[i])->size;
  }
  return over;
}

// Makes a part for a mean over the batch: the sum, which `finish` divides by the number of all rows
// times the sizes of the other reduced dims. Returns the node of `finish` for the mean.
static NodeId part_mean(Split *s, const Node *n) {
  double others;
  Dims over = reduced(s, n, &others);
  Dtype type = (Dtype)n->type;
  NodeId x = n->args[0];
  if (dtype_class((Dtype)graph_node(s->g, x)->type) == CLASS_INT) x = graph_cast(s->g, x, type);
  NodeId part = part_new(s, graph_reduce(s->g, OP_SUM, x, &over), PART_SUM);
  NodeId count =
      graph_binary(s->finish, OP_MUL, rows_of(s, type), graph_const(s->finish, type, others));
  return graph_binary(s->finish, OP_DIV, graph_cast(s->finish, part, type), count);
}

// variance(x) is built as mean(square(x - mean(x))). Returns the node of mean(x) if n has this
// form, else 0.
static NodeId variance_mean(const Split *s, const Node *n) {
  const Node *square = graph_node(s->g, n->args[0]);
  if (n->op != OP_MEAN || square->op != OP_MUL || square->args[0] != square->args[1]) return 0;
  const Node *off = graph_node(s->g, square->args[0]);
  if (off->op != OP_SUB) return 0;
  const Node *mean = graph_node(s->g, off->args[1]);
  bool same =
      mean->op == OP_MEAN && mean->args[0] == off->args[0] && mean->attr->ndims == n->attr->ndims;
  for (int i = 0; same && i < n->attr->ndims; i++) same = mean->attr->dims[i] == n->attr->dims[i];
  return same && !s->rows.mixed[off->args[0]] ? off->args[1] : 0;
}

// Makes three parts for a variance over the batch. Returns the node of `finish` for it. The total
// is the variance within batches plus the variance of their means m:
//
//   (sum (x - m)^2 / others + sum rows m^2) / rows - (mean of m)^2
static NodeId part_variance(Split *s, const Node *n, NodeId mean) {
  Graph *f = s->finish;
  double others;
  Dims over = reduced(s, n, &others);
  NodeId m = graph_cast(s->g, mean, TYPE_F64);
  NodeId within = part_new(s, graph_reduce(s->g, OP_SUM, n->args[0], &over), PART_SUM);
  NodeId of_squares = part_new(s, graph_binary(s->g, OP_MUL, m, m), PART_ROW_MEAN);
  NodeId of_means = part_new(s, m, PART_ROW_MEAN);
  NodeId count = graph_binary(f, OP_MUL, rows_of(s, TYPE_F64), graph_const(f, TYPE_F64, others));
  NodeId inside = graph_binary(f, OP_DIV, graph_cast(f, within, TYPE_F64), count);
  NodeId between = graph_binary(f, OP_SUB, of_squares, graph_binary(f, OP_MUL, of_means, of_means));
  return graph_cast(f, graph_binary(f, OP_ADD, inside, between), (Dtype)n->type);
}

// Makes a part for a maximum or minimum of bools: a maximum or minimum of the integers 0 and 1.
// Returns the node of `finish` for it.
static NodeId part_bool(Split *s, NodeId n, int how) {
  NodeId part = part_new(s, graph_cast(s->g, n, TYPE_I32), how);
  return graph_binary(s->finish, OP_NE, part, graph_const(s->finish, TYPE_I32, 0));
}

static bool is_gradient(const Graph *g, const RowFacts *rows, NodeId id) {
  return rows->batch[id] && graph_node(g, id)->origin->backward;
}

// Returns the table Split.graded of graph g.
static const bool *mark_graded(Arena *a, const Graph *g, const RowFacts *rows) {
  bool *graded = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId i = 1; i <= graph_count(g); i++) {
    const Node *n = graph_node(g, i);
    graded[i] = is_gradient(g, rows, i);
    for (int k = 0; k < n->nargs; k++) graded[i] |= graded[n->args[k]];
  }
  return graded;
}

// Makes parts for node `id` if it is a reduction over the batch whose parts can be combined.
// Returns the node of `finish` for it, or 0 for other nodes.
static NodeId part_of_reduction(Split *s, NodeId id) {
  static const int how[MONOID_COUNT] = {[MONOID_SUM] = PART_SUM,
                                        [MONOID_MAX] = PART_MAX,
                                        [MONOID_MIN] = PART_MIN,
                                        [MONOID_PROD] = PART_PROD};
  Node n = *graph_node(s->g, id); // a copy, because nodes move when the graph grows
  int over = rows_reduced(&s->rows, &n);
  // A mean over several dims of rows has no parts: `finish` divides by the number of rows once.
  if (!over || (over > 1 && n.op == OP_MEAN) || is_gradient(s->g, &s->rows, id)) return 0;
  NodeId mean = variance_mean(s, &n);
  if (mean) return part_variance(s, &n, mean);
  for (int i = 0; i < n.nargs; i++) s->inexact |= s->rows.mixed[n.args[i]] || s->graded[n.args[i]];
  s->g->origin = *n.origin; // a part has the origin of its reduction
  if (n.op == OP_MEAN) return part_mean(s, &n);
  if (n.op == OP_LOGSUMEXP) return part_new(s, id, PART_LOGSUMEXP);
  Monoid m = op_row((Op)n.op)->monoid;
  if (!m) return 0;
  return n.type == TYPE_BOOL ? part_bool(s, id, how[m]) : part_new(s, id, how[m]);
}

// -- one metric ---------------------------------------------------------------------------------

// Returns true if a node belongs into `finish`: it depends on the batch, and neither it nor its
// arguments have the batch dim.
static bool is_after(const Split *s, NodeId id) {
  const Node *n = graph_node(s->g, id);
  OpClass cls = op_row((Op)n->op)->cls;
  if (n->op == OP_CONST) return true;
  if (!s->rows.batch[id] || cls == REGION || n->region || n->op == OP_BOUND ||
      is_gradient(s->g, &s->rows, id))
    return false;
  for (int k = 0; k < n->nargs; k++)
    if (rows_in(&s->rows, graph_node(s->g, n->args[k])->dims)) return false;
  return n->nargs > 0;
}

// Makes a part for node `id`, which is averaged over the batches with their rows as weights.
// Returns the input of `finish` with the average.
static NodeId averaged(Split *s, NodeId id) {
  s->inexact |= s->rows.batch[id];
  Dtype type = (Dtype)graph_node(s->g, id)->type;
  NodeId part =
      part_new(s, dtype_is_float(type) ? id : graph_cast(s->g, id, TYPE_F32), PART_ROW_MEAN);
  return graph_cast(s->finish, part, type);
}

// Splits the metric `root` into parts and `finish`. Returns the node of `finish` that is the
// metric.
static NodeId split_metric(Split *s, NodeId root, uint32_t count) {
  bool *need = arena_array(s->m->arena, bool, count + 1);
  s->map = arena_array(s->m->arena, NodeId, count + 1);
  need[root] = true;
  for (NodeId i = root; i > 0; i--)
    for (int k = 0; need[i] && is_after(s, i) && k < graph_node(s->g, i)->nargs; k++)
      need[graph_node(s->g, i)->args[k]] = true;
  for (NodeId i = 1; i <= root; i++) {
    if (!need[i]) continue;
    if (is_after(s, i))
      s->map[i] = graph_copy(s->finish, s->g, i, s->map);
    else if (!(s->map[i] = part_of_reduction(s, i)))
      s->map[i] = averaged(s, i);
  }
  return s->map[root];
}

// Returns true if a metric is the share of rows for which a condition holds, such as an accuracy.
static bool is_ratio(const Split *s, NodeId root) {
  const Node *n = graph_node(s->g, root);
  return n->op == OP_MEAN && n->attr->ndims == 1 && n->attr->dims[0] == s->over &&
         graph_node(s->g, n->args[0])->type == TYPE_BOOL;
}

// Builds one metric of an evaluation in two pieces. Its parts (sums, minima, counts) are outputs of
// s->g and are combined over all batches. The graph `finish` computes the metric from the combined
// parts. With `whole` the metric has one part, its value for each batch; the values are averaged
// with the numbers of rows as weights. `count` is the number of nodes of s->g before any parts.
static EvalMetric metric_build(Split *s, NodeId root, bool whole, uint32_t count) {
  s->finish = graph_new(s->m->arena, s->g->dims, s->g->mesh, STAGE_GRAPH);
  memset(&s->output, 0, sizeof s->output);
  memset(&s->how, 0, sizeof s->how);
  memset(&s->value, 0, sizeof s->value);
  s->inexact = false;
  EvalMetric e = {.name = s->name->name, .ratio = is_ratio(s, root)};
  Output value = {.kind = OUT_VALUE,
                  .name = "value",
                  .value = whole ? averaged(s, root) : split_metric(s, root, count)};
  vec_push(s->finish->arena, s->finish->output) = value;
  e.nparts = s->output.n;
  e.output = s->output.at;
  e.how = s->how.at;
  e.type = arena_array(s->m->arena, Dtype, e.nparts + 1);
  e.elements = arena_array(s->m->arena, int64_t, e.nparts + 1);
  for (uint32_t i = 0; i < e.nparts; i++) {
    e.type[i] = (Dtype)graph_node(s->g, s->value.at[i])->type;
    e.elements[i] = node_elements(s->g, s->value.at[i]);
  }
  e.finish = s->finish;
  if (s->inexact)
    diag_warning(s->m->diag, DIAG_ROW_WEIGHTED, s->name->pos,
                 "'%s' mixes rows: over a data set it is put together from its batches, weighted "
                 "by their rows",
                 e.name);
  return e;
}

// -- the evaluation -----------------------------------------------------------------------------

static DimId batch_dim(const Model *m) {
  static const BlockKind order[] = {DATA_VALID, DATA_TEST, DATA_TRAIN};
  for (size_t i = 0; i < countof(order); i++)
    if (m->graph->spec.data[order[i]].present) return m->graph->spec.data[order[i]].over;
  diag_error(m->diag, DIAG_NO_DATA_BLOCK, (Pos){0}, "the model has no data block to evaluate on");
  return 0;
}

typedef VEC(const Name *) Metrics;

// Lists the losses first, then the other metrics in the order of the model.
static void list_metrics(const Model *m, Metrics *out) {
  const Graph *g = m->graph;
  const Name *loss = m->loss && !g->spec.ntrain ? graph_find_name(g, m->loss) : NULL;
  if (loss) vec_push(m->arena, *out) = loss;
  for (uint32_t i = 0; i < g->spec.ntrain; i++) {
    const Name *n = graph_find_name(g, g->spec.train[i].loss);
    bool known = false;
    for (uint32_t k = 0; k < out->n; k++) known |= out->at[k] == n;
    if (!known) vec_push(m->arena, *out) = n;
  }
  uint32_t losses = out->n;
  for (uint32_t i = 0; i < g->name.n; i++) {
    const Name *n = &g->name.at[i];
    bool known = n->kind != NAME_METRIC;
    for (uint32_t k = 0; k < losses; k++) known |= out->at[k] == n;
    if (!known) vec_push(m->arena, *out) = n;
  }
}

// Returns true if all listed metrics are scalars, else gives errors. Only `run` allows metrics with
// dims.
static bool scalars(const Model *m, const Metrics *list) {
  bool good = true;
  for (uint32_t i = 0; i < list->n; i++) {
    const Name *n = list->at[i];
    const Dims *dims = graph_node(m->graph, n->value)->dims;
    if (!dims->n) continue;
    good = false;
    diag_error(m->diag, DIAG_NOT_SCALAR, n->pos,
               "over a data set a metric is a scalar, and '%s' has dim '%s'", n->name,
               dim_get(m->graph->dims, dims->at[0])->name);
    diag_hint(m->diag, "reduce it too, e.g. with mean, or make it an output");
  }
  return good;
}

// Returns a table indexed by DeclId - 1: for a trained parameter, the node of g that reads the slot
// with its average.
static NodeId *averages_of(const Model *m, Graph *g) {
  uint32_t n = m->graph->decl.n;
  NodeId *instead = arena_array(m->arena, NodeId, n + 1);
  for (DeclId d = 1; d <= n; d++) {
    Decl slot = m->graph->decl.at[d - 1];
    bool trained = false;
    for (uint32_t i = 0; i < g->spec.ntrain; i++)
      trained |= train_trains(m->arena, &g->spec.train[i], &slot);
    if (!trained) continue;
    slot.kind = DECL_SLOT;
    slot.name = arena_printf(g->arena, "average.%s", slot.name);
    slot.of = d;
    slot.init = (Init){0};
    if (slot.type != TYPE_F64) slot.type = TYPE_F32;
    NodeId node = graph_decl_node(g, graph_decl(g, &slot));
    instead[d - 1] = graph_cast(g, node, m->graph->decl.at[d - 1].type);
  }
  return instead;
}

Graph *select_eval_as(Arena *a, const Model *m, const EvalAsk *ask, uint32_t *nmetrics,
                      EvalMetric **metric) {
  Metrics list = {0};
  Nodes roots = {0};
  DimId over = batch_dim(m);
  if (!over) return NULL;
  list_metrics(m, &list);
  if (!list.n) {
    diag_error(m->diag, DIAG_UNKNOWN_FETCH, (Pos){0},
               "the model has no loss and no metric to evaluate");
    return NULL;
  }
  if (!scalars(m, &list)) return NULL;
  for (uint32_t i = 0; i < list.n; i++) vec_push(m->arena, roots) = list.at[i]->value;
  Graph *g = graph_like(m->arena, m->graph, STAGE_GRAD);
  SelectCopy c = {.m = m,
                  .g = g,
                  .instead = ask->average ? averages_of(m, g) : NULL,
                  .rows = rows_mark(m->arena, m->graph, over).dim};
  const NodeId *map = select_into(&c, roots.n, roots.at);
  Split s = {.m = m, .g = g, .over = over};
  s.rows = rows_mark(m->arena, g, over);
  s.graded = mark_graded(m->arena, g, &s.rows);
  uint32_t count = graph_count(g);
  *nmetrics = list.n;
  *metric = arena_array(a, EvalMetric, list.n);
  for (uint32_t i = 0; i < list.n; i++) {
    s.name = list.at[i];
    (*metric)[i] = metric_build(&s, map[roots.at[i]], ask->whole && ask->whole[i], count);
  }
  return rows_count_means(a, g, &s.rows);
}

Graph *select_eval(Arena *a, const Model *m, uint32_t *nmetrics, EvalMetric **metric) {
  return select_eval_as(a, m, &(EvalAsk){0}, nmetrics, metric);
}
