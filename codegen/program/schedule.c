// Chooses the order of execution: before the commit everything that may fail, after it the updates.
//
// Before the commit it is a list schedule: the next group is one of those that are ready, with the
// best priority. Among several it is the one that makes memory grow least, and then the earlier
// one. Rematerialised groups have a worse priority: they run when nothing else is ready. Worst of
// all, sums over processors that the backward pass does not need run at the end, where all
// processors meet anyway. An example is the sum of a loss that is only shown. If collectives
// overlap with computation:
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
#include "codegen/program/program_internal.h"

#include <stdlib.h>

// -- before the commit --------------------------------------------------------------------------

// The priority of a group in the schedule. Among the groups whose arguments are ready, one with the
// smallest number is taken next.
typedef enum Priority {
  PRIORITY_SUM, // a sum over processors, if collectives overlap with computation
  PRIORITY_NORMAL,
  PRIORITY_NEEDS_SUM, // a group that reads the result of such a sum
  PRIORITY_REMAT,     // a group that is recomputed for the backward pass
  PRIORITY_LAST,      // such a sum that the backward pass does not need, without overlap
} Priority;

enum { LARGE_GRADIENT = 4 << 20 }; // bytes of gradients that make an update an early one

typedef struct ListScheduler {
  Arena *a;
  const Fusion *f;
  const GroupDeps *deps;
  uint32_t *waits;          // by group: number of groups that it still waits for
  uint32_t *readers;        // by group: number of groups that will still read it
  uint32_t *user_at, *user; // the readers of group i: user[user_at[i] .. user_at[i + 1])
  int64_t *bytes;           // by group: bytes of the values that it stores
  bool *kept;               // by group: a value of it is an output
  bool *backward;           // by group: the backward pass has it or needs it
  uint8_t *priority;        // by group: its Priority
  RegionId *region;         // by group: the loop in which it runs, 0: none
  uint32_t *loop_waits; // by loop: how often its groups read groups outside that are still to come
  uint32_t *left;       // by loop: number of its groups still to come, without its GROUP_LOOP
  RegionId open;        // the loop whose groups are being taken, 0: none
  VEC(uint32_t) ready;  // groups that wait for no other group
  bool *done;           // by group: it is in the schedule
  bool *early;          // by group: an update that need not wait for the end of the backward pass
  bool *fixed;          // by group: it runs before the commit in any case
  uint32_t *overwriter; // by node: 1 + the early update that overwrites it, 0: none
  uint32_t nfixed;      // number of fixed groups still to come
  uint32_t nothers;     // number of groups still to come that are no updates
} ListScheduler;

// Returns whether an early update can run right after group i and is the only one that reads it.
static bool feeds_update(const ListScheduler *l, uint32_t i) {
  if (l->nfixed > l->fixed[i] || l->user_at[i + 1] - l->user_at[i] != 1) return false;
  uint32_t user = l->user[l->user_at[i]];
  return l->early[user] && l->waits[user] == 1;
}

// Returns by how many bytes the memory in use grows when group i runs. These are the bytes that
// group i stores, unless an update frees them at once, less the bytes of the groups whose last
// reader is i.
static int64_t memory_growth(const ListScheduler *l, uint32_t i) {
  int64_t grows = feeds_update(l, i) ? 0 : l->bytes[i];
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
    uint32_t on = l->deps->on[j];
    if (l->readers[on] == 1 && !l->kept[on]) grows -= l->bytes[on];
  }
  return grows;
}

// Adds `by` to loop_waits[r] of each loop r that contains group i but does not contain group `on`.
static void count_loop_waits(ListScheduler *l, uint32_t i, uint32_t on, uint32_t by) {
  for (RegionId r = l->region[i]; r && !region_encloses(l->f->graph, r, l->region[on]);
       r = region_get(l->f->graph, r)->parent)
    l->loop_waits[r] += by;
}

// Adds `by` to left[r], the number of groups not yet scheduled, of each loop r around group i.
static void count_left(ListScheduler *l, uint32_t i, uint32_t by) {
  bool end = l->f->group[i].kind == GROUP_LOOP;
  RegionId r = l->region[i];
  for (r = end ? region_get(l->f->graph, r)->parent : r; r; r = region_get(l->f->graph, r)->parent)
    l->left[r] += by;
}

// Returns whether loops allow that group i is scheduled next. It must be in the loop that is open,
// and each loop that it begins must wait for no group outside. The group that ends a loop
// (GROUP_LOOP) comes after all groups of the loop.
static bool loop_allows(const ListScheduler *l, uint32_t i) {
  const Graph *g = l->f->graph;
  RegionId r = l->region[i];
  if (!region_encloses(g, l->open, r)) return false;
  if (l->f->group[i].kind == GROUP_LOOP && l->left[r]) return false;
  for (; r != l->open; r = region_get(g, r)->parent)
    if (l->loop_waits[r]) return false;
  return true;
}

