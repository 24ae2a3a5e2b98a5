// Finds early updates: those that read large gradients, and so need not wait for the end of the
// backward pass. The commit comes as soon as nothing that may fail and no output is left; from then
// on an early update runs right after the last group that reads what it overwrites.
#include "codegen/program/schedule_internal.h"

enum { LARGE_GRADIENT = 4 << 20 }; // bytes of gradients that make an update an early one

void visit_overwritten(ListScheduler *l, uint32_t i,
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

void find_fixed(Arena *a, ListScheduler *l) {
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

void find_early(Arena *a, ListScheduler *l) {
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
