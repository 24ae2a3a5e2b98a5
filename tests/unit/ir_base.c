// Tests arenas, interned text, checked sizes and amounts with a unit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/intern.h"
#include "ir/base/units.h"

static void sizes_do_not_wrap(void **state) {
  (void)state;
  int64_t x = 5;
  assert_true(size_mul(1 << 20, 1 << 20, &x));
  assert_int_equal(x, INT64_C(1) << 40);
  assert_false(size_mul(INT64_MAX, 2, &x));
  assert_false(size_add(INT64_MAX, 1, &x));
  assert_int_equal(x, INT64_C(1) << 40);
  assert_true(size_add(INT64_MIN, INT64_MAX, &x));
  assert_int_equal(x, -1);
}

static bool all_zero(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i]) return false;
  return true;
}

static void memory_is_aligned_and_zero(void **state) {
  (void)state;
  Arena *a = arena_new();
  for (size_t n = 0; n < 3000; n += 7) {
    char *p = arena_alloc(a, n);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_true(all_zero(p, n));
    memset(p, 0xff, n);
  }
  arena_free(a);
}

static void memory_is_zero_again_after_reset(void **state) {
  (void)state;
  Arena *a = arena_new();
  char *kept = arena_text(a, "kept", 4);
  for (int round = 0; round < 3; round++) {
    ArenaMark mark = arena_mark(a);
    for (int i = 0; i < 300; i++) {
      char *p = arena_alloc(a, 1000);
      assert_true(all_zero(p, 1000));
      memset(p, 0xff, 1000);
    }
    arena_reset(a, mark);
  }
  assert_string_equal(kept, "kept");
  arena_free(a);
}

// Blocks of all sizes are reused by the next arena.
static void memory_is_zero_in_the_next_arena(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    Arena *a = arena_new();
    memset(arena_alloc_raw(a, 0), 0xff, 1);
    for (size_t n = 100; n < 6 << 20; n += n) {
      char *p = arena_alloc(a, n), *room = arena_alloc_raw(a, n);
      assert_int_equal((uintptr_t)room % 16, 0);
      assert_true(all_zero(p, n));
      memset(p, 0xff, n);
      memset(room, 0xff, n);
    }
    assert_string_equal(arena_text(a, "text", 4), "text");
    arena_free(a);
  }
}

static void large_blocks_come_and_go(void **state) {
  (void)state;
  Arena *a = arena_new();
  ArenaMark empty = arena_mark(a);
  char *first = arena_alloc(a, 3 << 20);
  first[(3 << 20) - 1] = 1;
  ArenaMark mark = arena_mark(a);
  for (int i = 0; i < 20; i++) {
    char *p = arena_alloc(a, 1 << 20);
    assert_true(all_zero(p, 1 << 20));
    memset(p, 1, 1 << 20);
    memset(arena_alloc(a, 20000), 1, 20000);
  }
  arena_reset(a, mark);
  assert_int_equal(first[(3 << 20) - 1], 1);
  arena_reset(a, empty);
  assert_true(all_zero(arena_alloc(a, 64), 64));
  arena_free(a);
}

static void joined_memory_lives_with_the_arena(void **state) {
  (void)state;
  for (int empty = 0; empty < 2; empty++) {
    Arena *a = arena_new(), *from = arena_new();
    char *own = empty ? NULL : arena_text(a, "own", 3), *large = arena_alloc(from, 3 << 20);
    char *text = arena_text(from, "text", 4);
    size_t held = arena_bytes(a) + arena_bytes(from);
    memset(large, 1, 3 << 20);
    arena_join(a, from);
    assert_int_equal(arena_bytes(a), held);
    ArenaMark mark = arena_mark(a);
    for (int i = 0; i < 300; i++) memset(arena_alloc(a, 10000), 2, 10000);
    memset(arena_alloc(a, 3 << 20), 2, 3 << 20);
    arena_reset(a, mark);
    assert_string_equal(text, "text");
    assert_int_equal(large[(3 << 20) - 1], 1);
    if (own) assert_string_equal(own, "own");
    arena_release(a, large);
    arena_free(a);
  }
}

static void adopted_arena_is_used_on(void **state) {
  (void)state;
  Arena *a = arena_new(), *child = arena_new(), *to = arena_new();
  char *text = arena_text(child, "text", 4);
  size_t held = arena_bytes(a);
  arena_adopt(a, child);
  assert_true(arena_bytes(a) >= held + arena_bytes(child));
  for (int i = 0; i < 300; i++) memset(arena_alloc(child, 10000), 2, 10000);
  memset(arena_alloc(child, 3 << 20), 2, 3 << 20);
  memset(arena_alloc(a, 3 << 20), 2, 3 << 20);
  arena_join(to, a); // its children come with it
  memset(arena_alloc(child, 3 << 20), 2, 3 << 20);
  assert_string_equal(text, "text");
  arena_free(to); // frees all three: the address sanitizer finds what it leaves
  a = arena_new();
  (void)arena_text(a, "own", 3);
  held = arena_bytes(a);
  ArenaMark mark = arena_mark(a);
  arena_adopt(a, child = arena_new());
  memset(arena_alloc(child, 3 << 20), 2, 3 << 20);
  arena_reset(a, mark);
  assert_int_equal(arena_bytes(a), held);
  arena_free(a);
}

