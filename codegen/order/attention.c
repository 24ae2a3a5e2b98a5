// Chooses the attentions whose scores are recomputed in every kernel for a GPU that reads them:
// then no buffer has the size of the scores, and memory grows with the number of rows, not with its
// square. blocked_roles.c says what attention is; K_DOT in kernel.h is how kernels do it.
//
//   s = contract(q, k); e = exp(s - m); p = e / z      in each kernel that reads them
//   m = max[keys] s; z = sum[keys] e; o = contract(p, v)   kernels, whose results are stored;
//                                                          one kernel, if fusion merges them
//
// The method is that of Dao et al., "FlashAttention", 2022, with row values that are stored.
#include "codegen/order/blocked_find_internal.h"

enum {
  LEAST_BYTES = 1 << 20, // scores of fewer bytes are stored
  // Bytes of the longest row of queries or keys: with more, tiles of them would not fit the shared
  // memory of a GPU (gpu_scores_plan.c), and each score would be computed by a single thread.
  MOST_ROW = 512
};

int64_t attention_least_bytes(const CodegenOptions *opt) {
  return opt->blocked_rows ? 0 : LEAST_BYTES;
}

static Dims summed(const Node *x) { return dims_make(x->attr->ndims, x->attr->dims); }

// Returns the bytes that contraction n reads of one factor for a single score: those of a row of
// queries or keys.
static int64_t row_bytes(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  int64_t bytes = 0;
  for (int i = 0; i < x->nargs; i++) {
    int64_t each = dtype_bytes((Dtype)graph_node(g, x->args[i])->type);
    if (each > bytes) bytes = each;
  }
  return dims_product(g->dims, x->attr->ndims, x->attr->dims) * bytes;
}

// Returns why the scores of an attention cannot be recomputed, or NULL.
static const char *refusal(const Finder *f, const Attention *p) {
  Dims dots = {0};
  if (p->why) return p->why;
  for (uint32_t i = 0; i < p->seed.n; i++) {
    Dims over = summed(graph_node(f->g, p->seed.at[i])), more = list_minus(&over, &dots);
    if (dots.n + more.n > SCORES_DOTS) return "its scores are sums over many dims";
    if (row_bytes(f->g, p->seed.at[i]) > MOST_ROW) return "its queries and keys have long rows";
    dots = list_union(&dots, &over);
  }
  return p->apart.n ? "some of its scores are sums of others" : NULL;
}

// Marks score n and what it is computed from, down to values that are in memory.
static void mark_recomputed(Finder *f, bool *recomputed, NodeId n) {
  VEC(NodeId) stack = {0};
  vec_push(f->a, stack) = n;
  while (stack.n) {
    NodeId at = stack.at[--stack.n];
    if (recomputed[at]) continue;
    recomputed[at] = true;
    const Node *x = graph_node(f->g, at);
    for (int i = 0; i < x->nargs; i++) {
      uint8_t role = f->role[x->args[i]];
      if (role == BLOCK_SCORE || role == BLOCK_SIDE) vec_push(f->a, stack) = x->args[i];
    }
  }
}

// Marks in *out what is recomputed of the attention with this root or, if its scores are stored,
// notes why. Marks its nodes as taken, so that no other pair of rows and keys has them. Sets the
// rows of its results: rows[n] of node n.
static void choose(Finder *f, uint32_t root, RecomputedScores *out, DimId *rows) {
  const Attention *p = &f->part[root];
  if (!p->seed.n || !p->gathers || p->bytes < attention_least_bytes(f->opt)) return;
  const char *why = refusal(f, p);
  for (uint32_t i = 0; i < p->seed.n && why; i++)
    out->why[p->seed.at[i]] =
        arena_printf(f->a, "a large contraction: library product; scores are stored: %s", why);
  for (NodeId n = 1; n <= f->count && !why; n++) {
    if (!is_inside(f, n) || attention_root(f, n) != root) continue;
    f->p->of[n] = 1;
    if (f->role[n] == BLOCK_SCORE) mark_recomputed(f, out->recomputed, n);
    if (f->role[n] == BLOCK_EXIT) rows[n] = f->rows;
  }
}

// Sets out->dots. Recomputed nodes come after their arguments.
static void find_dots(Arena *a, const Graph *g, RecomputedScores *out) {
  out->dots = arena_array(a, const Dims *, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    Dims all = {0};
    if (!out->recomputed[n]) continue;
    if (x->op == OP_CONTRACT) all = summed(x);
    for (int i = 0; i < x->nargs; i++)
      if (out->dots[x->args[i]]) all = list_union(&all, out->dots[x->args[i]]);
    if (all.n) out->dots[n] = arena_copy(a, &all, sizeof all);
  }
}

// Sets out->sweep. rows: by result of an attention, its rows; 0 for other nodes.
static void find_sweeps(Arena *a, const Graph *g, const DimId *rows, RecomputedScores *out) {
  Sweep found;
  out->sweep = arena_array(a, const Sweep *, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (rows[n] && attention_sweep(a, g, out, n, rows[n], &found))
      out->sweep[n] = arena_copy(a, &found, sizeof found);
}

RecomputedScores attention_recomputed(Arena *a, const Graph *g, const CodegenOptions *opt) {
  uint32_t count = graph_count(g);
  RecomputedScores out = {.recomputed = arena_array(a, bool, count + 1),
                          .why = arena_array(a, const char *, count + 1)};
  BlockedPlan p = {.of = arena_array(a, uint32_t, count + 1)};
  Finder f = {.a = a, .g = g, .opt = opt, .p = &p, .count = count};
  DimId *rows = arena_array(a, DimId, count + 1);
  DimPairs pairs = attention_pairs(&f);
  for (uint32_t i = 0; i < pairs.n; i++) {
    f.rows = pairs.at[i].rows;
    f.keys = pairs.at[i].keys;
    attention_roles(&f);
    for (NodeId n = 1; n <= count; n++)
      if (f.part[n].used) choose(&f, n, &out, rows);
  }
  find_dots(a, g, &out);
  find_sweeps(a, g, rows, &out);
  return out;
}
