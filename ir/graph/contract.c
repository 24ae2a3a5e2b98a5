// Order of a contraction of many factors: which two are multiplied first.
//
//   sum[d, h](x[b, d] * w[d, h] * v[h]):  w with v first (d*h), then x (b*d); not x with w (b*d*h)
//
// Greedy: among the pairs whose product can be summed over some dim, take the one with the fewest
// multiplications, then the smallest result. Pairs that sum nothing come last.
#include "ir/graph/graph.h"

// The largest number of factors whose order of multiplication is searched. The remaining factors of
// a longer product are first multiplied into one factor, in the order given.
enum { MAX_FACTORS = 32 };

typedef struct FactorList {
  Graph *g;
  int n;
  NodeId at[MAX_FACTORS];
  const Dims *keep;
} FactorList;

typedef struct Pair {
  int i, j;
  Dims sums, result;
  double work, size;
} Pair;

static const Dims *factor_dims(const FactorList *f, int i) {
  return &graph_node(f->g, f->at[i])->dims;
}

// Returns the number of factors other than i and j that have dim d.
static int other_uses(const FactorList *f, DimId d, int i, int j) {
  int uses = 0;
  for (int k = 0; k < f->n; k++)
    if (k != i && k != j && dims_has(factor_dims(f, k), d)) uses++;
  return uses;
}

// Sums factor i over those of its dims that no other factor has and that the result does not keep.
static void sum_unshared_dims(FactorList *f, int i) {
  Dims over = {0};
  const Dims *s = factor_dims(f, i);
  for (int k = 0; k < s->n; k++)
    if (!dims_has(f->keep, s->at[k]) && !other_uses(f, s->at[k], i, i))
      over.at[over.n++] = s->at[k];
  f->at[i] = graph_reduce(f->g, OP_SUM, f->at[i], &over);
}

static Pair pair_of(const FactorList *f, int i, int j) {
  Pair p = {.i = i, .j = j, .result = *factor_dims(f, i)};
  const Dims *b = factor_dims(f, j);
  for (int k = 0; k < b->n; k++)
    if (!dims_add(f->g->dims, &p.result, b->at[k])) BUG("a product of more than %d dims", MAX_RANK);
  p.work = dims_product(f->g->dims, p.result.n, p.result.at);
  for (int k = 0; k < p.result.n; k++)
    if (!dims_has(f->keep, p.result.at[k]) && !other_uses(f, p.result.at[k], i, j))
      p.sums.at[p.sums.n++] = p.result.at[k];
  for (int k = 0; k < p.sums.n; k++) dims_remove(&p.result, p.sums.at[k]);
  p.size = dims_product(f->g->dims, p.result.n, p.result.at);
  return p;
}

static bool pair_before(const Pair *a, const Pair *b) {
  if ((a->sums.n > 0) != (b->sums.n > 0)) return a->sums.n > 0;
  if (a->work < b->work || a->work > b->work) return a->work < b->work;
  return a->size < b->size;
}

static Pair best_pair(const FactorList *f) {
  Pair best = pair_of(f, 0, 1);
  for (int i = 0; i < f->n; i++) {
    for (int j = i + 1; j < f->n; j++) {
      Pair p = pair_of(f, i, j);
      if (pair_before(&p, &best)) best = p;
    }
  }
  return best;
}

static bool sums_left(const FactorList *f, const Pair *but) {
  for (int i = 0; i < f->n; i++) {
    const Dims *s = factor_dims(f, i);
    for (int k = 0; k < s->n; k++)
      if (!dims_has(f->keep, s->at[k]) && !dims_has(&but->sums, s->at[k])) return true;
  }
  return false;
}

// Replaces the two factors of pair p by their product: a contraction if dims are summed, else a
// pointwise product. The contraction that sums the last dims has the type `type` of the whole
// result, so that it accumulates in that type. Earlier contractions keep the type of their factors.
// The factors of a pointwise product are cast to a common type.
static void join_pair(FactorList *f, const Pair *p, Dtype type) {
  Dtype narrow = (Dtype)graph_node(f->g, f->at[p->i])->type;
  NodeId args[2] = {f->at[p->i], f->at[p->j]}, joined;
  if (p->sums.n) {
    bool last = !sums_left(f, p) && dtype_join(narrow, type) == type;
    Attr attr = {.type = last || f->n == 2 ? type : narrow, .ndims = p->sums.n, .dims = p->sums.at};
    joined = graph_add(f->g, OP_CONTRACT, 2, args, &attr);
  } else {
    Dtype other = (Dtype)graph_node(f->g, args[1])->type, wide = dtype_join(narrow, other);
    for (int i = 0; i < 2; i++) args[i] = graph_cast(f->g, args[i], wide);
    joined = graph_add(f->g, OP_MUL, 2, args, NULL);
  }
  f->at[p->i] = joined;
  f->at[p->j] = f->at[--f->n];
}

NodeId graph_contract(Graph *g, int n, const NodeId *factors, const Dims *keep, Dtype type) {
  FactorList f = {.g = g, .keep = keep};
  NodeId rest = 0;
  for (int i = 0; i < n; i++) {
    if (i < MAX_FACTORS - 1)
      f.at[f.n++] = factors[i];
    else
      rest = rest ? graph_binary(g, OP_MUL, rest, factors[i]) : factors[i];
  }
  if (rest) f.at[f.n++] = rest;
  for (int i = 0; i < f.n; i++) sum_unshared_dims(&f, i);
  while (f.n > 1) {
    Pair p = best_pair(&f);
    join_pair(&f, &p, type);
  }
  return graph_cast(g, f.at[0], type);
}

// -- cost ---------------------------------------------------------------------------------------

// Multiplies *x by the lengths of n dims. If `split` is not NULL, split[i] has the axes over which
// dim i is split, and the lengths are those of blocks. *x becomes INT64_MAX if the product does not
// fit.
static void multiply_lengths(const Graph *g, int n, const DimId *dims, const Axes *split,
                             int64_t *x) {
  for (int i = 0; i < n; i++) {
    int64_t length = dim_mean(g->dims, dims[i]);
    if (split) length = block_length(g->mesh, length, split[i]);
    if (!size_mul(*x, length, x)) *x = INT64_MAX;
  }
}

int64_t contract_flops(const Graph *g, NodeId n, const Axes *split, const Axes *inner) {
  const Node *node = graph_node(g, n);
  int64_t flops = 2;
  multiply_lengths(g, node->dims.n, node->dims.at, split, &flops);
  multiply_lengths(g, node->attr.ndims, node->attr.dims, inner, &flops);
  return flops;
}

int64_t graph_flops(const Graph *g) {
  int64_t total = 0, flops;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_CONTRACT) continue;
    if (!size_mul(contract_flops(g, n, NULL, NULL), region_times(g, node->region), &flops) ||
        !size_add(total, flops, &total))
      return INT64_MAX;
  }
  return total;
}
