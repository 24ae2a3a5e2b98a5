// Computes attention block by block, so that its scores are never stored for all rows: memory grows
// with the number of rows, not with its square. blocked_find.c says what attention is.
//
// An attention becomes a loop over blocks of rows inside a loop over its batch dims, such as the
// batch and the heads. Each iteration computes the scores of one block for all keys. They are in
// buffers of the loop, which are small enough for a cache. A value that a block makes for its own
// rows is collected. A value that is summed over the rows is a carry of the loop, and the blocks
// add to it in order. The backward pass is a loop of its own, which recomputes the scores.
//
//   loop bh                           batch and heads, merged
//     loop blocks                     blocks of the rows
//       s = contract(at(q), at(k))    scores: rows of the block x keys
//       p = softmax(s)
//       o = contract(p, at(v))        collected: o of all rows
//
// With a causal mask a block needs the keys up to its last row. The dim of the keys in the loop
// then says how many of them each block needs (Dim.live), and nothing is computed for the others.
//
// The passes after this one know loops only. The method is that of Rabe and Staats, "Self-attention
// does not need O(n^2) memory", 2021, with all keys of a block at once.
#include "codegen/order/blocked_internal.h"

#include <string.h>

typedef struct LoopWriter {
  Arena *a;
  const Graph *g;
  Graph *to;
  const BlockedPlan *p;
  NodeId *map; // by old node: its value outside all loops of the plan; 0: not made yet
  // the loop that is being written
  uint32_t l;
  const BlockedLoop *loop;
  RegionId outer, inner;      // the loops over the batch dims (0: none) and over the blocks
  DimId many, blocks, within; // the merged batch dims; number of the block; row within the block
  DimId live;                 // the keys that a block needs; 0: all
  NodeId *body;               // by old node: its value in an iteration
  NodeId *end;                // by old node: its value after both loops
  VEC(NodeId) exit;           // old nodes whose values leave the loop
  VEC(NodeId) next[2];        // the arguments of the scans: [0] over blocks, [1] over batch dims
} LoopWriter;

// -- dims of the loops ---------------------------------------------------------------------------

static DimId merged_dim(LoopWriter *w) {
  const DimList *batch = &w->loop->batch;
  if (batch->n == 1) return batch->at[0];
  const Dim *slow = dim_get(w->to->dims, batch->at[0]);
  const Dim *whole = dim_get(w->to->dims, slow->whole);
  const char *name = whole->name;
  int64_t size = whole->size;
  for (int i = 1; i < batch->n; i++) {
    const Dim *d = dim_get(w->to->dims, batch->at[i]);
    name = arena_printf(w->a, "%s.x.%s", name, d->name);
    size *= d->size;
  }
  return dim_block(w->to->dims, w->to->mesh, dim_local(w->to->dims, name, size), slow->axes);
}

// Returns a dim for the keys that each block needs.
static DimId live_dim(LoopWriter *w) {
  DimTable *t = w->to->dims;
  const Dim *keys = dim_get(t, w->loop->keys.at[0]);
  const char *name = arena_printf(w->a, "%s.%s.live", keys->name, dim_get(t, w->blocks)->name);
  size_t bytes = (size_t)dim_get(t, w->blocks)->size * sizeof *w->loop->live;
  for (;; name = arena_printf(w->a, "%s.again", name)) {
    DimId d = dim_find(t, name);
    if (!d) return dim_add_live(t, name, keys->size, w->blocks, w->loop->live);
    const Dim *have = dim_get(t, d);
    if (have->live && have->by == w->blocks && have->size == keys->size &&
        memcmp(have->live, w->loop->live, bytes) == 0)
      return d;
  }
}

