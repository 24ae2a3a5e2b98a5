// What the code of kernels on a GPU and its caller agree on: entries, images, and the records in
// device memory from which a launch reads its operands. No type of CUDA appears here.
//
// A kernel becomes one or two functions of an image, both with the parameters
//
//   (const void *table, const GpuHeader *header, int32_t nsets, int32_t flags)
//
// `table` is an array of nsets records in device memory, one for each operand set of the launch. A
// record is a GpuRecord, followed by 8 bytes each for ptr[nptr], slot[nslot] and num[nnum] of the
// kernel (ProgKernel). A block of threads on the GPU computes what a chunk is on a CPU.
//
//   run       grid (blocks of all sets). Block b belongs to the last set whose first_block is at
//             most b. With c = b - first_block it computes the units from + c * grain up to
//             from + (c + 1) * grain - 1, but none from `to` on. With GpuEntry.parts, that many
//             successive blocks divide these units: the set has so many times more blocks, and the
//             code of the kernel says which of them computes what.
//   combine   grid (GpuEntry.combine_blocks, nsets). Block (x, y) joins what the blocks of `run`
//             have left for set y, for some of the results: rows of partial results, or sums of
//             parts of a product in scratch memory. Only kernels that leave something have it.
#ifndef IR_GPU_H
#define IR_GPU_H

#include "ir/program/program.h"

// How a kernel is launched on a GPU.
typedef struct GpuEntry {
  const char *run, *combine;    // names in the images; combine is NULL if nothing is joined
  int threads, combine_threads; // threads of a block, a multiple of 32
  int64_t grain; // units of a block of `run`; 0: KernelLaunch.grain (kernels with partial results)
  // Launches of `run`, one after the other, on the same records: each computes a phase. 0: there is
  // one, which computes all.
  int phases;
  int parts; // blocks of `run` that divide the units of one block among them; 0, 1: there is one
  int shared, combine_shared; // bytes of dynamic shared memory
  int64_t combine_blocks;     // blocks in x of the grid of `combine`
  // Bytes of scratch memory in which `run` leaves results to `combine` or to later phases, for each
  // set; a multiple of MEMORY_ALIGN. 0: none. A kernel has either this or partial rows.
  int64_t scratch;
} GpuEntry;

// What a package has of a program for a GPU beside the program and the images: pack_of_launches
// (ir/program/pack.h) writes it.
typedef struct GpuPartKernels {
  // PartPlan.kernel and least_kernel (collectives/local/transfer_plan.h); of messages the kernels
  // that pack and unpack (collectives/local/messages.h)
  uint32_t first, second;
} GpuPartKernels;
typedef struct GpuLaunches {
  uint32_t nentries, nparts, njoins;
  GpuEntry *entry; // by kernel of the program
  // of all parts of all collectives, in the order of the instructions. The rest of their plans
  // follows from the program (transfer_plans, message_plans).
  GpuPartKernels *part;
  uint32_t *join; // by instruction: GpuParts.join; NULL: all processors are on one GPU
} GpuLaunches;

// Code of a GPU: PTX text that ends in NUL, or an object for the emulator.
typedef struct GpuImage {
  const void *at;
  size_t n; // bytes, without the NUL of a text
} GpuImage;

// What all launches read, in device memory. There are two in a row: launches before the commit of a
// step read the first one, those after it the second one (ir/program/gpu_step.h).
typedef struct GpuHeader {
  int64_t step;
  uint64_t seed;  // philox_seed of the run's seed (ir/base/philox.h)
  int64_t repeat; // number of the update within the step, counted from 0
  // 0: an earlier step or, in the second header, this one is not to be committed
  int32_t go;
  int32_t unused;
  int64_t sequence; // how many steps the device has begun before this one
} GpuHeader;

// Bits of the parameter `flags`. From bit GPU_PHASE_BIT on it has the number of the launch among
// those of GpuEntry.phases.
enum {
  GPU_PHASE_BIT = 8,
  GPU_IF_GO = 1, // the function returns at once if GpuHeader.go is 0
  // of the judge (ir/program/gpu_step.h)
  GPU_COMMITS = 2, // it advances GpuHeader.step if the step is good
  GPU_LOOKS = 4,   // it looks at the step, and votes
  GPU_DECIDES = 8, // it decides by the vote
  GPU_SIGNS = 16,  // it gives a sign of progress, with the number from GPU_PHASE_BIT on
};

// The first fault of the launches that share it, in device memory, filled with zeros before. Faults
// are ordered by code and then by position, so that the first one does not depend on the order in
// which threads run.
typedef struct GpuStatus {
  Status first;
  int32_t lock; // 1 while a thread changes `first`
  int32_t unused;
} GpuStatus;

// The start of a record of `table`. Addresses are those of device memory.
typedef struct GpuRecord {
  int64_t first_block; // blocks of the launch that belong to earlier sets
  int64_t from, to;    // units from..to-1 of the set (codegen/fuse/kernel.h)
  int64_t grain;       // units of a block of threads
  uint64_t partial;    // partial row of the set's first block, or its scratch memory; 0: neither
  uint64_t status;     // a GpuStatus; 0: faults are not reported
} GpuRecord;
// The rows of partial results of successive blocks are ProgKernel.partial_bytes apart.

// Return the offset in bytes, within a record, of pointer, slot or number i of a kernel with nptr
// pointers and nslot slots. gpu_record_bytes returns the bytes of a record.
static inline int64_t gpu_ptr_at(int i) { return (int64_t)sizeof(GpuRecord) + 8 * (int64_t)i; }
static inline int64_t gpu_slot_at(int nptr, int i) { return gpu_ptr_at(nptr) + 8 * (int64_t)i; }
static inline int64_t gpu_num_at(int nptr, int nslot, int i) {
  return gpu_slot_at(nptr, nslot) + 8 * (int64_t)i;
}
static inline int64_t gpu_record_bytes(int nptr, int nslot, int nnum) {
  return gpu_num_at(nptr, nslot, nnum);
}

_Static_assert(sizeof(GpuRecord) == 48 && sizeof(GpuHeader) == 40,
               "as the code of kernels reads it");

#endif
