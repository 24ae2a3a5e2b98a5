// What kernels and the files that keep them must know of this host's processor. It is found without
// LLVM, because to start LLVM takes longer than to load code from a file.
#ifndef IR_HOST_H
#define IR_HOST_H

#include "ir/base/arena.h"

// Returns the name of the processor's model, such as "Intel(R) Xeon(R) Platinum 8481C". The text is
// in memory that the next call overwrites with the same text.
const char *host_name(void);
// Returns the bits of the widest vectors that the processor computes fast: 512, 256 or 128.
int host_bits(void);
// Returns whether the processor has all instructions of a level of the x86-64 psABI ("x86-64-v3"),
// or is of the architecture "aarch64".
bool host_has_level(const char *level);
// Returns a text, allocated in arena a, that identifies the model and the features of the
// processor. Machine code may be shared between hosts only if their texts are equal.
const char *host_identity(Arena *a);

#endif
