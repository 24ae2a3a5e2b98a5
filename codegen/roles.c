// Before fusion: what each node becomes, which values need an address, which are computed again by every
// kernel that uses them, and which belong to the update of a persistent tensor.
//
//   %7 = broadcast(%6) {dims=[b]}    again: a kernel reads %6 with stride 0 along b
//   %9 = pow(%8, %3) : f32[]         again: a scalar chain, computed in the prologue
#include "codegen/fuse_rules.h"

enum { AGAIN_SCALARS = 24, AGAIN_INDEX = 8, AGAIN_COST = 32 };

bool op_needs_address(Op op, int i) {
  return i == 0 && (op_is_alias(op) || op == OP_TAKE || op == OP_SLICE_OWN);
}

int op_cost(Op op) {
  switch (op) {
  case OP_EXP: case OP_LOG: case OP_LOG1P: case OP_EXPM1: case OP_TANH: case OP_SIGMOID: case OP_ERF:
  case OP_SOFTPLUS: case OP_SIN: case OP_COS: case OP_POW:
    return 8;
  case OP_DIV: case OP_SQRT: case OP_RSQRT: case OP_RECIPROCAL: case OP_MOD: case OP_FLOOR_DIV: case OP_TAKE:
    return 3;
  default:
    return 1;
  }
}

Dims node_space(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  if (!op_reduces(x->op)) return x->dims;
  Dims all = graph_node(g, x->args[0])->dims;
  for (int i = 1; i < x->nargs; i++) all = list_union(&all, &graph_node(g, x->args[i])->dims);
  return all;
}

static Role role_of(const Fuser *f, NodeId n) {
  const Node *x = graph_node(f->g, n);
  ProductForm form;
  const char *why;
  switch (op_row(x->op)->cls) {
  case SOURCE: return op_is_decl(x->op) || x->op == OP_VALUES ? ROLE_SOURCE : ROLE_NUMBER;
  case CONTRACT:
    return f->opt->products && product_form(f->g, f->order, &f->rows, f->opt, n, &form, &why) ? ROLE_PRODUCT
                                                                                      : ROLE_KERNEL;
  case MOVE: return op_is_alias(x->op) ? ROLE_ALIAS : ROLE_KERNEL;
  case COLLECTIVE: return x->op == OP_SLICE_OWN || x->op == OP_OWN_TERM ? ROLE_KERNEL : ROLE_COLLECTIVE;
  case POINTWISE: case REDUCE: case GATHER: case WINDOW: case ORDERED: case REGION: break;
  }
  return ROLE_KERNEL;
}

static void find_memory(Fuser *f) {
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    bool all = f->role[n] == ROLE_PRODUCT || f->role[n] == ROLE_COLLECTIVE;
    for (int i = 0; i < x->nargs; i++)
      if (all || op_needs_address(x->op, i)) f->memory[x->args[i]] = true;
  }
  for (uint32_t i = 0; i < f->g->output.n; i++) f->memory[f->g->output.at[i].value] = true;
}

// What it takes to compute a value again: operations, scalar or element by element; the one value of its
// own size that is read.
typedef struct Again {
  int size, cost;
  bool loads;
  NodeId leaf;   // 0: none
} Again;

static bool full_size(const Fuser *f, NodeId n, NodeId arg) {
  return list_same(&graph_node(f->g, n)->dims, &graph_node(f->g, arg)->dims);
}

// There for others anyway, and small beside n or the one leaf of its size.
static bool leaf_fits(const Fuser *f, NodeId n, NodeId arg, NodeId *leaf) {
  if (!full_size(f, n, arg)) return node_elements(f->g, arg) * 4 <= node_elements(f->g, n);
  bool there = f->role[arg] == ROLE_SOURCE || f->role[arg] == ROLE_PRODUCT || f->role[arg] == ROLE_COLLECTIVE ||
               f->role[arg] == ROLE_ALIAS || f->memory[arg] || (f->resident && f->resident[arg]);
  if (!there || (*leaf && *leaf != arg)) return false;
  *leaf = arg;
  return true;
}

// Values that follow cheaply from one value of their size that is in memory: reading that one is no
// dearer than reading them, and nobody need store them.
static bool follows_cheaply(const Fuser *f, NodeId n, const Again *again, Again *own) {
  const Node *x = graph_node(f->g, n);
  own->cost = op_cost((Op)x->op);
  for (int i = 0; i < x->nargs; i++) {
    NodeId a = x->args[i];
    if (!f->again[a]) {
      if (!leaf_fits(f, n, a, &own->leaf)) return false;
      continue;
    }
    if (graph_node(f->g, a)->dims.n) own->cost += again[a].cost;
    if (again[a].leaf && own->leaf && again[a].leaf != own->leaf) return false;
    if (again[a].leaf) own->leaf = again[a].leaf;
  }
  if (own->leaf && !full_size(f, n, own->leaf)) return false;
  return own->cost <= AGAIN_COST && (!own->leaf || node_bytes(f->g, own->leaf) <= 2 * node_bytes(f->g, n));
}

static bool cheap_again(const Fuser *f, NodeId n, const Again *again, bool wide, Again *own) {
  const Node *x = graph_node(f->g, n);
  if (f->memory[n] || op_row((Op)x->op)->cls != POINTWISE || (op_row((Op)x->op)->flags & CHECKS)) return false;
  own->size = 1;
  for (int i = 0; i < x->nargs; i++) {
    NodeId a = x->args[i];
    own->size += f->again[a] ? again[a].size : 1;
    own->loads |= f->again[a] ? again[a].loads : true;
  }
  if (x->dims.n == 0) return own->size <= AGAIN_SCALARS;
  own->cost = op_cost((Op)x->op);
  if (!own->loads && own->size <= AGAIN_INDEX && own->cost == 1) return true;
  return !wide && follows_cheaply(f, n, again, own);
}

