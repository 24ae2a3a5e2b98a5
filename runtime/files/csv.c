// Splits CSV text into rows and fields. Fields may be quoted; "" inside quotes is one quote. Lines
// end in LF or CR LF. Blanks around a field are no part of it.
#include "runtime/files/csv_internal.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

// -- fields -------------------------------------------------------------------------------------

static inline bool is_blank(char c, char separator) {
  return (c == ' ' || c == '\t') && c != separator;
}

const char *csv_stop(const char *p, char separator) {
#ifdef __SSE2__
  const __m128i line = _mm_set1_epi8('\n'), comma = _mm_set1_epi8(separator);
  for (;; p += 16) {
    __m128i x = _mm_loadu_si128((const __m128i *)p);
    int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(x, line), _mm_cmpeq_epi8(x, comma)));
    if (found) return p + __builtin_ctz((unsigned)found);
  }
#else
  while (*p != '\n' && *p != separator) p++;
  return p;
#endif
}

// Finds the quote that closes the quoted field whose text begins at p. *doubled: the text contains
// "". Returns NULL if there is none before `end`.
static const char *closing_quote(const char *p, const char *end, bool *doubled) {
  *doubled = false;
  while (p < end && (p = memchr(p, '"', (size_t)(end - p)))) {
    if (p + 1 >= end || p[1] != '"') return p;
    *doubled = true;
    p += 2;
  }
  return NULL;
}

// Copies text[0..n) to `spare` and makes one quote of every two.
static void undouble(const char *text, size_t n, CsvSpare *spare, CsvField *out) {
  if (spare->room < n + 1) {
    spare->at = mem_grow(spare->at, n + 1);
    spare->room = n + 1;
  }
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    spare->at[k++] = text[i];
    i += text[i] == '"';
  }
  *out = (CsvField){spare->at, k, true};
}

// Reads a quoted field; p is its first quote. `out` may be NULL.
static const char *quoted_field(const char *p, const char *end, const CsvFormat *f, CsvSpare *spare,
                                CsvField *out, const char **stopped, char *why) {
  bool doubled;
  const char *close = closing_quote(p + 1, end, &doubled);
  *stopped = end;
  if (!close) return why_not(why, "a quoted field does not end"), NULL;
  if (out && doubled)
    undouble(p + 1, (size_t)(close - p - 1), spare, out);
  else if (out)
    *out = (CsvField){p + 1, (size_t)(close - p - 1), true};
  const char *q = close + 1;
  while (is_blank(*q, f->separator) || *q == '\r') q++;
  if (*q == f->separator || *q == '\n') return q;
  *stopped = q;
  return why_not(why, "a quoted field does not end at its closing quote: '%.20s' follows it",
                 (const char *)memcpy((char[21]){0}, q,
                                      (size_t)clamp64(csv_stop(q, f->separator) - q, 0, 20))),
         NULL;
}

const char *csv_field(const char *p, const char *end, const CsvFormat *f, CsvSpare *spare,
                      CsvField *out, const char **stopped, char *why) {
  while (is_blank(*p, f->separator)) p++;
  if (*p == '"') return quoted_field(p, end, f, spare, out, stopped, why);
  const char *stop = csv_stop(p, f->separator), *last = stop;
  while (last > p && (is_blank(last[-1], f->separator) || last[-1] == '\r')) last--;
  *out = (CsvField){p, (size_t)(last - p), false};
  return stop;
}

const char *csv_pass(const char *p, const char *end, const CsvFormat *f, const char **stopped,
                     char *why) {
  if (*p != '"' && !is_blank(*p, f->separator)) return csv_stop(p, f->separator);
  while (is_blank(*p, f->separator)) p++;
  if (*p == '"') return quoted_field(p, end, f, NULL, NULL, stopped, why);
  return csv_stop(p, f->separator);
}

// -- rows ---------------------------------------------------------------------------------------

const char *csv_skip_blank(const char *p, const char *end, char separator) {
  while (p < end) {
    const char *q = p;
    while (is_blank(*q, separator) || *q == '\r') q++;
    if (*q != '\n' || q > end) return p;
    p = q + 1;
  }
  return end;
}

