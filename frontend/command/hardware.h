// What this machine has and how fast it is, measured without compiling a program.
#ifndef FRONTEND_HARDWARE_H
#define FRONTEND_HARDWARE_H

#include "ir/base/arena.h"

// What the machine has beside its cores. Texts are in the arena; NULL: there is none.
typedef struct Hardware {
  const char *simd; // "avx512f avx2 fma"
  const char *gpus; // "NVIDIA H100, NVIDIA H100"
  const char *mpi, *nccl;
  int64_t memory; // bytes free
} Hardware;
Hardware hardware_find(Arena *a);

// Multiply-adds in registers on `threads` threads: flops a second, f32, best of several short runs.
double peak_flops(int threads);
// Copies between two arrays of 64 MiB on `threads` threads: bytes read plus bytes written a second;
// 0 without memory for them.
double peak_copy(int threads);

#endif
