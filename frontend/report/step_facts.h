// The instructions of a step with what each computes, costs and why it ends. `explain --kernels`,
// `bench`, traces and JSON all print these facts.
#ifndef FRONTEND_STEP_FACTS_H
#define FRONTEND_STEP_FACTS_H

#include "frontend/driver/session.h"

// An instruction of a step. Bytes and flops are those of one run on one processor.
typedef struct StepFact {
  uint32_t instr;         // index in Program.instr
  const char *kind;       // "kernel", "product", "collective", "copy" ...
  const char *what;       // the same, but the kind of a collective: "all_reduce"
  const char *name;       // the value that names the instruction, or its operation
  const char *kernel;     // name of the kernel, or NULL
  const char *phase;      // "forward", "backward" or "update"
  const InstrValue *main; // the value that names the instruction, or NULL
  // Names of the values that it stores, and of those that it computes without storing them. Each
  // once.
  uint32_t nstored, ninside;
  const char **stored, **inside;
  Pos pos;
  int64_t bytes, written; // bytes that it reads and writes; those of them that it writes
  int64_t sent;           // bytes that a collective sends
  int64_t flops, runs;    // runs: how often a step runs it
  double predicted;       // seconds of a step
  double measured;        // the same, measured; below 0: unknown
  const char *limit;      // of limit_texts
  uint32_t nends;
  const struct StepEnd *end;
  uint32_t count; // number of instructions in a row of equal ones (step_rows); else 1
  uint32_t alike; // index of the first fact that is equal but for numbers of rounds
} StepFact;

// Why an instruction ends where it does: a reason, and the operations that read its values, but are
// no part of it for this reason. Of a collective: why its call has no more parts, and the value of
// the next one.
typedef struct StepEnd {
  const char *name, *why; // name in apart.def or bucket_ends.def; in words
  uint32_t n;
  const char **reader;
} StepEnd;

typedef struct StepFacts {
  Arena *a;
  const Compilation *made;
  const Diag *diag; // has the names of files
  const char *model;
  double seconds; // predicted time of the step
  uint32_t n;
  StepFact *at; // in the order of the program; loops have no entry
} StepFacts;

// Returns the facts of all instructions of a compiled step, with times from the simulation t. If e
// was profiled over `steps` steps, they have measured times, too; else e is NULL. All lives in the
// session's arena.
StepFacts *step_facts(const Session *s, const Compilation *c, const Simulation *t, const Exec *e,
                      int64_t steps);
// Returns the facts with equal instructions in one entry: those that differ only in numbers of
// rounds (layer.0.x, layer.1.x). Times are the sums of the entry, names have stars for numbers.
StepFacts *step_rows(const StepFacts *f);
// Return text in arena `a`: the names of the values ("layer.*.x, layer.*.y and 3 more"), or the
// operation and its line if there is none; the cost of one run ("reads 1.2 MiB, writes 4 B, 1.2
// MFLOP"); why it ends.
const char *step_values_text(Arena *a, const StepFact *x);
const char *step_cost_text(Arena *a, const StepFact *x);
const char *step_ends_text(Arena *a, const StepFact *x);
// Returns the text of `explain --kernels`. pattern: only instructions with a value of such a name;
// NULL: all. each: a line for each instruction, not one for equal ones. Returns NULL if there is no
// such instruction.
const char *step_facts_text(const StepFacts *f, const char *pattern, bool each);
// Returns a new JSON list of all instructions.
json_t *step_facts_json(const StepFacts *f);
// Returns a new JSON object with `reason`, the name of a reason in lower case, and `why`.
json_t *reason_json(Arena *a, const char *name, const char *why);
// Writes predicted time, limit and end of each instruction into the notes of the program, for
// traces.
void step_facts_note(const StepFacts *f);

#endif
