// Dependences between the groups of a fusion. Private to the room.
#ifndef CODEGEN_GROUP_DEPS_H
#define CODEGEN_GROUP_DEPS_H

#include "codegen/values/values_internal.h"

// Group i depends on groups on[at[i] .. at[i + 1]), ascending: it reads their values. Groups that
// do not execute, such as sources, are left out.
typedef struct GroupDeps {
  uint32_t *at; // ngroups + 1 entries: indices into `on`
  uint32_t *on; // indices into Fusion.group
} GroupDeps;
GroupDeps group_deps(Arena *a, const Fusion *f);
bool group_executes(const Group *g);
// Returns the loop in which group g runs, 0: none. For a GROUP_LOOP it returns the loop that the
// group ends.
RegionId group_region(const Fusion *f, const Group *g);
// Returns for each group whether it runs after the commit, the point of a step from which nothing
// may fail: it belongs to an update, and no group before the commit reads it. f->deps must be set.
bool *groups_after_commit(Arena *a, const Fusion *f);
// Returns for each group after the commit the number of such groups in the longest chain of
// dependences before it. Groups of equal level are independent.
uint32_t *update_levels(Arena *a, const Fusion *f);

#endif
