// Finds loops in which each worker can run all rounds for its part of a dim, the rows, without
// meeting the other workers. In: a Fusion without kernels (loop_rows_find), then with kernels
// (loop_rows_check). Out: Fusion.loop_rows.
//
//   scan t (h[b, k] = 0) { h = tanh(rename[k -> j](h) * u + x) }     rows b: row b of h needs no other
//
// Rows are a dim of every value that a round stores. No operation of the loop reads a value of
// another row. The weights that all rows share are read by each worker, so they must be small.
#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

#include <string.h>

enum {
  LEAST_WORK = 1 << 20,  // of all rounds, in bytes (row_work)
  FLOPS_A_BYTE = 8,      // number of flops that take about as long as moving one byte
  MOST_SHARED = 3 << 19, // bytes that all rows read in a round: they stay in the cache of a core
  LEAST_ROW = 64,        // elements of a stored value in a row
  LEAST_ROWS_WEIGHTS = 8 // rows of a worker if it reads weights: fewer are bound by the cache
};

static bool in_loop(const Fusion *f, NodeId n, RegionId r) {
  return graph_node(f->graph, n)->region == r;
}

// Returns whether node n of loop r computes each row from the same row of its arguments. A value
// without rows must not depend on one with rows.
static bool keeps_rows(const Fusion *f, NodeId n, RegionId r, DimId rows) {
  const Node *x = graph_node(f->graph, n);
  bool has = dims_has(x->dims, rows);
  if (x->op == OP_CARRY) return has;
  if (x->op == OP_AT) return true;
  if (x->op == OP_SCATTER_ADD || attr_names(x->attr, rows)) return false;
  for (int i = 0; i < x->nargs; i++)
    if (!has && in_loop(f, x->args[i], r) && dims_has(graph_node(f->graph, x->args[i])->dims, rows))
      return false;
  return true;
}

static int64_t row_elements(const Graph *g, NodeId n, DimId rows) {
  return list_elements(g->dims, graph_node(g, n)->dims) / dim_get(g->dims, rows)->size;
}

// Returns whether group g of the loop can run for a part of the rows: a kernel with an outer loop
// over them that stores long enough values with rows.
static bool group_has_rows(const Fusion *f, const Group *g, DimId rows) {
  if (g->kind == GROUP_ALIAS || g->kind == GROUP_LOOP || g->kind == GROUP_SOURCE) return true;
  if (g->kind != GROUP_KERNEL || !dims_has(&g->outer, rows)) return false;
  for (uint32_t i = 0; i < g->nstored; i++)
    if (!dims_has(graph_node(f->graph, g->stored[i])->dims, rows) ||
        row_elements(f->graph, g->stored[i], rows) < LEAST_ROW)
      return false;
  return true;
}

// The groups of a loop: the work of a round, and what all its rows share.
typedef struct RowWork {
  int64_t bytes;  // bytes that a round moves, or that could be moved in the time of its flops
  int64_t shared; // bytes of values from outside that have no rows
  bool weights;   // a contraction reads such a value
} RowWork;

static void add_work(const Fusion *f, const Group *g, RegionId r, DimId rows, RowWork *w) {
  int64_t bytes = g->load_bytes + g->store_bytes;
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(f->graph, g->node[i]);
    bool contracts = x->op == OP_CONTRACT;
    int64_t flops = contracts ? contract_flops(f->graph, g->node[i], NULL, NULL) : 0;
    if (flops / FLOPS_A_BYTE > bytes) bytes = flops / FLOPS_A_BYTE;
    for (int k = 0; k < x->nargs; k++) {
      NodeId a = x->args[k];
      if (in_loop(f, a, r) || f->recomputed[a] || dims_has(graph_node(f->graph, a)->dims, rows))
        continue;
      w->shared += node_bytes(f->graph, a);
      w->weights |= contracts;
    }
  }
  w->bytes += bytes;
}

// The nodes of each loop, and its groups that execute.
typedef struct LoopParts {
  RegionNodes nodes;
  uint32_t *first, *next; // by loop, by group: 1 + number of the first or next group, 0: none
  bool *outer;            // by loop: whether a loop inside of it has groups that execute
} LoopParts;

