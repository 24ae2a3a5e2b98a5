// Fusion: groups the nodes of one processor's graph into kernels, GEMMs, collectives and aliases
// (docs/decisions.md, 16). Input: a graph in which each value has a physical order (order.c).
// Output: a Fusion, whose groups are in a valid order of execution.
//
// 1. Roles (fuse_roles.c): GEMMs and collectives are groups of their own. A rename is an alias: its
//    value has the memory of its argument. Numbers and broadcasts are recomputed where they are
//    used. The other nodes belong to kernels.
// 2. Each node that is not recomputed begins as a cluster of its own: a set of nodes that becomes
//    one group. Clusters of kernels are merged while the loops of one kernel can compute all their
//    nodes (fuse_merge.c, fuse_form.c).
// 3. Each cluster becomes a group, and each kernel group gets its kernel (kernel_build.c).
//
//   %3 = mul(%1, %2); %4 = add(%0, %3); %5 = sum(%4)     step 2: one kernel, stores %5 only
#include "codegen/fuse/fuse_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct RecomputedSet {
  VEC(NodeId) node;
  VEC(NodeId) stack;
} RecomputedSet;

static int by_id(const void *x, const void *y) {
  NodeId a = *(const NodeId *)x, b = *(const NodeId *)y;
  return a < b ? -1 : a > b;
}

// Adds to set c the recomputed values that node `member` reads, directly or through other
// recomputed values. A value is recomputed if each kernel that uses it computes it (f->recomputed).
static void recomputed_add(Fuser *f, RecomputedSet *c, NodeId member) {
  vec_push(f->a, c->stack) = member;
  while (c->stack.n) {
    NodeId n = c->stack.at[--c->stack.n];
    const Node *x = graph_node(f->g, n);
    for (int i = 0; i < x->nargs; i++) {
      NodeId a = x->args[i];
      if (uses_address(f, n, i) || !f->recomputed[a] || f->mark[a] == f->stamp) continue;
      f->mark[a] = f->stamp;
      vec_push(f->a, c->node) = a;
      vec_push(f->a, c->stack) = a;
    }
  }
}

// Table by role of a node, which is what fusion decides to do with the node. An entry has the kind
// of group that the node becomes, and the reason for it that dumps print.
static const struct {
  GroupKind kind;
  const char *why;
} of_role[] = {
    [ROLE_SOURCE] = {GROUP_SOURCE, "in memory"},
    [ROLE_NUMBER] = {GROUP_SOURCE, "a number, computed where it is used"},
    [ROLE_KERNEL] = {GROUP_KERNEL, "kernel"},
    [ROLE_GEMM] = {GROUP_GEMM, "a large contraction: library product"},
    [ROLE_COLLECTIVE] = {GROUP_COLLECTIVE, "collective"},
    [ROLE_ORDERED] = {GROUP_ORDERED, "works on whole rows or matrices: the runtime's own code"},
    [ROLE_ALIAS] = {GROUP_ALIAS, "the same memory under other dims"},
    [ROLE_LOOP] = {GROUP_LOOP, "a loop: values of its steps stand before it"},
};

static const char *why_kernel(Fuser *f, const Cluster *c) {
  bool reduces = false;
  for (uint32_t i = 0; i < c->n; i++) {
    NodeId n = c->node[i];
    reduces |= op_row((Op)graph_node(f->g, n)->op)->cls == REDUCE || contract_is_dot(f->g, n);
    if (!op_tiles(f->g, n)) continue;
    const char *why =
        f->gemm[n] ? "a library product would need its windows in memory" : f->no_gemm[n];
    return why ? arena_printf(f->a, "generated contraction (%s)", why) : "generated contraction";
  }
  return reduces ? "reduction" : "pointwise";
}

// Returns a text: what a product does with its sums, such as "; adds %7, stores gelu_tanh".
static const char *tail_text(Arena *a, const GemmTail *t) {
  static const char *const does[] = {
      [GEMM_ADDEND] = "adds", [GEMM_BIAS] = "adds the bias", [GEMM_AUX] = "reads"};
  const char *text = "";
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (t->extra[i])
      text = arena_printf(a, "%s; %s %%%u", text, i == GEMM_AUX && t->keeps ? "stores" : does[i],
                          t->extra[i]);
  return t->act ? arena_printf(a, "%s; applies %s", text, gemm_act_text(t->act)) : text;
}

static const char *why_other(const Fuser *f, NodeId n) {
  const char *why =
      f->scores.why && f->scores.why[n] ? f->scores.why[n] : graph_node(f->g, n)->origin->why;
  if (!why) why = of_role[f->role[n]].why;
  const GemmTail *tail = f->tail[n];
  if (tail) return arena_printf(f->a, "%s%s", why, tail_text(f->a, tail));
  const LivePieces *p = f->role[n] == ROLE_GEMM ? f->gemm[n]->live : NULL;
  if (!p) return why;
  return arena_printf(f->a, "%s; a mask leaves %.0f %% of %s x %s", why, 100 * p->share,
                      dim_get(f->g->dims, p->blocks)->name, dim_get(f->g->dims, p->span)->name);
}

