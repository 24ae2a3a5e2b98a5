// Estimates the cost of a layout: places and lowers the graph under it, then counts the flops, the
// memory traffic, the collectives and the memory of one processor. search_cost returns the sum.
// cost_in_parts also returns what each part of the model contributes, from which lower bounds are
// computed.
#include <math.h>

#include "partition/search/layout_cost_internal.h"

// Returns whether the result of operation n is stored in memory: written once and read by each
// user. Results of other operations are assumed to be fused into their users.
static bool is_stored(const Node *n) {
  static const bool in_memory[] = {
      [REDUCE] = true,  [CONTRACT] = true,   [GATHER] = true, [COLLECTIVE] = true,
      [WINDOW] = false, [ORDERED] = true,    [MATRIX] = true, [REGION] = true,
      [SOURCE] = false, [POINTWISE] = false, [MOVE] = false};
  return in_memory[op_row((Op)n->op)->cls];
}

static bool is_read(const Node *n) { return is_stored(n) || op_is_decl((Op)n->op); }

// Returns the flops of contraction n in one step, in all rounds (iterations) of the loops around
// the contraction.
static double step_flops(const Graph *g, NodeId n) {
  return (double)contract_flops(g, n, NULL, NULL) *
         (double)region_times(g, graph_node(g, n)->region);
}

// Returns the seconds that operation n on matrices, such as cholesky, takes in one step, in all
// rounds of the loops around it, if all cores compute one matrix each.
static double matrix_seconds(const Graph *g, const Machine *machine, NodeId n, MatrixKind kind) {
  const Node *x = graph_node(g, n);
  const Dims *of = graph_node(g, x->args[0])->dims;
  double matrices = (double)region_times(g, x->region), right = x->nargs > 1;
  for (int i = 0; i < of->n; i++)
    if (of->at[i] != x->attr->dims[0] && of->at[i] != x->attr->dims[1])
      matrices *= (double)dim_get(g->dims, of->at[i])->size;
  for (int i = 0; right > 0 && i < graph_node(g, x->args[1])->dims->n; i++) {
    DimId d = graph_node(g, x->args[1])->dims->at[i];
    if (d != x->attr->dims[0] && !dims_has(of, d)) right *= (double)dim_get(g->dims, d)->size;
  }
  return matrices *
         matrix_time(kind, (double)dim_get(g->dims, x->attr->dims[0])->size,
                     (double)dim_get(g->dims, x->attr->dims[1])->size, right) /
         machine_flops(machine, TYPE_F64);
}

// Returns the flops per second of contraction n, which is computed in the type of its factors.
static double flops_rate(const Machine *m, const Graph *g, NodeId n) {
  return machine_flops(m, (Dtype)graph_node(g, graph_node(g, n)->args[0])->type);
}

// Returns the bytes that node n reads and writes. Of its arguments only those count that are stored
// in memory. A fused kernel also reads the stored arguments of its pointwise nodes, but these bytes
// are neglected.
static double node_traffic(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  double bytes = is_stored(node) ? (double)node_bytes(g, n) : 0;
  for (int i = 0; i < node->nargs; i++)
    if (is_read(graph_node(g, node->args[i]))) bytes += (double)node_bytes(g, node->args[i]);
  return bytes * (double)region_times(g, node->region);
}

// Returns an array, indexed by node, that is true for values that stay in memory for the whole
// step: inputs, and forward values that gradients read.
static bool *kept_values(Arena *a, const Graph *g) {
  bool *kept = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    kept[n] = node->op == OP_INPUT;
    for (int i = 0; i < node->nargs && node->origin->backward; i++) {
      const Node *arg = graph_node(g, node->args[i]);
      kept[node->args[i]] |= !arg->origin->backward && is_stored(arg);
    }
  }
  return kept;
}

// Returns whether a tensor is in memory between steps: parameters, states and optimizer states are.
static bool is_held(const Decl *d) { return d->node && d->kind != DECL_INPUT; }

