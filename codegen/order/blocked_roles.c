// Recognises attention: scores that a contraction of queries and keys makes, a softmax over the
// keys, and contractions that sum over the keys or the rows; also its gradients. What lies between
// them may be anything pointwise: a scale, masks, biases, dropout.
//
// For each pair of a rows dim and keys dims the nodes get roles (blocked_internal.h). Nodes with
// roles that read one another are one attention. Its nodes have levels: a node outside that reads
// the attention, and is read by it, begins a new level. So the forward pass has level 0 and the
// backward pass level 1.
//
//   s = contract(q, k); m = max[keys] s; e = exp(s - m); z = sum[keys] e; p = e / z
//   o = contract(p, v)                                      level 0
//   dp = contract(do, v); ds = p * (dp - sum[keys](p * dp)) level 1: p is recomputed
//   dq = contract(ds, k); dk = contract(ds, q); dv = contract(p, do)
#include "codegen/order/blocked_find_internal.h"

static bool is_score(const Finder *f, NodeId n) {
  return dims_has(dims_of(f, n), f->rows) && list_has_all(dims_of(f, n), &f->keys);
}

// -- roles of nodes ------------------------------------------------------------------------------

// Returns whether contraction n makes scores of queries, which lack the keys, and of keys, which
// lack the rows. *keys gets the index of the argument with the keys.
static bool makes_scores(const Finder *f, NodeId n, int *keys) {
  const Node *x = graph_node(f->g, n);
  if (x->op != OP_CONTRACT || !is_score(f, n)) return false;
  for (int i = 0; i < 2; i++) {
    const Dims *q = dims_of(f, x->args[i]), *k = dims_of(f, x->args[1 - i]);
    *keys = 1 - i;
    if (dims_has(q, f->rows) && !dims_overlap(q, &f->keys) && !dims_has(k, f->rows) &&
        list_has_all(k, &f->keys))
      return true;
  }
  return false;
}

static bool reads_role(const Finder *f, const Node *x, BlockRole role) {
  for (int i = 0; i < x->nargs; i++)
    if (f->role[x->args[i]] == role) return true;
  return false;
}

bool attention_is_plain(const Finder *f, const Node *x) {
  const OpRow *row = op_row((Op)x->op);
  // a broadcast without dims is a copy, which order.c adds
  bool spreads = x->op == OP_BROADCAST && (x->attr->ndims > 0 || f->opt->gpu);
  // kernels for a GPU recompute random numbers, loops for a CPU read what was drawn
  bool draws = op_is_draw((Op)x->op) && f->opt->gpu;
  return (row->cls == POINTWISE && !(row->flags & CHECKS)) || spreads || draws;
}

// Returns whether attr.dims of x are exactly the keys.
static bool over_keys(const Finder *f, const Node *x) {
  Dims over = dims_make(x->attr->ndims, x->attr->dims);
  return list_same(&over, &f->keys);
}

// Returns the role of n, a reduction or contraction that reads scores.
static BlockRole role_of_sum(const Finder *f, const Node *x) {
  bool rows = dims_has(x->dims, f->rows), keys = list_has_all(x->dims, &f->keys);
  bool both = x->op != OP_CONTRACT || (is_score(f, x->args[0]) && is_score(f, x->args[1]));
  if (rows && over_keys(f, x) && both) return BLOCK_ROW;
  if ((rows && keys) || (!keys && dims_overlap(x->dims, &f->keys))) return BLOCK_NONE;
  Monoid m = op_row((Op)x->op)->monoid;
  return m == MONOID_SUM || m == MONOID_MAX || m == MONOID_MIN ? BLOCK_EXIT : BLOCK_NONE;
}

static BlockRole role_of(const Finder *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  OpClass cls = op_row((Op)x->op)->cls;
  int keys;
  if (f->p->of[n]) return BLOCK_NONE;
  if (makes_scores(f, n, &keys)) return BLOCK_SCORE;
  bool scores = reads_role(f, x, BLOCK_SCORE), rows = reads_role(f, x, BLOCK_ROW);
  bool sums = cls == REDUCE || x->op == OP_CONTRACT;
  if (is_score(f, n)) {
    if (!attention_is_plain(f, x)) return sums && scores ? BLOCK_SCORE : BLOCK_NONE;
    return scores || rows ? BLOCK_SCORE : BLOCK_SIDE;
  }
  if (scores && sums) return role_of_sum(f, x);
  bool row = rows && attention_is_plain(f, x) && dims_has(x->dims, f->rows) &&
             !dims_overlap(x->dims, &f->keys) && list_has_all(&f->space, x->dims);
  return row ? BLOCK_ROW : BLOCK_NONE;
}

