// Chooses the loops of a kernel: their order, the vectorised loop, and which are joined into one.
//
// Loops have the order of the dims of the value with the most traffic. The dim along which most
// bytes are contiguous becomes the vector loop, the last of the outer loops or of the inner loops.
// Where rows are shorter than a vector, vectors compute many rows together.
// Two adjacent loops are joined if for every pointer the stride of the slower loop is the stride of
// the faster loop times the size of the faster loop. So most pointwise kernels have a single loop:
//
//   outer(b:64, h:128 vector), all pointers [b, h]     ->  outer(b*h:8192 vector)
#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"
#include "ir/program/sums.h"

#include <string.h>

enum { BLOCK_FLAT = 1024, BLOCK_NESTED = 64 };
enum { VECTOR = 16 }; // elements of a vector

typedef struct LoopTraffic {
  const Fusion *f;
  const Group *g;
  Dims all;
  double contiguous[MAX_RANK]; // by dim of `all`: bytes that are contiguous along it
  DimList order;               // physical order of the value with most bytes
  double most;
} LoopTraffic;

static void traffic_add(LoopTraffic *t, NodeId n, double bytes) {
  const DimList *order = &t->f->order->at[n];
  if (!order->n) return;
  int last = dims_index(&t->all, order_last(t->f->graph, order));
  if (last >= 0) t->contiguous[last] += bytes;
  if (bytes <= t->most) return;
  t->most = bytes;
  t->order = *order;
}

// Follows the windows of the group that read node n: a window of n, a window of that window, and so
// on. Returns the last of them, or n if no window reads n. The loops of the kernel run over the
// dims of the returned node.
static NodeId seen_through(const LoopTraffic *t, NodeId n) {
  for (uint32_t i = 0; i < t->g->nnodes; i++) {
    const Node *x = graph_node(t->f->graph, t->g->node[i]);
    if (op_looks_through((Op)x->op, 0) && x->args[0] == n) n = t->g->node[i];
  }
  return n;
}

static void traffic_find(LoopTraffic *t) {
  const Graph *g = t->f->graph;
  for (uint32_t i = 0; i < t->g->nstored; i++)
    traffic_add(t, t->g->stored[i], 1.01 * (double)node_bytes(g, t->g->stored[i]));
  for (uint32_t i = 0; i < t->g->nnodes; i++) {
    const Node *x = graph_node(g, t->g->node[i]);
    for (int j = 0; j < x->nargs; j++) {
      bool through = x->op == OP_TAKE || op_looks_through((Op)x->op, j);
      if (group_index(t->g, x->args[j]) < 0)
        traffic_add(t, through ? seen_through(t, t->g->node[i]) : x->args[j],
                    (double)node_bytes(g, x->args[j]));
    }
  }
}

static void order_by(DimList *list, const DimList *order) {
  DimList sorted = list_minus(list, order);
  for (int i = 0; i < order->n; i++)
    if (dims_has(list, order->at[i])) list_insert(&sorted, sorted.n, order->at[i]);
  *list = sorted;
}

static NodeId contraction_of(const Fusion *f, const Group *g) {
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (op_tiles(f->graph, g->node[i]) && !is_dot(f, g->node[i])) return g->node[i];
  return 0;
}

static DimId last_dim(const Fusion *f, NodeId n) { return order_last(f->graph, &f->order->at[n]); }

// Returns the dim of contraction n that the vectorised loop runs over. It is the last dim of the
// result if an argument is contiguous along it, too, or if the sums are short. Otherwise it is a
// summed dim along which both arguments are contiguous. If there is none, it is a summed dim along
// which one argument is.
static DimId vector_of_contraction(const Fusion *f, NodeId n) {
  const Node *x = graph_node(f->graph, n);
  DimId c = last_dim(f, n), a = last_dim(f, x->args[0]), b = last_dim(f, x->args[1]);
  if (c && (c == a || c == b)) return c;
  if (contract_sums_are_short(f->graph, x, c)) return c;
  if (a == b) return a;
  return a && !dims_has(x->dims, a) ? a : b;
}

