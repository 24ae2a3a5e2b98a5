// What the plan of a step does with each kind of instruction: what a run of it needs on the GPU,
// and its operations of the stream, for all processors. Launches of all processors of one
// instruction are one launch.
#include "runtime/gpu/gpu_plan_internal.h"

// -- launches -----------------------------------------------------------------------------------

bool gpu_lacks(DeviceWork *w, uint32_t i, const char *what) {
  Pos pos;
  const char *name = program_instr_name(w->exec->program, i, &pos);
  return diag_error(w->diag, DIAG_UNAVAILABLE, pos, "--device cuda does not support %s yet: %s",
                    what, name);
}

static void add_op(StepPlan *p, GpuOp op) { vec_push(p->arena, p->op) = op; }

// Returns whether the operations that are being planned come after the commit.
static bool after_commit(const StepPlan *p) { return p->commit != UINT32_MAX; }

GpuOp *gpu_ops_launch(StepPlan *p, CudaFunction f, const Launching *l, int64_t grid_x,
                      int64_t grid_y, int threads, int shared) {
  add_op(p, (GpuOp){.kind = GPU_LAUNCH,
                    .u.launch = {.function = f,
                                 .table = l->table,
                                 .nsets = l->nsets,
                                 .flags = GPU_IF_GO | l->flags,
                                 .grid_x = (unsigned)grid_x,
                                 .grid_y = (unsigned)grid_y,
                                 .threads = (unsigned)threads,
                                 .shared = (unsigned)shared,
                                 .after = after_commit(p)}});
  return &p->op.at[p->op.n - 1];
}

// Adds a launch unless it has no blocks. Returns false after an error.
static bool add_launch(DeviceWork *w, StepPlan *p, const GpuRound *round, CudaFunction f,
                       const Launching *l, int64_t grid_x, int64_t grid_y, int threads,
                       int shared) {
  if (grid_x == 0 || grid_y == 0) return true;
  if (grid_x > w->code->gpu->limits.blocks_x)
    return gpu_lacks(w, round->instr, "launches of so many blocks");
  gpu_ops_launch(p, f, l, grid_x, grid_y, threads, shared);
  return true;
}

// Adds the launches that join the partial results of all sets. A set is a row of blocks (y), so
// that many sets take several launches.
static bool add_combine(DeviceWork *w, StepPlan *p, const GpuRound *round, uint32_t kernel,
                        const Launching *all) {
  const GpuEntry *entry = &w->code->entry[kernel];
  int64_t record = (int64_t)gpu_table_record(&w->exec->program->kernel[kernel]);
  int32_t most = w->code->gpu->limits.blocks_y;
  Launching l = *all;
  for (int32_t from = 0; from < all->nsets; from += l.nsets) {
    l.nsets = all->nsets - from < most ? all->nsets - from : most;
    l.table = all->table + record * from;
    if (!add_launch(w, p, round, w->code->kernel[kernel].combine, &l, entry->combine_blocks,
                    l.nsets, entry->combine_threads, entry->combine_shared))
      return false;
  }
  return true;
}

// Notes that an instruction needs so many bytes of scratch memory, which all use one after another.
static void need_scratch(StepPlan *p, size_t bytes) {
  if (bytes > p->need.scratch) p->need.scratch = bytes;
}

static bool measure_kernel(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  const GpuEntry *entry = &w->code->entry[e->program->instr[round->instr].u.kernel.kernel];
  size_t scratch = 0;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundKernel *b = &bound_instr(e, c, round->instr, &round->steps)->u.kernel;
    p->need.table += b->nsets * gpu_table_record(b->kernel);
    scratch += b->nsets * (size_t)entry->scratch;
  }
  need_scratch(p, scratch);
  if (e->program->nchecks) p->need.statuses += (size_t)e->own * sizeof(GpuStatus);
  return true;
}

// Adds the launches of the phases of a kernel, or the one that computes them all.
static bool add_phases(DeviceWork *w, StepPlan *p, const GpuRound *round, uint32_t kernel,
                       const Launching *all) {
  const GpuEntry *entry = &w->code->entry[kernel];
  Launching l = *all;
  for (int phase = 0; phase < (entry->phases ? entry->phases : 1); phase++) {
    l.flags = phase << GPU_PHASE_BIT;
    if (!add_launch(w, p, round, w->code->kernel[kernel].run, &l, l.blocks, 1, entry->threads,
                    entry->shared))
      return false;
  }
  return true;
}

