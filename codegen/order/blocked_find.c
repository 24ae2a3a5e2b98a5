// Recognises attention: scores that a contraction of queries and keys makes, a softmax over the
// keys, and contractions that sum over the keys or the rows; also its gradients. What lies between
// them may be anything pointwise: a scale, masks, biases, dropout.
//
// For each pair of a rows dim and keys dims the nodes get roles (blocked_internal.h). Nodes with
// roles that read one another are one attention. Its nodes have levels: a node outside that reads
// the attention, and is read by it, begins a new level. So the forward pass has level 0 and the
// backward pass level 1, and each level becomes one loop.
//
//   s = contract(q, k); m = max[keys] s; e = exp(s - m); z = sum[keys] e; p = e / z
//   o = contract(p, v)                                      level 0: o, m and z leave the loop
//   dp = contract(do, v); ds = p * (dp - sum[keys](p * dp)) level 1: p is recomputed
//   dq = contract(ds, k); dk = contract(ds, q); dv = contract(p, do)
//
// An attention is left as it is if its keys are split over processors: then a collective lies
// between the reduction over the keys and the scores.
#include "codegen/order/blocked_internal.h"
#include "codegen/values/live_internal.h"

#include <math.h>

enum {
  LEAST_BYTES = 32 << 20, // bytes of the scores of a contraction from which attention is blocked
  BLOCK_BYTES = 1 << 20,  // bytes of the scores of a block
  MOST_ROWS = 128,        // upper limit of the rows of a block
  LEAST_ROWS = 16,        // fewer rows only if a divisor of the number of rows demands it
  FEWEST_ROWS = 4,
};

// Facts about one attention.
typedef struct Attention {
  bool softmax, gathers, used; // has a softmax; has a contraction over the keys; is not empty
  const char *why;             // why it is left as it is, or NULL
  Dims batch;                  // dims that all its contractions to scores share
  Dims apart;                  // dims that are summed between scores: no loop runs over them
  int64_t bytes;               // bytes of the largest result of a contraction to scores
  RegionId around;
  VEC(NodeId) seed;
} Attention;

typedef struct Finder {
  Arena *a;
  const Graph *g;
  const CodegenOptions *opt;
  Rows row_dims;
  BlockedPlan *p;
  Live *masks; // NULL: the graph has no mask over indices
  uint32_t count;
  // the pair that is tried, and tables by node for it
  DimId rows;
  Dims keys, space;
  uint8_t *role;
  uint32_t *level, *up; // up: parent in the forest of nodes that belong together
  Attention *part;      // by root of that forest
} Finder;

static const Dims *dims_of(const Finder *f, NodeId n) { return &graph_node(f->g, n)->dims; }

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

static bool is_plain(const Node *x) {
  const OpRow *row = op_row((Op)x->op);
  return (row->cls == POINTWISE && !(row->flags & CHECKS)) ||
         (x->op == OP_BROADCAST && x->attr.ndims > 0);
}

// Returns whether attr.dims of x are exactly the keys.
static bool over_keys(const Finder *f, const Node *x) {
  Dims over = dims_make(x->attr.ndims, x->attr.dims);
  return list_same(&over, &f->keys);
}

// Returns the role of n, a reduction or contraction that reads scores.
static BlockRole role_of_sum(const Finder *f, const Node *x) {
  bool rows = dims_has(&x->dims, f->rows), keys = list_has_all(&x->dims, &f->keys);
  bool both = x->op != OP_CONTRACT || (is_score(f, x->args[0]) && is_score(f, x->args[1]));
  if (rows && over_keys(f, x) && both) return BLOCK_ROW;
  if ((rows && keys) || (!keys && dims_overlap(&x->dims, &f->keys))) return BLOCK_NONE;
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
    if (!is_plain(x)) return sums && scores ? BLOCK_SCORE : BLOCK_NONE;
    return scores || rows ? BLOCK_SCORE : BLOCK_SIDE;
  }
  if (scores && sums) return role_of_sum(f, x);
  bool row = rows && is_plain(x) && dims_has(&x->dims, f->rows) &&
             !dims_overlap(&x->dims, &f->keys) && list_has_all(&f->space, &x->dims);
  return row ? BLOCK_ROW : BLOCK_NONE;
}

