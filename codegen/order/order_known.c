// The costs of uses for the orders that the search has looked at. In: a use. Out: its cost.
//
// The search tries the same orders again after each improvement, and a second time from its other
// start. A cost takes thousands of instructions, a look at the table about a hundred.
#include <string.h>

#include "codegen/order/order_class_internal.h"
#include "ir/base/hash.h"

enum { OPERANDS = 4, KEY_WORDS = 1 + OPERANDS * (MAX_RANK + 1) };

// A use and the orders of its operands, as numbers: the use; then of each operand the number of its
// dims, and the dims.
typedef struct Key {
  uint32_t n, word[KEY_WORDS];
} Key;

typedef struct KnownCost {
  uint64_t hash;
  const uint32_t *word; // the words of its key; NULL: the slot is free
  uint32_t n;
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

static Key key_of(const OrderClasses *s, uint32_t use) {
  const OrderUse *u = &s->use.at[use];
  const ClassId of[OPERANDS] = {u->arg[0], u->arg[1], u->arg[2], u->result};
  Key k;
  k.n = 0;
  k.word[k.n++] = use;
  for (int i = 0; i < OPERANDS; i++) {
    const DimList *list = &s->cls.at[of[i]].order;
    k.word[k.n++] = list->n;
    for (int d = 0; d < list->n; d++) k.word[k.n++] = list->at[d];
  }
  return k;
}

static KnownCost *find(const KnownCosts *t, const uint32_t *word, uint32_t n, uint64_t hash) {
  uint32_t i = (uint32_t)hash & (t->cap - 1);
  for (;; i = (i + 1) & (t->cap - 1)) {
    KnownCost *c = &t->slot[i];
    if (!c->word) return c;
    if (c->hash == hash && c->n == n && memcmp(c->word, word, n * sizeof *word) == 0) return c;
  }
}

static void grow(Arena *a, KnownCosts *t) {
  KnownCost *old = t->slot;
  uint32_t cap = t->cap;
  t->cap = cap ? 2 * cap : 1024;
  t->slot = arena_array(a, KnownCost, t->cap);
  for (uint32_t i = 0; i < cap; i++)
    if (old[i].word) *find(t, old[i].word, old[i].n, old[i].hash) = old[i];
}

double order_use_cost(OrderClasses *s, uint32_t use) {
  if (!s->known) s->known = arena_new_of(s->a, KnownCosts);
  KnownCosts *t = s->known;
  if (t->n >= t->cap / 2) grow(s->a, t);
  Key key = key_of(s, use);
  uint64_t hash = hash_bytes(FNV_START, key.word, key.n * sizeof *key.word);
  KnownCost *c = find(t, key.word, key.n, hash);
  if (c->word) return c->cost;
  *c = (KnownCost){.hash = hash,
                   .word = arena_copy(s->a, key.word, key.n * sizeof *key.word),
                   .n = key.n,
                   .cost = use_cost(s, &s->use.at[use])};
  t->n++;
  return c->cost;
}