static bool plan_kernel(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  uint32_t kernel = e->program->instr[round->instr].u.kernel.kernel;
  const GpuEntry *entry = &w->code->entry[kernel];
  Launching l = {.parts = entry->parts, .scratch = entry->scratch, .scratch_at = p->scratch_at};
  if (e->program->nchecks) round->status = p->nstatus;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundKernel *b = &bound_instr(e, c, round->instr, &round->steps)->u.kernel;
    CudaAddress status = e->program->nchecks ? p->status_at + p->nstatus++ * sizeof(GpuStatus) : 0;
    gpu_table_kernel(w, p, b, entry->grain ? entry->grain : b->grain, status, &round->steps, &l);
  }
  return add_phases(w, p, round, kernel, &l) &&
         (!entry->combine || add_combine(w, p, round, kernel, &l));
}

// -- products -----------------------------------------------------------------------------------

static bool measure_product(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  (void)w, (void)round;
  p->need.products = true;
  return true;
}

static bool plan_product(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  GpuProducts *all = gpu_products_of(w->code->gpu, w->diag);
  if (!all) return false;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundGemm *b = &bound_instr(e, c, round->instr, &round->steps)->u.gemm;
    GpuOperands at = {gpu_translate(w, b->a), gpu_translate(w, b->b), gpu_translate(w, b->c), {0}};
    for (int i = 0; i < GEMM_EXTRAS; i++)
      if (b->extra[i]) at.extra[i] = gpu_translate(w, b->extra[i]);
    GpuOp op = {.kind = GPU_PRODUCT};
    if (!gpu_product_make(all, p->arena, b, at, &round->steps, &op.u.product, w->diag))
      return false;
    if (op.u.product.ncalls > 0) add_op(p, op);
  }
  return true;
}

// -- collectives between processors of this GPU -------------------------------------------------

// Returns whether a collective is one between GPUs.
static bool is_message(const DeviceWork *w, const GpuRound *round) {
  return w->code->messages && w->code->messages[round->instr];
}

// Lists the sets of the kernels that carry out a collective, in w->arena. Returns their number.
static uint32_t collective_sets(DeviceWork *w, const StepPlan *p, const GpuRound *round,
                                TransferSet **set) {
  Exec *e = w->exec;
  CommCall *call = &e->call[round->instr];
  for (int64_t c = 0; c < e->processors; c++) exec_move_operands(e, c, round->instr, &round->steps);
  call->defers = p->defers;
  return transfer_sets(w->arena, w->code->transfers[round->instr], &e->program->mesh, call,
                       e->first, e->own, set);
}

static bool measure_collective(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  if (is_message(w, round)) return gpu_messages_measure(w, p, round);
  ArenaMark mark = arena_mark(w->arena);
  TransferSet *set;
  uint32_t n = collective_sets(w, p, round, &set);
  for (uint32_t i = 0; i < n; i++)
    p->need.table += gpu_table_record(&w->exec->program->kernel[set[i].kernel]);
  arena_reset(w->arena, mark);
  return true;
}

bool gpu_launch_sets(DeviceWork *w, StepPlan *p, const GpuRound *round, const TransferSet *set,
                     uint32_t n) {
  bool good = true;
  for (uint32_t i = 0; i < n && good;) {
    uint32_t kernel = set[i].kernel;
    const GpuEntry *entry = &w->code->entry[kernel];
    Launching l = {0};
    for (; i < n && set[i].kernel == kernel; i++)
      gpu_table_set(w, p, &w->exec->program->kernel[kernel],
                    (GpuRecord){.to = set[i].units, .grain = entry->grain},
                    (SetOperands){set[i].ptr, set[i].slot, NULL}, &l);
    good = add_launch(w, p, round, w->code->kernel[kernel].run, &l, l.blocks, 1, entry->threads,
                      entry->shared);
  }
  return good;
}

// Adds launches of the kernels that carry out a collective: on the sets of all its transfers.
static bool plan_collective(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  int part = after_commit(p) ? 1 : 0;
  if (is_message(w, round)) return gpu_messages_plan(w, p, round);
  ArenaMark mark = arena_mark(w->arena);
  TransferSet *set;
  uint32_t n = collective_sets(w, p, round, &set);
  transfer_count(&e->program->mesh, &e->call[round->instr], &p->count[part], 0);
  bool good = gpu_launch_sets(w, p, round, set, n);
  arena_reset(w->arena, mark);
  return good;
}

// -- ordered operations ---------------------------------------------------------------------------

// Returns the sizes of an ordered operation on processor c.
static OrderedSizes ordered_sizes(const Exec *e, int64_t c, const GpuRound *round) {
  const BoundOrdered *b = &bound_instr(e, c, round->instr, &round->steps)->u.ordered;
  return (OrderedSizes){.what = b->what, .n = b->n, .rows = b->rows, .count = b->count};
}

