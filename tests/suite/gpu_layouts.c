// Runs operations under layouts, and random graphs, through the whole compiler and the executor for
// GPUs, on the stand-ins of NVIDIA's libraries (tests/standin). The evaluator runs the whole graph,
// and both must agree. A step by CUDA graphs and one without must give the same bits. Each case
// runs in a child process: a stand-in ends the process at the first race, read of unwritten memory
// or access out of bounds. The order of threads, fusion, products by the library and
// rematerialisation change from case to case. Programs with instructions that no GPU runs are
// skipped.
//
//   suite_gpu_layouts [CASE | seed=N]    one case by name, or one random graph; EVERY=n: each n-th
//                                        layout, and 100 random graphs under one layout each (1:
//                                        all layouts and graphs, which takes hours); SEEDS=n,
//                                        FROM=n, SHOW=1 as in layouts; TURN=n: only check number n
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "runtime/gpu/gpu_plan_internal.h"
#include "tests/standin/child.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/standin.h"
#include "tests/suite/common/step_values.h"

enum {
  STEP = 3,
  EVERY = 127,
  FAILED = 1,
  VACUOUS = 2,
  MOST_TEXT = 1000,
  CAPABILITY = 90,
  GRAPHS = 100
};

// One check: a program, and the values that it must give.
typedef struct Job {
  Maker *m;
  Compiled *made;
  GpuTransfers *transfers;
  Expect *truth;
  GpuCode *code; // NULL: it does not compile, or has instructions that no GPU runs
} Job;

// Ends the child process with a text for its parent.
static _Noreturn void end(const Job *j, const char *wrong) {
  fprintf(stderr, "%s\n", wrong);
  diag_print(j->m->diag, stderr, false);
  exit(wrong == layout_vacuous ? VACUOUS : FAILED);
}

// Runs the step with CUDA graphs or without; out[] gets the results. Returns NULL, or what failed.
static const char *run_step(const Job *j, const GpuProgram *on, bool eager, StepValue *out) {
  Maker *m = j->m;
  const Program *p = j->made->program;
  setenv("MESHC_GPU_EAGER", eager ? "1" : "0", 1);
  ExecOptions opt = {.threads = 1, .device = gpu_program_device(on)};
  Exec *e = exec_new(p, &opt, m->diag);
  if (!e) return "the executor refuses the program";
  step_give(m, e, p);
  bool clean = exec_step(e, STEP, true) == STEP_OK;
  if (!clean) exec_fault(e, m->diag);
  for (uint32_t i = 0; i < j->truth->graph->output.n && clean; i++)
    out[i] = step_value(m, e, j->truth, i);
  const char *wrong = !clean                   ? "the step fails"
                      : exec_check(e, m->diag) ? NULL
                                               : "the run is not what was predicted";
  exec_free(e);
  return wrong;
}

static const char *run_both(const Job *j, const GpuProgram *on) {
  uint32_t n = j->truth->graph->output.n;
  StepValue *one = arena_array(j->m->a, StepValue, n + 1),
            *two = arena_array(j->m->a, StepValue, n + 1);
  const char *wrong = run_step(j, on, false, one), *differs = NULL;
  if (!wrong) wrong = step_judge(j->m, j->truth, STEP, n, one);
  if (wrong && wrong != layout_vacuous) return wrong;
  const char *again = run_step(j, on, true, two);
  if (!again) differs = step_differs(one, two, n);
  if (differs) return arena_printf(j->m->a, "%s has other bits without CUDA graphs", differs);
  return again ? again : wrong;
}

// What the child process does. The code is compiled before, so that LLVM is opened once and not in
// each child.
static void run_job(void *job) {
  const Job *j = job;
  Gpu *gpu = gpu_open(NULL, j->m->diag);
  if (!gpu) end(j, "there is no GPU");
  GpuParts parts = {.entry = gpu_code_entries(j->code), .transfers = j->transfers->local};
  parts.nimages = gpu_code_images(j->code, &parts.image);
  GpuProgram *on = gpu_program_new(gpu, j->made->program, &parts, j->m->diag);
  const char *wrong = on ? run_both(j, on) : "cannot be loaded";
  gpu_program_free(on);
  gpu_close(gpu, true);
  if (wrong) end(j, wrong);
}

// Returns whether a GPU has all instructions of a program.
static bool gpu_runs(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (gpu_ops_of(p->instr[i].kind)->lacks) return false;
  return true;
}

static Job job_of(Maker *m, const Graph *g, int turn) {
  Machine machine = machine_default();
  CodegenOptions opt = {
      .fuse = suite_fuses(turn % 4 != 3),
      .products = turn % 2 ? 0 : dtype_bit(TYPE_F32) | dtype_bit(TYPE_F64) | dtype_bit(TYPE_BF16),
      .product_work = 1,
      .gpu = true,
      .epilogues = turn % 5 != 3 ? ALL_EPILOGUES : 0,
      .for_ = "train"};
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  int again = turn % 5 == 4 ? remat_levels(m->a, low) : 0;
  Order *order = order_choose(m->a, remat(m->a, low, again), &(StoreOptions){0}, true);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  Job j = {.m = m, .made = program_build(m->a, f, &opt)};
  GpuCodeOptions code = {.target = GPU_EMULATED,
                         .capability = CAPABILITY,
                         .opt = suite_opt(turn % 3 == 0),
                         .cache = suite_cache()};
  if (!gpu_runs(j.made->program)) return j;
  j.transfers = gpu_transfers(m->a, j.made, 0);
  j.code = gpu_code_load(j.made->program, j.made->kernels, &code, m->diag);
  j.truth = expect_new(m->a, g, low, m->ninputs, m->feed);
  expect_step(j.truth, STEP);
  return j;
}

static void show(const Job *j) {
  for (uint32_t i = 0; i < j->made->program->nkernels; i++)
    puts(kernel_print(j->m->a, j->made->kernels[i]));
  puts(program_print(j->m->a, j->made->program));
}

static int turn, vacuous; // numbers of all checks, and of those that compared too few elements

static const char *check(Maker *m, const Graph *g, const Eval *whole) {
  char text[MOST_TEXT];
  const char *only = getenv("TURN");
  (void)whole;
  if (++turn, only && atoi(only) != turn) return NULL;
  Job j = job_of(m, g, turn);
  setenv("MESHC_STANDIN_SEED", arena_printf(m->a, "%d", turn), 1);
  if (!gpu_runs(j.made->program)) return layout_skipped;
  if (!j.code) return "does not compile";
  int code = child_run(run_job, &j, text, sizeof text);
  gpu_code_free(j.code);
  if (code == 0) return NULL;
  vacuous += code == VACUOUS;
  if (code == VACUOUS) return NULL;
  if (getenv("SHOW")) show(&j);
  return arena_printf(m->a, "check %d ends with %d: %s", turn, code, text);
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, 1 skipped\n");
    return 0;
  }
  if (!standin_load()) return 1;
  setenv("MESHC_STANDIN_WRITTEN", "1", 1);
  layout_every = getenv("EVERY") ? atoi(getenv("EVERY")) : argc > 1 ? 1 : EVERY;
  if (layout_every < 1) layout_every = 1;
  if (layout_every > 1) layout_graphs = GRAPHS;
  int code = layout_cases(argc, argv, check);
  fprintf(stderr, "%d of %d checks said nothing: rounding decides their values\n", vacuous, turn);
  return code || (argc < 2 && vacuous * 10 > turn);
}
