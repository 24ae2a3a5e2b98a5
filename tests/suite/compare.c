// Holds `explain --against` to what it compares: for pairs of layouts, meshes and machines of the
// examples, each figure of the other side is the one that `explain` prints for it alone, the bytes
// of all values that are moved add up, and a step does not differ from itself.
// Ends in `N passed, N failed, N skipped`.
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "ir/base/arena.h"
#include "tests/suite/common/command.h"

static Arena *arena;
static int passed, failed;
static const char *meshc;

static const struct {
  const char *model, *this, *against, *other; // options of both steps; `other` in full
} pairs[] = {
    {"gpt", "--mesh rows=2,cols=2 --layout b=rows,heads=cols", "b=rows,parameters/all=rows",
     "--mesh rows=2,cols=2 --layout b=rows,parameters/all=rows"},
    {"gpt", "--mesh p=4 --layout b=p", "--mesh p=2 --machine h100x8",
     "--mesh p=2 --layout b=p --machine h100x8"},
    {"mlp", "", "--machine h200", "--machine h200"},
    {"lstm", "--mesh p=2 --layout b=p", "none", "--mesh p=2 --layout none"},
    {"moe", "--mesh p=2 --layout g=p", "e=p", "--mesh p=2 --layout e=p"},
    {"resnet", "--mesh p=2 --layout b=p", "--layout none --set b=8",
     "--mesh p=2 --layout none --set b=8"},
    {"llama", "--mesh p=2 --layout b=p", "ff=p,groups=p,vocab=p",
     "--mesh p=2 --layout ff=p,groups=p,vocab=p"},
    {"iris", "", "h2=cols", "--layout h2=cols"},
    {"vae", "--mesh p=4 --layout b=p", "--mesh p=1", "--mesh p=1 --layout b=p"},
};

static bool wrong(const char *what, const char *name, double got, double want) {
  printf("FAIL %s: %s is %.9g, not %.9g\n", what, name, got, want);
  return false;
}

static json_t *json_of(const char *options) {
  int code;
  char *text = command_output(
      arena, arena_printf(arena, "%s explain examples/%s --json 2>/dev/null", meshc, options),
      &code);
  char *object = strchr(text, '{');
  return code == 0 && object ? json_loads(object, 0, NULL) : NULL;
}

// Returns a figure of a comparison for one side, "this" or "other".
static double figure(const json_t *against, const char *name, const char *side) {
  size_t i;
  json_t *one;
  json_array_foreach(json_object_get(against, "figures"), i, one) {
    if (!strcmp(json_string_value(json_object_get(one, "name")), name))
      return json_number_value(json_object_get(one, side));
  }
  return -1;
}

// Compares the figures of one side with those of a step explained alone.
static bool figures_hold(const char *what, const json_t *against, const char *side,
                         const json_t *alone) {
  static const char *const names[][2] = {{"calls", "calls"},
                                         {"bytes sent", "wire_bytes"},
                                         {"predicted step", "step_seconds"},
                                         {"flops", "flops"}};
  for (size_t i = 0; i < countof(names); i++) {
    double got = figure(against, names[i][0], side),
           want = json_number_value(json_object_get(alone, names[i][1]));
    if (fabs(got - want) > 1e-6 * want) return wrong(what, names[i][0], got, want);
  }
  double peak = json_number_value(json_object_get(json_object_get(alone, "memory"), "peak"));
  return figure(against, "peak", side) == peak ||
         wrong(what, "peak", figure(against, "peak", side), peak);
}

static size_t differ(const json_t *against) {
  return json_array_size(json_object_get(against, "moved")) +
         json_array_size(json_object_get(against, "kernels"));
}

static void try_pair(size_t i) {
  const char *model = pairs[i].model, *this = pairs[i].this;
  const char *what = arena_printf(arena, "%s.mesh %s", model, this);
  const char *other = arena_printf(arena, "%s.mesh %s", model, pairs[i].other);
  json_t *both = json_of(arena_printf(arena, "%s --against \"%s\"", what, pairs[i].against)),
         *alone = json_of(what), *there = json_of(other),
         *self = json_of(arena_printf(arena, "%s --against examples/%s.mesh", what, model));
  const json_t *against = json_object_get(both, "against"),
               *same = json_object_get(self, "against");
  bool good = against && same && alone && there;
  if (!good) printf("FAIL %s: no JSON\n", what);
  good =
      good && figures_hold(what, against, "this", alone) &&
      figures_hold(other, against, "other", there) && figures_hold(what, same, "other", alone) &&
      (differ(against) > 0 || wrong(what, "values that differ", 0, 1)) &&
      (differ(same) == 0 || wrong(what, "values that differ from itself", (double)differ(same), 0));
  good ? passed++ : failed++;
  json_decref(both);
  json_decref(alone);
  json_decref(there);
  json_decref(self);
}

int main(void) {
  arena = arena_new();
  meshc = command_program(arena);
  for (size_t i = 0; i < countof(pairs); i++) try_pair(i);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(arena);
  return failed != 0;
}
