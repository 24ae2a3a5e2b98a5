// The plan of a step: walks the instructions of a bound program as the workers of the CPU do, with
// loops unrolled, and lists the operations of the stream. Launches of all processors of one
// instruction are one launch.
//
// A launch reads its operands from records (ir/program/gpu.h), one for each operand set of each
// processor. All records of a step are in one table, which is copied to the GPU once.
#include "ir/base/units.h"
#include "runtime/gpu/gpu_internal.h"

#include <stdlib.h>
#include <string.h>

// -- the table of records -----------------------------------------------------------------------

// Returns room for n more bytes at the end of the table, filled with zeros, and their offset in
// *at.
static char *table_add(StepPlan *p, size_t n, int64_t *at) {
  if (n > p->need.table - p->table_bytes) BUG("the records of a step were measured too small");
  *at = (int64_t)p->table_bytes;
  p->table_bytes += n;
  return p->table + *at;
}

static size_t kernel_record(const ProgKernel *k) {
  return (size_t)gpu_record_bytes(k->nptr, k->nslot, k->nnum);
}

// A launch whose records are being written.
typedef struct Launching {
  int64_t table; // offset of its first record
  int32_t nsets;
  int64_t blocks; // blocks of all sets so far
} Launching;

// What a record is made from. ptr has addresses on the host.
typedef struct SetOperands {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
} SetOperands;

// Adds the record of a set of kernel k to a launch. It has units from..to-1.
static void put_set(const DeviceWork *w, StepPlan *p, const ProgKernel *k, GpuRecord record,
                    SetOperands of, Launching *l) {
  int64_t at;
  char *to = table_add(p, kernel_record(k), &at);
  record.first_block = l->blocks;
  memcpy(to, &record, sizeof record);
  for (int i = 0; i < k->nptr; i++) {
    CudaAddress address = gpu_translate(w, of.ptr[i]);
    memcpy(to + gpu_ptr_at(i), &address, sizeof address);
  }
  if (k->nslot) memcpy(to + gpu_slot_at(k->nptr, 0), of.slot, k->nslot * sizeof *of.slot);
  if (k->nnum) memcpy(to + gpu_num_at(k->nptr, k->nslot, 0), of.num, k->nnum * sizeof *of.num);
  if (l->nsets++ == 0) l->table = at;
  l->blocks += ceil_div(record.to - record.from, record.grain);
}

// Adds the records of a kernel's sets on one processor. status: the address of its GpuStatus, or 0.
static void put_kernel(const DeviceWork *w, StepPlan *p, const BoundKernel *b, int64_t grain,
                       CudaAddress status, const LoopSteps *steps, Launching *l) {
  const ProgKernel *k = b->kernel;
  for (uint32_t s = 0; s < b->nsets; s++) {
    const BoundSet *set = &b->set[s];
    GpuRecord record = {
        .from = set->from, .to = set->from + set->units, .grain = grain, .status = status};
    if (k->partial_bytes)
      record.partial = gpu_translate(w, b->partial + set->first * k->partial_bytes);
    void **moved = w->exec->moved[0];
    for (int i = 0; i < k->nptr; i++)
      moved[i] =
          (char *)set->ptr[i] + (set->ref ? ref_moved(set->ref[i], steps->depth, steps->at) : 0);
    put_set(w, p, k, record, (SetOperands){moved, set->slot, set->num}, l);
  }
}

// -- operations ---------------------------------------------------------------------------------

static void add_op(StepPlan *p, GpuOp op) { vec_push(p->arena, p->op) = op; }

static void add_launch(StepPlan *p, CudaFunction f, const Launching *l, int64_t grid_x,
                       int64_t grid_y, int threads, int shared) {
  if (grid_x == 0 || grid_y == 0) return;
  add_op(p, (GpuOp){.kind = GPU_LAUNCH,
                    .u.launch = {.function = f,
                                 .table = l->table,
                                 .nsets = l->nsets,
                                 .grid_x = (unsigned)grid_x,
                                 .grid_y = (unsigned)grid_y,
                                 .threads = (unsigned)threads,
                                 .shared = (unsigned)shared}});
}

