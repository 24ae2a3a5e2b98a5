// Times single products of matrices of the sizes that occur in the models: by meshc, and by the
// BLAS library that meshc finds (OpenBLAS, or MESHC_BLAS). Prints flops per second and their share
// of the FMA peak of the same run.
//
//   bench_products [-r ROUNDS] [-t THREADS] [-y TYPE] [-m MILLISECONDS] [PART]
//
// PART is a part of a product's name, such as "lm6". A model computes each product, so meshc
// divides it among threads as in a training step. Both take turns of about MILLISECONDS each. A
// turn starts with an untimed run, and a rate is the median over ROUNDS turns. The peak of f32 also
// counts for bf16, half of it for f64. The library computes a batch of products one after another.
#include "frontend/command/hardware.h"
#include "include/meshc.h"
#include "ir/base/mem.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, MOST_ROUNDS = 99 };

typedef struct Shape {
  const char *name;
  int64_t batch, m, n, k;
  bool ta, tb;
} Shape;

static const Shape shapes[] = {
    {"square", 1, 1024, 1024, 1024, 0, 0},
    {"square", 1, 1024, 1024, 1024, 0, 1},
    {"square", 1, 1024, 1024, 1024, 1, 0},
    {"square", 1, 1024, 1024, 1024, 1, 1},
    {"lm6 logits", 1, 1024, 8192, 384, 0, 0},
    {"lm6 logits", 1, 1024, 8192, 384, 0, 1},
    {"lm6 logits, d input", 1, 1024, 384, 8192, 0, 0},
    {"lm6 logits, d input", 1, 1024, 384, 8192, 0, 1},
    {"lm6 logits, d weight", 1, 384, 8192, 1024, 1, 0},
    {"lm6 logits, d weight", 1, 8192, 384, 1024, 1, 0},
    {"lm6 qkv", 1, 1024, 1152, 384, 0, 0},
    {"lm6 qkv", 1, 1024, 1152, 384, 0, 1},
    {"lm6 qkv, d input", 1, 1024, 384, 1152, 0, 0},
    {"lm6 qkv, d input", 1, 1024, 384, 1152, 0, 1},
    {"lm6 qkv, d weight", 1, 384, 1152, 1024, 1, 0},
    {"gpt2 logits", 1, 256, 50257, 768, 0, 0},
    {"gpt2 logits", 1, 256, 50257, 768, 0, 1},
    {"gpt2 logits, d input", 1, 256, 768, 50257, 0, 0},
    {"gpt2 logits, d weight", 1, 50257, 768, 256, 1, 0},
    {"gpt2 logits, d weight", 1, 768, 50257, 256, 1, 0},
    {"mlp1024", 1, 64, 1024, 1024, 0, 0},
    {"mlp1024, d weight", 1, 1024, 1024, 64, 1, 0},
    {"mlp128", 1, 64, 128, 784, 0, 0},
    {"mlp128, d weight", 1, 784, 128, 64, 1, 0},
    {"small", 1, 64, 784, 128, 0, 0},
    {"lstm", 1, 32, 1024, 256, 0, 0},
    {"lstm, d state", 1, 32, 256, 1024, 0, 1},
    {"narrow", 1, 512, 32, 1024, 1, 0},
    {"narrow", 1, 1024, 10, 256, 1, 0},
    {"narrow", 1, 512, 16, 512, 1, 0},
    {"scores", 24, 256, 256, 64, 0, 1},
    {"scores, d query", 24, 256, 64, 256, 0, 0},
    {"scores, d key", 24, 256, 64, 256, 1, 0},
};

typedef struct Options {
  int rounds, threads;
  double turn; // seconds
  const char *type, *part;
} Options;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what, const meshc_error *error) {
  fprintf(stderr, "products: %s: %s\n", what,
          error && meshc_error_count(error) ? meshc_error_at(error, 0)->text : "failed");
  exit(1);
}

// ---- the library ------------------------------------------------------------------------------

typedef void Sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                   int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void Dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                   int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef struct Library {
  Sgemm *sgemm;
  Dgemm *dgemm;
  void (*set_threads)(int);
} Library;

// Writes the address of a function to *out, a function pointer of `size` bytes, if there is one.
static void symbol(void *library, const char *name, void *out, size_t size) {
  void *p = dlsym(library, name);
  memcpy(out, &p, size);
}

