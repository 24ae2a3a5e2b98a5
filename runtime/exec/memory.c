// Memory of processors and workers: mapped in huge pages where it is large, and touched before the
// first step.
#define _GNU_SOURCE
#include "runtime/exec/exec_internal.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum {
  HUGE_PAGE = 2 << 20,
  TOUCHED = 4 << 20 // bytes that a worker touches at a time
};

// Returns the bytes to map for a memory of n bytes. This is at least a page, so that even an empty
// memory has an address, and for a large memory a multiple of the huge page.
static size_t map_bytes(int64_t n) {
  int64_t unit = n >= 2 * HUGE_PAGE ? HUGE_PAGE : 4096;
  return (size_t)(ceil_div(n > 0 ? n : 1, unit) * unit);
}

static void *map_aligned(size_t n, size_t align) {
  char *at = mmap(NULL, n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  size_t before = (align - (uintptr_t)at % align) % align;
  if (before) munmap(at, before);
  if (align > before) munmap(at + before + n, align - before);
  return at + before;
}

char *memory_map(int64_t bytes) {
  size_t n = map_bytes(bytes);
  char *at = map_aligned(n, n >= HUGE_PAGE ? HUGE_PAGE : 4096);
  if (!at) return NULL;
#ifdef MADV_HUGEPAGE
  if (n >= HUGE_PAGE) madvise(at, n, MADV_HUGEPAGE);
#endif
  return at;
}

static void touch_pages(char *at, size_t n) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, n, MADV_POPULATE_WRITE) == 0) return;
#endif
  volatile char *byte = at;
  for (size_t i = 0; i < n; i += 4096) byte[i] = byte[i];
}

// Newly mapped memory whose pages the workers (threads) touch, so that steps cause no page faults.
// The system takes time to clear pages, and more for some than for others: `next` is the first
// byte that no worker has taken.
typedef struct Touch {
  char *at;
  size_t bytes;
  atomic_size_t next;
} Touch;

static void touch_memory(void *touch, int worker) {
  Touch *t = touch;
  (void)worker;
  for (size_t i; (i = atomic_fetch_add(&t->next, TOUCHED)) < t->bytes;)
    touch_pages(t->at + i, t->bytes - i < TOUCHED ? t->bytes - i : TOUCHED);
}

void memory_touch(Team *team, char *at, int64_t bytes) {
  Touch t = {.at = at, .bytes = at ? map_bytes(bytes) : 0};
  atomic_init(&t.next, 0);
  team_run(team, touch_memory, &t);
}

void memory_unmap(char *at, int64_t bytes) {
  if (at) munmap(at, map_bytes(bytes));
}