// Takes the role ROW from pointwise nodes from which no score is computed. Returns by node whether
// scores are computed from this row value.
static bool *prune_rows(Finder *f) {
  bool *back = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = f->count; n; n--) {
    const Node *x = graph_node(f->g, n);
    if (f->role[n] == BLOCK_ROW && is_plain(x) && !back[n]) f->role[n] = BLOCK_NONE;
    if (f->role[n] != BLOCK_SCORE && !(f->role[n] == BLOCK_ROW && back[n])) continue;
    for (int i = 0; i < x->nargs; i++)
      if (f->role[x->args[i]] == BLOCK_ROW) back[x->args[i]] = true;
  }
  return back;
}

static bool is_inside(const Finder *f, NodeId n) { return f->role[n] >= BLOCK_SCORE; }

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

static uint32_t root_of(Finder *f, NodeId n) {
  uint32_t at = n;
  while (f->up[at] != at) at = f->up[at] = f->up[f->up[at]];
  return at;
}

static void join_nodes(Finder *f) {
  for (NodeId n = 1; n <= f->count; n++) f->up[n] = n;
  for (NodeId n = 1; n <= f->count; n++)
    for (int i = 0; i < graph_node(f->g, n)->nargs && is_inside(f, n); i++) {
      NodeId a = graph_node(f->g, n)->args[i];
      if (is_inside(f, a) && f->role[a] != BLOCK_EXIT) f->up[root_of(f, n)] = root_of(f, a);
    }
}

static bool is_parameter(const Graph *g, NodeId n) {
  for (;;) {
    const Node *x = graph_node(g, n);
    if (x->op == OP_PARAM || x->op == OP_STATE) return true;
    bool follows = op_is_alias((Op)x->op) || x->op == OP_CAST || x->op == OP_ALL_GATHER;
    if (!follows || !x->nargs) return false;
    n = x->args[0];
  }
}

static void note_seed(Finder *f, Attention *p, NodeId n, int keys) {
  const Node *x = graph_node(f->g, n);
  Dims shared = list_minus(&x->dims, &(Dims){0}), both = {0};
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

static void note_apart(Attention *p, const Node *x) {
  Dims over = dims_make(x->attr.ndims, x->attr.dims);
  p->apart = list_union(&p->apart, &over);
}

static void note_node(Finder *f, const bool *back, NodeId n) {
  Attention *p = &f->part[root_of(f, n)];
  const Node *x = graph_node(f->g, n);
  int keys;
  if (p->used && p->around != x->region) p->why = "it lies in several loops";
  p->used = true;
  p->around = x->region;
  if (makes_scores(f, n, &keys))
    note_seed(f, p, n, keys);
  else if (f->role[n] == BLOCK_SCORE && !is_plain(x))
    note_apart(p, x);
  if (f->role[n] == BLOCK_ROW && !is_plain(x) && back[n]) p->softmax = true;
  if (f->role[n] == BLOCK_EXIT && x->op == OP_CONTRACT && dims_has(&x->dims, f->rows))
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
        f->part[root_of(f, a)].why = "its scores are read one by one, not only summed";
    }
  }
  for (uint32_t i = 0; i < f->g->output.n; i++) {
    NodeId n = f->g->output.at[i].value;
    if (f->role[n] == BLOCK_SCORE) f->part[root_of(f, n)].why = "its scores are an output";
  }
}

