// Checks that the work of every pass of the compiler grows in proportion to the size of the model.
// meshc_counted (tests/counted) counts the basic blocks that each pass runs. For each pass
//
//   exponent = log(blocks of the larger model / blocks of the smaller one) / log(ratio of sizes)
//
// must be at most LIMIT: 1 is proportional, 2 quadratic. Counts do not depend on the machine's
// load.
//
//   suite_growth            models of 16 and 64 layers, and of 250 and 1000 parameters, also of
//                           parameters that all meet one value, loops, and micro-batches
//   suite_growth FEW MANY   the transformer with these numbers of layers
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/base.h"

static const double LIMIT = 1.1;
// Passes with fewer blocks than this in the larger model are not compared: constant work counts.
static const double LEAST_BLOCKS = 1e5;
enum { MAX_PASSES = 32, MAX_ARGS = 24, NARROW = 250, MIDDLE = 1000 };

static int passed, failed;

typedef struct Pass {
  char name[32];
  double blocks;
} Pass;

typedef struct Passes {
  int n;
  Pass at[MAX_PASSES];
} Passes;

// Reads the lines "meshc: NAME BLOCKS ms ..." of file `path`.
static void read_passes(const char *path, Passes *out) {
  FILE *f = fopen(path, "r");
  char line[1024];
  out->n = 0;
  while (f && fgets(line, sizeof line, f) && out->n < MAX_PASSES) {
    Pass *p = &out->at[out->n];
    char unit[8];
    if (sscanf(line, "meshc: %31s %lf %7s", p->name, &p->blocks, unit) != 3 || strcmp(unit, "ms"))
      continue;
    p->blocks *= 1e3; // a block counts as a microsecond
    out->n++;
  }
  if (f) fclose(f);
}

static bool run(const char *const *argv, const char *errors) {
  char *args[MAX_ARGS] = {0};
  for (int i = 0; argv[i]; i++) args[i] = strdup(argv[i]);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600), out = open("/dev/null", O_WRONLY);
    if (err < 0 || out < 0 || dup2(err, STDERR_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
      _exit(127);
    execv(args[0], args);
    _exit(127);
  }
  int status;
  bool good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0;
  for (int i = 0; args[i]; i++) free(args[i]);
  return good;
}

static void compare(const Passes *few, const Passes *many, double ratio, const char *what) {
  int compared = 0;
  for (int i = 0; i < many->n && i < few->n; i++) {
    const Pass *x = &few->at[i], *y = &many->at[i];
    if (strcmp(x->name, y->name) || y->blocks < LEAST_BLOCKS) continue;
    double exponent = log(y->blocks / x->blocks) / log(ratio);
    bool good = exponent <= LIMIT;
    compared++;
    passed += good;
    failed += !good;
    printf("%s%-12s %8.2f to %8.2f million blocks, exponent %.2f, %s\n", good ? "" : "FAIL ",
           x->name, 1e-6 * x->blocks, 1e-6 * y->blocks, exponent, what);
  }
  bool all = few->n == many->n && compared > few->n / 2;
  passed += all;
  failed += !all;
  if (!all) printf("FAIL %d of %d passes compared, %s\n", compared, few->n, what);
}

// -- a transformer -------------------------------------------------------------------------------

static const char *const layouts[][2] = {
    {"rows=2,cols=4", "b=rows,heads=cols,ff=cols,vocab=cols,parameters/all=rows,soft/t=cols"},
    {"rows=2,cols=4", "b=rows+cols"},
};

static bool count_layers(const char *meshc, const char *const *layout, int depth, const char *file,
                         Passes *out) {
  char set[32];
  snprintf(set, sizeof set, "depth=%d", depth);
  const char *const argv[] = {
      meshc,  "check",  "examples/gpt.mesh", "-v",       "--set",   set, "--set",
      "b=16", "--mesh", layout[0],           "--layout", layout[1], NULL};
  bool good = run(argv, file);
  read_passes(file, out);
  return good && out->n;
}

static void layers(const char *meshc, const char *file, int few, int many) {
  for (size_t i = 0; i < countof(layouts); i++) {
    Passes x, y;
    if (count_layers(meshc, layouts[i], few, file, &x) &&
        count_layers(meshc, layouts[i], many, file, &y))
      compare(&x, &y, (double)many / few, layouts[i][1]);
    else
      failed++, printf("FAIL meshc_counted ends with an error, layout %s\n", layouts[i][1]);
  }
}

// -- many parameters -----------------------------------------------------------------------------

// A model with as many parameters, loops or micro-batches as it is told.
typedef struct Wide {
  const char *what;
  void (*write)(FILE *f, int n);
  const char *mesh, *layout; // NULL: one processor
  bool divided;              // it has as many micro-batches as it is told
} Wide;

