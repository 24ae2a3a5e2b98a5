// Named dimensions. A whole dim has a name and a size; a block dim is what one processor holds of a
// whole dim under some axes ("h/cols"), so that a lowered graph is a graph over block dims and
// nothing downstream needs to know of meshes.
//
// Blocks nest (decision 8): a dim over axes a1, a2 is cut by a1 first, each block by a2, so the
// block length is ceil(ceil(n/p1)/p2). The last blocks may be short or empty: the buffer has the
// block length, loops use the processor's valid extent.
#ifndef IR_DIM_H
#define IR_DIM_H

#include "ir/base/intern.h"
#include "ir/base/mesh.h"

typedef uint32_t DimId; // 0: none; otherwise in order of declaration

// Where an element of a window comes from: position s = (o*out + k*tap + offset [+ start]) /
// divisor of the source dim, for position `o` along to[0] and `k` along to[1], all global. Where
// the division leaves a rest, or s is outside what the source holds, the element is num[0]
// (decision 1).
//
//   convolution  s = stride*o + dilation*k - pad         slice  s = step*o + start
//   its gradient o = (s - dilation*k + pad) / stride     pad    s = o - before
typedef struct Affine {
  int64_t out, tap, offset, divisor; // divisor > 0
} Affine;

// The interval of a dim that a processor's own block of another dim reads through an Affine: halo
// included, clipped to the dim. divisor 0: no footprint.
typedef struct Footprint {
  int64_t out_size, tap_size; // whole sizes; tap_size 1: no taps
  Axes out_axes, tap_axes;    // that cut them
  Affine affine;
} Footprint;
// What processor r reads of a dim of `whole` elements: first index and number of elements (0:
// nothing).
void footprint_interval(const Mesh *m, const Footprint *x, int64_t whole, int64_t r, int64_t *first,
                        int64_t *n);

typedef struct Dim {
  const char *name;    // full name, interned: "b", "attention.s"; a block's is "h/cols+rows"
  int64_t size;        // number of elements; of a block dim the length of the largest block
  DimId whole;         // the dim this is a block of; itself for a whole dim
  Axes axes;           // that cut a block dim; of a footprint dim all on which its interval depends
  DimId follows;       // for a second formal of one dim: the dim whose size it shares, else 0
  Pos pos;             // of its declaration
  DimId out, tap;      // of a footprint dim: the block whose own part reads, and the taps or 0
  Footprint footprint; // of a footprint dim
} Dim;

typedef struct DimTable DimTable;
DimTable *dim_table_new(Arena *a, Intern *names);

// The whole dims of t under their ids, without its blocks: for another mesh. t has whole dims
// first.
DimTable *dim_table_whole(Arena *a, const DimTable *t);

// Adds a whole dim; the caller has checked that the name is free (dim_find) and 1 <= size < 2^31.
DimId dim_add(DimTable *t, const char *name, int64_t size, Pos pos);
const Dim *dim_get(const DimTable *t, DimId d);
uint32_t dim_count(const DimTable *t); // ids are 1..count
// The dim of that full name (blocks included), or 0.
DimId dim_find(const DimTable *t, const char *name);
// The block of whole dim d under axes (n 0: d itself). Equal requests give the same id.
DimId dim_block(DimTable *t, const Mesh *m, DimId whole, Axes axes);
// The footprint dim: the interval of `whole` that the own block of `of` (and all of the own block
// of `tap`, if not 0) reads through `affine`; its size is that of the longest interval. Equal
// requests give the same id.
DimId dim_footprint(DimTable *t, const Mesh *m, DimId whole, DimId of, DimId tap, Affine affine);
void dim_set_follows(DimTable *t, DimId d, DimId first);

// What processor r holds of d: its first global index and its number of valid elements, for a whole
// dim of `rows` valid elements (pass the dim's size except for a last incomplete batch). Blocks and
// footprint dims alike.
int64_t dim_offset(const DimTable *t, const Mesh *m, DimId d, int64_t r);
int64_t dim_valid(const DimTable *t, const Mesh *m, DimId d, int64_t r, int64_t rows);
// True if some processor's valid extent differs from the block length.
bool dim_uneven(const DimTable *t, const Mesh *m, DimId d);

// A set of dims of one value, in canonical order: ascending whole id.
typedef struct Dims {
  uint8_t n;
  DimId at[MAX_RANK];
} Dims;
static inline int dims_index(const Dims *s, DimId d) { // or -1
  for (int i = 0; i < s->n; i++)
    if (s->at[i] == d) return i;
  return -1;
}
static inline bool dims_has(const Dims *s, DimId d) { return dims_index(s, d) >= 0; }
bool dims_equal(const Dims *a, const Dims *b);
// Adds d keeping canonical order; false when the set is full. Adding a member changes nothing.
MUST_USE bool dims_add(const DimTable *t, Dims *s, DimId d);
void dims_remove(Dims *s, DimId d);
// Number of elements (block lengths), checked: false beyond 2^62.
MUST_USE bool dims_elements(const DimTable *t, const Dims *s, int64_t *out);
// Their names: "b, h/cols".
char *dims_text(Arena *a, const DimTable *t, const Dims *s);

#endif
