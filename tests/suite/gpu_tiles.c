// Compares products in tiles on a GPU (codegen/gpu/gpu_product.c) with a plain interpreter of
// kernels, on the emulator of GPU threads: the kernels of tile_cases.c with each of the tiles from
// which the back end chooses. The emulator finds races, accesses out of bounds, reads of shared
// memory that nobody has written, and threads that do not meet.
//
//   suite_gpu_tiles               each SAMPLE-th case with each tile, and each fourth with the chosen one
//   suite_gpu_tiles all | TEXT    all cases; those whose name contains TEXT
#include <stdio.h>
#include <string.h>

#include "codegen/gpu/gpu_product.h"
#include "ir/base/philox.h"
#include "tests/suite/common/gpu_case.h"

enum { SAMPLE = 17 };

static int passed, failed, untiled;

// Returns whether case i is run with tile number `tile`.
static bool wanted(const Case *c, int i, int tile, const char *only) {
  if (only) return !strcmp(only, "all") || strstr(c->name, only);
  return tile == 0 ? i % 4 == 1 : i % SAMPLE == tile % SAMPLE;
}

// Counts a case whose kernel is not computed in tiles or, with the largest tile, not in parts as
// its name says.
static void check_plan(Arena *a, const Case *c, const GpuCodeOptions *opt) {
  GpuPlan plan = gpu_plan_make(a, &c->k, opt);
  bool in_parts = opt->tile == 1 && strstr(c->name, "in parts");
  if (plan.team == TEAM_TILE && (!in_parts || plan.tiles.parts > 1)) return;
  printf("FAIL %s: not in tiles or parts: %s\n", c->name, gpu_plan_print(a, &c->k, &plan));
  untiled++;
}

// Runs the wanted cases of all n with tile number `tile`, 0: the chosen one.
static void run_tile(Arena *a, int n, const Case *cases, int tile, const char *only) {
  Diag *d = diag_new(a);
  Kernel **kernels;
  Program *p = cases_program(a, &kernels);
  p->nkernels = 0;
  int *number = arena_array(a, int, n);
  for (int i = 0; i < n; i++) {
    if (!wanted(&cases[i], i, tile, only)) continue;
    number[p->nkernels] = i;
    kernels[p->nkernels++] = kernels[i];
    check_plan(a, &cases[i], &(GpuCodeOptions){.target = GPU_EMULATED, .tile = tile});
  }
  GpuRunner *r = gpu_runner_of_tile(p, kernels, tile, d);
  if (!r) diag_print(d, stdout, false);
  if (!r) failed++;
  for (uint32_t k = 0; r && k < p->nkernels; k++) {
    bool ok = gpu_case_check(number[k], r, k);
    if (!ok) printf("FAIL %s, tile %d\n", cases[number[k]].name, tile);
    *(ok ? &passed : &failed) += 1;
  }
  if (r) gpu_runner_free(r);
}

int main(int argc, char **argv) {
  Case *cases;
  tile_cases_add();
  int n = cases_all(&cases);
  if (n < 0) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", n);
    return 0;
  }
  Arena *a = arena_new();
  for (int tile = 0; tile <= gpu_product_shapes(); tile++)
    run_tile(a, n, cases, tile, argc > 1 ? argv[1] : NULL);
  arena_free(a);
  failed += untiled;
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