static LoopParts find_parts(Arena *a, const Fusion *f) {
  uint32_t loops = f->graph->region.n;
  LoopParts p = {.nodes = region_nodes(a, f->graph),
                 .first = arena_array(a, uint32_t, loops + 1),
                 .next = arena_array(a, uint32_t, f->ngroups + 1),
                 .outer = arena_array(a, bool, loops + 1)};
  for (uint32_t i = f->ngroups; i-- > 0;) {
    if (!group_executes(&f->group[i])) continue;
    RegionId r = group_region(f, &f->group[i]);
    p.next[i] = p.first[r];
    p.first[r] = i + 1;
    if (r) r = region_get(f->graph, r)->parent;
    for (; r && !p.outer[r]; r = region_get(f->graph, r)->parent) p.outer[r] = true;
  }
  return p;
}

// Returns whether all nodes and groups of loop r keep rows apart, and adds up its work.
static bool rows_apart(const Fusion *f, const LoopParts *p, RegionId r, DimId rows, RowWork *work) {
  if (p->outer[r]) return false;
  for (uint32_t i = p->nodes.first[r]; i < p->nodes.first[r + 1]; i++)
    if (!keeps_rows(f, p->nodes.node[i], r, rows)) return false;
  for (uint32_t i = p->first[r]; i; i = p->next[i - 1]) {
    const Group *g = &f->group[i - 1];
    if (!group_has_rows(f, g, rows)) return false;
    if (g->kind == GROUP_KERNEL) add_work(f, g, r, rows, work);
  }
  return true;
}

static LoopRows rows_of_loop(const Fusion *f, const LoopParts *p, RegionId r, DimId rows) {
  RowWork work = {0};
  int64_t least = 1, size = dim_get(f->graph->dims, rows)->size;
  int64_t rounds = dim_get(f->graph->dims, region_get(f->graph, r)->t)->size;
  if (size < 2 || !rows_apart(f, p, r, rows, &work)) return (LoopRows){0};
  if (work.weights) least = LEAST_ROWS_WEIGHTS;
  bool pays = work.shared <= MOST_SHARED && work.bytes >= LEAST_WORK / rounds && size >= 2 * least;
  return pays ? (LoopRows){rows, least} : (LoopRows){0};
}

void loop_rows_find(Arena *a, Fusion *f) {
  f->loop_rows = arena_array(a, LoopRows, f->graph->region.n + 1);
  if (!f->graph->region.n) return;
  Arena *scratch = arena_new();
  const LoopParts parts = find_parts(scratch, f);
  for (NodeId n = 1; n <= graph_count(f->graph); n++) {
    const Node *x = graph_node(f->graph, n);
    LoopRows *of = &f->loop_rows[x->region];
    for (int i = 0; x->op == OP_CARRY && i < f->order->at[n].n && !of->dim; i++)
      *of = rows_of_loop(f, &parts, x->region, f->order->at[n].at[i]);
  }
  arena_free(scratch);
}

int loop_of_rows(const Fusion *f, const Group *g, const Kernel *k) {
  DimId rows = f->loop_rows[group_region(f, g)].dim;
  ProductForm product;
  if (!rows || kernel_partial_bytes(k) || kernel_product(k, &product)) return -1;
  int at = -1;
  for (int l = 0; l < k->nouter; l++) {
    if (l != k->vector && strcmp(k->loop[l].name, dim_get(f->graph->dims, rows)->name) == 0)
      at = l;
    else if (k->loop[l].slot >= 0)
      return -1;
  }
  return at;
}

void loop_rows_check(Arena *a, Fusion *f) {
  for (uint32_t i = 0; i < f->ngroups; i++) {
    const Group *g = &f->group[i];
    if (g->kind == GROUP_KERNEL && loop_of_rows(f, g, g->kernel->kernel) < 0)
      f->loop_rows[group_region(f, g)] = (LoopRows){0};
  }
  for (uint32_t i = 0; i < f->ngroups; i++) {
    Group *g = &f->group[i];
    LoopRows rows = f->loop_rows[g->kind == GROUP_LOOP ? group_region(f, g) : 0];
    if (rows.dim)
      g->why = arena_printf(a, "%s, each worker all rounds for its part of %s", g->why,
                            dim_get(f->graph->dims, rows.dim)->name);
  }
}
