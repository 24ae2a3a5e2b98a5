// Checks that the cost of a compile does not grow with the number of layers: the training step of a
// transformer with 24 layers has as many kernels as one with 6, and takes about as long to compile.
//
//   suite_compile_time          compares the number of kernels in the assembly
//   suite_compile_time time     compares the compiler's processor time, too: the least of
//                               alternating runs
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/codegen.h"

enum { RUNS = 2, MOST_RUNS = 6 };
static bool timed;
// Four times the layers cost 1.2 to 1.35 times the compile time on a quiet machine, and more where
// other processes share the caches. A cost that grows with the number of layers would give 4 times.
enum { FEW = 6, MANY = 24, PERCENT = 200 };

static const char *const layouts[][2] = {
    {NULL, NULL},
    {"rows=2,cols=2", "b=rows+cols"},
    {"rows=2,cols=4", "b=rows+cols"},
    {"rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols"},
    {"rows=2,cols=4", "b=rows,heads=cols,ff=cols,vocab=cols"},
};

static int passed, failed, skipped;

static void check(bool good, const char *what, const char *layout) {
  if (good)
    passed++;
  else
    failed++;
  if (!good) printf("FAIL %s, layout %s\n", what, layout ? layout : "none");
}

// Runs the compiler with its output in `out`. Returns its processor time in seconds, negative after
// a failure.
static double compile(const char *const *layout, int depth, const char *out) {
  const char *program = getenv("MESHC");
  char set[32];
  snprintf(set, sizeof set, "depth=%d", depth);
  const char *argv[] = {program ? program : "build/release/meshc",
                        "dump",
                        "examples/gpt.mesh",
                        "--stage",
                        "asm",
                        "--set",
                        set,
                        "--set",
                        "b=16",
                        layout[0] ? "--mesh" : NULL,
                        layout[0],
                        "--layout",
                        layout[1],
                        NULL};
  char *args[countof(argv)];
  memcpy(args, argv, sizeof args);
  pid_t child = fork();
  if (child == 0) {
    int file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) _exit(127);
    execv(args[0], args);
    _exit(127);
  }
  int status;
  struct rusage use;
  if (child < 0 || wait4(child, &status, 0, &use) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status))
    return -1;
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static int count_functions(const char *path) {
  FILE *f = fopen(path, "r");
  char line[4096];
  int n = 0;
  while (f && fgets(line, sizeof line, f)) n += strstr(line, "@function") != NULL;
  if (f) fclose(f);
  return n;
}

static void compare(const char *const *layout, const char *out) {
  double few = 1e9, many = 1e9;
  int kernels[2] = {0};
  int runs = timed ? RUNS : 1, most = timed ? MOST_RUNS : 1;
  for (int i = 0; i < runs || (i < most && 100 * many > PERCENT * few); i++) {
    double x = compile(layout, FEW, out);
    if (i == 0) kernels[0] = count_functions(out);
    double y = compile(layout, MANY, out);
    if (i == 0) kernels[1] = count_functions(out);
    if (x < 0 || y < 0) {
      check(false, "a compile ends with an error", layout[1]);
      return;
    }
    if (x < few) few = x;
    if (y < many) many = y;
  }
  char what[200];
  snprintf(what, sizeof what, "%d layers have %d functions, %d have %d", FEW, kernels[0], MANY,
           kernels[1]);
  check(kernels[0] > 0 && kernels[0] == kernels[1], what, layout[1]);
  if (!timed) return;
  snprintf(what, sizeof what, "%d layers take %.3f s, %d take %.3f s: more than %d per cent", FEW,
           few, MANY, many, PERCENT);
  printf("%d layers %.3f s, %d layers %.3f s: %.2f, layout %s\n", FEW, few, MANY, many, many / few,
         layout[1] ? layout[1] : "none");
  check(100 * many <= PERCENT * few, what, layout[1]);
}

int main(int argc, char **argv) {
  timed = argc > 1 && !strcmp(argv[1], "time");
  char out[] = "/tmp/meshc-time-XXXXXX";
  int file = mkstemp(out);
  if (file < 0) return 1;
  close(file);
  for (size_t i = 0; i < countof(layouts); i++) {
    if (code_available())
      compare(layouts[i], out);
    else
      skipped++;
  }
  unlink(out);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
