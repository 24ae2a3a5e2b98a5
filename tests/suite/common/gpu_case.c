// Runs cases of the kernel suites (kernel_case.h) as code for a GPU, in one launch of two operand
// sets.
#include "tests/suite/common/gpu_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"

enum { SETS = 2 };

// A case that runs, as CaseRun.context.
typedef struct GpuCase {
  GpuRunner *runner;
  uint32_t kernel;
  bool differ; // the result: whether equal sets have different results
} GpuCase;

static size_t bytes_of(const CaseRun *run, int p) {
  return (size_t)(run->elements[p] * dtype_bytes(run->c->ptr[p].type));
}

// Runs a case for its operands and for a copy of them. Sets GpuCase.differ if the results do.
static void run_sets(GpuCase *context, CaseRun *run, void *const *copy) {
  const Case *c = run->c;
  int64_t n = case_units(c);
  void *own[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) own[p] = run->mem[p];
  GpuSet set[SETS] = {{.ptr = own, .slot = c->slot, .num = c->num, .units = n},
                      {.ptr = copy, .slot = c->slot, .num = c->num, .units = n}};
  gpu_runner_run(context->runner, context->kernel, ceil_div(n ? n : 1, c->chunks), SETS, set);
  run->status = set[0].status;
  context->differ = memcmp(&set[0].status, &set[1].status, sizeof set[0].status) != 0;
  for (int p = 0; p < c->k.nptr; p++)
    context->differ |= memcmp(copy[p], own[p], bytes_of(run, p)) != 0;
  if (context->differ) printf("  %s: equal sets have different results\n", c->name);
}

static void run_case(CaseRun *run) {
  GpuCase *context = run->context;
  GpuRunner *r = context->runner;
  void *copy[MAX_P];
  for (int p = 0; p < run->c->k.nptr; p++) {
    size_t bytes = bytes_of(run, p);
    copy[p] = malloc(bytes + 1);
    memcpy(copy[p], run->mem[p], bytes);
    gpu_runner_allow(r, run->mem[p], bytes);
    gpu_runner_allow(r, copy[p], bytes);
  }
  run_sets(context, run, copy);
  gpu_runner_forget(r);
  for (int p = 0; p < run->c->k.nptr; p++) free(copy[p]);
}

bool gpu_case_check(int i, GpuRunner *r, uint32_t kernel) {
  GpuCase context = {r, kernel, false};
  return case_check(i, 1, &(CaseWay){.run = run_case, .context = &context}) && !context.differ;
}

// -- a suite ------------------------------------------------------------------------------------

// Makes a program of the kernels of the n cases, as far as they are wanted, and compiles it.
// number[i] gets the number of the kernel of case i, if it is wanted. Returns NULL after printing
// an error.
static GpuRunner *runner_of(Arena *a, const GpuSuite *s, int n, const Case *cases, const char *only,
                            uint32_t *number) {
  Kernel **kernels;
  Diag *d = diag_new(a);
  Program *p = cases_program(a, &kernels);
  p->nkernels = 0;
  for (int i = 0; i < n; i++) {
    number[i] = p->nkernels;
    if (s->wanted(&cases[i], i, only)) kernels[p->nkernels++] = kernels[i];
  }
  GpuRunner *r = gpu_runner_new(p, kernels, d);
  if (!r) {
    diag_print(d, stdout, false);
    return NULL;
  }
  gpu_runner_header(r)->step = INTERP_STEP;
  gpu_runner_header(r)->seed = philox_seed(INTERP_SEED);
  return r;
}

int gpu_cases_run(const GpuSuite *s, const char *only) {
  Case *cases;
  int n = cases_all(&cases), passed = 0, failed = 0;
  if (n < 0) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", n);
    return 0;
  }
  Arena *a = arena_new();
  uint32_t *number = arena_array(a, uint32_t, n);
  GpuRunner *r = runner_of(a, s, n, cases, only, number);
  if (!r) return 1;
  for (int i = 0; i < n; i++) {
    if (!s->wanted(&cases[i], i, only)) continue;
    bool ok = (!s->planned || s->planned(a, &cases[i])) && gpu_case_check(i, r, number[i]);
    if (!ok) printf("FAIL %s\n%s", cases[i].name, kernel_print(a, &cases[i].k));
    *(ok ? &passed : &failed) += 1;
  }
  gpu_runner_free(r);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
