// Finds the order classes of a graph, and the operations that join them (order_class_internal.h).
#include "codegen/order/order_class_internal.h"

#include "ir/base/hash.h"

#include <string.h>

enum { LEAST_BUCKETS = 1024, NODES_A_BUCKET = 8 };

static uint64_t dims_hash(uint64_t h, int n, const DimId *dims) {
  h = hash_word(h, (uint64_t)n);
  for (int i = 0; i < n; i++) h = hash_word(h, dims[i]);
  return h;
}

// -- classes ------------------------------------------------------------------------------------

// Returns whether two derived classes of one class follow from it in the same way.
static bool same_move(const Node *x, const Node *y) {
  return x->op == y->op && attr_equal(x->attr, y->attr);
}

// Returns the list of classes in which a class that equals *want is.
static uint32_t *class_list(const OrderClasses *s, const OrderClass *want) {
  uint64_t h = dims_hash(want->kind * 64 + want->of, want->dims.n, want->dims.at);
  h = hash_word(h, want->kind == CLASS_DERIVED ? graph_node(s->g, want->node)->attr->region : 0);
  return &s->classes[hash_word(h, want->with) % s->buckets];
}

// Returns the class that equals *want, or 0.
static ClassId class_known(const OrderClasses *s, const OrderClass *want) {
  for (ClassId i = *class_list(s, want); i; i = s->cls.at[i].next) {
    const OrderClass *c = &s->cls.at[i];
    if (c->kind != want->kind || c->of != want->of || c->with != want->with ||
        !dims_equal(&c->dims, &want->dims))
      continue;
    if (c->kind == CLASS_FIXED && !dims_equal(&c->order, &want->order)) continue;
    if (c->kind == CLASS_DERIVED &&
        !same_move(graph_node(s->g, c->node), graph_node(s->g, want->node)))
      continue;
    return i;
  }
  return 0;
}

// Returns the class that equals `want`. Adds it if there is none.
static ClassId class_find(OrderClasses *s, OrderClass want) {
  ClassId known = class_known(s, &want);
  if (known) return known;
  uint32_t *first = class_list(s, &want);
  want.next = *first;
  *first = s->cls.n;
  vec_push(s->a, s->cls) = want;
  if (want.kind == CLASS_DERIVED || want.kind == CLASS_READ)
    vec_push(s->a, s->cls.at[want.of].derived) = *first;
  return *first;
}

static ClassId class_derived(OrderClasses *s, NodeId n, NodeId from) {
  ClassId of = s->of[from];
  if (!of) return 0;
  return class_find(
      s,
      (OrderClass){.kind = CLASS_DERIVED, .dims = *graph_node(s->g, n)->dims, .of = of, .node = n});
}

static ClassId class_declared(OrderClasses *s, NodeId n) {
  const Node *x = graph_node(s->g, n);
  OrderClass c = {.kind = CLASS_FIXED, .dims = *x->dims, .node = n};
  if (op_is_decl((Op)x->op) && x->op != OP_INPUT && s->plain->free) {
    c.kind = CLASS_STORED;
  } else if (op_is_decl((Op)x->op)) {
    c.order = stored_order(s->plain, x->attr->decl, x->dims);
  } else {
    for (int i = 0; i < x->attr->ndims; i++) list_insert(&c.order, i, x->attr->dims[i]);
  }
  return class_find(s, c);
}

// Returns the class of the tensor that value n updates, directly or through pointwise work on
// values with the same dims; 0 if there is none. So gradients of weights with different declared
// orders are in different classes.
static ClassId class_target(OrderClasses *s, NodeId n) {
  NodeId target = s->target[first_of(s->plain, n)];
  if (!target) return 0;
  if (!s->of[target]) s->of[target] = class_declared(s, target);
  return s->of[target];
}

static ClassId class_free(OrderClasses *s, NodeId n, ClassKind kind) {
  const Dims *dims = graph_node(s->g, n)->dims;
  return class_find(s,
                    (OrderClass){.kind = kind, .dims = *dims, .of = class_target(s, n), .node = n});
}

