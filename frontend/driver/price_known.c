// Keeps the prices of programs by the hashes of their graphs. See price_known.h.
#include "frontend/driver/price_known.h"

#include "frontend/driver/price_peak.h"

enum { PLACES = 1 << 12 };

struct PriceTable {
  Arena *a;
  KnownPrice *at[PLACES];
};

PriceTable *price_table(Arena *a) {
  PriceTable *t = arena_new_of(a, PriceTable);
  t->a = a;
  return t;
}

const KnownPrice *price_find(const PriceTable *t, uint64_t hash) {
  const KnownPrice *at = t->at[hash % PLACES];
  while (at && at->hash != hash) at = at->next;
  return at && at->none.programs ? at : NULL;
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
