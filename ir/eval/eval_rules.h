// Declarations that the rules of the evaluator share: the arguments of a rule, loops over strided
// tensors, and rounding bounds.
//
// A rule computes one node on one processor. The arguments of the node are already computed on all
// processors, so the rule of a collective reads the tensors of other processors directly. All
// POINTWISE operations share the rule eval_point, which maps a function of cells (value, bound,
// taint) over the elements.
#ifndef IR_EVAL_RULES_H
#define IR_EVAL_RULES_H

#include <math.h>

#include "ir/eval/eval.h"

#define INF ((double)INFINITY)

// The state of one evaluation. The tensor of a node in a loop holds the value of the current step.
typedef struct EvalRun {
  Arena *a; // holds the result
  Arena *scratch;
  Eval *e;
  uint32_t nfeeds;
  const EvalFeed *feeds;
  int64_t step;     // the value of the step counter
  uint64_t *errors; // the state of the generator of random errors; NULL: no errors are added
  bool rounds;      // results are rounded to their type, and have no random error of rounding
  RegionNodes nodes;
  int64_t *now; // [RegionId]: the position of the current step along the dim of the loop
} EvalRun;

// The arguments of an evaluation rule, which computes node n, whose id is `id`, on processor r.
typedef struct EvalNode {
  const EvalRun *run;
  Arena *arena; // memory that is released after the call
  const Graph *g;
  const Node *n;
  NodeId id;
  int64_t r;
  Tensor *out;          // the result, with its shape and all elements zero
  const Tensor *arg[3]; // tensors of the first three arguments on processor r
} EvalNode;

// Allocates the tensor of node n on processor r. If the tensor exists already, sets its elements to
// zero.
void eval_shape(EvalRun *run, NodeId n, int64_t r);
// Evaluates node n on all processors.
void eval_node(EvalRun *run, NodeId n);
// Evaluates each node of region r once. A loop inside the region runs all of its steps.
void eval_region(EvalRun *run, RegionId r);

