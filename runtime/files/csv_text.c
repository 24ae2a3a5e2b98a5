// Reads the text of a CSV file in pieces, so that memory does not grow with the file. A .gz is
// inflated while it is read.
#include "runtime/files/csv_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIECE = 1 << 20 };

static void set_room(CsvText *t, int64_t room) {
  t->at = mem_grow(t->at, (size_t)room + 1 + CSV_PAD);
  t->room = room;
}

// Puts a line end and zero bytes behind the text.
static void close_text(CsvText *t) {
  t->at[t->n] = '\n';
  memset(t->at + t->n + 1, 0, CSV_PAD);
}

static bool is_gzip(const char *path) {
  size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

// Reads up to `most` bytes to `out`; *got is 0 at the end of the file.
static bool take(CsvText *t, int64_t most, char *out, int64_t *got, char *why) {
  if (!t->gzip) {
    int64_t from = t->offset + t->n, left = t->file.size - from;
    *got = left < most ? left : most;
    return *got == 0 || datafile_read(&t->file, from, *got, out, why);
  }
  int n = gzread(t->gzip, out, (unsigned)most), code = Z_OK;
  const char *said = n <= 0 ? gzerror(t->gzip, &code) : "";
  (void)said;
  if (code == Z_MEM_ERROR) mem_exhausted(0);
  if (n < 0 || code < 0)
    return why_not(why, "broken gzip data after %lld bytes", (long long)(t->offset + t->n));
  *got = n;
  return true;
}

static bool fill(CsvText *t, char *why) {
  while (t->n < t->room && !t->end) {
    int64_t got = 0;
    if (!take(t, t->room - t->n, t->at + t->n, &got, why)) return false;
    const char *zero = memchr(t->at + t->n, 0, (size_t)got);
    bool utf16 = t->offset == 0 && t->n + got > 1 &&
                 (!memcmp(t->at, "\xff\xfe", 2) || !memcmp(t->at, "\xfe\xff", 2));
    if (zero && utf16)
      return why_not(why, "is UTF-16: iconv -f utf-16 -t utf-8 <old.csv >new.csv converts it");
    if (zero)
      return why_not(why, "is no text: it has a zero byte at byte %lld",
                     (long long)(t->offset + (zero - t->at)));
    t->end = got == 0;
    t->n += got;
    if (!t->gzip) t->end = t->offset + t->n >= t->file.size;
  }
  t->quotes = memchr(t->at, '"', (size_t)t->n) != NULL;
  close_text(t);
  return true;
}

bool csv_text_more(CsvText *t, int64_t from, char *why) {
  int64_t left = t->n - from;
  memmove(t->at, t->at + from, (size_t)left);
  t->offset += from;
  t->n = left;
  if (left > t->room / 2) {
    if (t->room >= CSV_ROW_MAX)
      return why_not(why, "has a row of more than %d MiB; is a quote not closed?",
                     CSV_ROW_MAX >> 20);
    set_room(t, 2 * t->room);
  }
  return fill(t, why);
}

bool csv_text_at(CsvText *t, int64_t offset, int64_t n, char *why) {
  if (n > t->room) set_room(t, n);
  t->offset = offset;
  t->n = n;
  t->end = true;
  if (!datafile_read(&t->file, offset, n, t->at, why)) return false;
  t->quotes = true;
  close_text(t);
  return true;
}

bool csv_text_open(CsvText *t, const char *path, Diag *d, Pos at) {
  char why[WHY];
  *t = (CsvText){.file = {.fd = -1}};
  if (!datafile_open(&t->file, path, d, at)) return false;
  if (is_gzip(path)) {
    t->gzip = gzopen(path, "rb");
    if (!t->gzip) mem_check_errno();
    if (!t->gzip) return file_malformed(path, "cannot be opened", d, at);
    (void)gzbuffer(t->gzip, 1 << 17);
  }
  set_room(t, PIECE);
  close_text(t);
  if (!fill(t, why)) return file_malformed(path, why, d, at);
  if (t->n >= 3 && memcmp(t->at, "\xef\xbb\xbf", 3) == 0 && !csv_text_more(t, 3, why))
    return file_malformed(path, why, d, at);
  return true;
}

void csv_text_close(CsvText *t) {
  if (t->gzip) gzclose_r(t->gzip);
  datafile_close(&t->file);
  free(t->at);
  *t = (CsvText){.file = {.fd = -1}};
}

int64_t csv_line(const char *path, int64_t offset) {
  Arena *a = arena_new();
  CsvText t;
  char why[WHY];
  int64_t line = 1;
  bool good = csv_text_open(&t, path, diag_new(a), (Pos){0});
  while (good && t.offset < offset && t.n > 0) {
    int64_t n = offset - t.offset < t.n ? offset - t.offset : t.n;
    for (const char *p = t.at; (p = memchr(p, '\n', (size_t)(t.at + n - p))); p++) line++;
    good = n < t.n || csv_text_more(&t, n, why);
    if (n < t.n) break;
  }
  csv_text_close(&t);
  arena_free(a);
  return good ? line : 0;
}
