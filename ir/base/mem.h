// Memory outside arenas, and the one place where every failed allocation ends.
//
// These functions never return NULL. Under a guard (ir/base/guard.h) a failed allocation returns to
// that; else it calls the handler, which does not return. The program's handler
// (frontend/driver/out_of_memory.c) says the message, removes unfinished files, tells other ranks
// and exits with 7.
// Thread rule: any thread.
#ifndef IR_MEM_H
#define IR_MEM_H

#include <dirent.h>
#include <stdio.h>

#include "ir/base/base.h"

// Results are released with free.
void *mem_alloc(size_t bytes);                     // malloc; 0 bytes give a block, too
void *mem_zeroed(size_t n, size_t size);           // calloc
void *mem_grow(void *p, size_t bytes);             // realloc
void *mem_aligned(size_t alignment, size_t bytes); // aligned_alloc
char *mem_text(const char *text);                  // strdup
char *mem_text_n(const char *text, size_t n);      // strndup

// fopen and opendir, whose own allocations count as ours; NULL for every other reason, with errno.
FILE *mem_fopen(const char *path, const char *mode);
DIR *mem_opendir(const char *path);
// Calls the handler if a call of the C library that has just failed says ENOMEM.
void mem_check_errno(void);

// A stream into memory, as of open_memstream, which loses what it cannot store without a sign.
// *text and *n are set by mem_stream_close; the caller frees *text.
FILE *mem_stream(char **text, size_t *n);
void mem_stream_close(FILE *f);

// The failure path. `bytes`: the size asked for, 0 if not known.
_Noreturn void mem_exhausted(size_t bytes);
typedef void MemHandler(size_t bytes); // does not return
void mem_set_handler(MemHandler *handler);
// For tests: the n-th allocation of the process from here on fails. 0: none does.
void mem_fail_at(long n);
// Without a handler, and what a handler may use: says "out of memory" with what was under way
// (ir/base/abrupt.h).
void mem_say_exhausted(size_t bytes);

// What this thread is doing, for the message: "reading", "x.npz". Returns what it did before, for
// mem_doing_restore. A thread that has not said anything is taken to help with what the process
// does, set by its first thread. Both texts must outlive the work; name may be NULL.
typedef struct MemTask {
  const char *what, *name;
} MemTask;
MemTask mem_doing(const char *what, const char *name);
void mem_doing_restore(MemTask before);

#endif