static void plan_kernel(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  uint32_t kernel = e->program->instr[round->instr].u.kernel.kernel;
  const GpuEntry *entry = &w->code->entry[kernel];
  Launching l = {0};
  if (e->program->nchecks) round->status = p->nstatus;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundKernel *b = &bound_instr(e, c, round->instr, &round->steps)->u.kernel;
    CudaAddress status = e->program->nchecks ? p->status_at + p->nstatus++ * sizeof(GpuStatus) : 0;
    put_kernel(w, p, b, entry->grain ? entry->grain : b->grain, status, &round->steps, &l);
  }
  add_launch(p, w->code->kernel[kernel].run, &l, l.blocks, 1, entry->threads, entry->shared);
  if (entry->combine)
    add_launch(p, w->code->kernel[kernel].combine, &l, entry->combine_blocks, l.nsets,
               entry->combine_threads, entry->combine_shared);
}

static bool lacks(DeviceWork *w, uint32_t i, const char *what) {
  Pos pos;
  const char *name = program_instr_name(w->exec->program, i, &pos);
  return diag_error(w->diag, DIAG_UNAVAILABLE, pos, "--device cuda does not support %s yet: %s",
                    what, name);
}

static bool plan_product(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  GpuProducts *all = gpu_products_of(w->code->gpu, w->diag);
  if (!all) return false;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundGemm *b = &bound_instr(e, c, round->instr, &round->steps)->u.gemm;
    GpuOperands at = {gpu_translate(w, b->a), gpu_translate(w, b->b), gpu_translate(w, b->c)};
    GpuOp op = {.kind = GPU_PRODUCT};
    if (!gpu_product_make(all, p->arena, b, at, &round->steps, &op.u.product, w->diag))
      return false;
    if (op.u.product.ncalls) add_op(p, op);
  }
  return true;
}

// Lists the sets of the kernels that carry out a collective, in w->arena. Returns their number.
static uint32_t collective_sets(DeviceWork *w, const StepPlan *p, const GpuRound *round,
                                TransferSet **set) {
  Exec *e = w->exec;
  CommCall *call = &e->call[round->instr];
  for (int64_t c = 0; c < e->processors; c++) exec_move_operands(e, c, round->instr, &round->steps);
  call->defers = p->defers;
  return transfer_sets(w->arena, w->code->transfers[round->instr], &e->program->mesh, call, set);
}

// Adds launches of the kernels that carry out a collective: one for each kernel, on the sets of all
// transfers that have it.
static void plan_collective(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  int part = p->commit == UINT32_MAX ? 0 : 1;
  ArenaMark mark = arena_mark(w->arena);
  TransferSet *set;
  uint32_t n = collective_sets(w, p, round, &set);
  transfer_count(&e->program->mesh, &e->call[round->instr], &p->count[part], 0);
  for (uint32_t i = 0; i < n;) {
    uint32_t kernel = set[i].kernel;
    const GpuEntry *entry = &w->code->entry[kernel];
    Launching l = {0};
    for (; i < n && set[i].kernel == kernel; i++)
      put_set(w, p, &e->program->kernel[kernel],
              (GpuRecord){.to = set[i].units, .grain = entry->grain},
              (SetOperands){set[i].ptr, set[i].slot, NULL}, &l);
    add_launch(p, w->code->kernel[kernel].run, &l, l.blocks, 1, entry->threads, entry->shared);
  }
  arena_reset(w->arena, mark);
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

static bool plan_ordered(DeviceWork *w, StepPlan *p, const GpuRound *round) {
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
    char *to = table_add(p, (size_t)gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0), &at);
    gpu_ordered_record(&sizes, gpu_translate(w, b->src + ref_moved(what->src, s->depth, s->at)),
                       gpu_translate(w, b->dst + ref_moved(what->dst, s->depth, s->at)), scratch,
                       l.blocks, to);
    scratch += (CudaAddress)ordered_scratch(e, c, round);
    l.blocks += gpu_ordered_launch(&sizes).blocks;
    if (l.nsets++ == 0) l.table = at;
  }
  if (f) add_launch(p, f, &l, l.blocks, 1, entry.threads, entry.shared);
  return f != NULL;
}

