// Private: the programs that the search has priced, by the hashes of their graphs.
#ifndef FRONTEND_PRICE_KNOWN_H
#define FRONTEND_PRICE_KNOWN_H

#include "frontend/driver/price.h"

typedef struct KnownPrice KnownPrice;
struct KnownPrice {
  uint64_t hash;
  SearchPrice none; // without recomputation; programs is 0: it is not priced yet
  // Of what a layout asks: as `none`, with the placement that is slower; programs is 0: there is
  // one placement only.
  SearchPrice second;
  // With recomputation, for a budget of `memory` bytes; 0: not known.
  SearchPrice within;
  double memory;
  // Of what a layout asks of samples: as `within`, of a layout that is likely to need
  // recomputation. `programs` of `within` and of `over` is 0 where they are not known.
  SearchPrice over;
  uint64_t other; // hash of the lowered graph with which that of `within` was compared; 0: none
  uint64_t plain; // hash of the graph with the plain placement, if `within` depends on it; else 0
  // Of a sample that is not the whole model: its memory, if it counts. `none` has no memory then.
  struct SampleMemory *memory_of;
  KnownPrice *next; // of those in one place of the table
};

// Returns an empty table in `a` in which price_find also finds what is in `base`, which it does not
// change.
PriceTable *price_table_over(Arena *a, const PriceTable *base);
// Adds the entries of `from`, without those of its base, to t.
void price_table_add(PriceTable *t, const PriceTable *from);
// Returns the entry of a program. Adds one if it is new.
KnownPrice *price_known(PriceTable *t, uint64_t hash);
// Returns the entry of a program that is priced, or NULL. Thread rule: several threads may search
// while nobody changes the table.
const KnownPrice *price_find(const PriceTable *t, uint64_t hash);
// Sets the price without recomputation, and the memory, of a program to those of *of. Returns its
// entry.
const KnownPrice *price_keep(PriceTable *t, uint64_t hash, const KnownPrice *of);

#endif
