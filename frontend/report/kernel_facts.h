// The kernels of a step with their cost, for the page of `explain` and the dot form of the fuse
// stage.
#ifndef FRONTEND_KERNEL_FACTS_H
#define FRONTEND_KERNEL_FACTS_H

#include "frontend/driver/session.h"

// A group of the fusion as a user sees it. Bytes and flops are those of one run by one processor,
// as `bench` has them, of a collective the bytes that it sends; seconds are those of all rounds of
// a step, as the simulator predicts them.
typedef struct KernelFact {
  const char *value; // that it stores: "hidden", "grad(w), grad(v)", "8 values: a, b, ..."
  const char *of;    // the last of them, without grad(); or NULL
  const char *kind;  // "kernel", "product", or the kind of collective
  const char *cost;  // "moves 1.2 MiB, saves 3.0 MiB, 1.2 MFLOP, 12 us"
  bool backward, update;
  int64_t bytes, saved, flops, rounds;
  double seconds;
  uint32_t together; // groups of the same launch, which `seconds` is of
} KernelFact;

// c is compiled up to the program. Whether the group is drawn: it runs something.
bool kernel_runs(const Compilation *c, uint32_t group);
KernelFact kernel_fact(Arena *a, const Compilation *c, const Simulation *t, uint32_t group);
// Why it is a kernel of its own: "#5: a reduction runs over other loops than the rest; ...", or "".
const char *kernel_apart(Arena *a, const Compilation *c, uint32_t group);
// Groups that run something and whose values it reads, through groups that only rename; ascending.
uint32_t *kernel_sources(Arena *a, const Compilation *c, uint32_t group, uint32_t *n);
// Operations that are shown: all but numbers.
bool kernel_shows(const Compilation *c, NodeId n);

// kernel_dot.c: the fuse stage in DOT, grouped by scope when it has many operations.
char *kernels_dot(Session *s, const Compilation *c);

#endif
