// Which elements of products are needed. A mask over the indices of two dims, such as a causal
// mask, makes a whole block of scores -inf. The weights of that block are 0, whatever the product
// of queries and keys would be: neither the products that make scores nor those that sum weights
// need it.
//
// A value has a range at a block of positions: its least and its largest element, as far as
// constants, indices and pointwise operations tell (live_range.c). A block of a value is dead if
// its range is the single number 0, or if nobody reads it (live.c). Private to the room.
#ifndef CODEGEN_LIVE_H
#define CODEGEN_LIVE_H

#include "codegen/values/gemm_form_internal.h"

// The least and the largest element, which may be infinite. A range that is not a single number
// says nothing about NaN.
typedef struct Range {
  double lo, hi;
} Range;

// The positions first..last of dim d that are looked at. All positions of dims that no Span in the
// list names are looked at.
typedef struct Span {
  DimId dim;
  Range at;
  const struct Span *next;
} Span;

// The state of a search: ranges that were found for the same positions are kept.
typedef struct Live {
  Arena *a;
  const Graph *g;
  uint32_t count;
  Dims *indices;  // by node: the dims of the indices from which alone it is computed
  bool *indexed;  // by node: it is computed from indices and constants alone
  uint32_t *user; // the users of node n are user[user_at[n] .. user_at[n + 1])
  uint32_t *user_at;
  bool *output;         // by node: it is an output of the graph
  int64_t grain, block; // least elements of a part of a dim, and of a block of a product
  DimId pair[2][8];     // the two dims of each mask
  int npairs;
  NodeId masked;     // a mask that is false at these positions, 0: none
  double reach;      // values that are not known lie within -reach..reach, perhaps infinite
  const Span *spans; // the positions for which `range` and `need` are kept
  uint32_t stamp;
  bool *varies;              // by node: its range may depend on the positions; NULL: not known
  uint32_t *ranged, *needed; // by node: the stamp with which its range or need was found
  Range *range;
  uint8_t *need;
} Live;

// Whether a block of a value matters.
typedef enum Need {
  NEED_NOTHING, // no operation reads it, or a choice (where) discards it
  NEED_FINITE,  // it is multiplied by 0: any finite numbers do
  NEED_VALUE,
} Need;

enum { LIVE_DEPTH = 64 }; // most operations that are followed from a value

// Returns the range of node n at the positions of `spans`. `depth`: operations followed so far.
Range live_range(Live *l, NodeId n, const Span *spans, int depth);
// Returns the range of a pointwise operation with a result of type `type`, from those of its
// arguments.
Range range_of_op(Op op, Dtype type, const Range *x);
static inline bool range_is(Range r, double x) { return r.lo == x && r.hi == x; }
static inline bool range_is_single(Range r) { return r.lo == r.hi; }

// Returns the search for graph g, or NULL if g has no mask over indices. `rows`: as
// CodegenOptions.blocked_rows.
Live *live_new(Arena *a, const Graph *g, int64_t rows);
// Keeps ranges and needs for these positions from now on.
void live_at(Live *l, const Span *spans);
// The same for the positions at which node `mask` is false, whichever they are.
void live_where_masked(Live *l, NodeId mask);
// Returns whether the block of node n at the positions set last matters.
Need live_need(Live *l, NodeId n, int depth);
// The parts of a dim that are looked at: n parts of `length` elements, the last may be shorter.
typedef struct LiveGrains {
  DimId dim;
  int64_t n, length, size;
} LiveGrains;
LiveGrains live_grains(const Live *l, DimId d);
static inline Span live_grain(const LiveGrains *g, int64_t i, const Span *next) {
  int64_t end = (i + 1) * g->length < g->size ? (i + 1) * g->length : g->size;
  return (Span){g->dim, {(double)(i * g->length), (double)(end - 1)}, next};
}
// Returns whether node n has dim d, or lies in a loop over d.
bool live_has(const Live *l, NodeId n, DimId d);

// Finds the blocks of contraction n, which has this GEMM form, that are computed. Returns NULL if
// all are. The result is allocated in `a`.
const LivePieces *live_pieces(Live *l, Arena *a, NodeId n, const GemmForm *form);

#endif
