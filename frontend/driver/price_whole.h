// The price of a layout from the program of the whole model, of a model that is its own only sample
// (SearchTask). Input: a layout. Output: its SearchPrice.
#ifndef FRONTEND_PRICE_WHOLE_H
#define FRONTEND_PRICE_WHOLE_H

#include "frontend/driver/price.h"

// As price_layout.
bool price_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                 SearchPrice *out);

// price.c. Returns whether a program is worth compiling with recomputation. none: its price
// without.
bool price_may_recompute(const Pricer *p, SearchHint hint, const SearchPrice *none);

#endif
