// Shared libraries that the program opens while it runs.
#ifndef IR_LIBRARY_H
#define IR_LIBRARY_H

#include "ir/base/base.h"

// dlopen. NULL with dlerror where the library is missing or damaged. Where memory is missing it
// ends in mem_exhausted, also when the library's constructors crash or exit for that reason.
// `room`: bytes that loading it needs; they are taken and released first, so that the constructors,
// which check little, are not called without them. Thread rule: any thread, one library at a time.
void *library_open(const char *path, int flags, size_t room);

#endif
