// The shardings in which each value exists, and the conversions that make them. `lower` makes nodes
// of them, place_improve.c counts the bytes that they send.
//
// A value has a version for each sharding in which it is read; each is made once. Versions without
// partial sums come from the settled one, so that sums are reduced once.
#include "partition/sharding/sharding_internal.h"

Versions versions_new(Arena *scratch, const Placer *p) {
  return (Versions){.p = p,
                    .scratch = scratch,
                    .of = arena_array(scratch, Version *, graph_count(p->result.graph) + 1)};
}

static const Version *find_version(const Versions *v, NodeId n, const Sharding *s) {
  int ndims = graph_node(v->p->result.graph, n)->dims.n;
  for (const Version *x = v->of[n]; x; x = x->next)
    if (sharding_equal(&x->s, s, ndims)) return x;
  return NULL;
}

const Version *version_add(Versions *v, NodeId n, const Sharding *s, NodeId node) {
  Version *x = arena_new_of(v->scratch, Version);
  *x = (Version){.s = *s, .node = node, .next = v->of[n]};
  return v->of[n] = x;
}

// Steps from one sharding of n to another; *bytes as convert_path.
static int find_path(const Versions *v, NodeId n, const Sharding *from, const Sharding *to,
                     ConvertStep step[MAX_STEPS], double *bytes) {
  const Node *node = graph_node(v->p->result.graph, n);
  Dtype type = (Dtype)node->type;
  if (from->partial.n && from->monoid == MONOID_SUM && dtype_is_float(type))
    type = dtype_accumulator(type); // lower computes partial sums in it
  return convert_path(v->scratch, v->p->machine, v->p->result.graph, &node->dims, type, from, to,
                      step, bytes);
}

static double path_bytes(const Versions *v, NodeId n, const Sharding *from, const Sharding *to) {
  ConvertStep step[MAX_STEPS];
  double bytes;
  find_path(v, n, from, to, step, &bytes);
  return bytes;
}

static const Version *walk_path(Versions *v, NodeId n, const Version *from, const Sharding *want,
                                const Reader *user) {
  ConvertStep step[MAX_STEPS];
  double bytes;
  int count = find_path(v, n, &from->s, want, step, &bytes);
  v->bytes +=
      bytes * (double)region_times(v->p->result.graph, graph_node(v->p->result.graph, n)->region);
  for (int i = 0; i < count; i++) {
    NodeId node = v->convert ? v->convert(v, n, from, &step[i], user) : 0;
    from = version_add(v, n, &step[i].sharding, node);
  }
  return from;
}

// The version with full sums from which `want` costs least; of equals the oldest.
static const Version *best_version(const Versions *v, NodeId n, const Sharding *want) {
  const Version *best = NULL;
  double lowest = 0;
  for (const Version *x = v->of[n]; x; x = x->next) {
    if (x->s.partial.n) continue;
    double bytes = path_bytes(v, n, &x->s, want);
    if (!best || bytes <= lowest) best = x, lowest = bytes;
  }
  return best;
}

static const Version *computed(const Versions *v, NodeId n) {
  const Version *x = v->of[n];
  while (x->next) x = x->next;
  return x;
}

// Makes the version of another reader of n first, if both together then cost less: blocks of a
// value that is gathered anyway are free.
static void make_before(Versions *v, NodeId n, const Sharding *want, const Reader *user) {
  const PlaceGraph *x = v->p->graph;
  const Graph *g = v->p->result.graph;
  double own = path_bytes(v, n, &best_version(v, n, want)->s, want);
  if (own <= 0) return;
  for (uint32_t k = x->use_start[n]; k < x->use_start[n + 1]; k++) {
    const Node *other = graph_node(g, x->use[k]);
    for (int i = 0; i < other->nargs; i++) {
      if (other->args[i] != n) continue;
      Sharding need = read_sharding(v->p, x->use[k], i);
      if (need.partial.n || find_version(v, n, &need) ||
          sharding_equal(&need, want, graph_node(g, n)->dims.n))
        continue;
      double there = path_bytes(v, n, &best_version(v, n, &need)->s, &need),
             back = path_bytes(v, n, want, &need);
      double first = there + path_bytes(v, n, &need, want),
             second = own + (back < there ? back : there);
      if (first >= second) continue;
      walk_path(v, n, best_version(v, n, &need), &need, user);
      return;
    }
  }
}

