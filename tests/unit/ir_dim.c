// Tests meshes, groups of processors, dims and their blocks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/dim.h"

static Mesh mesh_of(int64_t p, int64_t q) {
  return (Mesh){.naxes = 2, .axis = {{.name = "rows", .size = p}, {.name = "cols", .size = q}}};
}

static Axes axes_of(int n, int a, int b) {
  return (Axes){.n = (uint8_t)n, .at = {(uint8_t)a, (uint8_t)b}};
}

static void coordinates_are_row_major(void **state) {
  (void)state;
  Mesh m = mesh_of(2, 3), one = {0};
  assert_int_equal(mesh_size(&m), 6);
  assert_int_equal(mesh_size(&one), 1);
  assert_int_equal(mesh_coord(&m, 5, 0), 1);
  assert_int_equal(mesh_coord(&m, 5, 1), 2);
  assert_int_equal(mesh_axis(&m, "cols"), 1);
  assert_int_equal(mesh_axis(&m, "depth"), -1);
}

static void groups_have_ranks(void **state) {
  (void)state;
  Mesh m = mesh_of(2, 3);
  Axes both[] = {axes_of(1, 0, 0), axes_of(1, 1, 0), axes_of(2, 0, 1), axes_of(2, 1, 0),
                 axes_of(0, 0, 0)};
  for (size_t i = 0; i < countof(both); i++) {
    for (int64_t r = 0; r < 6; r++) {
      assert_int_equal(axes_peer(&m, both[i], r, axes_rank(&m, both[i], r)), r);
      for (int64_t k = 0; k < axes_size(&m, both[i]); k++) {
        int64_t peer = axes_peer(&m, both[i], r, k);
        assert_in_range(peer, 0, 5);
        assert_int_equal(axes_rank(&m, both[i], peer), k);
      }
    }
  }
  assert_int_equal(axes_rank(&m, axes_of(2, 1, 0), 1), 2); // row 0, col 1; cols is the slow axis
  assert_true(axes_has(axes_of(2, 1, 0), 0));
  assert_false(axes_has(axes_of(1, 1, 0), 0));
  assert_false(axes_equal(axes_of(2, 1, 0), axes_of(2, 0, 1)));
}

static void patterns_match(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *name;
    bool match;
  } cases[] = {{"head.kernel", "head.kernel", true},
               {"head.kernel", "head.kernels", false},
               {"*", "", true},
               {"*.kernel", "a.b.kernel", true},
               {"*.kernel", "kernel", false},
               {"layer.*.wi", "layer.3.moe.wi", true},
               {"a*b*c", "axxbyybc", true},
               {"a*b*c", "axxbyy", false},
               {"", "x", false},
               {"**", "anything", true},
               {"a?", "ab", false}};
  for (size_t i = 0; i < countof(cases); i++)
    assert_int_equal(name_matches(cases[i].pattern, cases[i].name), cases[i].match);
}

// Checks that the blocks of all processors that differ in the axes of d cover 0..rows-1 once, in
// order.
static void check_cover(const DimTable *t, const Mesh *m, DimId d, int64_t rows) {
  Axes axes = dim_get(t, d)->axes;
  int64_t next = 0;
  for (int64_t k = 0; k < axes_size(m, axes); k++) {
    int64_t r = axes_peer(m, axes, 0, k), valid = dim_valid(t, m, d, r, rows);
    assert_in_range(valid, 0, dim_get(t, d)->size);
    if (valid) assert_int_equal(dim_offset(t, m, d, r), next);
    next += valid;
  }
  assert_int_equal(next, rows);
}

