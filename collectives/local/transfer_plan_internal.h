// What transfer_plan.c and messages.c share: the boxes of a part, and plans for them.
#ifndef COLLECTIVES_TRANSFER_PLAN_INTERNAL_H
#define COLLECTIVES_TRANSFER_PLAN_INTERNAL_H

#include "collectives/local/transfer.h"
#include "collectives/local/transfer_plan.h"

// The dims of a box, with the bytes of an element as the last one. Sizes, strides and offsets count
// bytes in a copy, elements in a reduction.
typedef struct Box {
  int64_t extent[MAX_RANK + 1], from_stride[MAX_RANK + 1], to_stride[MAX_RANK + 1];
  int64_t from, to;
} Box;

// Returns the box of a transfer. bytes: of an element in a copy, 1 in a reduction.
Box transfer_box(const Transfer *t, int64_t bytes);

// The boxes of all transfers of a part in a full batch.
typedef struct PartBoxes {
  Arena *a;
  PartPlan *plan;     // of the part
  int rank;           // dims of a box
  const bool *varies; // by dim: whether its size depends on the batch
  VEC(Box) box;
} PartBoxes;

// Plans a part of a collective of elements `type`. The boxes, and the fields of p->plan from
// `monoid` to `least_results`, and `bytes`, are set. There is at least one box.
void part_plan(PartBoxes *p, Dtype type);
// Sets the slots and the units of a set: the use of the kernel of a plan for a box.
void part_slots(const PartPlan *p, const Box *b, TransferSet *set);
// Orders sets by kernel. Sets of one kernel stay in their order.
void order_sets(Arena *a, TransferSet *set, uint32_t n);

// Returns by dim of the blocks of a part whether sizes along it depend on the batch.
const bool *varying_dims(Arena *a, const Program *p, const Collective *c, const CollPart *part);
// Returns a call of the collective in a full batch. The operands have no addresses.
CommCall full_call(Arena *a, const Program *p, const Collective *c);
// Walks over all transfers of a call, with all dims of the blocks.
void walk_by_dim(const Mesh *m, const CommCall *call, TransferTake *take, void *context);

#endif
