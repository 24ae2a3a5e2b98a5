// Runs models by the executor for GPUs (runtime/gpu) and by that of the CPU, and compares every
// output and every parameter, state and slot bit for bit: step by step, and with several steps
// under way, of which one may fail. No GPU takes part: the functions of the driver are replaced by
// some that keep the memory of the GPU apart from that of the host, and a launch calls the code of
// the CPU for each block of threads, with the operands of its record. So the suite tests memory,
// records, graphs and the order of a step, and no code of kernels.
//
//   suite_gpu_step [FILE ...]   FILE: only these models
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "runtime/gpu/gpu_internal.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/judge.h"

// A launch that joins partial results has at most two rows of blocks: several sets take several.
enum { SEED = 7, STEPS = 3, MOST_BLOCKS_Y = 2, MANY_NODES = 20000, FEW_NODES = 5 };
static int passed, failed;
static Gpu gpu = {.name = "no GPU", .limits = {INT32_MAX, MOST_BLOCKS_Y, MANY_NODES}};

// -- the driver ---------------------------------------------------------------------------------

// A function as a module has it: `run` or `combine` of a kernel, or one of those that every program
// has.
typedef struct FakeFunction {
  const ProgKernel *kernel;
  bool combine, judges, moves;
} FakeFunction;
static const FakeFunction judge = {.judges = true}, mover = {.moves = true};

// An operation of the stream. Operations run at once, or are kept while the stream is captured.
typedef struct FakeOp {
  enum { OP_RUN, OP_SET, OP_MOVE } kind;
  const FakeFunction *function;
  CudaAddress table, header;
  int32_t nsets, flags;
  unsigned blocks;
  void *to;
  const void *from;
  size_t bytes;
  int value; // of OP_SET
} FakeOp;
typedef struct FakeGraph {
  FakeOp *op;
  size_t n;
} FakeGraph;
static FakeGraph captured;
static bool capturing;
static bool fails; // from now on
static int64_t allocations, graph_launches, waits, event_waits;
static size_t largest_graph;                          // nodes
static size_t available = (size_t)1 << 33, allocated; // bytes; all that was ever allocated

static KernelCall call_of(const ProgKernel *k, char *record, const GpuHeader *h, Status *status) {
  GpuRecord r;
  memcpy(&r, record, sizeof r);
  return (KernelCall){.ptr = (void *const *)(void *)(record + gpu_ptr_at(0)),
                      .slot = (const int64_t *)(void *)(record + gpu_slot_at(k->nptr, 0)),
                      .num = (const double *)(void *)(record + gpu_num_at(k->nptr, k->nslot, 0)),
                      .partial = (char *)(uintptr_t)r.partial,
                      .status = status,
                      .step = h->step,
                      .seed = h->seed};
}

static void note(const GpuRecord *r, const Status *s) {
  GpuStatus *to = (GpuStatus *)(uintptr_t)r->status;
  if (!s->code || !to) return;
  if (!to->first.code || to->first.position > s->position) to->first = *s;
}

// Runs a launch, the last block first: no block may need another one.
static void run_launch(const FakeOp *op) {
  const ProgKernel *k = op->function->kernel;
  GpuHeader *h = (GpuHeader *)(uintptr_t)op->header;
  const char *table = (const char *)(uintptr_t)op->table;
  if (op->function->judges) {
    judge_run(table, h, op->flags);
    return;
  }
  if (op->function->moves) {
    move_run(table, h, op->nsets, op->flags);
    return;
  }
  if (op->flags & GPU_IF_GO && !h->go) return;
  int64_t bytes = gpu_record_bytes(k->nptr, k->nslot, k->nnum), blocks = op->blocks;
  for (int32_t s = op->nsets - 1; s >= 0; s--) {
    char *record = (char *)(uintptr_t)op->table + s * bytes;
    GpuRecord r;
    memcpy(&r, record, sizeof r);
    Status status = {0};
    KernelCall call = call_of(k, record, h, &status);
    if (op->function->combine) {
      k->combine(&call, ceil_div(r.to - r.from, r.grain));
      continue;
    }
    for (int64_t b = blocks - 1; b >= r.first_block; b--) {
      int64_t c = b - r.first_block, from = r.from + c * r.grain, to = from + r.grain;
      call.partial = (char *)(uintptr_t)r.partial + c * k->partial_bytes;
      status = (Status){0};
      if (from < r.to) k->run(&call, from, to < r.to ? to : r.to);
      note(&r, &status);
    }
    blocks = r.first_block;
  }
}

