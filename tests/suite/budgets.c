// Holds `plan` to layouts that are hard to find within a memory budget: those that the enumeration
// of suite_brute, which takes up to half an hour for each of these models, or a search with several
// times the work has found. What `plan` finds is predicted to take at most a thousandth longer.
// Ends in `N passed, N failed, N skipped`.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/disk.h"
#include "tests/suite/common/command.h"
#include "tests/suite/common/random_model.h"

static const double ALIKE = 1.001; // layouts whose times differ by less are as good

// A model on a mesh, a memory budget, and a choice that fits it.
typedef struct Hard {
  const char *path; // of the model, with options; NULL: random model number `seed`
  uint64_t seed;
  const char *mesh, *machine; // NULL: a CPU
  long memory;                // bytes
  const char *layout;         // and micro-batches, as options
} Hard;

static const Hard cases[] = {
    // two rules away from anything that fits: with one of them a step needs more than the memory
    {NULL, 69, "rows=2,cols=2", "h100x8", 18051545,
     "--layout h1=rows+cols,h2=rows,soft/b=rows+cols,parameters/all=cols"},
    {NULL, 169, "rows=2,cols=4", "h100x8", 2203757,
     "--layout b=cols+rows,soft/e1=cols+rows,soft/h2=cols+rows"},
    // an axis of a soft rule goes to another dim
    {NULL, 69, "rows=2,cols=2", "h100x8", 17471552,
     "--layout d=rows,h1=cols,h2=cols,soft/d=cols,soft/h2=rows"},
    // recomputation saves a third of its memory, and nothing of what is faster
    {NULL, 85, "rows=2", "h100x8", 832281, "--layout b=rows,d=rows"},
    // more than sixty layouts are faster without micro-batches
    {NULL, 59, "rows=4,cols=2", "a100x8", 165824, "--layout h2=rows+cols --set train.accumulate=2"},
    // many layouts before it take the same time and memory as others
    {"examples/moe.mesh", 0, "rows=4", "h100x8", 643372,
     "--layout cap=rows,soft/g=rows,parameters/all=rows"},
    // the layouts of experts that are fastest without a budget need far more memory
    {"examples/gpt.mesh --set depth=8", 0, "rows=2,cols=4", "h100x8", 6291456,
     "--layout b=rows,heads=cols,vocab=cols,ff=cols,soft/t=cols,parameters/all=rows,"
     "gradients/all=rows+cols"},
    // slower than others without micro-batches, and faster with them
    {"examples/mlp.mesh --set b=4096", 0, "rows=2,cols=2", NULL, 58003,
     "--layout b=rows+cols,soft/h=cols+rows --set train.accumulate=2"},
};

// Runs meshc and returns a number of its JSON, in the object `of` (NULL: at the top); 0 if it
// fails.
static double number_of(Arena *a, const char *command, const char *of, const char *key) {
  int code;
  char *text = command_output(a, arena_printf(a, "%s --json 2>/dev/null", command), &code);
  char *object = strchr(text, '{');
  json_t *all = object ? json_loads(object, 0, NULL) : NULL;
  double n = json_number_value(json_object_get(of ? json_object_get(all, of) : all, key));
  json_decref(all);
  return code ? 0 : n;
}

// Returns the model of a case with its options, NULL if the file of a random model cannot be
// written.
static const char *model_of(Arena *a, const Hard *c, const char *file) {
  if (c->path) return c->path;
  const char *model = random_model(a, c->seed);
  return disk_write_file(file, model, strlen(model), true) ? file : NULL;
}

static bool is_found(Arena *a, const Hard *c, const char *file) {
  const char *model = model_of(a, c, file), *meshc = command_program(a);
  if (!model) return false;
  const char *machine = c->machine ? arena_printf(a, "--device cuda --machine %s", c->machine) : "";
  const char *options =
      arena_printf(a, "%s %s --mesh %s --memory %ldB", model, machine, c->mesh, c->memory);
  double known = number_of(a, arena_printf(a, "%s check %s %s", meshc, options, c->layout), NULL,
                           "predicted_seconds");
  double found = number_of(a, arena_printf(a, "%s plan %s", meshc, options), "use", "seconds");
  bool good = known > 0 && found > 0 && found <= ALIKE * known;
  if (!good)
    printf("FAIL %s within %ld bytes: %.6g us were found, %s takes %.6g\n",
           c->path ? c->path : arena_printf(a, "random model %llu", (unsigned long long)c->seed),
           c->memory, found * 1e6, c->layout, known * 1e6);
  return good;
}

int main(void) {
  char folder[] = "/tmp/meshc-budgets-XXXXXX";
  int passed = 0, failed = 0;
  Arena *a = arena_new();
  if (!mkdtemp(folder)) return 1;
  const char *file = arena_printf(a, "%s/model.mesh", folder);
  for (size_t i = 0; i < countof(cases); i++) is_found(a, &cases[i], file) ? passed++ : failed++;
  unlink(file);
  rmdir(folder);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(a);
  return failed != 0;
}