static void group_stored(Fuser *f, Group *g, uint32_t n, const NodeId *node) {
  g->stored = arena_array(f->a, NodeId, n);
  const GemmTail *t = f->tail[node[0]];
  for (uint32_t i = 0; i < n; i++)
    if (t ? node[i] == t->result || (t->keeps && node[i] == t->extra[GEMM_AUX])
          : g->kind != GROUP_KERNEL || value_stored(f, node[i]))
      g->stored[g->nstored++] = node[i];
}

static Group group_of(Fuser *f, const Cluster *c) {
  Group g = {.kind = of_role[f->role[c->node[0]]].kind};
  f->stamp += 2;
  RecomputedSet all = {0};
  for (uint32_t i = 0; i < c->n; i++) {
    vec_push(f->a, all.node) = c->node[i];
    f->mark[c->node[i]] = f->stamp;
  }
  group_stored(f, &g, c->n, c->node);
  if (g.kind == GROUP_KERNEL)
    for (uint32_t i = 0; i < c->n; i++) recomputed_add(f, &all, c->node[i]);
  qsort(all.node.at, all.node.n, sizeof *all.node.at, by_id);
  g.nnodes = all.node.n;
  g.node = all.node.at;
  g.outer = c->form.outer;
  g.inner = c->form.inner;
  g.load_bytes = c->form.load_bytes;
  g.store_bytes = c->form.store_bytes;
  g.merged = g.kind == GROUP_KERNEL ? c->n : 0;
  g.saved = c->saved;
  g.gemm = g.kind == GROUP_GEMM ? f->gemm[c->node[0]] : NULL;
  g.why = g.kind == GROUP_KERNEL ? why_kernel(f, c) : why_other(f, c->node[0]);
  return g;
}

static void group_source(Fuser *f, Fusion *out, NodeId n) {
  Group *g = &out->group[out->ngroups];
  *g = (Group){.kind = GROUP_SOURCE,
               .nnodes = 1,
               .nstored = f->role[n] == ROLE_SOURCE,
               .why = why_other(f, n)};
  g->node = arena_copy(f->a, &n, sizeof n);
  g->stored = g->node;
  out->of[n] = out->ngroups++;
}

// The first value of an earlier group that a group reads, and whether the use needs an address.
typedef struct Passed {
  NodeId value;
  bool address;
} Passed;

// Sets g->refusal: for each earlier group whose values group g reads, the reason why that group was
// not merged with g. `c` is the set of nodes from which g was made.
static void group_refusals(Fuser *f, const Fusion *out, const Cluster *c, Group *g) {
  VEC(MergeRefusal) refusal = {0};
  VEC(Passed) read = {0}; // merge_refusal has marks of its own
  f->stamp += 2;
  for (uint32_t i = 0; i < c->n; i++)
    for (uint32_t k = f->arg_at[c->node[i]]; k < f->arg_at[c->node[i] + 1]; k++) {
      NodeId arg = f->arg[k];
      const Cluster *from = f->cluster.at[f->of[arg]];
      if (!from || from == c || f->mark[from->node[0]] == f->stamp) continue;
      f->mark[from->node[0]] = f->stamp;
      vec_push(f->a, read) = (Passed){arg, f->arg_address[k]};
    }
  for (uint32_t i = 0; i < read.n; i++) {
    const Cluster *from = f->cluster.at[f->of[read.at[i].value]];
    vec_push(f->a, refusal) =
        (MergeRefusal){out->of[read.at[i].value], merge_refusal(f, from, c, read.at[i].address)};
  }
  g->refusal = refusal.at;
  g->nrefusals = refusal.n;
}

// Returns the most groups that there can be: the clusters, and nodes in no cluster.
static uint32_t most_groups(const Fuser *f) {
  uint32_t most = 1;
  for (NodeId n = 1; n <= f->count; n++) most += !f->of[n];
  for (uint32_t i = 1; i < f->cluster.n; i++) most += f->cluster.at[i] != NULL;
  return most;
}

// Adds the groups of all clusters, in their order.
static void group_clusters(Fuser *f, Fusion *out) {
  for (uint32_t r = 1; r < f->sequence.n; r++) {
    if (!f->sequence.at[r]) continue;
    const Cluster *c = f->cluster.at[f->sequence.at[r]];
    out->group[out->ngroups] = group_of(f, c);
    for (uint32_t i = 0; i < c->n; i++) out->of[c->node[i]] = out->ngroups;
    if (!f->opt->simulated) group_refusals(f, out, c, &out->group[out->ngroups]);
    out->ngroups++;
  }
}