static void cost_add(LayoutCost *sum, const LayoutCost *p, const SearchSample *sample) {
  double weight = sample->weight;
  sum->flops += weight * p->flops;
  sum->work += weight * p->work;
  sum->traffic += weight * p->traffic;
  sum->wire += weight * p->wire;
  sum->transfer += weight * p->transfer;
  sum->latency += weight * p->latency;
  sum->memory += sample->memory * p->memory;
}

typedef struct Call {
  const Bucket *bucket;
  double times, wire, seconds, latency;
} Call;

static Call call_of(const Graph *g, CollSizes *sizes, const Machine *machine, const Bucket *b) {
  const Node *first = graph_node(g, b->node[0]);
  CollKind kind;
  if (!coll_of((Op)first->op, &kind)) BUG("%s is no collective", op_row((Op)first->op)->text);
  int64_t bytes = coll_call_bytes(sizes, b->node, b->n);
  return (Call){.bucket = b,
                .times = (double)region_times(g, first->region),
                .wire = (double)coll_wire_bytes(kind, axes_size(g->mesh, first->attr->axes), bytes),
                .seconds = coll_seconds(machine, g->mesh, kind, first->attr->axes, bytes),
                .latency = coll_latency(machine, g->mesh, kind, first->attr->axes)};
}

// The seconds that collectives take to move each value of one sample (a graph of the search), by
// kind of Flow.
typedef struct FlowTable {
  const Graph *whole; // graph of the sample, before lowering
  const Edges *edges;
  double *flow[FLOWS]; // [value]
} FlowTable;

// Returns true if collective n sums or gathers, which is the kind FLOW_JOIN
// (layout_cost_internal.h). Other collectives are of the kind FLOW_SEND or FLOW_HALO.
static bool joins(const Node *n) {
  return n->op == OP_ALL_REDUCE || n->op == OP_ALL_GATHER || n->op == OP_REDUCE_SCATTER;
}

static uint32_t find_edge(const Edges *edges, NodeId source, DimId d) {
  for (uint32_t i = 0; i < edges->n; i++)
    if (edges->at[i].source == source && edges->at[i].d == d) return i;
  return edges->n;
}

// Returns the number of the value that collective n of the lowered graph moves. The number is the
// id of a node of the graph before lowering. For a halo, which exchanges edges of blocks, it is 1 +
// number of nodes + index of the Edge.
static uint32_t value_of(const Graph *lowered, const Node *n, const FlowTable *x) {
  uint32_t value = n->origin->of;
  if (n->op != OP_HALO) return value;
  uint32_t edge = find_edge(x->edges, value, dim_get(lowered->dims, n->attr->dims[0])->whole);
  return edge < x->edges->n ? graph_count(x->whole) + 1 + edge : value;
}

// Adds the seconds of a collective call, without its latency, to the values that the call moves, in
// proportion to their bytes.
static void share_call(const Graph *g, CollSizes *sizes, const Call *c, const FlowTable *x) {
  const Node *first = graph_node(g, c->bucket->node[0]);
  Flow flow = joins(first) ? FLOW_JOIN : first->op == OP_HALO ? FLOW_HALO : FLOW_SEND;
  double all = 0;
  for (uint32_t i = 0; i < c->bucket->n; i++)
    all += (double)coll_call_bytes(sizes, &c->bucket->node[i], 1);
  for (uint32_t i = 0; i < c->bucket->n && all > 0; i++)
    x->flow[flow][value_of(g, graph_node(g, c->bucket->node[i]), x)] +=
        c->times * (c->seconds - c->latency) *
        (double)coll_call_bytes(sizes, &c->bucket->node[i], 1) / all;
}