static void to_end(DimList *list, DimId d) {
  dims_remove(list, d);
  list_insert(list, list->n, d);
}

// Returns whether an argument of contraction n is read at positions that depend on dim d, by
// windows. Each position is checked, so rows along d would share no checks.
static bool is_window_dim(const Fusion *f, NodeId n, DimId d) {
  const Graph *g = f->graph;
  for (int j = 0; j < 2; j++)
    for (const Node *x = graph_node(g, graph_node(g, n)->args[j]); op_looks_through((Op)x->op, 0);
         x = graph_node(g, x->args[0]))
      for (int i = 0; i < x->attr->nto; i++)
        if (x->attr->to[i] == d) return true;
  return false;
}

// Returns the dim for the rows of a register tile (a block of results in registers), 0: none. It is
// an outer dim along which the argument with the vectorised dim does not vary. One load of that
// argument then serves many rows. The innermost such dim with LONG_ENOUGH elements is taken, else
// the longest, and of equally long ones one that no window reads along.
static DimId rows_of_contraction(const Fusion *f, NodeId n, const LoopPlan *plan, DimId vector) {
  enum { LONG_ENOUGH = 8 };
  const Graph *g = f->graph;
  const Node *x = graph_node(g, n);
  DimId best = 0;
  for (int i = plan->outer.n - 1; i >= 0; i--) {
    DimId d = plan->outer.at[i];
    int64_t size = dim_get(g->dims, d)->size, had = best ? dim_get(g->dims, best)->size : 0;
    bool shares = size == had && is_window_dim(f, n, best) && !is_window_dim(f, n, d);
    if (d == vector || had >= LONG_ENOUGH || (size <= had && !shares)) continue;
    for (int j = 0; j < 2; j++) {
      const Dims *arg = graph_node(g, x->args[j])->dims;
      if (dims_has(arg, vector) && !dims_has(arg, d)) best = d;
    }
  }
  return best;
}

// Moves the rows loop (over the rows of a register tile) to the last place before the vectorised
// loop. It stays where it is if the argument with dim `vector` varies along a loop between the two:
// each load would then serve fewer rows. If that argument is in panels, the rows loop goes before
// the loops over the columns of a panel, so that a panel serves all rows in a row.
static void rows_to_end(const Fusion *f, NodeId n, LoopPlan *plan, DimId vector) {
  const Node *x = graph_node(f->graph, n);
  const Dims *arg =
      graph_node(f->graph, x->args[!dims_has(graph_node(f->graph, x->args[0])->dims, vector)])
          ->dims;
  DimList columns = {.n = 1, .at = {vector}};
  bool panels = contract_panels(f->graph, f->order, n, &columns) >= 0;
  for (int i = dims_index(&plan->outer, plan->rows); i < plan->outer.n - 1; i++)
    if (!panels && dims_has(arg, plan->outer.at[i])) return;
  to_end(&plan->outer, plan->rows);
  for (int i = 0; i < columns.n; i++) to_end(&plan->outer, columns.at[i]);
}

// Returns the physical order of one argument of contraction n: the argument without the vectorised
// dim. The summed loops have this order, because the elements of that argument are loaded one by
// one.
static const DimList *summed_order(const Fusion *f, NodeId n, DimId vector) {
  const Node *x = graph_node(f->graph, n);
  return &f->order->at[x->args[dims_has(graph_node(f->graph, x->args[0])->dims, vector)]];
}

// -- short rows ---------------------------------------------------------------------------------

// Returns whether the group reduces rows, and reads and stores elements at the loop counters only.
static bool reduces_rows(const Fusion *f, const Group *g, const LoopPlan *plan) {
  bool reduces = false;
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(f->graph, g->node[i]);
    if (op_looks_through((Op)x->op, 0) || x->op == OP_SCATTER_ADD) return false;
    reduces |=
        op_reduces(x->op) && !reduce_accumulates(f->graph, g->node[i], &plan->outer, &plan->inner);
  }
  return reduces;
}