// Values that are never stored belong to the first kernel that recomputes them, of the groups from
// number `first` on; those that no kernel computes get groups of their own.
static void group_recomputed(Fuser *f, Fusion *out, uint32_t first) {
  bool *seen = arena_array(f->a, bool, f->count + 1);
  for (uint32_t i = first; i < out->ngroups; i++)
    for (uint32_t j = 0; j < out->group[i].nnodes; j++) {
      NodeId n = out->group[i].node[j];
      if (f->of[n] || seen[n]) continue;
      seen[n] = true;
      out->of[n] = i;
    }
  for (NodeId n = 1; n <= f->count; n++)
    if (f->role[n] != ROLE_SOURCE && !f->of[n] && !seen[n]) group_source(f, out, n);
}

static Fusion *fusion_make(Fuser *f) {
  Fusion *out = arena_new_of(f->a, Fusion);
  out->graph = f->g;
  out->order = f->order;
  out->buckets = f->buckets;
  out->rows = f->rows;
  out->recomputed = arena_copy(f->a, f->recomputed, f->count + 1);
  out->update = arena_copy(f->a, f->update, f->count + 1);
  out->group = arena_array(f->a, Group, most_groups(f));
  out->of = arena_array(f->a, uint32_t, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (f->role[n] == ROLE_SOURCE) group_source(f, out, n);
  uint32_t first = out->ngroups;
  group_clusters(f, out);
  group_recomputed(f, out, first);
  return out;
}

// Finds for every contraction (a sum of products) the form in which a library GEMM computes it
// (gemm_form.c). The form tells which dims are m, n, k and batch. Forms are allocated in `a`.
static void gemms_find(Arena *a, Fuser *f) {
  Live *live = f->opt->gpu ? NULL : live_new(f->a, f->g, f->opt->blocked_rows);
  f->gemm = arena_array(f->a, const GemmForm *, f->count + 1);
  f->tail = arena_array(f->a, const GemmTail *, f->count + 1);
  f->no_gemm = arena_array(f->a, const char *, f->count + 1);
  f->no_tail = arena_array(f->a, uint8_t, f->count + 1);
  memset(f->no_tail, f->opt->fuse ? APART_NO_EPILOGUE : APART_FUSION_OFF, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++) {
    GemmForm form;
    if (graph_node(f->g, n)->op != OP_CONTRACT ||
        !gemm_form(f->g, f->order, f->rows, f->opt, n, &form, &f->no_gemm[n]))
      continue;
    form.live = live ? live_pieces(live, a, n, &form) : NULL;
    f->gemm[n] = arena_copy(a, &form, sizeof form);
  }
}

// Returns the first node of each loop or of a loop in it, by region.
static const NodeId *find_begins(Arena *a, const Graph *g) {
  NodeId *begin = arena_array(a, NodeId, g->region.n + 1);
  for (NodeId n = graph_count(g); n > 0 && g->region.n; n--)
    for (RegionId r = graph_node(g, n)->region; r; r = region_get(g, r)->parent) begin[r] = n;
  return begin;
}

Fusion *fuse(Arena *a, const Order *order, const Buckets *buckets, const CodegenOptions *opt) {
  bug_context("fuse", 0);
  Arena *scratch = arena_new();
  Fuser f = {.a = scratch, .g = order->graph, .order = order, .buckets = buckets, .opt = opt};
  f.count = graph_count(f.g);
  f.bytes = arena_array(scratch, int64_t, f.count + 1);
  for (NodeId n = 1; n <= f.count; n++) f.bytes[n] = node_bytes(f.g, n);
  f.scan = region_scans(scratch, f.g);
  f.begin = find_begins(scratch, f.g);
  f.part = graph_micro_batches(scratch, f.g);
  Rows rows = rows_find(a, f.g, opt->over);
  f.rows = arena_copy(a, &rows, sizeof rows);
  gemms_find(a, &f);
  if (opt->gpu && opt->fuse) f.scores = attention_recomputed(a, f.g, opt);
  roles_find(&f);
  clusters_make(&f);
  if (opt->fuse) {
    // Clusters are merged twice. After the first time it is known which values are stored
    // (f.resident). A value that costs little beside a stored value is then recomputed
    // (follows_cheaply).
    clusters_merge(&f);
    clusters_resident(&f);
    if (opt->epilogues) tails_find(a, &f);
    roles_find(&f);
    clusters_make(&f);
    clusters_merge(&f);
  }
  f.a = a; // from here on all is part of the result: it goes to the caller's arena
  Fusion *out = fusion_make(&f);
  arena_free(scratch);
  kernels_make(a, out, opt);
  return out;
}
