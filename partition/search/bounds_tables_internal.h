// The tables from which lower bounds are computed. Words of these files:
//
//   part   an amount of work or memory of the model (layout_cost_internal.h)
//   value  a tensor that collectives move, or the edge of one that windows read
//   kind   the size and link of a mesh axis
//   set    dims that one axis splits; the sets of all kinds are numbered in one sequence
//   share  what remains of an amount for one processor
//   class  parts that have equal shares under every set of every kind, with the sum of their
//          amounts; or values that every set changes alike. A bound is a sum over classes.
//
//   bounds_tables.c   makes the classes and the tables
//   bounds.c          computes bounds from them
#ifndef PARTITION_BOUNDS_TABLES_H
#define PARTITION_BOUNDS_TABLES_H

#include "partition/search/bounds_internal.h"

enum { EVEN = 255 }; // PartClass.code: the set splits the part into blocks of equal length

// A class: parts (amounts of work or memory) or values (tensors that collectives move) with equal
// codes. A code says what a set, the dims that one axis splits, does to them. Code of a part: 0 if
// the set does not split the part, EVEN, or 1 + index into `size` of the split dim. Code of a
// value: CHANGE_* (layout_cost_internal.h), 0 if the set neither moves nor splits the value.
typedef struct PartClass {
  uint64_t hash;
  const uint8_t *code; // [set]
  double amount;       // of parts: seconds, or bytes of memory; the sum over the class
  double *flow[FLOWS]; // of values: [set] seconds that the set moves them; the sum over the class
  bool uneven;
  int64_t size[MAX_PART_DIMS]; // [i] elements of the dim with code i + 1, whose blocks may differ
                               // in length
} PartClass;

// What the sets of one kind of axis do to each class. A kind is the size and link of a mesh axis,
// and a set is the dims that such an axis splits. A class groups parts (of work or
// of memory) or values for which each set has one and the same effect.
typedef struct KindTable {
  double size; // processors of the axis
  uint32_t n;
  uint32_t first; // number of the first set of this kind, an index into PartClass.code
  // Matrices with a row for each of the n sets and a column for each class:
  //   share, upper  smallest and largest share of parts of work
  //   held          smallest share of parts of memory
  //   left          share of a value if the set splits it, else 1
  //   passed        share of a value if the set moves it, else 1
  //   flow          seconds that the value moves
  // best_share, best_held and best_left are the smallest shares of each column. min_flow has the
  // fewest seconds of each value class.
  double *share, *upper, *held, *left, *passed, *flow[FLOWS];
  bool *moved; // matrix like `flow`: whether the set moves the value
  double *best_share, *best_held, *best_left, *min_flow;
} KindTable;

// What the bound knows before axis k is assigned a set of dims to split. Arrays are indexed by
// class. A class groups pieces of work, memory or values for which each set of dims has one and the
// same effect.
typedef struct Depth {
  double *share, *upper, *held; // over axes before k: products of share and held, minimum of upper
  double *flow[FLOWS];          // seconds that values move over axes before k
  bool *moved;                  // whether any flow of the class is not 0
  double *left, *passed;        // products of left and passed (KindTable) for axes before k
  double *weight;               // amount times the shares over all axes except k
  double *rest_flow;            // fewest seconds that values move over axes after k
  double *rest_share, *rest_held, *rest_left; // smallest shares over axes after k
  double latency;
} Depth;

struct Bounds {
  Arena *a;
  const SearchTask *task;
  uint32_t nsets;
  const PartCosts **cost; // [set] cost of the set on a mesh of one axis of its kind
  uint32_t nparts, npositive, nheld, nvalues;
  PartClass *part, *held, *value; // classes of work, of memory and of values; `part` begins with
                                  // the npositive classes of positive amount
  uint32_t *part_class,
      *value_class; // [part], [value] 1 + index of its class, 0: none
  bool together;    // bounds_begin_pair was called: the shares of its two axes are exact
  KindTable *kind;
  int naxes;
  const KindTable *axis[MAX_AXES];
  uint32_t chosen[MAX_AXES];
  Depth depth[MAX_AXES + 1];
};

static inline double min_of(double x, double y) { return x < y ? x : y; }
static inline double max_of(double x, double y) { return x > y ? x : y; }
static inline bool is_some(double x) { return x < 0 || x > 0; }

#endif
