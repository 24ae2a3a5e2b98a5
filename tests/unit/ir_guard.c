// Tests guards: a failed allocation and a broken invariant return to the caller. Arenas and
// unfinished files made meanwhile are released.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/base/disk.h"
#include "ir/base/guard.h"

static void allocate(void *context) {
  Arena *a = arena_new();
  for (int i = 0; i < 100; i++) memset(arena_alloc(a, 1 << 20), 1, 1 << 20);
  *(bool *)context = true;
  arena_free(a);
}

static void break_invariant(void *context) { BUG("node %d", *(int *)context); }

static void fail_inside(void *context) {
  Failure why;
  if (!guard_run(context ? break_invariant : allocate, context, &why)) guard_raise(&why);
}

static void test_memory(void **state) {
  (void)state;
  Failure why;
  bool done = false;
  for (int n = 1; !done; n++) {
    mem_fail_at(n);
    bool good = guard_run(allocate, &done, &why);
    mem_fail_at(0);
    assert_int_equal(good, done);
    if (!good) assert_non_null(strstr(why.text, "out of memory"));
    if (!good) assert_false(why.internal);
  }
}

static void test_internal(void **state) {
  (void)state;
  Failure why;
  int node = 7;
  assert_false(guard_run(break_invariant, &node, &why));
  assert_true(why.internal);
  assert_non_null(strstr(why.text, "node 7"));
  assert_false(guard_run(fail_inside, &node, &why)); // passes through an inner guard
  assert_non_null(strstr(why.text, "node 7"));
}

// A failed allocation keeps the buffer of the file: static, so that a leak checker still finds it.
static void write_half(void *path) {
  static DiskFile f;
  assert_true(disk_begin(&f, path));
  disk_put(&f, "half", 4);
  mem_exhausted(1);
}

static void test_unfinished(void **state) {
  (void)state;
  Failure why;
  char folder[] = "/tmp/guard_XXXXXX", path[64], partial[80];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/x", folder);
  snprintf(partial, sizeof partial, "%s.partial", path);
  assert_false(guard_run(write_half, path, &why));
  assert_int_equal(access(partial, F_OK), -1);
  assert_int_equal(rmdir(folder), 0);
}

static int calls;
static void fail_first(void *unused) {
  (void)unused;
  if (calls++ == 0) mem_exhausted(0);
}
static void call_once(void *once) { guard_once(once, fail_first, NULL); }

static void test_once(void **state) {
  (void)state;
  GuardOnce once = {0};
  Failure why;
  assert_false(guard_run(call_once, &once, &why));
  assert_true(guard_run(call_once, &once, &why));
  assert_true(guard_run(call_once, &once, &why));
  assert_int_equal(calls, 2);
}

static GuardOnce inner, outer, itself;
static int inner_calls, outer_calls;
static void count_inner(void *calls_so_far) { ++*(int *)calls_so_far; }
static void count_outer(void *unused) {
  (void)unused;
  guard_once(&inner, count_inner, &inner_calls);
  outer_calls++;
}
static void call_itself(void *once) { guard_once(once, call_itself, once); }
static void *call_outer(void *unused) {
  guard_once(&outer, count_outer, NULL);
  return unused;
}

// Work may call other work. Threads that come meanwhile wait for it.
static void test_once_nested(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  Failure why;
  alarm(60); // instead of a test that waits forever
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, call_outer, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(outer_calls, 1);
  assert_int_equal(inner_calls, 1);
  assert_false(guard_run(call_itself, &itself, &why));
  assert_true(why.internal);
  alarm(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),      cmocka_unit_test(test_internal),
      cmocka_unit_test(test_unfinished),  cmocka_unit_test(test_once),
      cmocka_unit_test(test_once_nested),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
