// Finds the hardware and libraries of this machine, and measures its peak rates. No model is
// compiled for this. Used by doctor and bench.
#ifndef FRONTEND_HARDWARE_H
#define FRONTEND_HARDWARE_H

#include "ir/base/arena.h"
#include "runtime/gpu/gpu_survey.h"

// The hardware and libraries of this machine, without its cores.
typedef struct Hardware {
  const char *simd; // such as "avx512f avx2 fma"; in the arena
  const char *mpi;  // in the arena; NULL: none
  GpuSurvey gpus;
  LibraryFacts cublaslt, nvjitlink, nccl;
  int64_t memory; // free memory in bytes
} Hardware;
Hardware hardware_find(Arena *a);

// Returns f32 flops per second of multiply-adds in registers on `threads` threads, with the widest
// vectors on all ports: the best of several runs of 5 ms.
double peak_flops(int threads);
// Returns bytes read plus bytes written per second in copies between two arrays of 64 MiB on
// `threads` threads, with plain or non-temporal stores: the best of several runs.
double peak_copy(int threads);
// Returns bytes per second of `threads` threads that only read, each its part of an array of
// 128 MiB: the best of several runs.
double peak_read(int threads);

#endif
