// Loops in the evaluator: a scan runs its region once for each position of its dim.
//
// The tensor of a node in the region holds the value of the current step. After each step all
// carries take their next values at once, because the next value of a carry may be another carry.
// After each step store_collected copies the argument of a COLLECT node to its place in the
// collected tensor. After the last step FINAL nodes copy the values of carries.
#include <string.h>

#include "ir/eval/eval_rules.h"

static void copy_cells(const Tensor *from, Tensor *to) {
  memcpy(to->value, from->value, (size_t)to->elements * sizeof *to->value);
  memcpy(to->bound, from->bound, (size_t)to->elements * sizeof *to->bound);
  memcpy(to->tainted, from->tainted, (size_t)to->elements);
}

void eval_carry(const EvalNode *c) { copy_cells(c->arg[0], c->out); }
void eval_final(const EvalNode *c) { copy_cells(c->arg[1], c->out); }
void eval_scan(const EvalNode *c) { c->out->value[0] = 1; }
void eval_collect(const EvalNode *c) { BUG("collect %u of no loop", c->id); }

void eval_time_step(const EvalNode *c) {
  const Tensor *x = c->arg[0];
  DimId t = c->n->attr->dims[0];
  if (dim_get(c->g->dims, t)->whole != t && dim_uneven(c->g->dims, c->g->mesh, t))
    BUG("a loop over the uneven block %s", dim_get(c->g->dims, t)->name);
  StrideWalk w = walk_over(c->out, c->out, x);
  int64_t from = c->run->now[c->n->attr->region] * tensor_stride(x, t);
  walk_copy(&w, c->out, 0, x, from);
}

// -- one loop -----------------------------------------------------------------------------------

typedef VEC(NodeId) NodeList;
typedef struct EvalLoop {
  EvalRun *run;
  const Node *scan;
  RegionId region;
  NodeList carry, collect;
  Tensor *next; // next value of carry[i] on processor r: next[i * processors + r]
} EvalLoop;

static void find_ends(EvalLoop *l, NodeId scan) {
  const Graph *g = l->run->e->graph;
  const RegionNodes *all = &l->run->nodes;
  RegionId in[2] = {l->region, l->scan->region};
  for (int k = 0; k < 2; k++)
    for (uint32_t i = all->first[in[k]]; i < all->first[in[k] + 1]; i++) {
      const Node *n = graph_node(g, all->node[i]);
      if (k == 0 && n->op == OP_CARRY) vec_push(l->run->scratch, l->carry) = all->node[i];
      if (k == 1 && n->op == OP_COLLECT && n->args[0] == scan)
        vec_push(l->run->scratch, l->collect) = all->node[i];
    }
}

static Tensor *tensor_of(const EvalLoop *l, NodeId n, int64_t r) {
  return &l->run->e->at[(int64_t)n * l->run->e->processors + r];
}

static void advance_carries(EvalLoop *l) {
  int64_t p = l->run->e->processors;
  for (uint32_t k = 0; k < l->carry.n; k++)
    for (int64_t r = 0; r < p; r++) {
      uint32_t number = graph_node(l->run->e->graph, l->carry.at[k])->attr->carry;
      copy_cells(tensor_of(l, l->scan->args[number], r), &l->next[k * p + r]);
    }
  for (uint32_t k = 0; k < l->carry.n; k++)
    for (int64_t r = 0; r < p; r++)
      copy_cells(&l->next[k * p + r], tensor_of(l, l->carry.at[k], r));
}

static void store_collected(EvalLoop *l, NodeId collect, int64_t r) {
  const Node *n = graph_node(l->run->e->graph, collect);
  const Tensor *x = tensor_of(l, n->args[1], r);
  Tensor *whole = tensor_of(l, collect, r);
  StrideWalk w = walk_over(x, whole, x);
  int64_t to = l->run->now[l->region] * tensor_stride(whole, n->attr->dims[0]);
  walk_copy(&w, whole, to, x, 0);
}

static void start_loop(EvalLoop *l) {
  EvalRun *run = l->run;
  int64_t p = run->e->processors;
  for (uint32_t k = 0; k < l->carry.n; k++) eval_node(run, l->carry.at[k]);
  for (uint32_t k = 0; k < l->collect.n; k++)
    for (int64_t r = 0; r < p; r++) eval_shape(run, l->collect.at[k], r);
  l->next = arena_array(run->scratch, Tensor, (int64_t)l->carry.n * p + 1);
  for (uint32_t k = 0; k < l->carry.n; k++)
    for (int64_t r = 0; r < p; r++)
      tensor_shape(run->scratch, run->e->graph, graph_node(run->e->graph, l->carry.at[k]), r,
                   &l->next[k * p + r]);
}

// Returns whether a guarded loop runs: its carry 0, which is the same on all processors, is true.
static bool guard_holds(const EvalLoop *l) {
  const Graph *g = l->run->e->graph;
  for (uint32_t k = 0; k < l->carry.n; k++)
    if (graph_node(g, l->carry.at[k])->attr->carry == 0)
      return tensor_of(l, l->carry.at[k], 0)->value[0] != 0;
  BUG("a guarded loop without a guard");
}

static void clear_collected(const EvalLoop *l) {
  for (uint32_t k = 0; k < l->collect.n; k++)
    for (int64_t r = 0; r < l->run->e->processors; r++) {
      Tensor *t = tensor_of(l, l->collect.at[k], r);
      memset(t->value, 0, (size_t)t->elements * sizeof *t->value);
      memset(t->bound, 0, (size_t)t->elements * sizeof *t->bound);
      memset(t->tainted, 0, (size_t)t->elements);
    }
}

static void run_loop(EvalRun *run, NodeId scan) {
  const Graph *g = run->e->graph;
  ArenaMark mark = arena_mark(run->scratch);
  EvalLoop l = {
      .run = run, .scan = graph_node(g, scan), .region = graph_node(g, scan)->attr->region};
  const Region *region = region_get(g, l.region);
  int64_t steps = dim_get(g->dims, region->t)->size;
  find_ends(&l, scan);
  start_loop(&l);
  if (region->guarded && !guard_holds(&l)) {
    clear_collected(&l);
    steps = 0;
  }
  for (int64_t i = 0; i < steps; i++) {
    run->now[l.region] = region->reverse ? steps - 1 - i : i;
    eval_region(run, l.region);
    for (uint32_t k = 0; k < l.collect.n; k++)
      for (int64_t r = 0; r < run->e->processors; r++) store_collected(&l, l.collect.at[k], r);
    advance_carries(&l);
  }
  eval_node(run, scan);
  arena_reset(run->scratch, mark);
}

// Evaluates the nodes of region r once, in order. Calls itself, through run_loop, for loops inside
// the region.
void eval_region(EvalRun *run, RegionId r) {
  for (uint32_t i = run->nodes.first[r]; i < run->nodes.first[r + 1]; i++) {
    NodeId n = run->nodes.node[i];
    Op op = (Op)graph_node(run->e->graph, n)->op;
    if (op == OP_SCAN)
      run_loop(run, n);
    else if (op != OP_CARRY && op != OP_COLLECT)
      eval_node(run, n);
  }
}
