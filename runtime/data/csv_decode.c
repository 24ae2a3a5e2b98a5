// Decodes rows of CSV: finds the columns that a source asks for, and turns their fields into
// numbers, as the options of the source say.
#include "runtime/data/csv_source_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// -- fields -------------------------------------------------------------------------------------

static double date_value(const DataSource *s, double seconds) {
  return (seconds - s->since) / (s->seconds ? 1 : 86400);
}

// Converts the text of a field that is not missing. Returns false if it is no such value.
static bool text_value(CsvDecoder *c, const CsvFile *f, const char *text, size_t n, double *out) {
  const DataSource *s = c->input->source;
  double seconds;
  if (s->classes) {
    int64_t number = classes_find(&c->classes, text, n, c->learning);
    *out = (double)number;
    return number >= 0;
  }
  if (s->date && date_parse(text, n, s->date, &seconds)) {
    *out = date_value(s, seconds);
    return true;
  }
  return csv_number(text, n, f->format.decimal, out);
}

// Writes the value of a missing field in place `place`. Returns false if the source has no rule.
static bool missing_value(CsvDecoder *c, int32_t place, double *out) {
  const DataSource *s = c->input->source;
  c->missing[c->nmissing++] = place;
  *out = s->missing == MISSING_VALUE ? s->fill : 0;
  if (s->missing == MISSING_MEAN) *out = c->mean ? c->mean[place] : (double)NAN;
  c->dropped |= s->missing == MISSING_DROP;
  return s->missing != MISSING_REFUSED;
}

static const char *expected_text(const CsvDecoder *c) {
  const DataSource *s = c->input->source;
  return s->classes ? "is none of the classes"
         : s->date  ? "is no date and no number"
                    : "is not a number";
}

static void refuse(CsvDecoder *c, const CsvFile *f, const CsvField *field, int64_t column,
                   CsvRow *out) {
  char shown[41] = {0};
  memcpy(shown, field->text, field->n < 40 ? field->n : 40);
  c->fault = DIAG_DATA_VALUE;
  if (field->n == 0)
    why_not(out->why, "column %lld: the value is missing", (long long)column);
  else
    why_not(out->why, "column %lld: '%s' %s", (long long)column, shown, expected_text(c));
  csv_advise(c, f, field, column);
}

// Reads the field at p, which is not a plain number. Returns what is behind it, or NULL.
static const char *decode_field(CsvDecoder *c, const CsvFile *f, int64_t column, const char *p,
                                const char *end, CsvRow *out) {
  const DataSource *s = c->input->source;
  int32_t place = f->slot[column];
  CsvField field;
  const char *stop = csv_field(p, end, &f->format, &c->spare, &field, &out->stopped, out->why);
  if (!stop) return NULL;
  double *x = &c->value[place];
  bool empty = field.n == 0 || (s->missing && csv_means_missing(field.text, field.n)), good;
  if (empty && s->classes == CLASSES_LISTED && field.n)
    empty = classes_find(&c->classes, field.text, field.n, false) < 0;
  good = empty ? missing_value(c, place, x)
               : s->missing == MISSING_MASK || text_value(c, f, field.text, field.n, x);
  if (!empty && s->missing == MISSING_MASK) *x = 1;
  if (good) return stop;
  refuse(c, f, &field, column, out);
  out->stopped = stop;
  return NULL;
}

// -- rows ---------------------------------------------------------------------------------------

// Counts the columns of a row whose number of columns is wrong, for the message.
static void refuse_width(const CsvFile *f, const char *p, const char *end, CsvRow *out) {
  int64_t n = 1;
  for (; (p = csv_pass(p, end, &f->format, &out->stopped, out->why)) && *p != '\n'; p++) n++;
  if (!p) return;
  out->stopped = p;
  why_not(out->why, "%lld column%s, but the first line has %lld", (long long)n, plural(n),
          (long long)f->width);
}