// Small requests of an arena that holds much get released large memory, zeroed.
static void large_memory_serves_small_requests(void **state) {
  (void)state;
  enum { BIG = 8 << 20, PART = 4096 };
  bool served = false;
  arena_drop_spares();
  Arena *a = arena_new();
  char *large = arena_alloc(a, BIG), *other = arena_alloc(a, BIG);
  memset(large, 1, BIG);
  memset(other, 1, BIG);
  arena_release(a, large);
  for (int i = 0; i < BIG / PART; i++) {
    char *p = arena_alloc(a, PART);
    served |= p > large && p < large + BIG;
    assert_true(all_zero(p, PART));
    memset(p, 2, PART);
  }
  assert_true(served);
  assert_int_equal(other[BIG - 1], 1);
  arena_free(a);
}

static void growing_arrays_keep_their_elements(void **state) {
  (void)state;
  Arena *a = arena_new();
  VEC(int) v = {0};
  for (int i = 0; i < 1000; i++) vec_push(a, v) = i;
  assert_int_equal(v.n, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], i);
  arena_free(a);
}

static void formats_of_any_length(void **state) {
  (void)state;
  Arena *a = arena_new();
  char *text = arena_printf(a, "%0500d|%s", 7, "end");
  assert_int_equal(strlen(text), 504);
  assert_string_equal(text + 499, "7|end");
  assert_string_equal(arena_printf(a, "%d", 12), "12");
  arena_free(a);
}

// An array that grows holds its elements, and its large older copies are given back.
static void arrays_grow_within_their_memory(void **state) {
  (void)state;
  enum { N = 4 << 20 };
  Arena *a = arena_new();
  VEC(uint32_t) v = {0};
  for (uint32_t i = 0; i < N; i++) vec_push(a, v) = i;
  for (uint32_t i = 0; i < N; i++) assert_int_equal(v.at[i], i);
  assert_int_equal(v.cap, N);
  assert_true(arena_bytes(a) < sizeof(uint32_t) * N + (8 << 20));
  arena_free(a);
}

static void nouns_follow_their_number(void **state) {
  (void)state;
  assert_string_equal(plural(1), "");
  assert_string_equal(plural(0), "s");
  assert_string_equal(plural(2), "s");
}

static void equal_text_is_one_pointer(void **state) {
  (void)state;
  Arena *a = arena_new();
  Intern *t = intern_new(a);
  const char *seen[5000];
  for (int i = 0; i < 5000; i++) seen[i] = intern_printf(t, "name%d", i);
  for (int i = 0; i < 5000; i++) {
    char text[32];
    snprintf(text, sizeof text, "name%dtail", i);
    assert_ptr_equal(intern_n(t, text, strlen(text) - 4), seen[i]);
    assert_int_equal(strlen(seen[i]), strlen(text) - 4);
  }
  assert_ptr_equal(intern(t, ""), intern_n(t, "x", 0));
  assert_ptr_not_equal(intern(t, "a"), intern(t, "b"));
  arena_free(a);
}

static void times_have_three_digits(void **state) {
  (void)state;
  static const struct {
    double seconds;
    const char *text;
  } t[] = {{0, "0 us"},           {4e-10, "0 us"},      {4.5e-8, "0.045 us"}, {9.996e-7, "1.00 us"},
           {9.996e-6, "10.0 us"}, {8.52e-5, "85.2 us"}, {9.994e-4, "999 us"}, {9.996e-4, "1.00 ms"},
           {0.01234, "12.3 ms"},  {0.12345, "123 ms"},  {0.9996, "1.00 s"},   {12.34, "12.3 s"},
           {1234.5, "1234 s"}};
  Arena *a = arena_new();
  for (size_t i = 0; i < countof(t); i++)
    assert_string_equal(seconds_text(a, t[i].seconds), t[i].text);
  assert_string_equal(seconds_change_text(a, -3.43e-3), "-3.43 ms");
  assert_string_equal(seconds_change_text(a, 2e-6), "+2.00 us");
  assert_string_equal(seconds_change_text(a, -1e-12), "+0 us");
  assert_string_equal(percent_change_text(a, 1.28, 1), "+28.0 %");
  assert_string_equal(percent_change_text(a, 0.9999, 1), "+0.0 %");
  assert_string_equal(percent_change_text(a, 1, 2), "-50.0 %");
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_do_not_wrap),
      cmocka_unit_test(memory_is_aligned_and_zero),
      cmocka_unit_test(memory_is_zero_again_after_reset),
      cmocka_unit_test(memory_is_zero_in_the_next_arena),
      cmocka_unit_test(arrays_grow_within_their_memory),
      cmocka_unit_test(large_blocks_come_and_go),
      cmocka_unit_test(joined_memory_lives_with_the_arena),
      cmocka_unit_test(adopted_arena_is_used_on),
      cmocka_unit_test(large_memory_serves_small_requests),
      cmocka_unit_test(growing_arrays_keep_their_elements),
      cmocka_unit_test(formats_of_any_length),
      cmocka_unit_test(nouns_follow_their_number),
      cmocka_unit_test(equal_text_is_one_pointer),
      cmocka_unit_test(times_have_three_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
