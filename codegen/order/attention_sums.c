// Replaces the row sum in the gradient of a softmax by one that needs no scores. Kernels for a GPU
// would have to compute the scores once more for it (attention.c):
//
//   o = contract(w, v)    over the keys     w is p times factors, such as those of a dropout
//   dp = contract(do, v)  over e
//   d = contract(p, x)    over the keys     x is dp times the same factors and some of its own
//   =>
//   d = contract(do, o)   over e, times the factors of x alone
//
// Both are the sum of w * v * do over the keys and e. The factors of x alone do not vary along the
// keys: the sum of a softmax, for example. o is rounded to its type, which is the precision that
// gradients of narrow types have anyway.
#include "codegen/order/blocked_internal.h"

enum { MOST_FACTORS = 8 }; // of a value; sums with more are left as they are

// An operation that scales a value x: x / by, x * by, -x, or where(by, x, 0).
typedef struct Factor {
  Op op;
  NodeId by; // 0: none
} Factor;

typedef struct Factors {
  Factor at[MOST_FACTORS]; // the last one is applied first
  int n;
} Factors;

// What takes the place of a row sum d: contract(to, o) over the dims `over`, scaled by `rest`.
typedef struct RowSum {
  NodeId to, o; // `to`: the gradient of the output o, `do` above
  Dims over;
  Factors rest; // the factors of x alone
} RowSum;

// A contraction that reads some factor, in the list of all that do.
typedef struct Reader {
  NodeId contraction;
  uint32_t next; // 1 + the index of the next reader; 0: it is the last one
} Reader;
typedef struct RowSums {
  const Graph *g;
  Arena *a;
  // The contractions before the node that is looked at. By node, without its casts: 1 + the index
  // of the first and of the last one that reads it; 0: none does.
  VEC(Reader) reader;
  uint32_t *first, *last;
} RowSums;

static const Dims *dims_of(const Graph *g, NodeId n) { return graph_node(g, n)->dims; }
static Dims summed(const Node *x) { return dims_make(x->attr->ndims, x->attr->dims); }
static Dtype type_of(const Graph *g, NodeId n) { return (Dtype)graph_node(g, n)->type; }

NodeId attention_without_casts(const Graph *g, NodeId n) {
  while (graph_node(g, n)->op == OP_CAST && dtype_is_float(type_of(g, n)) &&
         dtype_is_float(type_of(g, graph_node(g, n)->args[0])))
    n = graph_node(g, n)->args[0];
  return n;
}

bool attention_is_zero(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  return x->op == OP_CONST && x->attr->num[0] == 0;
}

// -- factors --------------------------------------------------------------------------------------

// Returns the argument of n that n scales by a factor, and sets *f. Returns 0 if n does no such
// thing.
static NodeId scaled(const Graph *g, NodeId n, Factor *f) {
  const Node *x = graph_node(g, n);
  *f = (Factor){(Op)x->op, 0};
  if (x->op == OP_NEG) return x->args[0];
  if (x->op == OP_WHERE && attention_is_zero(g, x->args[2])) {
    f->by = x->args[0];
    return x->args[1];
  }
  if (x->op != OP_MUL && x->op != OP_DIV) return 0;
  int a = dims_of(g, x->args[0])->n, b = dims_of(g, x->args[1])->n;
  if (a == b || (a < b && x->op == OP_DIV)) return 0;
  f->by = attention_without_casts(g, x->args[a > b]);
  return x->args[a < b];
}

// Follows factors from n down to `root` or, if that is 0, to a contraction. Returns what it
// reached, or 0.
static NodeId follow(const Graph *g, NodeId n, NodeId root, Factors *out) {
  out->n = 0;
  for (;;) {
    Factor f;
    n = attention_without_casts(g, n);
    if (root ? n == root : graph_node(g, n)->op == OP_CONTRACT) return n;
    NodeId next = scaled(g, n, &f);
    if (!next || out->n == MOST_FACTORS) return 0;
    out->at[out->n++] = f;
    n = next;
  }
}

// Takes the factors `some` out of `all`. Returns false if `all` lacks one of them.
static bool take_out(Factors *all, const Factors *some) {
  for (int i = 0; i < some->n; i++) {
    int k = 0;
    while (k < all->n && (all->at[k].op != some->at[i].op || all->at[k].by != some->at[i].by)) k++;
    if (k == all->n) return false;
    all->n--;
    for (; k < all->n; k++) all->at[k] = all->at[k + 1];
  }
  return true;
}

static bool vary_along(const Graph *g, const Factors *f, const Dims *keys) {
  for (int i = 0; i < f->n; i++)
    if (f->at[i].by && dims_overlap(dims_of(g, f->at[i].by), keys)) return true;
  return false;
}

// -- the form -------------------------------------------------------------------------------------

// Returns whether contraction n is contract(w, v) over the keys, where w is p times factors that
// are all among out->rest. If so, sets out->o to n and takes these factors out of out->rest.
static bool is_output(const Graph *g, NodeId n, NodeId p, NodeId v, const Dims *keys, RowSum *out) {
  const Node *x = graph_node(g, n);
  Dims over = summed(x);
  if (!list_same(&over, keys)) return false;
  for (int i = 0; i < 2; i++) {
    Factors own, rest = out->rest;
    if (attention_without_casts(g, x->args[!i]) != v || !follow(g, x->args[i], p, &own)) continue;
    if (!take_out(&rest, &own) || vary_along(g, &rest, keys)) continue;
    out->rest = rest;
    out->o = n;
    return true;
  }
  return false;
}

