// Parses CSV text into records (lines) and fields. Fields are separated by commas and may be
// quoted; "" inside quotes is one quote. Lines end in LF or CR LF.
#include "runtime/files/csv_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

char *csv_load(const char *path, int64_t *n, Diag *d, Pos at) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, path, d, at)) return NULL;
  char *text = mem_alloc((size_t)f.size + 1);
  bool ok = datafile_read(&f, 0, f.size, text, why);
  char *zero = ok ? memchr(text, 0, (size_t)f.size) : NULL;
  if (zero)
    ok = why_not(why, "is no text: it has a zero byte at byte %lld", (long long)(zero - text));
  *n = f.size;
  datafile_close(&f);
  if (ok) return text;
  (void)file_malformed(path, why, d, at);
  free(text);
  return NULL;
}

static void add_field(Csv *c, char *text) {
  if (c->n == c->room) {
    c->room = c->room ? 2 * c->room : 16;
    c->field = mem_grow(c->field, c->room * sizeof *c->field);
  }
  c->field[c->n++] = (CsvField){text};
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Reads a quoted field and copies its text without the quotes to `out`, in place. Moves c->at
// behind the closing quote. Returns false if there is no closing quote.
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

// Reads a field. Sets *more to whether another field follows in this record. Returns false if the
// text is broken.
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
  if (quoted && last > plain) return false; // there is text after the closing quote
  if (!quoted) *last = 0;
  add_field(c, text);
  return true;
}

bool csv_next(Csv *c) {
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

bool csv_begin(char *text, int64_t n, Csv *head, Csv *next, bool *more) {
  *head = (Csv){.at = text, .end = text + n, .line = 1};
  if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) head->at += 3;
  bool any = csv_next(head);
  *next = (Csv){.at = head->at, .end = head->end, .line = head->line};
  *more = any && csv_next(next);
  return any;
}

bool csv_number(const char *text, double *out) {
  char *end;
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
  *out = strtod(text, &end);
  return *end == 0 && isfinite(*out);
}

bool csv_header(const Csv *first, const Csv *second, int64_t asked_first, int64_t asked_last) {
  double x;
  for (size_t i = 0; i < first->n; i++) {
    if (csv_number(first->field[i].text, &x)) continue;
    bool asked = (int64_t)i >= asked_first && (int64_t)i < asked_last;
    if (asked || (i < second->n && csv_number(second->field[i].text, &x))) return true;
  }
  return false;
}