static void find_facts(Finder *f, const bool *back) {
  f->part = arena_array(f->a, Attention, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (is_inside(f, n)) note_node(f, back, n);
  find_readers(f);
}

// -- the loops of an attention -------------------------------------------------------------------

// Returns the dims of `batch` that one loop can run over, slowest first. At most one of them may be
// split over processors or depend on the rows of the batch; it is the slowest.
static DimList loop_dims(const Finder *f, const Dims *batch) {
  DimList list = {0};
  bool slow = false;
  int64_t steps = 1;
  for (int i = 0; i < batch->n; i++) {
    const Dim *d = dim_get(f->g->dims, batch->at[i]);
    bool apart = d->axes.n || f->row_dims.at[d->whole].scale;
    if (apart && (slow || dim_uneven(f->g->dims, f->g->mesh, batch->at[i]))) continue;
    slow |= apart;
    steps *= d->size;
    list_insert(&list, apart ? 0 : list.n, batch->at[i]);
  }
  return steps > 1 ? list : (DimList){0};
}

// Returns the number of rows of a block, a divisor of `rows`. The scores of a block, `bytes` bytes
// a row, should fit a cache. Returns 0 if there is no divisor that is large enough.
static int64_t block_rows(const Finder *f, int64_t rows, int64_t bytes) {
  int64_t most = clamp64(BLOCK_BYTES / bytes, LEAST_ROWS, MOST_ROWS);
  int64_t fewest = f->opt->blocked_rows ? 1 : FEWEST_ROWS;
  if (f->opt->blocked_rows) most = f->opt->blocked_rows;
  for (int64_t n = most < rows ? most : rows; n >= fewest; n--)
    if (rows % n == 0) return n;
  return 0;
}

static const char *refusal(const Finder *f, const Attention *p) {
  const Dim *rows = dim_get(f->g->dims, f->rows);
  if (p->why) return p->why;
  if (f->opt->launch_bytes > BLOCK_BYTES)
    return "a launch takes longer than the memory traffic of a block";
  if (rows->axes.n) return "its rows are split over processors";
  if (f->row_dims.at[rows->whole].scale) return "its rows depend on the size of the batch";
  return NULL;
}

// Returns the most bytes that scores have for one row and one step over the batch dims.
static int64_t row_bytes(Finder *f, uint32_t root, const DimList *batch) {
  int64_t most = 1;
  for (NodeId n = 1; n <= f->count; n++) {
    if (f->role[n] != BLOCK_SCORE || root_of(f, n) != root) continue;
    Dims left = list_minus(dims_of(f, n), batch);
    dims_remove(&left, f->rows);
    int64_t bytes =
        list_elements(f->g->dims, &left) * dtype_bytes((Dtype)graph_node(f->g, n)->type);
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool plan_attention(Finder *f, uint32_t root, BlockedLoop *l) {
  Attention *p = &f->part[root];
  Dims batch = list_minus(&p->batch, &p->apart);
  l->batch = loop_dims(f, &batch);
  l->block = block_rows(f, dim_get(f->g->dims, f->rows)->size, row_bytes(f, root, &l->batch));
  if (!l->block) p->why = "the number of its rows has no divisor for a block";
  return l->block != 0;
}

// Returns whether sum n of the attention has the same value without the keys at the positions that
// f->masks looks at.
static bool ignores(const Finder *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  Monoid m = op_row((Op)x->op)->monoid;
  for (int i = 0; i < x->nargs; i++) {
    Range r = live_range(f->masks, x->args[i], f->masks->spans, 0);
    double none = m == MONOID_MAX ? (double)-INFINITY : m == MONOID_MIN ? (double)INFINITY : 0;
    if (range_is(r, none)) return true;
  }
  return false;
}

// The sums of an attention, which alone read its scores.
typedef VEC(NodeId) Sums;

static Sums sums_of(Finder *f, uint32_t root) {
  Sums sums = {0};
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    bool sum = f->role[n] == BLOCK_EXIT || (f->role[n] == BLOCK_ROW && !is_plain(x));
    if (sum && root_of(f, n) == root) vec_push(f->a, sums) = n;
  }
  return sums;
}

// Returns how many of the first keys block i of the rows needs.
static int64_t keys_needed(Finder *f, const Sums *sums, int64_t i, int64_t block) {
  LiveGrains g = live_grains(f->masks, f->keys.at[0]);
  Span rows = {f->rows, {(double)(i * block), (double)((i + 1) * block - 1)}, NULL};
  for (int64_t k = g.n - 1; k >= 0; k--) {
    Span both = live_grain(&g, k, &rows);
    live_at(f->masks, &both);
    for (uint32_t n = 0; n < sums->n; n++)
      if (k == 0 || !ignores(f, sums->at[n])) return (int64_t)both.at.hi + 1;
  }
  return g.size;
}

// Returns by block of rows how many of the first keys it needs, or NULL if blocks need all keys.
static const int64_t *live_keys(Finder *f, uint32_t root, int64_t block) {
  int64_t n = dim_get(f->g->dims, f->rows)->size / block, least = INT64_MAX;
  const Dim *keys = dim_get(f->g->dims, f->keys.at[0]);
  if (!f->masks || f->keys.n != 1 || keys->whole != f->keys.at[0]) return NULL;
  Sums sums = sums_of(f, root);
  for (uint32_t i = 0; i < sums.n; i++) {
    const Node *x = graph_node(f->g, sums.at[i]);
    bool adds = op_row((Op)x->op)->monoid == MONOID_SUM;
    if (!adds && dims_has(&x->dims, f->keys.at[0])) return NULL;
  }
  int64_t *live = arena_array(f->a, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    live[i] = keys_needed(f, &sums, i, block);
    if (live[i] < least) least = live[i];
  }
  return least < keys->size ? live : NULL;
}

static uint32_t loop_of(Finder *f, uint32_t first, const BlockedLoop *model, NodeId n) {
  for (uint32_t i = first; i < f->p->loop.n; i++)
    if (f->p->loop.at[i].at == f->level[n]) return i;
  BlockedLoop l = *model;
  l.at = f->level[n];
  l.first = n;
  vec_push(f->a, f->p->loop) = l;
  return f->p->loop.n - 1;
}

static void plan_loops(Finder *f, uint32_t root, const BlockedLoop *model) {
  uint32_t first = f->p->loop.n;
  for (NodeId n = 1; n <= f->count; n++)
    if (is_inside(f, n) && root_of(f, n) == root) f->p->of[n] = loop_of(f, first, model, n) + 1;
}

static void plan_part(Finder *f, uint32_t root) {
  Attention *p = &f->part[root];
  int64_t least = f->opt->blocked_rows ? 0 : LEAST_BYTES;
  bool attention = p->seed.n && p->gathers && p->bytes >= least;
  if (!attention) return;
  BlockedLoop model = {.role = f->role, .level = f->level, .rows = f->rows, .keys = f->keys};
  model.around = p->around;
  p->why = p->softmax ? refusal(f, p) : "its keys are split over processors";
  if (!p->why && plan_attention(f, root, &model)) {
    model.live = live_keys(f, root, model.block);
    plan_loops(f, root, &model);
    return;
  }
  for (uint32_t i = 0; i < p->seed.n; i++)
    f->p->why[p->seed.at[i]] =
        arena_printf(f->a, "a large contraction: library product; scores are stored: %s", p->why);
}

// -- pairs of rows and keys ----------------------------------------------------------------------

static void try_pair(Finder *f) {
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
  for (NodeId n = 1; n <= f->count; n++)
    if (f->part[n].used) plan_part(f, n);
}

typedef struct DimPair {
  DimId rows;
  Dims keys;
} DimPair;
typedef VEC(DimPair) DimPairs;

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
    for (int d = 0; d < x->dims.n; d++) {
      DimId at = x->dims.at[d];
      bool longer = !rows || dim_get(f->g->dims, at)->size > dim_get(f->g->dims, rows)->size;
      if (dims_has(q, at) && !dims_has(k, at) && longer) rows = at;
    }
    if (rows) add_pair(f->a, pairs, (DimPair){rows, *keys});
  }
}

