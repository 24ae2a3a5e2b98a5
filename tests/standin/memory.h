// Memory of the emulated GPU, which is memory of this process. Each allocation has guard bytes
// around it and a shadow (tests/standin/shadow.h), and is filled with 0xff (a NaN in every type
// of number) as it is touched. Freed memory stays reserved, so that an access to it is known.
#ifndef TESTS_STANDIN_MEMORY_H
#define TESTS_STANDIN_MEMORY_H

#include "tests/standin/order.h"

typedef struct Allocation {
  Shadow shadow; // from, bytes
  char *map;     // with the guards
  size_t mapped;
  uint32_t number; // in the order of allocation, from 1
  bool freed;
  Clock users; // operations that accessed it
} Allocation;

typedef struct Memory Memory;

// `size`: bytes of the GPU's memory.
Memory *memory_new(size_t size);
void memory_free(Memory *m);
// Returns NULL if the GPU has not as many bytes left.
char *memory_allocate(Memory *m, size_t bytes);
// Frees the allocation that begins at `at`. All operations that used it must be covered by the
// clock of the host, unless it is NULL. Everything else ends the process.
void memory_release(Memory *m, const char *at, const Clock *host);
size_t memory_size(const Memory *m);
size_t memory_left(const Memory *m);
// Returns the allocation that `at` lies in, which may be freed, or NULL.
Allocation *memory_find(const Memory *m, const char *at);
// Writes to text[0..n) what `at` is: where in which allocation, behind which one, freed.
void memory_explain(const Memory *m, const char *at, char *text, size_t n);
// Lets the processor access the allocations, or faults at such an access.
void memory_open(const Memory *m, bool open);
// Ends the process if guard bytes around an allocation have changed.
void memory_check_guards(const Memory *m);
// Writes to text[0..n) the allocations that are not freed; returns their number.
uint32_t memory_leaks(const Memory *m, char *text, size_t n);

#endif