static ClassId class_of(OrderClasses *s, NodeId n) {
  const Node *x = graph_node(s->g, n);
  Op op = (Op)x->op;
  if (op_is_mark(op)) return s->of[x->args[0]];
  switch (op_row(op)->cls) {
  case SOURCE:
    if (op_is_draw(op)) return class_free(s, n, CLASS_POINT);
    return op_is_number(op) ? 0 : class_declared(s, n);
  case CONTRACT: return class_free(s, n, CLASS_CONTRACT);
  case POINTWISE:
  case REDUCE:
  case MATRIX:
  case GATHER: return class_free(s, n, CLASS_POINT);
  case WINDOW:
    // a choice along a dim (select) is computed in any order
    return x->attr->nto ? class_derived(s, n, x->args[0]) : class_free(s, n, CLASS_POINT);
  case MOVE: return op == OP_BROADCAST ? 0 : class_derived(s, n, x->args[0]);
  case ORDERED:
  case COLLECTIVE: return class_derived(s, n, x->args[0]);
  case REGION: break;
  }
  if (op == OP_CARRY) return class_free(s, n, CLASS_POINT);
  if (op == OP_FINAL) return s->of[x->args[1]];
  return op == OP_SCAN ? 0 : class_derived(s, n, x->args[op == OP_COLLECT]);
}

// -- uses ---------------------------------------------------------------------------------------

static void use_add(OrderClasses *s, OrderUse want) {
  const Node *x = graph_node(s->g, want.node);
  uint64_t h = hash_word(want.copy, (uint64_t)op_row((Op)x->op)->cls);
  for (int i = 0; i < 3; i++) h = hash_word(h, want.arg[i]);
  h = hash_word(h, want.result);
  if (op_row((Op)x->op)->cls == WINDOW) h = hash_word(h, x->attr_hash);
  uint32_t *first = &s->uses[h % s->buckets];
  for (uint32_t i = *first; i; i = s->use.at[i].next) {
    OrderUse *u = &s->use.at[i];
    const Node *y = graph_node(s->g, u->node);
    if (u->copy != want.copy || u->result != want.result || x->type != y->type ||
        memcmp(u->arg, want.arg, sizeof u->arg) || op_row((Op)x->op)->cls != op_row((Op)y->op)->cls)
      continue;
    if (op_row((Op)x->op)->cls == WINDOW && !same_move(x, y)) continue;
    u->times += want.times;
    return;
  }
  want.next = *first;
  *first = s->use.n;
  vec_push(s->a, s->use) = want;
}

static void copy_add(OrderClasses *s, NodeId n, ClassId from, ClassId to, double times) {
  if (from && to && from != to)
    use_add(s, (OrderUse){.node = n, .arg = {from}, .result = to, .copy = true, .times = times});
}

// Returns the class in which a contraction reads value n. It is the class of n or, if its order is
// fixed, that of copies of n for contractions with values of class `with`.
static ClassId read_class(OrderClasses *s, NodeId n, ClassId with) {
  ClassId of = s->of[n];
  const OrderClass *x = &s->cls.at[of];
  if (!of || (x->kind != CLASS_FIXED && x->kind != CLASS_STORED) || x->dims.n < 2) return of;
  OrderClass read = {.kind = CLASS_READ, .dims = x->dims, .of = of, .with = with, .node = x->node};
  return class_find(s, read);
}

DimList order_read(const OrderClasses *s, NodeId n, NodeId with) {
  OrderClass read = {
      .kind = CLASS_READ, .dims = s->cls.at[s->of[n]].dims, .of = s->of[n], .with = s->of[with]};
  ClassId known = read.of ? class_known(s, &read) : 0;
  return known ? s->cls.at[known].order : (DimList){0};
}