static void loops_begin(LoopWriter *w) {
  const Dim *rows = dim_get(w->to->dims, w->loop->rows);
  int64_t block = w->loop->block, n = rows->size / block;
  w->blocks =
      dim_local(w->to->dims, arena_printf(w->a, "%s.blocks%lld", rows->name, (long long)n), n);
  w->within = dim_local(w->to->dims,
                        arena_printf(w->a, "%s.rows%lld", rows->name, (long long)block), block);
  w->live = w->loop->live ? live_dim(w) : 0;
  w->outer = 0;
  Pos pos = graph_node(w->g, w->loop->first)->origin->pos;
  Region r = {.parent = w->loop->around, .pos = pos};
  if (w->loop->batch.n) {
    r.t = w->many = merged_dim(w);
    w->outer = r.parent = graph_region(w->to, &r);
  }
  r.t = w->blocks;
  w->inner = graph_region(w->to, &r);
}

// -- values from outside -------------------------------------------------------------------------

static NodeId merge(LoopWriter *w, NodeId x) {
  const DimList *batch = &w->loop->batch;
  if (batch->n == 1) return x;
  return graph_add(w->to, OP_MERGE, 1, &x,
                   &(Attr){.ndims = batch->n, .dims = batch->at, .nto = 1, .to = &w->many});
}

static NodeId split_rows(LoopWriter *w, NodeId x) {
  return graph_add(
      w->to, OP_SPLIT, 1, &x,
      &(Attr){.ndims = 1, .dims = &w->loop->rows, .nto = 2, .to = (DimId[]){w->blocks, w->within}});
}

// Returns the position along batch dim d in an iteration of the outer loop, an i32 scalar.
static NodeId position(LoopWriter *w, DimId d) {
  NodeId index = graph_index(w->to, d);
  if (w->loop->batch.n > 1) {
    Dims all = *graph_node(w->to, index)->dims;
    for (int i = 0; i < w->loop->batch.n; i++)
      if (!dims_add(w->to->dims, &all, w->loop->batch.at[i])) BUG("too many dims in a batch");
    index = merge(w, graph_broadcast(w->to, index, &all));
  }
  return graph_at(w->to, w->outer, index);
}

// Returns the position of the first row of a block, an i32 scalar.
static NodeId first_row(LoopWriter *w) {
  NodeId block = graph_const(w->to, TYPE_I32, (double)w->loop->block);
  return graph_at(w->to, w->inner,
                  graph_binary(w->to, OP_MUL, graph_index(w->to, w->blocks), block));
}

// Returns x at `start` along dim d: one position, or for the rows those of the block.
static NodeId window(LoopWriter *w, NodeId x, DimId d, NodeId start) {
  bool rows = d == w->loop->rows;
  Attr at = {.ndims = 1, .dims = &d, .nto = rows, .to = &w->within};
  at.affine = (Affine){.out = rows, .divisor = 1};
  return graph_add(w->to, OP_WINDOW_AT, 2, (NodeId[]){x, start}, &at);
}

// Returns x with the dim of the keys that a block needs instead of that of all keys.
static NodeId narrow(LoopWriter *w, NodeId x) {
  const Node *n = graph_node(w->to, x);
  DimId keys = w->loop->keys.at[0];
  if (!w->live || !dims_has(n->dims, keys)) return x;
  if (n->op == OP_INDEX) return graph_index(w->to, w->live);
  return graph_add(w->to, OP_RENAME, 1, &x,
                   &(Attr){.ndims = 1, .dims = &keys, .nto = 1, .to = &w->live});
}

// Returns x, a sum of one block, with the dim of all keys. It is 0 for keys that the block does not
// need.
static NodeId widened(LoopWriter *w, NodeId x) {
  DimId keys = w->loop->keys.at[0];
  if (!w->live || !dims_has(graph_node(w->to, x)->dims, w->live)) return x;
  Attr at = {.ndims = 1, .dims = &w->live, .nto = 1, .to = &keys};
  at.affine = (Affine){.out = 1, .divisor = 1};
  return graph_add(w->to, OP_WINDOW, 1, &x, &at);
}