static void blocks_cover_their_dim(void **state) {
  (void)state;
  for (int64_t p = 1; p <= 4; p++) {
    for (int64_t q = 1; q <= 4; q++) {
      Arena *a = arena_new();
      Mesh m = mesh_of(p, q);
      DimTable *t = dim_table_new(a, intern_new(a));
      for (int64_t n = 1; n <= 17; n++) {
        DimId whole = dim_add(t, arena_printf(a, "d%d", (int)n), n, (Pos){0});
        Axes ways[] = {axes_of(0, 0, 0), axes_of(1, 0, 0), axes_of(1, 1, 0), axes_of(2, 0, 1),
                       axes_of(2, 1, 0)};
        for (size_t w = 0; w < countof(ways); w++) {
          DimId d = dim_block(t, &m, whole, ways[w]);
          assert_int_equal(dim_block(t, &m, whole, ways[w]), d);
          bool full = true;
          for (int64_t r = 0; r < p * q; r++)
            full &= dim_valid(t, &m, d, r, n) == dim_get(t, d)->size;
          assert_int_equal(dim_uneven(t, &m, d), !full);
          for (int64_t rows = 0; rows <= n; rows++) check_cover(t, &m, d, rows);
        }
      }
      arena_free(a);
    }
  }
}

static void nested_blocks(void **state) {
  (void)state;
  Arena *a = arena_new();
  Mesh m = mesh_of(2, 2);
  DimTable *t = dim_table_new(a, intern_new(a));
  DimId h = dim_add(t, "h", 5, (Pos){0});
  DimId d = dim_block(t, &m, h, axes_of(2, 1, 0)); // split over cols, then rows
  assert_string_equal(dim_get(t, d)->name, "h/cols+rows");
  assert_int_equal(dim_get(t, d)->size, 2);
  assert_int_equal(dim_get(t, d)->whole, h);
  // blocks of h: processor 0 (0,0): 0-1; processor 2 (row 1, col 0): 2; processor 1 (row 0, col 1):
  // 3-4; processor 3: none
  assert_int_equal(dim_valid(t, &m, d, 2, 5), 1);
  assert_int_equal(dim_offset(t, &m, d, 1), 3);
  assert_int_equal(dim_valid(t, &m, d, 3, 5), 0);
  assert_int_equal(dim_valid(t, &m, d, 1, 4), 1); // four valid rows in blocks of the full size
  assert_int_equal(dim_find(t, "h/cols+rows"), d);
  assert_int_equal(dim_find(t, "x"), 0);
  arena_free(a);
}

// Compares every footprint with its definition: all s = (out*o + tap*k + offset) / divisor for o
// and k of the processor's blocks.
static void check_footprint(const DimTable *t, const Mesh *m, DimId d, int64_t n) {
  const Dim *x = dim_get(t, d);
  const Affine *f = &x->footprint.affine;
  int64_t outs = dim_get(t, dim_get(t, x->out)->whole)->size;
  for (int64_t r = 0; r < mesh_size(m); r++) {
    int64_t lo = n, hi = -1, first = dim_offset(t, m, x->out, r),
            taps = x->tap ? dim_get(t, x->tap)->size : 1;
    for (int64_t o = first; o < first + dim_valid(t, m, x->out, r, outs); o++)
      for (int64_t k = 0; k < taps; k++) {
        int64_t s = f->out * o + f->tap * k + f->offset;
        if (s % f->divisor || s < 0 || s / f->divisor >= n) continue;
        if (s / f->divisor < lo) lo = s / f->divisor;
        if (s / f->divisor > hi) hi = s / f->divisor;
      }
    int64_t from = dim_offset(t, m, d, r), valid = dim_valid(t, m, d, r, n);
    assert_in_range(valid, 0, x->size);
    assert_int_equal(dim_valid(t, m, d, r, from + 1), valid ? 1 : 0);
    if (hi < lo) continue; // no valid s; an empty interval may have any position
    assert_true(from <= lo && hi < from + valid);
    if (f->divisor == 1 && llabs(f->out) == 1) assert_true(from == lo && from + valid == hi + 1);
  }
}

