// Tables of models with the expected facts of their programs (tests/*/rows.txt), compared with
// `meshc check --json`. A row is a line of fields separated by `|`. Lines that begin with # are
// comments.
#ifndef TESTS_SUITE_COMMON_TABLE_H
#define TESTS_SUITE_COMMON_TABLE_H

#include <jansson.h>

#include "ir/base/arena.h"
#include "ir/base/base.h"

enum { TABLE_FIELDS = 8 };
typedef struct TableRow {
  int n;
  const char *field[TABLE_FIELDS]; // trimmed; "" after the last
} TableRow;
typedef struct TableRows {
  uint32_t n;
  TableRow *at;
} TableRows;

// Reads a file's rows that have at least `least` fields. Returns no rows when the file cannot be
// read.
TableRows table_read(Arena *a, const char *path, int least);
// Runs `meshc check --json` and returns the result, NULL after a failure. `model` may have sizes
// that replace its own: "tests/gspmd/mlp b=16,d=8". Options may follow the layout: "b=x --memory
// 1MiB".
json_t *table_facts(Arena *a, const char *model, const char *mesh, const char *layout);
// Returns the command of table_facts, for another command than `check --json`.
const char *table_command(Arena *a, const char *command, const char *model, const char *mesh,
                          const char *layout);
int64_t table_number(const json_t *o, const char *name);
// Returns a quotient as "1.25"; "inf" when b is 0.
const char *table_ratio(Arena *a, int64_t a_number, int64_t b_number);
// With `blessing`, writes the page and returns true on success. Otherwise returns true if the file
// has the text of the page.
bool table_page(Arena *a, const char *path, const char *page, bool blessing);

// Returns the value of a formula: whole numbers, names, + - * / and parentheses. A division rounds
// up. *good is set to false for an unknown name or a syntax error.
typedef int64_t TableValue(const void *context, const char *name, bool *good);
int64_t table_formula(Arena *a, const char *text, TableValue *value, const void *context,
                      bool *good);

#endif
