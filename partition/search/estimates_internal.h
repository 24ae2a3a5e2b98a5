// Estimates of several layouts, computed on several threads.
#ifndef PARTITION_ESTIMATES_H
#define PARTITION_ESTIMATES_H

#include "ir/base/jobs.h"
#include "partition/search/search.h"

// A layout and its estimate. The layout belongs to the caller.
typedef struct Estimate {
  const Mesh *mesh;
  const Layout *layout;
  LayoutCost cost;        // the result
  const SearchTask *task; // set by estimate_all, as is `job`
  Job job;
} Estimate;

// Sets of[i].cost of n layouts to their search_cost, on t->threads threads.
void estimate_all(const SearchTask *t, uint32_t n, Estimate *of);

#endif
