// Bump arenas over a list of blocks.
//
// Small requests are taken from the newest block. A large request gets an allocation of its own,
// and a small header for it in the newest block. Both kinds are thus released in the reverse order
// of allocation. New memory is expensive mainly because of page faults. Blocks of full size
// therefore use huge pages where the system has them, and a few released blocks of each size and a
// few large allocations are kept for later arenas. An arena that holds much takes such a large
// allocation as a block: memory of the graph of an earlier pass serves the small requests of a
// later one. New memory comes zeroed from the system, and pages of it that nobody writes to cost
// nothing: a table may be made larger than it is likely to become.
#include "ir/base/arena.h"

#include "ir/base/guard.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#endif
#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif
// Under the sanitizer arrays begin with one element and move whenever they grow, so that it finds
// the pointers into them that are used after that.
#ifdef ARENA_POISONS
enum { FIRST_ELEMENTS = 1, EXTENDS = 0 };
#else
enum { FIRST_ELEMENTS = 8, EXTENDS = 1 };
#endif

enum {
  ALIGNMENT = 16,
  FIRST_BLOCK = 16 << 10,
  LAST_BLOCK = 4 << 20,
  LARGE = 2 << 20,
  HUGE_PAGE = 2 << 20,
  SIZES = 9,
  SPARES = 16,
  LARGE_SPARES = 8
};
_Static_assert(FIRST_BLOCK << (SIZES - 1) == LAST_BLOCK, "sizes of blocks double");

typedef struct Block Block;
struct Block {
  Block *below;
  void *base;  // what the C library allocated for the block
  size_t size; // bytes of `data`
  size_t used;
  size_t high; // number of bytes at the start of `data` that may not be zero
  _Alignas(ALIGNMENT) char data[];
};

// Header of a large allocation. The header lies in a block; the large allocation is released
// together with that part of the block.
typedef struct Large Large;
struct Large {
  Large *below;
  void *bytes; // NULL: released by arena_release
  void *base;  // what the C library allocated for it
  size_t size;
  Arena *child; // an arena that is freed with it (arena_adopt), or NULL
};

struct Arena {
  GuardLink guard; // must be the first member: guard.c casts its address to the arena
  Block *top;
  Large *large;
  size_t held;
};

static _Atomic(Block *) spare[SIZES][SPARES]; // released blocks, kept for reuse

// A released large allocation that is kept for reuse. This structure is at its start.
typedef struct SpareLarge {
  void *base;
  size_t size; // bytes of the allocation, of which this structure takes the first
} SpareLarge;
static _Atomic(SpareLarge *) spare_large[LARGE_SPARES];

// Returns k if a block of `bytes` bytes, with its header, has the size FIRST_BLOCK << k; SIZES if
// no k fits.
static int size_of(size_t bytes) {
  int size = 0;
  while (size < SIZES && (size_t)FIRST_BLOCK << size != bytes) size++;
  return size;
}

static Block *spare_take(int size) {
  Block *b = NULL;
  for (int i = 0; size < SIZES && i < SPARES && !b; i++) b = atomic_exchange(&spare[size][i], NULL);
  return b;
}

static bool spare_put(Block *b) {
  bool kept = false;
  int size = size_of(b->size + sizeof(Block));
  for (int i = 0; size < SIZES && i < SPARES && !kept; i++) {
    Block *none = NULL;
    kept = atomic_compare_exchange_strong(&spare[size][i], &none, b);
  }
  return kept;
}

// Keeps the large allocation of `size` bytes at `bytes` for reuse, or frees it.
static void large_put(void *bytes, void *base, size_t size) {
  bool kept = false;
  if (!bytes) return;
  *(SpareLarge *)bytes = (SpareLarge){.base = base, .size = size};
  for (int i = 0; i < LARGE_SPARES && !kept; i++) {
    SpareLarge *none = NULL;
    kept = atomic_compare_exchange_strong(&spare_large[i], &none, (SpareLarge *)bytes);
  }
  if (!kept) free(base);
}

// Returns a released large allocation of `least` to `most` bytes, or NULL.
static SpareLarge *large_take(size_t least, size_t most) {
  for (int i = 0; i < LARGE_SPARES; i++) {
    SpareLarge *x = atomic_exchange(&spare_large[i], NULL);
    if (x && least <= x->size && x->size <= most) return x;
    if (x) large_put(x, x->base, x->size);
  }
  return NULL;
}

