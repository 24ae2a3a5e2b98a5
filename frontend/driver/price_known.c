// Keeps the prices of programs by the hashes of their graphs. See price_known.h.
#include "frontend/driver/price_known.h"

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

Arena *price_table_arena(const PriceTable *t) { return t->a; }

KnownPrice *price_known(PriceTable *t, uint64_t hash) {
  KnownPrice **at = &t->at[hash % PLACES];
  while (*at && (*at)->hash != hash) at = &(*at)->next;
  if (!*at) {
    *at = arena_new_of(t->a, KnownPrice);
    (*at)->hash = hash;
  }
  return *at;
}
