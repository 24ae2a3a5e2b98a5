// Small graphs over the whole op table: each op x type x variant (patterns of dims, constants,
// attributes) x kind of input, with seeded inputs. The suites share them: evaluator, compiled
// kernels, layouts.
#ifndef TESTS_SUITE_COMMON_OP_CASES_H
#define TESTS_SUITE_COMMON_OP_CASES_H

#include "ir/eval/eval.h"

typedef enum OpInputs {
  INPUTS_SMOOTH,  // distinct numbers inside the op's domain
  INPUTS_TIES,    // small whole numbers, many equal, many zero
  INPUTS_SPECIAL, // NaN, infinities, both zeros among them
  INPUTS_KINDS
} OpInputs;

typedef struct OpCase {
  const char *name; // "contract bf16 ab,bc over b, ties"
  Op op;
  Dtype type; // of the arguments
  OpInputs inputs;
  Graph *graph; // STAGE_GRAPH, outputs "y" first, then "grad x0", ...
  uint32_t nfeeds;
  EvalFeed *feeds; // all decls: arguments x0, x1, x2 and weights w
  NodeId y, loss;  // loss: sum of y * w, 0 when y or all arguments are no floats
  int ngrads;
  DeclId by[3]; // declarations that grad[i] belongs to
  NodeId grad[3];
} OpCase;

// Whether the op takes arguments of type t (take, where: those that are neither ids nor
// predicates).
bool op_takes(Op op, Dtype t);
int op_case_count(void);
// Builds case i, 0 <= i < op_case_count(). False when the op refuses what it should take: a fault.
// dims may be shared by all cases: their dims are added once.
MUST_USE bool op_case_build(Arena *a, DimTable *dims, const Mesh *mesh, int i, OpCase *out);

// Every op and type that the op takes, of those that are not in seen[op][type]: "exp f32, exp f16";
// NULL: none. `training`, which is folded when a graph is selected, and collectives, which no whole
// graph has, take none.
const char *op_cases_missing(Arena *a, bool (*seen)[TYPE_COUNT]);

// n numbers of type t for argument `arg` of op, as the cases draw them.
void op_case_draw(Op op, int arg, Dtype t, OpInputs kind, uint64_t seed, int64_t n, double *out);

#endif
