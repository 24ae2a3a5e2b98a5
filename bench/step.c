// Times the training step of a model on made-up input, beside the FMA peak and the copy rate of the
// same run: bench_step MODEL [THREADS] [STEPS] [profile]; with `profile` also where the time goes.
//
// The bound is flops / peak + unavoidable bytes / copy rate: products at the peak of all cores, and
// what memory must move at least: every parameter with its two moments read and written once, its
// gradient written and read (32 bytes a parameter), and the inputs read once.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/command/hardware.h"
#include "frontend/frontend.h"
#include "runtime/runtime.h"

typedef struct Bench {
  Arena *arena;
  Diag *diag;
  Model *model;
  Compilation made;
  Exec *exec;
  double *spent; // seconds of every instruction in every timed step, NULL: no profile
} Bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *model_text(Arena *a, const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  char *text = arena_alloc(a, (size_t)size + 1);
  *n = fread(text, 1, (size_t)size, f);
  fclose(f);
  return text;
}

static bool bench_build(Bench *b, const char *path, int threads, bool profile) {
  size_t n;
  char *text = model_text(b->arena, path, &n);
  if (!text) {
    fprintf(stderr, "bench_step: cannot read %s\n", path);
    return false;
  }
  Intern *names = intern_new(b->arena);
  uint32_t source = diag_source(b->diag, path, text, n);
  Ast *ast = ast_parse(b->arena, names, b->diag, source, text, n);
  ModelOptions options = {.path = path};
  b->model = model_build(b->arena, names, b->diag, ast, &options);
  if (!b->model) return false;
  Graph *g = select_train(b->arena, b->model, NULL);
  if (!g) return false;
  const char *blas;
  Machine machine = machine_default();
  PipelineOptions pipeline = {
      .codegen = {.fuse = true, .products = blas_open(&blas), .for_ = "train"},
      .code = {.opt = 2},
      .machine = &machine,
      .machine_code = true};
  if (!pipeline_run(b->arena, g, &pipeline, NULL, b->diag, &b->made)) return false;
  ExecOptions exec = {.threads = threads, .profile = profile};
  b->exec = exec_new(b->made.compiled->program, &exec, b->diag);
  return b->exec && exec_initialise(b->exec, b->diag);
}

// Below what every id is checked against.
static int64_t smallest_range(const Program *p) {
  int64_t range = 10;
  for (uint32_t i = 0; i < p->nchecks; i++)
    if (p->check[i].size < range) range = p->check[i].size;
  return range;
}

// Numbers of every input: a wave, or small integers where they are ids.
static int64_t bench_feed(Bench *b) {
  const Program *p = b->made.compiled->program;
  int64_t bytes = 0, range = smallest_range(p);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (t->kind != TENSOR_INPUT) continue;
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
    char *data = malloc((size_t)(n * dtype_bytes(t->type)));
    for (int64_t k = 0; k < n; k++) {
      double x = dtype_is_float(t->type) ? sin(0.37 * (double)k) : (double)(k * 7 % range);
      dtype_store(t->type, data + k * dtype_bytes(t->type), dtype_round(t->type, x));
    }
    exec_write(b->exec, TENSOR_INPUT, t->name, t->type, data);
    bytes += n * dtype_bytes(t->type);
    free(data);
  }
  return bytes;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *at, int n) {
  qsort(at, (size_t)n, sizeof *at, by_value);
  return at[n / 2];
}

// The profile is a running total: what step i added to it.
static void note_profile(Bench *b, int i, double *before) {
  uint32_t n = b->made.compiled->program->ninstrs;
  for (uint32_t k = 0; b->spent && k < n; k++) {
    double total = exec_profile(b->exec)[k];
    if (i >= 0) b->spent[(uint32_t)i * n + k] = total - before[k];
    before[k] = total;
  }
}

enum { MAX_STEPS = 10000, WARM = 5 };
static double bench_time(Bench *b, int steps, bool profile, double *best) {
  static double seconds[MAX_STEPS];
  uint32_t n = b->made.compiled->program->ninstrs;
  double *before = arena_array(b->arena, double, n);
  if (profile) b->spent = arena_array(b->arena, double, n *(uint32_t)steps);
  for (int i = -WARM; i < steps; i++) {
    double start = now();
    if (exec_step(b->exec, i + WARM, true) != STEP_OK) return (double)NAN;
    if (i >= 0) seconds[i] = now() - start;
    note_profile(b, i, before);
  }
  double middle = median(seconds, steps);
  *best = seconds[0];
  return middle;
}

