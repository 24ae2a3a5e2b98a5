// The memory layout of values: strides, aliases, and which dims may have fewer valid elements than
// their blocks.
#ifndef CODEGEN_MEMORY_RULES_H
#define CODEGEN_MEMORY_RULES_H

#include "codegen/codegen.h"
#include "ir/base/dim_list.h"

// Elements from one index of d to the next in a value with that physical order; 0 without d.
int64_t order_stride(const Graph *g, const Dims *order, DimId d);

// Whether the result is all of the argument's memory, under other dims.
static inline bool op_is_alias(Op op) { return op_row(op)->memory == MEMORY_ALIAS; }
// Whether the result is memory that an argument has written, all or a part of it.
static inline bool op_is_view(Op op) {
  return op_is_alias(op) || op_row(op)->memory == MEMORY_PART;
}
// Whether kernels read argument i at other positions than their loop counters (kernel_views.c).
static inline bool op_looks_through(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_THROUGH;
}
// Whether argument i must be in memory, because positions in it are computed.
static inline bool op_looks_up(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_LOOKUP;
}
// A constant, index or step counter: a value that no memory holds.
static inline bool op_is_number(Op op) {
  return op_row(op)->cls == SOURCE && !op_is_decl(op) && !op_is_draw(op) && op != OP_VALUES;
}
// The argument of view n that has its memory.
NodeId view_of(const Graph *g, NodeId n);
// The node that has the memory of n: n itself or, for a view, the node at the end of its views.
NodeId memory_root(const Graph *g, NodeId n);
// The node that must have run before the memory of n can be read: its root, or the scan whose
// result it is.
NodeId memory_writer(const Graph *g, NodeId n);

// Dims with fewer valid elements in an incomplete batch: `over` itself and dims made of it by
// rename, split, or merge as the slow part. Their valid elements are valid rows * scale / div.
typedef struct RowDim {
  int64_t scale, div;
} RowDim;
typedef struct Rows {
  DimId over; // a full dim, 0: none
  RowDim *at; // [full dim] scale 0: does not depend on the rows
} Rows;
Rows rows_find(Arena *a, const Graph *g, const char *over);
// Sets *out to the slot of d's valid extent; false if every block of d is always full.
bool extent_slot(const Graph *g, const Rows *rows, DimId d, Slot *out);
// Sets *out to the slot of the block's first global index; false if it is 0 on every processor.
bool offset_slot(const Graph *g, DimId d, Slot *out);
// The extent of a list of dims, slow first, as one loop: *base elements and, if *uneven, times the
// slot of the first dim. False if another dim is not always full: they cannot be one loop.
bool extent_list(const Graph *g, const Rows *rows, const Dims *list, int64_t *base, bool *uneven,
                 Slot *slot);

#endif
