// The loop form of a set of nodes: which dims are outer (units, in parallel) and which inner (within a
// unit), so that everything is one kernel (kernel.h), and what that costs in bytes.
//
// A reduction whose result is used inside must reduce exactly the inner loops; one whose result only
// leaves may also be an accumulator over all units. What is stored varies along all outer loops or all
// loops. Candidates for the inner dims are few: none, what some reduction reduces or keeps, what a stored
// value lacks; the cheapest legal one wins, the first among equals.
//
//   m = max[c] x; e = exp(x - m); s = sum[c] e; y = e / s        outer b, inner c
//   loss = sum[b] l; db[h] = sum[b] g[b, h]                      outer b, inner h: accumulators
#include "codegen/fuse_rules.h"

#include <string.h>

enum {
  SERIAL_ELEMENTS = 65536, // a kernel without outer loops at most
  INVARIANT_COST = 6,      // operations computed again for every unit
  PARTIAL_BYTES = 262144,  // of all accumulators of a chunk
  POINTERS = 30,
  LAUNCH_BYTES = 2048,     // a launch as bytes moved
  FEW_UNITS = 16,
};

typedef struct Trial {
  Fuser *f;
  uint32_t n;
  const NodeId *node;
  Dims space, outer, inner;
  bool contracts;
  const char *why;
} Trial;

Dims list_minus(const Dims *a, const Dims *b) {
  Dims out = {0};
  for (int i = 0; i < a->n; i++)
    if (!dims_has(b, a->at[i])) out.at[out.n++] = a->at[i];
  return out;
}

Dims list_union(const Dims *a, const Dims *b) {
  Dims out = *a;
  for (int i = 0; i < b->n; i++)
    if (!dims_has(&out, b->at[i])) list_insert(&out, out.n, b->at[i]);
  return out;
}

bool list_same(const Dims *a, const Dims *b) { return a->n == b->n && list_has_all(a, b); }

bool value_used(const Fuser *f, NodeId n) {
  for (uint32_t i = f->user_at[n]; i < f->user_at[n + 1]; i++)
    if (f->mark[f->user[i]] == f->stamp) return true;
  return false;
}

bool value_stored(const Fuser *f, NodeId n) {
  if (f->memory[n]) return true;
  for (uint32_t i = f->user_at[n]; i < f->user_at[n + 1]; i++)
    if (f->mark[f->user[i]] != f->stamp) return true;
  return f->user_at[n] == f->user_at[n + 1] && !(op_row(graph_node(f->g, n)->op)->flags & CHECKS);
}

bool reduce_accumulates(const Graph *g, NodeId n, const Dims *outer, const Dims *inner) {
  const Node *x = graph_node(g, n);
  if (x->op == OP_SCATTER_ADD) return false;
  Dims space = node_space(g, n), summed = list_minus(&space, &x->dims), all = list_union(outer, inner);
  if (list_same(&summed, inner) && list_same(&space, &all) && list_same(&x->dims, outer)) return false;
  if (list_same(&space, &all) && list_has_all(inner, &x->dims)) return true;
  return list_same(&space, outer) && x->dims.n == 0;
}

static bool half_type(const Node *x) { return x->type == TYPE_BF16 || x->type == TYPE_F16; }

static bool reduce_fits(Trial *t, NodeId n) {
  const Node *x = graph_node(t->f->g, n);
  Dims space = node_space(t->f->g, n);
  Dims summed = {0};
  for (int i = 0; i < space.n; i++)
    if (!dims_has(&x->dims, space.at[i])) list_insert(&summed, summed.n, space.at[i]);
  bool plain = list_same(&summed, &t->inner) && list_same(&space, &t->space);
  t->why = "a reduction runs over other loops than the rest";
  bool used = value_used(t->f, n);
  if (x->op == OP_SCATTER_ADD) return plain && !used;
  if (plain || used) return plain;
  if (op_tiles(t->f->g, n) && x->dims.n) return false;
  return !half_type(x) && reduce_accumulates(t->f->g, n, &t->outer, &t->inner);
}

