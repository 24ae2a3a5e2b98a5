// Memory outside arenas, and the one place that handles failed allocations.
//
// These functions never return NULL. Under a guard (ir/base/guard.h) a failed allocation returns to
// the guard. Otherwise it calls the handler, which does not return. The program's handler
// (frontend/driver/out_of_memory.c) prints the message, removes unfinished files, tells other ranks
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

// fopen and opendir; a failed allocation inside them is handled as one of ours. Return NULL with
// errno for every other error.
FILE *mem_fopen(const char *path, const char *mode);
DIR *mem_opendir(const char *path);
// Calls the handler if errno of a failed call of the C library is ENOMEM.
void mem_check_errno(void);

// Opens a stream into memory. Unlike open_memstream it does not lose data silently when memory is
// exhausted. mem_stream_close sets *text and *n; the caller frees *text.
FILE *mem_stream(char **text, size_t *n);
void mem_stream_close(FILE *f);

// Handles a failed allocation: returns to the guard or calls the handler. `bytes`: the size
// requested, 0 if not known.
_Noreturn void mem_exhausted(size_t bytes);
typedef void MemHandler(size_t bytes); // does not return
void mem_set_handler(MemHandler *handler);
// For tests: makes the n-th allocation of the process from now on fail. 0: none.
void mem_fail_at(long n);
// Prints "out of memory" and what the thread was doing (ir/base/abrupt.h). Used without a handler,
// and by handlers.
void mem_say_exhausted(size_t bytes);

// Sets what this thread is doing, for the message: "reading", "x.npz". Returns the previous
// setting, for mem_doing_restore. For a thread without a setting the message uses that of the first
// thread that called this function. Both texts must outlive the work; name may be NULL.
typedef struct MemTask {
  const char *what, *name;
} MemTask;
MemTask mem_doing(const char *what, const char *name);
void mem_doing_restore(MemTask before);

#endif