void csv_decode(CsvDecoder *c, const CsvFile *f, const char *p, const char *end, CsvRow *out) {
  const DataSource *s = c->input->source;
  bool plain = !s->classes && !s->date && s->missing != MISSING_MASK &&
               f->format.separator != f->format.decimal;
  const char separator = f->format.separator, decimal = f->format.decimal, *start = p;
  const int32_t *slot = f->slot;
  c->nmissing = 0;
  c->dropped = false;
  c->fault = DIAG_FILE_MALFORMED;
  c->hint = NULL;
  int64_t i = 0;
  for (; i < f->width; i++, p++) {
    const char *q = NULL;
    if (slot[i] < 0) {
      p = csv_pass(p, end, &f->format, &out->stopped, out->why);
    } else {
      while (*p == ' ') p++;
      if (plain && p[1] == separator && (unsigned char)(*p - '0') < 10)
        c->value[slot[i]] = *p - '0', q = p + 1; // most fields of images are one digit
      else if (plain)
        q = csv_number_at(p, decimal, &c->value[slot[i]]);
      if (q && *q == '\r') q++;
      p = q && (*q == separator || *q == '\n') ? q : decode_field(c, f, i, p, end, out);
    }
    if (!p) return;
    if (*p == '\n') break;
  }
  if (i + 1 == f->width)
    out->next = p + 1;
  else
    refuse_width(f, start, end, out);
}

// -- columns ------------------------------------------------------------------------------------

// Calls for each name of a list, whose names end in line ends.
static const char *next_name(const char **list, size_t *n) {
  const char *name = *list, *end = name ? strchr(name, '\n') : NULL;
  if (!end) return NULL;
  *n = (size_t)(end - name);
  *list = end + 1;
  return name;
}

static bool is_named(const DataSource *s) { return s->first == -1; }

// Returns whether the source reads column i of the file.
static bool reads_column(const CsvFile *f, int64_t i) { return i < f->width && f->slot[i] >= 0; }

// Returns whether the first row is a header: the source says it, names columns, or the file shows
// it.
static bool has_header(const DataSource *s, const CsvHead *h) {
  if (s->header >= 0) return s->header;
  return is_named(s) || csv_has_header(h);
}

static bool is_utf8(const CsvRecord *r) {
  bool good = true;
  for (uint32_t i = 0; i < r->n && good; i++) {
    json_t *text = json_string(r->field[i]); // NULL if it is not UTF-8
    good = text != NULL;
    json_decref(text);
  }
  return good;
}

// Returns whether a field of the row is a number, so that it is hardly a header.
static bool has_numbers(const CsvRecord *r) {
  double x;
  bool some = false;
  for (uint32_t i = 0; i < r->n; i++) some |= csv_number(r->field[i], strlen(r->field[i]), '.', &x);
  return some;
}

static bool say_no_column(const CsvDecoder *c, const CsvFile *f, const CsvRecord *r, bool header,
                          const char *name, size_t n, Diag *d) {
  char text[81] = {0};
  memcpy(text, name, n < 80 ? n : 80);
  if (!header)
    return diag_error(d, DIAG_DATA_SHAPE, c->input->pos,
                      "%s has no column \"%s\": it is read without a header", f->path, text);
  char names[WHY];
  diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "%s has no column \"%s\"; it has %s", f->path, text,
             csv_list(r->field, r->n, names, sizeof names));
  diag_nearest(d, text, r->field, r->n);
  if (!is_utf8(r))
    diag_hint(d, "the file is not UTF-8: iconv -f latin1 -t utf-8 converts texts of Latin-1");
  else if (r->field[0][0] == '#')
    diag_hint(d, "its first line is a comment: remove it, so that the header comes first");
  else if (has_numbers(r))
    diag_hint(d, "its first line is taken as the header, because the source names columns: add a "
                 "header, or give their numbers");
  else if (r->n == 1)
    diag_hint(d, "its first line has one column; separator = \";\" or another one divides it");
  return false;
}