static bool point_fits(Trial *t, NodeId n, int *invariant) {
  const Node *x = graph_node(t->f->g, n);
  bool outer = list_same(&x->dims, &t->outer), all = list_same(&x->dims, &t->space);
  if (outer || all) return true;
  t->why = "a stored value varies along a part of the loops only";
  if (value_stored(t->f, n)) return false;
  t->why = "a producer would be computed again for every use";
  if (t->contracts) return false;
  if (x->dims.n && !list_has_all(&x->dims, &t->outer)) *invariant += op_cost(x->op);
  return *invariant <= INVARIANT_COST;
}

// Takes the marks of loads back, so that only members are marked.
static void forget_loads(const Trial *t) {
  Fuser *f = t->f;
  for (uint32_t i = 0; i < t->n; i++)
    for (uint32_t j = f->arg_at[t->node[i]]; j < f->arg_at[t->node[i] + 1]; j++)
      if (f->mark[f->arg[j]] == f->stamp + 1) f->mark[f->arg[j]] = 0;
}

// Arguments that need an address must come from elsewhere; all pointers must fit one call.
static bool addresses_fit(Trial *t) {
  Fuser *f = t->f;
  int pointers = 0;
  bool fits = true;
  t->why = "too many operands for one kernel";
  for (uint32_t i = 0; i < t->n; i++) {
    NodeId n = t->node[i];
    if (value_stored(f, n)) pointers++;
    for (uint32_t j = f->arg_at[n]; j < f->arg_at[n + 1]; j++) {
      uint32_t *mark = &f->mark[f->arg[j]];
      if (*mark == f->stamp && f->arg_address[j]) {
        t->why = "a lookup needs its table in memory";
        fits = false;
      }
      if (*mark == f->stamp || *mark == f->stamp + 1) continue;
      *mark = f->stamp + 1;
      pointers++;
    }
  }
  forget_loads(t);
  return fits && (pointers <= POINTERS || t->n == 1);
}

static bool candidate_fits(Trial *t) {
  int invariant = 0;
  int64_t partial = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    NodeId n = t->node[i];
    const Node *x = graph_node(t->f->g, n);
    if (!op_reduces(x->op)) {
      if (!point_fits(t, n, &invariant)) return false;
      continue;
    }
    if (!reduce_fits(t, n)) return false;
    if (reduce_accumulates(t->f->g, n, &t->outer, &t->inner)) partial += node_bytes(t->f->g, n);
  }
  t->why = "accumulators of a chunk would be large";
  if (partial > PARTIAL_BYTES && t->n > 1) return false;
  t->why = "one unit would do all the work";
  return t->outer.n || t->n == 1 || list_elements(t->f->g, &t->space) <= SERIAL_ELEMENTS;
}

// -- cost ---------------------------------------------------------------------------------------------------

static int64_t distinct_loads(const Trial *t, int64_t *contiguous) {
  Fuser *f = t->f;
  int64_t bytes = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    NodeId n = t->node[i];
    for (uint32_t j = f->arg_at[n]; j < f->arg_at[n + 1]; j++) {
      NodeId a = f->arg[j];
      if (f->mark[a] == f->stamp || f->mark[a] == f->stamp + 1) continue;
      f->mark[a] = f->stamp + 1;
      const Dims *order = &f->order->at[a];
      int64_t size = node_bytes(f->g, a);
      if (graph_node(f->g, n)->op == OP_TAKE && f->arg_address[j]) size = node_bytes(f->g, n);
      bytes += size;
      if (order->n && dims_has(&t->space, order->at[order->n - 1]))
        contiguous[dims_index(&t->space, order->at[order->n - 1])] += size;
    }
  }
  return bytes;
}

static int64_t stores(const Trial *t, int64_t *contiguous) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    NodeId n = t->node[i];
    if (!value_stored(t->f, n)) continue;
    const Dims *order = &t->f->order->at[n];
    int64_t size = node_bytes(t->f->g, n);
    bytes += size;
    if (order->n && dims_has(&t->space, order->at[order->n - 1]))
      contiguous[dims_index(&t->space, order->at[order->n - 1])] += size;
  }
  return bytes;
}