static void run_op(const FakeOp *op) {
  if (op->kind == OP_RUN) run_launch(op);
  if (op->kind == OP_SET) memset(op->to, op->value, op->bytes);
  if (op->kind == OP_MOVE) memcpy(op->to, op->from, op->bytes);
}

static CudaResult enqueue(FakeOp op) {
  if (!capturing) {
    run_op(&op);
    return CUDA_OK;
  }
  captured.op = realloc(captured.op, (captured.n + 1) * sizeof op);
  captured.op[captured.n++] = op;
  return CUDA_OK;
}

static CudaResult fake_use(CudaContext c) { return (void)c, CUDA_OK; }
static CudaResult fake_info(size_t *left, size_t *all) {
  *left = *all = available;
  return CUDA_OK;
}
static CudaResult fake_alloc(CudaAddress *at, size_t bytes) {
  void *new = malloc(bytes);
  memset(new, 0xff, bytes);
  *at = (CudaAddress)(uintptr_t) new;
  allocations++;
  allocated += bytes;
  return CUDA_OK;
}
static CudaResult fake_free(CudaAddress at) {
  free((void *)(uintptr_t)at);
  allocations--;
  return CUDA_OK;
}
static CudaResult fake_host_alloc(void **at, size_t bytes, unsigned flags) {
  (void)flags;
  *at = malloc(bytes);
  allocations++;
  return CUDA_OK;
}
static CudaResult fake_host_free(void *at) {
  free(at);
  allocations--;
  return CUDA_OK;
}
static CudaResult fake_set(CudaAddress at, unsigned char value, size_t n, CudaStream s) {
  (void)s;
  return enqueue((FakeOp){.kind = OP_SET, .to = (void *)(uintptr_t)at, .bytes = n, .value = value});
}
static CudaResult fake_up(CudaAddress to, const void *from, size_t n, CudaStream s) {
  (void)s;
  return enqueue((FakeOp){.kind = OP_MOVE, .to = (void *)(uintptr_t)to, .from = from, .bytes = n});
}
static CudaResult fake_down(void *to, CudaAddress from, size_t n, CudaStream s) {
  (void)s;
  return enqueue((FakeOp){OP_MOVE, .to = to, .from = (const void *)(uintptr_t)from, .bytes = n});
}
static CudaResult fake_across(CudaAddress to, CudaAddress from, size_t n, CudaStream s) {
  return fake_down((void *)(uintptr_t)to, from, n, s);
}
static CudaResult fake_wait(CudaStream s) {
  (void)s;
  waits++;
  return fails ? CUDA_ILLEGAL_ADDRESS : CUDA_OK;
}
static CudaResult fake_event(CudaEvent *e, unsigned flags) {
  (void)flags;
  *e = malloc(1);
  allocations++;
  return CUDA_OK;
}
static CudaResult fake_event_free(CudaEvent e) { return fake_host_free(e); }
static CudaResult fake_record(CudaEvent e, CudaStream s) { return (void)e, (void)s, CUDA_OK; }
static CudaResult fake_follow(CudaStream s, CudaEvent e, unsigned flags) {
  return (void)s, (void)e, (void)flags, CUDA_OK;
}
static CudaResult fake_event_wait(CudaEvent e) {
  (void)e;
  event_waits++;
  return fails ? CUDA_ILLEGAL_ADDRESS : CUDA_OK;
}
static CudaResult fake_begin(CudaStream s, CudaCapture mode) {
  (void)s, (void)mode;
  capturing = true;
  captured = (FakeGraph){0};
  return CUDA_OK;
}
static CudaResult fake_end(CudaStream s, CudaGraph *graph) {
  (void)s;
  capturing = false;
  FakeGraph *g = malloc(sizeof *g);
  *g = captured;
  *graph = (CudaGraph)(void *)g;
  allocations++;
  return CUDA_OK;
}
static CudaResult fake_instantiate(CudaGraphExec *exec, CudaGraph graph, unsigned long long flags) {
  (void)flags;
  FakeGraph *g = malloc(sizeof *g);
  *g = *(FakeGraph *)(void *)graph;
  if (g->n > largest_graph) largest_graph = g->n;
  *exec = (CudaGraphExec)(void *)g;
  allocations++;
  return CUDA_OK;
}
static CudaResult fake_graph_free(CudaGraph graph) { return fake_host_free(graph); }
static CudaResult fake_exec_free(CudaGraphExec exec) {
  free(((FakeGraph *)(void *)exec)->op);
  return fake_host_free(exec);
}
static CudaResult fake_graph_launch(CudaGraphExec exec, CudaStream s) {
  const FakeGraph *g = (const FakeGraph *)(void *)exec;
  (void)s;
  for (size_t i = 0; i < g->n; i++) run_op(&g->op[i]);
  graph_launches++;
  return CUDA_OK;
}
static CudaResult fake_launch(CudaFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned tx,
                              unsigned ty, unsigned tz, unsigned shared, CudaStream s, void **arg,
                              void **extra) {
  (void)gz, (void)tx, (void)ty, (void)tz, (void)shared, (void)s, (void)extra;
  if (gy > MOST_BLOCKS_Y) return CUDA_BAD_VALUE;
  FakeOp op = {.kind = OP_RUN, .function = (const FakeFunction *)(void *)f, .blocks = gx};
  memcpy(&op.table, arg[0], sizeof op.table);
  memcpy(&op.header, arg[1], sizeof op.header);
  memcpy(&op.nsets, arg[2], sizeof op.nsets);
  memcpy(&op.flags, arg[3], sizeof op.flags);
  return enqueue(op);
}
static CudaResult fake_error_name(CudaResult r, const char **text) {
  *text = r == CUDA_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "another error";
  return CUDA_OK;
}
// A module is the list of the functions of all kernels: run and combine of kernel k are 2k, 2k + 1.
static FakeFunction *functions;
static CudaResult fake_load(CudaModule *module, const void *image, unsigned n, CudaJitOption *o,
                            void **value) {
  (void)n, (void)o, (void)value;
  *module = (CudaModule)(uintptr_t)image;
  return CUDA_OK;
}
static CudaResult fake_unload(CudaModule module) { return (void)module, CUDA_OK; }
static CudaResult fake_function(CudaFunction *f, CudaModule module, const char *name) {
  (void)module;
  const FakeFunction *found = strcmp(name, "judge") == 0  ? &judge
                              : strcmp(name, "move") == 0 ? &mover
                                                          : &functions[atoi(name)];
  *f = (CudaFunction)(uintptr_t)found;
  return CUDA_OK;
}

