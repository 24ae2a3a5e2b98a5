// Reads the arguments of csv(...) in a data block into its DataSource.
#include "frontend/model/blocks_internal.h"

#include "runtime/runtime.h"

#include <string.h>

static bool set_column(Build *b, const Ast *e, DataSource *s) {
  if (e->kind == AST_STRING) return build_string(b, e, &s->key);
  if (!build_integer(b, e, &s->first)) return false;
  s->last = s->first + 1;
  if (s->first >= 0) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "the first column is 0");
}

// Reads a list of strings to *out, with a line end behind each. Returns false after an error.
static bool read_list(Build *b, const Ast *e, const char *what, const char **out) {
  *out = "";
  for (uint32_t i = 0; i < e->nargs; i++) {
    const char *text;
    if (e->args[i].name || e->args[i].key || e->args[i].value->kind != AST_STRING) {
      diag_error(b->d, DIAG_BAD_BLOCK, e->args[i].pos, "expected a name of a %s in quotes", what);
      return diag_hint(b->d, "write (\"a\", \"b\")");
    }
    if (!build_string(b, e->args[i].value, &text)) return false;
    if (strchr(text, '\n'))
      return diag_error(b->d, DIAG_BAD_BLOCK, e->args[i].pos, "a name of a %s has one line", what);
    *out = arena_printf(b->a, "%s%s\n", *out, text);
  }
  return true;
}

// Reads a list of numbers of columns.
static bool read_numbers(Build *b, const Ast *e, DataSource *s) {
  s->columns = "";
  s->first = COLUMNS_NUMBERED;
  for (uint32_t i = 0; i < e->nargs; i++) {
    int64_t n;
    if (!build_integer(b, e->args[i].value, &n)) return false;
    if (n < 0 || n > INT32_MAX)
      return diag_error(b->d, DIAG_BAD_BLOCK, e->args[i].pos, "the first column is 0");
    s->columns = arena_printf(b->a, "%s%lld\n", s->columns, (long long)n);
  }
  return true;
}

static bool set_columns(Build *b, const Ast *e, DataSource *s) {
  if (e->kind != AST_LIST) return source_range(b, e, &s->first, &s->last);
  bool names = e->args[0].value->kind == AST_STRING;
  return names ? read_list(b, e, "column", &s->columns) : read_numbers(b, e, s);
}

static bool set_header(Build *b, const Ast *e, DataSource *s) {
  bool yes;
  if (e->kind == AST_NAME && !strcmp(e->text, "auto")) return true;
  if (!build_bool(b, e, &yes)) return false;
  s->header = yes;
  return true;
}

static bool set_separator(Build *b, const Ast *e, DataSource *s) {
  if (e->kind == AST_NAME && !strcmp(e->text, "auto")) return true;
  if (e->kind == AST_NAME && !strcmp(e->text, "tab")) {
    s->separator = "\t";
    return true;
  }
  if (!build_string(b, e, &s->separator)) return false;
  bool one = strlen(s->separator) == 1;
  unsigned char c = (unsigned char)s->separator[0];
  bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  if (one && !letter && !strchr("\" \r\n.+-", c) && c < 128 && (c >= 32 || c == '\t')) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "'%s' cannot separate columns",
             text_shown(b->a, s->separator));
  return diag_hint(b->d, "a separator is one character, such as \",\" or \";\", or the word tab");
}

static bool set_decimal(Build *b, const Ast *e, DataSource *s) {
  if (!build_string(b, e, &s->decimal)) return false;
  if (!strcmp(s->decimal, ".") || !strcmp(s->decimal, ",")) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "decimal is \".\" or \",\", not '%s'",
                    text_shown(b->a, s->decimal));
}

static bool set_missing(Build *b, const Ast *e, DataSource *s) {
  static const struct {
    const char *name;
    MissingRule rule;
  } rules[] = {{"mean", MISSING_MEAN},
               {"zero", MISSING_VALUE},
               {"drop", MISSING_DROP},
               {"mask", MISSING_MASK}};
  for (size_t i = 0; e->kind == AST_NAME && i < countof(rules); i++) {
    if (strcmp(e->text, rules[i].name) != 0) continue;
    s->missing = rules[i].rule;
    return true;
  }
  s->missing = MISSING_VALUE;
  if (e->kind == AST_NUMBER || e->kind == AST_UNARY) return build_number(b, e, &s->fill);
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "missing is mean, zero, drop, mask or a number");
}

static bool set_classes(Build *b, const Ast *e, DataSource *s) {
  s->classes = CLASSES_AUTO;
  if (e->kind == AST_NAME && !strcmp(e->text, "auto")) return true;
  s->classes = CLASSES_LISTED;
  if (e->kind == AST_LIST) return read_list(b, e, "class", &s->class_list);
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "classes is auto or a list of names");
  return diag_hint(b->d, "write classes = (\"yes\", \"no\")");
}

static bool set_date(Build *b, const Ast *e, DataSource *s) {
  s->date = "iso";
  if (e->kind == AST_NAME && !strcmp(e->text, "iso")) return true;
  if (!build_string(b, e, &s->date)) return false;
  bool any = false, good = true;
  for (const char *c = s->date; *c; c++) {
    if (*c != '%') continue;
    any = true;
    good &= c[1] && strchr("YymdbBHMSfz%", c[1]);
    c += c[1] != 0;
  }
  if (any && good) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "'%s' is no format of dates", text_shown(b->a, s->date));
  return diag_hint(b->d, "write iso, or a format of %%Y %%y %%m %%b %%d %%H %%M %%S %%f %%z, such "
                         "as \"%%d.%%m.%%Y\"");
}

static bool set_unit(Build *b, const Ast *e, DataSource *s) {
  s->seconds = e->kind == AST_NAME && !strcmp(e->text, "seconds");
  if (s->seconds || (e->kind == AST_NAME && !strcmp(e->text, "days"))) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "the unit of dates is days or seconds");
}

static bool set_since(Build *b, const Ast *e, DataSource *s) {
  const char *text;
  if (!build_string(b, e, &text)) return false;
  if (date_parse(text, strlen(text), "iso", &s->since)) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "'%s' is no date like \"2000-01-31\"",
                    text_shown(b->a, text));
}

const SourceArgument csv_arguments[] = {{"column", set_column},
                                        {"columns", set_columns},
                                        {"header", set_header},
                                        {"separator", set_separator},
                                        {"decimal", set_decimal},
                                        {"missing", set_missing},
                                        {"classes", set_classes},
                                        {"date", set_date},
                                        {"unit", set_unit},
                                        {"since", set_since},
                                        {NULL, NULL}};

bool csv_check(Build *b, const DataSource *s) {
  if (s->classes && s->missing == MISSING_MEAN)
    return diag_error(b->d, DIAG_BAD_BLOCK, s->pos,
                      "classes have no mean: missing = mean is for "
                      "numbers");
  if (s->classes && s->date)
    return diag_error(b->d, DIAG_BAD_BLOCK, s->pos, "a field is either a class or a date");
  if ((s->seconds || s->since != 0) && !s->date)
    return diag_error(b->d, DIAG_BAD_BLOCK, s->pos, "unit and since are for dates: add date = iso");
  return true;
}
