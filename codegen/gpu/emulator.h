// What kernels call that are compiled for the emulator (GPU_EMULATED) and run on the CPU: functions
// that do what a GPU does in hardware. Such a kernel has the parameters of ir/program/gpu.h and a
// fifth one, a GpuEmulator, and uses no symbols from outside.
//
//   void NAME(const void *table, const GpuHeader *header, int32_t nsets, int32_t flags,
//             GpuEmulator *g)
//
// The kernel runs once for each thread of each block. A thread gives up the processor only inside
// of the functions below, so that it can be a coroutine. All threads of a block call `barrier`, and
// all 32 threads of a warp call `shuffle` and `warp_barrier`, in the same order. `site` is the
// number of such a call in the code of the kernel: all threads that meet must come from one call.
//
// The kernel reports each load and store of global and shared memory by `access`, immediately
// before it, and an atomic operation as one GPU_ATOMIC. A thread's own variables are not reported.
#ifndef CODEGEN_GPU_EMULATOR_H
#define CODEGEN_GPU_EMULATOR_H

#include <stdint.h>

enum { GPU_WARP = 32 }; // threads of a warp

// The thread of the warp from which `shuffle` takes a value: its own number xor `lane`, its own
// number + `lane` (its own value where that is no thread of the warp), or `lane` itself.
typedef enum GpuShuffle { GPU_SHUFFLE_XOR, GPU_SHUFFLE_DOWN, GPU_SHUFFLE_INDEX } GpuShuffle;
// Elements of the factors of `multiply`.
typedef enum GpuFactor { GPU_F16, GPU_BF16 } GpuFactor;
typedef enum GpuSpace { GPU_GLOBAL, GPU_SHARED } GpuSpace;
typedef enum GpuAccess { GPU_READ, GPU_WRITE, GPU_ATOMIC } GpuAccess;

typedef struct GpuEmulator GpuEmulator;
struct GpuEmulator {
  int32_t (*thread)(GpuEmulator *g);  // number of the thread in its block
  int32_t (*threads)(GpuEmulator *g); // threads of the block
  int32_t (*block_x)(GpuEmulator *g); // numbers of the block in the grid
  int32_t (*block_y)(GpuEmulator *g);
  char *(*shared)(GpuEmulator *g); // dynamic shared memory of the block, aligned to 16 bytes
  void (*barrier)(GpuEmulator *g, int32_t site);
  // Orders the accesses of the threads of a warp. A shuffle does not.
  void (*warp_barrier)(GpuEmulator *g, int32_t site);
  // Returns `value` of another thread of the warp. kind: a GpuShuffle.
  uint32_t (*shuffle)(GpuEmulator *g, int32_t kind, uint32_t value, int32_t lane, int32_t site);
  // Reports that the thread accesses `bytes` bytes at `at`. how: a GpuAccess; space: a GpuSpace.
  // The address is a multiple of `bytes`, as the hardware demands.
  void (*access)(GpuEmulator *g, const void *at, int32_t bytes, int32_t how, int32_t space);

  // All 32 threads of a warp call the next two together, as they call `shuffle`. What these access
  // is not reported by `access`.
  // mma.m16n8k16 with sums in f32: d = a b + c. factor: a GpuFactor. Each thread passes 4 registers
  // of a, 2 of b and 4 sums: the elements that PTX assigns to it. d may be c.
  void (*multiply)(GpuEmulator *g, int32_t factor, float *d, const uint32_t *a, const uint32_t *b,
                   const float *c, int32_t site);
  // ldmatrix of `count` (1, 2, 4) matrices of 8 x 8 elements of 2 bytes, .trans if `transposed`.
  // Thread 8 m + r of the warp names row r of matrix m: 16 bytes of shared memory.
  void (*load_matrix)(GpuEmulator *g, uint32_t *to, const void *row, int32_t count,
                      int32_t transposed, int32_t site);

  // cp.async: begins to fill `bytes` (4, 8 or 16) bytes of shared memory, the first `valid` with
  // those at `from` in global memory, the others with 0. The thread may access them when it has
  // waited for the copy, other threads behind a barrier that follows. `access` does not report it.
  void (*copy_begin)(GpuEmulator *g, void *to, const void *from, int32_t bytes, int32_t valid);
  // Makes the copies that the thread has begun since the last call a group.
  void (*copy_commit)(GpuEmulator *g);
  // Waits for all groups of the thread but the last `groups`.
  void (*copy_wait)(GpuEmulator *g, int32_t groups);
};

#endif
