// Ordered operations on a GPU: what their functions in an image and the caller agree on.
//
// The functions (codegen/gpu/gpu_ordered.c) have the parameters and records of ir/program/gpu.h,
// with three pointers (source, result, scratch), ORDERED_SLOTS slots and no numbers. Units are
// rows: the elements along the ordered dim at one index of the other dims.
//
// A running sum, product or maximum of a row is computed by a team of threads. Each has a piece of
// the row, so many successive elements. It combines them in order, the results of the pieces are
// combined in log2(team) rounds, and then each thread goes through its piece again, beginning with
// the result of the pieces before it. So the order of additions depends on the length of a row, and
// sums of floats are f64. Rows are sorted by a block of threads: runs of ORDERED_RUN elements
// first, then runs are merged in pairs.
#ifndef IR_GPU_ORDERED_H
#define IR_GPU_ORDERED_H

#include "ir/program/gpu.h"

enum {
  ORDERED_THREADS = 256, // threads of a block
  ORDERED_RUN_LOG2 = 6,
  ORDERED_RUN = 1 << ORDERED_RUN_LOG2, // elements of a run that is sorted by comparing all pairs
};

// The slots of a record.
enum {
  ORDERED_N,        // elements of a row
  ORDERED_K,        // sort: how many results a row has; those that it lacks are 0
  ORDERED_SRC_STEP, // distance of neighbours in a row, in elements
  ORDERED_DST_STEP,
  ORDERED_EXCLUSIVE, // cumsum, cumprod: 1: a result does not have its own element
  ORDERED_REVERSED,  // cum_index: 1: position i is the element n - 1 - i of the row
  ORDERED_FLIP, // sort: the bits of keys that are inverted: none, or all for a descending order
  ORDERED_TEAM_LOG2, // scan: threads of a team
  ORDERED_PASSES,    // sort: how often runs are merged
  ORDERED_LOOPS,     // number of loops over rows
  ORDERED_ROW,       // for each loop, outermost first: rounds, and steps in source and result
  ORDERED_SLOTS = ORDERED_ROW + 3 * MAX_RANK
};
enum { ORDERED_POINTERS = 3 };

// Returns the name of the function for an operation on elements of a type.
const char *gpu_ordered_name(OrderedKind kind, Dtype type);
static inline GpuEntry gpu_ordered_entry(const Ordered *w) {
  return (GpuEntry){.run = gpu_ordered_name(w->kind, w->type),
                    .threads = ORDERED_THREADS,
                    .shared = 16 * ORDERED_THREADS};
}

// An ordered instruction whose sizes are known.
typedef struct OrderedSizes {
  const Ordered *what;
  int64_t n, rows;
  const int64_t *count; // rounds of each loop over rows
} OrderedSizes;
// How it is launched: the rows of a block, the blocks, and the bytes of scratch memory on the
// device.
typedef struct OrderedLaunch {
  int64_t grain, blocks, scratch;
} OrderedLaunch;
OrderedLaunch gpu_ordered_launch(const OrderedSizes *s);
// Writes a record of gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0) bytes. src, dst, scratch:
// addresses on the device. first_block: as in GpuRecord.
void gpu_ordered_record(const OrderedSizes *s, uint64_t src, uint64_t dst, uint64_t scratch,
                        int64_t first_block, void *record);

#endif
