// Compilation by LLVM: kernels to an object, assembly or IR text. Only llvm.c calls the parts of
// LLVM behind this interface; the emitter (emit_internal.h) builds the IR.
#ifndef CODEGEN_LLVM_H
#define CODEGEN_LLVM_H

#include "codegen/codegen.h"
#include "codegen/fuse/kernel.h"

// Bytes on the heap. The owner frees them with free(at). at[n] is 0.
typedef struct Bytes {
  char *at;
  size_t n;
} Bytes;

typedef enum LlvmForm { LLVM_OBJECT, LLVM_ASSEMBLY, LLVM_IR } LlvmForm;
enum { LLVM_WHY = 400 };

// Compiles n kernels under the given symbols as one module for the host, to *out in the given form.
// Returns false with the reason in why[0..LLVM_WHY). Several threads may call it: each call has a
// context of its own.
MUST_USE bool llvm_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                           const CodeOptions *opt, LlvmForm form, Bytes *out, char *why);

#ifdef MESHC_HAVE_LLVM
#include "codegen/cpu/llvm_api_internal.h"

struct EmitTarget;
// A target of LLVM that is not the host.
typedef struct LlvmTarget {
  const char *registers; // the part "NVPTX" of LLVMInitializeNVPTXTarget and the like
  const char *triple, *cpu, *features;
} LlvmTarget;
// Adds functions to module m. t: what the emitter must know of the target.
typedef void LlvmFill(LLVMModuleRef m, const struct EmitTarget *t, void *context);
// Compiles the functions that `fill` adds to a module, for `target` or, if it is NULL, for the
// host. passes: the passes of LLVM that run first. Otherwise as llvm_compile.
MUST_USE bool llvm_build(const CodeOptions *opt, const LlvmTarget *target, const char *passes,
                         LlvmFill *fill, void *context, LlvmForm form, Bytes *out, char *why);
#endif

// Takes the code of the library out of the memory of this process. 50 MiB of it are mapped when
// something was compiled. The pages stay in the page cache, and come back when they are used again.
// That takes some milliseconds: a process that has compiled often keeps them, as it will compile
// again.
void llvm_rest(void);

#endif