// Returns the part of a value from outside that an iteration reads. Values of all rows and keys are
// read where they are, others through a piece of memory for each iteration.
static NodeId part_of(LoopWriter *w, NodeId n) {
  NodeId x = narrow(w, w->map[n]);
  const Dims dims = *graph_node(w->to, x)->dims;
  bool keys = dims_overlap(&dims, &w->loop->keys) || dims_has(&dims, w->live);
  bool rows = dims_has(&dims, w->loop->rows), scores = rows && keys;
  bool merges = w->outer && list_has_all(&dims, &w->loop->batch) && !scores;
  if (rows && !scores) x = split_rows(w, x);
  if (merges) x = graph_at(w->to, w->outer, merge(w, x));
  for (int i = 0; i < w->loop->batch.n && !merges; i++)
    if (dims_has(&dims, w->loop->batch.at[i]))
      x = window(w, x, w->loop->batch.at[i], position(w, w->loop->batch.at[i]));
  if (!rows) return x;
  return scores ? window(w, x, w->loop->rows, first_row(w)) : graph_at(w->to, w->inner, x);
}

// -- values of an iteration ----------------------------------------------------------------------

static DimId dim_inside(const LoopWriter *w, DimId d) {
  if (d == w->loop->rows) return w->within;
  return w->live && d == w->loop->keys.at[0] ? w->live : d;
}

static Attr attr_inside(const LoopWriter *w, const Attr *from, DimId room[MAX_RANK]) {
  Attr at = *from;
  at.ndims = 0;
  at.dims = room;
  for (int i = 0; i < from->ndims; i++)
    if (!dims_has(&w->loop->batch, from->dims[i])) room[at.ndims++] = dim_inside(w, from->dims[i]);
  return at;
}

// Returns whether the value of n is summed over iterations, because it lacks dims of the loops.
static bool adds_up(const LoopWriter *w, const Node *x) {
  return !dims_has(x->dims, w->loop->rows) || !list_has_all(x->dims, &w->loop->batch);
}

static NodeId inside(LoopWriter *w, NodeId n);

// Adds the node of an iteration that computes n. A sum over several iterations keeps the type in
// which it is accumulated.
static NodeId computed(LoopWriter *w, NodeId n) {
  const Node *x = graph_node(w->g, n);
  NodeId args[MAX_ARGS];
  DimId room[MAX_RANK];
  Dtype wide = dtype_accumulator((Dtype)x->type);
  bool sums = w->loop->role[n] == BLOCK_EXIT && adds_up(w, x) && dtype_is_float((Dtype)x->type);
  for (int i = 0; i < x->nargs; i++) args[i] = inside(w, x->args[i]);
  w->to->origin = *x->origin;
  Attr at = attr_inside(w, x->attr, room);
  if (x->op == OP_BROADCAST && !at.ndims) return args[0];
  if (sums && x->op == OP_CONTRACT) at.type = wide;
  if (sums && x->op == OP_SUM) args[0] = graph_cast(w->to, args[0], wide);
  char why[200];
  NodeId made = graph_try(w->to, (Op)x->op, x->nargs, args, &at, x->instance, why);
  if (!made) BUG("attention in blocks: %s", why);
  return made;
}

// Returns the value of n in an iteration.
static NodeId inside(LoopWriter *w, NodeId n) {
  if (w->body[n]) return w->body[n];
  NodeId made = blocked_computes(w->p, w->l, n) ? computed(w, n) : part_of(w, n);
  return w->body[n] = made;
}

// -- values that leave the loop ------------------------------------------------------------------

// Returns the value from which the sum, maximum or minimum x begins, with the dims of node `like`.
static NodeId neutral(LoopWriter *w, const Node *x, NodeId like, Dtype type) {
  double start = monoid_identity(op_row((Op)x->op)->monoid, type);
  Dims dims = *graph_node(w->to, like)->dims;
  return graph_broadcast(w->to, graph_const(w->to, type, start), &dims);
}

// A value that leaves a loop: it is collected, or it is carried and combined step by step.
typedef struct Leaving {
  NodeId old, value, carry;
} Leaving;

