// Finds the loops of one kernel for a set of nodes, and estimates their cost. One iteration of the
// outer loops is a unit. Units run in parallel; the inner loops run within a unit. A chunk is a
// number of units that one thread runs one after the other.
//
// Legal loops obey these rules:
// - A reduction whose result is used inside the kernel reduces exactly the inner dims.
// - A reduction whose result is used only outside the kernel may also be an accumulator, which
//   combines values over all units.
// - A stored value varies along all outer dims, or along all dims. Otherwise several units would
//   write one element.
// - The exception is a sweep of attention: the maximum and the sum of a softmax, and what is
//   computed from them for each row, do not vary along the dims of the values that the softmax
//   weights. A GPU computes them once for all these dims (K_STORE in kernel.h).
// Few candidates are tried for the inner dims: none; the dims that a reduction reduces, or those
// that it keeps; the dims of the kernel along which a stored value does not vary. The legal
// candidate of least cost is taken, the first among equals.
//
//   m = max[c] x; e = exp(x - m); s = sum[c] e; y = e / s        outer b, inner c
//   loss = sum[b] l; db[h] = sum[b] g[b, h]                      outer b, inner h: accumulators
//   m[t] = max[s] x; z[t] = sum[s] e; o[t, k] = sum[s] (e / z) * v     outer t, k, inner s: a sweep
#include "codegen/fuse/fuse_internal.h"

#include <math.h>

enum {
  SERIAL_ELEMENTS = 65536, // upper limit of the elements of a kernel without outer loops
  // A value that does not vary along some outer loop is recomputed in each unit along that loop.
  // All such values of a kernel together may take at most this many operations an element.
  INVARIANT_COST = 6,
  PARTIAL_BYTES = 262144, // upper limit of the bytes of all accumulators of a chunk
  POINTERS = 30,          // upper limit of the tensors that a kernel loads or stores
  LAUNCH_BYTES = 2048,    // bytes of memory traffic that take as long as the launch of a kernel
  FEW_UNITS = 16,         // with fewer units some cores would be idle
  // A unit that reads runs of fewer bytes, with gaps that other units read, takes as long for a
  // byte as for SHORT_RUN_COST bytes in a row: addresses far apart share few sets of a cache.
  SHORT_RUN = 1024,
  SHORT_RUN_COST = 3,
  CACHED = 262144, // smaller values stay in the cache from unit to unit
};

// A set of dims as bits: bit i is dim i of Trial.space. A trial is a set of nodes that may become
// one kernel.
typedef uint32_t DimBits;

// A node of a trial. A trial is a set of nodes that may become one kernel; its candidates are the
// inner loops that are tried for it. The fields of a node do not depend on the candidate.
typedef struct TrialNode {
  NodeId n;
  Op op;
  DimBits space; // the dims over which the node computes (node_space)
  DimBits dims;  // the dims of its result
  bool reduces, tiles, half, stored, used;
  bool scores;      // of a reduction: it reads scores that kernels recompute (attention.c)
  int64_t bytes;    // bytes of its result
  int64_t elements; // number of elements over `space`
} TrialNode;

// A value that the kernel of a trial loads or stores.
typedef struct TrialOperand {
  NodeId n;
  int64_t bytes;
} TrialOperand;

typedef struct Trial {
  Fuser *f;
  uint32_t n;
  const NodeId *node;
  TrialNode *member;
  Dims space;
  int64_t size[MAX_RANK]; // by dim of `space`: its size
  DimBits all, outer, inner;
  bool contracts;
  const Sweep *sweep; // that of a node of the trial, if its maximum and sum are nodes, too; or NULL
  DimBits rows;       // of a sweep: the dims of the maximum
  int64_t load_bytes, store_bytes, contiguous[MAX_RANK];
  VEC(TrialOperand) operand;
  VEC(DimBits) tried;
  ApartReason why;
} Trial;

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

