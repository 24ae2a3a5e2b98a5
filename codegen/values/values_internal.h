// Questions about a value of the graph: the strides of its dims, the owner of its memory, and how
// many elements of its dims are valid.
//
// A view is a value without memory of its own: it is the memory of an argument, or a part of it.
// Dims are blocks of one processor. A block may have fewer valid elements than its size: the last
// block of a dim that does not divide evenly, and each block of the last batch of a data set. Such
// a number is known at run time only, in a Slot of the program (ir/program/program.h).
#ifndef CODEGEN_VALUES_H
#define CODEGEN_VALUES_H

#include "codegen/codegen.h"
#include "ir/base/dim_list.h"

// Returns the stride of dim d, in elements, in a value whose dims lie in the physical order
// `order`, slowest first. Returns 0 if the value does not have d.
int64_t order_stride(const Graph *g, const DimList *order, DimId d);
// Returns the last dim of `order` that has more than one element, along which elements are adjacent
// in memory: a dim of one element may be anywhere in the order. Returns the first dim if all have
// one element, and 0 without dims.
DimId order_last(const Graph *g, const DimList *order);

// Returns whether the result of op is the whole memory of its argument, under other dims.
static inline bool op_is_alias(Op op) { return op_row(op)->memory == MEMORY_ALIAS; }
// Returns whether the result of op is a view: the memory of an argument, or a part of it.
static inline bool op_is_view(Op op) {
  return op_is_alias(op) || op_row(op)->memory == MEMORY_PART;
}
// Returns whether kernels read argument i of op at computed positions, as a window does, and not at
// their loop counters (kernel_views.c).
static inline bool op_looks_through(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_THROUGH;
}
// Returns whether argument i of op must be in memory, because kernels read it at indices that are
// data.
static inline bool op_looks_up(Op op, int i) {
  return i == 0 && op_row(op)->memory == MEMORY_LOOKUP;
}
// Returns whether the result of op is a constant, an index or the step counter, which needs no
// memory.
static inline bool op_is_number(Op op) {
  return op_row(op)->cls == SOURCE && !op_is_decl(op) && !op_is_draw(op) && op != OP_VALUES;
}
// Returns the argument of n that has the same memory as n, a view.
NodeId view_of(const Graph *g, NodeId n);
// Returns the node that owns the memory of n: n itself or, if n is a view, the node at the end of
// the chain of views.
NodeId memory_root(const Graph *g, NodeId n);
// Returns the node that must have run before the memory of n can be read: the owner of that memory
// or, if n is a result of a scan, the scan.
NodeId memory_writer(const Graph *g, NodeId n);

// The dims that have fewer valid elements in an incomplete batch: the batch dim, and dims that a
// rename, a split or a merge makes of it. In a merge the batch dim must be the slowest of the
// merged dims. The valid elements of such a dim are in the proportion of the rows (Slot.batch).
typedef struct Rows {
  DimId over; // the batch dim, as it is before it is divided into blocks; 0: there is none
  bool *at;   // of each dim, as it is before it is divided into blocks: whether it is one of them
} Rows;
// Finds the dims whose valid elements depend on the number of rows in the last batch. over: the
// name of the batch dim; NULL if there is none. The result is allocated in `a`.
Rows rows_find(Arena *a, const Graph *g, const char *over);
// Sets *out to the run-time scalar that holds the number of valid elements of d. Returns false if
// every block of d is always full.
bool extent_slot(const Graph *g, const Rows *rows, DimId d, Slot *out);
// Sets *out to the run-time scalar that holds the index of the block's first element in the whole
// dim. Returns false if that is 0 on every processor.
bool offset_slot(const Graph *g, DimId d, Slot *out);
// Computes the number of valid elements of a list of dims, slowest first, that one loop runs over.
// The number is *base or, if *uneven is set, *base times *slot: the valid elements of the first
// dim. Returns false if a dim after the first is not always full, because one loop cannot run over
// such dims.
bool extent_list(const Graph *g, const Rows *rows, const DimList *list, int64_t *base, bool *uneven,
                 Slot *slot);

#endif
