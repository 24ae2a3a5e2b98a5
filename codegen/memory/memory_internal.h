// How values lie in memory: strides, aliases, and which dims are filled only in part. Private to
// the room.
#ifndef CODEGEN_MEMORY_RULES_H
#define CODEGEN_MEMORY_RULES_H

#include "codegen/codegen.h"
#include "ir/base/dim_list.h"

// Elements from one index of d to the next in a value of that order; 0 when it lacks d.
int64_t order_stride(const Graph *g, const Dims *order, DimId d);

// RENAME, SPLIT, MERGE: the result is the argument's memory.
bool op_is_alias(Op op);
bool op_is_decl(Op op);
bool op_is_draw(Op op);
// AT and FINAL too: what a loop reads step by step, and what a carry is in the end, is there
// already.
bool op_is_view(Op op);
// Whether argument i is read elsewhere than at the loop counters (kernel_views.c).
bool op_looks_through(Op op, int i);
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