// Takes the role ROW from pointwise nodes from which no score is computed. Returns by node whether
// scores are computed from this row value.
static bool *prune_rows(Finder *f) {
  bool *back = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = f->count; n; n--) {
    const Node *x = graph_node(f->g, n);
    if (f->role[n] == BLOCK_ROW && attention_is_plain(f, x) && !back[n]) f->role[n] = BLOCK_NONE;
    if (f->role[n] != BLOCK_SCORE && !(f->role[n] == BLOCK_ROW && back[n])) continue;
    for (int i = 0; i < x->nargs; i++)
      if (f->role[x->args[i]] == BLOCK_ROW) back[x->args[i]] = true;
  }
  return back;
}

// Sets the levels. A node is one level above an argument that is an exit, and above one that has a
// role if the node has none.
static void find_levels(Finder *f) {
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    for (int i = 0; i < x->nargs; i++) {
      NodeId a = x->args[i];
      bool leaves = f->role[a] == BLOCK_EXIT || (is_inside(f, a) && !is_inside(f, n));
      uint32_t level = f->level[a] + leaves;
      if (level > f->level[n]) f->level[n] = level;
    }
  }
}

// -- attentions, and facts about them ------------------------------------------------------------

uint32_t attention_root(Finder *f, NodeId n) {
  uint32_t at = n;
  while (f->up[at] != at) at = f->up[at] = f->up[f->up[at]];
  return at;
}

// Joins nodes with roles that read one another. Nothing is joined through an exit.
static void join_nodes(Finder *f) {
  for (NodeId n = 1; n <= f->count; n++) f->up[n] = n;
  for (NodeId n = 1; n <= f->count; n++)
    for (int i = 0; i < graph_node(f->g, n)->nargs && is_inside(f, n); i++) {
      NodeId a = graph_node(f->g, n)->args[i];
      if (is_inside(f, a) && f->role[a] != BLOCK_EXIT)
        f->up[attention_root(f, n)] = attention_root(f, a);
    }
}

static bool is_parameter(const Graph *g, NodeId n) {
  for (;;) {
    const Node *x = graph_node(g, n);
    if (x->op == OP_PARAM || x->op == OP_STATE) return true;
    bool copies = x->op == OP_BROADCAST && !x->attr->ndims; // order.c adds them
    bool follows = op_is_alias((Op)x->op) || x->op == OP_CAST || x->op == OP_ALL_GATHER || copies;
    if (!follows || !x->nargs) return false;
    n = x->args[0];
  }
}

// Notes contraction n, which makes scores. keys: the index of its argument with the keys.
static void note_seed(Finder *f, Attention *p, NodeId n, int keys) {
  const Node *x = graph_node(f->g, n);
  Dims shared = list_minus(x->dims, &(Dims){0}), both = {0};
  for (int i = 0; i < shared.n; i++)
    if (dims_has(dims_of(f, x->args[0]), shared.at[i]) &&
        dims_has(dims_of(f, x->args[1]), shared.at[i]) &&
        (!p->seed.n || dims_has(&p->batch, shared.at[i])))
      list_insert(&both, both.n, shared.at[i]);
  p->batch = both;
  int64_t bytes = node_bytes(f->g, n);
  if (bytes > p->bytes) p->bytes = bytes;
  if (is_parameter(f->g, x->args[keys])) p->why = "its keys are a parameter";
  vec_push(f->a, p->seed) = n;
}

// Notes a reduction or contraction that makes scores of other scores.
static void note_apart(Attention *p, const Node *x) {
  Dims over = dims_make(x->attr->ndims, x->attr->dims);
  p->apart = list_union(&p->apart, &over);
}

static void note_node(Finder *f, const bool *back, NodeId n) {
  Attention *p = &f->part[attention_root(f, n)];
  const Node *x = graph_node(f->g, n);
  int keys;
  if (p->used && p->around != x->region) p->why = "it lies in several loops";
  p->used = true;
  p->around = x->region;
  if (makes_scores(f, n, &keys))
    note_seed(f, p, n, keys);
  else if (f->role[n] == BLOCK_SCORE && !attention_is_plain(f, x))
    note_apart(p, x);
  if (f->role[n] == BLOCK_ROW && !attention_is_plain(f, x) && back[n]) p->softmax = true;
  if (f->role[n] == BLOCK_EXIT && x->op == OP_CONTRACT && dims_has(x->dims, f->rows))
    p->gathers = true;
}