void arena_drop_spares(void) {
  for (int i = 0; i < LARGE_SPARES; i++) {
    SpareLarge *x = atomic_exchange(&spare_large[i], NULL);
    if (x) free(x->base);
  }
  for (int size = 0; size < SIZES; size++)
    for (int i = 0; i < SPARES; i++) {
      Block *b = atomic_exchange(&spare[size][i], NULL);
      if (b) free(b->base);
    }
}

Arena *arena_new(void) {
  Arena *a = mem_zeroed(1, sizeof *a);
  guard_link(&a->guard);
  return a;
}

// Releases the large allocations whose headers are in block b at offset `from` or later.
static void drop_large(Arena *a, const Block *b, size_t from) {
  while (a->large && (const char *)a->large >= b->data + from &&
         (const char *)a->large < b->data + b->size) {
    Large *l = a->large;
    a->held -= l->size;
    a->large = l->below;
    large_put(l->bytes, l->base, l->size);
    arena_free(l->child);
  }
}

static void drop_top(Arena *a) {
  Block *b = a->top;
  size_t all = b->size + sizeof *b;
  drop_large(a, b, 0);
  a->top = b->below;
  a->held -= b->size;
  UNPOISON(b->data, b->size);
  if (all > LAST_BLOCK)
    large_put(b, b->base, all); // it was a large allocation (large_block)
  else if (!spare_put(b))
    free(b->base);
}

void arena_keep(Arena *a) { guard_unlink(&a->guard); }

void arena_free(Arena *a) {
  if (!a) return;
  guard_unlink(&a->guard);
  while (a->top) drop_top(a);
  free(a);
}

void arena_join(Arena *a, Arena *from) {
  Block **block = &a->top;
  Large **large = &a->large;
  while (*block) block = &(*block)->below;
  while (*large) large = &(*large)->below;
  *block = from->top;
  *large = from->large;
  a->held += from->held;
  from->top = NULL;
  arena_free(from);
}

// Allocates `bytes` bytes, zeroed or not, on huge pages where possible. *base gets the address to
// free. Zeroed memory that comes from the system is not written to.
static void *huge(size_t bytes, bool zeroed, void **base) {
  bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  *base = zeroed ? mem_zeroed(1, bytes + HUGE_PAGE) : mem_aligned(HUGE_PAGE, bytes);
  char *p = (char *)*base + (HUGE_PAGE - (uintptr_t)*base % HUGE_PAGE) % HUGE_PAGE;
#ifdef MADV_HUGEPAGE
  (void)madvise(p, bytes, MADV_HUGEPAGE); // only a hint: an error is ignored
#endif
  return p;
}

// Returns a released large allocation as a block of arena a, or NULL. At most doubles what a holds:
// a small arena takes no memory with which a pass could make its graph.
static Block *large_block(const Arena *a) {
  SpareLarge *x = large_take(LAST_BLOCK, a->held);
  if (!x) return NULL;
  Block *b = (Block *)(void *)x;
  void *base = x->base;
  size_t size = x->size - sizeof *b;
  *b = (Block){.base = base, .size = size, .high = size};
  return b;
}

// Returns a block of `all` bytes, new or released before, or a larger one.
static Block *block_for(const Arena *a, size_t all) {
  Block *b = spare_take(size_of(all));
  if (!b && all == LAST_BLOCK) b = large_block(a);
  if (b) return b;
  void *base;
  b = all == LAST_BLOCK ? huge(all, true, &base) : (base = mem_zeroed(1, all));
  *b = (Block){.base = base, .size = all - sizeof *b};
  return b;
}

static void push_block(Arena *a, size_t bytes) {
  size_t all = a->top ? 2 * (a->top->size + sizeof(Block)) : FIRST_BLOCK;
  if (all > LAST_BLOCK) all = LAST_BLOCK;
  while (all < bytes + sizeof(Block)) all *= 2;
  Block *b = block_for(a, all);
  b->below = a->top;
  b->used = 0;
  POISON(b->data, b->size);
  a->top = b;
  a->held += b->size;
}

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// Returns the next `bytes` bytes of the newest block. Sets *dirty to the number of bytes at their
// start that may not be zero.
static void *take(Arena *a, size_t bytes, size_t *dirty) {
  size_t room = rounded(bytes);
  if (!a->top || a->top->size - a->top->used < room) push_block(a, room);
  Block *b = a->top;
  char *p = b->data + b->used;
  UNPOISON(p, bytes);
  *dirty = b->high > b->used ? b->high - b->used : 0;
  b->used += room;
  if (b->used > b->high) b->high = b->used;
  return p;
}

