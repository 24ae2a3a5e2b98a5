// Rows from a CSV file: commas, quotes ("" inside quotes is one), any line ends. The columns asked
// for must be numbers in every row.
#include "runtime/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Field {
  char *text; // terminated, unquoted in place, blanks around it gone
} Field;

typedef struct Csv {
  char *at, *end;
  int64_t line;  // of `at`
  int64_t began; // line of the last record
  size_t n, room;
  Field *field;
  bool broken; // an unfinished quote, or no memory
} Csv;

static bool add_field(Csv *c, char *text) {
  if (c->n == c->room) {
    size_t room = c->room ? 2 * c->room : 16;
    Field *more = realloc(c->field, room * sizeof *more);
    if (!more) return false;
    c->field = more;
    c->room = room;
  }
  c->field[c->n++] = (Field){text};
  return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Copies a quoted field over its quotes; leaves `at` behind the closing one.
static bool unquote(Csv *c, char *out) {
  for (c->at++; c->at < c->end; c->at++) {
    if (*c->at == '\n') c->line++;
    if (*c->at == '"') {
      if (c->at + 1 == c->end || c->at[1] != '"') {
        c->at++;
        *out = 0;
        return true;
      }
      c->at++;
    }
    *out++ = *c->at;
  }
  return false;
}

// Reads a field; *more says that another follows in this record.
static bool next_field(Csv *c, bool *more) {
  while (c->at < c->end && is_blank(*c->at)) c->at++;
  char *text = c->at, *last;
  bool quoted = c->at < c->end && *c->at == '"';
  if (quoted && !unquote(c, text)) return false;
  char *plain = c->at;
  while (c->at < c->end && *c->at != ',' && *c->at != '\n') c->at++;
  last = c->at;
  *more = c->at < c->end && *c->at == ',';
  if (c->at < c->end && *c->at == '\n') c->line++;
  if (c->at < c->end) c->at++;
  while (last > plain && (is_blank(last[-1]) || last[-1] == '\r')) last--;
  if (quoted && last > plain) return false; // text behind the closing quote
  if (!quoted) *last = 0;
  return add_field(c, text);
}

// The next record that is not an empty line; false at the end or when broken.
static bool next_record(Csv *c) {
  do {
    bool more = true;
    c->n = 0;
    c->began = c->line;
    if (c->at == c->end) return false;
    while (more)
      if (!next_field(c, &more)) return !(c->broken = true);
  } while (c->n == 1 && c->field[0].text[0] == 0);
  return true;
}

// A finite decimal number and nothing else.
static bool number_of(const char *text, double *out) {
  char *end;
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
  *out = strtod(text, &end);
  return *end == 0 && isfinite(*out);
}

// A first line is a header if a column is no number there and one in the second line, or if a
// column that is asked for is no number there.
static bool looks_like_header(const Csv *first, const Csv *second, const DataSource *w) {
  double x;
  for (size_t i = 0; i < first->n; i++) {
    if (number_of(first->field[i].text, &x)) continue;
    bool asked = (int64_t)i >= w->first && (int64_t)i < w->last;
    if (asked || (i < second->n && number_of(second->field[i].text, &x))) return true;
  }
  return false;
}

// Columns first..last-1 that the source asks for.
static bool find_columns(const RowSource *s, const Csv *head, bool header, int64_t *first,
                         int64_t *last, Diag *d) {
  const DataSource *w = s->input->source;
  *first = w->first;
  *last = w->last;
  if (w->first >= 0) {
    if (w->last <= w->first || (size_t)w->last > head->n) {
      diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
                 "columns %lld..%lld of %s are asked for, which has %zu", (long long)w->first,
                 (long long)w->last, s->path, head->n);
      return false;
    }
    return true;
  }
  const char **names = calloc(head->n + 1, sizeof *names);
  bool found = false;
  for (size_t i = 0; names && header && i < head->n; i++) {
    names[i] = head->field[i].text;
    if (found || strcmp(names[i], w->key) != 0) continue;
    found = true;
    *first = (int64_t)i;
    *last = *first + 1;
  }
  if (!found) {
    diag_error(d, DIAG_DATA_SHAPE, s->input->pos, "%s has no column \"%s\"%s", s->path, w->key,
               header ? "" : ": it is read without a header");
    if (names && header) diag_nearest(d, w->key, names, head->n);
  }
  free(names);
  return found;
}

