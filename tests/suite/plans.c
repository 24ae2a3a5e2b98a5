// Holds `plan --save` and `plan --against` to what they say. For pairs of plans of the examples:
// each price of then and of now is the one that `check` predicts for that layout alone, the parts
// of a difference add up and only changes that were made have one, and the better layout is the one
// that is named. Files that are cut off, or whose keys are missing or of another type, end in a
// message. Ends in `N passed, N failed, N skipped`.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "ir/base/disk.h"
#include "tests/suite/common/command.h"

static Arena *arena;
static int passed, failed;
static const char *meshc, *folder;

// Two plans of an example. `then` and `now` are options; `causes` are those that may change a
// price; `because` begins the reason for another layout, NULL: the layout stays.
static const struct {
  const char *model, *both, *then, *now, *causes, *because;
} pairs[] = {
    {"mlp", "--mesh rows=2,cols=2", "", "", "", NULL},
    {"mlp", "--processors 8 --set b=256 --set d=512", "--set h=1024", "--set h=64", "model",
     "the model: "},
    {"mlp", "--processors 8 --set b=2048 --set d=512 --set h=64", "", "--machine h100x8",
     "machine memory", "both are alike now: "},
    {"mlp", "--processors 8 --set b=256 --set d=512 --set h=1024", "", "--memory 1060KiB", "memory",
     "the memory limit: "},
    {"mlp", "--set b=256 --set d=512 --set h=1024", "--mesh p=2", "--mesh p=4", "",
     "other meshes or layouts are searched"},
    {"gpt", "--mesh p=4", "", "--machine h200x8 --precision bf16", "machine memory model", ""},
    {"iris", "--mesh p=4", "--set b=64", "--set b=640", "model", ""},
    {"gan", "--mesh p=2", "--precision bf16", "", "model", ""},
};

static bool wrong(const char *what, const char *name, double got, double want) {
  printf("FAIL %s: %s is %.12g, not %.12g\n", what, name, got, want);
  return false;
}

static json_t *json_of(const char *command, const char *options) {
  int code;
  char *text = command_output(
      arena, arena_printf(arena, "%s %s --json 2>/dev/null", command, options), &code);
  char *object = strchr(text, '{');
  return code == 0 && object ? json_loads(object, 0, NULL) : NULL;
}

