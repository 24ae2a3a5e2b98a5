// Graphs of the stand-in of libcuda: they are captured (stream.c), instantiated and launched.
#include "tests/standin/cuda/stream.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/mem.h"

void graph_clear(struct CUgraph_st *g) {
  for (uint32_t i = 0; i < g->n; i++) {
    work_free(&g->node[i].work);
    clock_free(&g->node[i].behind);
  }
  free(g->node);
  free(g->length);
  g->node = NULL;
  g->length = NULL;
  g->n = g->lanes = 0;
}

static struct CUgraph_st *graph_of(CudaGraph graph) {
  handle_check(graph, HANDLE_GRAPH, state_call());
  if (graph->origin) standin_fail("%s gets a graph that is being captured", state_call());
  return graph;
}
static struct CUgraphExec_st *exec_of(CudaGraphExec exec) {
  handle_check(exec, HANDLE_GRAPH_EXEC, state_call());
  return exec;
}

CudaResult cuGraphDestroy(CudaGraph graph) {
  BEGIN("cuGraphDestroy");
  handle_destroy(graph_of(graph));
  END(CUDA_OK);
}

CudaResult cuGraphGetNodes(CudaGraph graph, CudaGraphNode *node, size_t *count) {
  BEGIN("cuGraphGetNodes");
  if (node) standin_fail("cuGraphGetNodes: the stand-in gives only the number of nodes");
  *count = graph_of(graph)->n;
  END(CUDA_OK);
}

// -- instantiating ------------------------------------------------------------------------------

static void exec_release(void *handle) {
  struct CUgraphExec_st *x = handle;
  graph_clear(x->graph);
  free(x->graph);
  free(x->lane);
  clock_free(&x->last);
}

static struct CUgraph_st *graph_copy(const struct CUgraph_st *g) {
  struct CUgraph_st *to = mem_zeroed(1, sizeof *to);
  to->node = mem_zeroed(g->n + 1, sizeof *to->node);
  to->n = g->n;
  to->lanes = g->lanes;
  to->length = mem_zeroed(g->lanes + 1, sizeof *to->length);
  memcpy(to->length, g->length, g->lanes * sizeof *to->length);
  for (uint32_t i = 0; i < g->n; i++) {
    to->node[i] = (Node){.work = work_copy(&g->node[i].work), .lane = g->node[i].lane};
    clock_join(&to->node[i].behind, &g->node[i].behind);
  }
  return to;
}

CudaResult cuGraphInstantiateWithFlags(CudaGraphExec *exec, CudaGraph graph,
                                       unsigned long long flags) {
  BEGIN("cuGraphInstantiate");
  (void)flags;
  const struct CUgraph_st *g = graph_of(graph);
  struct CUgraphExec_st *x = handle_new(HANDLE_GRAPH_EXEC, sizeof *x, exec_release);
  x->graph = graph_copy(g);
  x->lane = mem_zeroed(g->lanes + 1, sizeof *x->lane);
  for (uint32_t i = 0; i < g->lanes; i++) x->lane[i] = order_add_lane(state.order);
  *exec = x;
  END(CUDA_OK);
}

CudaResult cuGraphUpload(CudaGraphExec exec, CudaStream stream) {
  BEGIN("cuGraphUpload");
  exec_of(exec);
  stream_of(stream);
  END(CUDA_OK);
}

CudaResult cuGraphExecDestroy(CudaGraphExec exec) {
  BEGIN("cuGraphExecDestroy");
  handle_destroy(exec_of(exec));
  END(CUDA_OK);
}

// -- what graphs have ---------------------------------------------------------------------------

// The arguments of meshc_standin_captured, and the number of operations found so far.
typedef struct Counting {
  void (*run)(void *);
  bool (*is)(const void *copy, const void *what);
  const void *what;
  int n;
} Counting;

static void count_nodes(void *handle, void *argument) {
  const struct CUgraph_st *g = ((struct CUgraphExec_st *)handle)->graph;
  Counting *c = argument;
  for (uint32_t i = 0; i < g->n; i++) {
    const Work *w = &g->node[i].work;
    c->n += w->run == c->run && c->is(w->argument, c->what);
  }
}

