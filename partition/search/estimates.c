// Computes the estimates of several layouts on several threads. See estimates_internal.h.
#include "partition/search/estimates_internal.h"

static void estimate(void *of) {
  Estimate *x = of;
  x->cost = search_cost(x->task, x->mesh, x->layout);
}

void estimate_all(const SearchTask *t, uint32_t n, Estimate *of) {
  Arena *a = arena_new();
  Jobs *jobs = jobs_new(a, t->threads);
  for (uint32_t i = 0; i < n; i++) {
    of[i].task = t;
    of[i].job = (Job){estimate, &of[i], NULL};
    jobs_add(jobs, &of[i].job);
  }
  jobs_run(jobs);
  arena_free(a);
}
