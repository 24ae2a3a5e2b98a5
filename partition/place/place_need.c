// Determines the sharding in which a node reads an argument, and in which an output reads its
// value, from the shardings chosen for both.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

Footprint window_footprint(const Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  const Axes *split = p->result.computed[n]->split;
  Footprint x = {.out_size = dim_get(p->g->dims, node->attr->to[0])->size,
                 .tap_size = 1,
                 .affine = node->attr->affine};
  x.out_axes = split[dims_index(node->dims, node->attr->to[0])];
  if (node->attr->nto > 1) {
    x.tap_size = dim_get(p->g->dims, node->attr->to[1])->size;
    x.tap_axes = split[dims_index(node->dims, node->attr->to[1])];
  }
  return x;
}

// Returns whether every block of the result of window n reads all of the source dim. Then need_halo
// asks for a gather of the source instead of a halo.
static bool reads_all(const Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  int64_t whole = dim_get(p->g->dims, node->attr->dims[0])->size, first, length;
  Footprint x = window_footprint(p, n);
  Axes all = x.out_axes;
  axes_join(&all, x.tap_axes);
  for (int64_t k = 0; all.n && k < axes_size(p->g->mesh, all); k++) {
    footprint_interval(p->g->mesh, &x, whole, axes_peer(p->g->mesh, all, 0, k), &first, &length);
    if (length < whole) return false;
  }
  return true;
}

// Sets need->split[j], the split in which window n reads dim j of its source. A halo works between
// any two splits, so this is the settled split of dim j. If dim j is not split, but an axis of the
// result splits another source dim, the split of the result is taken. The list ends before the
// first axis that another dim of *need uses.
static void need_halo(const Placer *p, NodeId n, int j, Sharding *need) {
  const Node *node = graph_node(p->g, n);
  if (reads_all(p, n)) return;
  const Sharding *settled = p->result.settled[node->args[0]];
  Axes split = settled->split[j],
       to = p->result.computed[n]->split[dims_index(node->dims, node->attr->to[0])];
  for (int i = 0; i < to.n && !split.n; i++)
    if (sharding_dim_of(settled, to.at[i]) >= 0) split = to;
  int free = 0;
  while (free < split.n && sharding_dim_of(need, split.at[free]) < 0 &&
         !axes_has(need->partial, split.at[free]))
    free++;
  need->split[j] = axes_head(split, free);
  for (int i = 0; i < need->split[j].n; i++) {
    int axis = need->split[j].at[i];
    if (!need->rule[axis]) need->rule[axis] = settled->rule[axis];
  }
}

// Returns the sharding in which node n, a scan or the final value of a carry, reads its argument i.
static Sharding need_in_loop(const Placer *p, NodeId n, int i) {
  const Node *node = graph_node(p->g, n);
  if (node->op == OP_FINAL) return i ? *p->result.computed[node->args[1]] : (Sharding){0};
  NodeId carry = p->graph->carry[n][i];
  return carry ? *p->result.computed[carry] : *p->result.settled[node->args[i]];
}

// Returns whether n reads an argument partial over some axis.
static bool reads_partial(const Placer *p, NodeId n) {
  uint64_t any;
  _Static_assert(sizeof any == MAX_AXES, "one byte for each axis");
  memcpy(&any, &p->linear[n * MAX_AXES], sizeof any);
  return any != 0;
}

// Reads the tables of the graph and not its nodes: it is called so often that their memory counts.
static Sharding need_of_dims(const Placer *p, NodeId n, int i) {
  const Sharding *at = p->result.computed[n];
  Sharding need = {0};
  memcpy(need.rule, at->rule, sizeof need.rule);
  const DimRole *role = placed_roles(p, n, i);
  int halo = -1, rank = placed_rank(p, n, i);
  for (int j = 0; j < rank; j++) {
    DimRole r = role[j];
    if (r.halo)
      halo = j;
    else if (r.kind == ROLE_KEEP)
      need.split[j] = at->split[r.at];
    if (r.kind == ROLE_INNER) need.split[j] = p->inner[n][r.at];
  }
  if (reads_partial(p, n)) {
    for (int a = 0; a < p->g->mesh->naxes; a++)
      if (p->linear[n * MAX_AXES + (uint32_t)a] >> i & 1) axes_append(&need.partial, a);
    if (need.partial.n) need.monoid = MONOID_SUM;
  }
  if (halo >= 0) need_halo(p, n, halo, &need);
  return need;
}

Sharding read_sharding(const Placer *p, NodeId n, int i) {
  if (!p->g->region.n) return need_of_dims(p, n, i);
  Op op = (Op)graph_node(p->g, n)->op;
  return op == OP_SCAN || op == OP_FINAL ? need_in_loop(p, n, i) : need_of_dims(p, n, i);
}

Sharding output_sharding(const Placer *p, const Output *o) {
  if (o->kind == OUT_VALUE) return *p->result.settled[o->value];
  DeclId target = o->target;
  NodeId source = p->g->decl.at[target - 1].node;
  if (source) return *p->result.settled[source];
  Subject s = subject_of_decl(p->g, target);
  Request w;
  request_resolve(p->g, p->result.layout, &s, &w);
  Sharding need = {0};
  for (int k = 0; k < s.dims.n; k++) {
    need.split[k] = w.hard[k];
    for (int i = 0; i < w.hard[k].n; i++) need.rule[w.hard[k].at[i]] = w.rule[k];
  }
  request_add_soft(&w, &need);
  return need;
}

Sharding need_of(const Placer *p, const Read *r) {
  return r->node ? read_sharding(p, r->node, r->arg)
                 : output_sharding(p, &p->g->output.at[r->output - 1]);
}

double place_work(const Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  if (node->op != OP_CONTRACT) return 0;
  return (double)contract_flops(p->g, n, p->result.computed[n]->split, p->inner[n]) *
         (double)region_times(p->g, node->region);
}

uint16_t place_reader_rule(const Placer *p, NodeId n, int k, int axis) {
  for (const Read *r = reads_of(p, n); r->node || r->output; r++) {
    Sharding need = need_of(p, r);
    if (axes_has(need.split[k], axis) && need.rule[axis]) return need.rule[axis];
  }
  return 0;
}

const char *reader_text(Arena *a, const Graph *g, const Read *r) {
  if (!r->node) {
    const Output *out = &g->output.at[r->output - 1];
    return arena_printf(a, "%s %s", out->kind == OUT_UPDATE ? "the update of" : "the output",
                        out->name);
  }
  const Node *node = graph_node(g, r->node);
  const char *op = node_source_name(g, r->node);
  return node->origin->pos.line ? arena_printf(a, "%s at line %u", op, node->origin->pos.line) : op;
}
