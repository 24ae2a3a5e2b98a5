// Decides before clusters are made: what each node becomes (its role), which values must be in
// memory because a use needs their address, which values every kernel that uses them recomputes,
// and which nodes belong to the update of a persistent tensor.
//
//   %7 = broadcast(%6) {dims=[b]}    recomputed: a kernel reads %6 with stride 0 along b
//   %9 = pow(%8, %3) : f32[]         recomputed: a chain of scalars, computed before the loops
//   %5 = window(%4) {...}            recomputed: a kernel reads %4 at shifted positions
#include "codegen/fuse/fuse_internal.h"

enum { RECOMPUTE_SCALARS = 24, RECOMPUTE_INDEX = 8, RECOMPUTE_COST = 48 };

static bool op_needs_address(Op op, int i) {
  return op_looks_up(op, i) || (i == 0 && op_is_alias(op));
}

// Returns whether node n is a contraction to scores that kernels recompute: they read its
// factors in memory.
static bool is_factor_reader(const Fuser *f, NodeId n) {
  return graph_node(f->g, n)->op == OP_CONTRACT && score_recomputed(f, n);
}

// Returns whether node n reads its argument i from memory. A window, which reads at shifted
// positions, does so unless the argument is recomputed at the positions that the window reads.
bool uses_address(const Fuser *f, NodeId n, int i) {
  const Node *x = graph_node(f->g, n);
  return op_needs_address((Op)x->op, i) || is_factor_reader(f, n) ||
         (op_looks_through((Op)x->op, i) && !f->recomputed[x->args[i]]);
}

Dims node_space(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  if (!op_reduces(x->op)) return *x->dims;
  Dims all = *graph_node(g, x->args[0])->dims;
  for (int i = 1; i < x->nargs; i++) all = list_union(&all, graph_node(g, x->args[i])->dims);
  return all;
}

// Returns whether node n is a chain of windows that has over a quarter more elements than the value
// it reads. A window reads at shifted positions; the patches of a convolution are an example. Such
// a node is not stored: kernels read the smaller value.
static bool repeats(const Fuser *f, NodeId n) {
  NodeId root = n;
  while (op_row((Op)graph_node(f->g, root)->op)->cls == WINDOW)
    root = graph_node(f->g, root)->args[0];
  return node_elements(f->g, n) > node_elements(f->g, root) * 5 / 4;
}

// Returns whether contraction n makes or sums scores that kernels recompute.
static bool of_scores(const Fuser *f, NodeId n) {
  const NodeId *args = graph_node(f->g, n)->args;
  return score_recomputed(f, n) || score_recomputed(f, args[0]) || score_recomputed(f, args[1]);
}

static bool is_gemm(const Fuser *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  if (!f->gemm[n] || of_scores(f, n)) return false;
  return !f->opt->fuse || !(repeats(f, x->args[0]) || repeats(f, x->args[1]));
}

static NodeRole role_of(const Fuser *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  if (f->tail[n]) return ROLE_GEMM;
  switch (op_row(x->op)->cls) {
  case SOURCE:
    return op_is_draw(x->op) ? ROLE_KERNEL : op_is_number(x->op) ? ROLE_NUMBER : ROLE_SOURCE;
  case CONTRACT: return is_gemm(f, n) ? ROLE_GEMM : ROLE_KERNEL;
  case ORDERED:
  case MATRIX: return ROLE_ORDERED;
  case MOVE: return op_is_alias(x->op) ? ROLE_ALIAS : ROLE_KERNEL;
  case COLLECTIVE:
    return x->op == OP_SLICE_OWN || x->op == OP_TO_PARTIAL ? ROLE_KERNEL : ROLE_COLLECTIVE;
  case REGION: return x->op == OP_CARRY ? ROLE_SOURCE : x->op == OP_SCAN ? ROLE_LOOP : ROLE_ALIAS;
  case POINTWISE:
  case REDUCE:
  case GATHER:
  case WINDOW: break;
  }
  return ROLE_KERNEL;
}

static bool runs_elsewhere(NodeRole r) {
  return r == ROLE_GEMM || r == ROLE_COLLECTIVE || r == ROLE_ORDERED;
}

// Returns whether node n reads its argument a: a node of a product may have it in a register.
static bool reads(const Fuser *f, NodeId n, NodeId a) {
  return !f->tail[n] || tail_reads(f->tail[n], n, a);
}

