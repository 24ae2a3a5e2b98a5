// Says why a kernel is scheduled on a GPU as it is (gpu_plan.c), for those who read the plan.
#include "codegen/gpu/gpu_internal.h"

// Returns whether units add to the elements of a row instead of single elements.
static bool sums_rows(const Kernel *k) {
  for (int s = 0; s < k->nstmts; s++)
    if (gpu_accum_in_row(k, s)) return true;
  return false;
}

// Returns the reason for threads, warps or blocks of items.
static const char *items_why(Arena *a, const Kernel *k, const GpuPlan *p) {
  if (p->serial) return "one block runs all units, because several add to the same elements";
  if (sums_rows(k))
    return p->kept ? "all items add to one row, which fits the registers of a team"
                   : "all items add to one row";
  if (p->blocked && p->team == TEAM_BLOCK)
    return "items are few and long, and neighbours in memory";
  if (p->blocked) return "items that are neighbours in memory have neighbouring threads";
  LoopSet inner = (((LoopSet)1 << (k->nouter + k->ninner)) - 1) & ~(((LoopSet)1 << k->nouter) - 1);
  int64_t n = kernel_rounds(k, inner);
  if (n == 1) return "an item is one element";
  if (p->row_parts > 1)
    return arena_printf(a, "there are few items, and each has %lld elements", (long long)n);
  const char *few = p->team == TEAM_THREAD ? "few enough for a thread"
                    : p->team == TEAM_WARP ? "few enough for a warp"
                                           : "many enough for a block";
  return arena_printf(a, "an item has %lld elements, %s", (long long)n, few);
}

const char *gpu_plan_why(Arena *a, const Kernel *k, const GpuPlan *p) {
  switch (p->team) {
  case TEAM_TILE: return "it is a product of two factors";
  case TEAM_SCORES:
    return p->scores.sweep ? "it computes attention without storing its scores"
                           : "it computes the scores of attention again, which nothing stores";
  case TEAM_OWNERS: return "it only scatters: each row is summed by one owner, in order";
  default: return items_why(a, k, p);
  }
}

const char *gpu_kernel_text(Arena *a, const Kernel *k) {
  GpuPlan p = gpu_plan_make(a, k, &(GpuCodeOptions){.capability = GPU_SHOWN_CAPABILITY});
  return arena_printf(a, "%s: %s", gpu_plan_print(a, k, &p), gpu_plan_why(a, k, &p));
}