// Returns the set of those dims of `dims` that are also in `space`. Bit i of the set is
// space->at[i].
static DimBits bits_of(const DimList *space, const DimList *dims) {
  DimBits bits = 0;
  for (int i = 0; i < dims->n; i++) {
    int at = dims_index(space, dims->at[i]);
    if (at >= 0) bits |= UINT32_C(1) << at;
  }
  return bits;
}

// Returns whether a reduction becomes an accumulator in a kernel with the loops `outer` and
// `inner`. The result of an accumulator is combined over all iterations of the outer loops. The
// reduction computes over dims `space`, and its result has dims `dims`.
static bool accumulates_over(DimBits space, DimBits dims, DimBits outer, DimBits inner) {
  DimBits all = outer | inner;
  if ((space & ~dims) == inner && space == all && dims == outer) return false;
  return (space == all && !(dims & ~inner)) || (space == outer && !dims);
}

bool reduce_accumulates(const Graph *g, NodeId n, const DimList *outer, const DimList *inner) {
  const Node *x = graph_node(g, n);
  DimList space = node_space(g, n), loops = list_union(outer, inner);
  return x->op != OP_SCATTER_ADD &&
         accumulates_over(bits_of(&loops, &space), bits_of(&loops, x->dims), bits_of(&loops, outer),
                          bits_of(&loops, inner));
}

static bool accumulates(const Trial *t, const TrialNode *m) {
  return m->op != OP_SCATTER_ADD && accumulates_over(m->space, m->dims, t->outer, t->inner);
}

static bool half_type(const Node *x) { return x->type == TYPE_BF16 || x->type == TYPE_F16; }

// Records in t the reason `why` no single kernel can compute the nodes of trial t. Returns false
// always, so that a caller can return the result of this function.
static bool refuse(Trial *t, ApartReason why) {
  t->why = why;
  return false;
}

// Returns whether node m is a row value of a sweep: it is computed once for each row. Its
// reductions are over the inner loops.
static bool is_row_of_sweep(const Trial *t, const TrialNode *m) {
  if (!t->sweep || m->dims != t->rows) return false;
  if (!m->reduces) return true;
  return (m->n == t->sweep->max || m->n == t->sweep->sum) && (m->space & ~m->dims) == t->inner;
}

static bool reduce_fits(const Trial *t, const TrialNode *m) {
  if (is_row_of_sweep(t, m)) return true;
  bool plain = (m->space & ~m->dims) == t->inner && m->space == t->all;
  if (m->op == OP_SCATTER_ADD) return plain && !m->used;
  if (plain || m->used) return plain;
  if ((m->tiles || m->scores) && m->dims) return false;
  return !m->half && accumulates(t, m);
}

static bool point_fits(Trial *t, const TrialNode *m, int *invariant) {
  if (m->dims == t->outer || m->dims == t->all || is_row_of_sweep(t, m)) return true;
  if (m->stored) return refuse(t, APART_PART_OF_LOOPS);
  if (m->dims && t->outer & ~m->dims) *invariant += op_row(m->op)->cost;
  return (!t->contracts && *invariant <= INVARIANT_COST) || refuse(t, APART_RECOMPUTED);
}

static int64_t elements_of(const Trial *t, DimBits dims) {
  int64_t n = 1;
  for (int i = 0; i < t->space.n; i++)
    if (dims >> i & 1) n *= t->size[i];
  return n;
}

static bool candidate_fits(Trial *t) {
  int invariant = 0;
  int64_t partial = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const TrialNode *m = &t->member[i];
    if (!m->reduces) {
      if (!point_fits(t, m, &invariant)) return false;
      continue;
    }
    if (!reduce_fits(t, m)) return refuse(t, APART_REDUCTION);
    if (accumulates(t, m)) partial += m->bytes;
  }
  if (partial > PARTIAL_BYTES && t->n > 1) return refuse(t, APART_ACCUMULATORS);
  return t->outer || t->n == 1 || elements_of(t, t->all) <= SERIAL_ELEMENTS ||
         refuse(t, APART_ONE_UNIT);
}

// -- the cost of loops -------------------------------------------------------------------------