static void replace_driver(void) {
  cuda = (CudaApi){.GetErrorName = fake_error_name,
                   .CtxSetCurrent = fake_use,
                   .MemGetInfo = fake_info,
                   .MemAlloc = fake_alloc,
                   .MemFree = fake_free,
                   .MemHostAlloc = fake_host_alloc,
                   .MemFreeHost = fake_host_free,
                   .MemsetD8Async = fake_set,
                   .MemcpyHtoDAsync = fake_up,
                   .MemcpyDtoHAsync = fake_down,
                   .MemcpyDtoDAsync = fake_across,
                   .StreamSynchronize = fake_wait,
                   .StreamWaitEvent = fake_follow,
                   .EventCreate = fake_event,
                   .EventDestroy = fake_event_free,
                   .EventRecord = fake_record,
                   .EventSynchronize = fake_event_wait,
                   .StreamBeginCapture = fake_begin,
                   .StreamEndCapture = fake_end,
                   .GraphInstantiate = fake_instantiate,
                   .GraphDestroy = fake_graph_free,
                   .GraphExecDestroy = fake_exec_free,
                   .GraphLaunch = fake_graph_launch,
                   .ModuleLoadDataEx = fake_load,
                   .ModuleUnload = fake_unload,
                   .ModuleGetFunction = fake_function,
                   .LaunchKernel = fake_launch};
}

// -- a model on both ----------------------------------------------------------------------------

typedef struct Run {
  Arena *arena;
  Diag *diag;
  const char *path, *mesh, *layout; // mesh "": one processor
  bool trains, eager;
  Model *model;
  Compilation made;
  Code *code;
  GpuProgram *program;
  Exec *cpu, *gpu;
} Run;

static bool fault(const Run *r, const char *what) {
  printf("FAIL %s [%s %s]%s%s: %s\n", r->path, r->mesh, r->layout, r->trains ? " train" : "",
         r->eager ? " eager" : "", what);
  diag_print(r->diag, stdout, false);
  return false;
}

