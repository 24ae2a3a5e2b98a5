// Small graphs over the whole op table: each op, type and variant (patterns of dims, constants,
// attributes) with each kind of input, seeded. The suites for the evaluator, compiled kernels and
// layouts share them.
#ifndef TESTS_SUITE_COMMON_OP_CASES_H
#define TESTS_SUITE_COMMON_OP_CASES_H

#include "ir/eval/eval.h"

typedef enum OpInputs {
  INPUTS_SMOOTH,  // distinct numbers inside the op's domain
  INPUTS_TIES,    // small whole numbers, many equal, many zero
  INPUTS_SPECIAL, // contain NaN, infinities and both zeros
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
  NodeId y, loss;  // loss: sum of y * w; 0 when y or all arguments are not floats
  int ngrads;
  DeclId by[3]; // declarations that grad[i] belongs to
  NodeId grad[3];
} OpCase;

// Returns true if the op takes arguments of type t. For take and where this is the type of the
// values, not of ids or predicates.
bool op_takes(Op op, Dtype t);
int op_case_count(void);
// Builds case i, 0 <= i < op_case_count(), in *out. Returns false when the op refuses the
// arguments, which is a fault. All cases may share `dims`: it gets their dims once.
MUST_USE bool op_case_build(Arena *a, DimTable *dims, const Mesh *mesh, int i, OpCase *out);

// Returns the ops and types that the op takes but that are not in seen[op][type], as "exp f32, exp
// f16"; NULL: none. `training`, which selection folds, and collectives, which no whole graph has,
// are not listed.
const char *op_cases_missing(Arena *a, bool (*seen)[TYPE_COUNT]);

// Draws n numbers of type t for argument `arg` of op, as the cases do.
void op_case_draw(Op op, int arg, Dtype t, OpInputs kind, uint64_t seed, int64_t n, double *out);

#endif