static bool say_two_columns(const CsvDecoder *c, const CsvFile *f, const char *name, uint32_t first,
                            uint32_t second, Diag *d) {
  diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "%s has two columns \"%.80s\": %u and %u", f->path,
             name, first, second);
  return diag_hint(d, "rename one of them, or choose by number: column = %u", first);
}

// Gives a place to each column of the header that the source names. Returns false after an error.
static bool named_columns(CsvDecoder *c, CsvFile *f, const CsvRecord *r, bool header, Diag *d) {
  const DataSource *s = c->input->source;
  const char *list = s->columns, *name = s->key;
  size_t n = s->columns ? 0 : strlen(s->key);
  int32_t place = 0;
  for (bool more = !s->columns || (name = next_name(&list, &n)); more;
       more = s->columns && (name = next_name(&list, &n))) {
    uint32_t i = 0;
    while (i < r->n && (!header || strlen(r->field[i]) != n || memcmp(r->field[i], name, n) != 0))
      i++;
    if (i == r->n) return say_no_column(c, f, r, header, name, n, d);
    for (uint32_t k = i + 1; header && k < r->n; k++)
      if (!strcmp(r->field[k], r->field[i])) return say_two_columns(c, f, r->field[i], i, k, d);
    if (f->slot[i] >= 0) {
      diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "the column \"%s\" of %s is named twice",
                 r->field[i], f->path);
      return false;
    }
    f->slot[i] = place++;
  }
  return true;
}

static bool numbered_columns(CsvDecoder *c, CsvFile *f, Diag *d) {
  const DataSource *s = c->input->source;
  if (s->last <= s->first || s->last > f->width) {
    if (s->last == s->first + 1)
      diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "column %lld is asked for, but %s has %lld",
                 (long long)s->first, f->path, (long long)f->width);
    else
      diag_error(d, DIAG_DATA_SHAPE, c->input->pos,
                 "columns %lld..%lld are asked for, but %s has %lld", (long long)s->first,
                 (long long)s->last, f->path, (long long)f->width);
    if (f->width > 1)
      diag_hint(d, "they are 0 to %lld, and the end of a range is not included",
                (long long)f->width - 1);
    else
      diag_hint(d, "separator = \";\" or another character divides a line into columns");
    return false;
  }
  for (int64_t i = s->first; i < s->last; i++) f->slot[i] = (int32_t)(i - s->first);
  return true;
}

// Gives a place to each column whose number the source lists. Returns false after an error.
static bool listed_columns(CsvDecoder *c, CsvFile *f, Diag *d) {
  const char *list = c->input->source->columns;
  size_t n;
  int32_t place = 0;
  for (const char *name; (name = next_name(&list, &n));) {
    long long i = strtoll(name, NULL, 10);
    bool has = i >= 0 && i < f->width;
    if (has && f->slot[i] < 0) {
      f->slot[i] = place++;
      continue;
    }
    if (has)
      diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "column %lld is named twice", i);
    else
      diag_error(d, DIAG_DATA_SHAPE, c->input->pos, "column %lld is asked for, but %s has %lld", i,
                 f->path, (long long)f->width);
    return false;
  }
  return true;
}

static int64_t count_columns(const DataSource *s) {
  int64_t n = 0;
  for (const char *p = s->columns; p && (p = strchr(p, '\n')); p++) n++;
  return s->columns ? n : is_named(s) ? 1 : s->last - s->first;
}

static void decoder_begin(CsvDecoder *c) {
  const DataSource *s = c->input->source;
  size_t n;
  c->columns = count_columns(s);
  size_t room = (size_t)(c->columns > 0 ? c->columns : 1);
  c->value = mem_zeroed(room, sizeof *c->value);
  c->missing = mem_zeroed(room, sizeof *c->missing);
  c->missed = mem_zeroed(room, sizeof *c->missed);
  const char *list = s->class_list;
  for (const char *name; s->classes == CLASSES_LISTED && (name = next_name(&list, &n));)
    (void)classes_find(&c->classes, name, n, true);
  const SourceFacts *facts = c->input->facts;
  if (!facts || c->learning) return;
  c->mean = facts->mean;
  for (uint32_t i = 0; s->classes == CLASSES_AUTO && i < facts->nclasses; i++)
    (void)classes_find(&c->classes, facts->class_name[i], strlen(facts->class_name[i]), true);
}

