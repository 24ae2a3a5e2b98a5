// The host's processor, without LLVM.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "codegen/codegen.h"

// Returns the bits of the widest vectors that the processor computes fast: 512, 256 or 128.
int host_bits(void);
// Returns the bits of a vector under these options.
static inline int code_bits(const CodeOptions *opt) {
  return opt->width ? opt->width : host_bits();
}
// Returns a text of the model and the features of the processor, in a. Machine code may be shared
// between hosts with equal texts only.
const char *host_identity(Arena *a);

#endif