// Returns the functions of the library. blas_open loads it for the core type of this CPU.
static Library library_find(const char **name) {
  Library l = {0};
  const char *path = getenv("MESHC_BLAS");
  if (!blas_open(name)) return l;
  void *handle = dlopen(path && *path ? path : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return l;
  symbol(handle, "cblas_sgemm", &l.sgemm, sizeof l.sgemm);
  symbol(handle, "cblas_dgemm", &l.dgemm, sizeof l.dgemm);
  symbol(handle, "openblas_set_num_threads", &l.set_threads, sizeof l.set_threads);
  return l;
}

static bool library_has(const Library *l, const char *type) {
  return strcmp(type, "f32") == 0 ? l->sgemm != NULL : strcmp(type, "f64") == 0 && l->dgemm;
}

// ---- a product --------------------------------------------------------------------------------

typedef struct Run {
  const Shape *s;
  const Library *library;
  meshc_model *model;
  meshc_program *program;
  bool f64;
  void *a, *b, *c;
} Run;

static void fill(void *at, size_t elements, const char *type) {
  uint32_t x = 1;
  for (size_t i = 0; i < elements; i++) {
    x = x * 1664525 + 1013904223;
    float v = (float)(x >> 8) * 0x1p-23F - 1;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (type[0] == 'b')
      ((uint16_t *)at)[i] = (uint16_t)(bits >> 16);
    else if (type[2] == '4')
      ((double *)at)[i] = (double)v;
    else
      ((float *)at)[i] = v;
  }
}

static meshc_model *model_open(const Shape *s, const Options *o) {
  char text[512], threads[16];
  meshc_error *error = NULL;
  meshc_options *options = meshc_options_new();
  int size = snprintf(text, sizeof text,
                      "dim g = %lld, m = %lld, n = %lld, k = %lld\ninput a[g, %s]: %s\n"
                      "input b[g, %s]: %s\noutput c[g, m, n] = sum[k](a * b)\n",
                      (long long)s->batch, (long long)s->m, (long long)s->n, (long long)s->k,
                      s->ta ? "k, m" : "m, k", o->type, s->tb ? "n, k" : "k, n", o->type);
  snprintf(threads, sizeof threads, "%d", o->threads);
  if (!options || meshc_options_set(options, "threads", threads) != 0) fail("options", NULL);
  meshc_model *model = meshc_open_text(text, (size_t)size, "product", options, &error);
  if (!model) fail(s->name, error);
  meshc_options_free(options);
  return model;
}

static void run_open(Run *r, const Options *o) {
  const Shape *s = r->s;
  meshc_error *error = NULL;
  r->model = model_open(s, o);
  r->program = meshc_compile(r->model, MESHC_PREDICT, NULL, 0, &error);
  if (!r->program) fail(s->name, error);
  r->a = meshc_data(r->program, MESHC_INPUT, "a");
  r->b = meshc_data(r->program, MESHC_INPUT, "b");
  if (!r->a || !r->b) fail(s->name, NULL);
  fill(r->a, (size_t)(s->batch * s->m * s->k), o->type);
  fill(r->b, (size_t)(s->batch * s->k * s->n), o->type);
}

static void run_meshc(const Run *r) {
  meshc_array in[] = {{.name = "a", .data = r->a}, {.name = "b", .data = r->b}};
  meshc_error *error = NULL;
  for (int i = 0; i < 2; i++) {
    const meshc_tensor *t = meshc_program_tensor_at(r->program, MESHC_INPUT, (size_t)i);
    in[i].name = t->name, in[i].type = t->type, in[i].rank = t->rank;
    in[i].data = strcmp(t->name, "a") == 0 ? r->a : r->b;
  }
  if (meshc_run(r->program, in, 2, NULL, 0, &error) != 0) fail(r->s->name, error);
}

static void run_library(const Run *r) {
  const Shape *s = r->s;
  int ta = s->ta ? TRANS : NO_TRANS, tb = s->tb ? TRANS : NO_TRANS, m = (int)s->m, n = (int)s->n,
      k = (int)s->k, lda = s->ta ? m : k, ldb = s->tb ? k : n;
  for (int64_t i = 0; i < s->batch; i++) {
    int64_t a = i * s->m * s->k, b = i * s->k * s->n, c = i * s->m * s->n;
    if (r->f64)
      r->library->dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, (double *)r->a + a, lda, (double *)r->b + b,
                        ldb, 0, (double *)r->c + c, n);
    else
      r->library->sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, (float *)r->a + a, lda, (float *)r->b + b,
                        ldb, 0, (float *)r->c + c, n);
  }
}

// ---- times ------------------------------------------------------------------------------------

// Returns the mean of the seconds of runs in a turn of about `least` seconds.
static double turn(void (*run)(const Run *), const Run *r, double least) {
  run(r);
  double start = now(), spent = 0;
  int runs = 0;
  do {
    run(r);
    runs++;
    spent = now() - start;
  } while (spent < least);
  return spent / runs;
}

// The process that calls the library. It waits for a byte, takes a turn, and answers its seconds.
typedef struct Peer {
  pid_t id;
  int ask, answer; // ends of pipes
} Peer;

static void *random_matrix(int64_t elements, const char *type) {
  void *at = mem_aligned(64, (size_t)elements * sizeof(double));
  fill(at, (size_t)elements, type);
  return at;
}

static void peer_main(Run *r, const Options *o, int asked, int answer) {
  const Shape *s = r->s;
  char byte;
  r->a = random_matrix(s->batch * s->m * s->k, o->type);
  r->b = random_matrix(s->batch * s->k * s->n, o->type);
  r->c = random_matrix(s->batch * s->m * s->n, o->type);
  if (r->library->set_threads) r->library->set_threads(o->threads);
  while (read(asked, &byte, 1) == 1) {
    double seconds = turn(run_library, r, o->turn);
    if (write(answer, &seconds, sizeof seconds) != sizeof seconds) break;
  }
  _exit(0);
}

