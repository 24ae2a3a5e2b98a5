// The processors for which code is generated, and the width of its vectors.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "codegen/codegen.h"
#include "ir/base/host.h"

// A level of CPUs: what LLVM and the emitter must know of it.
typedef struct CodeLevel {
  const char *name;
  const char *registers; // the part "X86" of LLVMInitializeX86Target and the like
  const char *triple, *cpu;
  int bits;      // of a vector
  bool fma, f16; // as in EmitTarget
} CodeLevel;
// Returns the level of that name, or NULL. NULL has none.
const CodeLevel *code_level(const char *name);

// Returns the bits of a vector in code for these options: those of the level that they name, the
// width that they set or, if it is 0, MESHC_WIDTH of the environment or, without that, host_bits().
int code_bits(const CodeOptions *opt);

#endif
