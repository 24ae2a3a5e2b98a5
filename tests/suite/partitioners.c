// Checks programs against what a good partitioner must reach, row by row. A row of
// tests/partitioners/rows.txt has the program (the ledger of `check --json`, as formulas of dims
// and axes) and the most bytes that one processor may send. A row of memory.txt has the effect of a
// layout or a budget on memory. docs/partitioners.md is the table of all rows.
//
//   partitioners [--bless | ROW]     --bless writes docs/partitioners.md; ROW: only rows whose name
//                                    or model contains it
//
// A row of rows.txt is
//   name | model and sizes | mesh | layout | ledger | bytes demanded | remark
// where the ledger is "none" or entries between `;`: PHASE CALLS KIND AXES BYTES (bytes of all
// calls), for example
//   backward 1 all_reduce p (d*h+h*o)*4; forward 1 all_reduce p+q 4
// A row of memory.txt is
//   name | model and sizes | mesh | layout | the same with a rule or options more |
//     facts between `;` | remark | options of a run
// where a fact compares two formulas. Their names are the four numbers of `memory`, and `plain.`
// with the numbers of the program without the rule, for example
//   optimizer == plain.optimizer/p; wire <= plain.wire
// If a memory row has options of a run, both programs run with them; parameters and slots must then
// be the same except for rounding.
//
// Ends in `N passed, N failed, N skipped`.
#define _XOPEN_SOURCE 700 // mkdtemp
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "tests/suite/common/table.h"

enum { MAX_ENTRIES = 32 };
static const double ROUNDING = 1e-4; // relative to the norm of a tensor
static Arena *arena;
static char folder[] = "/tmp/meshc-partitioners-XXXXXX"; // for the results of training
static int passed, failed;

static void fault(const TableRow *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void fault(const TableRow *r, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("FAIL %s: ", r->field[0]);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  failed++;
}

// -- names in formulas: dims, axes, facts -------------------------------------------------------

typedef struct Facts {
  const json_t *now, *plain; // plain: NULL in rows.txt
} Facts;

static const json_t *find_number(const json_t *facts, const char *name) {
  static const char *const list[] = {"dims", "mesh", "memory"};
  if (!strcmp(name, "wire")) return json_object_get(facts, "wire_bytes");
  if (!strcmp(name, "weights")) return json_object_get(facts, "parameters");
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    const json_t *found = json_object_get(json_object_get(facts, list[i]), name);
    if (found) return found;
  }
  return NULL;
}

static int64_t value_of(const void *context, const char *name, bool *good) {
  const Facts *f = context;
  bool plain = !strncmp(name, "plain.", 6);
  const json_t *found = find_number(plain ? f->plain : f->now, plain ? name + 6 : name);
  *good &= found != NULL;
  return json_integer_value(found);
}

static int64_t evaluate(const TableRow *r, const char *text, const Facts *f) {
  bool good = true;
  int64_t n = table_formula(arena, text, value_of, f, &good);
  if (!good) fault(r, "cannot read the formula '%s'", text);
  return n;
}

// -- the ledger ---------------------------------------------------------------------------------

typedef struct Entry {
  const char *key; // "backward all_reduce p+q"
  int64_t calls, bytes;
} Entry;
typedef struct Ledger {
  int n;
  Entry at[MAX_ENTRIES];
} Ledger;

static void ledger_add(Ledger *l, const char *key, int64_t calls, int64_t bytes) {
  int i = 0;
  while (i < l->n && strcmp(l->at[i].key, key) != 0) i++;
  if (i == MAX_ENTRIES) return;
  if (i == l->n) l->at[l->n++] = (Entry){.key = key};
  l->at[i].calls += calls;
  l->at[i].bytes += bytes;
}

static const char *axes_text_of(const json_t *axes) {
  const char *text = "";
  size_t i;
  const json_t *axis;
  json_array_foreach(axes, i, axis) text =
      arena_printf(arena, "%s%s%s", text, *text ? "+" : "", json_string_value(axis));
  return text;
}

