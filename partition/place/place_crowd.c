// Counts what the readers of a value with many readers ask for, so that questions about all of them
// do not take a look at each.
//
// Many readers ask for few shardings. For each of these the number of readers is kept, and for each
// read which of them it is. A node tells the values that it reads when its shardings have changed.
//
//   h[b/rows, d], 900 readers     h[b/rows, d]: 880,  h[b, d]: 20
//
// What a window, a scan, or the final value of a loop asks for also depends on the shardings of
// other nodes. Values that such nodes read are left out. place_finish changes shardings everywhere:
// from then on nothing is counted.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

enum { MANY = 32 }; // readers, from which on they are counted

static bool asks_alone(const Graph *g, NodeId u) {
  const Node *node = graph_node(g, u);
  return node->op != OP_SCAN && node->op != OP_FINAL && op_row((Op)node->op)->cls != WINDOW;
}

// Returns the number of nodes that read the value, 0 if what they ask for cannot be counted.
static uint32_t countable(const PlaceGraph *p, const Graph *g, NodeId n) {
  const Read *first = &p->read[p->read_start[n]], *r = first;
  for (; r->node; r++)
    if (!asks_alone(g, r->node)) return 0;
  return (uint32_t)(r - first);
}

void place_find_crowds(PlaceGraph *p, Arena *a, const Graph *g) {
  VEC(uint32_t) readers = {0};
  p->crowd = arena_array(a, uint32_t, graph_count(g) + 1);
  vec_push(a, readers) = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    uint32_t count = countable(p, g, n);
    if (count < MANY) continue;
    p->crowd[n] = readers.n;
    vec_push(a, readers) = count;
  }
  p->ncrowds = readers.n;
  p->readers = readers.at;
}

Crowd *crowds_new(const Placer *p) {
  const PlaceGraph *of = p->graph;
  Crowd *all = arena_array(p->arena, Crowd, of->ncrowds);
  for (uint32_t c = 1; c < of->ncrowds; c++)
    all[c] = (Crowd){.n = of->readers[c], .ask = arena_array(p->arena, uint32_t, of->readers[c])};
  return all;
}

// Returns the index of a read in the list of reads of its value, which is sorted.
static uint32_t index_of(const Read *list, uint32_t n, NodeId u, int arg) {
  uint32_t lo = 0;
  while (n > 1) {
    uint32_t half = n / 2;
    const Read *r = &list[lo + half];
    if (r->node < u || (r->node == u && r->arg <= arg)) lo += half;
    n = r->node < u || (r->node == u && r->arg <= arg) ? n - half : half;
  }
  return lo;
}

static bool same_ask(const Sharding *a, const Sharding *b) {
  return sharding_equal(a, b) && !memcmp(a->rule, b->rule, sizeof a->rule);
}

// Returns 1 + the index of what is asked for in c->asked.
static uint32_t ask_of(Arena *a, Crowd *c, const Sharding *need) {
  uint32_t i = 0;
  while (i < c->asked.n && !same_ask(&c->asked.at[i].need, need)) i++;
  if (i == c->asked.n) vec_push(a, c->asked) = (Asked){.need = *need};
  return i + 1;
}

void crowds_note(Placer *p, NodeId u) {
  const Node *node = graph_node(p->g, u);
  for (int i = 0; p->crowds && i < node->nargs; i++) {
    NodeId n = node->args[i];
    Crowd *c = crowd_of(p, n);
    if (!c) continue;
    Sharding need = read_sharding(p, u, i);
    uint32_t *ask = &c->ask[index_of(reads_of(p, n), c->n, u, i)];
    if (*ask) c->asked.at[*ask - 1].n--;
    *ask = ask_of(p->arena, c, &need);
    c->asked.at[*ask - 1].n++;
  }
}

const Sharding *crowd_ask(const Crowd *c, uint32_t read) {
  return &c->asked.at[c->ask[read] - 1].need;
}

bool crowd_agrees(const Crowd *c) {
  const Sharding *last = crowd_ask(c, c->n - 1);
  for (uint32_t i = 0; i < c->asked.n; i++)
    if (c->asked.at[i].n && !sharding_equal(&c->asked.at[i].need, last)) return false;
  return true;
}

bool crowd_gathers(const Placer *p, NodeId n, int axis, NodeId but) {
  const Crowd *c = crowd_of(p, n);
  const Node *node = graph_node(p->g, but);
  uint32_t whole = 0, own = 0;
  for (uint32_t i = 0; i < c->asked.n; i++)
    if (needs_whole(&c->asked.at[i].need, axis)) whole += c->asked.at[i].n;
  for (int i = 0; whole && i < node->nargs; i++) {
    if (node->args[i] != n) continue;
    uint32_t read = index_of(reads_of(p, n), c->n, but, i);
    own += c->ask[read] && needs_whole(crowd_ask(c, read), axis);
  }
  return whole > own;
}
