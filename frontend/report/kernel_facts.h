// The kernels of a step with their cost, for the page of `explain` and for the fuse stage in DOT.
#ifndef FRONTEND_KERNEL_FACTS_H
#define FRONTEND_KERNEL_FACTS_H

#include "frontend/driver/session.h"

// What a user is shown of a fusion group (operations in one kernel). Bytes and flops are those of
// one run on one processor, as in `bench`. For a collective, bytes are those that it sends.
// `rounds` is how often a step runs the group, and `seconds` the predicted time of all these runs.
typedef struct KernelFact {
  const char *value; // values that the group stores: "hidden", "grad(w), grad(v)", "a, b, ..."
  const char *names; // the same without a word for the backward pass; "" if none has a name
  const char *of;    // the last of these values, without grad(); NULL: none has a name
  const char *kind;  // "kernel", "product", or the kind of collective
  const char *cost;  // "moves 1.2 MiB, saves 3.0 MiB, 1.2 MFLOP, 12 us"
  bool backward, update;
  int64_t bytes, saved, flops, rounds;
  double seconds;
  uint32_t together; // number of groups that one instruction runs; `seconds` is for all of them
} KernelFact;

// Returns true if the fusion group has an instruction in the program: only such groups are drawn. c
// must be compiled up to the program.
bool kernel_runs(const Compilation *c, uint32_t group);
// Returns the facts that users are shown of a fusion group, with times from the simulation t. The
// facts live in arena a.
KernelFact kernel_fact(Arena *a, const Compilation *c, const Simulation *t, uint32_t group);
// Returns why the fusion group was not fused with other groups, or "" if no reason is known. The
// text lists group numbers and reasons: "#5: a reduction runs over other loops than the rest; #7:
// ...".
const char *kernel_apart(Arena *a, const Compilation *c, uint32_t group);
// Returns the fusion groups whose values the group reads, in ascending order, in the arena `a`. *n
// gets their number. A group without an instruction only renames values. The result has the groups
// that such a group reads instead of the group itself.
uint32_t *kernel_sources(Arena *a, const Compilation *c, uint32_t group, uint32_t *n);
// Returns true if node n is drawn, which is so for all operations except constants.
bool kernel_shows(const Compilation *c, NodeId n);

// -- kernel_ends.c
// A group that reads a value of another one, and why the two are not one kernel.
typedef struct KernelReader {
  uint32_t group;
  ApartReason why;
} KernelReader;
// The readers of all groups: those of group i are reader[at[i] .. at[i + 1]).
typedef struct KernelReaders {
  uint32_t *at;
  KernelReader *reader;
} KernelReaders;
KernelReaders *kernel_readers(Arena *a, const Compilation *c);
// Returns why the fusion group ends where it does: the groups that read its values, ordered by the
// reason that keeps each apart. If nothing reads them, the only entry is the group itself. *n gets
// their number.
KernelReader *kernel_ends(Arena *a, const Compilation *c, const KernelReaders *r, uint32_t group,
                          uint32_t *n);

// kernel_dot.c: returns the fuse stage as DOT, grouped by scope if it has many operations.
char *kernels_dot(Session *s, const Compilation *c);

#endif