// Returns the time of the trial's computation, as the bytes of memory traffic that take as long. A
// core with vectors does four simple operations in the time that it takes to load one byte from
// memory.
static double work(const Trial *t) {
  double sum = 0, all = (double)elements_of(t, t->all);
  for (uint32_t i = 0; i < t->n; i++) {
    const TrialNode *m = &t->member[i];
    bool invariant = m->space && t->outer & ~m->space && !is_row_of_sweep(t, m);
    sum += 0.25 * op_row(m->op)->cost * (invariant ? all : (double)m->elements);
  }
  return sum;
}

// Returns whether a GPU divides each unit among several blocks of threads, so that few units do not
// leave it idle: long rows that are reduced, without accumulators or scatters (divides_rows in
// codegen/gpu/gpu_plan.c).
static bool divides_units(const Trial *t) {
  bool reduces = false;
  for (uint32_t i = 0; i < t->n; i++) {
    const TrialNode *m = &t->member[i];
    if (m->reduces && (accumulates(t, m) || m->op == OP_SCATTER_ADD)) return false;
    reduces |= m->reduces;
  }
  return t->f->opt->gpu && reduces && elements_of(t, t->inner) >= KERNEL_LONG_ROW;
}

static double penalty(const Trial *t) {
  int best = -1;
  for (int i = 0; i < t->space.n; i++)
    if (t->contiguous[i] && (best < 0 || t->contiguous[i] > t->contiguous[best])) best = i;
  double factor = best < 0 && t->space.n ? 2 : 1;
  bool vector_outer = best >= 0 && t->outer >> best & 1;
  int64_t units = elements_of(t, t->outer), all = elements_of(t, t->all);
  if (t->inner && vector_outer) {
    factor *= 1.3;
    units = ceil_div(units, 64);
  } else if (!t->inner) {
    units = ceil_div(units, 1024);
  }
  if (units < FEW_UNITS && all > 32768 && t->inner && !divides_units(t)) factor *= 3;
  if (t->inner && !vector_outer && elements_of(t, t->inner) < 8) factor *= 1.2;
  if (t->inner) factor *= 1.02;
  return factor;
}

// Returns whether a unit reads value n in runs of fewer than SHORT_RUN bytes: an outer dim lies in
// memory between its inner dims. The vector dim is not meant, of which a unit has a whole vector.
static bool has_short_runs(const Trial *t, NodeId n) {
  const DimList *order = &t->f->order->at[n];
  int64_t one = dtype_bytes(graph_node(t->f->g, n)->type), run = one;
  int last = order->n;
  for (; last > 0; last--) {
    int at = dims_index(&t->space, order->at[last - 1]);
    if (at < 0 || !(t->inner >> at & 1)) break;
    run *= t->size[at];
  }
  Dims rest = *order;
  rest.n = last;
  return run > one && run < SHORT_RUN && bits_of(&t->space, &rest) & t->inner;
}

// Returns the bytes that a kernel with these loops moves, with the price of short runs.
static double traffic(const Trial *t) {
  int64_t bytes = t->load_bytes + t->store_bytes;
  for (uint32_t i = 0; i < t->operand.n; i++) {
    const TrialOperand *o = &t->operand.at[i];
    if (o->bytes > CACHED && has_short_runs(t, o->n)) bytes += (SHORT_RUN_COST - 1) * o->bytes;
  }
  return (double)bytes;
}

static double cost_find(const Trial *t) {
  double partial = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->member[i].reduces && accumulates(t, &t->member[i]))
      partial += (double)t->member[i].bytes;
  return traffic(t) * penalty(t) + work(t) + 16 * partial + LAUNCH_BYTES;
}

// -- the nodes of a trial ----------------------------------------------------------------------

