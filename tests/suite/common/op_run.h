// What suites share that compile the cases of op_cases.h and compare them with the evaluator.
#ifndef TESTS_SUITE_COMMON_OP_RUN_H
#define TESTS_SUITE_COMMON_OP_RUN_H

#include "codegen/codegen.h"
#include "tests/suite/common/op_cases.h"

// Takes case number i. `only`: the text of op_run_cases. What it allocates in a is freed after it.
typedef void OpTake(Arena *a, const OpCase *c, int i, const char *only);
// Passes all cases to `take`, in order. A case that cannot be built counts as failed.
void op_run_cases(OpTake *take, const char *only);
void op_run_count(bool passed); // counts a result
// Prints the line with the numbers of results. Returns the exit code of the suite.
int op_run_end(void);
int op_run_skip(void); // the same for a suite that cannot run at all

// Compiles a graph for one processor.
Compiled *op_run_compile(Arena *a, const Graph *g, bool fused);

// How a case exchanges values with what runs its program.
typedef struct OpRunner {
  void *context;
  // Writes the elements of a tensor, which the program may lack.
  void (*write)(void *context, TensorKind kind, const Decl *d, const EvalFeed *feed);
  // Reads an output of type and size of `want`. Returns false if the program lacks it.
  bool (*read)(void *context, const Output *o, const Tensor *want, double *got);
} OpRunner;
void op_run_feed(const OpRunner *r, const OpCase *c);
// Compares all outputs with the values in `truth`. Prints each that is wrong, after `label`.
// Returns whether none is.
bool op_run_compare(Arena *a, const OpRunner *r, const OpCase *c, const Eval *truth,
                    const char *label);

#endif
