// Cores and memory that this process may use: affinity mask, limits of control groups, free memory.
#define _GNU_SOURCE
#include "runtime/runtime_internal.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

// Returns the number of cores that the control groups allow, 0 if they do not limit it. They are
// read once.
static int cores_by_quota(void) {
  static _Atomic int known; // the number + 1
  if (!known) known = cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup") + 1;
  return known - 1;
}

int cores_available(void) {
  cpu_set_t set;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
  int quota = cores_by_quota();
  if (quota > 0 && quota < n) n = quota;
  return n < 1 ? 1 : n;
}

int64_t memory_free_bytes(void) {
  int64_t bytes = INT64_MAX;
  FILE *f = mem_fopen("/proc/meminfo", "r");
  char line[256];
  long long kib;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) bytes = (int64_t)kib * 1024;
  if (f) fclose(f);
  int64_t left = cgroup_memory("/proc/self/cgroup", "/sys/fs/cgroup");
  return left < bytes ? left : bytes;
}
