// Finds the attentions whose results one kernel for a GPU can compute in one sweep over the keys,
// together with the maximum and the sum of their softmax:
//
//   m = max[keys] s; e = exp(s - m); z = sum[keys] e; o = contract(w, v)    over the keys
//
// The method is that of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018,
// as in Dao, "FlashAttention-2", 2023: sums are kept for the maximum of the keys that were seen so
// far, and scaled when it rises. So w must be e / z times factors which are known before the sweep
// ends, such as those of a dropout.
#include "codegen/order/blocked_find_internal.h"

enum { MOST_FACTORS = 8 }; // of a weight; a softmax with more has sweeps of its own

// The contraction that is looked at.
typedef struct Search {
  const Graph *g;
  const RecomputedScores *scores;
  NodeId o, e; // the contraction, the exponentials of its softmax
  Sweep found;
  NodeId factor[MOST_FACTORS]; // what the softmax is multiplied by or divided by, but z
  int nfactors;
} Search;

static Dtype type_of(const Graph *g, NodeId n) { return (Dtype)graph_node(g, n)->type; }

// Returns whether n is a reduction by `op` over the dims that the contraction sums.
static bool reduces_keys(const Search *s, NodeId n, Op op) {
  const Node *x = graph_node(s->g, n), *o = graph_node(s->g, s->o);
  Dims over = dims_make(x->attr->ndims, x->attr->dims),
       keys = dims_make(o->attr->ndims, o->attr->dims);
  return x->op == op && x->region == o->region && list_same(&over, &keys) && x->type != TYPE_F64;
}

// Returns whether condition c is the mask of a dropout: it compares random numbers, one for each
// key. Other masks may discard all keys of a row, for which e / z is NaN and the result is still 0.
// A sweep cannot tell that row from one that keeps a NaN, because it divides its sums by z.
static bool drops_keys(const Search *s, NodeId c) {
  const Node *x = graph_node(s->g, c), *o = graph_node(s->g, s->o);
  Dims keys = dims_make(o->attr->ndims, o->attr->dims);
  bool draws = false;
  for (int i = 0; i < x->nargs; i++) draws |= op_is_draw((Op)graph_node(s->g, x->args[i])->op);
  return draws && list_has_all(x->dims, &keys);
}

static bool add_factor(Search *s, NodeId n) {
  if (s->scores->dots[n] || s->nfactors == MOST_FACTORS) return false;
  s->factor[s->nfactors++] = n;
  return true;
}

// Notes the divisor n of a weight: the sum z, or a factor.
static bool add_divisor(Search *s, NodeId n) {
  NodeId z = attention_without_casts(s->g, n);
  if (s->found.sum || !reduces_keys(s, z, OP_SUM)) return add_factor(s, n);
  s->found.sum = z;
  return true;
}

// Returns the argument of n that n scales by a factor, which it notes. Returns 0 if n does no such
// thing.
static NodeId scaled(Search *s, NodeId n) {
  const Node *x = graph_node(s->g, n);
  const NodeId *a = x->args;
  int score = x->op == OP_MUL && !s->scores->dots[a[0]]; // which argument has the scores
  switch ((int)x->op) {
  case OP_NEG: return a[0];
  case OP_CAST: return dtype_is_float(type_of(s->g, a[0])) ? a[0] : 0;
  case OP_WHERE:
    return attention_is_zero(s->g, a[2]) && drops_keys(s, a[0]) && add_factor(s, a[0]) ? a[1] : 0;
  case OP_MUL: return add_factor(s, a[!score]) ? a[score] : 0;
  case OP_DIV: return add_divisor(s, a[1]) ? a[0] : 0;
  }
  return 0;
}

// Follows the factors of weight w down to the exponentials of a softmax, and sets s->e, s->factor
// and s->found.sum. Returns false if it comes to another operation before.
static bool follow(Search *s, NodeId w) {
  s->found = (Sweep){0};
  s->nfactors = 0;
  while (w && graph_node(s->g, w)->op != OP_EXP) w = scaled(s, w);
  s->e = w;
  return w != 0;
}

// Sets s->found.max, and returns whether the exponentials and the sum are those of a softmax.
static bool find_maximum(Search *s) {
  const Graph *g = s->g;
  if (!s->found.sum || attention_without_casts(g, graph_node(g, s->found.sum)->args[0]) != s->e)
    return false;
  const Node *minus = graph_node(g, attention_without_casts(g, graph_node(g, s->e)->args[0]));
  if (minus->op != OP_SUB) return false;
  NodeId m = s->found.max = attention_without_casts(g, minus->args[1]);
  return reduces_keys(s, m, OP_MAX) && attention_without_casts(g, graph_node(g, m)->args[0]) ==
                                           attention_without_casts(g, minus->args[0]);
}

// Returns whether all factors are known before the sweep: none depends on the maximum. `a` is for
// scratch.
static bool factors_are_early(Arena *a, const Search *s) {
  NodeId max = s->found.max;
  ArenaMark mark = arena_mark(a);
  bool *late = arena_array(a, bool, s->o - max + 1), good = true; // by node, from the maximum on
  late[0] = true;
  for (NodeId n = max + 1; n <= s->o; n++)
    for (int i = 0; i < graph_node(s->g, n)->nargs; i++) {
      NodeId arg = graph_node(s->g, n)->args[i];
      late[n - max] |= arg >= max && late[arg - max];
    }
  for (int i = 0; i < s->nfactors; i++) good &= s->factor[i] < max || !late[s->factor[i] - max];
  arena_reset(a, mark);
  return good;
}

// Returns whether the values v that the weights multiply are those of keys: they need no scores and
// do not vary along the rows. The result then has the dims of the maximum, and others of v.
static bool has_values(const Search *s, NodeId v, DimId rows) {
  const Node *o = graph_node(s->g, s->o), *m = graph_node(s->g, s->found.max),
             *z = graph_node(s->g, s->found.sum);
  return !s->scores->dots[v] && !dims_has(graph_node(s->g, v)->dims, rows) &&
         type_of(s->g, v) != TYPE_F64 && o->type != TYPE_F64 && list_same(m->dims, z->dims) &&
         list_has_all(o->dims, m->dims) && o->dims->n > m->dims->n;
}

bool attention_sweep(Arena *a, const Graph *g, const RecomputedScores *scores, NodeId n, DimId rows,
                     Sweep *out) {
  Search s = {.g = g, .scores = scores, .o = n};
  const Node *x = graph_node(g, n);
  for (int i = 0; i < 2 && x->op == OP_CONTRACT; i++) {
    if (!scores->dots[x->args[i]] || !follow(&s, x->args[i]) || !find_maximum(&s)) continue;
    if (!has_values(&s, x->args[!i], rows) || !factors_are_early(a, &s)) continue;
    *out = s.found;
    return true;
  }
  return false;
}