static void scheduler_loops(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  l->region = arena_array(a, RegionId, f->ngroups + 1);
  l->loop_waits = arena_array(a, uint32_t, f->graph->region.n + 1);
  l->left = arena_array(a, uint32_t, f->graph->region.n + 1);
  for (uint32_t i = 0; i < f->ngroups; i++) l->region[i] = group_region(f, &f->group[i]);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    if (!group_executes(&f->group[i])) continue;
    count_left(l, i, 1);
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++)
      count_loop_waits(l, i, l->deps->on[j], 1);
  }
}

static bool is_sum(const Fusion *f, const Group *g) {
  Op op = (Op)graph_node(f->graph, g->node[0])->op;
  return g->kind == GROUP_COLLECTIVE && (op == OP_ALL_REDUCE || op == OP_REDUCE_SCATTER);
}

static bool is_backward(const Fusion *f, const Group *g) {
  bool found = false;
  for (uint32_t j = 0; j < g->nstored; j++)
    found |= graph_node(f->graph, g->stored[j])->origin.backward;
  return found;
}

// Sets l->backward: marks the groups of the backward pass, and then what each marked group reads.
static void find_backward(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  VEC(uint32_t) marked = {0};
  l->backward = arena_array(a, bool, f->ngroups + 1);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    l->backward[i] = is_backward(f, &f->group[i]);
    if (l->backward[i]) vec_push(a, marked) = i;
  }
  while (marked.n) {
    uint32_t i = marked.at[--marked.n];
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
      uint32_t on = l->deps->on[j];
      if (l->backward[on]) continue;
      l->backward[on] = true;
      vec_push(a, marked) = on;
    }
  }
}

static uint8_t group_priority(const ListScheduler *l, uint32_t i, bool overlap) {
  const Group *g = &l->f->group[i];
  if (!overlap && !l->backward[i] && is_sum(l->f, g)) return PRIORITY_LAST;
  bool remat = g->nstored > 0, needs_sum = false;
  for (uint32_t j = 0; j < g->nstored; j++)
    remat &= graph_node(l->f->graph, g->stored[j])->instance != 0;
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++)
    needs_sum |= is_sum(l->f, &l->f->group[l->deps->on[j]]);
  if (remat || !overlap) return remat ? PRIORITY_REMAT : PRIORITY_NORMAL;
  return is_sum(l->f, g) ? PRIORITY_SUM : needs_sum ? PRIORITY_NEEDS_SUM : PRIORITY_NORMAL;
}

// -- early updates --------------------------------------------------------------------------------

// Calls `visit` for each operand of group i that an early update overwrites, with that update.
static void visit_overwritten(ListScheduler *l, uint32_t i,
                              void (*visit)(ListScheduler *l, uint32_t i, uint32_t update)) {
  const Group *g = &l->f->group[i];
  for (uint32_t j = 0; j < g->nnodes; j++) {
    const Node *x = graph_node(l->f->graph, g->node[j]);
    for (int k = 0; k < x->nargs; k++) {
      uint32_t by = l->overwriter[memory_root(l->f->graph, x->args[k])];
      if (by && by - 1 != i && l->early[by - 1]) visit(l, i, by - 1);
    }
  }
}

// Lets `update` run after the backward pass if another update reads what it overwrites.
static void exclude_update(ListScheduler *l, uint32_t i, uint32_t update) {
  if (l->f->after_commit[i]) l->early[update] = false;
}

static void wait_for_reader(ListScheduler *l, uint32_t i, uint32_t update) {
  (void)i;
  l->waits[update]++;
}

// Returns whether the update of group i reads gradients of at least LARGE_GRADIENT bytes, and no
// results of other updates.
static bool frees_much(const ListScheduler *l, uint32_t i) {
  int64_t bytes = 0;
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
    uint32_t on = l->deps->on[j];
    if (l->f->after_commit[on]) return false;
    if (l->readers[on] == 1 && !l->kept[on]) bytes += l->bytes[on];
  }
  return bytes >= LARGE_GRADIENT;
}

// Returns whether group i must run before the commit, whatever the updates: it may fail, or belongs
// to a loop. `shown`: outputs have a value of it.
static bool is_fixed(const ListScheduler *l, uint32_t i, bool shown) {
  const Group *g = &l->f->group[i];
  bool fixed = shown || g->kind == GROUP_COLLECTIVE || l->region[i];
  for (uint32_t j = 0; j < g->nnodes; j++)
    fixed |= (op_row((Op)graph_node(l->f->graph, g->node[j])->op)->flags & CHECKS) != 0;
  return fixed;
}

static void find_fixed(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  bool *shown = arena_array(a, bool, f->ngroups + 1);
  l->fixed = arena_array(a, bool, f->ngroups + 1);
  for (uint32_t i = 0; i < f->graph->output.n; i++) {
    const Output *o = &f->graph->output.at[i];
    if (o->kind != OUT_UPDATE) shown[f->of[memory_root(f->graph, o->value)]] = true;
  }
  for (uint32_t i = 0; i < f->ngroups; i++) {
    if (!group_executes(&f->group[i]) || f->after_commit[i]) continue;
    l->fixed[i] = is_fixed(l, i, shown[i]);
    l->nfixed += l->fixed[i];
    l->nothers++;
  }
}