// Returns the cost of lowered graph g; its field LayoutCost.seconds is not set. If x is not NULL,
// also adds the seconds of each collective to the values that the collective moves.
static LayoutCost cost_of(Arena *a, const Graph *g, const Machine *machine, const FlowTable *x) {
  LayoutCost p = {0};
  const Buckets *buckets = collectives_bucket(a, g, machine);
  CollSizes *sizes = coll_sizes_new(a, g);
  for (uint32_t i = 0; i < buckets->n; i++) {
    Call c = call_of(g, sizes, machine, &buckets->bucket[i]);
    p.wire += c.times * c.wire;
    p.transfer += c.times * c.seconds;
    p.latency += c.times * c.latency;
    if (x) share_call(g, sizes, &c, x);
  }
  bool *kept = kept_values(a, g);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    if (graph_node(g, n)->op == OP_CONTRACT) {
      p.flops += step_flops(g, n);
      p.work += step_flops(g, n) / flops_rate(machine, g, n);
    }
    MatrixKind matrix;
    if (op_matrix((Op)graph_node(g, n)->op, &matrix))
      p.work += matrix_seconds(g, machine, n, matrix);
    p.traffic += node_traffic(g, n);
    if (kept[n]) p.memory += (double)node_bytes(g, n);
  }
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_UPDATE)
      p.traffic += (double)node_bytes(g, g->output.at[i].value);
  for (uint32_t d = 0; d < g->decl.n; d++)
    if (is_held(&g->decl.at[d])) p.memory += (double)node_bytes(g, g->decl.at[d].node);
  return p;
}

// Changes the axis numbers of node `pin`, a layout(...) request of the model, from mesh `from` to
// mesh `to`. Axes of equal names correspond. Axes that `to` lacks are dropped, because the search
// also estimates meshes that have only one or two axes of a candidate.
static void move_pin(Arena *a, Node *pin, const Mesh *from, const Mesh *to) {
  const Attr *old = pin->attr;
  Attr *moved = arena_copy(a, old, sizeof *old);
  DimId *dims = arena_array(a, DimId, old->ndims + 1);
  moved->dims = dims;
  moved->ndims = moved->axes.n = 0;
  for (int i = 0; i < old->ndims; i++) {
    int axis = mesh_axis(to, from->axis[old->axes.at[i]].name);
    if (axis < 0) continue;
    dims[moved->ndims++] = old->dims[i];
    moved->axes.at[moved->axes.n++] = (uint8_t)axis;
  }
  node_set_attr(pin, moved);
}

Graph layout_apply(Arena *a, const Graph *g, const Mesh *mesh, const Layout *layout) {
  Graph out = graph_with_dims(a, g, dim_table_whole(a, g->dims));
  out.mesh = mesh;
  out.layout = *layout;
  bool own = false; // whether out.node.at is a copy that may be changed
  for (NodeId n = 1; n <= graph_count(g); n++) {
    if (graph_node(g, n)->op != OP_PIN) continue;
    if (!own) out.node.at = arena_copy(a, g->node.at, g->node.n * sizeof *g->node.at);
    own = true;
    move_pin(a, &out.node.at[n], g->mesh, mesh);
  }
  return out;
}

static double cost_seconds(const Machine *m, const LayoutCost *p) {
  return p->work + p->traffic / m->memory_rate + p->transfer;
}

LayoutCost search_cost(const SearchTask *t, const Mesh *mesh, const Layout *layout) {
  LayoutCost sum = {0};
  for (uint32_t i = 0; i < t->nsamples; i++) {
    Arena *a = arena_new();
    Graph g = layout_apply(a, t->sample[i].graph, mesh, layout);
    LayoutCost one = cost_of(
        a,
        collectives_share(a, lower(a, place_silent(a, t->sample[i].known, &g, layout, t->machine))),
        t->machine, NULL);
    cost_add(&sum, &one, &t->sample[i]);
    arena_free(a);
  }
  sum.seconds = cost_seconds(t->machine, &sum);
  return sum;
}

// -- parts --------------------------------------------------------------------------------------

