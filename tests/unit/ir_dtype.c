// Tests rounding, type promotion, loads and stores of element types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "ir/base/dtype.h"

static void same(double got, double want) {
  if (isnan(want))
    assert_true(isnan(got));
  else
    assert_memory_equal(&got, &want, sizeof want);
}

static void rounds_to_nearest_even(void **state) {
  (void)state;
  static const struct {
    Dtype type;
    double x, want;
  } cases[] = {
      {TYPE_BF16, 1.0 + 0x1p-8, 1.0},                  // tie to even
      {TYPE_BF16, 1.0 + 3 * 0x1p-8, 1.0 + 0x1p-6},     // tie to even, upward
      {TYPE_BF16, 1.0 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7}, // rounding to f32 first would make it a tie
      {TYPE_BF16, 0x1.fep127, 0x1.fep127},
      {TYPE_BF16, 0x1.ffp127, HUGE_VAL},
      {TYPE_BF16, 0x1p-133, 0x1p-133},
      {TYPE_BF16, 0x1p-134, 0},
      {TYPE_BF16, 0x1.8p-134, 0x1p-133},
      {TYPE_BF16, -3.0, -3.0},
      {TYPE_F16, 65504, 65504},
      {TYPE_F16, 65519.99, 65504},
      {TYPE_F16, 65520, HUGE_VAL},
      {TYPE_F16, -65520, -HUGE_VAL},
      {TYPE_F16, 2049, 2048},
      {TYPE_F16, 2051, 2052},
      {TYPE_F16, 0x1p-24, 0x1p-24},
      {TYPE_F16, 0x1p-25, 0},
      {TYPE_F16, 0x1.0001p-25, 0x1p-24},
      {TYPE_F16, 1.0 / 3.0, 0x1.554p-2},
      {TYPE_F32, 0.1, 0x1.99999ap-4},
      {TYPE_F32, 1e39, HUGE_VAL},
      {TYPE_F64, 0.1, 0.1},
      {TYPE_I32, 2.9, 2},
      {TYPE_I32, -2.9, -2},
      {TYPE_I32, -0.5, 0},
      {TYPE_I32, 3e9, 2147483647},
      {TYPE_I32, -HUGE_VAL, -2147483648.0},
      {TYPE_I32, (double)NAN, 0},
      {TYPE_U8, -1, 0},
      {TYPE_U8, 300, 255},
      {TYPE_BOOL, -0.0, 0},
      {TYPE_BOOL, 0.1, 1},
      {TYPE_BOOL, (double)NAN, 1},
      {TYPE_I64, 1e30, 0x1p63},
      {TYPE_U64, -3, 0},
      {TYPE_F16, (double)NAN, (double)NAN},
      {TYPE_BF16, -HUGE_VAL, -HUGE_VAL},
      {TYPE_F16, -0.0, -0.0},
  };
  for (size_t i = 0; i < countof(cases); i++)
    same(dtype_round(cases[i].type, cases[i].x), cases[i].want);
}

// Every 16-bit pattern is unchanged after load, round, store.
static void halves_survive(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    Dtype type = t ? TYPE_F16 : TYPE_BF16;
    for (uint32_t bits = 0; bits < 65536; bits++) {
      uint16_t in = (uint16_t)bits, out;
      double x = dtype_load(type, &in);
      dtype_store(type, &out, dtype_round(type, x));
      if (isnan(x))
        assert_true(isnan(dtype_load(type, &out)));
      else
        assert_int_equal(in, out);
    }
  }
}

static void known_bits(void **state) {
  (void)state;
  uint16_t h;
  dtype_store(TYPE_F16, &h, 1.5);
  assert_int_equal(h, 0x3e00);
  dtype_store(TYPE_F16, &h, -HUGE_VAL);
  assert_int_equal(h, 0xfc00);
  dtype_store(TYPE_BF16, &h, 1.5);
  assert_int_equal(h, 0x3fc0);
  char bytes[9];
  dtype_store(TYPE_I64, bytes + 1, HUGE_VAL); // unaligned addresses are allowed
  same(dtype_load(TYPE_I64, bytes + 1), 0x1p63);
  dtype_store(TYPE_I32, bytes + 1, -5);
  same(dtype_load(TYPE_I32, bytes + 1), -5);
  dtype_store(TYPE_U64, bytes + 1, 0x1p64);
  same(dtype_load(TYPE_U64, bytes + 1), 0x1p64);
}

static void types_mix(void **state) {
  (void)state;
  static const Dtype cases[][3] = {
      {TYPE_U8, TYPE_I32, TYPE_I32},   {TYPE_I32, TYPE_BF16, TYPE_BF16},
      {TYPE_BF16, TYPE_F16, TYPE_F32}, {TYPE_F16, TYPE_F32, TYPE_F32},
      {TYPE_F32, TYPE_F64, TYPE_F64},  {TYPE_BF16, TYPE_F64, TYPE_F64},
      {TYPE_BOOL, TYPE_F16, TYPE_F16}, {TYPE_BOOL, TYPE_U8, TYPE_I32},
      {TYPE_I32, TYPE_I64, TYPE_I64},  {TYPE_F16, TYPE_F16, TYPE_F16},
  };
  for (size_t i = 0; i < countof(cases); i++) {
    assert_int_equal(dtype_join(cases[i][0], cases[i][1]), cases[i][2]);
    assert_int_equal(dtype_join(cases[i][1], cases[i][0]), cases[i][2]);
  }
  assert_int_equal(dtype_accumulator(TYPE_BF16), TYPE_F32);
  assert_int_equal(dtype_accumulator(TYPE_BOOL), TYPE_I32);
  assert_int_equal(dtype_accumulator(TYPE_F64), TYPE_F64);
}

static void names_and_sizes(void **state) {
  (void)state;
  for (int t = 0; t < TYPE_COUNT; t++) {
    Dtype back;
    assert_true(dtype_parse(dtype_text((Dtype)t), &back));
    assert_int_equal(back, t);
  }
  Dtype none;
  assert_false(dtype_parse("f31", &none));
  assert_int_equal(dtype_bytes(TYPE_BF16), 2);
  assert_int_equal(dtype_class(TYPE_U8), CLASS_INT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounds_to_nearest_even),
      cmocka_unit_test(halves_survive),
      cmocka_unit_test(known_bits),
      cmocka_unit_test(types_mix),
      cmocka_unit_test(names_and_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