static void carry_begin(LoopWriter *w, RegionId r, int which, Leaving *x) {
  const Node *old = graph_node(w->g, x->old);
  Dtype type = region_sum_type(w->to, r, (Dtype)graph_node(w->to, x->value)->type);
  NodeId start = neutral(w, old, x->value, type);
  x->carry = graph_add(w->to, OP_CARRY, 1, &start, &(Attr){.region = r, .carry = w->next[which].n});
  Op op = monoid_op(op_row((Op)old->op)->monoid, type);
  vec_push(w->a, w->next[which]) =
      graph_binary(w->to, op, x->carry, graph_cast(w->to, x->value, type));
}

// Ends loop r. which: 0 for the loop over blocks, 1 for the loop over batch dims. Sets the value of
// each leaving value to the one after the loop.
static void loop_end(LoopWriter *w, RegionId r, int which, Leaving *leaving) {
  for (uint32_t i = 0; i < w->exit.n; i++) {
    Leaving *x = &leaving[i];
    const Dims *dims = graph_node(w->g, x->old)->dims;
    bool keeps = which ? dims_overlap(dims, &w->loop->batch) : dims_has(dims, w->loop->rows);
    w->to->origin = *graph_node(w->g, x->old)->origin;
    x->carry = 0;
    if (!keeps) carry_begin(w, r, which, x);
  }
  w->to->origin = *graph_node(w->g, w->loop->first)->origin;
  w->to->origin.why =
      which ? arena_printf(w->a, "attention: a loop over %s", dim_get(w->to->dims, w->many)->name)
            : arena_printf(w->a, "attention: a loop over blocks of %lld rows",
                           (long long)w->loop->block);
  if (!w->next[which].n) vec_push(w->a, w->next[which]) = leaving[0].value;
  NodeId scan =
      graph_add(w->to, OP_SCAN, (int)w->next[which].n, w->next[which].at, &(Attr){.region = r});
  for (uint32_t i = 0; i < w->exit.n; i++) {
    Leaving *x = &leaving[i];
    w->to->origin = *graph_node(w->g, x->old)->origin;
    x->value = x->carry ? graph_add(w->to, OP_FINAL, 2, (NodeId[]){scan, x->carry}, NULL)
                        : graph_collect(w->to, scan, x->value);
  }
}

// Returns the value of old node n from its value after both loops, which has the dims of the loops:
// blocks and rows are merged, the batch dims are split, and dims that n lacks are summed.
static NodeId outside(LoopWriter *w, NodeId n, NodeId value) {
  const Node *x = graph_node(w->g, n);
  const Dims have = *graph_node(w->to, value)->dims;
  const DimList *batch = &w->loop->batch;
  w->to->origin = *x->origin;
  if (dims_has(&have, w->blocks))
    value = graph_add(
        w->to, OP_MERGE, 1, &value,
        &(Attr){
            .ndims = 2, .dims = (DimId[]){w->blocks, w->within}, .nto = 1, .to = &w->loop->rows});
  if (w->outer && dims_has(&have, w->many) && batch->n > 1)
    value = graph_add(w->to, OP_SPLIT, 1, &value,
                      &(Attr){.ndims = 1, .dims = &w->many, .nto = batch->n, .to = batch->at});
  Dims more = list_minus(graph_node(w->to, value)->dims, x->dims);
  Op op = x->op == OP_CONTRACT ? OP_SUM : (Op)x->op;
  if (more.n) value = graph_reduce(w->to, op, value, &more);
  return graph_cast(w->to, value, (Dtype)x->type);
}

static void find_exits(LoopWriter *w) {
  w->exit.n = w->next[0].n = w->next[1].n = 0;
  for (NodeId n = 1; n <= graph_count(w->g); n++)
    if (w->p->of[n] == w->l + 1 && w->p->read[n]) vec_push(w->a, w->exit) = n;
}