// Returns the last outer dim if vectors along it compute many rows together, which pays where a row
// fills less than a vector. Its elements are then accessed at a stride. Else returns `vector`.
static DimId vector_of_rows(const Fusion *f, const Group *g, const LoopPlan *plan, DimId vector) {
  int64_t row = 1;
  if (!plan->outer.n || !dims_has(&plan->inner, vector)) return vector;
  for (int i = 0; i < plan->inner.n; i++)
    row = size_times(row, dim_get(f->graph->dims, plan->inner.at[i])->size);
  DimId last = plan->outer.at[plan->outer.n - 1];
  bool many = row < VECTOR && dim_get(f->graph->dims, last)->size >= VECTOR;
  return many && reduces_rows(f, g, plan) ? last : vector;
}

// -- products -----------------------------------------------------------------------------------

enum {
  PRODUCT_WORK = 1 << 20, // as in kernel_product.c
  PRODUCT_COLUMNS = 16,
  PRODUCT_ROWS = 8
};

// Returns whether a group computes nothing but contraction n and pointwise work without checks,
// windows and look-ups. Then its kernel can be a product (kernel_product).
static bool only_contracts(const Fusion *f, const Group *g, NodeId n) {
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(f->graph, g->node[i]);
    bool views = op_looks_through((Op)x->op, 0) || x->op == OP_TAKE;
    bool reduces = op_reduces(x->op) && !is_dot(f, g->node[i]);
    if (g->node[i] != n && (views || reduces)) return false;
    if (op_row((Op)x->op)->flags & CHECKS) return false;
  }
  return true;
}

// Returns the argument of contraction n, 0 or 1, that alone has dim d. Returns -1 if both have it.
static int owner_of(const Fusion *f, NodeId n, DimId d) {
  const Node *x = graph_node(f->graph, n);
  bool a = dims_has(graph_node(f->graph, x->args[0])->dims, d),
       b = dims_has(graph_node(f->graph, x->args[1])->dims, d);
  return a == b ? -1 : b;
}

// Returns the dim of the rows of contraction n as a product whose columns are dim `vector`: the
// last long dim of the result that the other argument has alone. Returns 0 if there is none.
static DimId product_rows_dim(const Fusion *f, NodeId n, DimId vector) {
  const DimList *c = &f->order->at[n];
  for (int i = c->n - 1; i >= 0; i--)
    if (owner_of(f, n, c->at[i]) == !owner_of(f, n, vector) &&
        dim_get(f->graph->dims, c->at[i])->size >= PRODUCT_ROWS)
      return c->at[i];
  return 0;
}

// Returns the dim of the columns of contraction n as a large product: the last long dim of the
// result that one argument has alone. Returns 0 if its kernel cannot be a product.
static DimId product_columns_dim(const Fusion *f, const Group *g, NodeId n) {
  const DimList *c = &f->order->at[n];
  if (graph_node(f->graph, n)->nargs != 2 || !only_contracts(f, g, n) ||
      contract_flops(f->graph, n, NULL, NULL) < 2.0 * PRODUCT_WORK)
    return 0;
  for (int i = c->n - 1; i >= 0; i--) {
    DimId d = c->at[i];
    if (dims_has(&g->outer, d) && owner_of(f, n, d) >= 0 &&
        dim_get(f->graph->dims, d)->size >= PRODUCT_COLUMNS && product_rows_dim(f, n, d))
      return d;
  }
  return 0;
}

