// Graphs of a step: the operations of a course are captured when it first runs, and each later step
// launches the graph. A course with more operations than one graph should have (GpuLimits.nodes)
// becomes several graphs, which a step launches one after another.
//
// Loops are unrolled, and long ones take several graphs, too. The loops of CUDA graphs (conditional
// nodes) would keep one copy of the body, whose operations would have to find their addresses from
// the counters of loops on the GPU: calls of cuBLASLt, copies and fills cannot, because their
// addresses are fixed when they are captured.
#include "runtime/gpu/gpu_internal.h"

// Returns how many nodes of a graph an operation becomes. Events order nodes and are none.
static int64_t nodes_of(const GpuOp *op) {
  if (op->kind == GPU_FORK || op->kind == GPU_DONE || op->kind == GPU_JOIN) return 0;
  return op->kind == GPU_PRODUCT ? op->u.product.ncalls : 1;
}

// Returns the index of the first operation of a round.
static uint32_t first_op(const StepPlan *p, uint32_t round) {
  return round ? p->round.at[round - 1].end : 0;
}

// Returns what a round adds to the size of a graph: its nodes. With several ranks it is a number
// that is equal on all, though a rank whose blocks are smaller may have fewer nodes: about one for
// each of its processors. Rounds that other ranks may lack do not count.
static int64_t size_of(const DeviceWork *w, const StepPlan *p, uint32_t round) {
  const GpuComms *comms = w->code->gpu->comms;
  int64_t nodes = 0;
  if (comms && gpu_comms_several(comms)) return p->round.at[round].varies ? 0 : w->exec->own;
  for (uint32_t i = first_op(p, round); i < p->round.at[round].end; i++)
    nodes += nodes_of(&p->op.at[i]);
  return nodes;
}

// Returns whether collectives are under way behind a round. before: whether they are before it.
static bool is_under_way(const StepPlan *p, uint32_t round, bool before) {
  for (uint32_t i = first_op(p, round); i < p->round.at[round].end; i++) {
    const GpuOp *op = &p->op.at[i];
    if (op->kind == GPU_FORK) before = true;
    if (op->kind == GPU_JOIN && op->u.mark.all) before = false;
  }
  return before;
}

// Returns the end of the first piece of rounds from..to-1: those of one graph, which has at least
// one round, and otherwise at most GpuLimits.nodes nodes. A graph cannot wait for an event of
// another one, so a piece goes on while collectives are under way. NCCL requires of ranks that the
// graph of a message has the same messages on all: so all ranks split alike.
static uint32_t piece_end(const DeviceWork *w, const StepPlan *p, uint32_t from, uint32_t to) {
  bool under_way = false;
  int64_t size = 0;
  uint32_t r = from;
  for (; r < to; r++) {
    size += size_of(w, p, r);
    if (size > w->code->gpu->limits.nodes && r > from && !under_way) break;
    under_way = is_under_way(p, r, under_way);
  }
  return r;
}

// Captures rounds from..to-1 of a plan as a graph. Returns false after an error.
static bool capture(DeviceWork *w, StepPlan *p, Course course, uint32_t from, uint32_t to) {
  CudaStream stream = w->code->gpu->stream;
  CudaGraph graph = NULL;
  CudaGraphExec made = NULL;
  if (!cuda_good(cuda.StreamBeginCapture(stream, CUDA_CAPTURE_THREAD), "cuStreamBeginCapture",
                 w->diag))
    return false;
  bool good = true;
  for (uint32_t i = first_op(p, from); i < first_op(p, to) && good; i++)
    good = gpu_enqueue(w, p, &p->op.at[i], course);
  CudaResult ended = cuda.StreamEndCapture(stream, &graph);
  good = good && cuda_good(ended, "cuStreamEndCapture", w->diag) &&
         cuda_good(cuda.GraphInstantiate(&made, graph, 0), "cuGraphInstantiate", w->diag);
  if (graph) (void)cuda.GraphDestroy(graph);
  if (made) vec_push(p->arena, p->graph[course]) = made;
  if (w->code->gpu->comms) gpu_comms_advance(w->code->gpu->comms);
  return good;
}

// Captures a course as one graph, or several. Returns false after an error.
static bool capture_all(DeviceWork *w, StepPlan *p, Course course) {
  uint32_t from = course_from(p, course), to = course_to(p, course);
  for (uint32_t end; from < to; from = end) {
    end = piece_end(w, p, from, to);
    if (!capture(w, p, course, from, end)) return false;
  }
  return true;
}

bool gpu_graph_run(DeviceWork *w, StepPlan *p, Course course) {
  if (p->graph[course].n == 0 && !capture_all(w, p, course)) return false;
  for (uint32_t i = 0; i < p->graph[course].n; i++)
    if (!cuda_good(cuda.GraphLaunch(p->graph[course].at[i], w->code->gpu->stream), "cuGraphLaunch",
                   w->diag))
      return false;
  return true;
}

void gpu_graph_free(StepPlan *p) {
  for (int c = 0; c < COURSES; c++) {
    for (uint32_t i = 0; i < p->graph[c].n; i++) (void)cuda.GraphExecDestroy(p->graph[c].at[i]);
    p->graph[c].n = 0;
  }
}
