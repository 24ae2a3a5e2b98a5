// LLVM as a library that is opened when something must be compiled. To load and initialise it takes
// 25 ms and 12 MiB, more than a program from the compile cache needs. The emitter calls functions
// of LLVM by their names: the build makes from llvm.def a header llvm_names.h, which defines these
// names as members of `llvm`.
#ifndef CODEGEN_LLVM_API_H
#define CODEGEN_LLVM_API_H

#include "ir/base/base.h"

#ifdef MESHC_HAVE_LLVM
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

typedef struct LlvmApi {
#define LLVM(name) __typeof__(LLVM##name) *name;
#include "codegen/cpu/llvm.def"
#undef LLVM
} LlvmApi;

extern LlvmApi llvm;

// Opens the library, fills `llvm` and registers the host's target. Returns NULL, or the reason why
// this fails. Calls mem_exhausted if memory is missing. Thread rule: the first call must end before
// another thread uses `llvm`.
const char *llvm_open(void);
// Copies the address of a function of the library, or of a library that it needs, to *out, a
// function pointer of `size` bytes. Returns false if there is none.
bool llvm_symbol(const char *name, void *out, size_t size);

#include "llvm_names.h"
#endif

#endif
