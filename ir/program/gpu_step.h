// Two functions that the images of every program for a GPU have beside those of its kernels, with
// the same parameters (ir/program/gpu.h): `judge`, which decides whether a step is committed, and
// `move`, which copies.
//
// The host starts up to GPU_SLOTS steps before it reads the result of the first. A step that must
// not be committed therefore ends on the device all that were started behind it:
//
//   step n     launches before the commit   do nothing if header[0].go is 0
//              judge                        reads faults and values that must be finite, and votes;
//                                           then writes the result for the host, header[1].go, and
//                                           header[0].go of the next step: once 0 it stays 0, until
//                                           the host has dealt with the step that failed
//              launches after the commit    do nothing if header[1].go is 0
//
// Where processes have a device each, the judge runs twice: it votes (GPU_LOOKS), the votes are
// replaced by their maxima over all devices, and it decides (GPU_DECIDES). So all decide alike, and
// no host takes part.
//
// Launches of the judge in the midst of a step (GPU_SIGNS) tell the host that the device gets on.
//
// Results lie in memory of the host that the device may write (page-locked): a slot for each step
// that may be under way, which step number GpuHeader.sequence takes in turn.
#ifndef IR_GPU_STEP_H
#define IR_GPU_STEP_H

#include "ir/program/gpu.h"

enum { GPU_SLOTS = 3 };

// What the judge says of a step. If several apply, it is the largest one.
typedef enum GpuVerdict {
  GPU_STEP_GOOD,
  GPU_STEP_NOT_FINITE, // a value that must be finite is not
  GPU_STEP_FAULTY,     // a launch has reported a fault
  GPU_STEP_HALTED      // header[0].go was 0: an earlier step was not good
} GpuVerdict;

// What a device says of a step, before it is known what the others say. It lies behind the two
// headers. With several devices both numbers become the largest ones of all.
typedef struct GpuVote {
  int64_t verdict; // a GpuVerdict
  int64_t asked;   // GpuResult.asked, or 0 if the same launch decides
} GpuVote;
enum {
  VOTE_NUMBERS = sizeof(GpuVote) / sizeof(int64_t),
  GPU_VOTE_AT = 2 * sizeof(GpuHeader), // bytes from the first header to the vote
  GPU_HEADER_BYTES = GPU_VOTE_AT + sizeof(GpuVote)
};

// The head of a slot of results. The scalars follow, 8 bytes each, filled up with zeros.
typedef struct GpuResult {
  int64_t verdict;  // a GpuVerdict
  int64_t sequence; // GpuHeader.sequence of the step
  // 1: the process has been asked to stop. The host writes that of its own process before it starts
  // the step, and the judge that of all.
  int64_t asked;
} GpuResult;

// A scalar that the judge copies to the slot.
typedef struct GpuValue {
  uint64_t at;
  int64_t bytes; // 1, 2, 4 or 8; `at` is a multiple of it
  // The exponent bits of its type: if all of them are set the value is not finite. 0: any value is
  // good.
  uint64_t exponent;
} GpuValue;

// The record of the judge; nvalues GpuValues follow.
typedef struct GpuJudging {
  uint64_t statuses; // GpuStatus of all launches of the step
  int64_t nstatuses;
  uint64_t slot[GPU_SLOTS];
  int64_t nvalues;
  uint64_t sign; // for GPU_SIGNS: an int64_t of the host, which changes with each sign
} GpuJudging;
enum { GPU_SIGN_BITS = 16 }; // the lowest bits of a sign are its number within the step

enum { JUDGE_THREADS = 256 }; // one block
static inline GpuEntry gpu_judge_entry(void) {
  return (GpuEntry){.run = "judge", .threads = JUDGE_THREADS, .shared = JUDGE_THREADS / 4};
}

// `move` copies bytes of the device, or sets them to 0. Its records have MOVE_POINTERS pointers and
// MOVE_SLOTS slots; units are 16 bytes, or single bytes.
enum { MOVE_TO, MOVE_FROM, MOVE_POINTERS }; // MOVE_FROM is 0: bytes are set to 0
enum {
  MOVE_WIDE,   // 1: units of 16 bytes, at multiples of 16
  MOVE_STRIDE, // not 0: the source is one of GPU_SLOTS, so many bytes apart, which steps take in
               // turn
  MOVE_SLOTS
};
enum { MOVE_THREADS = 256, MOVE_GRAIN = 1024 }; // units of a block
static inline GpuEntry gpu_move_entry(void) {
  return (GpuEntry){.run = "move", .threads = MOVE_THREADS, .grain = MOVE_GRAIN};
}

#endif
