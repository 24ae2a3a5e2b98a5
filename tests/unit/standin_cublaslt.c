// Tests the stand-in of cuBLASLt: that it finds each kind of misuse and ends the process with a
// message. Each case is a process of its own. That its products are right is tested by
// tests/suite/gpu_products.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/gpu/cublaslt.h"
#include "tests/standin/child.h"

static void ok_at(int result, const char *call) {
  if (result == 0) return;
  fprintf(stderr, "%s returns %d\n", call, result);
  _exit(3);
}
#define CUDA(call) ok_at((int)cuda.call, #call)
#define LT(call) ok_at((int)cublaslt.call, #call)

// -- a product of 8 x 8 matrices of f32 that each case changes ----------------------------------

enum { SIDE = 8, BYTES = SIDE * SIDE * 4, WORKSPACE = 1 << 20 };
static CudaStream stream, other;
static CublasLtHandle handle;
static CublasLtProduct product;
static CublasLtLayout a, b, c;
static CublasLtPreference preference;
static CublasLtChoice choice;
static CudaAddress at[3], workspace;
static const float one = 1, zero = 0;

static CublasLtLayout layout(uint64_t rows, uint64_t columns, int64_t distance) {
  CublasLtLayout out;
  LT(MatrixLayoutCreate(&out, CUBLAS_F32, rows, columns, distance));
  return out;
}

