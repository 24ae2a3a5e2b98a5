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
// Returns for each group whether it is a post group: it runs after the commit, the point of a step
// from which nothing may fail. It belongs to an update, and no group before the commit reads it.
bool *groups_post(Arena *a, const Fusion *f, const GroupDeps *deps);
// Returns for each group the length of the longest chain of post groups before it. Post groups of
// equal level are independent.
uint32_t *post_levels(Arena *a, const Fusion *f, const GroupDeps *deps, const bool *post);

#endif
