// Private: prices that are computed on several threads before they are asked for.
#ifndef FRONTEND_PRICE_AHEAD_H
#define FRONTEND_PRICE_AHEAD_H

#include "frontend/driver/price_known.h"
#include "frontend/driver/price_whole.h"

// What was computed and is not asked for yet.
typedef struct PricesAhead PricesAhead;
// Returns an empty list in `a`.
PricesAhead *prices_ahead_new(Arena *a);
// The callback `ahead` of a SearchTask; `pricer` is a Pricer with p->ahead and p->asked.
void price_ahead(void *pricer, uint32_t n, const SearchAsk *ask);
// Moves the prices from samples that were computed ahead for *asked, an entry of p->asked, into
// that entry and into p->known. Does nothing if there are none.
void price_take_samples(const Pricer *p, KnownPrice *asked);
// Returns the programs that were compiled ahead for the entry of p->asked with this hash, or NULL.
// The caller owns them.
PricedWhole *price_take_whole(const Pricer *p, uint64_t asked);

// price.c. Sets the prices in *asked, of a layout of a model with samples, that the hint asks for
// and that are not known. Returns the price, which is in *asked, or NULL if the layout cannot be
// compiled. Thread rule: several threads may do so, each with a p->known.
const SearchPrice *price_know(const Pricer *p, const Mesh *mesh, const Layout *layout,
                              SearchHint hint, KnownPrice *asked);
// price.c. Forgets prices with recomputation for other budgets than that of t.
void price_forget_others(const SearchTask *t, KnownPrice *asked);

#endif