static void begin(void) {
  CudaContext context;
  uint64_t bytes = WORKSPACE;
  if (!dlopen(STANDIN_CUDA, RTLD_NOW) || !dlopen(STANDIN_CUBLASLT, RTLD_NOW) ||
      !cuda_open()->library || !cublaslt_open()->library)
    ok_at(1, "opening the stand-ins");
  CUDA(DevicePrimaryCtxRetain(&context, 0));
  CUDA(CtxSetCurrent(context));
  CUDA(StreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
  CUDA(StreamCreate(&other, CUDA_STREAM_NON_BLOCKING));
  for (int i = 0; i < 3; i++) CUDA(MemAlloc(&at[i], BYTES));
  for (int i = 0; i < 2; i++) CUDA(MemsetD8(at[i], 0, BYTES));
  CUDA(CtxSynchronize());
  CUDA(MemAlloc(&workspace, 2 * WORKSPACE));
  LT(Create(&handle));
  LT(MatmulDescCreate(&product, CUBLAS_SUMS_F32, CUBLAS_F32));
  a = layout(SIDE, SIDE, SIDE);
  b = layout(SIDE, SIDE, SIDE);
  c = layout(SIDE, SIDE, SIDE);
  LT(PreferenceCreate(&preference));
  LT(PreferenceSetAttribute(preference, CUBLASLT_PREFER_WORKSPACE_BYTES, &bytes, sizeof bytes));
}

static void choose(void) {
  int found = 0;
  LT(GetHeuristic(handle, product, a, b, c, c, preference, 1, &choice, &found));
}

static void multiply_in(CudaStream in, CudaAddress room) {
  LT(Matmul(handle, product, &one, (void *)(uintptr_t)at[0], a, (void *)(uintptr_t)at[1], b, &zero,
            (void *)(uintptr_t)at[2], c, (void *)(uintptr_t)at[2], c, &choice.algorithm,
            (void *)(uintptr_t)room, WORKSPACE, in));
}
static void multiply(void) { multiply_in(stream, workspace); }

static void end(void) {
  CUDA(CtxSynchronize());
  LT(PreferenceDestroy(preference));
  LT(MatrixLayoutDestroy(a));
  LT(MatrixLayoutDestroy(b));
  LT(MatrixLayoutDestroy(c));
  LT(MatmulDescDestroy(product));
  LT(Destroy(handle));
  for (int i = 0; i < 3; i++) CUDA(MemFree(at[i]));
  CUDA(MemFree(workspace));
  CUDA(StreamDestroy(stream));
  CUDA(StreamDestroy(other));
  CUDA(DevicePrimaryCtxRelease(0));
}

// -- misuse ---------------------------------------------------------------------------------------

static void short_attribute(void) {
  char byte = 0;
  LT(MatmulDescSetAttribute(product, CUBLASLT_PRODUCT_TRANSPOSE_A, &byte, sizeof byte));
}
static void close_columns(void) { (void)layout(SIDE, SIDE, SIDE - 1); }
static void other_sizes(void) {
  a = layout(SIDE, SIDE + 1, SIDE);
  choose();
}
static void destroyed(void) {
  LT(MatrixLayoutDestroy(a));
  choose();
}
static void overlapping_batches(void) {
  int32_t batches = 2;
  int64_t stride = SIDE;
  const CublasLtLayout all[] = {a, b, c};
  for (int i = 0; i < 3; i++) {
    LT(MatrixLayoutSetAttribute(all[i], CUBLASLT_LAYOUT_BATCHES, &batches, sizeof batches));
    LT(MatrixLayoutSetAttribute(all[i], CUBLASLT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride));
  }
  choose();
}
static void mixed_types(void) {
  LT(MatrixLayoutCreate(&c, CUBLAS_BF16, SIDE, SIDE, SIDE));
  choose();
}
static void other_algorithm(void) {
  choose();
  int32_t transposed = CUBLAS_TRANSPOSED;
  LT(MatmulDescSetAttribute(product, CUBLASLT_PRODUCT_TRANSPOSE_A, &transposed, sizeof transposed));
  multiply();
}
static void not_aligned(void) {
  choose();
  at[0] += 4;
  multiply();
}
static void no_workspace(void) {
  choose();
  multiply_in(stream, 0);
}
static void beyond_memory(void) {
  c = layout(SIDE, SIDE, SIDE + 1);
  choose();
  multiply();
}
static void unordered_results(void) {
  choose();
  multiply_in(stream, workspace);
  multiply_in(other, workspace + WORKSPACE);
}
static void shared_workspace(void) {
  choose();
  multiply_in(stream, workspace);
  CUDA(MemAlloc(&at[2], BYTES));
  multiply_in(other, workspace);
}

static void leak(void) {
  end();
  (void)layout(SIDE, SIDE, SIDE);
}

static const struct Case {
  void (*run)(void);
  const char *words[2];
} cases[] = {
    {short_attribute, {"cublasLtMatmulDescSetAttribute", "1 bytes"}},
    {close_columns, {"cublasLtMatrixLayoutCreate", "7 apart"}},
    {other_sizes, {"cublasLtMatmulAlgoGetHeuristic", "columns of A"}},
    {destroyed, {"cublasLtMatmulAlgoGetHeuristic", "destroyed"}},
    {overlapping_batches, {"cublasLtMatmulAlgoGetHeuristic", "overlap"}},
    {mixed_types, {"cublasLtMatmulAlgoGetHeuristic", "types"}},
    {other_algorithm, {"cublasLtMatmul", "another product"}},
    {not_aligned, {"cublasLtMatmul", "matrix A is not aligned"}},
    {no_workspace, {"cublasLtMatmul", "workspace"}},
    {beyond_memory, {"cublasLtMatmul writes 32 bytes", "of 256 bytes"}},
    {unordered_results, {"nothing orders the two", "of 256 bytes"}},
    {shared_workspace, {"nothing orders the two", "of 2097152 bytes"}},
    {leak, {"cuBLASLt", "not destroyed"}},
};

static void run_case(void *argument) {
  begin();
  ((const struct Case *)argument)->run();
}

static void misuse_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(cases); i++) {
    struct Case x = cases[i];
    if (!child_fails(run_case, &x, x.words, countof(x.words))) fail_msg("case %zu", i);
  }
}

static void run_well(void *unused) {
  (void)unused;
  begin();
  choose();
  multiply();
  multiply_in(stream, workspace);
  end();
}

static void a_product_runs(void **state) {
  (void)state;
  char text[512];
  int code = child_run(run_well, NULL, text, sizeof text);
  if (code != 0) fail_msg("exit code %d, %s", code, text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_product_runs),
                                     cmocka_unit_test(misuse_is_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
