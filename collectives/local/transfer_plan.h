// Collectives as launches of kernels, for processors whose memory one device has (a GPU).
//
// A kernel does what a communicator does: it reads an element from all sources of a transfer (a box
// of elements, transfer.h), combines them in the order of processors, and writes the result to all
// destinations. All transfers of a part have one kernel and differ in sizes, offsets and addresses.
//
//   when the program is compiled   transfer_plans says which kernel each part needs; codegen/gpu
//                                  builds the kernels
//   when it is bound to memory     transfer_sets lists the operands of all transfers of a call
//
// An all_reduce of two processors over a block of 3 x 5 elements, of which 2 x 5 are valid, is a
// kernel of one loop with two pointers to read and two to write. It has one set, with 10 elements.
#ifndef COLLECTIVES_TRANSFER_PLAN_H
#define COLLECTIVES_TRANSFER_PLAN_H

#include "collectives/local/comm.h"

// The kernel of one part of a collective. Its loops are outer ones, and the last one is its vector
// loop. Its pointers are the sources, then the results. Its slots are the sizes of the loops, then
// the offset in the sources and the offset in the results, each only where it is not always 0.
//
// A copy moves words of 4 bytes or single bytes. So no bit of a float changes, and elements of all
// types share kernels. A reduction has the elements of the collective. Both are called elements of
// the kernel.
typedef struct PartPlan {
  Dtype type;    // type of the elements of the kernel
  Monoid monoid; // MONOID_NONE: a copy
  int64_t sources, results;
  // 1 if the members of a group may share the memory of the result (CollPart.once), which is then
  // written once; otherwise equal to `results`
  int64_t least_results;
  int nloops;
  // Loop i runs over the dims first[i] .. first[i + 1] - 1 of the box. Behind the dims of the block
  // is one more: the bytes of an element, for a copy. The dims from first[nloops] on have one
  // element of the kernel.
  uint8_t first[MAX_RANK + 2];
  int64_t from_stride[MAX_RANK + 1], to_stride[MAX_RANK + 1]; // by loop, in elements of the kernel
  // For a copy: the bytes of an element of the collective, and of the kernel. Otherwise 1.
  int64_t bytes, word;
  int64_t divisor; // the size of the last loop is the product of the sizes of its dims, over this
  bool from_moves, to_moves; // whether the kernel has a slot for the offset
  int64_t align;             // offsets are multiples of so many elements of the kernel
  int64_t block;             // elements of the last loop in a unit (Kernel.block)
  // Index in Program.kernel of the kernel with `results` results, and of that with `least_results`.
  uint32_t kernel, least_kernel;
} PartPlan;

// Returns the plans of all parts of collective c of program p, in an array that is allocated in a.
// The kernels are not set.
PartPlan *transfer_plans(Arena *a, const Program *p, const Collective *c);

// The operands of one use of a kernel: of one transfer of a call.
typedef struct TransferSet {
  uint32_t kernel; // index in Program.kernel
  int64_t units;   // it computes units 0..units-1
  void **ptr;      // as many as ProgKernel.nptr
  int64_t *slot;   // as many as ProgKernel.nslot
} TransferSet;
// Stores in *out the sets of all transfers of a call that are not empty, ordered by kernel, and
// returns their number. Only transfers whose sources are among processors first..first + each - 1
// count: each group has all of its members there, or none. `plan` is the plans of the call's parts.
// The sets may be computed in any order and at the same time. They are allocated in a.
uint32_t transfer_sets(Arena *a, const PartPlan *plan, const Mesh *m, const CommCall *call,
                       int64_t first, int64_t each, TransferSet **out);
// Adds a call that a device carries out to the counters in *count.
void transfer_count(const Mesh *m, const CommCall *call, CommCount *count, double seconds);

#endif