// What an instruction is, and for products its rate.
static void print_profile(Bench *b, int steps) {
  static const char *const kinds[] = {
      [INSTR_KERNEL] = "kernel", [INSTR_GEMM] = "product", [INSTR_COLLECTIVE] = "collective",
      [INSTR_FILL] = "fill",     [INSTR_COPY] = "copy",    [INSTR_COMMIT] = "commit",
      [INSTR_LOOP] = "loop",     [INSTR_END] = "end"};
  const Program *p = b->made.compiled->program;
  double *column = arena_array(b->arena, double, steps);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    for (int k = 0; k < steps; k++) column[k] = b->spent[(uint32_t)k * p->ninstrs + i];
    double each = median(column, steps);
    printf("%4u %-10s %9.2f us", i, kinds[in->kind], 1e6 * each);
    if (in->kind == INSTR_GEMM) {
      const Gemm *w = &in->u.gemm;
      double flops = 2.0 * (double)w->m.base * (double)w->n.base * (double)w->k.base;
      printf("  %lld x %lld x %lld%s%s", (long long)w->m.base, (long long)w->n.base,
             (long long)w->k.base, w->ta ? " A'" : "", w->tb ? " B'" : "");
      for (int d = 0; d < w->nbatch; d++) {
        flops *= (double)w->batch[d].count.base;
        printf(" times %lld", (long long)w->batch[d].count.base);
      }
      printf(", %.1f GFLOP/s", flops / each / 1e9);
    }
    if (in->kind == INSTR_KERNEL)
      printf("  k%u, %lld chunks", in->u.kernel.kernel, (long long)in->u.kernel.chunks);
    printf("\n");
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_step MODEL [THREADS] [STEPS] [profile]\n");
    return 2;
  }
  int threads = argc > 2 ? atoi(argv[2]) : cores_available();
  int steps = argc > 3 ? (int)clamp64(atoi(argv[3]), 1, MAX_STEPS) : 100;
  bool profile = argc > 4 && strcmp(argv[4], "profile") == 0;
  Bench b = {.arena = arena_new()};
  b.diag = diag_new(b.arena);
  if (!bench_build(&b, argv[1], threads, profile)) {
    diag_print(b.diag, stderr, false);
    return 1;
  }
  int64_t inputs = bench_feed(&b);
  double flops = peak_flops(threads), copy = peak_copy(threads);
  double best = (double)NAN, step = bench_time(&b, steps, profile, &best);
  double again = peak_flops(threads);
  if (again > flops) flops = again;

  int64_t parameters = 0;
  for (uint32_t i = 0; i < b.model->graph->decl.n; i++) {
    const Decl *d = &b.model->graph->decl.at[i];
    int64_t n = 1;
    for (int k = 0; k < d->rank; k++) n *= dim_get(b.model->graph->dims, d->dims[k])->size;
    if (d->kind == DECL_PARAM) parameters += n;
  }
  double work = (double)b.made.partition.flops_whole;
  double bytes = 32.0 * (double)parameters + (double)inputs;
  double bound = work / flops + bytes / copy;
  const char *blas = "no BLAS";
  blas_open(&blas);
  printf("%s: %d threads, %s, %s\n", argv[1], threads, code_cpu(), blas);
  printf("fma peak   %8.1f GFLOP/s\ncopy rate  %8.1f GB/s (read + write)\n", flops / 1e9,
         copy / 1e9);
  printf("products   %8.3f GFLOP a step, %.3f ms at the peak\n", work / 1e9, 1e3 * work / flops);
  printf("bytes      %8.3f MB unavoidable, %.3f ms at the copy rate\n", bytes / 1e6,
         1e3 * bytes / copy);
  printf("step       %8.3f ms, median of %d, best %.3f ms; %u launches, %u kernels\n", 1e3 * step,
         steps, 1e3 * best, b.made.compiled->program->ninstrs, b.made.compiled->program->nkernels);
  // The peaks are the best of several rounds: where others use the machine, compare the best step.
  printf("ratio to the bound %.2f, of the best step %.2f\n", step / bound, best / bound);
  if (profile) print_profile(&b, steps);
  exec_free(b.exec);
  code_free(b.made.code);
  arena_free(b.arena);
  return 0;
}