// Orders the outer loops of a product: the dims that only the argument with the rows has come last
// before the columns, so that a block of results may have rows of several loops.
static void order_product(const Fusion *f, NodeId n, LoopPlan *plan, DimId vector) {
  DimList outer = plan->outer;
  plan->rows = product_rows_dim(f, n, vector);
  for (int i = 0; i < outer.n; i++)
    if (owner_of(f, n, outer.at[i]) == !owner_of(f, n, vector)) to_end(&plan->outer, outer.at[i]);
  to_end(&plan->outer, plan->rows);
  to_end(&plan->outer, vector);
}

LoopPlan loops_choose(const Fusion *f, const Group *g) {
  LoopPlan plan = {.outer = g->outer, .inner = g->inner, .dots = dots_of(f, g)};
  LoopTraffic t = {.f = f, .g = g, .all = list_union(&g->outer, &g->inner)};
  traffic_find(&t);
  NodeId contraction = contraction_of(f, g);
  if (contraction && g->nstored)
    order_by(&plan.outer, &f->order->at[contraction]);
  else
    order_by(&plan.outer, &t.order);
  DimId product = contraction ? product_columns_dim(f, g, contraction) : 0;
  DimId vector = product ? product : contraction ? vector_of_contraction(f, contraction) : 0;
  order_by(&plan.inner, contraction ? summed_order(f, contraction, vector) : &t.order);
  if (!vector || !dims_has(&t.all, vector)) {
    int best = -1;
    for (int i = 0; i < t.all.n; i++)
      if (t.contiguous[i] > 0 && (best < 0 || t.contiguous[i] > t.contiguous[best])) best = i;
    vector = best >= 0 ? t.all.at[best] : t.all.n ? t.all.at[t.all.n - 1] : 0;
  }
  if (!contraction && vector) vector = vector_of_rows(f, g, &plan, vector);
  plan.vector_outer = vector && dims_has(&plan.outer, vector);
  if (vector) to_end(plan.vector_outer ? &plan.outer : &plan.inner, vector);
  if (product) {
    order_product(f, contraction, &plan, vector);
    return plan;
  }
  if (contraction && vector) plan.rows = rows_of_contraction(f, contraction, &plan, vector);
  if (plan.rows && plan.vector_outer) rows_to_end(f, contraction, &plan, vector);
  return plan;
}

// -- joining loops -----------------------------------------------------------------------------

typedef struct PlannedLoop {
  KLoop loop;
  bool indexed; // an INDEX statement counts along the loop
  bool partial; // the valid length of the loop is the value of `slot`
  Slot slot;
  bool inner, dot, rows;
  int from; // index of the fastest loop that it covers, before loops were joined
  uint8_t nparts;
  int64_t part[MAX_LOOPS]; // sizes of the dims that the loop covers, slowest first
} PlannedLoop;

typedef struct LoopList {
  int n;
  PlannedLoop at[MAX_LOOPS];
} LoopList;

static void list_loops(KernelBuilder *m, LoopList *l) {
  const Graph *g = m->f->graph;
  int n = m->plan.outer.n + m->plan.inner.n;
  for (int i = 0; i < plan_loops(&m->plan); i++) {
    DimId d = plan_dim(&m->plan, i);
    const Dim *dim = dim_get(g->dims, d);
    PlannedLoop p = {.loop = {.name = dim->name, .size = dim->size, .slot = -1},
                     .inner = i >= m->plan.outer.n && i < n,
                     .dot = i >= n,
                     .rows = d == m->plan.rows,
                     .from = i,
                     .nparts = 1,
                     .part = {dim->size}};
    for (uint32_t s = 0; s < m->stmt.n && !p.dot; s++) p.indexed |= m->stmt_dim.at[s] == d;
    p.partial = extent_slot(g, m->f->rows, d, &p.slot);
    bool last_inner = p.inner && i + 1 == n;
    if (dim->size != 1 || p.indexed || p.partial || last_inner) l->at[l->n++] = p;
  }
}

static bool walks_as_one(const PlannedLoop *slow, const PlannedLoop *fast, const KPtr *p) {
  return p->stride[slow->from] == p->stride[fast->from] * fast->loop.size;
}

