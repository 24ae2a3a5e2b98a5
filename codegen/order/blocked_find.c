// Plans loops over blocks of rows for the attentions of a graph (blocked_roles.c): which have them,
// over which dims, with how many rows in a block. Each level of an attention becomes one loop:
//
//   s = contract(q, k); m = max[keys] s; e = exp(s - m); z = sum[keys] e; p = e / z
//   o = contract(p, v)                                      level 0: o, m and z leave the loop
//   dp = contract(do, v); ds = p * (dp - sum[keys](p * dp)) level 1: p is recomputed
//   dq = contract(ds, k); dk = contract(ds, q); dv = contract(p, do)
//
// An attention is left as it is if its keys are split over processors: then a collective lies
// between the reduction over the keys and the scores.
#include "codegen/order/blocked_find_internal.h"

#include <math.h>

enum {
  LEAST_BYTES = 32 << 20, // bytes of the scores of a contraction from which attention is blocked
  BLOCK_BYTES = 1 << 20,  // bytes of the scores of a block
  MOST_ROWS = 128,        // upper limit of the rows of a block
  LEAST_ROWS = 16,        // fewer rows only if a divisor of the number of rows demands it
  FEWEST_ROWS = 4,
};

// -- the loops of an attention -------------------------------------------------------------------

// Returns the dims of `batch` that one loop can run over, slowest first. At most one of them may be
// split over processors or depend on the rows of the batch; it is the slowest.
static DimList loop_dims(const Finder *f, const Dims *batch) {
  DimList list = {0};
  bool slow = false;
  int64_t steps = 1;
  for (int i = 0; i < batch->n; i++) {
    const Dim *d = dim_get(f->g->dims, batch->at[i]);
    bool apart = d->axes.n || f->row_dims.at[d->whole];
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
  if (f->row_dims.at[rows->whole]) return "its rows depend on the size of the batch";
  return NULL;
}

// Returns the most bytes that scores have for one row and one step over the batch dims.
static int64_t row_bytes(Finder *f, uint32_t root, const DimList *batch) {
  int64_t most = 1;
  for (NodeId n = 1; n <= f->count; n++) {
    if (f->role[n] != BLOCK_SCORE || attention_root(f, n) != root) continue;
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
    bool sum = f->role[n] == BLOCK_EXIT || (f->role[n] == BLOCK_ROW && !attention_is_plain(f, x));
    if (sum && attention_root(f, n) == root) vec_push(f->a, sums) = n;
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
    if (!adds && dims_has(x->dims, f->keys.at[0])) return NULL;
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
    if (is_inside(f, n) && attention_root(f, n) == root)
      f->p->of[n] = loop_of(f, first, model, n) + 1;
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

static void try_pair(Finder *f) {
  attention_roles(f);
  for (NodeId n = 1; n <= f->count; n++)
    if (f->part[n].used) plan_part(f, n);
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
  DimPairs pairs = attention_pairs(&f);
  for (uint32_t i = 0; i < pairs.n; i++) {
    f.rows = pairs.at[i].rows;
    f.keys = pairs.at[i].keys;
    try_pair(&f);
  }
  if (p->loop.n) find_read(&f);
  return p;
}
