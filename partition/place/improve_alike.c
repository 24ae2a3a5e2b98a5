// Remembers moves of the local search (place_improve.c) that failed, so that the equal layers of a
// deep model do not all try the same in vain.
//
// Two nodes are alike if their operations, the sizes of their dims and the layout's requests are
// equal, and those of all nodes within a few steps of them. Two moves are alike if they change
// alike nodes in the same way and if these nodes, their arguments and their users have equal
// shardings. After a failure, alike moves are due at the second, fourth, eighth ... time: a move
// may change all later layers and save something only in many layers. The number of trials thus
// grows with the logarithm of the number of layers, apart from those that are kept.
#include <string.h>

#include "ir/base/hash.h"
#include "partition/place/improve_internal.h"

enum { STEPS = 4, MAX_USERS = 16 };

// -- alike nodes ----------------------------------------------------------------------------------

static uint64_t axes_hash(uint64_t h, Axes s) { return hash_word(fnv_bytes(h, s.at, s.n), s.n); }

static uint64_t own_hash(const Improve *m, NodeId n) {
  const Node *node = graph_node(m->g, n);
  const Request *w = m->p->request[n];
  uint64_t h = hash_word(hash_word(FNV_START, node->op), node->type);
  for (int k = 0; k < node->dims->n; k++) {
    h = hash_word(h, (uint64_t)dim_get(m->g->dims, node->dims->at[k])->size);
    h = hash_word(axes_hash(axes_hash(h, w->hard[k]), w->soft[k]), w->replicated[k]);
  }
  for (int i = 0; i < node_inner(node); i++)
    h = hash_word(h, (uint64_t)dim_get(m->g->dims, node->attr->dims[i])->size);
  return h;
}

// Returns hash h of node n, continued with the hashes of its arguments and, in any order, of its
// users.
static uint64_t near_hash(const Improve *m, NodeId n, const uint64_t *hash) {
  const Node *node = graph_node(m->g, n);
  uint64_t h = hash[n], users = 0;
  for (int i = 0; i < node->nargs; i++) h = hash_word(h, hash[node->args[i]]);
  for (const Read *r = reads_of(m->p, n); r->node; r++)
    users += hash_word(hash[r->node], (uint64_t)r->arg + 1);
  return hash_word(h, users);
}

void alike_find(Improve *m) {
  uint32_t n = graph_count(m->g) + 1;
  uint64_t *hash = arena_array(m->scratch, uint64_t, n),
           *next = arena_array(m->scratch, uint64_t, n);
  for (NodeId u = 1; u < n; u++) hash[u] = own_hash(m, u);
  for (int i = 0; i < STEPS; i++) {
    for (NodeId u = 1; u < n; u++) next[u] = near_hash(m, u, hash);
    uint64_t *last = hash;
    hash = next, next = last;
  }
  m->alike = hash;
  for (m->ntable = 1; m->ntable <= improve_nodes(m->p);) m->ntable *= 2;
  m->table = arena_array(m->scratch, Tried, m->ntable);
}

void alike_forget(Improve *m) { memset(m->table, 0, m->ntable * sizeof *m->table); }

// -- alike moves ----------------------------------------------------------------------------------

static uint64_t state_hash(const Improve *m, uint64_t h, NodeId n) {
  const Placer *p = m->p;
  const Axes partial = p->result.computed[n]->partial;
  for (int a = 0; a < m->g->mesh->naxes; a++) {
    int computed = computed_dim(p, n, a) + 1, reads = settled_dim(p, n, a) + 1;
    h = hash_word(h, (uint64_t)computed | (uint64_t)reads << 8 |
                         (uint64_t)axes_has(partial, a) << 16 |
                         (uint64_t)p->forced[n * MAX_AXES + (uint32_t)a] << 24);
  }
  return h;
}

Tried *alike_of_move(Improve *m, Move move) {
  const Node *node = graph_node(m->g, move.n);
  uint64_t h = hash_word(m->alike[move.n], (uint64_t)move.kind | (uint64_t)move.axis << 8 |
                                               (uint64_t)(move.slot + 1) << 16);
  h = state_hash(m, h, move.n);
  for (int i = 0; i < node->nargs; i++) h = state_hash(m, h, node->args[i]);
  const Read *r = reads_of(m->p, move.n);
  for (int i = 0; i < MAX_USERS && r->node; i++, r++) h = state_hash(m, h, r->node);
  Tried *t = &m->table[h & (m->ntable - 1)];
  if (t->key != h) *t = (Tried){.key = h}; // the place of another move: that one begins again
  return t;
}

bool alike_is_due(Tried *t) {
  t->times++;
  return (t->times & (t->times - 1)) == 0;
}