static bool build_model(Run *r) {
  size_t n;
  Intern *names = intern_new(r->arena);
  const char *text = file_text(r->arena, r->path, &n);
  if (!text) return false;
  Ast *ast = ast_parse(r->arena, names, r->diag, diag_source(r->diag, r->path, text, n), text, n);
  ModelOptions o = {.path = r->path, .no_layout = !*r->layout, .seed = SEED};
  uint32_t source = diag_source(r->diag, "options", r->mesh, strlen(r->mesh));
  if (*r->mesh) o.mesh = ast_parse_mesh(r->arena, names, r->diag, source, r->mesh, strlen(r->mesh));
  if (*r->layout)
    o.layout = ast_parse_layout(r->arena, names, r->diag, source, r->layout, strlen(r->layout));
  if (!diag_errors(r->diag)) r->model = model_build(r->arena, names, r->diag, ast, &o);
  return r->model != NULL;
}

// Compiles the program for the CPU, with the kernels that carry out collectives on a GPU.
static bool compile(Run *r) {
  static Machine machine;
  machine = machine_default();
  const Fetch all = {0};
  Graph *g =
      r->trains ? select_train(r->arena, r->model, NULL) : select_run(r->arena, r->model, &all);
  PipelineOptions options = {.codegen = {.fuse = suite_fuses(true),
                                         .for_ = r->trains ? "train" : "run",
                                         .over = r->trains ? NULL : "b"},
                             .machine = &machine};
  if (!g || !pipeline_run(r->arena, g, &options, "program", r->diag, &r->made)) return false;
  Compiled *c = arena_copy(r->arena, r->made.compiled, sizeof *c);
  r->made.transfers = gpu_transfers(r->arena, c, 0);
  const CodeOptions code = {.opt = suite_opt(1), .cache = suite_cache()};
  r->made.compiled = c;
  r->made.code = code_load(c->program, c->kernels, &code, r->diag);
  return r->made.code != NULL;
}

static bool load(Run *r) {
  const Program *p = r->made.compiled->program;
  functions = arena_array(r->arena, FakeFunction, 2 * p->nkernels + 1);
  GpuEntry *entry = arena_array(r->arena, GpuEntry, p->nkernels + 1);
  for (uint32_t k = 0; k < p->nkernels; k++) {
    bool partial = p->kernel[k].partial_bytes > 0;
    functions[2 * k] = (FakeFunction){.kernel = &p->kernel[k]};
    functions[2 * k + 1] = (FakeFunction){.kernel = &p->kernel[k], .combine = true};
    entry[k] = (GpuEntry){.run = arena_printf(r->arena, "%u", 2 * k),
                          .combine = partial ? arena_printf(r->arena, "%u", 2 * k + 1) : NULL,
                          .grain = partial ? 0 : 3, // blocks that do not divide the units
                          .combine_blocks = 1};
  }
  static const GpuImage image = {"", 0};
  const GpuParts parts = {entry, 1, &image, r->made.transfers->local, NULL, NULL};
  r->program = gpu_program_new(&gpu, p, &parts, r->diag);
  return r->program != NULL;
}

static bool bind(Run *r) {
  const Program *p = r->made.compiled->program;
  ExecOptions o = {.threads = 1, .seed = SEED, .must_be_finite = r->model->loss};
  r->cpu = exec_new(p, &o, r->diag);
  o.device = gpu_program_device(r->program);
  r->gpu = r->cpu ? exec_new(p, &o, r->diag) : NULL;
  return r->gpu != NULL;
}

static int64_t bytes_of(const ProgTensor *t) {
  int64_t n = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
  return n;
}

// Writes inputs that depend on the step. `bad`: numbers that are no indices, and infinite ones.
static void give_inputs(Run *r, Exec *e, int64_t step, bool bad) {
  const Program *p = r->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (t->kind != TENSOR_INPUT) continue;
    int64_t n = bytes_of(t), each = dtype_bytes(t->type);
    char *x = arena_alloc(r->arena, (size_t)n + 1);
    for (int64_t k = 0; k < n / each; k++) {
      int64_t v = (k * 7 + step) % 11;
      double number = dtype_is_float(t->type) ? (double)(v - 5) / 4 : (double)(v % 2);
      if (bad && k == n / each / 2) number = dtype_is_float(t->type) ? (double)INFINITY : 99;
      dtype_store(t->type, x + k * each, dtype_round(t->type, number));
    }
    exec_write(e, t->kind, t->name, t->type, x);
  }
}