static Ledger ledger_ours(const json_t *facts) {
  Ledger l = {0};
  size_t i;
  const json_t *c;
  json_array_foreach(json_object_get(facts, "collectives"), i, c) {
    const char *phase = json_string_value(json_object_get(c, "phase")),
               *kind = json_string_value(json_object_get(c, "kind"));
    const char *key =
        arena_printf(arena, "%s %s %s", phase, kind, axes_text_of(json_object_get(c, "axes")));
    ledger_add(&l, key, table_number(c, "times"),
               table_number(c, "times") * table_number(c, "bytes"));
  }
  return l;
}

static Ledger ledger_expected(const TableRow *r, const Facts *f) {
  Ledger l = {0};
  char *text = arena_printf(arena, "%s", r->field[4]);
  for (char *entry = text, *next; entry && strcmp(r->field[4], "none") != 0; entry = next) {
    next = strchr(entry, ';');
    if (next) *next++ = 0;
    char phase[16], calls[64], kind[32], axes[64];
    int end = 0;
    if (sscanf(entry, " %15s %63s %31s %63s %n", phase, calls, kind, axes, &end) != 4 || !end) {
      fault(r, "cannot read the entry '%s'", entry);
      continue;
    }
    ledger_add(&l, arena_printf(arena, "%s %s %s", phase, kind, axes), evaluate(r, calls, f),
               evaluate(r, entry + end, f));
  }
  return l;
}

static const char *ledger_text(const Ledger *l, const char *between) {
  const char *text = l->n ? "" : "none";
  for (int i = 0; i < l->n; i++) {
    const Entry *e = &l->at[i];
    int phase = (int)strcspn(e->key, " ");
    text = arena_printf(arena, "%s%s%.*s %lld%s %lld", text, i ? between : "", phase, e->key,
                        (long long)e->calls, e->key + phase, (long long)e->bytes);
  }
  return text;
}

static const Entry *ledger_find(const Ledger *l, const char *key) {
  for (int i = 0; i < l->n; i++)
    if (!strcmp(l->at[i].key, key)) return &l->at[i];
  return NULL;
}

static bool ledgers_equal(const Ledger *a, const Ledger *b) {
  bool equal = a->n == b->n;
  for (int i = 0; i < a->n && equal; i++) {
    const Entry *x = &a->at[i], *y = ledger_find(b, x->key);
    equal = y && x->calls == y->calls && x->bytes == y->bytes;
  }
  return equal;
}

// -- a row of rows.txt --------------------------------------------------------------------------

static const char *ledger_row(const TableRow *r) {
  if (r->n < 6) return arena_printf(arena, "| %s | | | %s | | |\n", r->field[0], r->field[1]);
  json_t *facts =
      table_facts(arena, arena_printf(arena, "tests/%s", r->field[1]), r->field[2], r->field[3]);
  if (!facts) {
    fault(r, "check gave no facts");
    return "";
  }
  Facts f = {facts, NULL};
  Ledger ours = ledger_ours(facts), expected = ledger_expected(r, &f);
  int64_t wire = table_number(facts, "wire_bytes"), most = evaluate(r, r->field[5], &f);
  if (!ledgers_equal(&ours, &expected))
    fault(r, "the ledger is\n  %s\nexpected\n  %s", ledger_text(&ours, "; "),
          ledger_text(&expected, "; "));
  else if (wire > most)
    fault(r, "%lld bytes are sent, %s = %lld at most", (long long)wire, r->field[5],
          (long long)most);
  else
    passed++;
  json_decref(facts);
  return arena_printf(arena, "| %s | `%s` | `%s` | %s | %s | %lld / %lld | %s |\n", r->field[0],
                      r->field[2], r->field[3], r->field[4], ledger_text(&ours, "<br>"),
                      (long long)wire, (long long)most, r->field[6]);
}

// -- a row of memory.txt ------------------------------------------------------------------------

