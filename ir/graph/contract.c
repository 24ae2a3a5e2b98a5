// Order of a contraction of many factors: which two are multiplied first.
//
//   sum[d, h](x[b, d] * w[d, h] * v[h]):  w with v first (d*h), then x (b*d); not x with w (b*d*h)
//
// Few factors: the tree of products with the fewest multiplications, then the smallest results,
// then the order in which the factors are written. It is found by dynamic programming over sets of
// factors (Lam, Sadayappan and Wenger, On optimizing a class of multi-dimensional loops, 1997).
//
//   sum[b, c](x[a, b] * y[b, c] * z[c, d]),  a = 10, b = 1, c = 10, d = 11:
//     y with z first: 110 + 110 multiplications; x with y: 100 + 1100
//
// More factors: greedy. Among the pairs whose product can be summed over some dim, take the one
// with the fewest multiplications, then the smallest result. Pairs that sum nothing come last.
#include "ir/graph/graph.h"

// The largest number of factors whose order of multiplication is searched. The remaining factors of
// a longer product are first multiplied into one factor, in the order given.
enum { MAX_FACTORS = 32 };
// The largest numbers of factors and of dims for which the best tree is searched.
enum { TREE_FACTORS = 8, TREE_DIMS = 64 };

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
  return graph_node(f->g, f->at[i])->dims;
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
  f->n--;
  for (int k = p->j; k < f->n; k++) f->at[k] = f->at[k + 1];
}

// -- the best tree --------------------------------------------------------------------------------

// Trees of products. A set of factors is a bit for each of them; a set of dims, a bit for each dim
// of `dim`.
typedef struct Trees {
  int n, ndims;
  DimId dim[TREE_DIMS];
  double length[TREE_DIMS];
  uint64_t keep, has[TREE_FACTORS]; // dims of the result, of each factor
  struct Tree {
    uint64_t dims;     // of the product of this set, after its sums
    int unsummed;      // of the best tree: products that sum nothing, other than the last one
    double work, size; // multiplications, elements of all results
    uint32_t first;    // the factors of one side; 0: a single factor, or no tree
  } of[1 << TREE_FACTORS];
} Trees;

static double length_of(const Trees *t, uint64_t dims) {
  double x = 1;
  for (int k = 0; k < t->ndims; k++)
    if (dims >> k & 1) x *= t->length[k];
  return x;
}

// Adds the dims of s to the table. Returns their set, or false if there are too many.
static bool add_dims(Trees *t, const Graph *g, const Dims *s, uint64_t *set) {
  for (int k = 0; k < s->n; k++) {
    int at = 0;
    while (at < t->ndims && t->dim[at] != s->at[k]) at++;
    if (at == TREE_DIMS) return false;
    if (at == t->ndims) {
      t->dim[t->ndims] = s->at[k];
      t->length[t->ndims++] = dims_product(g->dims, 1, &s->at[k]);
    }
    *set |= (uint64_t)1 << at;
  }
  return true;
}

static bool tree_before(const struct Tree *a, const struct Tree *b) {
  if (a->unsummed != b->unsummed) return a->unsummed < b->unsummed;
  if (a->work < b->work || a->work > b->work) return a->work < b->work;
  return a->size < b->size;
}

static bool has_tree(const Trees *t, uint32_t set) {
  return !(set & (set - 1)) || t->of[set].first;
}

// Makes the tree with the sides `first` and the rest that of `set`, if it is better. Products that
// sum nothing come late: values of narrow types are scaled after their sums.
static void try_sides(Trees *t, uint32_t set, uint32_t first) {
  struct Tree *best = &t->of[set], x = *best;
  const struct Tree *a = &t->of[first], *b = &t->of[set & ~first];
  uint64_t both = a->dims | b->dims;
  if (!has_tree(t, first) || !has_tree(t, set & ~first) || count_bits(both) > MAX_RANK) return;
  x.first = first;
  x.unsummed = a->unsummed + b->unsummed + (both == x.dims && set != (1u << t->n) - 1);
  x.work = a->work + b->work + length_of(t, both);
  x.size = a->size + b->size + length_of(t, x.dims);
  if (!best->first || tree_before(&x, best)) *best = x;
}

static uint32_t last_factor(uint32_t set) {
  while (set & (set - 1)) set &= set - 1;
  return set;
}

// Fills t->of[set]; those of its subsets are there. The last factor alone is tried first, so that
// equal trees multiply in the order of the factors.
static void find_tree(Trees *t, uint32_t set) {
  uint64_t inside = 0, outside = t->keep;
  for (int i = 0; i < t->n; i++) *(set >> i & 1 ? &inside : &outside) |= t->has[i];
  t->of[set] = (struct Tree){.dims = inside & outside};
  uint32_t last = last_factor(set), others = set & ~last;
  for (uint32_t first = others; first; first = (first - 1) & others) try_sides(t, set, first);
}

// Sets *pair to two factors that the best tree multiplies with one another. Returns false if the
// product has too many factors or dims for it.
static bool tree_pair(const FactorList *f, Trees *t, Pair *pair) {
  if (f->n < 3 || f->n > TREE_FACTORS) return false;
  *t = (Trees){.n = f->n};
  bool fits = add_dims(t, f->g, f->keep, &t->keep);
  for (int i = 0; i < f->n && fits; i++) fits = add_dims(t, f->g, factor_dims(f, i), &t->has[i]);
  uint32_t set = (1u << f->n) - 1;
  for (uint32_t s = 1; s <= set && fits; s++) find_tree(t, s);
  if (!fits || !t->of[set].first) return false;
  while (count_bits(set) > 2) {
    uint32_t first = t->of[set].first;
    set = count_bits(first) > 1 ? first : set & ~first;
  }
  int at[2] = {0}, n = 0;
  for (int i = 0; i < f->n; i++)
    if (set >> i & 1) at[n++] = i;
  *pair = pair_of(f, at[0], at[1]);
  return true;
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
  Trees trees;
  while (f.n > 1) {
    Pair p;
    if (!tree_pair(&f, &trees, &p)) p = best_pair(&f);
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
  multiply_lengths(g, node->dims->n, node->dims->at, split, &flops);
  multiply_lengths(g, node->attr->ndims, node->attr->dims, inner, &flops);
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