// Returns whether a loop covers the rows of the loop around the group (Fusion.loop_rows). It stays
// alone, so that units are parts of single rows.
static bool has_loop_rows(const KernelBuilder *m, const PlannedLoop *p) {
  DimId rows = m->f->loop_rows[group_region(m->f, m->group)].dim;
  return rows && plan_dim(&m->plan, p->from) == rows;
}

static bool joins(const KernelBuilder *m, const PlannedLoop *slow, const PlannedLoop *fast) {
  if (has_loop_rows(m, slow) || has_loop_rows(m, fast)) return false;
  if (slow->inner != fast->inner || slow->dot != fast->dot || fast->partial || slow->indexed ||
      fast->indexed)
    return false;
  for (uint32_t p = 0; p < m->ptr.n; p++)
    if (!walks_as_one(slow, fast, &m->ptr.at[p])) return false;
  for (uint32_t w = 0; w < m->walk.n; w++)
    if (!walks_as_one(slow, fast, &m->walk.at[w])) return false;
  return true;
}

static void join(KernelBuilder *m, LoopList *l, int i) {
  PlannedLoop *slow = &l->at[i], *fast = &l->at[i + 1];
  memcpy(slow->part + slow->nparts, fast->part, fast->nparts * sizeof *fast->part);
  slow->nparts = (uint8_t)(slow->nparts + fast->nparts);
  slow->loop.name = arena_printf(m->lasting, "%s*%s", slow->loop.name, fast->loop.name);
  slow->loop.size *= fast->loop.size;
  slow->from = fast->from;
  slow->rows |= fast->rows;
  if (slow->partial) slow->slot.scale = (slow->slot.scale ? slow->slot.scale : 1) * fast->loop.size;
  l->n--;
  memmove(fast, fast + 1, (size_t)(l->n - i - 1) * sizeof *fast);
}

static void move_walk(const LoopList *l, KPtr *p) {
  int64_t old[MAX_LOOPS];
  memcpy(old, p->stride, sizeof old);
  memset(p->stride, 0, sizeof old);
  for (int i = 0; i < l->n; i++) p->stride[i] = old[l->at[i].from];
}

static void move_strides(KernelBuilder *m, const LoopList *l) {
  for (uint32_t p = 0; p < m->ptr.n; p++) move_walk(l, &m->ptr.at[p]);
  for (uint32_t w = 0; w < m->walk.n; w++) move_walk(l, &m->walk.at[w]);
}

// Sets KStmt.index of each INDEX statement to the index of the loop over the dim that it counts.
// The index stays -1 for a dim of one element, which has no loop.
static void name_loops(KernelBuilder *m, const LoopList *l) {
  for (uint32_t s = 0; s < m->stmt.n; s++) {
    if (!m->stmt_dim.at[s]) continue;
    for (int i = 0; i < l->n; i++)
      if (!l->at[i].dot && plan_dim(&m->plan, l->at[i].from) == m->stmt_dim.at[s])
        m->stmt.at[s].index = i;
  }
}

static void set_vector(KernelBuilder *m, Kernel *k) {
  bool outer = k->nouter > 0 && (m->plan.vector_outer || !k->ninner);
  k->vector = (int8_t)((outer ? k->nouter : k->nouter + k->ninner) - 1);
  if (k->vector < 0 || k->vector >= k->nouter) return;
  int64_t size = k->loop[k->vector].size, block = k->ninner ? BLOCK_NESTED : BLOCK_FLAT;
  k->block = size > 0 && size < block ? size : block;
}

