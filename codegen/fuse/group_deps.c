// Finds the dependences between the groups of a fusion. A group depends on the groups that write
// the memory that it reads.
#include "codegen/fuse/group_deps_internal.h"
#include "codegen/values/gemm_form_internal.h"

#include <stdlib.h>

bool group_executes(const Group *g) {
  return g->kind == GROUP_KERNEL || g->kind == GROUP_GEMM || g->kind == GROUP_COLLECTIVE ||
         g->kind == GROUP_ORDERED || g->kind == GROUP_LOOP;
}

RegionId group_region(const Fusion *f, const Group *g) {
  const Node *x = graph_node(f->graph, g->node[0]);
  if (g->kind == GROUP_LOOP) return x->attr->region;
  // g->node[0] may be recomputed and outside the loop in which the kernel runs
  RegionId deepest = x->region;
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (region_encloses(f->graph, deepest, graph_node(f->graph, g->node[i])->region))
      deepest = graph_node(f->graph, g->node[i])->region;
  return deepest;
}

static int by_number(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return a < b ? -1 : a > b;
}

static bool reads_address(const Group *g, Op op, int i) {
  return g->kind != GROUP_KERNEL || op_looks_up(op, i);
}

// Returns the index of the group that writes the memory of argument i of n, a node of group g.
// Returns f->ngroups if no group writes this memory while the program runs: the argument is a
// source, or g recomputes it.
static uint32_t group_read(const Fusion *f, const Group *g, NodeId n, int i) {
  const Node *x = graph_node(f->graph, n);
  NodeId a = x->args[i];
  if (g->gemm && g->gemm->tail && !tail_reads(g->gemm->tail, n, a)) return f->ngroups;
  if (f->recomputed[a] && !reads_address(g, (Op)x->op, i)) return f->ngroups;
  uint32_t of = f->of[memory_writer(f->graph, a)];
  return group_executes(&f->group[of]) ? of : f->ngroups;
}

typedef VEC(uint32_t) Numbers;

// The carries of all loops, and the COLLECTs that gather values in each iteration.
typedef struct LoopEnds {
  RegionNodes carries, collects;
} LoopEnds;

static void read_by(Arena *a, const Fusion *f, const Group *g, const RegionNodes *of, RegionId r,
                    int arg, Numbers *on) {
  for (uint32_t i = of->first[r]; i < of->first[r + 1]; i++) {
    uint32_t read = group_read(f, g, of->node[i], arg);
    if (read != f->ngroups) vec_push(a, *on) = read;
  }
}

// Adds to *on the groups whose values the loop end g (GROUP_LOOP) copies: the initial values of
// carries, and the values that are gathered.
static void loop_reads(Arena *a, const Fusion *f, const Group *g, const LoopEnds *ends,
                       Numbers *on) {
  RegionId r = graph_node(f->graph, g->node[0])->attr->region;
  read_by(a, f, g, &ends->carries, r, 0, on);
  read_by(a, f, g, &ends->collects, r, 1, on);
}

GroupDeps group_deps(Arena *a, const Fusion *f) {
  GroupDeps d = {.at = arena_array(a, uint32_t, f->ngroups + 1)};
  Numbers on = {0};
  const LoopEnds ends = {region_ends(a, f->graph, OP_CARRY), region_ends(a, f->graph, OP_COLLECT)};
  for (uint32_t i = 0; i < f->ngroups; i++) {
    const Group *g = &f->group[i];
    uint32_t first = on.n;
    d.at[i] = first;
    if (g->kind == GROUP_LOOP) loop_reads(a, f, g, &ends, &on);
    for (uint32_t j = 0; j < g->nnodes && group_executes(g); j++) {
      const Node *x = graph_node(f->graph, g->node[j]);
      for (int k = 0; k < x->nargs; k++) {
        uint32_t of = group_read(f, g, g->node[j], k);
        if (of != f->ngroups && of != i) vec_push(a, on) = of;
      }
    }
    if (on.n > first) qsort(on.at + first, on.n - first, sizeof *on.at, by_number);
    uint32_t kept = first;
    for (uint32_t j = first; j < on.n; j++)
      if (j == first || on.at[j] != on.at[kept - 1]) on.at[kept++] = on.at[j];
    on.n = kept;
  }
  d.at[f->ngroups] = on.n;
  d.on = on.at;
  return d;
}

// Lets the groups whose values are outputs run before the commit: outputs are complete then.
static void outputs_before_commit(const Fusion *f, bool *late) {
  for (uint32_t i = 0; i < f->graph->output.n; i++) {
    const Output *o = &f->graph->output.at[i];
    NodeId root = memory_root(f->graph, o->value);
    if (o->kind != OUT_UPDATE && !f->update[root]) late[f->of[root]] = false;
  }
}

bool *groups_after_commit(Arena *a, const Fusion *f) {
  bool *late = arena_array(a, bool, f->ngroups + 1);
  for (uint32_t i = 0; i < f->ngroups; i++) {
    const Group *g = &f->group[i];
    late[i] = group_executes(g);
    for (uint32_t j = 0; j < g->nnodes; j++)
      late[i] &= f->update[g->node[j]] || (f->recomputed[g->node[j]] && g->kind == GROUP_KERNEL);
  }
  outputs_before_commit(f, late);
  // a group reads earlier groups only, so one backward pass is enough
  for (uint32_t i = f->ngroups; i-- > 0;)
    for (uint32_t j = f->deps->at[i]; j < f->deps->at[i + 1] && !late[i]; j++)
      late[f->deps->on[j]] = false;
  return late;
}

uint32_t *update_levels(Arena *a, const Fusion *f) {
  const GroupDeps *d = f->deps;
  uint32_t *level = arena_array(a, uint32_t, f->ngroups + 1);
  for (uint32_t i = 0; i < f->ngroups; i++)
    for (uint32_t j = d->at[i]; j < d->at[i + 1] && f->after_commit[i]; j++)
      if (f->after_commit[d->on[j]] && level[d->on[j]] >= level[i]) level[i] = level[d->on[j]] + 1;
  return level;
}