static void *bump(Arena *a, size_t bytes) {
  size_t dirty;
  void *p = take(a, bytes, &dirty);
  if (dirty) memset(p, 0, dirty < bytes ? dirty : bytes);
  return p;
}

// Returns a large allocation, zeroed or not.
static void *large_alloc(Arena *a, size_t bytes, bool zeroed) {
  if (bytes > SIZE_MAX / 4) mem_exhausted(bytes);
  Large *l = bump(a, sizeof *l);
  SpareLarge *x = large_take(bytes, 2 * bytes + 1);
  l->base = x ? x->base : NULL;
  l->size = x ? x->size : bytes;
  l->bytes = x ? (void *)x : huge(bytes, zeroed, &l->base);
  if (x && zeroed) memset(l->bytes, 0, bytes);
  a->held += l->size;
  l->below = a->large;
  a->large = l;
  return l->bytes;
}

void arena_adopt(Arena *a, Arena *child) {
  Large *l = bump(a, sizeof *l);
  *l = (Large){.below = a->large, .size = child->held, .child = child};
  a->held += l->size;
  a->large = l;
  guard_unlink(&child->guard);
}

void *arena_alloc_raw(Arena *a, size_t bytes) {
  size_t dirty;
  if (bytes == 0) bytes = 1;
  return bytes < LARGE ? take(a, bytes, &dirty) : large_alloc(a, bytes, false);
}

void *arena_alloc(Arena *a, size_t bytes) {
  if (bytes == 0) bytes = 1;
  return bytes < LARGE ? bump(a, bytes) : large_alloc(a, bytes, true);
}

void arena_release(Arena *a, const void *at) {
  Large *l = a->large;
  while (l && (!at || l->bytes != at)) l = l->below;
  if (!l) return;
  a->held -= l->size;
  large_put(l->bytes, l->base, l->size);
  l->bytes = l->base = NULL;
  l->size = 0;
}

size_t arena_bytes(const Arena *a) { return a->held; }

ArenaMark arena_mark(const Arena *a) {
  return (ArenaMark){.block = a->top, .used = a->top ? a->top->used : 0};
}

void arena_reset(Arena *a, ArenaMark mark) {
  while (a->top && a->top != mark.block && (mark.block || a->top->below))
    drop_top(a); // the first block of an arena is kept
  if (!a->top) return;
  drop_large(a, a->top, mark.used);
  POISON(a->top->data + mark.used, a->top->size - mark.used);
  a->top->used = mark.used;
}

void *arena_copy(Arena *a, const void *bytes, size_t n) {
  void *p = arena_alloc_raw(a, n);
  if (n) memcpy(p, bytes, n);
  return p;
}

char *arena_text(Arena *a, const char *text, size_t n) {
  char *p = arena_alloc_raw(a, n + 1);
  if (n) memcpy(p, text, n);
  p[n] = 0;
  return p;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
  char small[128];
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  if (n < 0) BUG("bad format");
  char *p = arena_alloc_raw(a, (size_t)n + 1);
  if ((size_t)n < sizeof small)
    memcpy(p, small, (size_t)n + 1);
  else
    vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *p = arena_vprintf(a, fmt, ap);
  va_end(ap);
  return p;
}

// Extends the newest allocation, `at` with `old` bytes, to `bytes` bytes in place. Returns NULL if
// that is not possible.
static char *extend(Arena *a, const void *at, size_t old, size_t bytes) {
  Block *b = a->top;
  size_t had = rounded(old);
  if (!b || b->used < had || at != b->data + b->used - had) return NULL;
  char *p = b->data + b->used - had;
  if (bytes >= LARGE || b->size - b->used < rounded(bytes) - had) return NULL;
  UNPOISON(p, had);
  memset(p + old, 0, had - old);
  bump(a, rounded(bytes) - had);
  return p;
}

void *vec_grow(Arena *a, const void *at, uint32_t n, uint32_t *cap, size_t element) {
  if (*cap > UINT32_MAX / 2) mem_exhausted((size_t)*cap * 2 * element);
  size_t old = element * *cap;
  *cap = *cap ? *cap * 2 : FIRST_ELEMENTS;
  char *same = EXTENDS && old ? extend(a, at, old, element * *cap) : NULL;
  if (same) return same;
  void *p = arena_alloc(a, element * *cap);
  if (n) memcpy(p, at, element * n);
  if (old >= LARGE)
    arena_release(a, at); // its memory serves what grows next
  else if (old)
    POISON(at, old);
  return p;
}