// Checks a fact such as "optimizer == plain.optimizer/p" and reports it when it is false.
static void compare(const TableRow *r, const char *fact, const Facts *f) {
  static const char *const sign[] = {"==", "<=", ">="};
  for (size_t i = 0; i < sizeof sign / sizeof sign[0]; i++) {
    const char *at = strstr(fact, sign[i]);
    if (!at) continue;
    int64_t left = evaluate(r, arena_text(arena, fact, (size_t)(at - fact)), f),
            right = evaluate(r, at + 2, f);
    bool holds = i == 0 ? left == right : i == 1 ? left <= right : left >= right;
    if (holds)
      passed++;
    else
      fault(r, "%s: %lld and %lld", fact, (long long)left, (long long)right);
    return;
  }
  fault(r, "'%s' compares nothing", fact);
}

static void compare_all(const TableRow *r, const Facts *f) {
  char *text = arena_printf(arena, "%s", r->field[5]);
  for (char *fact = strtok(text, ";"); fact; fact = strtok(NULL, ";"))
    compare(r, fact + strspn(fact, " "), f);
}

// -- both programs run --------------------------------------------------------------------------

static bool train_to(const TableRow *r, const char *model, const char *layout, const char *path) {
  const char *command = table_command(arena, "train -q", model, r->field[2], layout);
  if (!system(arena_printf(arena, "%s %s --save-params %s >/dev/null", command, r->field[7], path)))
    return true;
  fault(r, "training fails under %s", layout);
  return false;
}

// Returns |x - y| / |x| as vectors, 2 if the shapes differ.
static double distance(const Array *x, const Array *y) {
  double apart = 0, size = 0;
  if (x->elements != y->elements) return 2;
  for (int64_t i = 0; i < x->elements; i++) {
    int64_t bytes = dtype_bytes(x->type);
    double a = dtype_load(x->type, (const char *)x->data + i * bytes),
           b = dtype_load(y->type, (const char *)y->data + i * bytes);
    apart += (a - b) * (a - b);
    size += a * a;
  }
  return apart > 0 ? sqrt(apart / size) : 0;
}

static void compare_files(const TableRow *r, const char *plain, const char *now) {
  Diag *d = diag_new(arena);
  const char **name;
  double most = 0;
  const char *worst = "";
  if (!array_names(arena, plain, &name, d, (Pos){0})) {
    fault(r, "no parameters were saved");
    return;
  }
  for (int i = 0; name[i]; i++) {
    Array x = {0}, y = {0};
    if (!array_read(&x, plain, name[i], d, (Pos){0}) || !array_read(&y, now, name[i], d, (Pos){0}))
      fault(r, "%s is missing", name[i]);
    else if (distance(&x, &y) > most)
      most = distance(&x, &y), worst = name[i];
    array_free(&x);
    array_free(&y);
  }
  if (getenv("SHOW")) printf("%s: %s is %g apart\n", r->field[0], worst, most);
  if (most <= ROUNDING)
    passed++;
  else
    fault(r, "%s is %g apart", worst, most);
}

// Runs both programs and compares what they trained. Consecutive rows often have the same plain
// program, which is trained once.
static void run_both(const TableRow *r, const char *model) {
  static const char *last = "";
  if (!*r->field[7]) return;
  const char *plain = arena_printf(arena, "%s/plain.safetensors", folder),
             *now = arena_printf(arena, "%s/now.safetensors", folder);
  const char *key =
      arena_printf(arena, "%s|%s|%s|%s", model, r->field[2], r->field[3], r->field[7]);
  if (strcmp(key, last) != 0) {
    last = "";
    if (!train_to(r, model, r->field[3], plain)) return;
    last = key;
  }
  if (train_to(r, model, r->field[4], now)) compare_files(r, plain, now);
  unlink(now);
}