// Returns the bytes of scratch memory that an ordered operation needs on processor c, a multiple of
// what an address must be a multiple of.
static int64_t ordered_scratch(const Exec *e, int64_t c, const GpuRound *round) {
  OrderedSizes sizes = ordered_sizes(e, c, round);
  return ceil_div(gpu_ordered_launch(&sizes).scratch, MEMORY_ALIGN) * MEMORY_ALIGN;
}

static bool measure_ordered(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  size_t scratch = 0;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    p->need.table += (size_t)gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0);
    scratch += (size_t)ordered_scratch(e, c, round);
  }
  need_scratch(p, scratch);
  return true;
}

static bool plan_ordered(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  const Ordered *what = &e->program->instr[round->instr].u.ordered;
  const LoopSteps *s = &round->steps;
  GpuEntry entry = gpu_ordered_entry(what);
  CudaFunction f = gpu_function(w->code, entry.run, entry.shared, w->diag);
  CudaAddress scratch = p->scratch_at;
  Launching l = {0};
  for (int64_t c = e->first; f && c < e->first + e->own; c++) {
    const BoundOrdered *b = &bound_instr(e, c, round->instr, s)->u.ordered;
    OrderedSizes sizes = ordered_sizes(e, c, round);
    int64_t at;
    char *to = gpu_table_add(p, (size_t)gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0), &at);
    gpu_ordered_record(&sizes, gpu_translate(w, b->src + ref_moved(what->src, s->depth, s->at)),
                       gpu_translate(w, b->dst + ref_moved(what->dst, s->depth, s->at)), scratch,
                       l.blocks, to);
    scratch += (CudaAddress)ordered_scratch(e, c, round);
    l.blocks += gpu_ordered_launch(&sizes).blocks;
    if (l.nsets++ == 0) l.table = at;
  }
  return f && add_launch(w, p, round, f, &l, l.blocks, 1, entry.threads, entry.shared);
}

// -- fills and copies ---------------------------------------------------------------------------

bool gpu_ops_move(DeviceWork *w, StepPlan *p, const GpuRound *round, const Launching *l) {
  GpuEntry entry = gpu_move_entry();
  return add_launch(w, p, round, w->code->move, l, l->blocks, 1, entry.threads, entry.shared);
}

static bool measure_copy(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  for (int64_t c = e->first; after_commit(p) && c < e->first + e->own; c++)
    if (bound_instr(e, c, round->instr, &round->steps)->u.copy.bytes > 0)
      p->need.table += gpu_table_move_record();
  return true;
}

// After the commit a function copies or fills, which can leave it out.
static bool plan_copy(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  const LoopSteps *s = &round->steps;
  Launching l = {0};
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundInstr *b = bound_instr(e, c, round->instr, s);
    if (b->u.copy.bytes == 0) continue;
    char *to = (char *)b->u.copy.dst + ref_moved(b->u.copy.to, s->depth, s->at);
    const char *from = (const char *)b->u.copy.src + ref_moved(b->u.copy.from, s->depth, s->at);
    bool fills = b->kind == INSTR_FILL;
    GpuMove m = {.to = gpu_translate(w, to),
                 .from = fills ? 0 : gpu_translate(w, from),
                 .bytes = b->u.copy.bytes};
    if (after_commit(p))
      gpu_table_move(p, &m, &l);
    else
      add_op(p, (GpuOp){.kind = fills ? GPU_FILL : GPU_COPY, .u.copy = {m.to, m.from, m.bytes}});
  }
  return gpu_ops_move(w, p, round, &l);
}

// -- the kinds ----------------------------------------------------------------------------------

const InstrPlan *gpu_ops_of(InstrKind kind) {
  static const InstrPlan of[] = {
      [INSTR_KERNEL] = {measure_kernel, plan_kernel, NULL},
      [INSTR_GEMM] = {measure_product, plan_product, NULL},
      [INSTR_FILL] = {measure_copy, plan_copy, NULL},
      [INSTR_COPY] = {measure_copy, plan_copy, NULL},
      [INSTR_COLLECTIVE] = {measure_collective, plan_collective, NULL},
      [INSTR_ORDERED] = {measure_ordered, plan_ordered, NULL},
      [INSTR_MATRIX] = {NULL, NULL, "cholesky, solve and other operations on matrices"},
      [INSTR_COMMIT] = {gpu_judge_measure, gpu_judge_plan, NULL},
      [INSTR_LOOP] = {NULL, NULL, NULL}, // the walk follows loops (gpu_plan.c)
      [INSTR_END] = {NULL, NULL, NULL},
  };
  return &of[kind];
}
