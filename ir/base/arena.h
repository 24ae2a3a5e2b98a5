// Bump arenas: all memory of an arena is released at once, so that an early return needs no
// cleanup.
#ifndef IR_ARENA_H
#define IR_ARENA_H

#include <stdarg.h>

#include "ir/base/mem.h"

typedef struct Arena Arena;

// Returns an empty arena. The caller owns it and releases it with arena_free. Thread rule: one user
// at a time.
Arena *arena_new(void);
void arena_free(Arena *a);
// Gives all memory of `from` to `a`, which frees it with its own, and frees `from`.
void arena_join(Arena *a, Arena *from);
// Gives `child` to `a`, which frees it with its own memory. `child` may still be used, for graphs
// and tables that lie in it and grow; arena_bytes(a) does not count what it takes from now on.
// Thread rule: one user of both at a time.
void arena_adopt(Arena *a, Arena *child);
// Keeps the arena alive after a failure that jumps back to guard_run (ir/base/guard.h). Without
// this call the failure frees the arena.
void arena_keep(Arena *a);

// Returns `bytes` zeroed bytes aligned to 16. Never returns NULL: without memory it calls the
// handler of ir/base/mem.h.
void *arena_alloc(Arena *a, size_t bytes);
void *arena_alloc_raw(Arena *a, size_t bytes); // like arena_alloc, but the bytes are not zeroed

// Releases one large allocation of the arena (2 MiB or more), which begins at `at`, before the
// arena is freed or reset. Nobody may read it any more: its memory is kept for later allocations,
// or given back to the system. Does nothing for NULL, and for smaller allocations, which lie in
// blocks.
void arena_release(Arena *a, const void *at);

// A point in the history of an arena. arena_reset(a, mark) releases everything that was allocated
// after the mark. The address sanitizer then reports accesses to these bytes.
typedef struct ArenaMark {
  void *block;
  size_t used;
} ArenaMark;
ArenaMark arena_mark(const Arena *a);
void arena_reset(Arena *a, ArenaMark mark);

// Gives the memory that is kept for later allocations back to the system. Thread rule: any thread.
void arena_drop_spares(void);

// Returns the bytes that the arena has allocated from the system.
size_t arena_bytes(const Arena *a);

// Returns a copy of n bytes in the arena.
void *arena_copy(Arena *a, const void *bytes, size_t n);
// Returns a copy of n characters, with a final NUL.
char *arena_text(Arena *a, const char *text, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

#define arena_new_of(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

// Growable arrays in an arena: VEC(int) v = {0}; vec_push(a, v) = 7;
#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    uint32_t n, cap;                                                                               \
  }
#define vec_push(a, v)                                                                             \
  (*(((v).n == (v).cap ? ((v).at = vec_grow((a), (v).at, (v).n, &(v).cap, sizeof *(v).at))         \
                       : (v).at),                                                                  \
     &(v).at[(v).n++]))
// Doubles the capacity *cap of an array of n elements and returns its new address. The array is
// extended in place or copied. The old copy must not be read: if it is large, it is released.
void *vec_grow(Arena *a, const void *at, uint32_t n, uint32_t *cap, size_t element);

#endif
