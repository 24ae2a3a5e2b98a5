// Private to the room: everything of meshc that calls LLVM's target side. emit_internal.h builds
// the IR.
#ifndef CODEGEN_LLVM_H
#define CODEGEN_LLVM_H

#include "codegen/fuse/kernel.h"

// Bytes on the heap, freed by the caller with free(at); at[n] is 0.
typedef struct Bytes {
  char *at;
  size_t n;
} Bytes;

typedef enum LlvmForm { LLVM_OBJECT, LLVM_ASSEMBLY, LLVM_IR } LlvmForm;
enum { LLVM_WHY = 400 };

bool llvm_available(void);
const char *llvm_version(void); // "LLVM 19.1.7" or "none"
const char *llvm_cpu(void);     // LLVM's name of the host's processor, or "none"

typedef struct LlvmTarget {
  int bits, opt;       // of vectors; 0..3
  const char *without; // as in CodeOptions
} LlvmTarget;

// One module of n kernels under the given symbols, for the host. False with the reason in
// why[0..LLVM_WHY). Any thread: contexts are not shared.
MUST_USE bool llvm_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                           const LlvmTarget *target, LlvmForm form, Bytes *out, char *why);

#endif