// Follows the pointwise nodes above reduction n to the contractions that make what it reduces.
static void pairs_of(Finder *f, NodeId n, uint32_t *mark, DimPairs *pairs) {
  VEC(NodeId) stack = {0};
  Dims keys = dims_make(graph_node(f->g, n)->attr.ndims, graph_node(f->g, n)->attr.dims);
  vec_push(f->a, stack) = graph_node(f->g, n)->args[0];
  while (stack.n) {
    NodeId at = stack.at[--stack.n];
    const Node *x = graph_node(f->g, at);
    if (mark[at] == n || !list_has_all(&x->dims, &keys)) continue;
    mark[at] = n;
    if (x->op == OP_CONTRACT) pair_of(f, &keys, at, pairs);
    for (int i = 0; i < x->nargs && is_plain(x); i++) vec_push(f->a, stack) = x->args[i];
  }
}

static DimPairs find_pairs(Finder *f) {
  DimPairs pairs = {0};
  uint32_t *mark = arena_array(f->a, uint32_t, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (graph_node(f->g, n)->op == OP_MAX) pairs_of(f, n, mark, &pairs);
  return pairs;
}

// -- what leaves a loop --------------------------------------------------------------------------

bool blocked_computes(const BlockedPlan *p, uint32_t l, NodeId n) {
  const BlockedLoop *loop = &p->loop.at[l];
  switch ((BlockRole)loop->role[n]) {
  case BLOCK_SIDE:
  case BLOCK_SCORE: return true;
  case BLOCK_ROW:
  case BLOCK_EXIT: return p->of[n] == l + 1;
  case BLOCK_NONE: break;
  }
  return false;
}

// Sets p->read of the nodes that loop l reads from other loops.
static void loop_reads(Finder *f, uint32_t l) {
  VEC(NodeId) stack = {0};
  bool *seen = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    if (f->p->of[n] == l + 1) vec_push(f->a, stack) = n;
  while (stack.n) {
    const Node *x = graph_node(f->g, stack.at[--stack.n]);
    for (int i = 0; i < x->nargs; i++) {
      NodeId a = x->args[i];
      if (seen[a]) continue;
      seen[a] = true;
      if (blocked_computes(f->p, l, a))
        vec_push(f->a, stack) = a;
      else if (f->p->of[a])
        f->p->read[a] = true;
    }
  }
}

static void find_read(Finder *f) {
  for (uint32_t l = 0; l < f->p->loop.n; l++) loop_reads(f, l);
  for (NodeId n = 1; n <= f->count; n++)
    for (int i = 0; i < graph_node(f->g, n)->nargs; i++) {
      NodeId a = graph_node(f->g, n)->args[i];
      if (f->p->of[a] && f->p->of[n] == 0) f->p->read[a] = true;
    }
  for (uint32_t i = 0; i < f->g->output.n; i++) {
    NodeId n = f->g->output.at[i].value;
    if (f->p->of[n]) f->p->read[n] = true;
  }
}

BlockedPlan *blocked_find(Arena *a, const Graph *g, const CodegenOptions *opt) {
  BlockedPlan *p = arena_new_of(a, BlockedPlan);
  Finder f = {.a = a, .g = g, .opt = opt, .p = p, .count = graph_count(g)};
  f.row_dims = rows_find(a, g, opt->over);
  f.masks = live_new(a, g, opt->blocked_rows);
  p->of = arena_array(a, uint32_t, f.count + 1);
  p->read = arena_array(a, bool, f.count + 1);
  p->why = arena_array(a, const char *, f.count + 1);
  DimPairs pairs = find_pairs(&f);
  for (uint32_t i = 0; i < pairs.n; i++) {
    f.rows = pairs.at[i].rows;
    f.keys = pairs.at[i].keys;
    try_pair(&f);
  }
  if (p->loop.n) find_read(&f);
  return p;
}
