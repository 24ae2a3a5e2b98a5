// Tests the emulator of GPU functions: results, and that each kind of error is found. The functions
// are written in C as code for the emulator is generated: they tell each access.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/base.h"
#include "tests/standin/child.h"
#include "tests/standin/emulator.h"

// -- a GPU with one allocation ------------------------------------------------------------------

enum { WORDS = 4096 };
static _Alignas(512) uint32_t words[WORDS];
static Shadow words_shadow;
static uint32_t next_segment;

static Shadow *find(void *self, const char *at) {
  (void)self;
  const char *from = (const char *)words;
  return at >= from && at < from + sizeof words ? &words_shadow : NULL;
}
static void explain(void *self, const char *at, char *text, size_t n) {
  (void)self, (void)at;
  snprintf(text, n, "nothing was allocated there");
}
static void operation(void *self, uint32_t segment, char *text, size_t n) {
  (void)self;
  snprintf(text, n, "operation %u", segment);
}
static const EmulatorMemory memory = {NULL, find, explain, operation};

static void run_typed(EmulatedFunction *function, int blocks, int threads, int shared,
                      uint64_t seed, int32_t nsets) {
  next_segment = 1;
  shadow_begin(&words_shadow, (char *)words, sizeof words, false);
  Emulator *e = emulator_new(&memory, &next_segment, seed);
  EmulatorLaunch l = {.name = "test",
                      .function = function,
                      .table = words,
                      .nsets = nsets,
                      .blocks_x = blocks,
                      .blocks_y = 1,
                      .threads = threads,
                      .shared = shared,
                      .safe = 1};
  emulator_run(e, &l);
  emulator_free(e);
  shadow_end(&words_shadow);
}
static void run_seeded(EmulatedFunction *function, int blocks, int threads, int shared,
                       uint64_t seed) {
  run_typed(function, blocks, threads, shared, seed, 1);
}
static void run(EmulatedFunction *function, int blocks, int threads, int shared) {
  run_seeded(function, blocks, threads, shared, 1);
}

// -- what functions do --------------------------------------------------------------------------

#define FUNCTION(name)                                                                             \
  static void name(const void *table, const GpuHeader *header, int32_t nsets, int32_t flags,       \
                   GpuEmulator *g)
#define UNUSED (void)table, (void)header, (void)nsets, (void)flags

static uint32_t load(GpuEmulator *g, const uint32_t *at, GpuSpace space) {
  g->access(g, at, 4, GPU_READ, space);
  return *at;
}
static void store(GpuEmulator *g, uint32_t *at, uint32_t value, GpuSpace space) {
  g->access(g, at, 4, GPU_WRITE, space);
  *at = value;
}
static uint32_t *shared_words(GpuEmulator *g) { return (uint32_t *)(void *)g->shared(g); }

// Adds up words[0..256 * blocks), 256 by each block, into words[1024 + block].
FUNCTION(sum) {
  UNUSED;
  int32_t t = g->thread(g), b = g->block_x(g);
  uint32_t s = load(g, &words[256 * b + t], GPU_GLOBAL), *part = shared_words(g);
  for (int32_t lane = 16; lane > 0; lane /= 2) s += g->shuffle(g, GPU_SHUFFLE_XOR, s, lane, 0);
  if (t % GPU_WARP == 0) store(g, &part[t / GPU_WARP], s, GPU_SHARED);
  g->barrier(g, 1);
  if (t != 0) return;
  for (s = 0, t = 0; t < g->threads(g) / GPU_WARP; t++) s += load(g, &part[t], GPU_SHARED);
  store(g, &words[1024 + b], s, GPU_GLOBAL);
}

static void test_sum(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 20; seed++) {
    for (uint32_t i = 0; i < 1024; i++) words[i] = i;
    memset(words + 1024, 0, 4 * sizeof *words);
    run_seeded(sum, 4, 256, 32, seed);
    for (uint32_t b = 0; b < 4; b++) assert_int_equal(words[1024 + b], 256 * (256 * b) + 255 * 128);
  }
}

