// Keeps the prices of programs by the hashes of their graphs. See price_known.h.
#include "frontend/driver/price_known.h"

#include "frontend/driver/price_peak.h"

enum { PLACES = 1 << 12 };

struct PriceTable {
  Arena *a;
  const PriceTable *base; // or NULL
  KnownPrice *at[PLACES];
};

PriceTable *price_table(Arena *a) {
  PriceTable *t = arena_new_of(a, PriceTable);
  t->a = a;
  return t;
}

PriceTable *price_table_over(Arena *a, const PriceTable *base) {
  PriceTable *t = price_table(a);
  t->base = base;
  return t;
}

const KnownPrice *price_find(const PriceTable *t, uint64_t hash) {
  const KnownPrice *at = t->at[hash % PLACES];
  while (at && at->hash != hash) at = at->next;
  if (at && at->none.programs) return at;
  return t->base ? price_find(t->base, hash) : NULL;
}

void price_table_add(PriceTable *t, const PriceTable *from) {
  for (int i = 0; i < PLACES; i++)
    for (const KnownPrice *x = from->at[i]; x; x = x->next)
      if (x->none.programs && !price_find(t, x->hash)) (void)price_keep(t, x->hash, x);
}

const KnownPrice *price_keep(PriceTable *t, uint64_t hash, const KnownPrice *of) {
  KnownPrice *at = price_known(t, hash);
  at->none = of->none;
  if (of->memory_of) at->memory_of = sample_memory_copy(t->a, of->memory_of);
  return at;
}

KnownPrice *price_known(PriceTable *t, uint64_t hash) {
  KnownPrice **at = &t->at[hash % PLACES];
  while (*at && (*at)->hash != hash) at = &(*at)->next;
  if (!*at) {
    *at = arena_new_of(t->a, KnownPrice);
    (*at)->hash = hash;
  }
  return *at;
}