static void plan_copy(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  const Exec *e = w->exec;
  const LoopSteps *s = &round->steps;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundInstr *b = bound_instr(e, c, round->instr, s);
    if (b->u.copy.bytes == 0) continue;
    char *to = (char *)b->u.copy.dst + ref_moved(b->u.copy.to, s->depth, s->at);
    GpuOp op = {.kind = b->kind == INSTR_FILL ? GPU_FILL : GPU_COPY,
                .u.copy = {.to = gpu_translate(w, to), .bytes = b->u.copy.bytes}};
    if (op.kind == GPU_COPY)
      op.u.copy.from = gpu_translate(w, (const char *)b->u.copy.src +
                                            ref_moved(b->u.copy.from, s->depth, s->at));
    add_op(p, op);
  }
}

static bool plan_instr(DeviceWork *w, StepPlan *p, GpuRound *round) {
  switch (w->exec->program->instr[round->instr].kind) {
  case INSTR_KERNEL: plan_kernel(w, p, round); return true;
  case INSTR_FILL:
  case INSTR_COPY: plan_copy(w, p, round); return true;
  case INSTR_GEMM: return plan_product(w, p, round);
  case INSTR_COLLECTIVE: plan_collective(w, p, round); return true;
  case INSTR_ORDERED: return plan_ordered(w, p, round);
  case INSTR_COMMIT: p->commit = p->round.n; return true;
  case INSTR_LOOP:
  case INSTR_END: return true;
  }
  return true;
}

// -- the walk -----------------------------------------------------------------------------------

// Returns whether all processors run the loop at instruction i equally often. If not, adds an
// error.
static bool loops_agree(DeviceWork *w, uint32_t i) {
  const Exec *e = w->exec;
  for (int64_t c = e->first + 1; c < e->first + e->own; c++)
    if (e->context[c].instr[i].u.loop.count != e->context[e->first].instr[i].u.loop.count)
      return lacks(w, i, "loops whose number of rounds differs between processors");
  return true;
}

// Calls `visit` for each run of an instruction, loops and their ends excepted, in order.
typedef bool RoundVisit(DeviceWork *w, StepPlan *p, GpuRound *round);
static bool walk(DeviceWork *w, StepPlan *p, RoundVisit *visit) {
  const Exec *e = w->exec;
  LoopSteps steps = {0};
  for (uint32_t i = 0; i < e->program->ninstrs;) {
    const BoundInstr *b = &e->context[e->first].instr[i];
    if (b->kind == INSTR_LOOP || b->kind == INSTR_END) {
      if (b->kind == INSTR_LOOP && !loops_agree(w, i)) return false;
      i = exec_loop_pass(e, b, i, &steps);
      continue;
    }
    GpuRound round = {.instr = i, .status = UINT32_MAX, .steps = steps};
    if (!visit(w, p, &round)) return false;
    i++;
  }
  return true;
}

static void measure_kernel(const Exec *e, PlanNeed *need, const GpuRound *round) {
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    const BoundKernel *b = &bound_instr(e, c, round->instr, &round->steps)->u.kernel;
    need->table += b->nsets * kernel_record(b->kernel);
  }
  if (e->program->nchecks) need->statuses += (size_t)e->own * sizeof(GpuStatus);
}

// Ordered operations use their scratch memory one after another.
static void measure_ordered(const Exec *e, PlanNeed *need, const GpuRound *round) {
  size_t scratch = 0;
  for (int64_t c = e->first; c < e->first + e->own; c++) {
    need->table += (size_t)gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0);
    scratch += (size_t)ordered_scratch(e, c, round);
  }
  if (scratch > need->scratch) need->scratch = scratch;
}

