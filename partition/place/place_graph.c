// Builds the tables of a graph that do not depend on mesh and layout, so that all its placements
// share them: users of values, roles of dims, carries of loops, and the nodes that get the same
// request.
#include "ir/base/hash.h"
#include "partition/sharding/sharding_internal.h"

#include <string.h>

static void find_reads(PlaceGraph *p, Arena *a, const Graph *g) {
  uint32_t n = graph_count(g);
  p->read_start = arena_array(a, uint32_t, n + 2);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; i < graph_node(g, u)->nargs; i++)
      p->read_start[graph_node(g, u)->args[i] + 1]++;
  for (uint32_t o = 0; o < g->output.n; o++) p->read_start[g->output.at[o].value + 1]++;
  for (NodeId u = 0; u <= n; u++) p->read_start[u + 1] += p->read_start[u] + 1;
  p->read = arena_array(a, Read, p->read_start[n + 1]);
  uint32_t *next = arena_copy(a, p->read_start, (n + 1) * sizeof *next);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; i < graph_node(g, u)->nargs; i++)
      p->read[next[graph_node(g, u)->args[i]]++] = (Read){.node = u, .arg = i};
  for (uint32_t o = 0; o < g->output.n; o++)
    p->read[next[g->output.at[o].value]++] = (Read){.output = o + 1};
}

const Read *outputs_of(const Placer *p, NodeId n) {
  const Read *r = reads_of(p, n) + p->graph->readers[p->graph->crowd[n]];
  while (r->node) r++;
  return r;
}

static void find_roles(PlaceGraph *p, Arena *a, const Graph *g) {
  VEC(uint32_t) start = {0};
  VEC(DimRole) role = {0};
  p->arg_start = arena_array(a, uint32_t, graph_count(g) + 1);
  p->haloed = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    p->arg_start[u] = start.n;
    for (int i = 0; i < node->nargs; i++) {
      vec_push(a, start) = role.n;
      for (int j = 0; j < graph_node(g, node->args[i])->dims->n; j++) {
        DimRole r = dim_role_of(g, u, i, j);
        p->haloed[node->args[i]] |= r.halo;
        vec_push(a, role) = r;
      }
    }
  }
  vec_push(a, start) = role.n;
  p->role_start = start.at, p->role = role.at;
}

static void find_carries(PlaceGraph *p, Arena *a, const Graph *g) {
  NodeId *scan = region_scans(a, g);
  p->next = arena_array(a, NodeId, graph_count(g) + 1);
  p->carry = arena_array(a, NodeId *, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op == OP_SCAN) p->carry[n] = arena_array(a, NodeId, node->nargs + 1);
  }
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_CARRY) continue;
    p->next[n] = carry_next(g, scan, n);
    if (p->next[n]) p->carry[scan[node->region]][node->attr->carry] = n;
  }
}

static void find_given(PlaceGraph *p, Arena *a, const Graph *g) {
  p->given = arena_array(a, bool, graph_count(g) + 1);
  p->fed = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    p->given[n] = node->attr->decl != 0 || node->op == OP_CARRY;
    p->fed[n] = node->op == OP_INPUT || node->op == OP_CARRY;
    for (int i = 0; i < node->nargs; i++) {
      p->given[n] |= p->given[node->args[i]];
      p->fed[n] |= p->fed[node->args[i]];
    }
  }
}

// -- requests -----------------------------------------------------------------------------------

static uint64_t requester_hash(const Requester *w) {
  uint64_t h = (uint64_t)w->subject.scope << 1 ^ w->given ^ (uintptr_t)w->subject.name ^
               (uintptr_t)w->subject.param << 17;
  for (int i = 0; i < w->subject.dims.n; i++) h = hash_word(h, w->subject.dims.at[i]);
  return h ^ h >> 32;
}

static bool same_requester(const Requester *x, const Requester *y) {
  const Subject *a = &x->subject, *b = &y->subject;
  return x->given == y->given && a->scope == b->scope && a->name == b->name &&
         a->param == b->param && dims_equal(&a->dims, &b->dims);
}

// Lists each distinct requester (a tensor for which a request is made) once. Names are compared by
// pointer: equal names at two addresses only cost another request.
static void find_requesters(PlaceGraph *p, Arena *a, const Graph *g) {
  uint32_t n = graph_count(g), cap = 64;
  while (cap < 2 * n) cap *= 2;
  Arena *scratch = arena_new();
  uint32_t *slot = arena_array(scratch, uint32_t,
                               cap); // hash table of 1 + index into p->requester; 0: a free slot
  p->requester = arena_array(a, Requester, n + 1);
  p->requester_of = arena_array(a, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++) {
    Requester w = {p->subject[u], p->given[u]};
    uint32_t i = (uint32_t)requester_hash(&w) & (cap - 1);
    while (slot[i] && !same_requester(&p->requester[slot[i] - 1], &w)) i = (i + 1) & (cap - 1);
    if (!slot[i]) {
      p->requester[p->nrequesters] = w;
      slot[i] = ++p->nrequesters;
    }
    p->requester_of[u] = slot[i] - 1;
  }
  arena_free(scratch);
}

const PlaceGraph *place_graph(Arena *a, const Graph *whole) {
  PlaceGraph *p = arena_new_of(a, PlaceGraph);
  place_find_marks(p, a, whole);
  const Graph *g = place_without_marks(a, p, whole);
  find_reads(p, a, g);
  place_find_crowds(p, a, g);
  find_roles(p, a, g);
  find_carries(p, a, g);
  find_given(p, a, g);
  p->subject = subjects_of_nodes(a, g);
  place_find_sums(p, a, g);
  find_requesters(p, a, g);
  return p;
}
