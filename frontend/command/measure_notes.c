// Says how each figure of a machine file was found, as comments of the file that `doctor --measure`
// writes. The models behind the words are in measure_machine.c and measure_gpu.c.
#include "frontend/command/measure_internal.h"

#include <string.h>

typedef struct FigureNote {
  const char *figure;
  const char *cpu;  // on a CPU
  const char *bare; // on a CPU without the LLVM back end, where no model can be compiled
  const char *gpu;
} FigureNote;

#define BUILT_IN "built-in figure, not measured"
#define KNOWN "of a GPU that meshc knows, not measured"
#define LIBRARY "built-in rule, not measured"

static const FigureNote notes[] = {
    {"latency", "all_reduce of 16 numbers a processor", "two threads that wait for each other",
     "all_reduce of 16 numbers for 2 processors on the GPU"},
    {"bandwidth", "all_reduce of 1 MiB", "half the rate of a copy",
     "all_reduce of 64 MiB for 2 processors on the GPU"},
    {"memory_rate", "y = x * 2 + 1 on arrays larger than the caches", "a copy by one core",
     "y = x * 2 + 1 on 256 MiB"},
    {"flops", "products of training steps of five shapes, f32", "products or multiply-adds, f32",
     "product of 4096 x 4096 x 4096, f32"},
    {"tile_flops", "kernels of a recurrence, forward and backward", LIBRARY, KNOWN},
    {"winograd_flops", "3 x 3 convolutions, forward and backward", LIBRARY, KNOWN},
    {"bf16_flops", "product of 512 x 512 x 512, bf16; 0: by kernels", BUILT_IN,
     "product of 4096 x 4096 x 4096, bf16"},
    {"tf32_flops", "not of a CPU", "not of a CPU", KNOWN},
    {"f64_flops", "0: half of flops, not measured", "0: half of flops, not measured",
     "product of 4096 x 4096 x 4096, f64"},
    {"memory", "of the machine, divided by its cores", "of the machine, divided by its cores",
     "told by the driver"},
    {"l2", "told by the system", "told by the system", KNOWN},
    {"l3", "told by the system, at most 32 MiB a core", "told by the system", KNOWN},
    {"l2_rate", "y = x * 2 + 1 on arrays of half of l2", BUILT_IN, KNOWN},
    {"l3_rate", "y = x * 2 + 1 on arrays that fit l3", BUILT_IN,
     "y = x * 2 + 1 on arrays that fit the cache"},
    {"core_rate", "products and kernels that update a matrix in turn", BUILT_IN, KNOWN},
    {"launch", "a chain of 64 small kernels", BUILT_IN, "chains of 64 and of 128 small kernels"},
    {"operations", "a kernel with 48 operations an element", BUILT_IN,
     "a kernel with 512 operations an element"},
    {"half", "the products of flops, least squares", BUILT_IN, KNOWN},
    {"multiprocessors", "not of a CPU", "not of a CPU", "told by the driver"},
    {"cores", "that this process may use", "that this process may use", KNOWN},
    {"shared", "1: processors share the memory", "1: processors share the memory", KNOWN},
    {"overlap", "0: a processor waits for collectives", "0: a processor waits for collectives",
     KNOWN},
};

const char *measure_note(const char *figure, bool gpu) {
  for (size_t i = 0; i < countof(notes); i++)
    if (!strcmp(notes[i].figure, figure))
      return gpu ? notes[i].gpu : code_available() ? notes[i].cpu : notes[i].bare;
  return NULL;
}
