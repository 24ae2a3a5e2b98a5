// Compiles the functions of a module on several threads: each takes every n-th function, compiles
// it by LLVM and assembles it. The results are images of their own. A function has the same code in
// whatever image it is.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/assemble.h"
#include "codegen/gpu/gpu_internal.h"
#include "ir/base/guard.h"

enum { MOST_JOBS = 16, FUNCTIONS_A_JOB = 4 };

// The work of one thread.
typedef struct CompileJob {
  Arena *arena; // of the job alone; has the lists of the module, and diag
  Diag *diag;
  GpuModule module;
  Bytes out;
  bool ok;     // otherwise diag has an error
  bool failed; // the work was cut off: no memory, or an error in meshc; see `failure`
  Failure failure;
} CompileJob;

bool gpu_compile_list(const GpuModule *m, LlvmForm form, Bytes *out, Diag *d) {
  char why[LLVM_WHY];
  if (gpu_compile(m, form, out, why)) return true;
  diag_error(d, code_available() ? DIAG_FAILURE : DIAG_UNAVAILABLE, (Pos){0},
             "kernels cannot be compiled for a GPU: %s", why);
  if (!code_available()) diag_hint(d, "build meshc with LLVM 19");
  return false;
}

// Replaces PTX by machine code, if there is an assembler that knows the GPU. Returns false after an
// error.
static bool assemble(CompileJob *j) {
  const GpuCodeOptions *opt = j->module.opt;
  const char *gpu = arena_printf(j->arena, "sm_%d", opt->capability);
  if (opt->target != GPU_PTX || opt->text || !assembler_knows(gpu)) return true;
  size_t bytes;
  char *cubin = assemble_ptx(j->out.at, "kernels", gpu, &bytes, j->diag);
  free(j->out.at);
  j->out = (Bytes){cubin, cubin ? bytes : 0};
  return cubin != NULL;
}

static void compile_module(void *arg) {
  CompileJob *j = arg;
  LlvmForm form = j->module.opt->target == GPU_PTX ? LLVM_ASSEMBLY : LLVM_OBJECT;
  j->ok = gpu_compile_list(&j->module, form, &j->out, j->diag) && assemble(j);
}

// Runs a CompileJob; the start function of a thread. Stores a failure, such as no memory
// (ir/base/guard.h), in the job instead of raising it: only the calling thread of gpu_compile_all
// may raise it, after all others have ended.
static void *compile_job(void *arg) {
  CompileJob *j = arg;
  j->failed = !guard_run(compile_module, j, &j->failure);
  return NULL;
}

// Gives job number i of n every n-th function of m.
static void fill_job(const GpuModule *m, uint32_t i, uint32_t n, CompileJob *j) {
  Arena *a = arena_new();
  const Kernel **kernel = arena_array(a, const Kernel *, m->n / n + 1);
  const char **symbol = arena_array(a, const char *, m->n / n + 1);
  GpuOrdered *ordered = arena_array(a, GpuOrdered, m->nordered / n + 1);
  *j = (CompileJob){.arena = a, .diag = diag_new(a), .module = {.opt = m->opt}};
  GpuModule *part = &j->module;
  for (uint32_t k = i; k < m->n; k += n) {
    kernel[part->n] = m->kernel[k];
    symbol[part->n++] = m->symbol[k];
  }
  for (uint32_t k = i; k < m->nordered; k += n) ordered[part->nordered++] = m->ordered[k];
  part->judges = m->judges && i == 0;
  part->kernel = kernel;
  part->symbol = symbol;
  part->ordered = ordered;
}

// Runs all jobs, the first one on the calling thread, and one there for which no thread can be
// made.
static void run_jobs(uint32_t n, CompileJob *job) {
  pthread_t thread[MOST_JOBS];
  bool made[MOST_JOBS] = {false};
  for (uint32_t i = 1; i < n; i++)
    made[i] = pthread_create(&thread[i], NULL, compile_job, &job[i]) == 0;
  for (uint32_t i = 0; i < n; i++)
    if (!made[i]) compile_job(&job[i]);
  for (uint32_t i = 1; i < n; i++)
    if (made[i]) pthread_join(thread[i], NULL);
}

// Frees the jobs, and their results unless all are good. Adds the errors of the first bad job to d.
// Returns whether all are good; raises a failure again.
static bool finish_jobs(uint32_t n, CompileJob *job, Diag *d) {
  const CompileJob *bad = NULL;
  const Failure *failure = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (job[i].failed && !failure) failure = &job[i].failure;
    if (!job[i].ok && !bad) bad = &job[i];
  }
  if (bad && !failure) diag_take(d, bad->diag);
  for (uint32_t i = 0; i < n; i++) {
    if (bad || failure) free(job[i].out.at);
    arena_free(job[i].arena);
  }
  if (failure) guard_raise(failure);
  return !bad;
}

// Returns among how many threads the functions are divided.
static uint32_t jobs_of(const GpuModule *m) {
  uint32_t threads = m->opt->threads > 1 ? (uint32_t)m->opt->threads : 1;
  uint32_t n = (m->n + m->nordered) / FUNCTIONS_A_JOB;
  if (n > threads) n = threads;
  if (n > MOST_JOBS) n = MOST_JOBS;
  return n ? n : 1;
}

uint32_t gpu_compile_all(const GpuModule *m, Bytes **out, Diag *d) {
  CompileJob job[MOST_JOBS];
  uint32_t n = jobs_of(m);
  for (uint32_t i = 0; i < n; i++) fill_job(m, i, n, &job[i]);
  run_jobs(n, job);
  if (!finish_jobs(n, job, d)) return 0;
  *out = mem_alloc(n * sizeof **out);
  for (uint32_t i = 0; i < n; i++) (*out)[i] = job[i].out;
  return n;
}