static void find_memory(Fuser *f) {
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    bool all = runs_elsewhere((NodeRole)f->role[n]) || op_row((Op)x->op)->cls == REGION;
    for (int i = 0; i < x->nargs; i++)
      if (reads(f, n, x->args[i]) && (all || op_needs_address(x->op, i) || is_factor_reader(f, n)))
        f->memory[x->args[i]] = true;
  }
  for (uint32_t i = 0; i < f->g->output.n; i++) f->memory[f->g->output.at[i].value] = true;
}

// -- values that are computed where windows read them ---------------------------------------------
//
// The argument of a window is computed at the positions that the window reads, and not stored, in
// two cases. Either it is a view: a window, a slice, a broadcast or a number. Or it is the result
// of pointwise nodes which only windows read, and whose operands are smaller than the result. In
// this example `where` and `eq` are such nodes, y and share are smaller than x:
//
//   window(where(eq(window(x), y), share, 0))
//
// An argument that a contraction in register tiles reads is stored: the tiles read each element
// many times.
//
// A random draw is computed where windows read it, too, if each takes one position of a dim and
// nothing else reads it: the rows of one micro-batch. Such a window is stored in its place.

enum { INLINE_DEPTH = 24 };

typedef struct InlineSearch {
  bool *shared;     // by node: something other than a window reads it
  bool *tiled;      // by node: a contraction in register tiles reads it
  uint8_t *depth;   // by node: number of windows between it and values in memory
  VEC(NodeId) node; // the pointwise nodes to inline
  VEC(NodeId) stack;
  int cost;
  int64_t bytes; // bytes of the operands of `node` that would be stored only for them
} InlineSearch;

static bool is_view(const Fuser *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  return op_looks_through((Op)x->op, 0) || (x->op == OP_BROADCAST && x->attr->ndims > 0) ||
         f->role[n] == ROLE_NUMBER;
}

static bool is_draw(const Fuser *f, NodeId n) { return op_is_draw((Op)graph_node(f->g, n)->op); }

static void find_readers(const Fuser *f, InlineSearch *u) {
  for (NodeId n = f->count; n; n--) {
    const Node *x = graph_node(f->g, n);
    bool tiles = f->role[n] == ROLE_KERNEL && op_tiles(f->g, n);
    for (int i = 0; i < x->nargs; i++) {
      bool through = op_looks_through((Op)x->op, i);
      u->shared[x->args[i]] |= !through || (is_draw(f, x->args[i]) && x->attr->nto > 0);
      u->tiled[x->args[i]] |= tiles || (u->tiled[n] && (through || x->op == OP_BROADCAST));
    }
  }
}

static bool there_anyway(const Fuser *f, NodeId n) {
  return f->role[n] == ROLE_SOURCE || runs_elsewhere((NodeRole)f->role[n]) ||
         f->role[n] == ROLE_ALIAS || f->memory[n];
}

static bool is_plain_point(const Fuser *f, NodeId n) {
  const OpRow *row = op_row((Op)graph_node(f->g, n)->op);
  return row->cls == POINTWISE && !(row->flags & CHECKS) && !f->memory[n];
}

static void inline_add(Fuser *f, InlineSearch *u, NodeId n, NodeId a) {
  if (f->mark[a] == f->stamp) return;
  f->mark[a] = f->stamp;
  bool large = 2 * node_elements(f->g, a) > node_elements(f->g, n);
  if (is_view(f, a) || (is_plain_point(f, a) && large))
    vec_push(f->a, u->stack) = a;
  else if (!there_anyway(f, a))
    u->bytes += f->bytes[a];
}

// Collects in u->node the pointwise nodes that compute node n from values in memory, n included.
// Returns false if every window that reads n would repeat too much computation. Also returns false
// if the operands that must be stored for n are as large as n.
static bool inline_find(Fuser *f, InlineSearch *u, NodeId n) {
  u->node.n = u->stack.n = 0;
  u->cost = 0;
  u->bytes = 0;
  f->stamp++;
  vec_push(f->a, u->stack) = n;
  while (u->stack.n) {
    NodeId at = u->stack.at[--u->stack.n];
    const Node *x = graph_node(f->g, at);
    if (is_plain_point(f, at)) vec_push(f->a, u->node) = at;
    if (x->dims->n) u->cost += op_row((Op)x->op)->cost;
    if (u->cost > RECOMPUTE_COST || u->node.n > INLINE_DEPTH) return false;
    for (int i = 0; i < x->nargs; i++) inline_add(f, u, n, x->args[i]);
  }
  return u->bytes < f->bytes[n];
}

