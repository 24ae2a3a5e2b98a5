// Puts single operations into the stream: copies between the host and the GPU, and the operations
// of a plan. While the stream is captured, they become nodes of a graph instead (gpu_graph.c).
#include "runtime/gpu/gpu_internal.h"

static CudaStream stream_of(const DeviceWork *w) { return w->code->gpu->stream; }

bool gpu_copy_up(DeviceWork *w, CudaAddress to, const void *from, size_t bytes) {
  return bytes == 0 || cuda_good(cuda.MemcpyHtoDAsync(to, from, bytes, stream_of(w)),
                                 "cuMemcpyHtoDAsync", w->diag);
}

bool gpu_copy_down(DeviceWork *w, void *to, CudaAddress from, size_t bytes) {
  return bytes == 0 || cuda_good(cuda.MemcpyDtoHAsync(to, from, bytes, stream_of(w)),
                                 "cuMemcpyDtoHAsync", w->diag);
}

bool gpu_clear(DeviceWork *w, CudaAddress at, size_t bytes) {
  return bytes == 0 ||
         cuda_good(cuda.MemsetD8Async(at, 0, bytes, stream_of(w)), "cuMemsetD8Async", w->diag);
}

// -- by kind ------------------------------------------------------------------------------------

static CudaStream stream_for(const DeviceWork *w, const GpuOp *op) {
  return op->beside && !w->alone ? w->code->gpu->beside : stream_of(w);
}

static bool launch(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  CudaAddress table = p->table_at + (CudaAddress)op->u.launch.table,
              header = w->header + (op->u.launch.after ? sizeof(GpuHeader) : 0);
  int32_t nsets = op->u.launch.nsets, flags = op->u.launch.flags;
  // In a step of two parts, or without a commit, the host sets the counter of steps.
  if (course != COURSE_WHOLE) flags &= ~GPU_COMMITS;
  void *argument[] = {&table, &header, &nsets, &flags};
  return cuda_good(cuda.LaunchKernel(op->u.launch.function, op->u.launch.grid_x,
                                     op->u.launch.grid_y, 1, op->u.launch.threads, 1, 1,
                                     op->u.launch.shared, stream_for(w, op), argument, NULL),
                   "cuLaunchKernel", w->diag);
}

static bool product(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  (void)p, (void)course;
  return gpu_product_run(w->code->gpu->products, &op->u.product, w->diag);
}

static bool fill(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  (void)p, (void)course;
  return gpu_clear(w, op->u.copy.to, (size_t)op->u.copy.bytes);
}

static bool copy(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  (void)p, (void)course;
  return cuda_good(
      cuda.MemcpyDtoDAsync(op->u.copy.to, op->u.copy.from, (size_t)op->u.copy.bytes, stream_of(w)),
      "cuMemcpyDtoDAsync", w->diag);
}

static bool messages(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  (void)p, (void)course;
  return gpu_comms_send(w->code->gpu->comms, op->u.messages.axes, op->u.messages.at,
                        op->u.messages.n, stream_for(w, op), w->diag);
}

static bool fork_streams(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  const Gpu *g = w->code->gpu;
  (void)p, (void)op, (void)course;
  return w->alone ||
         (cuda_good(cuda.EventRecord(g->fork, g->stream), "cuEventRecord", w->diag) &&
          cuda_good(cuda.StreamWaitEvent(g->beside, g->fork, 0), "cuStreamWaitEvent", w->diag));
}

static bool mark_done(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  const Gpu *g = w->code->gpu;
  (void)p, (void)course;
  return w->alone || cuda_good(cuda.EventRecord(g->mark[op->u.mark.index], g->beside),
                               "cuEventRecord", w->diag);
}

static bool join_streams(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  const Gpu *g = w->code->gpu;
  (void)p, (void)course;
  return w->alone || cuda_good(cuda.StreamWaitEvent(g->stream, g->mark[op->u.mark.index], 0),
                               "cuStreamWaitEvent", w->diag);
}

bool gpu_enqueue(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course) {
  static bool (*const by_kind[])(DeviceWork *, const StepPlan *, const GpuOp *, Course) = {
      [GPU_LAUNCH] = launch,  [GPU_PRODUCT] = product,   [GPU_FILL] = fill,
      [GPU_COPY] = copy,      [GPU_MESSAGES] = messages, [GPU_FORK] = fork_streams,
      [GPU_DONE] = mark_done, [GPU_JOIN] = join_streams,
  };
  return by_kind[op->kind](w, p, op, course);
}
