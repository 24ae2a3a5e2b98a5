// Builds the kernels of a fusion, and lets the kernels of updates share launches
// (docs/decisions.md, 21). Updates run after the commit, the point of a step from which nothing may
// fail. A kernel of an update takes the size of its loop at run time, so that tensors of all sizes
// have equal kernels. Equal kernels that do not depend on one another get one launch number.
#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct LaunchCandidate {
  uint32_t level, group;
  const char *identity; // equal ones at the same address
} LaunchCandidate;

static int by_identity(const void *x, const void *y) {
  const LaunchCandidate *a = x, *b = y;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  int text = a->identity == b->identity ? 0 : strcmp(a->identity, b->identity);
  if (text) return text;
  return a->group < b->group ? -1 : a->group > b->group;
}

// Sets Group.launch, the number of the launch that runs the group's kernel. Two kernels after the
// commit share a launch if they have equal texts without names, and equal levels (update_levels).
// Kernels of equal level do not depend on each other.
static void launches_find(Arena *a, Fusion *f) {
  uint32_t *level = update_levels(a, f), n = 0, launch = 0;
  LaunchCandidate *c = arena_array(a, LaunchCandidate, f->ngroups + 1);
  KernelTexts *texts = kernel_texts_new(a);
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (f->after_commit[i] && f->group[i].kind == GROUP_KERNEL)
      c[n++] = (LaunchCandidate){level[i], i, kernel_text(texts, f->group[i].kernel->kernel)};
  qsort(c, n, sizeof *c, by_identity);
  for (uint32_t i = 0; i < n; i++) {
    bool same = i && c[i].level == c[i - 1].level && c[i].identity == c[i - 1].identity;
    if (!same) launch++;
    f->group[c[i].group].launch = launch;
  }
}

// Kernels by images (Kernel.images) are for CPUs: a GPU computes the gradient of a convolution's
// weights in tiles, like any other product.
void kernels_make(Arena *a, Fusion *f, const CodegenOptions *opt) {
  bool share = opt->fuse, images = !opt->gpu;
  Arena *scratch = arena_new();
  GroupDeps deps = group_deps(a, f);
  f->deps = arena_copy(a, &deps, sizeof deps);
  f->after_commit = groups_after_commit(a, f);
  loop_rows_find(a, f);
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (f->group[i].kind == GROUP_KERNEL)
      f->group[i].kernel =
          kernel_build(a, scratch, f, &f->group[i], share && f->after_commit[i], images);
  loop_rows_check(a, f);
  if (share) launches_find(scratch, f);
  arena_free(scratch);
}
