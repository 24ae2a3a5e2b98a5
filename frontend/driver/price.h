// The price of a layout: the predicted time and memory of a step, from compiled programs of short
// models. Input: the samples of a search (SearchTask). Output: a SearchPrice.
#ifndef FRONTEND_PRICE_H
#define FRONTEND_PRICE_H

#include "frontend/driver/session.h"
#include "partition/search/search.h"

// The programs that were priced. Layouts often differ in rules that change nothing, and then
// compile to equal programs.
typedef struct PriceTable PriceTable;
// Returns an empty table in `a`.
PriceTable *price_table(Arena *a);

// What price_layout works with: a session, its search, and what the programs are for.
typedef struct Pricer {
  Session *s;
  const SearchTask *task;
  Selected of;
  // By what layouts ask of all values; and by the lowered graphs of a model that is its own only
  // sample, or by the graphs of samples of other models at each level. Or NULL.
  PriceTable *asked, *known;
  int threads;               // that compute prices and compile samples
  struct PricesAhead *ahead; // prices that were computed before they are asked for, or NULL
} Pricer;

// The callback `price` of a SearchTask; `with` is a Pricer. Not thread-safe.
bool price_layout(void *with, const Mesh *mesh, const Layout *layout, SearchHint hint,
                  SearchPrice *out);
// Returns the predicted seconds of all products of a step at their rate, without the time to load
// operands and to start them, divided evenly among so many processors. `with` is a Pricer. Returns
// 0 if the model cannot be compiled for one processor.
double price_products(const void *with, int64_t processors);

#endif
