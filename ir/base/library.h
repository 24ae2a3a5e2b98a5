// Shared libraries that the program opens at run time.
#ifndef IR_LIBRARY_H
#define IR_LIBRARY_H

#include "ir/base/base.h"

// Opens a library as dlopen does. Returns NULL with dlerror if the library is missing or damaged.
// Calls mem_exhausted if memory is missing, also if the library's constructors crash or exit for
// that reason. `room` is the number of bytes that loading needs: as a test they are allocated and
// released before, because constructors of libraries check few of their allocations. Thread rule:
// any thread, one library at a time.
void *library_open(const char *path, int flags, size_t room);

#endif