void csv_skip_row(const char *p, const char *end, const CsvFormat *f, bool quotes, CsvRow *out) {
  if (!quotes) {
    const char *line = memchr(p, '\n', (size_t)(end - p) + 1);
    out->next = line + 1;
    return;
  }
  for (;; p++) {
    p = csv_pass(p, end, f, &out->stopped, out->why);
    if (!p) return;
    if (*p == '\n') break;
  }
  out->next = p + 1;
}

bool csv_walk_row(CsvWalk *w) {
  for (;;) {
    if (*w->why) return false;
    w->end = w->text->at + w->text->n;
    w->p = csv_skip_blank(w->p, w->end, w->format.separator);
    if (w->p < w->end) return true;
    if (w->text->end) return false;
    if (csv_text_more(w->text, w->text->n, w->why)) *w->why = 0;
    w->p = w->text->at;
  }
}

bool csv_walk_incomplete(CsvWalk *w, const CsvRow *row) {
  bool partial = row->next ? row->next > w->end : row->stopped >= w->end;
  if (!partial || w->text->end) return false;
  if (csv_text_more(w->text, w->p - w->text->at, w->why)) *w->why = 0;
  w->p = w->text->at;
  return true;
}

int64_t csv_walk_offset(const CsvWalk *w) { return w->text->offset + (w->p - w->text->at); }

// -- the first rows -----------------------------------------------------------------------------

typedef struct Head {
  Arena *a;
  CsvHead *out;
  CsvSpare spare;
} Head;

static void read_record(Head *h, const char *p, const char *end, int64_t offset, CsvRow *out) {
  VEC(const char *) text = {0};
  const char *start = p;
  for (;; p++) {
    CsvField field;
    p = csv_field(p, end, &h->out->format, &h->spare, &field, &out->stopped, out->why);
    if (!p) return;
    vec_push(h->a, text) = arena_text(h->a, field.text, field.n);
    if (*p == '\n') break;
  }
  out->next = p + 1;
  if (h->out->n == CSV_HEAD) return;
  h->out->row[h->out->n++] = (CsvRecord){
      .n = (uint32_t)text.n, .field = text.at, .offset = offset, .next = offset + (p + 1 - start)};
}

static char find_separator(const char *p, const char *end) {
  static const char others[] = ";\t|";
  size_t best = sizeof others - 1;
  bool quoted = false;
  for (; p < end && (quoted || *p != '\n'); p++) {
    quoted ^= *p == '"';
    if (quoted) continue;
    if (*p == ',') return ',';
    const char *other = strchr(others, *p);
    if (other && (size_t)(other - others) < best) best = (size_t)(other - others);
  }
  return best < sizeof others - 1 ? others[best] : ',';
}

// Reads one row at the start of the text, which is read on until the row is in it.
static bool head_row(Head *h, CsvText *t, int64_t *skip, int64_t *offset, char *why) {
  for (uint32_t had = h->out->n;;) {
    CsvRow row = {0};
    const char *end = t->at + t->n, *p = t->at + *skip;
    p = csv_skip_blank(p, end, h->out->format.separator);
    if (p < end) read_record(h, p, end, t->offset + (p - t->at), &row);
    bool partial = p >= end || (row.next ? row.next > end : row.stopped >= end);
    if (!partial || t->end) {
      *skip = row.next ? row.next - t->at : t->n;
      if (*skip > t->n) *skip = t->n;
      *offset = t->offset + (p - t->at);
      memcpy(why, row.why, WHY);
      return p >= end || row.next;
    }
    h->out->n = had;
    *offset = -1;
    if (!csv_text_more(t, 0, why)) return false;
  }
}

bool csv_head(Arena *a, CsvText *t, CsvFormat f, CsvHead *out, int64_t *offset, char *why) {
  *out = (CsvHead){.format = f};
  Head h = {.a = a, .out = out};
  const char *end = t->at + t->n, *p = csv_skip_blank(t->at, end, ',');
  if (!f.separator) out->format.separator = find_separator(p, end);
  int64_t skip = 0;
  bool good = true;
  for (uint32_t had = 0; good && had < CSV_HEAD && out->n == had; had++)
    good = head_row(&h, t, &skip, offset, why);
  free(h.spare.at);
  return good;
}
