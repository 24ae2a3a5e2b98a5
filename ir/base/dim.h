// Named dimensions. A whole dim has a name and a size. A block dim ("h/cols") is the part of a
// whole dim that one processor has under some axes. A lowered graph is a graph over block dims, so
// that later stages need no mesh.
//
// Blocks nest: a dim over axes a1, a2 is split over a1, then each block over a2, so
// that the block length is ceil(ceil(n/p1)/p2). The last blocks can be short or empty: a buffer has
// the block length, and loops use the processor's valid length.
#ifndef IR_DIM_H
#define IR_DIM_H

#include "ir/base/intern.h"
#include "ir/base/mesh.h"

typedef uint32_t
    DimId; // counts from 1, whole dims in order of declaration; 0 where there is no dim

// Which position of its source a window reads. The element of the result at position o of dim to[0]
// and position k of dim to[1] is element s of the source dim:
//
//   s = (out * o + tap * k + offset [+ start]) / divisor         all positions are in whole dims
//
// If the division leaves a remainder or s is outside the source, the element is num[0] (Attr).
// Examples:
//
//   convolution      s = stride*o + dilation*k - pad       slice  s = step*o + first
//   its derivative   s = (o - dilation*k + pad) / stride   pad    s = o - before
typedef struct Affine {
  int64_t out, tap, offset, divisor; // divisor > 0
} Affine;

// The interval of a dim that a window (Affine) reads to compute one processor's block of another
// dim. It includes the halo and is clipped to the dim. divisor 0: the dim has no footprint.
typedef struct Footprint {
  int64_t out_size, tap_size; // sizes of the whole dims to[0] and to[1]; 1 if there is no to[1]
  Axes out_axes, tap_axes;    // the axes over which these two dims are split
  Affine affine;
} Footprint;
// Computes the block that processor r has of a dim of `length` elements, split over `axes`. *first
// gets the index in the dim of its first element, *valid its number of valid elements. Only the
// first `rows` elements of the dim are valid.
void block_interval(const Mesh *m, Axes axes, int64_t length, int64_t rows, int64_t r,
                    int64_t *first, int64_t *valid);
// Computes the interval that processor r reads of a dim of `whole` elements. *first gets its first
// index, *n its number of elements, which is 0 if it is empty.
void footprint_interval(const Mesh *m, const Footprint *x, int64_t whole, int64_t r, int64_t *first,
                        int64_t *n);

typedef struct Dim {
  const char *name; // full name, interned: "b", "attention.s"; a block's is "h/cols+rows"
  int64_t size;     // number of elements; for a block dim, of the largest block
  DimId whole;      // id of the whole dim of which this is a block; for a whole dim its own id
  // The axes over which a block dim is split. For a footprint dim, all axes on which its interval
  // depends. Empty for a whole dim.
  Axes axes;
  // A function got one dim for two of its parameters: this dim is a copy for the second parameter,
  // and `follows` is the dim itself. Otherwise 0.
  DimId follows;
  Pos pos;             // where it is declared
  DimId out, tap;      // of a footprint dim: the block dim to[0], and to[1] or 0
  Footprint footprint; // all zero if the dim is no footprint dim
  bool local;          // a whole dim that code generation added for the program of one processor
  // Of a local dim of values in a loop over dim `by`: step i needs only the first live[i] elements,
  // the others have no effect on results. NULL: all are needed. Outside such a loop all are.
  DimId by;
  const int64_t *live;
} Dim;

typedef struct DimTable DimTable;
DimTable *dim_table_new(Arena *a, Intern *names);

// Returns a table with the whole dims of t, without its blocks and local dims, for a compile with
// another mesh.
// The ids stay the same, so all whole dims of t must have been added before its first block.
// Thread rule: as long as t and its table of names do not change, several threads may each use such
// a table.
DimTable *dim_table_whole(Arena *a, const DimTable *t);
// Returns a copy of t with all its dims, for graphs that share nodes with those of t. The thread
// rule is that of dim_table_whole.
DimTable *dim_table_copy(Arena *a, const DimTable *t);

