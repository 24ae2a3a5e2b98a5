// The host's processor, without LLVM.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "ir/base/arena.h"

// Returns the bits of the widest vectors that the processor computes fast: 512, 256 or 128.
int host_bits(void);
// Returns a text of the model and the features of the processor, in a. Machine code may be shared
// between hosts with equal texts only.
const char *host_identity(Arena *a);

#endif