static bool space_find(Trial *t) {
  const Graph *g = t->f->g;
  for (uint32_t i = 0; i < t->n; i++) {
    const Node *x = graph_node(g, t->node[i]);
    bool reduces = op_reduces(x->op);
    for (int j = 0; j < (reduces ? x->nargs : 1); j++) {
      const Dims *part = reduces ? graph_node(g, x->args[j])->dims : x->dims;
      for (int k = 0; k < part->n; k++) {
        if (dims_has(&t->space, part->at[k])) continue;
        if (t->space.n == MAX_RANK) return false;
        list_insert(&t->space, t->space.n, part->at[k]);
      }
    }
  }
  for (int i = 0; i < t->space.n; i++) t->size[i] = dim_get(g->dims, t->space.at[i])->size;
  t->all = (UINT32_C(1) << t->space.n) - 1;
  return true;
}

_Static_assert(MAX_RANK + SCORES_DOTS <= MAX_LOOPS, "a kernel has loops for all its dims");

// Returns whether a kernel has enough loops for the trial: beside MAX_RANK others those over the
// dims that recomputed scores sum (RecomputedScores.dots), of which SCORES_DOTS are left.
static bool dots_fit(const Trial *t) {
  const Fuser *f = t->f;
  Dims all = {0};
  for (uint32_t i = 0; i < t->n && f->scores.recomputed; i++) {
    const Node *x = graph_node(f->g, t->node[i]);
    for (int j = 0; j < x->nargs; j++) {
      const Dims *dots = score_recomputed(f, x->args[j]) ? f->scores.dots[x->args[j]] : NULL;
      if (!dots) continue;
      Dims more = list_minus(dots, &all);
      if (all.n + more.n > SCORES_DOTS) return false;
      all = list_union(&all, &more);
    }
  }
  return true;
}

static void member_find(Trial *t, TrialNode *m, NodeId n) {
  const Graph *g = t->f->g;
  const Node *x = graph_node(g, n);
  *m = (TrialNode){.n = n, .op = (Op)x->op, .reduces = op_reduces(x->op), .bytes = t->f->bytes[n]};
  m->dims = m->space = bits_of(&t->space, x->dims);
  if (m->reduces) {
    m->space = 0;
    for (int i = 0; i < x->nargs; i++) {
      m->space |= bits_of(&t->space, graph_node(g, x->args[i])->dims);
      m->scores |= score_recomputed(t->f, x->args[i]);
    }
    m->tiles = op_tiles(g, n);
    m->half = half_type(x);
    m->used = value_used(t->f, n);
  }
  m->elements = elements_of(t, m->space);
  m->stored = value_stored(t->f, n);
  t->contracts |= m->tiles;
}

// Sets t->sweep and t->rows.
static void sweep_find(Trial *t) {
  const Fuser *f = t->f;
  for (uint32_t i = 0; i < t->n && f->scores.sweep; i++) {
    const Sweep *s = f->scores.sweep[t->node[i]];
    if (!s || f->mark[s->max] != f->stamp || f->mark[s->sum] != f->stamp) continue;
    t->sweep = s;
    t->rows = bits_of(&t->space, graph_node(f->g, s->max)->dims);
  }
}

// Adds value a to the operands. Finds the last dim of a in its physical order, along which its
// elements are adjacent in memory. Adds `size`, the bytes of a that the kernel loads or stores, to
// t->contiguous of that dim.
static void add_operand(Trial *t, NodeId a, int64_t size) {
  vec_push(t->f->a, t->operand) = (TrialOperand){a, size};
  const DimList *order = &t->f->order->at[a];
  int at = order->n ? dims_index(&t->space, order_last(t->f->g, order)) : -1;
  if (at >= 0) t->contiguous[at] += size;
}

// Removes the marks that addresses_fit sets on the arguments that it has counted. Afterwards only
// the nodes of trial t, which may become one kernel, are marked.
static void forget_loads(const Trial *t) {
  Fuser *f = t->f;
  for (uint32_t i = 0; i < t->n; i++)
    for (uint32_t j = f->arg_at[t->node[i]]; j < f->arg_at[t->node[i] + 1]; j++)
      if (f->mark[f->arg[j]] == f->stamp + 1) f->mark[f->arg[j]] = 0;
}