static void write_params(FILE *f, int n) {
  fprintf(f, "dim b = 4, d = 8\ninput x[b, d]\n");
  for (int i = 0; i < n; i++) fprintf(f, "param p%d[d] = 0\n", i);
  fprintf(f, "h0 = x\n");
  for (int i = 0; i < n; i++) fprintf(f, "h%d = tanh(h%d + p%d)\n", i + 1, i, i);
}

static void write_chain(FILE *f, int n) {
  write_params(f, n);
  fprintf(f, "loss = mean(h%d)\n", n);
}

// The values before the loss are recomputed in the backward pass.
static void write_checkpoint(FILE *f, int n) {
  write_params(f, n);
  fprintf(f, "loss = mean(checkpoint(h%d))\n", n);
}

// All parameters are multiplied with one value.
static void write_readers(FILE *f, int n) {
  fprintf(f, "dim b = 64, d = 8, h = 16, k = 4\ninput x[b, d]\nparam w[d, h] ~ glorot(d, h)\n");
  for (int i = 0; i < n; i++) fprintf(f, "param p%d[h, k] = 1\n", i);
  fprintf(f, "y = tanh(sum[d](x * w))\ns0 = 0\n");
  for (int i = 0; i < n; i++)
    fprintf(f, "s%d = s%d + mean[b, k](square(sum[h](y * p%d)))\n", i + 1, i, i);
  fprintf(f, "loss = square(s%d)\n", n);
}

// One loop after the other, all of which read one input.
static void write_scans(FILE *f, int n, const char *options) {
  fprintf(f, "dim b = 4, d = 8, t = 6\ninput x[b, t, d]\nparam w[d] = 0.1\nh0 = sum[t](x)\n");
  for (int i = 0; i < n; i++)
    fprintf(f, "scan t (s%d[b, d] = h%d%s) { s%d = tanh(s%d * w + x) }\nh%d = s%d\n", i, i, options,
            i, i, i + 1, i);
  fprintf(f, "loss = mean(h%d)\n", n);
}

static void write_loops(FILE *f, int n) { write_scans(f, n, ""); }
static void write_loops_again(FILE *f, int n) { write_scans(f, n, ", checkpoint = true"); }

// A step of n micro-batches, each of which recomputes its values in the backward pass.
static void write_micro_batches(FILE *f, int n) {
  fprintf(f, "dim b = %d, d = 4, h = 3, k = 2\ninput x[b, d]\nparam w[d, h] = 0.1\n", 2 * n);
  fprintf(f, "param v[h, k] = 0.2\ndata train over b { }\ny = tanh(sum[d](x * w))\n");
  fprintf(f, "loss = mean(checkpoint(square(sum[h](square(y) * v))))\n");
}

static const Wide wide[] = {
    {"parameters", write_chain, NULL, NULL, false},
    {"parameters, a checkpoint", write_checkpoint, NULL, NULL, false},
    {"readers of one split value", write_readers, "rows=2,cols=2", "b=rows,h=cols", false},
    {"loops", write_loops, NULL, NULL, false},
    {"loops, checkpoints", write_loops_again, NULL, NULL, false},
    {"micro-batches, a checkpoint", write_micro_batches, "rows=2", "b=rows", true},
};

static bool count_wide(const char *meshc, const Wide *of, int n, const char *file, Passes *out) {
  char model[] = "/tmp/meshc-growth-XXXXXX.mesh";
  int fd = mkstemps(model, 5);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return false;
  of->write(f, n);
  fprintf(f, "train loss { optimizer = sgd(lr = 0.1), steps = 1, accumulate = %d }\n",
          of->divided ? n : 1);
  bool good = fclose(f) == 0;
  const char *const argv[] = {meshc,    "check",    model,      "-v", of->mesh ? "--mesh" : NULL,
                              of->mesh, "--layout", of->layout, NULL};
  good = good && run(argv, file);
  unlink(model);
  read_passes(file, out);
  return good && out->n;
}

static void grow_wide(const char *meshc, const Wide *of, const char *file) {
  Passes x, y;
  if (count_wide(meshc, of, NARROW, file, &x) && count_wide(meshc, of, MIDDLE, file, &y))
    compare(&x, &y, (double)MIDDLE / NARROW, of->what);
  else
    failed++, printf("FAIL meshc_counted ends with an error, %s\n", of->what);
}

int main(int argc, char **argv) {
  const char *build = getenv("MESHC_BUILD");
  char meshc[4096], file[] = "/tmp/meshc-growth-XXXXXX";
  int fd = mkstemp(file);
  if (fd < 0) return 1;
  close(fd);
  snprintf(meshc, sizeof meshc, "%s/meshc_counted", build ? build : "build/release");
  if (argc == 3)
    layers(meshc, file, atoi(argv[1]), atoi(argv[2]));
  else
    layers(meshc, file, 16, 64);
  for (size_t i = 0; argc != 3 && i < countof(wide); i++) grow_wide(meshc, &wide[i], file);
  unlink(file);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
