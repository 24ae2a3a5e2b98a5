// Shared libraries that the program opens at run time.
#ifndef IR_LIBRARY_H
#define IR_LIBRARY_H

#include "ir/base/base.h"

// Opens a library as dlopen does. Returns NULL, with a text for dlerror, if the library is missing
// or damaged. Calls mem_exhausted if memory is missing, or if constructors of the library crash or
// exit for that reason. `room` is the number of bytes that loading needs, or 0. It is allocated and
// released first, because constructors check few of their allocations. Thread rule: any thread;
// calls wait for each other.
void *library_open(const char *path, int flags, size_t room);

#endif