// Visits the parts (amounts of work or memory) of a placed sample graph, in a fixed order. If
// `table` is not NULL, the visitor appends the parts to `table`. Else it writes the split and the
// share of each part under the placement.
typedef struct PartVisitor {
  const Graph *g;
  const Placer *placer;
  double weight, memory; // of the sample
  const Machine *machine;
  Arena *a;
  PartTable *table;
  uint8_t *split; // next entry of PartCosts.split
  double *share;  // next entry of PartCosts.share
} PartVisitor;

static void visit_part(PartVisitor *t, bool held, double amount, int ndims, const DimId *dims,
                       const Axes *axes) {
  Part p = {.amount = amount * (held ? t->memory : t->weight), .held = held};
  uint8_t split = 0;
  double share = 1;
  for (int i = 0; i < ndims; i++) {
    p.size[i] = dim_get(t->g->dims, dims[i])->size;
    if (axes[i].n && !split) split = (uint8_t)(1 + i);
    share *= (double)block_length(t->g->mesh, p.size[i], axes[i]) / (double)p.size[i];
  }
  if (t->table)
    vec_push(t->a, t->table->part) = p;
  else
    *t->split++ = split, *t->share++ = share;
}

static void visit_value(PartVisitor *t, bool held, double amount, NodeId n, const Sharding *s) {
  const Dims *dims = graph_node(t->g, n)->dims;
  visit_part(t, held, amount, dims->n, dims->at, s->split);
}

static void visit_contraction(PartVisitor *t, NodeId n) {
  const Node *node = graph_node(t->g, n);
  DimId dims[MAX_PART_DIMS];
  Axes axes[MAX_PART_DIMS] = {{0}};
  int k = 0;
  for (int i = 0; i < node->dims->n; i++, k++) {
    dims[k] = node->dims->at[i];
    axes[k] = t->placer->result.computed[n]->split[i];
  }
  for (int i = 0; i < node->attr->ndims; i++, k++) {
    dims[k] = node->attr->dims[i];
    axes[k] = t->placer->inner[n][i];
  }
  visit_part(t, false, step_flops(t->g, n) / flops_rate(t->machine, t->g, n), k, dims, axes);
}

// Visits the memory traffic with which window operation n reads its argument. A processor reads at
// least the elements from which its block of the result is made. `second` is the seconds that a
// byte takes.
static void visit_window(PartVisitor *t, NodeId n, double second) {
  const Node *node = graph_node(t->g, n);
  double bytes = fmin((double)node_bytes(t->g, n), (double)node_bytes(t->g, node->args[0]));
  Sharding s = read_sharding(t->placer, n, 0);
  int from = dims_index(graph_node(t->g, node->args[0])->dims, node->attr->dims[0]);
  if (sharding_dim_of(&s, 0) < 0)
    for (int i = 0; i < node->attr->nto; i++)
      axes_join(&s.split[from],
                t->placer->result.computed[n]->split[dims_index(node->dims, node->attr->to[i])]);
  visit_value(t, false, second * bytes, node->args[0], &s);
}

static void visit_traffic(PartVisitor *t, NodeId n) {
  const Node *node = graph_node(t->g, n);
  double second = (double)region_times(t->g, node->region) / t->machine->memory_rate;
  if (is_stored(node))
    visit_value(t, false, second * (double)node_bytes(t->g, n), n, t->placer->result.computed[n]);
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    if (!is_read(graph_node(t->g, arg))) continue;
    if (op_row((Op)node->op)->cls == WINDOW && node->attr->nto) {
      visit_window(t, n, second);
      continue;
    }
    Sharding need = read_sharding(t->placer, n, i);
    visit_value(t, false, second * (double)node_bytes(t->g, arg), arg, &need);
  }
}

static bool splits(const Sharding *s, int but) {
  int k = sharding_dim_of(s, 0);
  return k >= 0 && k != but;
}