static double number(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

// Returns whether a price equals what `check` predicts for the layout with these options.
static bool is_price(const char *what, const json_t *row, const char *side, const char *options) {
  const json_t *price = json_object_get(row, side);
  if (json_is_null(price)) return true;
  double parts = number(row, "accumulate");
  const char *set = parts > 0 ? arena_printf(arena, "--set train.accumulate=%.0f", parts) : "";
  json_t *alone = json_of(arena_printf(arena, "%s check", meshc),
                          arena_printf(arena, "%s --mesh %s --layout \"%s\" %s", options,
                                       text_of(row, "mesh"), text_of(row, "layout"), set));
  if (!alone && strstr(options, "--memory")) return true; // it needs more: `check` refuses it
  double want = number(alone, "predicted_seconds"), got = number(price, "seconds"),
         peak = number(json_object_get(alone, "memory"), "peak");
  json_decref(alone);
  if (fabs(got - want) > 1e-5 * want) return wrong(what, side, got, want);
  return number(price, "peak") == peak || wrong(what, "peak", number(price, "peak"), peak);
}

// Returns whether the parts of a difference add up, and only the possible causes have a part.
static bool parts_hold(const char *what, const json_t *row, const char *causes) {
  const json_t *parts = json_object_get(row, "by_cause");
  const char *cause;
  json_t *part;
  double then = number(json_object_get(row, "then"), "seconds"), sum = then;
  if (json_is_null(parts)) return true;
  json_object_foreach((json_t *)(uintptr_t)parts, cause, part) {
    double x = json_number_value(part);
    sum += x;
    if (!strstr(causes, cause) && fabs(x) > 1e-5 * then) return wrong(what, cause, x, 0);
  }
  double now = number(json_object_get(row, "now"), "seconds");
  return fabs(sum - now) <= 1e-5 * now || wrong(what, "sum of the parts", sum, now);
}

static bool reason_holds(const char *what, const json_t *against, const char *because) {
  bool same = json_is_true(json_object_get(against, "same_layout"));
  const char *said = json_string_value(json_array_get(json_object_get(against, "because"), 0));
  if (because && !*because) return same || said; // either may come out
  if (!because ? same : said && !strncmp(said, because, strlen(because))) return true;
  printf("FAIL %s: %s, because %s\n", what, same ? "same layout" : "another layout",
         said ? said : "of nothing");
  return false;
}

static bool rows_hold(size_t i, const char *what, const json_t *against) {
  const char *model = arena_printf(arena, "examples/%s.mesh", pairs[i].model);
  // what is searched is no option of `check`
  const char *sets = strstr(pairs[i].both, "--set") ? strstr(pairs[i].both, "--set") : "";
  const char *then = arena_printf(arena, "%s %s %s", model, sets, pairs[i].then),
             *now = arena_printf(arena, "%s %s %s", model, sets, pairs[i].now);
  json_t *row;
  size_t k;
  if (!json_array_size(json_object_get(against, "prices"))) return wrong(what, "prices", 0, 1);
  json_array_foreach(json_object_get(against, "prices"), k, row) {
    if (!is_price(what, row, "then", then) || !is_price(what, row, "now", now) ||
        !parts_hold(what, row, pairs[i].causes))
      return false;
  }
  return true;
}

static void try_pair(size_t i) {
  const char *file = arena_printf(arena, "%s/plan.json", folder);
  const char *what = arena_printf(arena, "examples/%s.mesh %s", pairs[i].model, pairs[i].both);
  const char *plan = arena_printf(arena, "%s plan", meshc);
  json_t *then = json_of(plan, arena_printf(arena, "%s %s --save %s", what, pairs[i].then, file));
  json_t *now = json_of(plan, arena_printf(arena, "%s %s --against %s", what, pairs[i].now, file));
  const json_t *against = json_object_get(now, "against");
  bool changes = json_array_size(json_object_get(against, "changes")) > 0;
  bool changed = strcmp(pairs[i].then, pairs[i].now) != 0;
  bool good = then && against && rows_hold(i, what, against) &&
              reason_holds(what, against, pairs[i].because) &&
              (changes == changed || wrong(what, "changes", changes, changed));
  if (!then || !against) printf("FAIL %s: no JSON\n", what);
  good ? passed++ : failed++;
  json_decref(then);
  json_decref(now);
}

// Compares with a file of these contents: that may not crash, and an error has a code.
static void try_contents(const char *what, const char *contents) {
  const char *file = arena_printf(arena, "%s/damaged.json", folder);
  int code;
  bool written = disk_write_file(file, contents, strlen(contents), true);
  char *text = command_output(
      arena, arena_printf(arena, "%s plan examples/mlp.mesh --against %s 2>&1", meshc, file),
      &code);
  bool good = written && (code == 0 || (code == 5 && strstr(text, "[E0702]")));
  if (!good) printf("FAIL %s: exit code %d: %s\n", what, code, text);
  good ? passed++ : failed++;
}

enum { CUTS = 12 };

static void try_damage(void) {
  const char *file = arena_printf(arena, "%s/whole.json", folder), *key;
  int code;
  (void)command_output(
      arena, arena_printf(arena, "%s plan examples/mlp.mesh --save %s", meshc, file), &code);
  json_t *whole = json_load_file(file, 0, NULL), *value;
  char *text = json_dumps(whole, 0);
  for (size_t k = 0; text && k < CUTS; k++) {
    size_t at = strlen(text) * k / CUTS;
    try_contents("a file that is cut off", arena_text(arena, text, at));
  }
  free(text);
  json_object_foreach(whole, key, value) {
    json_t *other = json_deep_copy(whole);
    json_object_del(other, key);
    text = json_dumps(other, 0);
    try_contents(arena_printf(arena, "a file without %s", key), text);
    free(text);
    json_object_set_new(other, key, json_is_string(value) ? json_pack("[i]", 1) : json_string("x"));
    text = json_dumps(other, 0);
    try_contents(arena_printf(arena, "a file with another %s", key), text);
    free(text);
    json_decref(other);
  }
  json_decref(whole);
}

int main(void) {
  char name[] = "/tmp/meshc-plans-XXXXXX";
  int code;
  arena = arena_new();
  meshc = command_program(arena);
  folder = mkdtemp(name);
  if (!folder) return 1;
  for (size_t i = 0; i < countof(pairs); i++) try_pair(i);
  try_damage();
  (void)command_output(arena, arena_printf(arena, "rm -r %s", folder), &code);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(arena);
  return failed != 0;
}
