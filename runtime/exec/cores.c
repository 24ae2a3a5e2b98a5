// Cores and memory that this process may use: affinity mask, cgroup quotas, free memory.
#define _GNU_SOURCE
#include "runtime/runtime_internal.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

// Returns the number of cores that the cgroup's quota (v2, then v1) allows, rounded up; 0 if there
// is no quota.
static int cores_by_quota(void) {
  long long quota = -1, period = 0;
  FILE *f = mem_fopen("/sys/fs/cgroup/cpu.max", "r");
  if (f) {
    if (fscanf(f, "%lld %lld", &quota, &period) != 2) quota = -1;
    fclose(f);
  } else {
    FILE *q = mem_fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
    FILE *p = mem_fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
    if (!q || !p || fscanf(q, "%lld", &quota) != 1 || fscanf(p, "%lld", &period) != 1) quota = -1;
    if (q) fclose(q);
    if (p) fclose(p);
  }
  if (quota <= 0 || period <= 0) return 0;
  return (int)clamp64(ceil_div(quota, period), 1, 4096);
}

int cores_available(void) {
  cpu_set_t set;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
  int quota = cores_by_quota();
  if (quota > 0 && quota < n) n = quota;
  return n < 1 ? 1 : n;
}

static int64_t number_in(const char *path) {
  long long n = -1;
  FILE *f = mem_fopen(path, "r");
  if (!f) return -1;
  if (fscanf(f, "%lld", &n) != 1) n = -1;
  fclose(f);
  return n;
}

int64_t memory_free_bytes(void) {
  int64_t bytes = INT64_MAX;
  FILE *f = mem_fopen("/proc/meminfo", "r");
  char line[256];
  long long kib;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) bytes = (int64_t)kib * 1024;
  if (f) fclose(f);
  int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0 && limit - used < bytes) bytes = limit > used ? limit - used : 0;
  return bytes;
}