// Finds the attentions whose scores something else reads: the scores must then be in memory.
static void find_readers(Finder *f) {
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    for (int i = 0; i < x->nargs; i++) {
      NodeId a = x->args[i];
      if (f->role[a] != BLOCK_SCORE) continue;
      if (!is_inside(f, n))
        f->part[attention_root(f, a)].why = "its scores are read one by one, not only summed";
    }
  }
  for (uint32_t i = 0; i < f->g->output.n; i++) {
    NodeId n = f->g->output.at[i].value;
    if (f->role[n] == BLOCK_SCORE) f->part[attention_root(f, n)].why = "its scores are an output";
  }
}

static void find_facts(Finder *f, const bool *back) {
  f->part = arena_array(f->a, Attention, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (is_inside(f, n)) note_node(f, back, n);
  find_readers(f);
}

void attention_roles(Finder *f) {
  f->role = arena_array(f->a, uint8_t, f->count + 1);
  f->level = arena_array(f->a, uint32_t, f->count + 1);
  f->up = arena_array(f->a, uint32_t, f->count + 1);
  f->space = (Dims){0};
  for (NodeId n = 1; n <= f->count; n++) {
    int keys;
    f->role[n] = (uint8_t)role_of(f, n);
    if (makes_scores(f, n, &keys)) f->space = list_union(&f->space, dims_of(f, n));
  }
  const bool *back = prune_rows(f);
  find_levels(f);
  join_nodes(f);
  find_facts(f, back);
}

// -- pairs of rows and keys ----------------------------------------------------------------------

static void add_pair(Arena *a, DimPairs *pairs, DimPair p) {
  for (uint32_t i = 0; i < pairs->n; i++)
    if (pairs->at[i].rows == p.rows && list_same(&pairs->at[i].keys, &p.keys)) return;
  vec_push(a, *pairs) = p;
}

// Adds to `pairs` the rows and keys of reduction n over keys, if contraction c makes the scores
// that it reduces: the keys belong to one argument of c only, the rows to the other only.
static void pair_of(Finder *f, const Dims *keys, NodeId c, DimPairs *pairs) {
  const Node *x = graph_node(f->g, c);
  for (int i = 0; i < 2; i++) {
    const Dims *q = dims_of(f, x->args[i]), *k = dims_of(f, x->args[1 - i]);
    if (!list_has_all(k, keys) || dims_overlap(q, keys)) continue;
    DimId rows = 0;
    for (int d = 0; d < x->dims->n; d++) {
      DimId at = x->dims->at[d];
      bool longer = !rows || dim_get(f->g->dims, at)->size > dim_get(f->g->dims, rows)->size;
      if (dims_has(q, at) && !dims_has(k, at) && longer) rows = at;
    }
    if (rows) add_pair(f->a, pairs, (DimPair){rows, *keys});
  }
}

// Follows the pointwise nodes above reduction n to the contractions that make what it reduces.
static void pairs_of(Finder *f, NodeId n, uint32_t *mark, DimPairs *pairs) {
  VEC(NodeId) stack = {0};
  Dims keys = dims_make(graph_node(f->g, n)->attr->ndims, graph_node(f->g, n)->attr->dims);
  vec_push(f->a, stack) = graph_node(f->g, n)->args[0];
  while (stack.n) {
    NodeId at = stack.at[--stack.n];
    const Node *x = graph_node(f->g, at);
    if (mark[at] == n || !list_has_all(x->dims, &keys)) continue;
    mark[at] = n;
    if (x->op == OP_CONTRACT) pair_of(f, &keys, at, pairs);
    for (int i = 0; i < x->nargs && attention_is_plain(f, x); i++)
      vec_push(f->a, stack) = x->args[i];
  }
}

DimPairs attention_pairs(Finder *f) {
  DimPairs pairs = {0};
  uint32_t *mark = arena_array(f->a, uint32_t, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (graph_node(f->g, n)->op == OP_MAX) pairs_of(f, n, mark, &pairs);
  return pairs;
}