// Returns whether all tensors are equal on both. With `kept` inputs are left out.
static bool same_values(Run *r, bool kept) {
  const Program *p = r->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (t->kind == TENSOR_CONSTANT || (kept && t->kind == TENSOR_INPUT)) continue;
    size_t n = (size_t)bytes_of(t);
    char *a = arena_alloc(r->arena, n + 1), *b = arena_alloc(r->arena, n + 1);
    exec_read(r->cpu, t->kind, t->name, a);
    exec_read(r->gpu, t->kind, t->name, b);
    if (memcmp(a, b, n) != 0) return fault(r, t->name);
  }
  return true;
}

static bool run_steps(Run *r, int64_t rows) {
  exec_rows(r->cpu, rows);
  exec_rows(r->gpu, rows);
  for (int64_t step = 0; step < STEPS; step++) {
    give_inputs(r, r->cpu, step, false);
    give_inputs(r, r->gpu, step, false);
    StepResult a = exec_step(r->cpu, step, r->trains), b = exec_step(r->gpu, step, r->trains);
    if (a != b) return exec_fault(r->gpu, r->diag), fault(r, "the steps end differently");
    if (a == STEP_OK && !same_values(r, false)) return false;
  }
  return true;
}

static bool run_both(Run *r) {
  if (!build_model(r) || !compile(r) || !load(r) || !bind(r)) return fault(r, "cannot begin");
  if (!run_steps(r, -1)) return false;
  const Program *p = r->made.compiled->program;
  if (p->over && (!run_steps(r, 1) || !run_steps(r, -1))) return false;
  return (exec_check(r->gpu, r->diag) && exec_check(r->cpu, r->diag)) || fault(r, "exec_check");
}

// -- several steps under way ----------------------------------------------------------------------

enum { QUEUED = 8 };

// Returns whether the scalar outputs of both are equal.
static bool same_scalars(const Run *r) {
  const Program *p = r->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (t->kind != TENSOR_OUTPUT || t->rank > 0) continue;
    double a = exec_scalar(r->cpu, t->name), b = exec_scalar(r->gpu, t->name);
    if (memcmp(&a, &b, sizeof a) != 0) return fault(r, t->name);
  }
  return true;
}

// Returns whether both say the same of the fault of a step.
static bool same_fault(const Run *r) {
  Diag *a = diag_new(r->arena), *b = diag_new(r->arena);
  exec_fault(r->cpu, a);
  exec_fault(r->gpu, b);
  return strcmp(diag_entry(a, 0).text, diag_entry(b, 0).text) == 0 || fault(r, "another fault");
}

// Runs steps from..QUEUED-1, on the GPU as many at once as it can. Step `bad` gets bad inputs; both
// must end there in the same way. Returns the number of good steps, or -1 if something differs.
static int64_t run_queue(Run *r, int64_t from, int64_t bad) {
  int64_t started = from;
  for (int64_t step = from; step < QUEUED; step++) {
    for (; started < QUEUED && started - step < exec_ahead(r->gpu); started++) {
      give_inputs(r, r->gpu, started, started == bad);
      exec_start(r->gpu, started, true);
    }
    give_inputs(r, r->cpu, step, step == bad);
    StepResult a = exec_step(r->cpu, step, true), b = exec_finish(r->gpu);
    if (a != b) return exec_fault(r->gpu, r->diag), fault(r, "queued steps end differently"), -1;
    if (!same_scalars(r) || (a == STEP_BAD_INDEX && !same_fault(r))) return -1;
    if (a != STEP_OK) return step;
  }
  return QUEUED;
}

// Steps without a wait of the host for the stream, one of them bad; then the same steps go on.
static bool run_queues(Run *r, int64_t bad) {
  if (!build_model(r) || !compile(r) || !load(r) || !bind(r)) return fault(r, "cannot begin");
  if (exec_ahead(r->gpu) < 2) return fault(r, "no step is started before another one has ended");
  int64_t begun = waits, launched = graph_launches;
  int64_t good = run_queue(r, 0, bad);
  if (good != (bad < 0 ? QUEUED : bad)) return good < 0 ? false : fault(r, "the bad step");
  if (bad < 0 && !r->eager && waits != begun) return fault(r, "the host waits for a step");
  if (bad < 0 && !r->eager && gpu.limits.nodes == MANY_NODES && graph_launches - launched != QUEUED)
    return fault(r, "a step is not one graph");
  if (!same_values(r, true) || (bad >= 0 && run_queue(r, bad, -1) != QUEUED)) return false;
  return (exec_check(r->gpu, r->diag) && same_values(r, true)) || fault(r, "exec_check");
}

