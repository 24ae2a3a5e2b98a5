// How values lie in memory: strides, aliases, and which dims are filled only in part. Private to
// the room.
#ifndef CODEGEN_MEMORY_RULES_H
#define CODEGEN_MEMORY_RULES_H

#include "codegen/codegen.h"
#include "ir/base/dim_list.h"

// Elements from one index of d to the next in a value of that order; 0 when it lacks d.
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
// The argument whose memory a view is.
NodeId view_of(const Graph *g, NodeId n);
// The node whose memory n is; of an AT the whole of it.
NodeId memory_root(const Graph *g, NodeId n);
// The node that must have run before the memory of n can be read: its root, or the scan that hands
// it out.
NodeId memory_writer(const Graph *g, NodeId n);

// Which dims follow the rows of the dim `over` (itself, renamed, merged as the slow part, split):
// valid elements = valid rows * scale / div.
typedef struct RowDim {
  int64_t scale, div;
} RowDim;
typedef struct Rows {
  DimId over; // whole dim, 0: none
  RowDim *at; // of each whole dim; scale 0: does not follow
} Rows;
Rows rows_find(Arena *a, const Graph *g, const char *over);
// The valid extent of d as a slot; false: every block is always full.
bool extent_slot(const Graph *g, const Rows *rows, DimId d, Slot *out);
// The first global index of d as a slot; false: 0 on every processor.
bool offset_slot(const Graph *g, DimId d, Slot *out);
// Dims in a nest (slow first) as one extent: base elements and, if the outermost is not always
// full, its slot. False when an inner one is not always full.
bool extent_list(const Graph *g, const Rows *rows, const Dims *list, int64_t *base, bool *uneven,
                 Slot *slot);

#endif
