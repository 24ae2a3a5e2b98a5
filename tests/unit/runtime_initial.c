// Tests that a drawn tensor has the numbers of its elements' indices (docs/decisions.md, 25): for
// any number of threads, on meshes that split or replicate it, with rows of three elements in
// memory and an order of dims that is not the declared one, and after another tensor.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

#include "runtime/runtime.h"

// The tensor is declared as w[r, c, g]. In memory its order is c, r, g. It has several of the spans
// that threads divide among them (runtime/exec/initial.c).
enum { R = 331, C = 257, G = 3, ALL = R * C * G };

static ProgTensor tensor(int number, const char *name, Mesh m, bool split, InitKind kind) {
  int64_t block = split ? ceil_div(R, mesh_size(&m)) : R;
  Axes axes = {.n = split, .at = {0}};
  return (ProgTensor){
      .kind = TENSOR_PARAM,
      .name = name,
      .type = TYPE_F32,
      .rank = 3,
      .dim = {{"c", C, C, {0}, -1}, {"r", R, block, axes, -1}, {"g", G, G, {0}, -1}},
      .declared = {1, 0, 2},
      .bytes = C * block * G * 4,
      .at = {number, 0, NULL, 0},
      .init = {.kind = kind, .a = 0.5, .b = 2},
      .of = -1};
}

static void check_values(const Exec *e, const ProgTensor *t, const int64_t *index) {
  static double want[ALL];
  static float got[ALL];
  rng_draw(&t->init, rng_key(5, t->name), ALL, index, want);
  exec_read(e, TENSOR_PARAM, t->name, got);
  for (int i = 0; i < ALL; i++)
    if (got[i] != (float)want[i])
      fail_msg("%s: element %d is %g, not %g", t->name, i, (double)got[i], want[i]);
}

static void numbers_are_those_of_the_index(void **state) {
  (void)state;
  static int64_t index[ALL];
  for (int i = 0; i < ALL; i++) index[i] = i;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  for (int threads = 1; threads <= 3; threads++)
    for (int mesh = 1; mesh <= 3; mesh++)
      for (int split = 0; split < 2; split++) {
        Mesh m = {.naxes = 1, .axis = {{"p", mesh, {0}}}};
        ProgTensor t[2] = {tensor(0, "a", m, split, INIT_UNIFORM),
                           tensor(1, "w", m, split, INIT_NORMAL)};
        Program p = {.model = "test", .for_ = "run", .mesh = m, .ntensors = 2, .tensor = t};
        Exec *e = exec_new(&p, &(ExecOptions){.threads = threads, .seed = 5}, d);
        assert_non_null(e);
        for (int i = 0; i < 2; i++) check_values(e, &t[i], index);
        exec_free(e);
      }
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_those_of_the_index),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
