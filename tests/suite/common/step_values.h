// Values of a step of a program that was made from a layout case: its inputs, and its outputs
// beside those that the evaluator expects.
#ifndef TESTS_SUITE_COMMON_STEP_VALUES_H
#define TESTS_SUITE_COMMON_STEP_VALUES_H

#include "codegen/codegen.h"
#include "ir/eval/expect.h"
#include "runtime/runtime.h"
#include "tests/suite/common/layout_cases.h"

// Writes the feeds of m to e, whose program is p.
void step_give(Maker *m, Exec *e, const Program *p);

// One output after the step: its expected value, and its bytes.
typedef struct StepValue {
  const char *name;
  Tensor *want;
  size_t bytes;
  void *data;
} StepValue;

// Reads output i of the graph that `truth` evaluates.
StepValue step_value(Maker *m, Exec *e, Expect *truth, uint32_t i);
// Compares n outputs with their expected values. Evaluates `truth` more often where rounding may
// decide a value; `step` is the number of the step. Returns NULL, layout_vacuous, or what is wrong.
const char *step_judge(Maker *m, Expect *truth, int64_t step, uint32_t n, StepValue *value);
// Returns the name of the first of n outputs whose bytes differ, or NULL.
const char *step_differs(const StepValue *a, const StepValue *b, uint32_t n);

#endif