static void measure_collective(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  ArenaMark mark = arena_mark(w->arena);
  TransferSet *set;
  uint32_t n = collective_sets(w, p, round, &set);
  for (uint32_t i = 0; i < n; i++)
    p->need.table += kernel_record(&w->exec->program->kernel[set[i].kernel]);
  arena_reset(w->arena, mark);
}

static bool measure(DeviceWork *w, StepPlan *p, GpuRound *round) {
  InstrKind kind = w->exec->program->instr[round->instr].kind;
  if (kind == INSTR_KERNEL) measure_kernel(w->exec, &p->need, round);
  if (kind == INSTR_ORDERED) measure_ordered(w->exec, &p->need, round);
  if (kind == INSTR_COLLECTIVE) measure_collective(w, p, round);
  if (kind == INSTR_GEMM) p->need.products = true;
  return true;
}

bool gpu_plan_defers(const Exec *e) { return e->defers && !e->nonfinite; }

static StepPlan plan_begin(const Exec *e) {
  return (StepPlan){.rows = e->rows, .defers = gpu_plan_defers(e), .commit = UINT32_MAX};
}

bool gpu_plan_measure(DeviceWork *w, PlanNeed *need) {
  StepPlan p = plan_begin(w->exec);
  bool good = walk(w, &p, measure);
  *need = p.need;
  return good;
}

static bool add_round(DeviceWork *w, StepPlan *p, GpuRound *round) {
  if (!plan_instr(w, p, round)) return false;
  round->end = p->op.n;
  vec_push(p->arena, p->round) = *round;
  return true;
}

// -- memory of the plan -------------------------------------------------------------------------

static bool allocate(DeviceWork *w, CudaAddress *at, size_t n, const char *what) {
  if (n == 0) return true;
  const char *call =
      arena_printf(w->arena, "cuMemAlloc of %s for %s", bytes_text(w->arena, (int64_t)n), what);
  return cuda_good(cuda.MemAlloc(at, n), call, w->diag);
}

static bool send_table(DeviceWork *w, StepPlan *p) {
  CudaStream stream = w->code->gpu->stream;
  bool good = allocate(w, &p->table_at, p->table_bytes, "the operands of launches") &&
              (p->table_bytes == 0 ||
               (cuda_good(cuda.MemcpyHtoDAsync(p->table_at, p->table, p->table_bytes, stream),
                          "cuMemcpyHtoDAsync", w->diag) &&
                cuda_good(cuda.StreamSynchronize(stream), "cuStreamSynchronize", w->diag)));
  free(p->table);
  p->table = NULL;
  return good;
}

bool gpu_plan_new(DeviceWork *w, StepPlan *p) {
  *p = plan_begin(w->exec);
  p->arena = arena_new();
  if (!walk(w, p, measure) ||
      !allocate(w, &p->status_at, p->need.statuses, "the faults of launches") ||
      !allocate(w, &p->scratch_at, p->need.scratch, "sorting"))
    return false;
  p->table = mem_zeroed(p->need.table + 1, 1);
  if (!walk(w, p, add_round)) return false;
  if (p->commit == UINT32_MAX) p->commit = p->round.n;
  return send_table(w, p);
}

void gpu_plan_forget(StepPlan *p) {
  for (int part = 0; part < 2; part++) {
    if (p->graph[part]) (void)cuda.GraphExecDestroy(p->graph[part]);
    p->graph[part] = NULL;
  }
}

void gpu_plan_free(StepPlan *p) {
  if (!p->arena) return;
  gpu_plan_forget(p);
  if (p->table_at) (void)cuda.MemFree(p->table_at);
  if (p->status_at) (void)cuda.MemFree(p->status_at);
  if (p->scratch_at) (void)cuda.MemFree(p->scratch_at);
  free(p->table);
  arena_free(p->arena);
  *p = (StepPlan){0};
}
