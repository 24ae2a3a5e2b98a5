// What the cache and the emitter must know of the host's processor, found without LLVM.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "codegen/codegen.h"

// Returns the name of the processor's model, such as "Intel(R) Xeon(R) Platinum 8481C". The text is
// in memory that the next call overwrites with the same text.
const char *host_name(void);
// Returns the bits of the widest vectors that the processor computes fast: 512, 256 or 128.
int host_bits(void);
// Returns the bits of a vector in code for these options: the width that they set or, if it is 0,
// MESHC_WIDTH of the environment or, without that, host_bits().
int code_bits(const CodeOptions *opt);
// Returns a text, allocated in arena a, that identifies the model and the features of the
// processor. Machine code may be shared between hosts only if their texts are equal.
const char *host_identity(Arena *a);

#endif
