// Compares code for a GPU with a plain interpreter of kernels, on the emulator of GPU threads
// (tests/standin/emulator.h): the hand-made kernels of suite_kernels and suite_kernels_windows.
// Each runs as one launch of two operand sets, with partial results and several blocks of threads
// where it has them; the emulator finds races, accesses out of bounds, and threads that do not
// meet.
//
//   suite_gpu_kernels [TEXT | all]   every SAMPLE-th case; those whose name contains TEXT; all
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"
#include "tests/suite/common/gpu_launch.h"
#include "tests/suite/common/kernel_case.h"

enum { SETS = 2, SAMPLE = 3 };
static bool sets_differ;
static uint32_t *number; // of each case: that of its kernel in the program

static size_t bytes_of(const CaseRun *run, int p) {
  return (size_t)(run->elements[p] * dtype_bytes(run->c->ptr[p].type));
}

// Runs a case for its operands and for a copy of them. Sets sets_differ if the results do.
static void run_sets(GpuRunner *r, CaseRun *run, void *const *copy) {
  const Case *c = run->c;
  int64_t n = case_units(c);
  void *own[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) own[p] = run->mem[p];
  GpuSet set[SETS] = {{.ptr = own, .slot = c->slot, .num = c->num, .units = n},
                      {.ptr = copy, .slot = c->slot, .num = c->num, .units = n}};
  gpu_runner_run(r, number[run->i], ceil_div(n ? n : 1, c->chunks), SETS, set);
  run->status = set[0].status;
  sets_differ = memcmp(&set[0].status, &set[1].status, sizeof set[0].status) != 0;
  for (int p = 0; p < c->k.nptr; p++) sets_differ |= memcmp(copy[p], own[p], bytes_of(run, p)) != 0;
  if (sets_differ) printf("  %s: equal sets have different results\n", c->name);
}

static void run_case(CaseRun *run) {
  GpuRunner *r = run->context;
  void *copy[MAX_P];
  for (int p = 0; p < run->c->k.nptr; p++) {
    size_t bytes = bytes_of(run, p);
    copy[p] = malloc(bytes + 1);
    memcpy(copy[p], run->mem[p], bytes);
    gpu_runner_allow(r, run->mem[p], bytes);
    gpu_runner_allow(r, copy[p], bytes);
  }
  run_sets(r, run, copy);
  gpu_runner_forget(r);
  for (int p = 0; p < run->c->k.nptr; p++) free(copy[p]);
}

static bool wanted(const Case *c, int i, const char *only) {
  if (!only) return i % SAMPLE == 0;
  return !strcmp(only, "all") || strstr(c->name, only);
}

int main(int argc, char **argv) {
  Case *cases;
  kernel_cases_add(150);
  window_cases_add();
  int n = cases_all(&cases), passed = 0, failed = 0;
  if (n < 0) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", n);
    return 0;
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Kernel **kernels;
  Program *p = cases_program(a, &kernels);
  p->nkernels = 0;
  number = arena_array(a, uint32_t, n);
  for (int i = 0; i < n; i++) {
    number[i] = p->nkernels;
    if (wanted(&cases[i], i, argc > 1 ? argv[1] : NULL)) kernels[p->nkernels++] = kernels[i];
  }
  GpuRunner *r = gpu_runner_new(p, kernels, d);
  if (!r) {
    diag_print(d, stdout, false);
    return 1;
  }
  gpu_runner_header(r)->step = INTERP_STEP;
  gpu_runner_header(r)->seed = philox_seed(INTERP_SEED);
  for (int i = 0; i < n; i++) {
    if (!wanted(&cases[i], i, argc > 1 ? argv[1] : NULL)) continue;
    bool ok = case_check(i, run_case, r) && !sets_differ;
    if (!ok) printf("FAIL %s\n%s", cases[i].name, kernel_print(a, &cases[i].k));
    *(ok ? &passed : &failed) += 1;
  }
  gpu_runner_free(r);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
