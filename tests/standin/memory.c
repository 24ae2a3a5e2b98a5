// Memory of the emulated GPU (memory.h).
#define _GNU_SOURCE // MAP_NORESERVE
#include "tests/standin/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/mem.h"
#include "tests/standin/fail.h"

// Allocations begin at multiples of 512 bytes, as those of a GPU do, and not at those of a page.
enum { PAGE = 4096, BEFORE = PAGE + 512, AFTER = PAGE, GUARD = 256, PATTERN = 0xfd };

struct Memory {
  size_t size, used;
  Allocation **allocation; // sorted by address
  size_t n, room;
  uint32_t numbers;
};

Memory *memory_new(size_t size) {
  Memory *m = mem_zeroed(1, sizeof *m);
  m->size = size;
  return m;
}

void memory_free(Memory *m) {
  if (!m) return;
  for (size_t i = 0; i < m->n; i++) {
    Allocation *a = m->allocation[i];
    if (!a->freed) shadow_end(&a->shadow);
    munmap(a->map, a->mapped);
    clock_free(&a->users);
    free(a);
  }
  free(m->allocation);
  free(m);
}

size_t memory_size(const Memory *m) { return m->size; }
size_t memory_left(const Memory *m) { return m->size - m->used; }

// -- allocating ---------------------------------------------------------------------------------

// Returns the number of allocations that begin at or below `at`.
static size_t begin_below(const Memory *m, const char *at) {
  size_t low = 0, high = m->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (m->allocation[middle]->map <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void insert(Memory *m, Allocation *a) {
  if (m->n == m->room) {
    m->room = 2 * m->room + 16;
    m->allocation = mem_grow(m->allocation, m->room * sizeof *m->allocation);
  }
  size_t at = begin_below(m, a->map);
  memmove(m->allocation + at + 1, m->allocation + at, (m->n - at) * sizeof *m->allocation);
  m->allocation[at] = a;
  m->n++;
}

char *memory_allocate(Memory *m, size_t bytes) {
  if (bytes > m->size - m->used) return NULL;
  size_t mapped = (BEFORE + bytes + AFTER + PAGE - 1) / PAGE * PAGE;
  char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return NULL;
  Allocation *a = mem_zeroed(1, sizeof *a);
  *a = (Allocation){.map = map, .mapped = mapped, .number = ++m->numbers};
  shadow_begin(&a->shadow, map + BEFORE, bytes, true);
  memset(a->shadow.from - GUARD, PATTERN, GUARD);
  memset(a->shadow.from + bytes, PATTERN, GUARD);
  insert(m, a);
  m->used += bytes;
  return a->shadow.from;
}

// -- freeing ------------------------------------------------------------------------------------

Allocation *memory_find(const Memory *m, const char *at) {
  size_t n = begin_below(m, at);
  if (n == 0) return NULL;
  Allocation *a = m->allocation[n - 1];
  return at >= a->shadow.from && at < a->shadow.from + a->shadow.bytes ? a : NULL;
}

static bool is_pattern(const char *at) {
  for (int i = 0; i < GUARD; i++)
    if ((unsigned char)at[i] != PATTERN) return false;
  return true;
}

static void check_guard(const Allocation *a) {
  const char *from = a->shadow.from;
  const char *wrong = !is_pattern(from - GUARD)             ? "before"
                      : !is_pattern(from + a->shadow.bytes) ? "behind"
                                                            : NULL;
  if (wrong)
    standin_fail(
        "something wrote %s allocation %u of %llu bytes at %p, and did not tell its access", wrong,
        a->number, (unsigned long long)a->shadow.bytes, (const void *)from);
}

void memory_check_guards(const Memory *m) {
  for (size_t i = 0; i < m->n; i++)
    if (!m->allocation[i]->freed) check_guard(m->allocation[i]);
}

void memory_open(const Memory *m, bool open) {
  for (size_t i = 0; i < m->n; i++)
    if (!m->allocation[i]->freed)
      mprotect(m->allocation[i]->map, m->allocation[i]->mapped,
               open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void check_release(const Memory *m, const Allocation *a, const char *at, const Clock *host) {
  char text[400];
  if (!a || a->shadow.from != at) {
    memory_explain(m, at, text, sizeof text);
    standin_fail("cuMemFree of %p, which begins no allocation: %s", (const void *)at, text);
  }
  if (a->freed)
    standin_fail("cuMemFree frees allocation %u of %llu bytes at %p a second time", a->number,
                 (unsigned long long)a->shadow.bytes, (const void *)at);
  for (uint32_t lane = 0; lane < a->users.n && host; lane++)
    if (!clock_covers(host, lane, a->users.at[lane]))
      standin_fail("cuMemFree frees allocation %u of %llu bytes at %p, which operations use that "
                   "the host has not waited for: synchronise their stream before",
                   a->number, (unsigned long long)a->shadow.bytes, (const void *)at);
  check_guard(a);
}

void memory_release(Memory *m, const char *at, const Clock *host) {
  Allocation *a = memory_find(m, at);
  check_release(m, a, at, host);
  m->used -= a->shadow.bytes;
  size_t bytes = a->shadow.bytes;
  char *from = a->shadow.from;
  shadow_end(&a->shadow);
  a->shadow.from = from; // for memory_find
  a->shadow.bytes = bytes;
  a->freed = true;
  // the addresses stay taken, the memory does not
  void *map = mmap(a->map, a->mapped, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (map == MAP_FAILED) BUG("mmap over an own mapping fails");
}

// -- messages -----------------------------------------------------------------------------------

static void explain_in(const Allocation *a, const char *at, char *text, size_t n) {
  long long offset = at - a->shadow.from, bytes = (long long)a->shadow.bytes;
  char where[100];
  if (offset < 0)
    snprintf(where, sizeof where, "%lld bytes before", -offset);
  else if (offset < bytes)
    snprintf(where, sizeof where, "byte %lld of", offset);
  else
    snprintf(where, sizeof where, "%lld bytes behind the end of", offset - bytes);
  snprintf(text, n, "that is %s allocation %u of %lld bytes at %p%s", where, a->number, bytes,
           (void *)a->shadow.from, a->freed ? ", which is freed" : "");
}

void memory_explain(const Memory *m, const char *at, char *text, size_t n) {
  size_t below = begin_below(m, at);
  const Allocation *a = below ? m->allocation[below - 1] : NULL;
  if (a && (size_t)(at - a->map) < a->mapped + (1 << 20))
    explain_in(a, at, text, n);
  else
    snprintf(text, n, "no allocation of the GPU is near; an address of the host, or none at all");
}

uint32_t memory_leaks(const Memory *m, char *text, size_t n) {
  uint32_t leaks = 0;
  size_t used = 0;
  if (n) text[0] = 0;
  for (size_t i = 0; i < m->n; i++) {
    const Allocation *a = m->allocation[i];
    if (a->freed) continue;
    if (leaks++ < 5 && used < n)
      used +=
          (size_t)snprintf(text + used, n - used, "%sallocation %u of %llu bytes",
                           leaks > 1 ? ", " : "", a->number, (unsigned long long)a->shadow.bytes);
  }
  return leaks;
}
