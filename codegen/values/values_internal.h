// Questions about a value of the graph: the strides of its dims, whose memory it has, and how many
// elements of its dims are valid.
//
// A view is a value without memory of its own: it is the memory of an argument, or a part of it.
// Dims are blocks of one processor. A block is not always full: the last block of a dim that does
// not divide evenly, and all blocks of the last batch, may have fewer valid elements. Such a number
// is known at run time only, in a Slot of the program (ir/program/program.h).
#ifndef CODEGEN_VALUES_H
#define CODEGEN_VALUES_H

#include "codegen/codegen.h"
#include "ir/base/dim_list.h"

// Returns the elements from one index of d to the next in a value whose dims lie in that physical
// order, slowest first; 0 if the value lacks d.
int64_t order_stride(const Graph *g, const DimList *order, DimId d);

// Returns whether the result is all of the argument's memory, under other dims.
static inline bool op_is_alias(Op op) { return op_row(op)->memory == MEMORY_ALIAS; }
// Returns whether the result is a view: memory that an argument has written, all or a part of it.
static inline bool op_is_view(Op op) {
  return op_is_alias(op) || op_row(op)->memory == MEMORY_PART;
}
// Returns whether kernels read argument i not at their loop counters but at computed positions, as
// a window does (kernel_views.c).
static inline bool op_looks_through(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_THROUGH;
}
// Returns whether argument i must be in memory, because a kernel reads it at indices that are data.
static inline bool op_looks_up(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_LOOKUP;
}
// Returns whether op is a constant, an index or the step counter: a value that no memory holds.
static inline bool op_is_number(Op op) {
  return op_row(op)->cls == SOURCE && !op_is_decl(op) && !op_is_draw(op) && op != OP_VALUES;
}
// Returns the argument of view n whose memory n is.
NodeId view_of(const Graph *g, NodeId n);
// Returns the node that owns the memory of n: n itself or, for a view, the node that is reached
// through its views.
NodeId memory_root(const Graph *g, NodeId n);
// Returns the node that must have run before the memory of n can be read: the owner of that memory,
// or the scan whose result n is.
NodeId memory_writer(const Graph *g, NodeId n);

// How the valid elements of a dim follow from the rows of the last batch: rows * scale / div.
typedef struct RowDim {
  int64_t scale, div; // scale 0: the dim does not depend on the rows
} RowDim;
// The dims that have fewer valid elements in an incomplete batch: the batch dim itself, and dims
// that a rename, a split or a merge makes of it. In a merge it must be the slowest part.
typedef struct Rows {
  DimId over; // the batch dim before it was divided into blocks; 0: there is none
  RowDim *at; // by dim, before it was divided into blocks
} Rows;
// Finds the dims that depend on the rows of dim `over` (a name, NULL for none). Memory from a.
Rows rows_find(Arena *a, const Graph *g, const char *over);
// Sets *out to the run-time scalar with the number of valid elements of d. Returns false if every
// block of d is always full.
bool extent_slot(const Graph *g, const Rows *rows, DimId d, Slot *out);
// Sets *out to the run-time scalar with the global index of the block's first element. Returns
// false if that is 0 on every processor.
bool offset_slot(const Graph *g, DimId d, Slot *out);
// Computes the valid elements of a list of dims, slowest first, that are run as one loop: *base or,
// if *uneven, *base times *slot, the valid extent of the first dim. Returns false if another dim is
// not always full: such dims cannot be one loop.
bool extent_list(const Graph *g, const Rows *rows, const DimList *list, int64_t *base, bool *uneven,
                 Slot *slot);

#endif
