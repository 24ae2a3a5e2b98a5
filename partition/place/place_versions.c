// Finds the shardings in which each value is needed, and the conversions that make them. `lower`
// makes nodes of the conversions; place_sent.c counts the bytes that they send and their calls.
//
// A version is a value in one sharding. Each version that some node or output reads is made once.
// Versions with full sums are made from the settled version or from each other, so that partial
// sums are reduced once.
#include "partition/sharding/sharding_internal.h"

Versions versions_new(Arena *scratch, const Placer *p) {
  return (Versions){.p = p,
                    .scratch = scratch,
                    .of = arena_array(scratch, Version *, graph_count(p->g) + 1),
                    .paths = paths_new(scratch)};
}

static const Version *find_version(const Versions *v, NodeId n, const Sharding *s) {
  for (const Version *x = v->of[n]; x; x = x->next)
    if (sharding_equal(x->s, s)) return x;
  return NULL;
}

const Version *version_add(Versions *v, NodeId n, const Sharding *s, NodeId node) {
  Version *x = arena_new_of(v->scratch, Version);
  *x = (Version){.s = s, .node = node, .next = v->of[n]};
  return v->of[n] = x;
}

// Finds the steps that convert value n from sharding *from to sharding *to. Returns the number of
// steps. Sets *bytes to the weighted bytes that one processor sends in all of them.
static int find_path(const Versions *v, NodeId n, const Sharding *from, const Sharding *to,
                     ConvertStep step[MAX_STEPS], double *bytes) {
  const Node *node = graph_node(v->p->g, n);
  Dtype type = (Dtype)node->type;
  if (from->partial.n && from->monoid == MONOID_SUM && dtype_is_float(type))
    type = dtype_accumulator(type); // lowering computes partial sums in this wider type
  return paths_find(v->paths, v->scratch, v->p, node->dims, type, from, to, step, bytes);
}

static double path_bytes(const Versions *v, NodeId n, const Sharding *from, const Sharding *to) {
  ConvertStep step[MAX_STEPS];
  double bytes;
  find_path(v, n, from, to, step, &bytes);
  return bytes;
}

static const Version *walk_path(Versions *v, NodeId n, const Version *from, const Sharding *want,
                                const Read *user) {
  ConvertStep step[MAX_STEPS];
  double bytes;
  int count = find_path(v, n, from->s, want, step, &bytes);
  v->bytes += bytes * (double)region_times(v->p->g, graph_node(v->p->g, n)->region);
  for (int i = 0; i < count; i++) {
    NodeId node = v->convert(v, n, from, &step[i], user);
    const Sharding *s = &step[i].sharding;
    from = version_add(v, n, arena_copy(v->scratch, s, sizeof *s), node);
  }
  return from;
}

// Returns the version of n (n in one sharding) with full sums whose conversion to `want` costs
// least. At equal costs the version that was made first wins.
static const Version *best_version(const Versions *v, NodeId n, const Sharding *want) {
  const Version *best = NULL;
  double lowest = 0;
  for (const Version *x = v->of[n]; x; x = x->next) {
    if (x->s->partial.n) continue;
    double bytes = path_bytes(v, n, x->s, want);
    if (!best || bytes <= lowest) best = x, lowest = bytes;
  }
  return best;
}

static const Version *computed(const Versions *v, NodeId n) {
  const Version *x = v->of[n];
  while (x->next) x = x->next;
  return x;
}

// Makes n in the sharding of another reader before n is made in sharding `want`, if this order
// sends less. For example another reader needs n gathered: n in sharding `want` is then a slice of
// the gathered n, which sends nothing.
static void make_before(Versions *v, NodeId n, const Sharding *want, const Read *user) {
  double own = path_bytes(v, n, best_version(v, n, want)->s, want);
  if (own <= 0) return;
  for (const Read *r = reads_of(v->p, n); r->node; r++) {
    Sharding need = need_of(v->p, r);
    if (need.partial.n || find_version(v, n, &need) || sharding_equal(&need, want)) continue;
    double there = path_bytes(v, n, best_version(v, n, &need)->s, &need),
           back = path_bytes(v, n, want, &need);
    double first = there + path_bytes(v, n, &need, want),
           second = own + (back < there ? back : there);
    if (first >= second) continue;
    walk_path(v, n, best_version(v, n, &need), &need, user);
    return;
  }
}

static NodeId make_version(Versions *v, NodeId n, const Sharding *want, const Read *user) {
  const Version *x = find_version(v, n, want);
  if (x) return x->node;
  const Sharding *settled = v->p->result.settled[n];
  const Version *made = computed(v, n);
  if (want->partial.n && made->s->monoid == want->monoid)
    return walk_path(v, n, made, want, user)->node;
  if (!find_version(v, n, settled)) walk_path(v, n, made, settled, user);
  if (!find_version(v, n, want)) make_before(v, n, want, user);
  x = find_version(v, n, want);
  return x ? x->node : walk_path(v, n, best_version(v, n, want), want, user)->node;
}

// Replaces window *n by its source, and *want by the sharding of the source that gives the window
// in *want. The function lower_below also converts the smaller source. Repeats this for windows of
// windows, and stops at a window that changes a converted dim.
static void request_below(const Placer *p, NodeId *n, Sharding *want) {
  for (;;) {
    const Node *node = graph_node(p->g, *n);
    const Sharding *at = p->result.computed[*n];
    if (node->op != OP_WINDOW || at->partial.n) return;
    Sharding below = read_sharding(p, *n, 0);
    if (sharding_elements(p->g, graph_node(p->g, node->args[0])->dims, &below) >
        sharding_elements(p->g, node->dims, at))
      return;
    for (int k = 0; k < node->dims->n; k++) {
      if (axes_equal(at->split[k], want->split[k])) continue;
      if (!window_passes_dim(node, node->dims->at[k])) return;
      below.split[dims_index(graph_node(p->g, node->args[0])->dims, node->dims->at[k])] =
          want->split[k];
    }
    *n = node->args[0], *want = below;
  }
}

NodeId version_for(Versions *v, NodeId n, const Read *reader) {
  Sharding want = need_of(v->p, reader);
  if (v->counts) request_below(v->p, &n, &want);
  return make_version(v, n, &want, reader);
}

// Converts the values that a loop collects, one in each step. The conversions run in the steps of
// the loop, so their nodes come before the `scan` node.
static void convert_collected(Versions *v, NodeId scan) {
  for (const Read *r = reads_of(v->p, scan); r->node; r++) {
    if (graph_node(v->p->g, r->node)->op != OP_COLLECT) continue;
    Sharding want = read_sharding(v->p, r->node, 1);
    make_version(v, graph_node(v->p->g, r->node)->args[1], &want,
                 &(Read){.node = r->node, .arg = 1});
  }
}

void versions_read(Versions *v, NodeId n, NodeId args[MAX_ARGS]) {
  const Node *node = graph_node(v->p->g, n);
  if (node->op == OP_SCAN) convert_collected(v, n);
  for (int i = 0; i < node->nargs; i++)
    args[i] = version_for(v, node->args[i], &(Read){.node = n, .arg = i});
}