static void write_loop(LoopWriter *w, uint32_t l) {
  w->l = l;
  w->loop = &w->p->loop.at[l];
  find_exits(w);
  if (!w->exit.n) return;
  memset(w->body, 0, (graph_count(w->g) + 1) * sizeof *w->body);
  w->to->origin = *graph_node(w->g, w->loop->first)->origin;
  loops_begin(w);
  Leaving *leaving = arena_array(w->a, Leaving, w->exit.n);
  for (uint32_t i = 0; i < w->exit.n; i++)
    leaving[i] = (Leaving){.old = w->exit.at[i], .value = widened(w, inside(w, w->exit.at[i]))};
  loop_end(w, w->inner, 0, leaving);
  if (w->outer) loop_end(w, w->outer, 1, leaving);
  for (uint32_t i = 0; i < w->exit.n; i++)
    w->map[leaving[i].old] = outside(w, leaving[i].old, leaving[i].value);
}

// -- the order in which nodes are made -----------------------------------------------------------

typedef VEC(NodeId) Stack;

static bool wants(LoopWriter *w, Stack *stack, NodeId n) {
  if (w->map[n]) return false;
  vec_push(w->a, *stack) = n;
  return true;
}

// Pushes to `stack` the values from outside that loop l reads and that are not made yet. Returns
// whether there are any.
static bool loop_waits(LoopWriter *w, uint32_t l, Stack *stack) {
  Stack todo = {0};
  bool *seen = arena_array(w->a, bool, graph_count(w->g) + 1), any = false;
  for (NodeId n = 1; n <= graph_count(w->g); n++)
    if (w->p->of[n] == l + 1) vec_push(w->a, todo) = n;
  while (todo.n) {
    const Node *x = graph_node(w->g, todo.at[--todo.n]);
    for (int i = 0; i < x->nargs; i++) {
      NodeId a = x->args[i];
      if (seen[a]) continue;
      seen[a] = true;
      if (blocked_computes(w->p, l, a))
        vec_push(w->a, todo) = a;
      else
        any |= wants(w, stack, a);
    }
  }
  return any;
}

static void write_node(LoopWriter *w, NodeId n) {
  w->map[n] = graph_copy(w->to, w->g, n, w->map);
  Origin origin = *graph_node(w->to, w->map[n])->origin;
  if (!w->p->why[n] || origin.why) return;
  origin.why = w->p->why[n];
  graph_set_origin(w->to, w->map[n], &origin);
}

// Makes node n of the new graph, and before it everything that it needs.
static void make(LoopWriter *w, NodeId n) {
  Stack stack = {0};
  (void)wants(w, &stack, n);
  while (stack.n) {
    NodeId at = stack.at[stack.n - 1];
    const Node *x = graph_node(w->g, at);
    uint32_t of = w->p->of[at];
    bool waits = false;
    if (w->map[at]) {
      stack.n--;
      continue;
    }
    if (of)
      waits = loop_waits(w, of - 1, &stack);
    else
      for (int i = 0; i < x->nargs; i++) waits |= wants(w, &stack, x->args[i]);
    if (waits) continue;
    stack.n--;
    if (of)
      write_loop(w, of - 1);
    else
      write_node(w, at);
  }
}

const Graph *attention_blocked(Arena *a, const Graph *g, const CodegenOptions *opt) {
  uint32_t count = graph_count(g);
  if (opt->gpu) return g;
  ArenaMark mark = arena_mark(a);
  BlockedPlan *p = blocked_find(a, g, opt);
  bool notes = false;
  for (NodeId n = 1; n <= count; n++) notes |= p->why[n] != NULL;
  if (!p->loop.n && !notes) {
    arena_reset(a, mark);
    return g;
  }
  LoopWriter w = {.a = a, .g = g, .p = p, .to = graph_like(a, g, g->stage)};
  w.map = arena_array(a, NodeId, count + 1);
  w.body = arena_array(a, NodeId, count + 1);
  for (NodeId n = 1; n <= count; n++) {
    bug_context("attention", n);
    if (!p->of[n] || p->read[n]) make(&w, n);
  }
  graph_copy_outputs(w.to, g, w.map);
  return graph_prune_in_place(a, w.to, g->stage);
}