static void add_reader(RowSums *s, NodeId factor, NodeId contraction) {
  vec_push(s->a, s->reader) = (Reader){.contraction = contraction};
  if (s->last[factor])
    s->reader.at[s->last[factor] - 1].next = s->reader.n;
  else
    s->first[factor] = s->reader.n;
  s->last[factor] = s->reader.n;
}

// Looks for the output o among the contractions before row sum d that read v, in its loop: sets
// out->o and out->rest as is_output does. Returns false if there is none.
static bool find_output(const RowSums *s, NodeId d, NodeId p, NodeId v, RowSum *out) {
  const Graph *g = s->g;
  Dims keys = summed(graph_node(g, d));
  for (uint32_t i = s->first[v]; i; i = s->reader.at[i - 1].next) {
    NodeId n = s->reader.at[i - 1].contraction;
    if (graph_node(g, n)->region == graph_node(g, d)->region && is_output(g, n, p, v, &keys, out))
      return true;
  }
  return false;
}

// Returns whether the new sum equals d: both its arguments have the dims that it sums, p has none
// of them, `to` does not vary along the keys, and the result has the dims of d.
static bool fits(const Graph *g, NodeId d, NodeId p, const RowSum *r) {
  const Dims *to = dims_of(g, r->to), *o = dims_of(g, r->o);
  Dims keys = summed(graph_node(g, d)), both = list_union(to, o),
       left = list_minus(&both, &r->over);
  return list_has_all(to, &r->over) && list_has_all(o, &r->over) && !dims_overlap(to, &keys) &&
         !dims_overlap(dims_of(g, p), &r->over) && list_same(&left, dims_of(g, d));
}

// Returns whether d, the sum of p times x over the keys, can be replaced, and sets *out. least: the
// fewest bytes of scores for which that is done.
static bool is_sum_of(const RowSums *s, NodeId d, NodeId p, NodeId x, int64_t least, RowSum *out) {
  const Graph *g = s->g;
  Factors all;
  NodeId dp = follow(g, x, 0, &all);
  if (!dp || node_bytes(g, dp) < least) return false;
  const Node *product = graph_node(g, dp);
  out->over = summed(product);
  for (int i = 0; i < 2; i++) {
    out->rest = all;
    out->to = product->args[i];
    if (find_output(s, d, p, attention_without_casts(g, product->args[!i]), out) &&
        fits(g, d, p, out))
      return true;
  }
  return false;
}

static bool is_row_sum(const RowSums *s, NodeId d, int64_t least, RowSum *out) {
  const Node *x = graph_node(s->g, d);
  if (x->instance || !dtype_is_float((Dtype)x->type)) return false;
  for (int i = 0; i < 2; i++)
    if (is_sum_of(s, d, attention_without_casts(s->g, x->args[i]), x->args[!i], least, out))
      return true;
  return false;
}

// -- the graph ------------------------------------------------------------------------------------

static NodeId scale(Graph *to, const Factor *f, NodeId n, const NodeId *map) {
  Dtype t = type_of(to, n);
  Dims none = {0};
  if (f->op == OP_NEG) return graph_unary(to, OP_NEG, n);
  if (f->op == OP_WHERE) return graph_where(to, map[f->by], n, graph_zeros(to, t, &none));
  return graph_binary(to, f->op, n, graph_cast(to, map[f->by], t));
}

// Adds the new sum of d to graph `to`. Returns its node.
static NodeId replaced(Graph *to, const Graph *g, NodeId d, const RowSum *r, const NodeId *map) {
  Dtype type = type_of(g, d), both = dtype_join(type_of(g, r->to), type_of(g, r->o));
  NodeId args[2] = {graph_cast(to, map[r->to], both), graph_cast(to, map[r->o], both)};
  Attr attr = {.type = type, .ndims = (uint8_t)r->over.n, .dims = r->over.at};
  to->origin = *graph_node(g, d)->origin;
  NodeId sum = graph_add(to, OP_CONTRACT, 2, args, &attr);
  for (int i = r->rest.n - 1; i >= 0; i--) sum = scale(to, &r->rest.at[i], sum, map);
  return sum;
}

// Returns by node the row sum that takes its place, or NULL; NULL if there is none at all.
static const RowSum **find_all(Arena *a, const Graph *g, int64_t least) {
  uint32_t count = graph_count(g);
  const RowSum **found = arena_array(a, const RowSum *, count + 1);
  RowSums s = {.g = g,
               .a = a,
               .first = arena_array(a, uint32_t, count + 1),
               .last = arena_array(a, uint32_t, count + 1)};
  bool any = false;
  for (NodeId n = 1; n <= count; n++) {
    RowSum r;
    if (graph_node(g, n)->op != OP_CONTRACT) continue;
    if (is_row_sum(&s, n, least, &r)) found[n] = arena_copy(a, &r, sizeof r);
    any |= found[n] != NULL;
    for (int i = 0; i < graph_node(g, n)->nargs; i++)
      add_reader(&s, attention_without_casts(g, graph_node(g, n)->args[i]), n);
  }
  return any ? found : NULL;
}

const Graph *attention_sums(Arena *a, const Graph *g, const CodegenOptions *opt) {
  const RowSum **found = opt->fuse ? find_all(a, g, attention_least_bytes(opt)) : NULL;
  if (!found) return g;
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1);
  Graph *to = graph_like(a, g, g->stage);
  for (NodeId n = 1; n <= graph_count(g); n++)
    map[n] = found[n] ? replaced(to, g, n, found[n], map) : graph_copy(to, g, n, map);
  graph_copy_outputs(to, g, map);
  return graph_prune_in_place(a, to, g->stage);
}
