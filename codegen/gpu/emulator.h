// The device of code for the emulator (GPU_EMULATED): functions through which kernels that run on
// the CPU do what a GPU does in hardware. Such code has the parameters of ir/program/gpu.h and a
// fifth one, a GpuEmulator. It refers to nothing else outside of itself.
//
//   void NAME(const void *table, const GpuHeader *header, int32_t nsets, int32_t flags,
//             GpuEmulator *g)
//
// The function runs once for each thread of each block. A thread leaves the processor only inside
// of the functions below, so that each thread can be a coroutine. All threads of a block call
// `barrier`, and all 32 threads of a warp call `shuffle`, in the same order. `site` is the number
// of such a call in the text of the function: threads that meet come from equal sites.
//
// The code tells each load and store of global and shared memory by `access`, immediately before
// it. Variables of a thread are told by nobody. An atomic operation is told as one GPU_ATOMIC.
#ifndef CODEGEN_GPU_EMULATOR_H
#define CODEGEN_GPU_EMULATOR_H

#include <stdint.h>

enum { GPU_WARP = 32 }; // threads of a warp

// The thread of the warp from which `shuffle` takes a value: its own number xor `lane`, its own
// number + `lane` (its own value where that is no thread of the warp), or `lane` itself.
typedef enum GpuShuffle { GPU_SHUFFLE_XOR, GPU_SHUFFLE_DOWN, GPU_SHUFFLE_INDEX } GpuShuffle;
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
  // Returns `value` of another thread of the warp. kind: a GpuShuffle.
  uint32_t (*shuffle)(GpuEmulator *g, int32_t kind, uint32_t value, int32_t lane, int32_t site);
  // Tells that the thread accesses `bytes` bytes at `at`. how: a GpuAccess; space: a GpuSpace. The
  // address is a multiple of `bytes`, as the hardware demands.
  void (*access)(GpuEmulator *g, const void *at, int32_t bytes, int32_t how, int32_t space);
};

#endif