static void end_run(Run *r, bool good) {
  exec_free(r->gpu);
  exec_free(r->cpu);
  compilation_free(&r->made);
  gpu_program_free(r->program);
  if (good && allocations != 0) good = fault(r, "memory of the GPU is left");
  allocations = 0;
  *(good ? &passed : &failed) += 1;
  arena_free(r->arena);
}

static Run begin_run(const char *path, const char *mesh, const char *layout, bool trains,
                     bool eager) {
  Run r = {.path = path, .mesh = mesh, .layout = layout, .trains = trains, .eager = eager};
  setenv("MESHC_GPU_EAGER", eager ? "1" : "0", 1);
  r.arena = arena_new();
  r.diag = diag_new(r.arena);
  return r;
}

static void run_one(const char *path, const char *mesh, const char *layout, bool trains,
                    bool eager) {
  Run r = begin_run(path, mesh, layout, trains, eager);
  int64_t graphs = graph_launches;
  bool good = run_both(&r);
  if (good && (graph_launches > graphs) == eager) good = fault(&r, "graphs");
  end_run(&r, good);
}

static void run_many(const char *path, const char *mesh, const char *layout, int64_t bad,
                     bool eager) {
  Run r = begin_run(path, mesh, layout, true, eager);
  end_run(&r, run_queues(&r, bad));
}

// Returns the operations of the round that has most: graphs are split between rounds only.
static size_t largest_round(const Run *r) {
  const StepPlan *p = &r->gpu->work_on_device->plan[0];
  size_t most = 0;
  for (uint32_t i = 0, from = 0; i < p->round.n; from = p->round.at[i++].end)
    if (p->round.at[i].end - from > most) most = p->round.at[i].end - from;
  return most;
}

// Graphs of few nodes: a step takes several.
static void run_pieces(const char *path, const char *mesh, const char *layout) {
  gpu.limits.nodes = FEW_NODES;
  largest_graph = 0;
  Run r = begin_run(path, mesh, layout, true, false);
  bool good = run_queues(&r, -1);
  if (good && largest_graph > FEW_NODES + largest_round(&r))
    good = fault(&r, "a graph has too many nodes");
  end_run(&r, good);
  gpu.limits.nodes = MANY_NODES;
}

// Binds a model on a GPU with `room` bytes. Returns whether its memory is enough for the first
// step.
static bool fits(Run *r, size_t room) {
  available = room;
  allocated = 0;
  exec_free(r->gpu);
  ExecOptions o = {.threads = 1, .seed = SEED, .device = gpu_program_device(r->program)};
  r->gpu = exec_new(r->made.compiled->program, &o, r->diag);
  available = (size_t)1 << 33;
  return r->gpu != NULL;
}

// A GPU with as much memory as all allocations take is enough. One with a byte less is refused
// before anything is allocated.
static void run_memory(const char *path, const char *mesh, const char *layout) {
  Run r = {.path = path, .mesh = mesh, .layout = layout, .trains = true};
  r.arena = arena_new();
  r.diag = diag_new(r.arena);
  bool good = build_model(&r) && compile(&r) && load(&r) && bind(&r) && fits(&r, SIZE_MAX / 4);
  size_t needed = allocated;
  good = good && fits(&r, needed) && allocated == needed && diag_errors(r.diag) == 0;
  good = good && !fits(&r, needed - 1) && allocated == 0 && diag_exit(r.diag) == 7;
  if (!good) fault(&r, "the memory that a step needs is not what is allocated");
  *(good ? &passed : &failed) += 1;
  exec_free(r.gpu);
  exec_free(r.cpu);
  compilation_free(&r.made);
  gpu_program_free(r.program);
  arena_free(r.arena);
}