// Values that some use reads under more loops than they have: they would be computed too often.
static bool *find_wide(const Fuser *f) {
  bool *wide = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    Dims space = node_space(f->g, n);
    for (int i = 0; i < x->nargs; i++) wide[x->args[i]] |= !list_same(&space, &graph_node(f->g, x->args[i])->dims);
  }
  return wide;
}

static void find_again(Fuser *f) {
  Again *again = arena_array(f->a, Again, f->count + 1);
  bool *wide = find_wide(f);
  for (NodeId n = 1; n <= f->count; n++) {
    const Node *x = graph_node(f->g, n);
    if (f->role[n] == ROLE_NUMBER) {
      f->again[n] = true;
      again[n].size = x->op != OP_CONST;
    } else if (f->opt->fuse && f->role[n] == ROLE_KERNEL) {
      bool spreads = x->op == OP_BROADCAST && x->attr.ndims > 0;
      f->again[n] = x->op == OP_SLICE_OWN || spreads || cheap_again(f, n, again, wide[n], &again[n]);
      if (x->op == OP_SLICE_OWN) again[n] = (Again){.loads = true, .leaf = n};
      if (spreads && f->again[x->args[0]]) again[n] = again[x->args[0]];
      else if (spreads) again[n].loads = true;
    }
  }
}

// -- arguments and users ----------------------------------------------------------------------------------

typedef struct Collector {
  Fuser *f;
  VEC(NodeId) arg;
  VEC(bool) address;
  VEC(NodeId) stack;
  uint32_t first;  // of the node under work
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

static void collect_args(Collector *c, NodeId n) {
  Fuser *f = c->f;
  c->first = c->arg.n;
  c->stack.n = 0;
  vec_push(f->a, c->stack) = n;
  while (c->stack.n) {
    NodeId at = c->stack.at[--c->stack.n];
    const Node *x = graph_node(f->g, at);
    bool all = f->role[at] != ROLE_KERNEL;
    for (int i = x->nargs - 1; i >= 0; i--) {
      bool address = all || op_needs_address(x->op, i);
      if (address || !f->again[x->args[i]]) collect_one(c, x->args[i], address);
      else vec_push(f->a, c->stack) = x->args[i];
    }
  }
}

static void find_edges(Fuser *f) {
  Collector c = {.f = f};
  f->arg_at = arena_array(f->a, uint32_t, f->count + 2);
  f->user_at = arena_array(f->a, uint32_t, f->count + 3);
  for (NodeId n = 1; n <= f->count; n++) {
    f->arg_at[n] = c.arg.n;
    if (!f->again[n] || f->memory[n]) collect_args(&c, n);
  }
  f->arg_at[f->count + 1] = c.arg.n;
  f->arg = c.arg.at;
  f->arg_address = c.address.at;
  for (uint32_t i = 0; i < c.arg.n; i++) f->user_at[f->arg[i] + 2]++;
  for (NodeId n = 2; n <= f->count + 2; n++) f->user_at[n] += f->user_at[n - 1];
  f->user = arena_array(f->a, NodeId, c.arg.n + 1);
  for (NodeId n = 1; n <= f->count; n++)
    for (uint32_t i = f->arg_at[n]; i < f->arg_at[n + 1]; i++) f->user[f->user_at[f->arg[i] + 1]++] = n;
}

// -- updates --------------------------------------------------------------------------------------------------

// Values that become an update by collectives and renames alone.
static bool *find_chains(const Fuser *f) {
  bool *chain = arena_array(f->a, bool, f->count + 1);
  for (uint32_t i = 0; i < f->g->output.n; i++)
    if (f->g->output.at[i].kind == OUT_UPDATE) chain[f->g->output.at[i].value] = true;
  for (NodeId n = f->count; n; n--)
    if (chain[n] && (f->role[n] == ROLE_COLLECTIVE || f->role[n] == ROLE_ALIAS))
      chain[graph_node(f->g, n)->args[0]] = true;
  return chain;
}

// Pointwise work all of whose users are updates, and such chains: it runs after the commit, in place.
static void find_update(Fuser *f) {
  bool *other = arena_array(f->a, bool, f->count + 1), *chain = find_chains(f);
  for (uint32_t i = 0; i < f->g->output.n; i++) {
    const Output *o = &f->g->output.at[i];
    if (o->kind == OUT_UPDATE) f->update[o->value] = true;
    else other[o->value] = true;
  }
  for (NodeId n = f->count; n; n--) {
    const Node *x = graph_node(f->g, n);
    bool wanted = f->update[n];
    for (uint32_t i = f->user_at[n]; i < f->user_at[n + 1]; i++) {
      if (f->update[f->user[i]]) wanted = true;
      else other[n] = true;
    }
    bool point = f->role[n] == ROLE_KERNEL && (op_row(x->op)->cls == POINTWISE || x->op == OP_BROADCAST);
    bool moved = chain[n] && (f->role[n] == ROLE_COLLECTIVE || f->role[n] == ROLE_ALIAS);
    bool checks = op_row(x->op)->flags & CHECKS;
    f->update[n] = wanted && !other[n] && !checks && (point || moved);
  }
}

void roles_find(Fuser *f) {
  uint32_t n = f->count + 1;
  f->role = arena_array(f->a, uint8_t, n);
  f->again = arena_array(f->a, bool, n);
  f->memory = arena_array(f->a, bool, n);
  f->update = arena_array(f->a, bool, n);
  for (NodeId i = 1; i < n; i++) f->role[i] = (uint8_t)role_of(f, i);
  find_memory(f);
  find_again(f);
  find_edges(f);
  find_update(f);
}