static void footprint_holds_what_is_read(void **state) {
  (void)state;
  static const Affine ways[] = {{1, 1, -1, 1}, {2, 1, 0, 1},  {2, 3, -2, 1}, {1, -1, 1, 1},
                                {1, -1, 1, 2}, {1, -2, 3, 3}, {-1, 0, 8, 1}, {1, 0, 4, 1},
                                {1, 0, -3, 1}, {3, 1, 0, 1}};
  for (int64_t p = 1; p <= 4; p++) {
    Arena *a = arena_new();
    Mesh m = mesh_of(p, 2);
    DimTable *t = dim_table_new(a, intern_new(a));
    DimId y = dim_add(t, "y", 9, (Pos){0}), o = dim_add(t, "o", 7, (Pos){0}),
          k = dim_add(t, "k", 3, (Pos){0});
    Axes cuts[] = {axes_of(1, 0, 0), axes_of(2, 0, 1), axes_of(2, 1, 0), axes_of(0, 0, 0)};
    for (size_t w = 0; w < countof(ways); w++)
      for (size_t c = 0; c < countof(cuts); c++) {
        DimId of = dim_block(t, &m, o, cuts[c]), tap = ways[w].tap ? k : 0;
        DimId d = dim_footprint(t, &m, y, of, tap, ways[w]);
        assert_int_equal(dim_footprint(t, &m, y, of, tap, ways[w]), d);
        assert_int_equal(dim_get(t, d)->whole, y);
        check_footprint(t, &m, d, 9);
      }
    DimId d = dim_footprint(t, &m, y, dim_block(t, &m, o, cuts[0]), k, ways[0]);
    assert_string_equal(dim_get(t, d)->name, "y/o/rows*1+k*1-1");
    assert_int_equal(dim_find(t, "y/o/rows*1+k*1-1"), d);
    assert_int_not_equal(dim_block(t, &m, y, cuts[0]), d);
    arena_free(a);
  }
}

static void sets_stay_in_order(void **state) {
  (void)state;
  Arena *a = arena_new();
  Mesh m = mesh_of(2, 2);
  DimTable *t = dim_table_new(a, intern_new(a));
  DimId id[MAX_RANK + 1];
  for (int i = 0; i <= MAX_RANK; i++) id[i] = dim_add(t, arena_printf(a, "d%d", i), 10, (Pos){0});
  DimId block = dim_block(t, &m, id[1], axes_of(1, 0, 0));
  Dims s = {0};
  assert_true(dims_add(t, &s, id[2]) && dims_add(t, &s, block) && dims_add(t, &s, id[0]));
  assert_true(dims_add(t, &s, id[0]));
  assert_int_equal(s.n, 3);
  assert_string_equal(dims_text(a, t, &s), "d0, d1/rows, d2");
  int64_t n;
  assert_true(dims_elements(t, &s, &n));
  assert_int_equal(n, 500);
  dims_remove(&s, block);
  assert_int_equal(dims_index(&s, id[2]), 1);
  assert_false(dims_has(&s, block));
  for (int i = 0; i < MAX_RANK; i++) assert_true(dims_add(t, &s, id[i]));
  assert_false(dims_add(t, &s, id[MAX_RANK]));
  arena_free(a);
}

static void sizes_are_checked(void **state) {
  (void)state;
  Arena *a = arena_new();
  DimTable *t = dim_table_new(a, intern_new(a));
  Dims s = {0};
  for (int i = 0; i < 3; i++) {
    bool added = dims_add(t, &s, dim_add(t, arena_printf(a, "d%d", i), INT32_MAX, (Pos){0}));
    assert_true(added);
  }
  int64_t n;
  assert_false(dims_elements(t, &s, &n));
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(coordinates_are_row_major),
      cmocka_unit_test(groups_have_ranks),
      cmocka_unit_test(patterns_match),
      cmocka_unit_test(blocks_cover_their_dim),
      cmocka_unit_test(nested_blocks),
      cmocka_unit_test(footprint_holds_what_is_read),
      cmocka_unit_test(sets_stay_in_order),
      cmocka_unit_test(sizes_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
