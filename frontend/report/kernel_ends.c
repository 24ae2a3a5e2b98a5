// Finds why a kernel ends where it does: the groups that read its values, each with the reason for
// which fusion did not make it a part of the kernel.
#include "frontend/report/kernel_facts.h"

#include <stdlib.h>

KernelReaders *kernel_readers(Arena *a, const Compilation *c) {
  const Fusion *f = c->fusion;
  KernelReaders *out = arena_new_of(a, KernelReaders);
  out->at = arena_array(a, uint32_t, f->ngroups + 2);
  for (uint32_t i = 0; i < f->ngroups; i++)
    for (uint32_t k = 0; k < f->group[i].nrefusals; k++)
      out->at[f->group[i].refusal[k].group + 2]++;
  for (uint32_t i = 2; i < f->ngroups + 2; i++) out->at[i] += out->at[i - 1];
  out->reader = arena_array(a, KernelReader, out->at[f->ngroups + 1] + 1);
  for (uint32_t i = 0; i < f->ngroups; i++)
    for (uint32_t k = 0; k < f->group[i].nrefusals; k++) {
      const MergeRefusal *r = &f->group[i].refusal[k];
      out->reader[out->at[r->group + 1]++] = (KernelReader){i, r->why};
    }
  return out;
}

typedef VEC(KernelReader) ReaderList;

// Adds the groups that read values of `group`. A group without an instruction only renames values:
// those that read it count, too, with the reason that keeps it apart. why: that reason for readers
// of such a group, else NULL.
static void add_readers(Arena *a, const Compilation *c, const KernelReaders *r, uint32_t group,
                        const ApartReason *why, ReaderList *out) {
  for (uint32_t i = r->at[group]; i < r->at[group + 1]; i++) {
    KernelReader one = r->reader[i];
    if (why) one.why = *why;
    if (kernel_runs(c, one.group) || c->fusion->group[one.group].kind == GROUP_LOOP)
      vec_push(a, *out) = one;
    else
      add_readers(a, c, r, one.group, &one.why, out);
  }
}

static int by_reason(const void *x, const void *y) {
  const KernelReader *a = x, *b = y;
  if (a->why != b->why) return a->why < b->why ? -1 : 1;
  return (a->group > b->group) - (a->group < b->group);
}

// Returns why nothing has to read the values of the group.
static ApartReason unread(const Compilation *c, uint32_t group) {
  const Group *g = &c->fusion->group[group];
  NodeId first = g->nstored ? g->stored[0] : g->node[0];
  if (c->fusion->update[first]) return APART_STORED;
  return graph_node(c->fusion->graph, first)->region ? APART_CARRIED : APART_RESULT;
}

KernelReader *kernel_ends(Arena *a, const Compilation *c, const KernelReaders *r, uint32_t group,
                          uint32_t *n) {
  ReaderList found = {0};
  add_readers(a, c, r, group, NULL, &found);
  if (!found.n) vec_push(a, found) = (KernelReader){group, unread(c, group)};
  qsort(found.at, found.n, sizeof *found.at, by_reason);
  *n = 0;
  for (uint32_t i = 0; i < found.n; i++)
    if (!i || by_reason(&found.at[i - 1], &found.at[i])) found.at[(*n)++] = found.at[i];
  return found.at;
}
