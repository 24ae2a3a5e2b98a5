// Private to the room: what is known of the host's processor without LLVM.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "ir/base/arena.h"

// Bits of the widest vectors worth using: 512, 256 or 128.
int host_bits(void);
// Text that differs whenever machine code made on one host might not run on another: model and
// features.
const char *host_identity(Arena *a);

#endif