static bool stays_symbolic(Fuser *f, InlineSearch *u, NodeId window, NodeId a) {
  if (!f->opt->fuse) return f->role[a] == ROLE_NUMBER;
  u->depth[window] = (uint8_t)(u->depth[a] + 1);
  if (u->depth[window] > INLINE_DEPTH) return false;
  if (is_view(f, a) || f->inlined[a]) return true;
  if (is_draw(f, a) && !u->shared[a] && !f->memory[a]) return f->inlined[a] = true;
  if (!is_plain_point(f, a) || u->shared[a] || u->tiled[a] || !inline_find(f, u, a)) return false;
  for (uint32_t i = 0; i < u->node.n; i++) f->inlined[u->node.at[i]] = true;
  return true;
}

static void find_inlined(Fuser *f) {
  uint32_t n = f->count + 1;
  InlineSearch u = {.shared = arena_array(f->a, bool, n), .tiled = arena_array(f->a, bool, n)};
  u.depth = arena_array(f->a, uint8_t, n);
  f->inlined = arena_array(f->a, bool, n);
  f->mark = arena_array(f->a, uint32_t, n);
  f->stamp = 0;
  find_readers(f, &u);
  for (NodeId i = 1; i < n; i++) {
    const Node *x = graph_node(f->g, i);
    if (x->op == OP_BROADCAST) u.depth[i] = u.depth[x->args[0]];
    if (!op_looks_through((Op)x->op, 0) || stays_symbolic(f, &u, i, x->args[0])) continue;
    f->memory[x->args[0]] = true;
    u.depth[i] = 0;
  }
}

// The operations and the loads that a kernel needs to recompute a node instead of loading its
// value.
typedef struct RecomputeCost {
  int size; // number of nodes that are recomputed
  int cost; // number of operations for each element
  bool loads;
  NodeId leaf; // the stored value with the dims of the node that is loaded, 0: none
} RecomputeCost;

static bool full_size(const Fuser *f, NodeId n, NodeId arg) {
  return list_same(graph_node(f->g, n)->dims, graph_node(f->g, arg)->dims);
}

// Returns whether a kernel that recomputes node n may load its argument `arg`. It may if arg has
// other dims and is small beside n. It also may if arg has the dims of n, is in memory for other
// reasons, and no second value with these dims is loaded. *leaf is the one loaded value that has
// the dims of n, 0: none yet. The function sets *leaf if arg is that value.
static bool leaf_fits(const Fuser *f, NodeId n, NodeId arg, NodeId *leaf) {
  if (!full_size(f, n, arg)) return node_elements(f->g, arg) * 4 <= node_elements(f->g, n);
  bool there = f->role[arg] == ROLE_SOURCE || f->role[arg] == ROLE_GEMM ||
               f->role[arg] == ROLE_COLLECTIVE || f->role[arg] == ROLE_ALIAS || f->memory[arg] ||
               (f->resident && f->resident[arg]);
  if (!there || (*leaf && *leaf != arg)) return false;
  *leaf = arg;
  return true;
}

// Returns whether node n can be recomputed cheaply. It takes at most RECOMPUTE_COST operations an
// element, from one stored value with its dims and from small values. Loading that value costs
// about as much as loading n, so n need not be stored. Sets the cost and leaf of *own.
static bool follows_cheaply(const Fuser *f, NodeId n, const RecomputeCost *cost,
                            RecomputeCost *own) {
  const Node *x = graph_node(f->g, n);
  own->cost = op_row((Op)x->op)->cost;
  for (int i = 0; i < x->nargs; i++) {
    NodeId a = x->args[i];
    if (!f->recomputed[a]) {
      if (!leaf_fits(f, n, a, &own->leaf)) return false;
      continue;
    }
    if (graph_node(f->g, a)->dims->n) own->cost += cost[a].cost;
    if (cost[a].leaf && own->leaf && cost[a].leaf != own->leaf) return false;
    if (cost[a].leaf) own->leaf = cost[a].leaf;
  }
  if (own->leaf && !full_size(f, n, own->leaf)) return false;
  return own->cost <= RECOMPUTE_COST && (!own->leaf || f->bytes[own->leaf] <= 2 * f->bytes[n]);
}

static bool cheap_to_recompute(const Fuser *f, NodeId n, const RecomputeCost *cost, bool wide,
                               RecomputeCost *own) {
  const Node *x = graph_node(f->g, n);
  if (f->memory[n] || op_row((Op)x->op)->cls != POINTWISE || (op_row((Op)x->op)->flags & CHECKS))
    return false;
  own->size = 1;
  for (int i = 0; i < x->nargs; i++) {
    NodeId a = x->args[i];
    own->size += f->recomputed[a] ? cost[a].size : 1;
    own->loads |= f->recomputed[a] ? cost[a].loads : true;
  }
  if (x->dims->n == 0) return own->size <= RECOMPUTE_SCALARS;
  own->cost = op_row((Op)x->op)->cost;
  if (!own->loads && own->size <= RECOMPUTE_INDEX && own->cost == 1) return true;
  return !wide && follows_cheaply(f, n, cost, own);
}

