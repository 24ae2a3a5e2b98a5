// Registers and shared memory of the kernels of examples, compared with those of a file that says
// how they were when it was last written (`suite_gpu_assemble bless`). A kernel is known by its
// name, which is a hash of what it computes: a kernel that the file lacks is new, and is not
// compared.
//
// Figures depend on the versions of the assembler and of LLVM. With others than those of the file
// nothing is compared.
#ifndef TESTS_SUITE_COMMON_REGISTERS_H
#define TESTS_SUITE_COMMON_REGISTERS_H

#include "ir/base/arena.h"

enum { CAPABILITIES = 2 }; // 8.0 and 9.0

typedef struct Registers Registers;

// Reads the file. `versions`: those of the assembler and of LLVM, as text.
Registers *registers_read(Arena *a, const char *path, const char *versions);
// Notes the kernels that the comments of PTX list, a line "// NAME: PLAN; N bytes of shared memory"
// each (`meshc dump --stage ptx`). example: where they come from.
void registers_plans(Registers *r, const char *ptx, const char *example);
// Notes how many registers a thread of a kernel has. Kernels that registers_plans has not noted are
// left out. capability: 0 for compute capability 8.0, 1 for 9.0.
void registers_note(Registers *r, const char *name, int capability, int registers);

typedef struct RegistersResult {
  int same, worse; // kernels of the file
  int better; // kernels of the file that need less, or registers of the same unit of allocation
  int more;   // kernels that the file lacks
  bool compared;
} RegistersResult;
// Compares, and prints each difference that is worse: more shared memory, or registers of another
// unit of allocation.
RegistersResult registers_compare(const Registers *r);
// Writes the file anew. Returns false if it cannot.
bool registers_write(const Registers *r);

#endif
