// Chooses the order of execution: before the commit everything that may fail, after it the updates.
//
// Before the commit it is a list schedule: the next group is one of those that are ready, with the
// best priority. A micro-batch (`accumulate`) begins when the one before it is done, so that only
// one has its values in memory; what follows holds within each. Among several it is the one that
// makes memory grow least, and then the earlier one. Rematerialised groups and gathers of
// parameters have a worse priority: they run when nothing else is ready, in the order of their
// first use, also that by others of them, so that few layers have theirs at once. Worst of all,
// sums over processors that the backward pass does not need run at the end, where all processors
// meet anyway. An example is the sum of a loss that is only shown. If collectives overlap with
// computation:
//
//   - A sum over processors (all-reduce, reduce-scatter) begins as soon as it can.
//   - Groups that need such a sum wait. The link between processors then has the time of the
//     backward pass of earlier layers for the sum. Waiting costs no memory: such
//     gradients are live until the commit anyway.
//   - A gather begins before the first user of the previous gather, so that the link works during
//     that user.
//
// After the commit groups are ordered by levels, so that equal kernels of one level share a launch.
// Updates that read large gradients do not wait for the others: the commit comes as soon as nothing
// that may fail and no output is left, and such an update then runs right after the last group that
// reads what it overwrites. So its gradient is still in the caches, and its memory is free again.
//
// The groups of a loop are contiguous and end with its GROUP_LOOP. The first of them is taken when
// everything that the loop reads from outside is done; other groups then wait for the loop's end.
#include "codegen/program/schedule_internal.h"

#include <stdlib.h>

// -- before the commit --------------------------------------------------------------------------

static void wait_less(ListScheduler *l, uint32_t i, uint32_t update) {
  (void)i;
  if (!--l->waits[update]) ready_add(l, update);
  if (l->waits[update] == 1) ready_last_reader(l, update);
}

static void take_group(ListScheduler *l, Schedule *s, uint32_t g) {
  if (l->early[g] && !s->commit) s->commit = s->n;
  s->group[s->n++] = g;
  l->done[g] = true;
  l->nfixed -= l->fixed[g];
  l->nothers -= !l->f->after_commit[g];
  l->open = l->region[g];
  if (l->f->group[g].kind == GROUP_LOOP) l->open = region_get(l->f->graph, l->open)->parent;
  count_left(l, g, UINT32_MAX);
  for (uint32_t j = l->deps->at[g]; j < l->deps->at[g + 1]; j++) l->readers[l->deps->on[j]]--;
  for (uint32_t j = l->user_at[g]; j < l->user_at[g + 1]; j++) {
    uint32_t user = l->user[j];
    if (!is_listed(l, user)) continue;
    count_loop_waits(l, user, g, UINT32_MAX);
    wait_less(l, g, user);
  }
  visit_overwritten(l, g, wait_less);
  ready_update(l, g);
}

// Lists all groups but the updates, and the early updates that may run before the last of them.
static void list_groups(ListScheduler *l, Schedule *s) {
  for (uint32_t i = 0; i < l->f->ngroups; i++)
    if (is_listed(l, i) && !l->waits[i]) ready_add(l, i);
  while (l->nothers) take_group(l, s, ready_take(l));
}

// Returns the index in s->group of the first group that reads a value of group g, among those from
// index `from` to end - 1. Returns `end` if none of these groups does.
static uint32_t first_user(const ListScheduler *l, const Schedule *s, uint32_t g, uint32_t from,
                           uint32_t end) {
  for (uint32_t at = from; at < end; at++)
    for (uint32_t j = l->user_at[g]; j < l->user_at[g + 1]; j++)
      if (l->user[j] == s->group[at]) return at;
  return end;
}

// Returns the smallest index in s->group, at least `from`, to which the group at index p may move.
// The group must stay in its loop and after the groups whose values it reads.
static uint32_t earliest(const ListScheduler *l, const Schedule *s, uint32_t p, uint32_t from) {
  uint32_t g = s->group[p], at = p;
  for (; at > from && l->region[s->group[at - 1]] == l->region[g]; at--)
    for (uint32_t j = l->deps->at[g]; j < l->deps->at[g + 1]; j++)
      if (l->deps->on[j] == s->group[at - 1]) return at;
  return at;
}

static bool is_gather(const Fusion *f, const Group *g) {
  return g->kind == GROUP_COLLECTIVE && graph_node(f->graph, g->node[0])->op == OP_ALL_GATHER;
}

// Moves each gather (a collective) to the place before the first user of the previous gather, so
// that its transfer overlaps with computation. If the operands of the gather are computed later, it
// moves as near to that place as they allow.
static void advance_gathers(const ListScheduler *l, Schedule *s) {
  uint32_t before = s->n; // index of the previous gather
  for (uint32_t p = 0; p < s->n; p++) {
    uint32_t g = s->group[p], to = p;
    if (!is_gather(l->f, &l->f->group[g])) continue;
    if (before < s->n) to = earliest(l, s, p, first_user(l, s, s->group[before], before + 1, p));
    for (uint32_t at = p; at > to; at--) s->group[at] = s->group[at - 1];
    s->group[to] = g;
    before = to;
  }
}

// -- after the commit -----------------------------------------------------------------------------

typedef struct UpdateGroup {
  uint32_t level, launch, group;
} UpdateGroup;

static int by_level(const void *x, const void *y) {
  const UpdateGroup *a = x, *b = y;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  if (a->launch != b->launch) return a->launch < b->launch ? -1 : 1;
  return a->group < b->group ? -1 : a->group > b->group;
}

// Lists the updates that are not listed yet.
static void list_updates(Arena *a, const ListScheduler *l, Schedule *s) {
  const Fusion *f = l->f;
  uint32_t *level = update_levels(a, f), n = 0;
  UpdateGroup *late = arena_array(a, UpdateGroup, f->ngroups + 1);
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (f->after_commit[i] && !l->done[i])
      late[n++] = (UpdateGroup){level[i], f->group[i].launch, i};
  qsort(late, n, sizeof *late, by_level);
  if (!s->commit) s->commit = s->n;
  for (uint32_t i = 0; i < n; i++) s->group[s->n++] = late[i].group;
}

Schedule schedule_make(Arena *a, const Fusion *f, bool overlap) {
  Schedule s = {.group = arena_array(a, uint32_t, f->ngroups + 1)};
  s.position = arena_array(a, uint32_t, f->ngroups + 1);
  ListScheduler l = {.a = a, .f = f, .deps = f->deps};
  scheduler_make(a, &l, overlap);
  list_groups(&l, &s);
  if (overlap) advance_gathers(&l, &s);
  list_updates(a, &l, &s);
  uint32_t expected = 0;
  for (uint32_t i = 0; i < f->ngroups; i++) expected += group_executes(&f->group[i]);
  if (s.n != expected) BUG("%u of %u groups can be scheduled", s.n, expected);
  for (uint32_t i = 0; i < s.n; i++) {
    const Group *g = &f->group[s.group[i]];
    bool shares = i > s.commit && g->launch && f->group[s.group[i - 1]].launch == g->launch;
    s.position[s.group[i]] = shares ? s.position[s.group[i - 1]] : i;
  }
  return s;
}