// Returns a sharding of node n in which axis 0 splits a dim other than `but` (-1: any dim). Takes
// the first of these: the sharding in which n is computed, the settled one that readers see, the
// one that a reader needs. Returns replicated if none splits such a dim.
static Sharding finest_sharding(const Placer *p, NodeId n, int but) {
  Sharding replicated = {0}, all[2] = {*p->result.computed[n], *p->result.settled[n]};
  for (int i = 0; i < 2; i++)
    if (splits(&all[i], but)) return all[i];
  for (const Read *r = reads_of(p, n); r->node; r++) {
    Sharding need = need_of(p, r);
    if (splits(&need, but)) return need;
  }
  return replicated;
}

static void visit_graph(PartVisitor *t, Arena *scratch) {
  const Graph *g = t->g;
  bool *kept = kept_values(scratch, g);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    if (graph_node(g, n)->op == OP_CONTRACT) visit_contraction(t, n);
    MatrixKind matrix;
    if (op_matrix((Op)graph_node(g, n)->op, &matrix)) // the result has the dims that may be split
      visit_value(t, false, matrix_seconds(g, t->machine, n, matrix), n,
                  t->placer->result.computed[n]);
    visit_traffic(t, n);
    if (!kept[n]) continue;
    Sharding s = finest_sharding(t->placer, n, -1);
    visit_value(t, true, (double)node_bytes(g, n), n, &s);
  }
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *out = &g->output.at[i];
    if (out->kind != OUT_UPDATE) continue;
    Sharding s = output_sharding(t->placer, out);
    visit_value(t, false, (double)node_bytes(g, out->value) / t->machine->memory_rate, out->value,
                &s);
  }
  for (uint32_t d = 0; d < g->decl.n; d++) {
    NodeId n = g->decl.at[d].node;
    if (is_held(&g->decl.at[d]))
      visit_value(t, true, (double)node_bytes(g, n), n, t->placer->result.computed[n]);
  }
}

static void find_edges(Arena *a, const Graph *g, Edges *out) {
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_WINDOW || !node->attr->nto ||
        find_edge(out, node->args[0], node->attr->dims[0]) < out->n)
      continue;
    vec_push(a, *out) = (Edge){node->args[0], node->attr->dims[0]};
  }
}

static uint32_t values_of(const SearchTask *t, const PartTable *p, uint32_t sample) {
  return graph_count(t->sample[sample].graph) + 1 + p->edge[sample].n;
}

PartTable *parts_new(Arena *a, const SearchTask *t) {
  PartTable *p = arena_new_of(a, PartTable);
  *p = (PartTable){.edge = arena_array(a, Edges, t->nsamples)};
  for (uint32_t i = 0; i < t->nsamples; i++) {
    const SearchSample *sample = &t->sample[i];
    find_edges(a, sample->graph, &p->edge[i]);
    p->nvalues += values_of(t, p, i);
    const Mesh single = {0};
    Graph g = layout_apply(a, sample->graph, &single, &(Layout){0});
    PartVisitor x = {.g = &g,
                     .weight = sample->weight,
                     .memory = sample->memory,
                     .machine = t->machine,
                     .a = a,
                     .table = p};
    x.placer = placer_of(place_silent(a, sample->known, &g, &g.layout, t->machine));
    visit_graph(&x, a);
  }
  p->weight = arena_array(a, double, p->nvalues);
  uint32_t value = 0;
  for (uint32_t i = 0; i < t->nsamples; i++)
    for (uint32_t n = values_of(t, p, i); n > 0; n--) p->weight[value++] = t->sample[i].weight;
  return p;
}

