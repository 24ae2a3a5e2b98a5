// Reads tables of models, runs `check` on their rows, and evaluates formulas.
#include "tests/suite/common/table.h"
#include "tests/suite/common/command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"

static char *trimmed(char *s) {
  while (*s == ' ') s++;
  for (size_t n = strlen(s); n && s[n - 1] == ' '; n--) s[n - 1] = 0;
  return s;
}

static TableRow row_read(char *line) {
  TableRow r = {0};
  for (int i = 0; i < TABLE_FIELDS; i++) r.field[i] = "";
  for (char *next = line; next && r.n < TABLE_FIELDS; line = next) {
    next = strchr(line, '|');
    if (next) *next++ = 0;
    r.field[r.n++] = trimmed(line);
  }
  return r;
}

TableRows table_read(Arena *a, const char *path, int least) {
  size_t size;
  char *text = file_text(a, path, &size);
  VEC(TableRow) rows = {0};
  for (char *line = text, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (*line == '#') continue;
    TableRow r = row_read(line);
    if (r.n >= least) vec_push(a, rows) = r;
  }
  return (TableRows){rows.n, rows.at};
}

const char *table_command(Arena *a, const char *command, const char *model, const char *mesh,
                          const char *layout) {
  char *path = arena_printf(a, "%s", model), *sizes = strchr(path, ' ');
  if (sizes) *sizes++ = 0;
  int rules = (int)strcspn(layout, " ");
  const char *text =
      arena_printf(a, "%s %s %s.mesh --mesh %s --layout '%.*s'%s", command_program(a), command,
                   path, mesh, rules, layout, layout + rules);
  for (char *size = sizes ? strtok(sizes, ",") : NULL; size; size = strtok(NULL, ","))
    text = arena_printf(a, "%s --set %s", text, size);
  return text;
}

json_t *table_facts(Arena *a, const char *model, const char *mesh, const char *layout) {
  FILE *p = popen(table_command(a, "check --json", model, mesh, layout), "r");
  json_t *facts = p ? json_loadf(p, 0, NULL) : NULL;
  if (p) pclose(p);
  return facts;
}

int64_t table_number(const json_t *o, const char *name) {
  return json_integer_value(json_object_get(o, name));
}

const char *table_ratio(Arena *a, int64_t a_number, int64_t b_number) {
  if (a_number == b_number) return "1.00";
  return b_number ? arena_printf(a, "%.2f", (double)a_number / (double)b_number) : "inf";
}

bool table_page(Arena *a, const char *path, const char *page, bool blessing) {
  if (blessing) {
    FILE *f = fopen(path, "wb");
    return f && fputs(page, f) >= 0 && !fclose(f);
  }
  size_t size;
  const char *have = file_text(a, path, &size);
  return have && !strcmp(have, page);
}

// -- formulas -----------------------------------------------------------------------------------

typedef struct Reader {
  Arena *a;
  const char *at;
  TableValue *value;
  const void *context;
  bool good;
} Reader;

static int64_t read_sum(Reader *r);

static int64_t read_factor(Reader *r) {
  while (*r->at == ' ') r->at++;
  if (isdigit((unsigned char)*r->at)) {
    char *end;
    int64_t n = strtoll(r->at, &end, 10);
    r->at = end;
    return n;
  }
  if (*r->at == '(') {
    r->at++;
    int64_t n = read_sum(r);
    r->good &= *r->at == ')';
    r->at += *r->at == ')';
    return n;
  }
  const char *name = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.') r->at++;
  r->good &= r->at > name;
  return r->good ? r->value(r->context, arena_text(r->a, name, (size_t)(r->at - name)), &r->good)
                 : 0;
}

static int64_t read_product(Reader *r) {
  int64_t n = read_factor(r);
  for (;;) {
    while (*r->at == ' ') r->at++;
    char op = *r->at;
    if (op != '*' && op != '/') return n;
    r->at++;
    int64_t by = read_factor(r);
    r->good &= op == '*' || by > 0;
    n = op == '*' ? n * by : by > 0 ? (n + by - 1) / by : 0;
  }
}

static int64_t read_sum(Reader *r) {
  int64_t n = read_product(r);
  while (*r->at == '+' || *r->at == '-') {
    bool minus = *r->at++ == '-';
    int64_t by = read_product(r);
    n += minus ? -by : by;
  }
  return n;
}

int64_t table_formula(Arena *a, const char *text, TableValue *value, const void *context,
                      bool *good) {
  Reader r = {a, text, value, context, true};
  int64_t n = read_sum(&r);
  while (*r.at == ' ') r.at++;
  *good &= r.good && !*r.at;
  return n;
}
