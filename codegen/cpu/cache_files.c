// The folder of the compile cache: lists entries, removes the oldest when it grows too large,
// removes all on request.
#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"
#include "ir/base/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_entry(const char *name) {
  size_t n = strlen(name);
  return n == 2 * HASH_BYTES + 2 && strcmp(name + n - 2, ".o") == 0 &&
         strspn(name, "0123456789abcdef") == n - 2;
}

// Returns whether `name` is that of an unfinished file, which a process left when it died:
// "KEY.o.partial", or ".KEY.o.PID" of older versions of meshc.
static bool is_aside(const char *name) {
  size_t n = strspn(name + (name[0] == '.'), "0123456789abcdef");
  return n == 2 * HASH_BYTES && strncmp(name + (name[0] == '.') + n, ".o.", 3) == 0;
}

static int by_age(const void *a, const void *b) {
  const CacheEntry *x = a, *y = b;
  return (x->used > y->used) - (x->used < y->used);
}

CacheFolder cache_list(Arena *a, const char *dir) {
  CacheFolder out = {.limit = cache_limit()};
  VEC(CacheEntry) entries = {0};
  DIR *folder = mem_opendir(dir);
  struct stat s;
  for (const struct dirent *e; folder && (e = readdir(folder));) {
    if (!is_entry(e->d_name) || fstatat(dirfd(folder), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    vec_push(a, entries) =
        (CacheEntry){arena_text(a, e->d_name, 2 * HASH_BYTES), s.st_size, s.st_mtime};
    out.bytes += s.st_size;
  }
  if (folder) out.refused = fstat(dirfd(folder), &s) != 0 || !cache_is_ours(&s);
  if (folder) closedir(folder);
  if (entries.n) qsort(entries.at, entries.n, sizeof *entries.at, by_age);
  out.n = entries.n;
  out.entry = entries.at;
  return out;
}

int64_t cache_limit(void) {
  const char *text = getenv("MESHC_CACHE_MIB");
  char *end;
  long long n = text ? strtoll(text, &end, 10) : -1;
  return (n >= 0 && n < 1 << 30 && !*end ? n : 512) << 20;
}

void cache_shrink(const char *dir) {
  Arena *a = arena_new();
  CacheFolder all = cache_list(a, dir);
  int folder = all.bytes > all.limit ? disk_folder(dir) : -1;
  for (uint32_t i = 0; i < all.n && folder >= 0 && all.bytes > all.limit; i++) {
    (void)disk_remove(folder, arena_printf(a, "%s.o", all.entry[i].key));
    all.bytes -= all.entry[i].bytes;
  }
  if (folder >= 0) close(folder);
  arena_free(a);
}

uint32_t cache_clear(const char *dir) {
  uint32_t n = 0;
  DIR *folder = mem_opendir(dir);
  for (const struct dirent *e; folder && (e = readdir(folder));)
    if ((is_entry(e->d_name) || is_aside(e->d_name)) && disk_remove(dirfd(folder), e->d_name)) n++;
  if (folder) closedir(folder);
  return n;
}
