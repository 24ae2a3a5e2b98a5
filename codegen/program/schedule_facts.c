// Gathers what the schedule must know of each group: what it waits for, who reads it, which loop it
// is in, and its priority.
#include "codegen/program/schedule_internal.h"

void count_loop_waits(ListScheduler *l, uint32_t i, uint32_t on, uint32_t by) {
  for (RegionId r = l->region[i]; r && !region_encloses(l->f->graph, r, l->region[on]);
       r = region_get(l->f->graph, r)->parent) {
    l->loop_waits[r] += by;
    if (!l->loop_waits[r]) ready_list(l, r);
  }
}

void count_left(ListScheduler *l, uint32_t i, uint32_t by) {
  bool end = l->f->group[i].kind == GROUP_LOOP;
  RegionId r = l->region[i];
  for (r = end ? region_get(l->f->graph, r)->parent : r; r; r = region_get(l->f->graph, r)->parent)
    l->left[r] += by;
}

static void scheduler_loops(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  l->region = arena_array(a, RegionId, f->ngroups + 1);
  l->loop_waits = arena_array(a, uint32_t, f->graph->region.n + 1);
  l->left = arena_array(a, uint32_t, f->graph->region.n + 1);
  l->ready = arena_array(a, ReadyHeap, f->graph->region.n + 1);
  l->has_some = arena_array(a, bool, f->graph->region.n + 1);
  l->loop_end = arena_array(a, uint32_t, f->graph->region.n + 1);
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
    found |= graph_node(f->graph, g->stored[j])->origin->backward;
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

// Sets l->standing[i] and l->gathered[i] of group i, after those of all groups that it reads.
// standing: neither it nor any group that it reads, directly or through others, reads an input, so
// it could run at the start of the step. gathered: it is a standing collective, or reads one.
static void find_standing(const ListScheduler *l, uint32_t i) {
  const Graph *g = l->f->graph;
  const Group *group = &l->f->group[i];
  bool standing = !l->region[i], gathered = group->kind == GROUP_COLLECTIVE;
  for (uint32_t j = 0; j < group->nnodes && standing; j++) {
    const Node *x = graph_node(g, group->node[j]);
    for (int k = 0; k < x->nargs; k++)
      standing &= graph_node(g, memory_root(g, x->args[k]))->op != OP_INPUT;
  }
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
    standing &= l->standing[l->deps->on[j]];
    gathered |= l->gathered[l->deps->on[j]];
  }
  l->standing[i] = standing;
  l->gathered[i] = standing && gathered;
}

static uint8_t group_priority(const ListScheduler *l, uint32_t i, bool overlap) {
  const Group *g = &l->f->group[i];
  if (!overlap && !l->backward[i] && is_sum(l->f, g)) return PRIORITY_LAST;
  bool remat = g->nstored > 0, needs_sum = false;
  for (uint32_t j = 0; j < g->nstored; j++)
    remat &= graph_node(l->f->graph, g->stored[j])->instance != 0;
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++)
    needs_sum |= is_sum(l->f, &l->f->group[l->deps->on[j]]);
  if (remat || l->gathered[i]) return PRIORITY_LATE;
  if (!overlap) return PRIORITY_NORMAL;
  return is_sum(l->f, g) ? PRIORITY_SUM : needs_sum ? PRIORITY_NEEDS_SUM : PRIORITY_NORMAL;
}

// Returns the first node that group i stores, or another node if it stores none. Nodes of the graph
// are in the order of their first use.
static NodeId first_stored(const ListScheduler *l, uint32_t i) {
  const Group *g = &l->f->group[i];
  NodeId first = g->nstored ? g->stored[0] : g->node[0];
  for (uint32_t j = 1; j < g->nstored; j++)
    if (g->stored[j] < first) first = g->stored[j];
  return first;
}