static Peer peer_start(Run *r, const Options *o) {
  int asks[2], answers[2];
  if (pipe(asks) != 0 || pipe(answers) != 0) fail("pipe", NULL);
  fflush(stdout);
  pid_t id = fork();
  if (id < 0) fail("fork", NULL);
  if (id == 0) {
    close(asks[1]);
    peer_main(r, o, asks[0], answers[1]);
  }
  close(asks[0]);
  close(answers[1]);
  return (Peer){.id = id, .ask = asks[1], .answer = answers[0]};
}

static double peer_turn(const Peer *p) {
  double seconds = 0;
  kill(p->id, SIGCONT);
  if (write(p->ask, "", 1) != 1 || read(p->answer, &seconds, sizeof seconds) != sizeof seconds)
    fail("the library", NULL);
  kill(p->id, SIGSTOP);
  return seconds;
}

static void peer_end(const Peer *p) {
  kill(p->id, SIGKILL);
  waitpid(p->id, NULL, 0);
  close(p->ask);
  close(p->answer);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *list, int n) {
  qsort(list, (size_t)n, sizeof *list, by_value);
  return list[n / 2];
}

static void print_row(const Shape *s, const Options *o, double peak, double rate, double library) {
  printf("%-21s %5lld %6lld %6lld %6lld  %c%c  %-4s %7d %9.1f %6.3f", s->name, (long long)s->batch,
         (long long)s->m, (long long)s->n, (long long)s->k, s->ta ? 't' : 'n', s->tb ? 't' : 'n',
         o->type, o->threads, rate / 1e9, rate / peak);
  if (library > 0)
    printf(" %9.1f %6.3f %6.2f\n", library / 1e9, library / peak, rate / library);
  else
    printf(" %9s %6s %6s\n", "-", "-", "-");
  fflush(stdout);
}

static void measure(const Shape *s, const Library *l, const Options *o, double peak) {
  static const double WARM = 0.2; // seconds in which the runtime chooses its number of workers
  double own[MOST_ROUNDS], other[MOST_ROUNDS];
  double flops = 2.0 * (double)s->batch * (double)s->m * (double)s->n * (double)s->k;
  bool both = library_has(l, o->type);
  Run r = {.s = s, .library = l, .f64 = strcmp(o->type, "f64") == 0};
  Peer peer = {0};
  if (both) peer = peer_start(&r, o);
  run_open(&r, o);
  if (both) peer_turn(&peer); // until it is ready, it would occupy a core
  double began = now();
  while (now() - began < WARM) run_meshc(&r);
  for (int i = 0; i < o->rounds; i++) {
    own[i] = flops / turn(run_meshc, &r, o->turn);
    if (both) other[i] = flops / peer_turn(&peer);
  }
  meshc_close(r.model);
  if (both) peer_end(&peer);
  print_row(s, o, r.f64 ? peak / 2 : peak, middle(own, o->rounds),
            both ? middle(other, o->rounds) : 0);
}

static int usage(void) {
  fprintf(stderr, "usage: bench_products [-r ROUNDS] [-t THREADS] [-y f32|bf16|f64] "
                  "[-m MILLISECONDS] [PART]\n");
  return 2;
}

int main(int argc, char **argv) {
  Options o = {.rounds = 7, .threads = 1, .turn = 0.02, .type = "f32", .part = ""};
  const char *name;
  for (int c; (c = getopt(argc, argv, "r:t:y:m:")) != -1;) {
    if (c == 'r')
      o.rounds = atoi(optarg);
    else if (c == 't')
      o.threads = atoi(optarg);
    else if (c == 'y')
      o.type = optarg;
    else if (c == 'm')
      o.turn = 1e-3 * atof(optarg);
    else
      return usage();
  }
  if (optind < argc) o.part = argv[optind];
  bool known =
      strcmp(o.type, "f32") == 0 || strcmp(o.type, "f64") == 0 || strcmp(o.type, "bf16") == 0;
  if (!known || o.rounds < 1 || o.rounds > MOST_ROUNDS || o.threads < 1) return usage();
  Library l = library_find(&name);
  double peak = fmax(peak_flops(o.threads), peak_flops(o.threads));
  printf("FMA peak %.1f GFLOP/s of f32 on %d thread%s; library: %s\n", peak / 1e9, o.threads,
         o.threads == 1 ? "" : "s", name);
  printf("%-21s %5s %6s %6s %6s  %s %-4s %s %9s %6s %9s %6s %6s\n", "product", "batch", "m", "n",
         "k", "ab", "type", "threads", "GFLOP/s", "share", "library", "share", "ratio");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (strstr(shapes[i].name, o.part)) measure(&shapes[i], &l, &o, peak);
  return 0;
}
