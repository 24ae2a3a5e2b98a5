// The tables of the fields of a GpuLaunches, for pack.c, and the check of what was read.
#include "ir/program/gpu.h"
#include "ir/program/pack_fields.h"

#include <stdio.h>

enum { MOST_THREADS = 1024, MOST_SHARED = 1 << 20, MOST_PARTS = 1 << 20 };

static const PackField entry_fields[] = {
    TEXT(GpuEntry, run),
    TEXT(GpuEntry, combine),
    INT(GpuEntry, threads, 32, MOST_THREADS),
    INT(GpuEntry, combine_threads, 0, MOST_THREADS),
    SIZED(GpuEntry, grain),
    COUNT(GpuEntry, phases, 1 << GPU_PHASE_BIT),
    COUNT(GpuEntry, parts, MOST_PARTS),
    COUNT(GpuEntry, shared, MOST_SHARED),
    COUNT(GpuEntry, combine_shared, MOST_SHARED),
    SIZED(GpuEntry, combine_blocks),
    SIZED(GpuEntry, scratch),
};
static RECORD(GpuEntry, entry);

static const PackField kernels_fields[] = {COUNT(GpuPartKernels, first, UINT32_MAX),
                                           COUNT(GpuPartKernels, second, UINT32_MAX)};
static RECORD(GpuPartKernels, kernels);

static const PackField launches_fields[] = {
    COUNT(GpuLaunches, nentries, UINT32_MAX),
    COUNT(GpuLaunches, nparts, UINT32_MAX),
    COUNT(GpuLaunches, njoins, UINT32_MAX),
    LIST(GpuLaunches, entry, nentries, entry),
    LIST(GpuLaunches, part, nparts, kernels),
    BY_RULE(GpuLaunches, join, INT, MEMBER, COUNTED(GpuLaunches, njoins), .n = 1, .low = 0,
            .high = UINT32_MAX),
};
const PackRecord pack_of_launches = {"GpuLaunches", sizeof(GpuLaunches), countof(launches_fields),
                                     launches_fields};

bool launches_sound(const GpuLaunches *l, const Program *p, char *why) {
  const char *wrong = NULL;
  if (l->njoins && (l->njoins != p->ninstrs || !l->join))
    wrong = "has not one join for each instruction";
  for (uint32_t i = 0; i < l->njoins && !wrong; i++)
    if (l->join[i] > p->ninstrs) wrong = "joins behind the program";
  if (l->nentries != p->nkernels || (l->nentries && !l->entry))
    wrong = "has not one entry for each kernel";
  for (uint32_t i = 0; i < l->nentries && !wrong; i++) {
    const GpuEntry *e = &l->entry[i];
    if (!e->run || e->threads % 32) wrong = "has a kernel without a name, or with a part of a warp";
    if (e->combine && (e->combine_threads % 32 || !e->combine_threads))
      wrong = "combines by a part of a warp";
  }
  if (wrong) snprintf(why, PACK_WHY, "%s", wrong);
  return !wrong;
}