// Sets l->needed[i] of each group of PRIORITY_LATE to the first node that it stores, or to that of
// a group of this priority that waits for it, if that is earlier. A call that gathers the scales of
// all layers is needed for the last layer, which the backward pass begins with, and so are then
// their casts for all layers: what is gathered for other layers must not come before these.
static void find_needed(Arena *a, ListScheduler *l) {
  l->needed = arena_array(a, NodeId, l->f->ngroups + 1);
  for (uint32_t i = l->f->ngroups; i-- > 0;) {
    if (l->priority[i] != PRIORITY_LATE) continue;
    NodeId first = first_stored(l, i);
    if (!l->needed[i] || first < l->needed[i]) l->needed[i] = first;
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
      NodeId *on = &l->needed[l->deps->on[j]];
      if (!*on || l->needed[i] < *on) *on = l->needed[i];
    }
  }
}

// Sets l->part, the micro-batch in which each group runs: the last one on whose rows it depends. A
// group that depends on no rows, such as a gather of parameters or its clone for the backward pass,
// runs in that of its first reader. A sum that only outputs read (PRIORITY_LAST) comes after all.
static void find_parts(Arena *a, ListScheduler *l) {
  const Fusion *f = l->f;
  const uint32_t *of = graph_micro_batches(a, f->graph);
  if (!of) return;
  l->part = arena_array(a, uint32_t, f->ngroups + 1);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    for (uint32_t j = 0; j < f->group[i].nnodes; j++)
      if (of[f->group[i].node[j]] > l->part[i]) l->part[i] = of[f->group[i].node[j]];
    if (l->priority[i] == PRIORITY_LAST) l->part[i] = UINT32_MAX;
  }
  uint32_t *reader = arena_array(a, uint32_t, f->ngroups + 1);
  for (uint32_t i = f->ngroups; i-- > 0;) {
    if (!l->part[i]) l->part[i] = reader[i];
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
      uint32_t *first = &reader[l->deps->on[j]];
      if (!*first || l->part[i] < *first) *first = l->part[i];
    }
  }
}

static void make_arrays(Arena *a, ListScheduler *l) {
  uint32_t n = l->f->ngroups;
  l->waits = arena_array(a, uint32_t, n + 1);
  l->readers = arena_array(a, uint32_t, n + 1);
  l->user_at = arena_array(a, uint32_t, n + 3);
  l->user = arena_array(a, uint32_t, l->deps->at[n] + 1);
  l->bytes = arena_array(a, int64_t, n + 1);
  l->kept = arena_array(a, bool, n + 1);
  l->done = arena_array(a, bool, n + 1);
  l->priority = arena_array(a, uint8_t, n + 1);
  l->standing = arena_array(a, bool, n + 1);
  l->gathered = arena_array(a, bool, n + 1);
}

static int64_t stored_bytes(const Fusion *f, const Group *g) {
  int64_t bytes = 0;
  for (uint32_t j = 0; j < g->nstored; j++) bytes += node_bytes(f->graph, g->stored[j]);
  return bytes;
}

// Counts what group i waits for, and who reads it.
static void count_deps(ListScheduler *l, uint32_t i) {
  for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++) {
    l->readers[l->deps->on[j]]++;
    if (!l->f->after_commit[i]) l->waits[i]++;
  }
}

// Lists the users of each group: those of group i are at l->user[l->user_at[i]] and behind, up to
// l->user_at[i + 1].
static void list_users(ListScheduler *l) {
  uint32_t n = l->f->ngroups;
  for (uint32_t i = 0; i < n; i++) l->user_at[i + 2] = l->user_at[i + 1] + l->readers[i];
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = l->deps->at[i]; j < l->deps->at[i + 1]; j++)
      l->user[l->user_at[l->deps->on[j] + 1]++] = i;
}

void scheduler_make(Arena *a, ListScheduler *l, bool overlap) {
  const Fusion *f = l->f;
  make_arrays(a, l);
  scheduler_loops(a, l);
  find_backward(a, l);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    find_standing(l, i);
    l->priority[i] = group_priority(l, i, overlap);
    l->bytes[i] = stored_bytes(f, &f->group[i]);
    count_deps(l, i);
  }
  find_needed(a, l);
  find_parts(a, l);
  list_users(l);
  for (uint32_t i = 0; i < f->graph->output.n; i++)
    l->kept[f->of[memory_root(f->graph, f->graph->output.at[i].value)]] = true;
  find_fixed(a, l);
  find_early(a, l);
}