// Checks that the facts are those of a source like this one.
static bool facts_fit(const CsvDecoder *c, const CsvFile *f, Diag *d) {
  const SourceFacts *facts = c->input->facts;
  if (c->input->source->missing != MISSING_MEAN || !facts || facts->nmeans == c->columns)
    return true;
  diag_error(d, DIAG_DATA_SHAPE, c->input->pos,
             "%s has %lld column%s for the input %s, and the saved means are those of %u", f->path,
             (long long)c->columns, plural(c->columns), c->input->name, facts->nmeans);
  return false;
}

// Decides whether the first row is a header, and gives a place to each column that the source
// reads. Returns false after an error.
static bool place_columns(CsvDecoder *c, CsvFile *f, const CsvHead *h, Diag *d) {
  const DataSource *s = c->input->source;
  f->width = h->row[0].n;
  f->slot = mem_alloc((size_t)f->width * sizeof *f->slot);
  for (int64_t i = 0; i < f->width; i++) f->slot[i] = -1;
  bool named = is_named(s);
  if (!named && !(s->columns ? listed_columns(c, f, d) : numbered_columns(c, f, d))) return false;
  bool header = has_header(s, h);
  f->headed = header;
  f->begin = header ? h->row[0].next : h->row[0].offset;
  if (named && !named_columns(c, f, &h->row[0], header, d)) return false;
  f->name = mem_zeroed((size_t)f->width + 1, sizeof *f->name);
  for (int64_t i = 0; header && i < f->width; i++)
    if (reads_column(f, i)) f->name[i] = mem_text(h->row[0].field[i]);
  return true;
}

// Returns whether the whole text is one row with CR in it: that of a file whose lines end in CR.
static bool ends_in_cr(const CsvText *t, const CsvHead *h) {
  bool some = false;
  for (uint32_t i = 0; h->n == 1 && i < h->row[0].n; i++)
    some |= strchr(h->row[0].field[i], '\r') != NULL;
  return some && !memchr(t->at, '\n', (size_t)t->n);
}

bool csv_columns(CsvDecoder *c, CsvFile *f, Diag *d) {
  const DataSource *s = c->input->source;
  CsvFormat asked = {s->separator ? s->separator[0] : 0, s->decimal ? s->decimal[0] : '.'};
  Arena *a = arena_new();
  CsvHead h;
  int64_t offset = -1;
  char why[WHY];
  bool good = csv_head(a, &f->text, asked, &h, &offset, why);
  f->format = h.format;
  if (!good && offset < 0) {
    (void)file_malformed(f->path, why, d, c->input->pos);
  } else if (!good) {
    diag_error(d, DIAG_FILE_MALFORMED, c->input->pos, "%s:%lld: %s", f->path,
               (long long)csv_line(f->path, offset), why);
  } else if (h.n == 0) {
    good = file_malformed(f->path, "has no rows", d, c->input->pos);
  } else if (ends_in_cr(&f->text, &h)) {
    (void)file_malformed(f->path, "has no line ends but CR", d, c->input->pos);
    good = diag_hint(d, "its lines end in CR alone: tr '\\r' '\\n' <old.csv >new.csv converts "
                        "them");
  } else {
    good = place_columns(c, f, &h, d);
    if (good && !c->value) decoder_begin(c); // now that the file has the columns
    good = good && facts_fit(c, f, d);
  }
  arena_free(a);
  return good;
}

void csv_decoder_free(CsvDecoder *c) {
  classes_free(&c->classes);
  free(c->spare.at);
  free(c->value);
  free(c->missing);
  free(c->missed);
  *c = (CsvDecoder){0};
}