typedef struct Table {
  double *value;
  int64_t *line;
  int64_t rows, room, columns;
} Table;

static bool grow(Table *t) {
  if (t->rows < t->room) return true;
  int64_t room = t->room ? 2 * t->room : 256;
  double *value = realloc(t->value, sizeof *value * (size_t)(room * t->columns));
  if (value) t->value = value;
  int64_t *line = realloc(t->line, sizeof *line * (size_t)room);
  if (line) t->line = line;
  if (value && line) t->room = room;
  return value && line;
}

static bool add_row(RowSource *s, const Csv *c, Table *t, size_t width, int64_t first, Diag *d) {
  Pos at = s->input->pos;
  if (c->n != width) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s:%lld: %zu columns, where the first line has %zu",
               s->path, (long long)c->began, c->n, width);
    return false;
  }
  if (!grow(t)) {
    diag_error(d, DIAG_NO_MEMORY, at, "no memory for %s", s->path);
    return false;
  }
  for (int64_t i = 0; i < t->columns; i++) {
    const char *text = c->field[first + i].text;
    if (number_of(text, &t->value[t->rows * t->columns + i])) continue;
    if (*text)
      diag_error(d, DIAG_DATA_VALUE, at, "%s:%lld: column %lld: '%.40s' is no number", s->path,
                 (long long)c->began, (long long)(first + i), text);
    else
      diag_error(d, DIAG_DATA_VALUE, at, "%s:%lld: column %lld: the value is missing", s->path,
                 (long long)c->began, (long long)(first + i));
    diag_hint(d, "columns count from 0");
    return false;
  }
  t->line[t->rows++] = c->began;
  return true;
}

static bool read_table(RowSource *s, char *text, int64_t n, Table *t, Diag *d) {
  const DataSource *w = s->input->source;
  Csv head = {.at = text, .end = text + n, .line = 1};
  if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) head.at += 3;
  bool any = next_record(&head);
  // The records after the first are read through another reader, so that both stand side by side.
  Csv c = {.at = head.at, .end = head.end, .line = head.line};
  bool second = any && next_record(&c);
  bool header =
      w->header == 1 || (w->header < 0 && (w->first < 0 || looks_like_header(&head, &c, w)));
  int64_t first, last;
  bool ok = any && find_columns(s, &head, header, &first, &last, d);
  if (ok) {
    t->columns = last - first;
    s->column = first;
  }
  if (ok && !header) ok = add_row(s, &head, t, head.n, first, d);
  for (; ok && second; second = next_record(&c)) ok = add_row(s, &c, t, head.n, first, d);
  if (head.broken || (ok && c.broken)) {
    diag_error(d, DIAG_FILE_MALFORMED, s->input->pos, "%s:%lld: a quoted field does not end",
               s->path, (long long)(head.broken ? head.began : c.began));
    ok = false;
  } else if (!any || (ok && t->rows == 0)) {
    diag_error(d, DIAG_FILE_MALFORMED, s->input->pos, "%s has no rows", s->path);
    ok = false;
  }
  free(head.field);
  free(c.field);
  return ok;
}

bool source_csv(RowSource *s, Diag *d) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, s->path, d, s->input->pos)) return false;
  char *text = malloc((size_t)f.size + 1);
  bool ok = text ? datafile_read(&f, 0, f.size, text, why) : why_not(why, "does not fit in memory");
  if (ok && memchr(text, 0, (size_t)f.size)) ok = why_not(why, "is no text: it has a zero byte");
  if (!ok) diag_error(d, DIAG_FILE_MALFORMED, s->input->pos, "%s %s", s->path, why);
  Table t = {0};
  ok = ok && read_table(s, text, f.size, &t, d);
  free(text);
  datafile_close(&f);
  s->memory = (char *)t.value;
  s->line = t.line;
  s->rows = t.rows;
  s->raw = raw_of(TYPE_F64);
  s->stride = t.columns * 8;
  s->rank = 1;
  s->size[0] = t.columns;
  return ok;
}