static const char *memory_text(const json_t *facts) {
  const json_t *m = json_object_get(facts, "memory");
  return arena_printf(
      arena, "%lld, %lld, %lld, %lld; %lld", (long long)table_number(m, "parameters"),
      (long long)table_number(m, "optimizer"), (long long)table_number(m, "activations"),
      (long long)table_number(m, "peak"), (long long)table_number(facts, "wire_bytes"));
}

static const char *memory_row(const TableRow *r) {
  const char *model = arena_printf(arena, "tests/%s", r->field[1]);
  json_t *plain = table_facts(arena, model, r->field[2], r->field[3]),
         *now = table_facts(arena, model, r->field[2], r->field[4]);
  const char *line = "";
  if (!plain || !now) {
    fault(r, "check gave no facts");
  } else {
    compare_all(r, &(Facts){now, plain});
    run_both(r, model);
    line =
        arena_printf(arena, "| %s | `%s` | `%s` | %s | %s | %s | %s |\n", r->field[0], r->field[2],
                     r->field[4], memory_text(plain), memory_text(now), r->field[5], r->field[6]);
  }
  json_decref(plain);
  json_decref(now);
  return line;
}

// -- all rows -----------------------------------------------------------------------------------

static const char head[] =
    "# What a partitioner must reach\n"
    "\n"
    "Collectives of the classic cases, as `meshc check --json` predicts them and every run counts "
    "them. The models are in `tests/partitioners` and\n"
    "`tests/gspmd`; `suite_partitioners` runs both tables and fails where a number differs from "
    "its formula or this page is out of date.\n"
    "\n"
    "- Expected, an entry a collective: phase, calls in a step, kind, axes, bytes of all calls "
    "(all_reduce, reduce_scatter, all_to_all: operand; all_gather: result;\n"
    "  permute: of the processor that sends most). Names in formulas are dims and mesh axes; a "
    "division rounds up.\n"
    "- Bytes sent: by one processor in a step with the best ring; demanded: the closed form of the "
    "case, and 2(p-1)/p * 4 for the loss, which is handed out whole.\n"
    "\n"
    "| case | mesh | layout | expected | ours | bytes sent: ours / demanded | remark |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

static const char memory_head[] =
    "\n"
    "## Memory\n"
    "\n"
    "What one more rule, or a budget, does. Bytes of one processor: parameters, optimizer, "
    "activations (gradients among them), peak; bytes sent. `plain.` is the program\n"
    "without the rule. Parameters after three steps are those of the plain program but for "
    "rounding.\n"
    "\n"
    "| case | mesh | layout | plain | with it | facts | remark |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

int main(int argc, char **argv) {
  arena = arena_new();
  bool blessing = argc > 1 && !strcmp(argv[1], "--bless");
  const char *only = argc > 1 && !blessing ? argv[1] : NULL, *page = head;
  TableRows rows = table_read(arena, "tests/partitioners/rows.txt", 2),
            memory = table_read(arena, "tests/partitioners/memory.txt", 6);
  int skipped = 0;
  if (!mkdtemp(folder)) return 1;
  for (uint32_t i = 0; i < rows.n + memory.n; i++) {
    const TableRow *r = i < rows.n ? &rows.at[i] : &memory.at[i - rows.n];
    if (i == rows.n) page = arena_printf(arena, "%s%s", page, memory_head);
    if (only && !strstr(r->field[0], only) && !strstr(r->field[1], only))
      skipped++;
    else
      page = arena_printf(arena, "%s%s", page, i < rows.n ? ledger_row(r) : memory_row(r));
  }
  unlink(arena_printf(arena, "%s/plain.safetensors", folder));
  rmdir(folder);
  if (!rows.n || !memory.n) printf("FAIL no rows\n"), failed++;
  if (!only) {
    if (table_page(arena, "docs/partitioners.md", page, blessing))
      passed++;
    else
      printf("FAIL docs/partitioners.md is out of date: suite_partitioners --bless\n"), failed++;
  }
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  arena_free(arena);
  return failed ? 1 : 0;
}