int meshc_standin_captured(void (*run)(void *copy), bool (*is)(const void *copy, const void *what),
                           const void *what) {
  Counting c = {run, is, what, 0};
  if (state_enter("meshc_standin_captured") == CUDA_OK)
    handle_each(HANDLE_GRAPH_EXEC, count_nodes, &c);
  (void)state_leave(CUDA_OK);
  return c.n;
}

// -- launching ----------------------------------------------------------------------------------

// A launch under way: the nodes of each lane that have run, and where its next one is.
typedef struct Launch {
  const struct CUgraphExec_st *exec;
  Clock base;      // what the whole launch is ordered behind
  uint32_t *first; // operations of each lane before this launch
  uint32_t *done, *next;
} Launch;

static uint32_t next_in_lane(const struct CUgraph_st *g, uint32_t from, uint32_t lane) {
  while (from < g->n && g->node[from].lane != lane) from++;
  return from;
}

// Whether the next node of a lane may run: all nodes that it is behind have run.
static bool is_ready(const Launch *l, uint32_t lane) {
  const struct CUgraph_st *g = l->exec->graph;
  if (l->next[lane] == g->n) return false;
  const Clock *behind = &g->node[l->next[lane]].behind;
  for (uint32_t i = 0; i < g->lanes; i++)
    if (clock_of(behind, i) > l->done[i]) return false;
  return true;
}

static void run_node(Launch *l, uint32_t lane) {
  const struct CUgraph_st *g = l->exec->graph;
  const Node *node = &g->node[l->next[lane]];
  Clock behind = {0};
  clock_join(&behind, &l->base);
  for (uint32_t i = 0; i < g->lanes; i++)
    clock_cover(&behind, l->exec->lane[i], l->first[i] + clock_of(&node->behind, i));
  work_run(&node->work, l->exec->lane[lane], &behind);
  clock_free(&behind);
  l->done[lane]++;
  l->next[lane] = next_in_lane(g, l->next[lane] + 1, lane);
}

unsigned meshc_standin_launch(void) { return state.in_graph ? state.graphs : 0; }

// Runs all nodes. Which of those that are ready runs next depends on the seed.
static void run_nodes(Launch *l) {
  const struct CUgraph_st *g = l->exec->graph;
  for (uint32_t ran = 0; ran < g->n; ran++) {
    uint32_t lane = state_random() % g->lanes;
    while (!is_ready(l, lane)) lane = (lane + 1) % g->lanes;
    run_node(l, lane);
  }
}

static void launch(struct CUgraphExec_st *x) {
  const struct CUgraph_st *g = x->graph;
  Launch l = {.exec = x,
              .first = mem_zeroed(g->lanes + 1, sizeof *l.first),
              .done = mem_zeroed(g->lanes + 1, sizeof *l.done),
              .next = mem_zeroed(g->lanes + 1, sizeof *l.next)};
  clock_join(&l.base, &x->last);
  for (uint32_t i = 0; i < g->lanes; i++) {
    l.first[i] = order_lane_length(state.order, x->lane[i]);
    l.next[i] = next_in_lane(g, 0, i);
  }
  run_nodes(&l);
  for (uint32_t i = 0; i < g->lanes; i++)
    clock_cover(&x->last, x->lane[i], order_lane_length(state.order, x->lane[i]));
  clock_free(&l.base);
  free(l.first);
  free(l.done);
  free(l.next);
}

CudaResult cuGraphLaunch(CudaGraphExec exec, CudaStream stream) {
  BEGIN("cuGraphLaunch");
  struct CUgraphExec_st *x = exec_of(exec);
  struct CUstream_st *s = stream_of(stream);
  if (s->capture)
    standin_fail("cuGraphLaunch in a captured stream: the stand-in has no child graphs");
  stream_order(s);
  clock_join(&x->last, &s->clock);
  state.graphs++;
  state.in_graph = true;
  launch(x);
  state.in_graph = false;
  stream_seems_slow();
  clock_join(&s->clock, &x->last);
  END(CUDA_OK);
}