// Adds a whole dim and returns its id. The caller has checked that the name is free (dim_find) and
// that 1 <= size < 2^31.
DimId dim_add(DimTable *t, const char *name, int64_t size, Pos pos);
// Adds a whole dim that only the program of one processor has (Dim.local). dim_table_whole leaves
// it out, so that it may be added after the first block. Returns the local dim of this name and
// size if there is one. If another dim has the name, the new dim's name is longer.
DimId dim_local(DimTable *t, const char *name, int64_t size);
// Returns the whole dim NAME.mark of `size` elements, where NAME is the name of d. Adds it if there
// is none; if another dim has the name, the new dim's name is longer. dim_twin has as many elements
// as d: it is for values that have the elements of d along two dims.
DimId dim_derived(DimTable *t, DimId d, const char *mark, int64_t size);
DimId dim_twin(DimTable *t, DimId d, const char *mark);
// The same for a dim of which step i of a loop over dim `by` needs the first live[i] elements.
// dim_mean returns how many elements a step needs, rounded up: the mean over the steps.
DimId dim_add_live(DimTable *t, const char *name, int64_t size, DimId by, const int64_t *live);
int64_t dim_mean(const DimTable *t, DimId d);
const Dim *dim_get(const DimTable *t, DimId d);
uint32_t dim_count(const DimTable *t); // ids are 1 to dim_count
// Returns the dim with that full name, or 0. Blocks can also be found by their names.
DimId dim_find(const DimTable *t, const char *name);
// Returns the dim that is the block of `whole` under `axes`. Without axes it is `whole` itself.
// Equal arguments give the same id.
DimId dim_block(DimTable *t, const Mesh *m, DimId whole, Axes axes);
// Returns the footprint dim: the interval of `whole` that a window with `affine` reads to compute a
// processor's block of `of`. `tap` is the window's second dim, or 0. The size of the dim is the
// length of the longest interval. Equal arguments give the same id.
DimId dim_footprint(DimTable *t, const Mesh *m, DimId whole, DimId of, DimId tap, Affine affine);
// Returns the only copy of a text in the table of names that the graphs of a compile share.
const char *dim_intern(const DimTable *t, const char *text);
void dim_set_follows(DimTable *t, DimId d, DimId first);

// Return processor r's part of d: dim_offset its first index in the whole dim, dim_valid its number
// of valid elements. `rows` is the number of valid elements of the whole dim, which is less than
// its size in a last, short batch. d may be a whole dim, a block dim or a footprint dim.
int64_t dim_offset(const DimTable *t, const Mesh *m, DimId d, int64_t r);
int64_t dim_valid(const DimTable *t, const Mesh *m, DimId d, int64_t r, int64_t rows);
// Returns true if the blocks of some processors have fewer valid elements than the size of d.
bool dim_uneven(const DimTable *t, const Mesh *m, DimId d);

// The set of dims of a value. They are in canonical order: ascending id of their whole dims.
typedef struct Dims {
  uint8_t n;
  DimId at[MAX_RANK];
} Dims;
// A list of dims in an order of its own, slowest first: the order of memory or of a loop nest. The
// functions named list_ (ir/base/dim_list.h) keep that order.
typedef Dims DimList;
// Returns the index of d in s, or -1 if s does not have d.
static inline int dims_index(const Dims *s, DimId d) {
  for (int i = 0; i < s->n; i++)
    if (s->at[i] == d) return i;
  return -1;
}
static inline bool dims_has(const Dims *s, DimId d) { return dims_index(s, d) >= 0; }
// Returns true if d is one of the n dims of a list.
static inline bool dim_in(DimId d, int n, const DimId *list) {
  for (int i = 0; i < n; i++)
    if (list[i] == d) return true;
  return false;
}
// Returns a Dims with the n dims of a list, in the order of the list. For a set this must be the
// canonical order.
Dims dims_make(int n, const DimId *list);
// Returns the product of the sizes of n dims, rounded to a double.
double dims_product(const DimTable *t, int n, const DimId *list);
bool dims_equal(const Dims *a, const Dims *b);
// Adds d at its place in canonical order. Does nothing if s has d already. Returns false if s is
// full.
MUST_USE bool dims_add(const DimTable *t, Dims *s, DimId d);
void dims_remove(Dims *s, DimId d);
// Computes the product of the sizes of the dims. Returns false if it is above 2^62.
MUST_USE bool dims_elements(const DimTable *t, const Dims *s, int64_t *out);
// Returns the names of the dims as text, such as "b, h/cols".
char *dims_text(Arena *a, const DimTable *t, const Dims *s);

#endif