// Operations as bytes: a vector core does about four simple operations in the time of a byte moved.
static double work(const Trial *t) {
  double sum = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const Node *x = graph_node(t->f->g, t->node[i]);
    Dims space = node_space(t->f->g, t->node[i]);
    bool invariant = space.n && !list_has_all(&space, &t->outer);
    sum += 0.25 * op_cost(x->op) * (double)list_elements(t->f->g, invariant ? &t->space : &space);
  }
  return sum;
}

static double penalty(const Trial *t, const int64_t *contiguous) {
  const Graph *g = t->f->g;
  int best = -1;
  for (int i = 0; i < t->space.n; i++)
    if (contiguous[i] && (best < 0 || contiguous[i] > contiguous[best])) best = i;
  double factor = best < 0 && t->space.n ? 2 : 1;
  bool vector_outer = best >= 0 && dims_has(&t->outer, t->space.at[best]);
  int64_t units = list_elements(g, &t->outer), all = list_elements(g, &t->space);
  if (t->inner.n && vector_outer) {
    factor *= 1.3;
    units = ceil_div(units, 64);
  } else if (!t->inner.n) {
    units = ceil_div(units, 1024);
  }
  if (units < FEW_UNITS && all > 32768 && t->inner.n) factor *= 3;
  if (t->inner.n && !vector_outer && list_elements(g, &t->inner) < 8) factor *= 1.2;
  if (t->inner.n) factor *= 1.02;
  return factor;
}

static void cost_find(const Trial *t, Form *out) {
  int64_t contiguous[MAX_RANK] = {0};
  out->outer = t->outer;
  out->inner = t->inner;
  out->load_bytes = distinct_loads(t, contiguous);
  out->store_bytes = stores(t, contiguous);
  forget_loads(t);
  double partial = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (op_reduces(graph_node(t->f->g, t->node[i])->op) &&
        reduce_accumulates(t->f->g, t->node[i], &t->outer, &t->inner))
      partial += (double)node_bytes(t->f->g, t->node[i]);
  int64_t bytes = out->load_bytes + out->store_bytes;
  out->cost = (double)bytes * penalty(t, contiguous) + work(t) + 16 * partial + LAUNCH_BYTES;
}

// -- candidates ------------------------------------------------------------------------------------------------

static void try_inner(Trial *t, Dims inner, Form *best, bool *found) {
  if (!list_has_all(&t->space, &inner)) return;
  t->inner = inner;
  t->outer = list_minus(&t->space, &inner);
  if (!candidate_fits(t)) return;
  Form form;
  cost_find(t, &form);
  if (!*found || form.cost < best->cost) *best = form;
  *found = true;
}

static bool space_find(Trial *t) {
  for (uint32_t i = 0; i < t->n; i++) {
    Dims part = node_space(t->f->g, t->node[i]);
    for (int j = 0; j < part.n; j++) {
      if (dims_has(&t->space, part.at[j])) continue;
      if (t->space.n == MAX_RANK) return false;
      list_insert(&t->space, t->space.n, part.at[j]);
    }
    t->contracts |= op_tiles(t->f->g, t->node[i]);
  }
  return true;
}

bool form_find(Fuser *f, uint32_t n, const NodeId *node, Form *out, const char **why) {
  Trial t = {.f = f, .n = n, .node = node};
  bool found = false;
  *why = "too many dims";
  if (!space_find(&t)) return false;
  if (!addresses_fit(&t)) {
    *why = t.why;
    return false;
  }
  try_inner(&t, (Dims){0}, out, &found);
  for (uint32_t i = 0; i < n; i++) {
    const Node *x = graph_node(f->g, node[i]);
    Dims part = node_space(f->g, node[i]);
    if (op_reduces(x->op)) {
      try_inner(&t, list_minus(&part, &x->dims), out, &found);
      if (!op_tiles(f->g, node[i]) && x->op != OP_SCATTER_ADD) try_inner(&t, x->dims, out, &found);
    } else if (value_stored(f, node[i]) && x->dims.n < t.space.n) {
      try_inner(&t, list_minus(&t.space, &x->dims), out, &found);
    }
  }
  *why = t.why;
  return found;
}
