// The costs of uses for the orders that the search has looked at. In: a use. Out: its cost.
//
// The search tries the same orders again after each improvement, and a second time from its other
// start. A cost takes thousands of instructions, a look at the table about thirty. Orders are
// compared by their hashes.
#include "codegen/order/order_class_internal.h"
#include "ir/base/hash.h"

typedef struct KnownCost {
  uint64_t key; // hash of the use and of the orders of its classes; 0: the slot is free
  double cost;
} KnownCost;

struct KnownCosts {
  KnownCost *slot;
  uint32_t n, cap; // cap is a power of two
};

static double use_cost(const OrderClasses *s, const OrderUse *u) {
  const DimList *arg[3] = {0};
  for (int i = 0; i < 3; i++)
    if (u->arg[i]) arg[i] = &s->cls.at[u->arg[i]].order;
  const DimList *result = &s->cls.at[u->result].order;
  if (u->copy)
    return u->times * order_copy_cost(s->g, arg[0], result, (double)node_bytes(s->g, u->node));
  return u->times * order_cost(s->g, s->facts, u->node, arg, result);
}

void class_order(OrderClass *c, const DimList *order) {
  c->order = *order;
  c->key = hash_bytes(FNV_START, order->at, order->n * sizeof *order->at);
}

static uint64_t key_of(const OrderClasses *s, uint32_t use) {
  const OrderUse *u = &s->use.at[use];
  uint64_t h = hash_word(FNV_START, use);
  for (int i = 0; i < 3; i++) h = hash_word(h, s->cls.at[u->arg[i]].key);
  h = hash_word(h, s->cls.at[u->result].key);
  return h ? h : 1;
}

static KnownCost *find(const KnownCosts *t, uint64_t key) {
  uint32_t i = (uint32_t)key & (t->cap - 1);
  while (t->slot[i].key && t->slot[i].key != key) i = (i + 1) & (t->cap - 1);
  return &t->slot[i];
}

static void grow(Arena *a, KnownCosts *t) {
  KnownCost *old = t->slot;
  uint32_t cap = t->cap;
  t->cap = cap ? 2 * cap : 1024;
  t->slot = arena_array(a, KnownCost, t->cap);
  for (uint32_t i = 0; i < cap; i++)
    if (old[i].key) *find(t, old[i].key) = old[i];
}

double order_use_cost(OrderClasses *s, uint32_t use) {
  if (!s->known) s->known = arena_new_of(s->a, KnownCosts);
  KnownCosts *t = s->known;
  if (t->n >= t->cap / 2) grow(s->a, t);
  uint64_t key = key_of(s, use);
  KnownCost *c = find(t, key);
  if (c->key) return c->cost;
  *c = (KnownCost){key, use_cost(s, &s->use.at[use])};
  t->n++;
  return c->cost;
}
