// Compares meshc with JAX's partitioner. For every row of tests/gspmd/rows.txt it runs `check
// --json` on the model under the layout, and compares the bytes sent with those of JAX for the same
// program and with those of the best program written by hand. No row may send more than JAX at its
// best, or less than a proven lower bound. Nine of ten rows must be within 1.02 of the program by
// hand. Redundant work is allowed only where that program has it, too. docs/gspmd.md is the table
// of all rows.
//
//   gspmd [--bless | ROW]     --bless writes docs/gspmd.md; ROW: only rows whose name or model
//                             contains it
//
// Ends in `N passed, N failed, N skipped`.
#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/table.h"

enum { MAX_KINDS = 32 };
typedef struct Row {
  const char *const
      *field; // name, model and sizes, mesh, layout, gpu, by hand, redundant flops, lower bound
  int64_t gpu, by_hand;
  double redundant; // allowed part of the flops
  int64_t lower;    // -1: none is known
} Row;

static Arena *arena;
static int passed, failed;

static Row row_read(const TableRow *t) {
  bool redundant = t->n > 6 && strcmp(t->field[6], "-") != 0;
  return (Row){t->field, atoll(t->field[4]), atoll(t->field[5]),
               redundant ? atof(t->field[6]) : 1.01, t->n > 7 ? atoll(t->field[7]) : -1};
}

// Returns "3 all_reduce/8 8388612": calls in a step, kind, size of the group, bytes of all calls.
static const char *collectives_text(const json_t *facts) {
  const char *kind[MAX_KINDS];
  int64_t calls[MAX_KINDS] = {0}, bytes[MAX_KINDS] = {0};
  int n = 0;
  const json_t *list = json_object_get(facts, "collectives"), *c;
  size_t i;
  json_array_foreach(list, i, c) {
    const char *text = arena_printf(arena, "%s/%lld", json_string_value(json_object_get(c, "kind")),
                                    (long long)table_number(c, "group"));
    int k = 0;
    while (k < n && strcmp(kind[k], text) != 0) k++;
    if (k == MAX_KINDS) continue;
    if (k == n) kind[n++] = text;
    calls[k] += table_number(c, "times");
    bytes[k] += table_number(c, "times") * table_number(c, "bytes");
  }
  const char *text = n ? "" : "none";
  for (int k = 0; k < n; k++)
    text = arena_printf(arena, "%s%s%lld %s %lld", text, k ? " + " : "", (long long)calls[k],
                        kind[k], (long long)bytes[k]);
  return text;
}

static void fault(const Row *r, const char *text) {
  printf("FAIL %s: %s\n", r->field[0], text);
  failed++;
}

// Returns one line of the table; *near counts the rows that are near the program by hand.
static const char *row_run(const Row *r, int *near) {
  const char *model = arena_printf(arena, "tests/gspmd/%s", r->field[1]);
  json_t *facts = table_facts(arena, model, r->field[2], r->field[3]);
  if (!facts) {
    fault(r, "check gave no facts");
    return "";
  }
  int64_t ours = table_number(facts, "wire_bytes");
  double redundant = 1 + json_real_value(json_object_get(facts, "redundant_flops"));
  const char *line = arena_printf(
      arena, "| %s | `%s` | `%s` | %s | %lld / %lld / %lld | %s | %s, %s | %.3f |\n", r->field[0],
      r->field[2], r->field[3], collectives_text(facts), (long long)ours, (long long)r->gpu,
      (long long)r->by_hand,
      r->lower < 0 ? ours ? "" : "0" : arena_printf(arena, "%lld", (long long)r->lower),
      table_ratio(arena, ours, r->gpu), table_ratio(arena, ours, r->by_hand), redundant);
  json_decref(facts);
  *near += (double)ours <= 1.02 * (double)r->by_hand;
  if (ours < r->lower)
    fault(r, arena_printf(arena, "%lld bytes are below the lower bound %lld", (long long)ours,
                          (long long)r->lower));
  else if (ours > r->gpu)
    fault(r, arena_printf(arena, "%lld bytes, JAX moves %lld", (long long)ours, (long long)r->gpu));
  else if (redundant > r->redundant + 0.0005)
    fault(r, arena_printf(arena, "%.3f of the flops", redundant));
  else
    passed++;
  return line;
}

static const char head[] =
    "# Beside JAX's partitioner\n"
    "\n"
    "Bytes that one processor sends in a step, predicted by `meshc check --json` and, in every "
    "run, equal to the bytes counted. Beside them what JAX\n"
    "0.10.2 (GSPMD with Shardy) sends for the same program, mesh and layout, after the most that "
    "its GPU passes can recover from the text of its CPU\n"
    "compiler, and the best program that was written by hand before meshc made its own (not a "
    "bound: ours may send less). The models are in\n"
    "`tests/gspmd`; `suite_gspmd` runs this table and fails where it is out of date.\n"
    "\n"
    "- A train step is forward, backward and SGD with the loss handed out; +dX: the gradient of "
    "the input is kept too.\n"
    "- `2 all_reduce/8 4096`: calls in a step, kind, processors in a group, bytes of all of them "
    "(all_reduce, reduce_scatter, all_to_all: operand; all_gather: result;\n"
    "  permute: of the processor that sends most).\n"
    "- Lower bound, where one is proven: what others need and only one processor has; 2 (n-1)/n of "
    "the bytes for an all_reduce whose terms all differ,\n"
    "  (n-1)/n for a reduce_scatter (Patarasuk and Yuan, 2009); what every processor must receive, "
    "divided by the senders.\n"
    "- flops: of all processors over those of one alone.\n"
    "- Rows of batches of matrices and of the Fourier transform are left out.\n"
    "\n"
    "| row | mesh | layout | collectives | bytes sent: ours / JAX / by hand | lower bound | ours "
    "over JAX, over by hand | flops |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n";

int main(int argc, char **argv) {
  arena = arena_new();
  bool blessing = argc > 1 && !strcmp(argv[1], "--bless");
  const char *only = argc > 1 && !blessing ? argv[1] : NULL, *table = head;
  TableRows rows = table_read(arena, "tests/gspmd/rows.txt", 6);
  int n = 0, near = 0, skipped = 0;
  for (uint32_t i = 0; i < rows.n; i++) {
    Row r = row_read(&rows.at[i]);
    if (only && !strstr(r.field[0], only) && !strstr(r.field[1], only)) {
      skipped++;
      continue;
    }
    table = arena_printf(arena, "%s%s", table, row_run(&r, &near));
    n++;
  }
  if (!n) printf("FAIL no rows\n"), failed++;
  if (!only) {
    table = arena_printf(arena,
                         "%s\n%d of %d rows send at most 1.02 times the bytes of the program by "
                         "hand; none sends more than JAX.\n",
                         table, near, n);
    if (table_page(arena, "docs/gspmd.md", table, blessing))
      passed++;
    else
      printf("FAIL docs/gspmd.md is out of date: suite_gspmd --bless\n"), failed++;
    if (near * 10 < n * 9)
      printf("FAIL only %d of %d rows are near the program by hand\n", near, n), failed++;
  }
  printf("%d of %d rows near the program by hand\n%d passed, %d failed, %d skipped\n", near, n,
         passed, failed, skipped);
  arena_free(arena);
  return failed ? 1 : 0;
}