// Writes what shuffles give to each thread of one warp.
FUNCTION(shuffles) {
  UNUSED;
  int32_t t = g->thread(g);
  uint32_t value = 100 + (uint32_t)t;
  store(g, &words[t], g->shuffle(g, GPU_SHUFFLE_XOR, value, 5, 0), GPU_GLOBAL);
  store(g, &words[32 + t], g->shuffle(g, GPU_SHUFFLE_DOWN, value, 3, 1), GPU_GLOBAL);
  store(g, &words[64 + t], g->shuffle(g, GPU_SHUFFLE_INDEX, value, 7, 2), GPU_GLOBAL);
}
static void test_shuffles(void **state) {
  (void)state;
  run(shuffles, 1, 32, 0);
  for (uint32_t t = 0; t < 32; t++) {
    assert_int_equal(words[t], 100 + (t ^ 5));
    assert_int_equal(words[32 + t], 100 + (t + 3 < 32 ? t + 3 : t));
    assert_int_equal(words[64 + t], 107);
  }
}

// Each thread adds 1 to its word in each of 50 parts between barriers, as its left neighbour did.
FUNCTION(rotate) {
  UNUSED;
  int32_t t = g->thread(g), n = g->threads(g);
  store(g, &words[t], 0, GPU_GLOBAL);
  for (int32_t i = 0; i < 50; i++) {
    g->barrier(g, 0);
    uint32_t *at = &words[(t + i) % n];
    store(g, at, load(g, at, GPU_GLOBAL) + 1, GPU_GLOBAL);
  }
}
static void test_barriers(void **state) {
  (void)state;
  run(rotate, 1, 1024, 0);
  for (int i = 0; i < 1024; i++) assert_int_equal(words[i], 50);
}

// Bytes next to each other, written by different threads, are different memory.
FUNCTION(bytes) {
  UNUSED;
  unsigned char *at = (unsigned char *)words + g->thread(g);
  g->access(g, at, 1, GPU_WRITE, GPU_GLOBAL);
  *at = 7;
  g->barrier(g, 0);
  g->access(g, words + g->thread(g) / 4, 4, GPU_READ, GPU_GLOBAL);
}
// All threads of all blocks count atomically, in one word.
FUNCTION(count) {
  UNUSED;
  g->access(g, words, 4, GPU_ATOMIC, GPU_GLOBAL);
  words[0]++;
}
static void test_bytes_and_atomics(void **state) {
  (void)state;
  run(bytes, 1, 256, 0);
  words[0] = 0;
  run(count, 10, 64, 0);
  assert_int_equal(words[0], 640);
}

// -- tensor cores, copies beside the computation ------------------------------------------------

// Bits of a small whole number as f16 and as bf16.
static uint32_t f16_bits(int value) {
  uint32_t sign = value < 0 ? 0x8000 : 0, exponent = 15;
  int size = value < 0 ? -value : value;
  if (size == 0) return 0;
  while (size >> (exponent - 14)) exponent++;
  return sign | exponent << 10 | (((uint32_t)size << 10 >> (exponent - 15)) & 1023);
}
static uint32_t bf16_bits(int value) {
  float f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits >> 16;
}
static int a_value(int row, int k) { return row * 3 - k; }
static int b_value(int k, int column) { return k + 2 * column - 9; }

