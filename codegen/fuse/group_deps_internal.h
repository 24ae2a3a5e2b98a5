// Dependences between the groups of a fusion. Private to the room.
#ifndef CODEGEN_GROUP_DEPS_H
#define CODEGEN_GROUP_DEPS_H

#include "codegen/values/values_internal.h"

// Group i reads values of groups on[at[i] .. at[i + 1]), ascending. Groups that do not execute,
// such as sources, are left out.
typedef struct GroupDeps {
  uint32_t *at; // ngroups + 1 entries
  uint32_t *on;
} GroupDeps;
GroupDeps group_deps(Arena *a, const Fusion *f);
bool group_executes(const Group *g);
// Returns the loop in which group g runs, 0: none. For a GROUP_LOOP it returns the loop that the
// group ends.
RegionId group_region(const Fusion *f, const Group *g);
// Returns for each group whether it runs after the commit. Such a group belongs to an update, and
// no group before the commit reads it.
bool *groups_post(Arena *a, const Fusion *f, const GroupDeps *deps);
// Returns for each group the length of the longest chain of post groups before it. Post groups of
// equal level are independent.
uint32_t *post_levels(Arena *a, const Fusion *f, const GroupDeps *deps, const bool *post);

#endif
