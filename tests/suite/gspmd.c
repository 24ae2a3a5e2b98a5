// Every row of tests/gspmd/rows.txt: `check --json` of its model under its layout beside what JAX's partitioner
// moves for the same program, and beside the bound. No row moves more than JAX at its best, nine of ten are within
// 1.02 of the bound, and work is redundant only where the bound's is. docs/gspmd.md is the table of all rows.
//
//   gspmd [--bless | ROW]     --bless writes docs/gspmd.md; ROW: only rows whose text has it
//
// Ends in `N passed, N failed, N skipped`.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/base.h"

enum { MAX_FIELDS = 7, MAX_KINDS = 32 };
typedef struct Row {
  const char *field[MAX_FIELDS]; // name, model and sizes, mesh, layout, gpu, bound, redundant flops
  int64_t gpu, bound;
  double redundant;              // allowed
} Row;

static Arena *arena;
static int passed, failed;
static const char *meshc;

static char *read_file(const char *path) {
  size_t n;
  return file_text(arena, path, &n);
}

static char *trimmed(char *s) {
  while (*s == ' ') s++;
  for (size_t n = strlen(s); n && s[n - 1] == ' '; n--) s[n - 1] = 0;
  return s;
}

static Row row_read(char *line) {
  Row r = {.redundant = 1.01};
  int n = 0;
  for (char *next = line; next && n < MAX_FIELDS; line = next) {
    next = strchr(line, '|');
    if (next) *next++ = 0;
    r.field[n++] = trimmed(line);
  }
  if (n < 6) return (Row){0};
  r.gpu = atoll(r.field[4]), r.bound = atoll(r.field[5]);
  if (n > 6) r.redundant = atof(r.field[6]);
  return r;
}

// "mlp b=16,d=8": the model, and sizes that replace its own.
static json_t *facts_of(const Row *r) {
  char *model = arena_printf(arena, "%s", r->field[1]), *sizes = strchr(model, ' ');
  if (sizes) *sizes++ = 0;
  const char *command = arena_printf(arena, "%s check tests/gspmd/%s.mesh --json --mesh %s --layout '%s'", meshc, model,
                                     r->field[2], r->field[3]);
  for (char *size = sizes ? strtok(sizes, ",") : NULL; size; size = strtok(NULL, ","))
    command = arena_printf(arena, "%s --set %s", command, size);
  FILE *p = popen(command, "r");
  json_t *facts = p ? json_loadf(p, 0, NULL) : NULL;
  if (p) pclose(p);
  return facts;
}

static int64_t number(const json_t *o, const char *name) { return json_integer_value(json_object_get(o, name)); }

// "3 all_reduce/8 8388612": calls in a step, kind, size of the group, bytes together.
static const char *collectives_text(const json_t *facts) {
  const char *kind[MAX_KINDS];
  int64_t calls[MAX_KINDS] = {0}, bytes[MAX_KINDS] = {0};
  int n = 0;
  const json_t *list = json_object_get(facts, "collectives"), *c;
  size_t i;
  json_array_foreach(list, i, c) {
    const char *text = arena_printf(arena, "%s/%lld", json_string_value(json_object_get(c, "kind")), (long long)number(c, "group"));
    int k = 0;
    while (k < n && strcmp(kind[k], text) != 0) k++;
    if (k == MAX_KINDS) continue;
    if (k == n) kind[n++] = text;
    calls[k] += number(c, "times");
    bytes[k] += number(c, "times") * number(c, "bytes");
  }
  const char *text = n ? "" : "none";
  for (int k = 0; k < n; k++)
    text = arena_printf(arena, "%s%s%lld %s %lld", text, k ? " + " : "", (long long)calls[k], kind[k], (long long)bytes[k]);
  return text;
}

static const char *ratio(int64_t a, int64_t b) {
  if (a == b) return "1.00";
  return b ? arena_printf(arena, "%.2f", (double)a / (double)b) : "inf";
}

static void fault(const Row *r, const char *text) {
  printf("FAIL %s: %s\n", r->field[0], text);
  failed++;
}