// Finds the early updates, and lets them wait for the groups that read what they overwrite.
static void find_early(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  l->early = arena_array(a, bool, f->ngroups + 1);
  l->overwriter = arena_array(a, uint32_t, graph_count(f->graph) + 1);
  for (uint32_t i = 0; i < f->ngroups; i++)
    l->early[i] = f->after_commit[i] && f->group[i].kind == GROUP_KERNEL && frees_much(l, i);
  for (uint32_t i = 0; i < f->graph->output.n; i++) {
    const Output *o = &f->graph->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    uint32_t writer = f->of[memory_root(f->graph, o->value)];
    if (l->early[writer]) l->overwriter[f->graph->decl.at[o->target - 1].node] = writer + 1;
  }
  l->overwriter[0] = 0; // a tensor that nothing reads has no node
  for (uint32_t i = 0; i < f->ngroups; i++) visit_overwritten(l, i, exclude_update);
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (group_executes(&f->group[i])) visit_overwritten(l, i, wait_for_reader);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    if (!l->early[i]) continue;
    l->bytes[i] = 0; // it writes tensors
    l->waits[i] += l->deps->at[i + 1] - l->deps->at[i];
  }
}

static void scheduler_make(Arena *a, ListScheduler *l, bool overlap) {
  const Fusion *f = l->f;
  uint32_t n = f->ngroups;
  l->waits = arena_array(a, uint32_t, n + 1);
  l->readers = arena_array(a, uint32_t, n + 1);
  l->user_at = arena_array(a, uint32_t, n + 3);
  l->user = arena_array(a, uint32_t, l->deps->at[n] + 1);
  l->bytes = arena_array(a, int64_t, n + 1);
  l->kept = arena_array(a, bool, n + 1);
  l->done = arena_array(a, bool, n + 1);
  l->priority = arena_array(a, uint8_t, n + 1);
  find_backward(a, l);
  for (uint32_t i = 0; i < n; i++) {
    l->priority[i] = group_priority(l, i, overlap);
    for (uint32_t j = 0; j < f->group[i].nstored; j++)
      l->bytes[i] += node_bytes(f->graph, f->group[i].stored[j]);
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
      l->readers[l->deps->on[j]]++;
      l->user_at[l->deps->on[j] + 2]++;
      if (!f->after_commit[i]) l->waits[i]++;
    }
  }
  for (uint32_t i = 1; i < n + 2; i++) l->user_at[i] += l->user_at[i - 1];
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++)
      l->user[l->user_at[l->deps->on[j] + 1]++] = i;
  for (uint32_t i = 0; i < f->graph->output.n; i++)
    l->kept[f->of[memory_root(f->graph, f->graph->output.at[i].value)]] = true;
  scheduler_loops(a, l);
  find_fixed(a, l);
  find_early(a, l);
}

// -- the list -------------------------------------------------------------------------------------

static bool is_listed(const ListScheduler *l, uint32_t i) {
  return l->early[i] || (group_executes(&l->f->group[i]) && !l->f->after_commit[i]);
}

// Returns the index in `ready` of the group to schedule next. `ready` has the n groups whose
// arguments are ready.
static uint32_t choose_group(const ListScheduler *l, uint32_t n, const uint32_t *ready) {
  uint32_t best = n;
  int64_t least = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!loop_allows(l, ready[i]) || (l->early[ready[i]] && l->nfixed)) continue;
    Priority priority = (Priority)l->priority[ready[i]],
             first = (Priority)l->priority[ready[best == n ? i : best]];
    int64_t grows = priority == PRIORITY_REMAT ? 0 : memory_growth(l, ready[i]);
    bool worse = grows > least || (grows == least && ready[i] > ready[best == n ? i : best]);
    if (best < n && (priority > first || (priority == first && worse))) continue;
    best = i;
    least = grows;
  }
  if (best == n) BUG("loops wait for one another");
  return best;
}

static void wait_less(ListScheduler *l, uint32_t i, uint32_t update) {
  (void)i;
  if (!--l->waits[update]) vec_push(l->a, l->ready) = update;
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
}

// Lists all groups but the updates, and the early updates that may run before the last of them.
static void list_groups(ListScheduler *l, Schedule *s) {
  for (uint32_t i = 0; i < l->f->ngroups; i++)
    if (is_listed(l, i) && !l->waits[i]) vec_push(l->a, l->ready) = i;
  while (l->nothers) {
    uint32_t best = choose_group(l, l->ready.n, l->ready.at), g = l->ready.at[best];
    l->ready.at[best] = l->ready.at[--l->ready.n];
    take_group(l, s, g);
  }
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
