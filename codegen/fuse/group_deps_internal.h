// Finds which groups of a fusion read values of which others. Private to the room.
#ifndef CODEGEN_GROUP_DEPS_H
#define CODEGEN_GROUP_DEPS_H

#include "codegen/values/values_internal.h"

// Group i reads values of the groups on[at[i] .. at[i + 1]), ascending. Groups that do not execute,
// such as sources, are left out.
typedef struct GroupDeps {
  uint32_t *at; // ngroups + 1 entries: indices into `on`
  uint32_t *on; // indices into Fusion.group
} GroupDeps;
GroupDeps group_deps(Arena *a, const Fusion *f);
bool group_executes(const Group *g);
// Returns the loop in which group g runs, 0: none. For a group that ends a loop (GROUP_LOOP) it
// returns the loop that the group ends.
RegionId group_region(const Fusion *f, const Group *g);
// Returns for each group whether it runs after the commit, the point of a step from which nothing
// may fail: it belongs to an update, and neither outputs nor groups before the commit read it.
// f->deps must be set.
bool *groups_after_commit(Arena *a, const Fusion *f);
// Returns for each group after the commit its level: the number of groups after the commit in the
// longest chain of groups before it, each of which reads the one before. Groups of equal level are
// independent.
uint32_t *update_levels(Arena *a, const Fusion *f);

#endif
