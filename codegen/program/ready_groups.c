// The groups that wait for no other group, and which of them the schedule takes next: one of the
// first micro-batch that is not done, of these the one with the best priority, among several the
// one that makes memory grow least, and then the earliest.
//
// Each loop has a heap of its groups. By how much memory grows when a group runs depends on what
// ran before it, and only falls. When it falls, the group is entered again, and the old entry is
// dropped when it comes up. So to schedule n groups takes about n log n steps.
#include "codegen/program/schedule_internal.h"

bool is_listed(const ListScheduler *l, uint32_t i) {
  return l->early[i] || (group_executes(&l->f->group[i]) && !l->f->after_commit[i]);
}

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

// -- heaps -------------------------------------------------------------------------------------------

static bool comes_before(const ReadyGroup *x, const ReadyGroup *y) {
  if (x->part != y->part) return x->part < y->part;
  if (x->priority != y->priority) return x->priority < y->priority;
  return x->rank != y->rank ? x->rank < y->rank : x->group < y->group;
}

static void heap_swap(ReadyHeap *h, uint32_t i, uint32_t j) {
  ReadyGroup swap = h->at[i];
  h->at[i] = h->at[j];
  h->at[j] = swap;
}

static ReadyGroup ready_entry(const ListScheduler *l, uint32_t i) {
  Priority priority = (Priority)l->priority[i];
  int64_t rank = priority == PRIORITY_LATE ? l->needed[i] : memory_growth(l, i);
  uint32_t part = l->part ? l->part[i] : 0;
  return (ReadyGroup){.part = part, .priority = priority, .rank = rank, .group = i};
}

void ready_list(ListScheduler *l, RegionId r) {
  if (l->has_some[r] || !l->ready[r].n || l->loop_waits[r]) return;
  vec_push(l->a, l->some) = r;
  l->has_some[r] = true;
}

static void heap_add(ListScheduler *l, uint32_t i) {
  ReadyHeap *h = &l->ready[l->region[i]];
  vec_push(l->a, *h) = ready_entry(l, i);
  ready_list(l, l->region[i]);
  for (uint32_t at = h->n - 1; at && comes_before(&h->at[at], &h->at[(at - 1) / 2]);
       at = (at - 1) / 2)
    heap_swap(h, at, (at - 1) / 2);
}

static void heap_drop_first(ReadyHeap *h) {
  h->at[0] = h->at[--h->n];
  for (uint32_t at = 0, child = 1; child < h->n; child = 2 * at + 1) {
    if (child + 1 < h->n && comes_before(&h->at[child + 1], &h->at[child])) child++;
    if (!comes_before(&h->at[child], &h->at[at])) return;
    heap_swap(h, at, child);
    at = child;
  }
}

// Returns the first entry of the heap of loop r that counts, or NULL. Drops those before it.
static const ReadyGroup *heap_first(const ListScheduler *l, RegionId r) {
  ReadyHeap *h = &l->ready[r];
  while (h->n) {
    ReadyGroup now = ready_entry(l, h->at[0].group);
    if (!l->done[now.group] && now.rank == h->at[0].rank) return &h->at[0];
    heap_drop_first(h);
  }
  return NULL;
}

// -- which group is next -----------------------------------------------------------------------------

// Returns whether a group of loop r may be scheduled next. It must be in the loop that is open, and
// each loop that it begins must wait for no group outside.
static bool loop_allows(const ListScheduler *l, RegionId r) {
  const Graph *g = l->f->graph;
  if (!region_encloses(g, l->open, r)) return false;
  for (; r != l->open; r = region_get(g, r)->parent)
    if (l->loop_waits[r]) return false;
  return true;
}

uint32_t ready_take(ListScheduler *l) {
  const ReadyGroup *best = NULL;
  for (uint32_t i = 0; i < l->some.n;) {
    RegionId r = l->some.at[i];
    const ReadyGroup *first = loop_allows(l, r) ? heap_first(l, r) : NULL;
    if (first && (!best || comes_before(first, best))) best = first;
    if (l->ready[r].n) {
      i++;
    } else {
      l->has_some[r] = false;
      l->some.at[i] = l->some.at[--l->some.n];
    }
  }
  if (!best) BUG("loops wait for one another");
  uint32_t group = best->group;
  heap_drop_first(&l->ready[l->region[group]]);
  return group;
}

// The group that ends a loop (GROUP_LOOP) comes after all groups of the loop, and early updates
// come after all that may fail.
void ready_add(ListScheduler *l, uint32_t i) {
  if (l->early[i] && l->nfixed)
    vec_push(l->a, l->held) = i;
  else if (l->f->group[i].kind == GROUP_LOOP && l->left[l->region[i]])
    l->loop_end[l->region[i]] = i + 1;
  else
    heap_add(l, i);
}

// -- what changes when a group has been taken --------------------------------------------------------

static void add_again(ListScheduler *l, uint32_t i) {
  if (is_listed(l, i) && !l->done[i] && !l->waits[i]) ready_add(l, i);
}

void ready_last_reader(ListScheduler *l, uint32_t update) {
  for (uint32_t j = l->deps->at[update]; l->early[update] && j < l->deps->at[update + 1]; j++)
    add_again(l, l->deps->on[j]);
}

// Enters again the last reader of each value that group g has read: it frees the value.
static void add_last_readers(ListScheduler *l, uint32_t g) {
  for (uint32_t j = l->deps->at[g]; j < l->deps->at[g + 1]; j++) {
    uint32_t on = l->deps->on[j];
    for (uint32_t k = l->user_at[on]; l->readers[on] == 1 && k < l->user_at[on + 1]; k++)
      add_again(l, l->user[k]);
  }
}

static void add_loop_ends(ListScheduler *l, RegionId r) {
  for (; r; r = region_get(l->f->graph, r)->parent) {
    uint32_t end = l->loop_end[r];
    if (!end || l->left[r]) continue;
    l->loop_end[r] = 0;
    heap_add(l, end - 1);
  }
}

void ready_update(ListScheduler *l, uint32_t g) {
  add_last_readers(l, g);
  add_loop_ends(l, l->region[g]);
  if (!l->fixed[g] || l->nfixed > 1) return;
  // The commit may come now, or after one more group: updates may then free what groups store.
  for (uint32_t i = 0; i < l->f->ngroups; i++) add_again(l, i);
  for (; !l->nfixed && l->held.n; l->held.n--) heap_add(l, l->held.at[l->held.n - 1]);
}