// Copies a (16 x 16, by rows) and b (16 x 8, by columns) from global to shared memory, loads their
// matrices, multiplies, and stores d (16 x 8). words: d at 0, a at 256, b at 512. nsets: type.
FUNCTION(product) {
  (void)table, (void)header, (void)flags;
  int32_t t = g->thread(g), matrix = t / 8, row = t % 8;
  char *shared = g->shared(g);
  g->copy_begin(g, shared + 16 * t, (char *)(words + 256) + 16 * t, 16, 16);
  g->copy_commit(g);
  if (t < 16) g->copy_begin(g, shared + 512 + 16 * t, (char *)(words + 512) + 16 * t, 16, 16);
  g->copy_commit(g);
  g->copy_wait(g, 0);
  g->barrier(g, 0);
  uint32_t a[4], b[2];
  float d[4] = {1, 1, 1, 1};
  // matrices of a: rows 0..7 and 8..15 of columns 0..7, then of columns 8..15
  g->load_matrix(g, a, shared + 32 * (row + matrix % 2 * 8) + matrix / 2 * 16, 4, 0, 1);
  // b lies transposed: a column of b is 32 bytes
  g->load_matrix(g, b, shared + 512 + 32 * row + matrix % 2 * 16, 2, 0, 2);
  g->multiply(g, nsets, d, a, b, d, 3);
  for (int i = 0; i < 4; i++) {
    float *at = (float *)words + (t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2;
    g->access(g, at, 4, GPU_WRITE, GPU_GLOBAL);
    *at = d[i];
  }
}
static void test_product(void **state) {
  (void)state;
  for (GpuFactor type = GPU_F16; type <= GPU_BF16; type++) {
    uint32_t (*bits)(int) = type == GPU_F16 ? f16_bits : bf16_bits;
    uint16_t *a = (uint16_t *)(words + 256), *b = (uint16_t *)(words + 512);
    for (int i = 0; i < 256; i++) a[i] = (uint16_t)bits(a_value(i / 16, i % 16));
    for (int i = 0; i < 128; i++) b[i] = (uint16_t)bits(b_value(i % 16, i / 16));
    run_typed(product, 1, 32, 1024, 3, (int32_t)type);
    for (int i = 0; i < 128; i++) {
      int sum = 1;
      for (int k = 0; k < 16; k++) sum += a_value(i / 8, k) * b_value(k, i % 8);
      assert_int_equal((int)((float *)words)[i], sum);
    }
  }
}

// A transposed load gives thread t the elements (2 (t % 4), t / 4) and the one below.
FUNCTION(transposed) {
  UNUSED;
  int32_t t = g->thread(g);
  uint32_t *at = shared_words(g) + t, got;
  store(g, at, (uint32_t)(2 * t) | (uint32_t)(2 * t + 1) << 16, GPU_SHARED);
  g->barrier(g, 0);
  g->load_matrix(g, &got, shared_words(g) + t % 8 * 4, 1, 1, 1);
  store(g, &words[t], got, GPU_GLOBAL);
}
// Copies of fewer bytes than they write fill up with zeros; only the last group is under way.
FUNCTION(groups) {
  UNUSED;
  int32_t t = g->thread(g);
  uint32_t *part = shared_words(g) + 8 * t;
  for (int32_t i = 0; i < 2; i++) {
    g->copy_begin(g, part + 4 * i, words + 512 + 8 * t + 4 * i, 16, 12);
    g->copy_commit(g);
  }
  g->copy_wait(g, 1);
  for (int32_t i = 0; i < 4; i++)
    store(g, &words[8 * t + i], load(g, part + i, GPU_SHARED), GPU_GLOBAL);
  g->copy_wait(g, 0);
  for (int32_t i = 4; i < 8; i++)
    store(g, &words[8 * t + i], load(g, part + i, GPU_SHARED), GPU_GLOBAL);
}
static void test_loads_and_copies(void **state) {
  (void)state;
  run(transposed, 1, 32, 128);
  for (uint32_t t = 0; t < 32; t++) {
    uint32_t first = 8 * (2 * (t % 4)) + t / 4;
    assert_int_equal(words[t], first | (first + 8) << 16);
  }
  for (uint32_t i = 0; i < 1024; i++) words[i] = i;
  run(groups, 1, 64, 2048);
  for (uint32_t i = 0; i < 512; i++) assert_int_equal(words[i], i % 4 == 3 ? 0 : 512 + i);
}

// The left neighbour's word of the own warp, read after a barrier of the warp, then overwritten.
FUNCTION(warp_neighbours) {
  UNUSED;
  int32_t t = g->thread(g), left = t / GPU_WARP * GPU_WARP + (t + 31) % GPU_WARP;
  store(g, &words[t], (uint32_t)t, GPU_GLOBAL);
  g->warp_barrier(g, 0);
  uint32_t got = load(g, &words[left], GPU_GLOBAL);
  g->warp_barrier(g, 1);
  store(g, &words[t], got, GPU_GLOBAL);
}
static void test_warp_barriers(void **state) {
  (void)state;
  run(warp_neighbours, 1, 64, 0);
  for (uint32_t t = 0; t < 64; t++) assert_int_equal(words[t], t / 32 * 32 + (t + 31) % 32);
}

// -- errors -------------------------------------------------------------------------------------

FUNCTION(race_shared) {
  UNUSED;
  store(g, &shared_words(g)[g->thread(g) / 2], 1, GPU_SHARED);
}
FUNCTION(race_read_then_write) {
  UNUSED;
  int32_t t = g->thread(g);
  uint32_t *part = shared_words(g);
  store(g, &part[t], 1, GPU_SHARED);
  g->barrier(g, 0);
  load(g, &part[(t + 1) % 64], GPU_SHARED);
  store(g, &part[t], 2, GPU_SHARED);
}
// The barrier that is missing in `sum`.
FUNCTION(race_no_barrier) {
  UNUSED;
  int32_t t = g->thread(g);
  store(g, &words[t], 1, GPU_GLOBAL);
  load(g, &words[63 - t], GPU_GLOBAL);
}
// A shuffle orders no accesses.
FUNCTION(race_shuffle) {
  UNUSED;
  int32_t t = g->thread(g);
  store(g, &words[t], 1, GPU_GLOBAL);
  g->shuffle(g, GPU_SHUFFLE_XOR, 0, 1, 0);
  load(g, &words[t ^ 1], GPU_GLOBAL);
}
// Barriers of warps do not order one warp and another.
FUNCTION(race_warps) {
  UNUSED;
  int32_t t = g->thread(g);
  store(g, &words[t], 1, GPU_GLOBAL);
  g->warp_barrier(g, 0);
  load(g, &words[63 - t], GPU_GLOBAL);
}
// Both warps read the word, then one of them writes it.
FUNCTION(race_warps_read) {
  UNUSED;
  load(g, words, GPU_GLOBAL);
  g->warp_barrier(g, 0);
  if (g->thread(g) == 0) store(g, words, 1, GPU_GLOBAL);
}
FUNCTION(race_blocks) {
  UNUSED;
  if (g->thread(g) == 0) store(g, &words[5], 1, GPU_GLOBAL);
}
FUNCTION(race_blocks_read) {
  UNUSED;
  int32_t b = g->block_x(g);
  load(g, &words[b / 2], GPU_GLOBAL);
  g->barrier(g, 0);
  if (g->thread(g) == 0) store(g, &words[b], 1, GPU_GLOBAL);
}
FUNCTION(race_atomic) {
  UNUSED;
  if (g->block_x(g) == 0)
    load(g, words, GPU_GLOBAL);
  else
    g->access(g, words, 4, GPU_ATOMIC, GPU_GLOBAL);
}
FUNCTION(race_part_of_word) {
  UNUSED;
  unsigned char *at = (unsigned char *)words + 64;
  if (g->thread(g) == 0) g->access(g, at + 3, 1, GPU_WRITE, GPU_GLOBAL);
  if (g->thread(g) == 1) g->access(g, at, 16, GPU_READ, GPU_GLOBAL);
}
FUNCTION(barrier_in_condition) {
  UNUSED;
  if (g->thread(g) < 40) g->barrier(g, 3);
}
FUNCTION(barriers_differ) {
  UNUSED;
  g->barrier(g, g->thread(g) < 32 ? 1 : 2);
}
FUNCTION(shuffle_in_condition) {
  UNUSED;
  if (g->thread(g) != 9) g->shuffle(g, GPU_SHUFFLE_XOR, 0, 1, 4);
}
FUNCTION(shuffle_against_barrier) {
  UNUSED;
  if (g->thread(g) == 9) g->barrier(g, 5);
  g->shuffle(g, GPU_SHUFFLE_XOR, 0, 1, 4);
}
FUNCTION(shuffles_differ) {
  UNUSED;
  g->shuffle(g, GPU_SHUFFLE_XOR, 0, 1, g->thread(g) < 16 ? 1 : 2);
}
FUNCTION(shuffle_once) {
  UNUSED;
  g->shuffle(g, GPU_SHUFFLE_XOR, 0, 1, 4);
}
FUNCTION(shuffle_outside) {
  UNUSED;
  g->shuffle(g, GPU_SHUFFLE_INDEX, 0, 32, 6);
}
FUNCTION(unwritten_shared) {
  UNUSED;
  load(g, shared_words(g) + g->thread(g), GPU_SHARED);
}
// Shared memory does not keep what an earlier block wrote.
FUNCTION(shared_of_block_before) {
  UNUSED;
  if (g->block_x(g) == 0) store(g, shared_words(g) + g->thread(g), 1, GPU_SHARED);
  if (g->block_x(g) == 1) load(g, shared_words(g) + g->thread(g), GPU_SHARED);
}
FUNCTION(beyond_shared) {
  UNUSED;
  store(g, shared_words(g) + 16 + g->thread(g), 1, GPU_SHARED);
}
FUNCTION(beyond_global) {
  UNUSED;
  store(g, &words[WORDS - 1] + g->thread(g), 1, GPU_GLOBAL);
}
FUNCTION(not_aligned) {
  UNUSED;
  g->access(g, (char *)words + 8, 16, GPU_READ, GPU_GLOBAL);
}

// Begins a copy of 16 bytes of each thread.
static uint32_t *begin_copy(GpuEmulator *g) {
  uint32_t *to = shared_words(g) + 4 * g->thread(g);
  g->copy_begin(g, to, words + 4 * g->thread(g), 16, 16);
  g->copy_commit(g);
  return to;
}
FUNCTION(copy_not_awaited) {
  UNUSED;
  load(g, begin_copy(g), GPU_SHARED);
}
FUNCTION(copy_group_under_way) {
  UNUSED;
  uint32_t *to = begin_copy(g);
  g->copy_wait(g, 1);
  load(g, to, GPU_SHARED);
}
FUNCTION(copy_not_committed) {
  UNUSED;
  uint32_t *to = shared_words(g) + g->thread(g);
  g->copy_begin(g, to, words + g->thread(g), 4, 4);
  g->copy_wait(g, 0);
  load(g, to, GPU_SHARED);
}
FUNCTION(copy_of_neighbour) {
  UNUSED;
  begin_copy(g);
  g->copy_wait(g, 0);
  load(g, shared_words(g) + 4 * (g->thread(g) ^ 1), GPU_SHARED);
}
FUNCTION(copy_beyond) {
  UNUSED;
  g->copy_begin(g, shared_words(g), &words[WORDS - 1], 16, 16);
}
FUNCTION(matrix_without_barrier) {
  UNUSED;
  uint32_t to;
  store(g, shared_words(g) + g->thread(g), 1, GPU_SHARED);
  g->load_matrix(g, &to, shared_words(g) + g->thread(g) % 8 * 4, 1, 0, 1);
}
FUNCTION(matrix_not_aligned) {
  UNUSED;
  uint32_t to;
  g->load_matrix(g, &to, shared_words(g) + g->thread(g) % 8 * 4 + 1, 1, 0, 1);
}
FUNCTION(product_in_condition) {
  UNUSED;
  float d[4] = {0};
  uint32_t a[4] = {0};
  if (g->thread(g) < 31) g->multiply(g, GPU_BF16, d, a, a, d, 7);
}

typedef struct Wrong {
  const char *name;
  EmulatedFunction *function;
  int blocks, threads, shared;
  const char *words[3]; // of the message
} Wrong;
static const Wrong wrongs[] = {
    {"race_shared",
     race_shared,
     1,
     64,
     256,
     {"offset", "of shared memory", "no barrier is between"}},
    {"race_read_then_write", race_read_then_write, 1, 64, 256, {"test, block 0", "no barrier"}},
    {"race_no_barrier", race_no_barrier, 1, 64, 0, {"and no barrier is between"}},
    {"race_shuffle", race_shuffle, 1, 32, 0, {"no barrier is between"}},
    {"race_warps", race_warps, 1, 64, 0, {"no barrier is between"}},
    {"race_warps_read", race_warps_read, 1, 64, 0, {"no barrier is between"}},
    {"race_blocks", race_blocks, 3, 32, 0, {"writes 4 bytes", "blocks are not ordered", "block "}},
    {"race_blocks_read", race_blocks_read, 4, 32, 0, {"blocks are not ordered"}},
    {"race_atomic", race_atomic, 2, 1, 0, {"blocks are not ordered"}},
    {"race_part_of_word", race_part_of_word, 1, 32, 0, {"thread", "no barrier is between"}},
    {"barrier_in_condition", barrier_in_condition, 1, 64, 0, {"barrier of site 3", "has ended"}},
    {"barriers_differ", barriers_differ, 1, 64, 0, {"waits at the barrier of site 1", "site 2"}},
    {"shuffle_in_condition", shuffle_in_condition, 1, 32, 0, {"thread 9 of its warp", "has ended"}},
    {"shuffle_against_barrier",
     shuffle_against_barrier,
     1,
     32,
     0,
     {"waits at the barrier of site 5"}},
    {"shuffles_differ", shuffles_differ, 1, 32, 0, {"meeting of site 2", "site 1"}},
    {"shuffle_once", shuffle_once, 1, 48, 0, {"the block has no such thread"}},
    {"shuffle_outside", shuffle_outside, 1, 32, 0, {"the value of thread 32 of the warp"}},
    {"unwritten_shared", unwritten_shared, 1, 32, 128, {"that no thread of the block has written"}},
    {"shared_of_block_before", shared_of_block_before, 2, 32, 128, {"has written"}},
    {"beyond_shared", beyond_shared, 1, 32, 128, {"of shared memory", "gave the block 128 bytes"}},
    {"beyond_global",
     beyond_global,
     1,
     32,
     0,
     {"writes 4 bytes at", "nothing was allocated there"}},
    {"copy_not_awaited", copy_not_awaited, 1, 32, 512, {"copies asynchronously"}},
    {"copy_group_under_way", copy_group_under_way, 1, 32, 512, {"copies asynchronously"}},
    {"copy_not_committed", copy_not_committed, 1, 32, 512, {"copies asynchronously"}},
    {"copy_of_neighbour", copy_of_neighbour, 1, 32, 512, {"of shared memory"}},
    {"copy_beyond", copy_beyond, 1, 1, 512, {"not aligned"}},
    {"matrix_without_barrier", matrix_without_barrier, 1, 32, 128, {"no barrier is between"}},
    {"matrix_not_aligned", matrix_not_aligned, 1, 32, 256, {"names a row", "not aligned to 16"}},
    {"product_in_condition", product_in_condition, 1, 32, 0, {"mma of site 7", "has ended"}},
    {"not_aligned", not_aligned, 1, 1, 0, {"not aligned"}},
};

typedef struct WrongRun {
  const Wrong *wrong;
  uint64_t seed;
} WrongRun;
static void run_wrong(void *argument) {
  const WrongRun *r = argument;
  const Wrong *w = r->wrong;
  run_seeded(w->function, w->blocks, w->threads, w->shared, r->seed);
}
// An error is found in whatever order warps and blocks run.
static void test_errors(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(wrongs); i++)
    for (uint64_t seed = 0; seed < 6; seed++) {
      WrongRun r = {&wrongs[i], seed};
      if (!child_fails(run_wrong, &r, wrongs[i].words, countof(wrongs[i].words)))
        fail_msg("%s is not found, seed %d", wrongs[i].name, (int)seed);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_shuffles),
      cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_bytes_and_atomics),
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_warp_barriers),
      cmocka_unit_test(test_loads_and_copies),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
