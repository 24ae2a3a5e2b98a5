// What the files of the schedule share: schedule_facts.c gathers what it must know of each group,
// early_updates.c finds the updates that need not wait for the others, schedule.c lists the groups.
#ifndef CODEGEN_SCHEDULE_H
#define CODEGEN_SCHEDULE_H

#include "codegen/program/program_internal.h"

// The priority of a group in the schedule. Among the groups whose arguments are ready, one with the
// smallest number is taken next.
typedef enum Priority {
  PRIORITY_SUM, // a sum over processors, if collectives overlap with computation
  PRIORITY_NORMAL,
  PRIORITY_NEEDS_SUM, // a group that reads the result of such a sum
  PRIORITY_LATE,      // a group that is recomputed for the backward pass, or a gather of parameters
  PRIORITY_LAST,      // such a sum that the backward pass does not need, without overlap
} Priority;

// A group that waits for no other group, with its place among those.
typedef struct ReadyGroup {
  uint32_t part; // its micro-batch: the first of all comes first, whatever its priority
  Priority priority;
  int64_t rank; // by how many bytes the memory in use grows when it runs; PRIORITY_LATE: see
                // ListScheduler.needed, because these groups run in the order of first use
  uint32_t group;
} ReadyGroup;
// A binary heap, the group to take next first. A group may be in it several times: only the entry
// with its present `rank` counts.
typedef VEC(ReadyGroup) ReadyHeap;

typedef struct ListScheduler {
  Arena *a;
  const Fusion *f;
  const GroupDeps *deps;
  uint32_t *waits;           // by group: number of groups that it still waits for
  uint32_t *readers;         // by group: number of groups that will still read it
  uint32_t *user_at, *user;  // the readers of group i: user[user_at[i] .. user_at[i + 1])
  int64_t *bytes;            // by group: bytes of the values that it stores
  bool *kept;                // by group: a value of it is an output
  bool *backward;            // by group: the backward pass has it or needs it
  bool *standing, *gathered; // by group, see find_standing
  uint8_t *priority;         // by group: its Priority
  NodeId *needed;            // by group of PRIORITY_LATE: its place in their order, see find_needed
  uint32_t *part;            // by group: its micro-batch, see find_parts; NULL: a step has only one
  RegionId *region;          // by group: the loop in which it runs, 0: none
  uint32_t *loop_waits; // by loop: how often its groups read groups outside that are still to come
  uint32_t *left;       // by loop: number of its groups still to come, without its GROUP_LOOP
  RegionId open;        // the loop whose groups are being taken, 0: none
  ReadyHeap *ready;     // by loop: its groups that wait for no other group
  VEC(RegionId) some;   // the loops that have such groups and wait for nothing, and maybe others
  bool *has_some;       // by loop: it is in `some`
  uint32_t *loop_end;   // by loop: 1 + its GROUP_LOOP, if that waits only for groups of the loop
  VEC(uint32_t) held;   // early updates that wait only for the commit
  bool *done;           // by group: it is in the schedule
  bool *early;          // by group: an update that need not wait for the end of the backward pass
  bool *fixed;          // by group: it runs before the commit in any case
  uint32_t *overwriter; // by node: 1 + the early update that overwrites it, 0: none
  uint32_t nfixed;      // number of fixed groups still to come
  uint32_t nothers;     // number of groups still to come that are no updates
} ListScheduler;

// -- schedule_facts.c
// Fills l, of which `a`, `f` and `deps` are set. overlap: collectives run beside computation.
void scheduler_make(Arena *a, ListScheduler *l, bool overlap);
// Adds `by` to loop_waits[r] of each loop r that contains group i but does not contain group `on`.
void count_loop_waits(ListScheduler *l, uint32_t i, uint32_t on, uint32_t by);
// Adds `by` to left[r], the number of groups not yet scheduled, of each loop r around group i.
void count_left(ListScheduler *l, uint32_t i, uint32_t by);

// -- ready_groups.c
// Adds group i, which waits for no other group, to the groups that may be taken.
void ready_add(ListScheduler *l, uint32_t i);
// Tells that loop r waits for no group outside any more.
void ready_list(ListScheduler *l, RegionId r);
// Removes the group to take next from those that may be taken, and returns it.
uint32_t ready_take(ListScheduler *l);
// Tells that group g was taken, after all counts of l have been changed: groups that waited for the
// end of a loop or for the commit may be taken now, and others now free more memory.
void ready_update(ListScheduler *l, uint32_t g);
// Tells that `update` waits for one group only, which may now be better to take than before.
void ready_last_reader(ListScheduler *l, uint32_t update);
// Returns whether group i is to be listed before the other updates.
bool is_listed(const ListScheduler *l, uint32_t i);

// -- early_updates.c
// Sets `fixed`, `nfixed` and `nothers` of l.
void find_fixed(Arena *a, ListScheduler *l);
// Finds the early updates, and lets them wait for the groups that read what they overwrite.
void find_early(Arena *a, ListScheduler *l);
// Calls `visit` for each operand of group i that an early update overwrites, with that update.
void visit_overwritten(ListScheduler *l, uint32_t i,
                       void (*visit)(ListScheduler *l, uint32_t i, uint32_t update));

#endif
