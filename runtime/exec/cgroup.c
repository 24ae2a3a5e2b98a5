// Limits of the control groups of this process, of versions 1 and 2. A group is bound by the limits
// of all groups above it, too.
//
//   /proc/self/cgroup: "0::/jobs/7"       => <root>/jobs/7/memory.max, <root>/jobs/memory.max, <root>/memory.max
//                      "4:memory:/jobs/7" => <root>/memory/jobs/7/memory.limit_in_bytes, ...
//
// In a container the path may be that of the host, where this root lacks it: then only the root
// counts.
#include "runtime/runtime_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 4200 };

// Files of a controller that has a hierarchy of its own (version 1), and of version 2.
typedef struct MemoryFiles {
  const char *limit, *used, *cached; // `cached` is a name in memory.stat
} MemoryFiles;
static const MemoryFiles memory_files[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    {"memory.max", "memory.current", "inactive_file"},
};

// Lowers *least to the limit of the group `dir`, which has the files of version 2 (`second`) or 1.
typedef void Visit(const char *dir, bool second, int64_t *least);

static FILE *open_in(const char *dir, const char *name) {
  char path[PATH_BYTES];
  return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path ? mem_fopen(path, "r")
                                                                            : NULL;
}

// Returns the number with which the file begins, or -1: there is none, or it says "max".
static int64_t number_in(const char *dir, const char *name) {
  long long n = -1;
  FILE *f = open_in(dir, name);
  if (f && fscanf(f, "%lld", &n) != 1) n = -1;
  if (f) fclose(f);
  return n;
}

// Returns the bytes of files in memory that the kernel gives up before it ends a process.
static int64_t cached_in(const char *dir, const char *name) {
  char word[64];
  long long n, found = 0;
  FILE *f = open_in(dir, "memory.stat");
  while (f && fscanf(f, "%63s %lld", word, &n) == 2)
    if (strcmp(word, name) == 0) found = n;
  if (f) fclose(f);
  return found;
}

static void visit_memory(const char *dir, bool second, int64_t *least) {
  const MemoryFiles *names = &memory_files[second];
  int64_t limit = number_in(dir, names->limit), used = number_in(dir, names->used);
  if (limit <= 0 || used < 0 || limit >= INT64_MAX / 2) return; // version 1: no limit is 2^63
  used -= cached_in(dir, names->cached);
  int64_t left = limit > used ? limit - used : 0;
  if (left < *least) *least = left;
}

static void visit_cores(const char *dir, bool second, int64_t *least) {
  long long quota = -1, period = 0;
  if (second) {
    FILE *f = open_in(dir, "cpu.max");
    if (f && fscanf(f, "%lld %lld", &quota, &period) != 2) quota = -1;
    if (f) fclose(f);
  } else {
    quota = number_in(dir, "cpu.cfs_quota_us");
    period = number_in(dir, "cpu.cfs_period_us");
  }
  if (quota <= 0 || period <= 0) return;
  int64_t cores = clamp64(ceil_div(quota, period), 1, 4096);
  if (cores < *least) *least = cores;
}

// Visits the group `path` below `top`, and all groups above it up to `top`.
static void climb(const char *top, const char *path, bool second, Visit *visit, int64_t *least) {
  char dir[PATH_BYTES];
  size_t base = strlen(top);
  if (snprintf(dir, sizeof dir, "%s%s", top, path) >= (int)sizeof dir) return;
  for (char *end = dir + strlen(dir); end && end >= dir + base; end = strrchr(dir + base, '/')) {
    *end = '\0';
    visit(dir, second, least);
  }
}

// Returns whether the controller is in a list such as "cpu,cpuacct".
static bool lists(const char *list, const char *controller) {
  size_t n = strlen(controller);
  for (const char *at = list; (at = strstr(at, controller)); at += n)
    if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
  return false;
}

// Visits the groups of the controller in which the line "ID:CONTROLLERS:PATH" puts the process.
static void visit_line(char *line, const char *root, const char *controller, Visit *visit,
                       int64_t *least) {
  char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL, top[PATH_BYTES];
  if (!path) return;
  *path++ = '\0';
  path[strcspn(path, "\n")] = '\0';
  bool second = !list[1];
  if (!second && !lists(list + 1, controller)) return;
  if (snprintf(top, sizeof top, "%s%s%s", root, second ? "" : "/", list + 1) < (int)sizeof top)
    climb(top, path, second, visit, least);
}

static int64_t least_of(const char *groups, const char *root, const char *controller,
                        Visit *visit) {
  int64_t least = INT64_MAX;
  char line[LINE_BYTES];
  FILE *f = mem_fopen(groups, "r");
  while (f && fgets(line, sizeof line, f)) visit_line(line, root, controller, visit, &least);
  if (f) fclose(f);
  return least;
}

int64_t cgroup_memory(const char *groups, const char *root) {
  return least_of(groups, root, "memory", visit_memory);
}

int cgroup_cores(const char *groups, const char *root) {
  int64_t cores = least_of(groups, root, "cpu", visit_cores);
  return cores == INT64_MAX ? 0 : (int)cores;
}
