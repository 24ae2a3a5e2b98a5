// Which groups of a fusion wait for which. Private to the room.
#ifndef CODEGEN_GROUP_DEPS_H
#define CODEGEN_GROUP_DEPS_H

#include "codegen/memory/memory_internal.h"

// Groups whose values group i reads, ascending, without those already in memory.
typedef struct GroupDeps {
  uint32_t *at; // ngroups + 1
  uint32_t *on;
} GroupDeps;
GroupDeps group_deps(Arena *a, const Fusion *f);
bool group_executes(const Group *g);
// The loop in which the group runs, 0: none; of a GROUP_LOOP the loop that it ends.
RegionId group_region(const Fusion *f, const Group *g);
// Whether the group belongs to an update and nothing before the commit needs it.
bool *groups_post(Arena *a, const Fusion *f, const GroupDeps *deps);
// Steps from the first post group: post groups of one level do not depend on one another.
uint32_t *post_levels(Arena *a, const Fusion *f, const GroupDeps *deps, const bool *post);

#endif
