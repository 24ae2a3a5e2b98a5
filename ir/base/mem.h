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

// The functions mem_... return memory that the caller releases with free. The function of the C
// library that each replaces is named behind it.
void *mem_alloc(size_t bytes);                     // malloc; also returns a block for 0 bytes
void *mem_zeroed(size_t n, size_t size);           // calloc
void *mem_grow(void *p, size_t bytes);             // realloc
void *mem_aligned(size_t alignment, size_t bytes); // aligned_alloc
char *mem_text(const char *text);                  // strdup
char *mem_text_n(const char *text, size_t n);      // strndup

// Call fopen and opendir. If these fail for lack of memory, the failure is handled as mem_exhausted
// does. For every other error they return NULL with errno.
FILE *mem_fopen(const char *path, const char *mode);
DIR *mem_opendir(const char *path);
// Calls mem_exhausted if errno, after a failed call of the C library, is ENOMEM.
void mem_check_errno(void);

// Opens a stream whose text is kept in memory. mem_stream_close sets *text and *n; the caller frees
// *text. Unlike open_memstream it reports when memory is exhausted, and does not lose data.
FILE *mem_stream(char **text, size_t *n);
void mem_stream_close(FILE *f);

// Handles a failed allocation: jumps back to the innermost guard_run of the thread
// (ir/base/guard.h), or calls the handler. `bytes` is the size requested, or 0 if it is not known.
_Noreturn void mem_exhausted(size_t bytes);
typedef void MemHandler(size_t bytes); // does not return
void mem_set_handler(MemHandler *handler);
// Makes allocation number n of the process, counted from now, fail. 0: none fails. For tests.
void mem_fail_at(long n);
// Prints "out of memory" and what the thread was doing (ir/base/abrupt.h). Handlers call it;
// mem_exhausted calls it if there is no handler.
void mem_say_exhausted(size_t bytes);

// mem_doing sets what this thread is doing, such as "reading" and "x.npz", for the message of a
// failed allocation. It returns the previous setting, for mem_doing_restore. For a thread without a
// setting the message uses that of the first thread that called mem_doing. Both texts must live
// until the next call; name may be NULL.
typedef struct MemTask {
  const char *what, *name;
} MemTask;
MemTask mem_doing(const char *what, const char *name);
void mem_doing_restore(MemTask before);

#endif