// Counts the bytes that the kernel of trial t loads and stores. Returns false if a node must read
// from memory a value that the kernel itself computes. Also returns false if the kernel would have
// more than POINTERS pointers.
static bool addresses_fit(Trial *t) {
  Fuser *f = t->f;
  int pointers = 0;
  bool fits = true;
  t->why = APART_OPERANDS;
  for (uint32_t i = 0; i < t->n; i++) {
    const TrialNode *m = &t->member[i];
    if (m->stored) {
      pointers++;
      t->store_bytes += m->bytes;
      add_operand(t, m->n, m->bytes);
    }
    for (uint32_t j = f->arg_at[m->n]; j < f->arg_at[m->n + 1]; j++) {
      NodeId a = f->arg[j];
      if (f->mark[a] == f->stamp && f->arg_address[j]) {
        t->why = APART_TABLE;
        fits = false;
      }
      if (f->mark[a] == f->stamp || f->mark[a] == f->stamp + 1) continue;
      f->mark[a] = f->stamp + 1;
      pointers++;
      int64_t size = m->op == OP_TAKE && f->arg_address[j] ? m->bytes : f->bytes[a];
      t->load_bytes += size;
      add_operand(t, a, size);
    }
  }
  forget_loads(t);
  return fits && (pointers <= POINTERS || t->n == 1);
}

// -- candidates for the inner loops ------------------------------------------------------------

// Returns the dims that are in both `bits` and `list`, in the order of `list`.
static Dims dims_of(const Trial *t, const DimList *list, DimBits bits) {
  Dims out = {0};
  for (int i = 0; i < list->n; i++) {
    int at = dims_index(&t->space, list->at[i]);
    if (at >= 0 && bits >> at & 1) out.at[out.n++] = list->at[i];
  }
  return out;
}

// Tries the dims `inner` as inner loops, in the order of `list`; all other dims are outer loops.
// Writes these loops to *best if they are legal and cost less than the loops that *best has.
static void try_inner(Trial *t, DimBits inner, const DimList *list, LoopForm *best) {
  for (uint32_t i = 0; i < t->tried.n; i++)
    if (t->tried.at[i] == inner) return;
  vec_push(t->f->a, t->tried) = inner;
  t->inner = inner;
  t->outer = t->all & ~inner;
  if (!candidate_fits(t)) return;
  double cost = cost_find(t);
  if (cost >= best->cost) return;
  *best = (LoopForm){.outer = dims_of(t, &t->space, t->outer),
                     .inner = dims_of(t, list, inner),
                     .cost = cost,
                     .load_bytes = t->load_bytes,
                     .store_bytes = t->store_bytes};
}

static bool try_all(Trial *t, LoopForm *out) {
  const Graph *g = t->f->g;
  out->cost = (double)INFINITY;
  try_inner(t, 0, &t->space, out);
  for (uint32_t i = 0; i < t->n; i++) {
    const TrialNode *m = &t->member[i];
    const Node *x = graph_node(g, m->n);
    if (m->reduces) {
      Dims part = node_space(g, m->n);
      try_inner(t, m->space & ~m->dims, &part, out);
      if (!m->tiles && m->op != OP_SCATTER_ADD) try_inner(t, m->dims, x->dims, out);
    } else if (m->stored && x->dims->n < t->space.n) {
      try_inner(t, t->all & ~m->dims, &t->space, out);
    }
  }
  return out->cost < (double)INFINITY;
}

bool form_find(Fuser *f, uint32_t n, const NodeId *node, LoopForm *out, ApartReason *why) {
  ArenaMark mark = arena_mark(f->a);
  Trial t = {.f = f, .n = n, .node = node, .member = arena_array(f->a, TrialNode, n)};
  *why = APART_DIMS;
  bool found = space_find(&t) && dots_fit(&t);
  if (found) {
    sweep_find(&t);
    for (uint32_t i = 0; i < n; i++) member_find(&t, &t.member[i], node[i]);
    found = addresses_fit(&t) && try_all(&t, out);
    *why = t.why;
  }
  arena_reset(f->a, mark);
  return found;
}
