// Epilogues of products on the CPU (runtime/exec/exec_epilogue.c), against a plain triple loop.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "runtime/runtime.h"

// A product of f32 with an epilogue: the operands of the epilogue are parts of an input of their
// own, and the argument of gelu is stored in the second output. Workers compute parts.
static void epilogues(void **state) {
  (void)state;
  enum { M = 70, N = 40, K = 30, ALL = M * N, INPUT = M * K + K * N + ALL + N };
  if (!product_way(TYPE_F32, NULL)) skip();
  const struct {
    GemmAct act;
    bool adds, biased, aux;
  } cases[] = {{GEMM_NONE, true, false, false},      {GEMM_NONE, true, true, false},
               {GEMM_GELU, false, true, true},       {GEMM_GELU, false, false, false},
               {GEMM_GELU_SLOPE, false, true, true}, {GEMM_GELU_SLOPE, true, false, true}};
  float *x = calloc(INPUT, sizeof *x), *out = calloc(2 * ALL, sizeof *out);
  for (int i = 0; i < INPUT; i++) x[i] = (float)(i * 37 % 23 - 11) / 16;
  for (size_t i = 0; i < countof(cases) * 3; i++) {
    size_t c = i / 3;
    Ref from = {-1, (M * K + K * N) * 4, NULL, 0}, bias = {-1, (INPUT - N) * 4, NULL, 0},
        second = {-1, (INPUT + ALL) * 4, NULL, 0};
    GemmEpilogue e = {.act = cases[c].act,
                      .has = {cases[c].adds, cases[c].biased, cases[c].aux},
                      .extra = {from, bias, cases[c].act == GEMM_GELU_SLOPE ? from : second}};
    Instr in = {.kind = INSTR_GEMM,
                .u.gemm = {.factors = TYPE_F32,
                           .type = TYPE_F32,
                           .m = {M, -1},
                           .n = {N, -1},
                           .k = {K, -1},
                           .lda = K,
                           .ldb = N,
                           .ldc = N,
                           .a = {-1, 0, NULL, 0},
                           .b = {-1, M * K * 4, NULL, 0},
                           .c = {-1, INPUT * 4, NULL, 0},
                           .epilogue = &e}};
    ProgTensor t[2] = {
        {.kind = TENSOR_INPUT, .name = "x", .rank = 1, .dim = {{"n", INPUT, INPUT, {0}, -1}}},
        {.kind = TENSOR_OUTPUT, .name = "c", .rank = 1, .dim = {{"m", 2 * ALL, 2 * ALL, {0}, -1}}}};
    for (int k = 0; k < 2; k++) {
      t[k].type = TYPE_F32;
      t[k].at = (Ref){-1, k * INPUT * 4, NULL, 0};
      t[k].of = -1;
    }
    Program p = {.model = "test",
                 .for_ = "run",
                 .arena_bytes = (INPUT + 2 * ALL) * 4,
                 .ntensors = 2,
                 .ninstrs = 1,
                 .tensor = t,
                 .instr = &in};
    Arena *a = arena_new();
    Exec *run = exec_new(&p, &(ExecOptions){.threads = 1 + (int)(i % 3)}, diag_new(a));
    exec_write(run, TENSOR_INPUT, "x", TYPE_F32, x);
    assert_int_equal(exec_step(run, 0, true), STEP_OK);
    exec_read(run, TENSOR_OUTPUT, "c", out);
    for (int q = 0; q < ALL; q++) {
      double v = 0, other = (double)x[M * K + K * N + q];
      for (int k = 0; k < K; k++) v += (double)x[q / N * K + k] * (double)x[M * K + k * N + q % N];
      v += (cases[c].adds ? other : 0) + (cases[c].biased ? (double)x[INPUT - N + q % N] : 0);
      assert_true(fabs((double)out[q] - gemm_act(e.act, v, other)) < 1e-4);
      if (gemm_writes_extra(&in.u.gemm, GEMM_AUX))
        assert_true(fabs((double)out[ALL + q] - v) < 1e-4);
    }
    exec_free(run);
    arena_free(a);
  }
  free(x);
  free(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(epilogues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
