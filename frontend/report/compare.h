// Compares two compiled steps: under two layouts, meshes or machines, or of two models. Collectives
// and kernels are matched by the value that they move or compute, and only what differs is shown.
#ifndef FRONTEND_COMPARE_H
#define FRONTEND_COMPARE_H

#include "frontend/report/explain.h"

enum { SIDES = 2 }; // 0: the step that is explained; 1: the one that it is compared with

// A figure of both steps, such as the bytes sent.
typedef struct ComparedFigure {
  const char *name;                     // "bytes sent"
  const char *(*text)(Arena *, double); // how an amount is written
  double of[SIDES];
} ComparedFigure;

// What is done for one value in both steps: the collectives that move it, or the kernels that
// compute it. Values of all rounds of a loop are one entry, with a star for the round. A call that
// moves several values counts once for each of them, with their shares of its bytes and time.
typedef struct ComparedValue {
  const char *value; // "layer.*.x"
  const char *phase; // "forward", "backward" or "update"
  struct {
    const char *how; // "all_reduce over cols x2", "kernel"; NULL: nothing is done
    int64_t calls, bytes;
    double seconds;
  } of[SIDES];
} ComparedValue;

typedef struct ComparedValues {
  uint32_t nequal;           // number of values that do not differ
  VEC(ComparedValue) differ; // the others, most different time first
} ComparedValues;

struct Comparison {
  const Explain *side[SIDES];
  const char *title[SIDES]; // model, mesh, layout and machine of a step; only what differs
  uint32_t nfigures;
  ComparedFigure *figure;
  ComparedValues moved, kernels;
  const char *peak[SIDES]; // the values with the most bytes at the peak of memory
};

// Compiles the step that --against describes, and sets e->against to the comparison with the step
// of e. Returns false after an error. In frontend/command/explain_against.c.
MUST_USE bool explain_against(Session *s, Explain *e);
// If --machine is given twice and --against is not, lets the last one stand for `--against
// "--machine FILE"`. To be called before the model is loaded.
void explain_two_machines(Session *s);
// Compares two steps. The result and its texts are in arena `a`.
Comparison *compare_steps(Arena *a, const Explain *const of[SIDES]);
// Returns the comparison as text; with `all`, all values that differ.
char *compare_text(Arena *a, const Comparison *c, bool all);
// Returns what `explain NAME` prints for a value of this step and for the value of that name in the
// other.
char *compare_value_text(Arena *a, const Comparison *c, int value);
// Returns the same for a pattern, such as layer.*.x: what `explain` prints for it of each step.
const char *compare_pattern_text(Arena *a, const Comparison *c, const char *pattern);
// Returns the comparison as a new JSON object.
json_t *compare_json(const Comparison *c);

#endif