// Drops the sizes of dims (KLoop.part) of each loop in which no sum is added block by block. Only
// such sums need the sizes (codegen/cpu/fold.c). Kernels that differ in the sizes could not share
// their code.
static void keep_parts(const KernelBuilder *m, Kernel *k) {
  bool sums = false;
  for (uint32_t s = 0; s < m->stmt.n; s++)
    sums |= m->stmt.at[s].kind == K_REDUCE && stmt_folds(&m->stmt.at[s]);
  int64_t rounds = 1;
  for (int l = k->nouter + k->ninner - 1; l >= 0; l--) {
    rounds = clamp64(rounds * k->loop[l].size, 0, SUM_LEAF + 1);
    if (!sums || l < k->nouter || l == k->vector || rounds <= SUM_LEAF) k->loop[l].nparts = 0;
  }
}

// Writes loop i of the list. unsized: the kernel runs for any number of elements.
static void finish_loop(KernelBuilder *m, Kernel *k, int i, PlannedLoop *p, bool unsized) {
  if (unsized && !p->partial)
    p->slot = (Slot){.kind = SLOT_EXTENT, .dim = "", .whole = p->loop.size};
  if (unsized || p->partial) p->loop.slot = kernel_add_slot(m, p->slot);
  if (unsized) p->loop.size = 0;
  if (unsized) p->loop.name = "elements";
  if (p->nparts > 1) {
    p->loop.nparts = p->nparts;
    p->loop.part = arena_copy(m->lasting, p->part, p->nparts * sizeof *p->part);
  }
  k->loop[i] = p->loop;
  if (p->dot)
    k->ndots++;
  else if (p->inner)
    k->ninner++;
  else
    k->nouter++;
  if (p->rows && !p->inner && !p->dot) k->rows = (int8_t)i;
}

void loops_finish(KernelBuilder *m, Kernel *k, bool any_size) {
  LoopList l = {0};
  list_loops(m, &l);
  for (int i = l.n - 2; i >= 0; i--)
    if (joins(m, &l.at[i], &l.at[i + 1])) join(m, &l, i);
  move_strides(m, &l);
  name_loops(m, &l);
  k->rows = -1;
  for (int i = 0; i < l.n; i++)
    finish_loop(m, k, i, &l.at[i], any_size && l.n == 1 && !l.at[i].inner);
  set_vector(m, k);
  keep_parts(m, k);
  if (k->rows == k->vector) k->rows = -1;
}

// -- writing in place --------------------------------------------------------------------------

// Returns whether pointers a and b, which point into one buffer, address the same element in every
// iteration.
static bool same_walk(const KPtr *a, const KPtr *b) {
  return !a->nbases && !b->nbases && a->offset == b->offset &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
         dtype_bytes(a->type) == dtype_bytes(b->type);
}

// Returns whether several units store through a pointer to one element, though one of them would do
// (K_STORE). The others may still read what it replaces.
static bool stores_again(const Kernel *k, int store) {
  for (int l = 0; l < k->nouter; l++)
    if (!k->ptr[store].stride[l] && k->loop[l].size != 1) return true;
  return false;
}

bool pointers_overlay(const Kernel *k, int load, int store) {
  if (!same_walk(&k->ptr[load], &k->ptr[store]) || stores_again(k, store)) return false;
  int first_store = k->nstmts, last_load = -1;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *t = &k->stmt[i];
    bool touches = t->kind == K_LOAD || t->kind == K_LOAD_AT || t->kind == K_ACCUM ||
                   t->kind == K_STORE || t->kind == K_SCATTER;
    if (t->kind == K_DOT && (t->index == load || t->other == load)) return false;
    if (!touches || (t->index != load && t->index != store)) continue;
    if ((t->kind != K_LOAD && t->kind != K_STORE) || (t->kind == K_LOAD && t->arg[1] != NO_STMT))
      return false;
    if (t->kind == K_STORE && i < first_store) first_store = i;
    if (t->kind == K_LOAD) last_load = i;
  }
  if (last_load < 0 || first_store == k->nstmts || last_load > first_store) return false;
  const KStmt *a = &k->stmt[last_load], *z = &k->stmt[first_store];
  return a->level == z->level && a->phase <= z->phase;
}
