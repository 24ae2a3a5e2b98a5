// PTX into machine code of a GPU, in process, by the library nvJitLink. It is opened at run time,
// so that neither its header nor the library is needed to build meshc. Without it the CUDA driver
// can assemble PTX when it is loaded.
#ifndef CODEGEN_GPU_ASSEMBLE_H
#define CODEGEN_GPU_ASSEMBLE_H

#include "ir/base/diag.h"
#include "ir/base/library_table.h"

// Returns the library, or in `why` what is missing. *version, if not NULL, gets 1000 * major +
// minor of its version, or 0: machine code in a cache depends on it. Thread rule: any thread.
const LibraryFound *assembler_open(int *version);

// Returns whether the library is there and assembles for a GPU such as "sm_90". Thread rule: any
// thread.
bool assembler_knows(const char *gpu);

// Assembles PTX, a text of one or more kernels that ends in NUL, for a GPU such as "sm_90". Returns
// the machine code, a cubin of *bytes bytes that the caller frees, or NULL after an error in d:
// the library is missing or does not know the GPU (assembler_knows), or the text is wrong.
// `name` names the text in errors, which have the first lines of the assembler's log. Thread rule:
// any thread, one for each d.
MUST_USE void *assemble_ptx(const char *ptx, const char *name, const char *gpu, size_t *bytes,
                            Diag *d);

#endif