NodeId version_for(Versions *v, NodeId n, const Sharding *want, const Reader *user) {
  const Version *x = find_version(v, n, want);
  if (x) return x->node;
  const Sharding *settled = &v->p->result.settled[n];
  const Version *made = computed(v, n);
  if (want->partial.n && made->s.monoid == want->monoid)
    return walk_path(v, n, made, want, user)->node;
  if (!find_version(v, n, settled)) walk_path(v, n, made, settled, user);
  if (!find_version(v, n, want)) make_before(v, n, want, user);
  x = find_version(v, n, want);
  return x ? x->node : walk_path(v, n, best_version(v, n, want), want, user)->node;
}

// Values that a loop collects are converted in its steps, so before the node of the loop.
static void convert_collected(Versions *v, NodeId scan) {
  const PlaceGraph *x = v->p->graph;
  for (uint32_t k = x->use_start[scan]; k < x->use_start[scan + 1]; k++) {
    const Node *user = graph_node(v->p->result.graph, x->use[k]);
    if (user->op != OP_COLLECT) continue;
    Sharding need = read_sharding(v->p, x->use[k], 1);
    version_for(v, user->args[1], &need, &(Reader){.node = user});
  }
}

void versions_read(Versions *v, NodeId n, NodeId args[MAX_ARGS]) {
  const Node *node = graph_node(v->p->result.graph, n);
  if (node->op == OP_SCAN) convert_collected(v, n);
  for (int i = 0; i < node->nargs; i++) {
    Sharding need = read_sharding(v->p, n, i);
    args[i] = version_for(v, node->args[i], &need, &(Reader){.node = node});
  }
}

// Moves a conversion of what windows make of *n below them, as lower_below does: the same request
// of the source. Only dims that the windows leave as they are may change.
static void request_below(const Placer *p, NodeId *n, Sharding *want) {
  const Graph *g = p->result.graph;
  for (;;) {
    const Node *node = graph_node(g, *n);
    const Sharding *at = &p->result.computed[*n];
    if (node->op != OP_WINDOW || at->partial.n) return;
    Sharding below = read_sharding(p, *n, 0);
    if (sharding_elements(g, &graph_node(g, node->args[0])->dims, &below) >
        sharding_elements(g, &node->dims, at))
      return;
    for (int k = 0; k < node->dims.n; k++) {
      if (axes_equal(at->split[k], want->split[k])) continue;
      if (!window_passes_dim(node, node->dims.at[k])) return;
      below.split[dims_index(&graph_node(g, node->args[0])->dims, node->dims.at[k])] =
          want->split[k];
    }
    *n = node->args[0], *want = below;
  }
}

double versions_bytes(const Placer *p) {
  const Graph *g = p->result.graph;
  Arena *scratch = arena_new();
  Versions v = versions_new(scratch, p);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op == OP_SCAN) convert_collected(&v, n);
    for (int i = 0; i < node->nargs; i++) {
      NodeId arg = node->args[i];
      Sharding need = read_sharding(p, n, i);
      request_below(p, &arg, &need);
      version_for(&v, arg, &need, &(Reader){.node = node});
    }
    version_add(&v, n, &p->result.computed[n], 0);
  }
  for (uint32_t o = 0; o < g->output.n; o++) {
    NodeId value = g->output.at[o].value;
    Sharding need = output_sharding(p, &g->output.at[o]);
    request_below(p, &value, &need);
    version_for(&v, value, &need, &(Reader){.output = &g->output.at[o]});
  }
  arena_free(scratch);
  return v.bytes;
}
