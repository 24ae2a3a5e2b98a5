// Rows from a CSV file. The columns asked for must be numbers in every row.
#include "runtime/data/source_internal.h"
#include "runtime/files/csv_internal.h"

#include <stdlib.h>
#include <string.h>

// Finds the columns of a CSV file that the source asks for: *first gets the first column, *last the
// end (one past the last). Returns false after an error in d.
static bool find_columns(const RowSource *s, const Csv *head, bool header, int64_t *first,
                         int64_t *last, Diag *d) {
  const DataSource *w = s->input->source;
  *first = w->first;
  *last = w->last;
  if (w->first >= 0) {
    if (w->last <= w->first || (size_t)w->last > head->n) {
      diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
                 "columns %lld..%lld are asked for, but %s has %zu", (long long)w->first,
                 (long long)w->last, s->path, head->n);
      return false;
    }
    return true;
  }
  const char **names = mem_zeroed(head->n + 1, sizeof *names);
  bool found = false;
  for (size_t i = 0; header && i < head->n; i++) {
    names[i] = head->field[i].text;
    if (found || strcmp(names[i], w->key) != 0) continue;
    found = true;
    *first = (int64_t)i;
    *last = *first + 1;
  }
  if (!found) {
    diag_error(d, DIAG_DATA_SHAPE, s->input->pos, "%s has no column \"%s\"%s", s->path, w->key,
               header ? "" : ": it is read without a header");
    if (header) diag_nearest(d, w->key, names, head->n);
  }
  free(names);
  return found;
}

typedef struct Table {
  double *value;
  int64_t *line;
  int64_t rows, room, columns;
} Table;

static void grow(Table *t) {
  if (t->rows < t->room) return;
  t->room = t->room ? 2 * t->room : 256;
  t->value = mem_grow(t->value, sizeof *t->value * (size_t)(t->room * t->columns));
  t->line = mem_grow(t->line, sizeof *t->line * (size_t)t->room);
}

static bool add_row(RowSource *s, const Csv *c, Table *t, size_t width, int64_t first, Diag *d) {
  Pos at = s->input->pos;
  if (c->n != width) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s:%lld: %zu column%s, but the first line has %zu",
               s->path, (long long)c->began, c->n, plural((int64_t)c->n), width);
    return false;
  }
  grow(t);
  for (int64_t i = 0; i < t->columns; i++) {
    const char *text = c->field[first + i].text;
    if (csv_number(text, &t->value[t->rows * t->columns + i])) continue;
    if (*text)
      diag_error(d, DIAG_DATA_VALUE, at, "%s:%lld: column %lld: '%.40s' is not a number", s->path,
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
  Csv head, c;
  bool second, any = csv_begin(text, n, &head, &c, &second);
  bool header = w->header == 1 ||
                (w->header < 0 && (w->first < 0 || csv_header(&head, &c, w->first, w->last)));
  int64_t first, last;
  bool ok = any && find_columns(s, &head, header, &first, &last, d);
  if (ok) {
    t->columns = last - first;
    s->column = first;
  }
  if (ok && !header) ok = add_row(s, &head, t, head.n, first, d);
  for (; ok && second; second = csv_next(&c)) ok = add_row(s, &c, t, head.n, first, d);
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
  int64_t n;
  char *text = csv_load(s->path, &n, d, s->input->pos);
  Table t = {0};
  bool ok = text && read_table(s, text, n, &t, d);
  free(text);
  s->memory = (char *)t.value;
  s->line = t.line;
  source_place(s, &(ArrayPlace){.raw = raw_of(TYPE_F64), .rank = 2, .size = {t.rows, t.columns}});
  return ok;
}
