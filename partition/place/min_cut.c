// Minimum cut by maximum flow: Dinic, "Algorithm for solution of a problem of maximum flow in
// networks with power estimation" (1970). Level graph by breadth-first search, blocking flow
// without recursion.
#include "partition/place/min_cut_internal.h"

typedef struct Edge {
  uint32_t to, next; // next edge out of the same vertex, 0: none
  int64_t room;      // residual capacity; the edge at index ^ 1 is the reverse
} Edge;
struct MinCut {
  Arena *arena;
  uint32_t n;
  uint32_t *first, *at, *queue, *path;
  int32_t *level;
  VEC(Edge) edge;
};

MinCut *min_cut_new(Arena *a, uint32_t vertices) {
  MinCut *c = arena_new_of(a, MinCut);
  c->arena = a;
  c->n = vertices;
  c->first = arena_array(a, uint32_t, vertices);
  c->at = arena_array(a, uint32_t, vertices);
  c->queue = arena_array(a, uint32_t, vertices);
  c->path = arena_array(a, uint32_t, vertices);
  c->level = arena_array(a, int32_t, vertices);
  vec_push(a, c->edge) = (Edge){0}; // index 0 means none, and pairs start at an even index
  vec_push(a, c->edge) = (Edge){0};
  return c;
}

static void half_edge(MinCut *c, uint32_t from, uint32_t to, int64_t room) {
  vec_push(c->arena, c->edge) = (Edge){.to = to, .next = c->first[from], .room = room};
  c->first[from] = c->edge.n - 1;
}

void min_cut_edge(MinCut *c, uint32_t from, uint32_t to, int64_t capacity) {
  half_edge(c, from, to, capacity);
  half_edge(c, to, from, 0);
}

static bool find_levels(MinCut *c) {
  for (uint32_t v = 0; v < c->n; v++) c->level[v] = -1;
  uint32_t head = 0, tail = 0;
  c->queue[tail++] = MIN_CUT_SOURCE;
  c->level[MIN_CUT_SOURCE] = 0;
  while (head < tail) {
    uint32_t v = c->queue[head++];
    for (uint32_t e = c->first[v]; e; e = c->edge.at[e].next) {
      const Edge *edge = &c->edge.at[e];
      if (edge->room <= 0 || c->level[edge->to] >= 0) continue;
      c->level[edge->to] = c->level[v] + 1;
      c->queue[tail++] = edge->to;
    }
  }
  return c->level[MIN_CUT_SINK] >= 0;
}

static uint32_t next_edge(MinCut *c, uint32_t v) {
  for (; c->at[v]; c->at[v] = c->edge.at[c->at[v]].next) {
    const Edge *e = &c->edge.at[c->at[v]];
    if (e->room > 0 && c->level[e->to] == c->level[v] + 1) return c->at[v];
  }
  return 0;
}

static void push(MinCut *c, uint32_t length) {
  int64_t room = EDGE_UNLIMITED;
  for (uint32_t i = 0; i < length; i++)
    if (c->edge.at[c->path[i]].room < room) room = c->edge.at[c->path[i]].room;
  for (uint32_t i = 0; i < length; i++) {
    c->edge.at[c->path[i]].room -= room;
    c->edge.at[c->path[i] ^ 1].room += room;
  }
}

static void block_flow(MinCut *c) {
  for (uint32_t v = 0; v < c->n; v++) c->at[v] = c->first[v];
  uint32_t length = 0, v = MIN_CUT_SOURCE;
  for (;;) {
    if (v == MIN_CUT_SINK) {
      push(c, length);
      length = 0, v = MIN_CUT_SOURCE;
      continue;
    }
    uint32_t e = next_edge(c, v);
    if (e) {
      c->path[length++] = e;
      v = c->edge.at[e].to;
    } else if (v == MIN_CUT_SOURCE) {
      return;
    } else {
      c->level[v] = -1; // dead end in this level graph
      e = c->path[--length];
      v = c->edge.at[e ^ 1].to;
    }
  }
}

void min_cut_run(MinCut *c) {
  while (find_levels(c)) block_flow(c);
}

bool min_cut_on_source_side(const MinCut *c, uint32_t v) { return c->level[v] >= 0; }