// A GPU that fails after the second step is reported by the third, and by exec_check.
static void run_failure(void) {
  Run r = {.path = "tests/models/train_blocks.mesh", .mesh = "", .layout = "", .trains = true};
  r.arena = arena_new();
  r.diag = diag_new(r.arena);
  bool good = build_model(&r) && compile(&r) && load(&r) && bind(&r);
  for (int64_t step = 0; step < 2 && good; step++) good = exec_step(r.gpu, step, true) == STEP_OK;
  fails = true;
  good = good && exec_step(r.gpu, 2, true) == STEP_FAILED && !exec_check(r.gpu, r.diag) &&
         strstr(diag_entry(r.diag, 0).text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  fails = false;
  if (!good) fault(&r, "a failure of the GPU is not reported");
  *(good ? &passed : &failed) += 1;
  exec_free(r.gpu);
  exec_free(r.cpu);
  compilation_free(&r.made);
  gpu_program_free(r.program);
  arena_free(r.arena);
}

static const struct {
  const char *path, *mesh, *layout;
  bool trains;
} cases[] = {
    {"tests/models/mlp.mesh", "", "", false},
    {"tests/models/mlp.mesh", "rows=2,cols=2", "b=rows,h=cols", false},
    {"tests/models/uneven.mesh", "rows=2,cols=3", "b=rows+cols", false},
    {"tests/models/moves.mesh", "rows=2,cols=3", "b=rows,t=cols", false},
    {"tests/models/lookup.mesh", "rows=2,cols=2", "v=rows+cols", false},
    {"tests/models/lookup.mesh", "rows=2,cols=2", "b=rows,v=cols", true},
    {"tests/models/lstm.mesh", "rows=2,cols=2", "b=rows,d=cols", false},
    {"tests/models/lstm.mesh", "rows=2", "b=rows", true},
    {"tests/models/train_blocks.mesh", "", "", true},
    {"tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols", true},
    {"tests/models/train_blocks.mesh", "rows=3", "b=rows,optimizer/all=rows,parameters/all=rows",
     true},
    {"tests/models/batch_norm.mesh", "rows=2,cols=2", "b=rows+cols", true},
    {"tests/models/dropout.mesh", "rows=2,cols=2", "b=rows,y=cols", true},
    {"tests/models/scans.mesh", "rows=2", "b=rows", false},
};

// Trainings with several steps under way, of which step `bad` fails; -1: none.
static const struct {
  const char *path, *mesh, *layout;
  int64_t bad;
} queues[] = {
    {"tests/models/train_blocks.mesh", "", "", -1},
    {"tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols", -1},
    {"tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols", 0},
    {"tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols", 3},
    {"tests/models/train_blocks.mesh", "rows=3", "b=rows,optimizer/all=rows,parameters/all=rows",
     7},
    {"tests/models/lookup.mesh", "rows=2,cols=2", "b=rows,v=cols", -1},
    {"tests/models/lookup.mesh", "rows=2,cols=2", "b=rows,v=cols", 4},
    {"tests/models/lookup.mesh", "", "", 1},
    {"tests/models/batch_norm.mesh", "rows=2,cols=2", "b=rows+cols", 2},
    {"tests/models/lstm.mesh", "rows=2", "b=rows", 5},
    {"tests/models/dropout.mesh", "rows=2,cols=2", "b=rows,y=cols", 3},
};

static bool wanted(int argc, char **argv, const char *path) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], path) == 0) return true;
  return argc < 2;
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %zu skipped\n", 2 * (countof(cases) + countof(queues)) + 5);
    return 0;
  }
  replace_driver();
  for (size_t i = 0; i < countof(cases); i++)
    for (int eager = 0; eager < 2 && wanted(argc, argv, cases[i].path); eager++)
      run_one(cases[i].path, cases[i].mesh, cases[i].layout, cases[i].trains, eager);
  for (size_t i = 0; i < countof(queues); i++)
    for (int eager = 0; eager < 2 && wanted(argc, argv, queues[i].path); eager++)
      run_many(queues[i].path, queues[i].mesh, queues[i].layout, queues[i].bad, eager);
  if (argc < 2) {
    run_pieces("tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols");
    run_pieces("tests/models/lstm.mesh", "rows=2", "b=rows");
    run_memory("tests/models/train_blocks.mesh", "rows=2,cols=2", "b=rows,h=cols");
    run_memory("tests/models/lookup.mesh", "rows=2,cols=2", "b=rows,v=cols"); // has statuses
    run_failure();
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
