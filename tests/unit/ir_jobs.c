// Tests jobs: each runs once, jobs may add others, and a failure of one is raised in the caller.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/intern.h"
#include "ir/base/jobs.h"

enum { ROOTS = 5, CHILDREN = 3, ALL = ROOTS * (1 + CHILDREN), MOST_THREADS = 8 };

typedef struct Task {
  Jobs *jobs;
  Job job;
  Arena *arena;
  struct Task *child; // CHILDREN tasks that it adds, or NULL
  uint64_t sum;
} Task;

typedef struct Run {
  int threads;
  int bad; // number of the root that breaks an invariant, -1: none
  bool done;
  Task task[ALL];
} Run;

static void work(void *task) {
  Task *t = task;
  Arena *scratch = arena_new(); // not the caller's: a failure frees it
  uint64_t *list = arena_array(scratch, uint64_t, 40000);
  for (uint64_t i = 0; i < 40000; i++) t->sum += list[i] = i;
  (void)arena_printf(t->arena, "%llu", (unsigned long long)t->sum);
  for (int i = 0; t->child && i < CHILDREN; i++) jobs_add(t->jobs, &t->child[i].job);
  arena_free(scratch);
}

static void break_invariant(void *task) { BUG("sum %d", (int)((Task *)task)->sum); }

static void run_tree(void *run) {
  Run *r = run;
  Arena *a = arena_new();
  Jobs *jobs = jobs_new(a, r->threads);
  for (int i = 0; i < ALL; i++) {
    Task *t = &r->task[i];
    *t = (Task){.jobs = jobs, .arena = arena_new(), .job = {.work = work, .context = t}};
    if (i < ROOTS) t->child = &r->task[ROOTS + i * CHILDREN];
    if (i == r->bad) t->job.work = break_invariant;
  }
  for (int i = 0; i < ROOTS; i++) jobs_add(jobs, &r->task[i].job);
  jobs_run(jobs);
  for (int i = 0; i < ALL; i++) arena_join(a, r->task[i].arena);
  arena_free(a);
  r->done = true;
}

static void test_each_runs(void **state) {
  (void)state;
  Failure why;
  for (int threads = 0; threads <= MOST_THREADS; threads++) {
    Run r = {.threads = threads, .bad = -1};
    assert_true(guard_run(run_tree, &r, &why));
    for (int i = 0; i < ALL; i++) assert_int_equal(r.task[i].sum, 40000ull * 39999 / 2);
  }
}

static void test_none(void **state) {
  (void)state;
  Arena *a = arena_new();
  jobs_run(jobs_new(a, 4));
  arena_free(a);
}

static void test_failure(void **state) {
  (void)state;
  for (int threads = 1; threads <= MOST_THREADS; threads++)
    for (int bad = 0; bad < ROOTS; bad++) {
      Failure why;
      Run r = {.threads = threads, .bad = bad};
      assert_false(guard_run(run_tree, &r, &why));
      assert_true(why.internal);
      assert_non_null(strstr(why.text, "sum 0"));
    }
}

// Every allocation fails once, in the caller or in a job.
static void test_memory(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    Run r = {.threads = threads, .bad = -1};
    for (int n = 1; !r.done; n++) {
      Failure why;
      mem_fail_at(n);
      bool good = guard_run(run_tree, &r, &why);
      mem_fail_at(0);
      assert_int_equal(good, r.done);
      if (!good) assert_non_null(strstr(why.text, "out of memory"));
      arena_drop_spares(); // so that the next run allocates again
    }
  }
}

// -- names ----------------------------------------------------------------------------------------

typedef struct Namer {
  const Intern *below;
  const char *old;
  Arena *arena;
  Job job;
  bool good;
} Namer;

static void name(void *namer) {
  Namer *n = namer;
  Intern *own = intern_over(n->arena, n->below);
  char text[16];
  n->good = intern(own, "old") == n->old;
  for (int i = 0; i < 1000; i++) {
    snprintf(text, sizeof text, "new%d", i % 500);
    const char *x = intern(own, text);
    n->good &= !strcmp(x, text) && intern(own, text) == x;
  }
}

// Jobs may add names over a table that has those of all.
static void test_names(void **state) {
  (void)state;
  Arena *a = arena_new();
  Intern *below = intern_new(a);
  Namer n[4];
  Jobs *jobs = jobs_new(a, 4);
  const char *old = intern(below, "old");
  for (size_t i = 0; i < countof(n); i++) {
    n[i] = (Namer){below, old, arena_new(), {.work = name, .context = &n[i]}, false};
    jobs_add(jobs, &n[i].job);
  }
  jobs_run(jobs);
  for (size_t i = 0; i < countof(n); i++) {
    assert_true(n[i].good);
    arena_free(n[i].arena);
  }
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_runs), cmocka_unit_test(test_none),
      cmocka_unit_test(test_failure),   cmocka_unit_test(test_memory),
      cmocka_unit_test(test_names),
  };
  alarm(300); // instead of a test that waits forever
  return cmocka_run_group_tests(tests, NULL, NULL);
}