// Adds the memory traffic of collectives, in seconds, to the values that the collectives move. The
// traffic is their reads and writes, and the reads of their results unless these count as reads of
// a stored value.
static void move_traffic(const Graph *lowered, const Machine *machine, const FlowTable *x) {
  for (NodeId n = 1; n <= graph_count(lowered); n++) {
    const Node *node = graph_node(lowered, n);
    double second = (double)region_times(lowered, node->region) / machine->memory_rate;
    if (op_row((Op)node->op)->cls == COLLECTIVE) {
      x->flow[joins(node) ? FLOW_JOIN_MEMORY : FLOW_SEND_MEMORY][value_of(lowered, node, x)] +=
          node_traffic(lowered, n) / machine->memory_rate;
      continue;
    }
    for (int i = 0; i < node->nargs; i++) {
      const Node *arg = graph_node(lowered, node->args[i]);
      uint32_t value = arg->origin->of;
      if (op_row((Op)arg->op)->cls == COLLECTIVE &&
          !(value && is_read(graph_node(x->whole, value))))
        x->flow[joins(arg) ? FLOW_JOIN_MEMORY : FLOW_SEND_MEMORY][value_of(lowered, arg, x)] +=
            second * (double)node_bytes(lowered, node->args[i]);
    }
  }
}

static bool flows(const FlowTable *x, uint32_t value) {
  for (int f = 0; f < FLOWS; f++)
    if (x->flow[f][value] > 0) return true;
  return false;
}

// Fills change[] with CHANGE_*, what axis 0 does to each node, then to each Edge (elements at block
// borders that windows read). A split of the dim along which the Edge lies does not shorten it; a
// split of another dim does.
static void find_changes(const Placer *p, const FlowTable *x, uint8_t *change) {
  uint32_t n = graph_count(x->whole) + 1;
  for (NodeId i = 1; i < n; i++) {
    Sharding s = finest_sharding(p, i, -1);
    bool split = sharding_dim_of(&s, 0) >= 0;
    change[i] = flows(x, i) ? CHANGE_MOVED : split ? CHANGE_SPLIT : 0;
  }
  for (uint32_t i = 0; i < x->edges->n; i++) {
    const Dims *dims = graph_node(x->whole, x->edges->at[i].source)->dims;
    Sharding s = finest_sharding(p, x->edges->at[i].source, dims_index(dims, x->edges->at[i].d));
    change[n + i] = sharding_dim_of(&s, 0) >= 0 ? CHANGE_SPLIT : flows(x, n + i) ? CHANGE_MOVED : 0;
  }
}

PartCosts cost_in_parts(Arena *a, const SearchTask *t, const PartTable *parts, const Mesh *mesh,
                        const Layout *layout) {
  PartCosts out = {.split = arena_array(a, uint8_t, parts->part.n + 1),
                   .share = arena_array(a, double, parts->part.n + 1),
                   .change = arena_array(a, uint8_t, parts->nvalues)};
  for (int f = 0; f < FLOWS; f++) out.flow[f] = arena_array(a, double, parts->nvalues);
  PartVisitor x = {.machine = t->machine, .split = out.split, .share = out.share};
  for (uint32_t i = 0, first = 0; i < t->nsamples; first += values_of(t, parts, i++)) {
    Arena *scratch = arena_new();
    Graph g = layout_apply(scratch, t->sample[i].graph, mesh, layout);
    Placement *p = place_silent(scratch, t->sample[i].known, &g, layout, t->machine);
    const Graph *lowered = collectives_share(scratch, lower(scratch, p));
    FlowTable taken = {.whole = &g, .edges = &parts->edge[i]};
    for (int f = 0; f < FLOWS; f++) taken.flow[f] = out.flow[f] + first;
    LayoutCost one = cost_of(scratch, lowered, t->machine, &taken);
    cost_add(&out.cost, &one, &t->sample[i]);
    move_traffic(lowered, t->machine, &taken);
    x.g = &g, x.placer = placer_of(p), x.a = scratch;
    visit_graph(&x, scratch);
    find_changes(placer_of(p), &taken, out.change + first);
    arena_free(scratch);
  }
  out.cost.seconds = cost_seconds(t->machine, &out.cost);
  return out;
}