static void uses_of_node(OrderClasses *s, NodeId n) {
  const Node *x = graph_node(s->g, n);
  bool again = first_of(s->plain, n) != n;
  OrderUse u = {
      .node = n, .result = s->of[n], .times = again ? 0 : (double)region_times(s->g, x->region)};
  OpClass cls = op_row((Op)x->op)->cls;
  bool point = cls == POINTWISE, other = false;
  for (int i = 0; i < x->nargs && i < 3; i++) {
    u.arg[i] = s->of[x->args[i]];
    if (point && u.arg[i] && s->cls.at[u.arg[i]].dims.n < 2) u.arg[i] = 0;
    if (point && u.arg[i] == u.result) u.arg[i] = 0;
    other |= u.arg[i] != 0;
  }
  if (cls == CONTRACT) {
    for (int i = 0; i < 2; i++) {
      u.arg[i] = read_class(s, x->args[i], s->of[x->args[1 - i]]);
      copy_add(s, x->args[i], s->of[x->args[i]], u.arg[i], again ? 0 : 1);
    }
    if (u.arg[0] && u.arg[1]) use_add(s, u);
  } else if (x->op == OP_CARRY) {
    copy_add(s, n, s->of[x->args[0]], u.result, 1);
  } else if (x->op == OP_SCAN) {
    for (int i = 0; i < x->nargs; i++) {
      NodeId carry = carry_of(s->plain, n, i);
      if (carry)
        copy_add(s, x->args[i], s->of[x->args[i]], s->of[carry],
                 (double)region_times(s->g, x->attr->region));
    }
  } else if ((x->op == OP_AT || x->op == OP_MERGE) && u.arg[0]) {
    u.arg[1] = u.arg[2] = 0;
    use_add(s, u);
  } else if (other &&
             (point || cls == REDUCE || cls == GATHER || (cls == WINDOW && !x->attr->nto))) {
    use_add(s, u);
  }
}

static void uses_of_outputs(OrderClasses *s) {
  for (uint32_t i = 0; i < s->g->output.n; i++) {
    const Output *o = &s->g->output.at[i];
    NodeId target = o->kind == OUT_UPDATE ? s->g->decl.at[o->target - 1].node : 0;
    if (target) copy_add(s, o->value, s->of[o->value], s->of[target], 1);
  }
}

// Adds to each class the uses that depend on its order: its own, and those of classes derived from
// it. Derived classes come after the class from which they are derived.
static void link_uses(OrderClasses *s) {
  for (uint32_t u = 1; u < s->use.n; u++) {
    const OrderUse *x = &s->use.at[u];
    ClassId all[4] = {x->arg[0], x->arg[1], x->arg[2], x->result};
    for (int i = 0; i < 4; i++)
      for (ClassId c = all[i]; c; c = s->cls.at[c].kind == CLASS_DERIVED ? s->cls.at[c].of : 0) {
        OrderClass *y = &s->cls.at[c];
        if (y->use.n && y->use.at[y->use.n - 1] == u) continue;
        vec_push(s->a, y->use) = u;
      }
  }
}

// Sets s->target: for each value that only updates of one tensor read, its source node.
static void find_targets(OrderClasses *s) {
  const Graph *g = s->g;
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_UPDATE)
      s->target[g->output.at[i].value] = g->decl.at[g->output.at[i].target - 1].node;
  for (NodeId n = graph_count(g); n; n--) {
    const Node *x = graph_node(g, n);
    if (!s->target[n] || op_row((Op)x->op)->cls != POINTWISE) continue;
    for (int i = 0; i < x->nargs; i++) {
      NodeId *to = &s->target[first_of(s->plain, x->args[i])];
      if (!*to && dims_equal(graph_node(g, x->args[i])->dims, x->dims)) *to = s->target[n];
    }
  }
}

OrderClasses *order_classes(Arena *a, const Chooser *plain, const OrderFacts *facts) {
  const Graph *g = plain->from;
  OrderClasses *s = arena_new_of(a, OrderClasses);
  *s = (OrderClasses){.a = a, .g = g, .facts = facts, .plain = plain};
  s->of = arena_array(a, ClassId, graph_count(g) + 1);
  s->target = arena_array(a, NodeId, graph_count(g) + 1);
  s->buckets = graph_count(g) / NODES_A_BUCKET;
  if (s->buckets < LEAST_BUCKETS) s->buckets = LEAST_BUCKETS;
  s->classes = arena_array(a, uint32_t, s->buckets);
  s->uses = arena_array(a, uint32_t, s->buckets);
  vec_push(a, s->cls) = (OrderClass){0};
  vec_push(a, s->use) = (OrderUse){0};
  find_targets(s);
  for (NodeId n = 1; n <= graph_count(g); n++) s->of[n] = class_of(s, n);
  for (NodeId n = 1; n <= graph_count(g); n++) uses_of_node(s, n);
  uses_of_outputs(s);
  link_uses(s);
  return s;
}