// Returns for each node whether some use would compute its value several times. A use does so if it
// runs over more dims than the value has, or is inside a loop that does not contain the node.
static bool *find_wide(const Fuser *f) {
  bool *wide = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    Dims space = node_space(f->g, n);
    for (int i = 0; i < x->nargs; i++) {
      const Node *a = graph_node(f->g, x->args[i]);
      wide[x->args[i]] |= a->region != x->region || !list_same(&space, a->dims);
    }
  }
  return wide;
}

static void find_recomputed(Fuser *f) {
  RecomputeCost *cost = arena_array(f->a, RecomputeCost, f->count + 1);
  bool *wide = find_wide(f);
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    if (f->role[n] == ROLE_NUMBER) {
      f->recomputed[n] = true;
      cost[n].size = x->op != OP_CONST;
    } else if (f->opt->fuse && f->role[n] == ROLE_KERNEL) {
      bool spreads = x->op == OP_BROADCAST && x->attr->ndims > 0;
      bool drawn =
          op_looks_through((Op)x->op, 0) && is_draw(f, x->args[0]) && f->inlined[x->args[0]];
      bool view = op_looks_through((Op)x->op, 0) && !drawn;
      f->recomputed[n] = score_recomputed(f, n) || view || spreads || f->inlined[n] ||
                         cheap_to_recompute(f, n, cost, wide[n], &cost[n]);
      if (view || f->inlined[n])
        cost[n] = (RecomputeCost){.cost = op_row((Op)x->op)->cost, .loads = true, .leaf = n};
      if (spreads && f->recomputed[x->args[0]])
        cost[n] = cost[x->args[0]];
      else if (spreads)
        cost[n].loads = true;
    }
  }
}

// -- arguments and users, looking through recomputed nodes -------------------------------------

typedef struct Collector {
  Fuser *f;
  RegionNodes carries;
  VEC(NodeId) arg;
  VEC(bool) address;
  VEC(NodeId) stack;
  VEC(bool) under; // by entry of `stack`: the current node reads it through a window
  uint32_t first;  // index in `arg` of the first argument of the current node
  // By recomputed node and `under`, [2 n + under]: the last node whose arguments were collected
  // through it. A value that is used often is looked through once.
  NodeId *seen;
} Collector;

static void collect_one(Collector *c, NodeId n, bool address) {
  for (uint32_t i = c->first; i < c->arg.n; i++)
    if (c->arg.at[i] == n) {
      c->address.at[i] |= address;
      return;
    }
  vec_push(c->f->a, c->arg) = n;
  vec_push(c->f->a, c->address) = address;
}

static void collect_later(Collector *c, NodeId n, bool under) {
  vec_push(c->f->a, c->stack) = n;
  vec_push(c->f->a, c->under) = under;
}

// Adds the initial values of the carries of loop r to the arguments of its SCAN: they must be in
// memory when the loop begins. A carry passes a value from one iteration to the next.
static void collect_starts(Collector *c, RegionId r) {
  for (uint32_t i = c->carries.first[r]; i < c->carries.first[r + 1]; i++)
    collect_one(c, graph_node(c->f->g, c->carries.node[i])->args[0], true);
}

static void collect_args(Collector *c, NodeId n) {
  Fuser *f = c->f;
  c->first = c->arg.n;
  c->stack.n = 0;
  if (graph_node(f->g, n)->op == OP_SCAN) collect_starts(c, graph_node(f->g, n)->attr->region);
  collect_later(c, n, false);
  while (c->stack.n) {
    NodeId at = c->stack.at[--c->stack.n];
    const Node *x = graph_node(f->g, at);
    bool all = f->role[at] != ROLE_KERNEL, under = c->under.at[--c->under.n];
    NodeId *seen = &c->seen[2 * at + under];
    if (*seen == n) continue; // its arguments are collected
    *seen = n;
    for (int i = x->nargs - 1; i >= 0; i--) {
      if (!reads(f, at, x->args[i])) continue;
      bool address = all || uses_address(f, at, i);
      // a window needs its arguments in memory before the kernel runs: the value that it reads and,
      // for WINDOW_AT, the number of its first position
      bool below = under || op_row((Op)x->op)->cls == WINDOW || op_looks_through((Op)x->op, i);
      if (address || !f->recomputed[x->args[i]])
        collect_one(c, x->args[i], address || below);
      else
        collect_later(c, x->args[i], below);
    }
  }
}

