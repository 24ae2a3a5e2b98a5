// Tests the limits of control groups: both versions, groups within groups, none, and paths of a
// host.
#include "runtime/runtime_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64], groups[128];

// Writes a file below the root, with the folders that its name needs.
static void put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = '\0';
    (void)mkdir(path, 0700);
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void in_groups(const char *text) {
  put("groups", text);
  snprintf(groups, sizeof groups, "%s/groups", root);
}

static int set_up(void **state) {
  (void)state;
  return mkdtemp(strcpy(root, "/tmp/meshc-cgroup-XXXXXX")) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

// 1000 bytes, of which 300 are in use that cannot be given up; the group above has 650 left.
static void second_version(void **state) {
  (void)state;
  in_groups("0::/jobs/7\n");
  put("jobs/7/memory.max", "1000\n");
  put("jobs/7/memory.current", "400\n");
  put("jobs/7/memory.stat", "anon 300\ninactive_file 100\nactive_file 7\n");
  assert_int_equal(cgroup_memory(groups, root), 700);
  put("jobs/memory.max", "2000\n");
  put("jobs/memory.current", "1350\n");
  assert_int_equal(cgroup_memory(groups, root), 650);
  put("jobs/memory.max", "max\n");
  assert_int_equal(cgroup_memory(groups, root), 700);
  put("memory.max", "90\n");
  put("memory.current", "100\n");
  assert_int_equal(cgroup_memory(groups, root), 0);
  put("jobs/7/cpu.max", "max 100000\n");
  assert_int_equal(cgroup_cores(groups, root), 0);
  put("jobs/cpu.max", "250000 100000\n");
  assert_int_equal(cgroup_cores(groups, root), 3);
}

static void first_version(void **state) {
  (void)state;
  in_groups("5:cpuset:/\n4:memory:/batch/job\n3:cpu,cpuacct:/batch\n0::/\n");
  put("memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
  put("memory/memory.usage_in_bytes", "5\n");
  assert_true(cgroup_memory(groups, root) == INT64_MAX);
  put("memory/batch/job/memory.limit_in_bytes", "5000\n");
  put("memory/batch/job/memory.usage_in_bytes", "1000\n");
  put("memory/batch/job/memory.stat", "cache 900\ninactive_file 1\ntotal_inactive_file 600\n");
  assert_int_equal(cgroup_memory(groups, root), 4600);
  put("cpu,cpuacct/batch/cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  assert_int_equal(cgroup_cores(groups, root), 0);
  put("cpu,cpuacct/batch/cpu.cfs_quota_us", "200000\n");
  assert_int_equal(cgroup_cores(groups, root), 2);
}

// In a container the path is that of the host, and the files are those of the root.
static void container(void **state) {
  (void)state;
  in_groups("7:memory:/docker/0123abcd\n0::/docker/0123abcd\n");
  put("memory/memory.limit_in_bytes", "3000\n");
  put("memory/memory.usage_in_bytes", "1000\n");
  assert_int_equal(cgroup_memory(groups, root), 2000);
  assert_true(cgroup_memory("/nonexistent", root) == INT64_MAX);
  in_groups("no line of that kind\n");
  assert_true(cgroup_memory(groups, root) == INT64_MAX);
  assert_int_equal(cgroup_cores(groups, root), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(second_version, set_up, tear_down),
      cmocka_unit_test_setup_teardown(first_version, set_up, tear_down),
      cmocka_unit_test_setup_teardown(container, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
