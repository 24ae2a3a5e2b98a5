// The host's processor, without LLVM.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "ir/base/arena.h"

// Bits of the widest vectors that pay: 512, 256 or 128.
int host_bits(void);
// A text of model and features. Machine code may be shared between hosts with equal texts only.
const char *host_identity(Arena *a);

#endif