// One line of the table; counts what is at the bound.
static const char *row_run(const Row *r, int *at_bound) {
  json_t *facts = facts_of(r);
  if (!facts) {
    fault(r, "check gave no facts");
    return "";
  }
  int64_t ours = number(facts, "wire_bytes");
  double redundant = 1 + json_real_value(json_object_get(facts, "redundant_flops"));
  const char *line = arena_printf(arena, "| %s | `%s` | `%s` | %s | %lld / %lld / %lld | %s, %s | %.3f |\n", r->field[0], r->field[2],
                                  r->field[3], collectives_text(facts), (long long)ours, (long long)r->gpu, (long long)r->bound,
                                  ratio(ours, r->gpu), ratio(ours, r->bound), redundant);
  json_decref(facts);
  *at_bound += (double)ours <= 1.02 * (double)r->bound;
  if (ours > r->gpu) fault(r, arena_printf(arena, "%lld bytes, JAX moves %lld", (long long)ours, (long long)r->gpu));
  else if (redundant > r->redundant + 0.0005) fault(r, arena_printf(arena, "%.3f of the flops", redundant));
  else passed++;
  return line;
}

static const char head[] =
    "# Beside JAX's partitioner\n"
    "\n"
    "Bytes that one processor sends in a step, predicted by `meshc check --json` and, in every run, equal to the bytes counted. Beside them what JAX\n"
    "0.10.2 (GSPMD with Shardy) sends for the same program, mesh and layout, after the most that its GPU passes can recover from the text of its CPU\n"
    "compiler, and a bound written by hand. The models are in `tests/gspmd`; `suite_gspmd` runs this table and fails where it is out of date.\n"
    "\n"
    "- A train step is forward, backward and SGD with the loss handed out; +dX: the gradient of the input is kept too.\n"
    "- `2 all_reduce/8 4096`: calls in a step, kind, processors in a group, bytes of all of them (all_reduce, reduce_scatter, all_to_all: operand; all_gather: result;\n"
    "  permute: of the processor that sends most).\n"
    "- flops: of all processors over those of one alone.\n"
    "- Rows of linear algebra and of the Fourier transform are left out: the language has neither.\n"
    "\n"
    "| row | mesh | layout | collectives | bytes sent: ours / JAX / bound | ours over JAX, over bound | flops |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

static void table_check(const char *table, bool blessing) {
  const char *path = "docs/gspmd.md";
  if (blessing) {
    FILE *f = fopen(path, "wb");
    if (!f || fputs(table, f) < 0 || fclose(f)) printf("FAIL %s cannot be written\n", path), failed++;
    return;
  }
  const char *have = read_file(path);
  if (have && !strcmp(have, table)) passed++;
  else printf("FAIL %s is out of date: suite_gspmd --bless\n", path), failed++;
}

int main(int argc, char **argv) {
  arena = arena_new();
  meshc = getenv("MESHC") ? getenv("MESHC") : "build/release/meshc";
  bool blessing = argc > 1 && !strcmp(argv[1], "--bless");
  const char *only = argc > 1 && !blessing ? argv[1] : NULL, *table = head;
  char *rows = read_file("tests/gspmd/rows.txt");
  int n = 0, at_bound = 0, skipped = 0;
  for (char *line = rows, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (*line == '#') continue;
    if (only && !strstr(line, only)) {
      skipped++;
      continue;
    }
    Row r = row_read(line);
    if (!r.field[0]) continue;
    table = arena_printf(arena, "%s%s", table, row_run(&r, &at_bound));
    n++;
  }
  if (!n) printf("FAIL no rows\n"), failed++;
  if (!only) {
    table = arena_printf(arena, "%s\n%d of %d rows are within 1.02 of the bound; none moves more than JAX.\n", table, at_bound, n);
    table_check(table, blessing);
    if (at_bound * 10 < n * 9) printf("FAIL only %d of %d rows are at the bound\n", at_bound, n), failed++;
  }
  printf("%d of %d rows at the bound\n%d passed, %d failed, %d skipped\n", at_bound, n, passed, failed, skipped);
  arena_free(arena);
  return failed ? 1 : 0;
}