static void find_edges(Fuser *f) {
  Collector c = {.f = f,
                 .carries = region_ends(f->a, f->g, OP_CARRY),
                 .seen = arena_array(f->a, NodeId, 2 * (f->count + 1))};
  f->arg_at = arena_array(f->a, uint32_t, f->count + 2);
  f->user_at = arena_array(f->a, uint32_t, f->count + 3);
  for (NodeId n = 1; n <= f->count; n++) {
    f->arg_at[n] = c.arg.n;
    if (!f->recomputed[n] || f->memory[n]) collect_args(&c, n);
  }
  f->arg_at[f->count + 1] = c.arg.n;
  f->arg = c.arg.at;
  f->arg_address = c.address.at;
  for (uint32_t i = 0; i < c.arg.n; i++) f->user_at[f->arg[i] + 2]++;
  for (NodeId n = 2; n <= f->count + 2; n++) f->user_at[n] += f->user_at[n - 1];
  f->user = arena_array(f->a, NodeId, c.arg.n + 1);
  for (NodeId n = 1; n <= f->count; n++)
    for (uint32_t i = f->arg_at[n]; i < f->arg_at[n + 1]; i++)
      f->user[f->user_at[f->arg[i] + 1]++] = n;
}

// -- nodes that belong to updates --------------------------------------------------------------

// Returns for each node whether its value becomes an output of kind OUT_UPDATE, either directly or
// through collectives and aliases only.
static bool *find_chains(const Fuser *f) {
  bool *chain = arena_array(f->a, bool, f->count + 1);
  for (uint32_t i = 0; i < f->g->output.n; i++)
    if (f->g->output.at[i].kind == OUT_UPDATE) chain[f->g->output.at[i].value] = true;
  for (NodeId n = f->count; n; n--)
    if (chain[n] && (f->role[n] == ROLE_COLLECTIVE || op_is_alias((Op)graph_node(f->g, n)->op)))
      chain[graph_node(f->g, n)->args[0]] = true;
  return chain;
}

// Returns whether node n can be computed after the commit, when other updates may have overwritten
// tensors: a pointwise node, or a look-up in a value that no update overwrites.
static bool updates_in_kernel(const Fuser *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  if (f->role[n] != ROLE_KERNEL) return false;
  if (x->op == OP_TAKE) return f->role[memory_root(f->g, x->args[0])] != ROLE_SOURCE;
  return op_row(x->op)->cls == POINTWISE || x->op == OP_BROADCAST;
}

// Sets f->update: the pointwise nodes and look-ups that only updates read, and the collectives and
// aliases that find_chains returns. These nodes run after the commit, the point of a step from
// which nothing may fail, and overwrite the tensors. Sums of gradients over micro-batches before
// the last one do not: the gradients of all would have to stay until then.
static void find_update(Fuser *f) {
  uint32_t last = 0;
  for (NodeId n = 1; n <= f->count && f->part; n++)
    if (f->part[n] > last) last = f->part[n];
  bool *other = arena_array(f->a, bool, f->count + 1), *chain = find_chains(f);
  for (uint32_t i = 0; i < f->g->output.n; i++) {
    const Output *o = &f->g->output.at[i];
    if (o->kind == OUT_UPDATE)
      f->update[o->value] = true;
    else
      other[o->value] = true;
  }
  for (NodeId n = f->count; n; n--) {
    const Node *x = graph_node(f->g, n);
    bool wanted = f->update[n];
    for (uint32_t i = f->user_at[n]; i < f->user_at[n + 1]; i++) {
      if (f->update[f->user[i]])
        wanted = true;
      else
        other[n] = true;
    }
    bool moved = chain[n] && (f->role[n] == ROLE_COLLECTIVE || op_is_alias((Op)x->op));
    bool early = f->part && f->part[n] && f->part[n] < last;
    bool stays = (op_row(x->op)->flags & CHECKS) || x->region || early;
    f->update[n] = wanted && !other[n] && !stays && (updates_in_kernel(f, n) || moved);
  }
}

void roles_find(Fuser *f) {
  uint32_t n = f->count + 1;
  f->role = arena_array(f->a, uint8_t, n);
  f->recomputed = arena_array(f->a, bool, n);
  f->memory = arena_array(f->a, bool, n);
  f->update = arena_array(f->a, bool, n);
  for (NodeId i = 1; i < n; i++) f->role[i] = (uint8_t)role_of(f, i);
  find_memory(f);
  find_inlined(f);
  find_recomputed(f);
  find_edges(f);
  find_update(f);
}