typedef void EvalRule(const EvalNode *c);
EvalRule eval_point;
// BY_CLASS(cls, point, other) expands to `point` for class POINTWISE, else to `other`. Pointwise
// operations share the rule eval_point, all others have rules of their own.
#define BY_CLASS(cls, point, other) RULE_##cls(point, other)
#define RULE_POINTWISE(point, other) point
#define RULE_SOURCE(point, other) other
#define RULE_REDUCE(point, other) other
#define RULE_CONTRACT(point, other) other
#define RULE_MOVE(point, other) other
#define RULE_GATHER(point, other) other
#define RULE_WINDOW(point, other) other
#define RULE_ORDERED(point, other) other
#define RULE_MATRIX(point, other) other
#define RULE_REGION(point, other) other
#define RULE_COLLECTIVE(point, other) other
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  BY_CLASS(cls, , EvalRule eval_##eval;)
#include "ir/graph/ops.def"

// -- eval_num.c: numbers ------------------------------------------------------------------------

// One element: its value v, the bound b of the error of v, and the taint t. A tainted element is
// uncertain: correct programs may differ by more than b.
typedef struct Cell {
  double v, b;
  bool t;
} Cell;

// Returns the unit roundoff of a float type, 0 for integers. That of f64 is doubled, because the
// evaluator also computes in f64 and rounds.
double unit_roundoff(Dtype t);
double least_subnormal(Dtype t);
double least_normal(Dtype t);
double largest_finite(Dtype t);
// Returns c, the result of an operation, as an element of type t. A value out of range becomes
// infinite. An element with an infinite or NaN error bound becomes tainted (uncertain).
Cell cell_finish(Dtype t, Cell c);
// Returns value v with error bound b after one rounding to t. `exact`: v has no rounding error, so
// that rounding adds none if v is a value of t.
Cell cell_rounded(Dtype t, double v, double b, bool exact);
// Returns the integer of type t that has the low bits of x.
double int_wrap(Dtype t, int64_t x);

// The state of a product while its factors are multiplied one by one. A program may multiply in any
// order: `above` is the product of all magnitudes above 1, `below` of all magnitudes below 1. The
// product is tainted (uncertain) if a partial product can overflow or underflow although the
// product of all factors does not. Its bound is the product of |x| + bound(x) minus that of |x|.
typedef struct RunningProduct {
  Cell y;                    // the product, and the sum of the errors of roundings to subnormals
  double wide, above, below; // `wide`: the product of |x| + bound(x)
  int64_t n, rounded;        // number of factors, and of multiplications that rounded
  bool zero, infinite;       // a factor is 0 or infinite, exactly
} RunningProduct;
static const RunningProduct product_one = {.y = {1, 0, false}, .wide = 1, .above = 1, .below = 1};
// Multiplies by x, of type t. Integers wrap.
void product_factor(RunningProduct *p, Cell x, Dtype t);
// Returns the product rounded to t.
Cell product_cell(const RunningProduct *p, Dtype t);

// The state of a sum while its terms are added one by one.
typedef struct Sum {
  double v, abs, b; // sums of the terms, of their absolute values, of their bounds
  int64_t n;
  bool t;
} Sum;
// Adds the term x of type t. Integers wrap at 64 bits.
void sum_add(Sum *s, Cell x, Dtype t);
// sum_cell returns the sum, accumulated in type acc and rounded to t; integers wrap. Its `granule`
// is NO_GRANULE, or an exponent: all terms are then exact multiples of 2^granule. Such a sum is
// exact in any order while s->abs is at most 2^(granule + p), where acc has p digits. Its error
// bound is then 0. `most` is passed to sum_roundings.
enum { NO_GRANULE = -100000 };
Cell sum_cell(Dtype acc, Dtype t, const Sum *s, int granule, int most);
// Returns the number of roundings that each of n terms passes through. f32 is accumulated in
// blocks, which limits the number to `most` (SUM_ROUNDINGS in ir/program/sums.h). Terms of other
// types are added one after another.
double sum_roundings(Dtype acc, int64_t n, int most);
// Stores s[i], the sum for element i, as element i of the result of c. If `granule` is not
// NO_GRANULE, all terms are exact multiples of 2^granule.
void sum_store(const EvalNode *c, const Sum *s, int granule);
// Returns the largest g such that every element of t is exact and a multiple of 2^g. Returns
// NO_GRANULE if an element is not exact.
int tensor_granule(const Tensor *t);

// A key of argmax (ARG_KEY in ops.def) is a u64 that holds a value and an index. A cell holds the
// 64 bits of the key in its double v. These functions convert between keys, cells, values and
// indices. key_make rounds an f64 value to f32.
uint64_t key_bits(double v);
double key_double(uint64_t bits);
uint64_t key_make(Dtype x_type, double x, int32_t index);
double key_value(double key, bool is_float);
int32_t key_index(double key);

// -- eval_walk.c: strided loops -----------------------------------------------------------------
enum { WALK_OPERANDS = 5, WALK_RANK = 2 * MAX_RANK };

// A loop over all positions of the dims `dim`, in row-major order. An operand is a tensor that the
// loop reads or writes: at[k] is the index, in operand k, of the element at the current position.
//   for (bool on = walk_first(&w); on; on = walk_next(&w)) ... w.at[k] ...
typedef struct StrideWalk {
  int rank, operands;
  DimId dim[WALK_RANK];
  // The length of each dim, and the current position along it.
  int64_t extent[WALK_RANK], count[WALK_RANK];
  int64_t stride[WALK_OPERANDS][WALK_RANK], at[WALK_OPERANDS];
} StrideWalk;
// Returns a loop over the dims of `over`, with `first` and `second` as operands 0 and 1. Each
// argument may be NULL.
StrideWalk walk_over(const Tensor *over, const Tensor *first, const Tensor *second);
// Adds dim d to the loop as its innermost dim. Does nothing if the loop has d already.
void walk_dim(StrideWalk *w, DimId d, int64_t extent);
void walk_dims(StrideWalk *w, const Tensor *t); // adds all dims of t
// Add an operand and return its number k. For walk_operand it is tensor t; at[k] does not change
// along dims that t does not have. For walk_position at[k] is the position along dim d.
int walk_operand(StrideWalk *w, const Tensor *t);
int walk_position(StrideWalk *w, DimId d);
// Adds an operand k for a row-major array over the whole dims `order`. The dims of the loop are
// blocks of these, so at[k] is relative to the block. Returns the index in the array of the first
// element of processor r.
int64_t walk_whole(StrideWalk *w, const Graph *g, int64_t r, int rank, const DimId *order);
// walk_first goes to the first position, walk_next to the next. They return false if there is no
// such position.
bool walk_first(StrideWalk *w);
bool walk_next(StrideWalk *w);
// Copies elements in the loop w, whose operands are 0, a part of `to`, and 1, a part of `from`. The
// parts begin at the elements to_first and from_first.
void walk_copy(StrideWalk *w, Tensor *to, int64_t to_first, const Tensor *from, int64_t from_first);

// Returns the distance in elements of neighbours of t along d, or 0 if t does not have d.
int64_t tensor_stride(const Tensor *t, DimId d);
// Allocates t->elements elements of t and sets them to 0.
void tensor_alloc(Arena *a, Tensor *t);
// Makes the tensor of node n on processor r in `a`, with all elements 0.
void tensor_shape(Arena *a, const Graph *g, const Node *n, int64_t r, Tensor *out);
static inline Cell tensor_cell(const Tensor *t, int64_t i) {
  return (Cell){t->value[i], t->bound[i], t->tainted[i]};
}
static inline void tensor_put(Tensor *t, int64_t i, Cell c) {
  t->value[i] = c.v;
  t->bound[i] = c.b;
  t->tainted[i] = c.t;
}

// -- eval_point.c --------------------------------------------------------------------------------

// Returns the result of pointwise node n for x[i], one element of each argument. arg_type[i] is the
// type of argument i.
Cell eval_scalar(const Graph *g, const Node *n, const Dtype *arg_type, const Cell *x);
// Returns the square root of x, rounded to type t.
Cell cell_sqrt(Dtype t, Cell x);
// Returns the maximum of x and y, or the minimum if `max` is false, with error bound and taint
// (uncertainty). The result is NaN if x or y is NaN.
Cell cell_extreme(Dtype t, bool max, Cell x, Cell y);

#endif
