// Tables of models beside what is expected of their programs (tests/*/rows.txt), and what `meshc
// check --json` says of them. A row is a line of fields between `|`; lines that begin with # are
// comments.
#ifndef TESTS_SUITE_COMMON_TABLE_H
#define TESTS_SUITE_COMMON_TABLE_H

#include <jansson.h>

#include "ir/base/arena.h"
#include "ir/base/base.h"

enum { TABLE_FIELDS = 8 };
typedef struct TableRow {
  int n;
  const char *field[TABLE_FIELDS]; // trimmed; "" behind the last
} TableRow;
typedef struct TableRows {
  uint32_t n;
  TableRow *at;
} TableRows;

// Rows of a file with at least `least` fields; none when it cannot be read.
TableRows table_read(Arena *a, const char *path, int least);
// `meshc check --json` of "tests/gspmd/mlp b=16,d=8" (a model, sizes that replace its own) under a
// mesh and a layout, behind which options may stand ("b=x --memory 1MiB"). NULL after a failure.
json_t *table_facts(Arena *a, const char *model, const char *mesh, const char *layout);
// The command that table_facts runs, for another command than `check --json`.
const char *table_command(Arena *a, const char *command, const char *model, const char *mesh,
                          const char *layout);
int64_t table_number(const json_t *o, const char *name);
// "1.25"; "inf" when b is 0.
const char *table_ratio(Arena *a, int64_t a_number, int64_t b_number);
// Writes a page, or says whether the file is that page.
bool table_page(Arena *a, const char *path, const char *page, bool blessing);

// The value of a formula: whole numbers, names, + - * / and parentheses; a division rounds up.
// *good is false after a name that nobody knows or bad syntax.
typedef int64_t TableValue(const void *context, const char *name, bool *good);
int64_t table_formula(Arena *a, const char *text, TableValue *value, const void *context,
                      bool *good);

#endif
