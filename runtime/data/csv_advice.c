// Says what to change about a field of CSV that is refused: the option of the source that reads it,
// or how it must be written.
#include "runtime/data/csv_source_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *csv_list(const char *const *name, int64_t n, char *out, size_t room) {
  enum { MOST = 8 };
  size_t used = 0;
  *out = 0;
  for (int64_t i = 0; i < n && i < MOST && used < room; i++)
    used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", name[i]);
  if (n > MOST && used < room)
    snprintf(out + used, room - used, " and %lld more", (long long)(n - MOST));
  return out;
}

// Returns the option that reads a date, or NULL if the text is none.
static const char *date_option(const char *text, size_t n) {
  static const char *const forms[][2] = {{"iso", "iso"},
                                         {"%d.%m.%Y", "\"%d.%m.%Y\""},
                                         {"%d/%m/%Y", "\"%d/%m/%Y\""},
                                         {"%m/%d/%Y", "\"%m/%d/%Y\""}};
  double seconds;
  for (size_t i = 0; i < countof(forms); i++)
    if (date_parse(text, n, forms[i][0], &seconds)) return forms[i][1];
  return NULL;
}

static void advise_missing(const CsvDecoder *c, char *out, size_t room) {
  snprintf(out, room, "missing = %s says what stands for it",
           c->input->source->classes ? "drop or a number" : "mean, zero, drop or a number");
}

static void advise_class(const CsvDecoder *c, char *out, size_t room) {
  char names[WHY];
  if (c->learning)
    snprintf(out, room, "classes = auto takes up to 65536 different texts");
  else if (c->input->source->classes == CLASSES_AUTO)
    snprintf(out, room, "the classes are those in data train or with the parameters: %s",
             csv_list((const char *const *)c->classes.name, c->classes.n, names, sizeof names));
  else
    snprintf(out, room, "add it to the classes of the source");
}

// Returns whether a text has a digit and no letter of ASCII, as amounts with a sign of a currency.
static bool is_amount(const CsvField *field) {
  bool digit = false, letter = false;
  for (size_t i = 0; i < field->n; i++) {
    char c = field->text[i];
    digit |= c >= '0' && c <= '9';
    letter |= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  return digit && !letter;
}

// What to write for texts that are no numbers and mean one.
static const char *advise_word(const CsvFile *f, const CsvField *field, int64_t column) {
  static const char *const truth[] = {"true", "false", "yes", "no"};
  static const char *const infinite[] = {"inf",      "+inf",      "-inf",
                                         "infinity", "+infinity", "-infinity"};
  char word[16] = {0};
  if (f->name && f->name[column] && strlen(f->name[column]) == field->n &&
      !memcmp(f->name[column], field->text, field->n))
    return "this line repeats the header: remove it; several files are one source by stars, "
           "\"part-*.csv\"";
  if (field->n < sizeof word)
    for (size_t i = 0; i < field->n; i++) word[i] = (char)tolower((unsigned char)field->text[i]);
  for (size_t i = 0; i < countof(truth); i++)
    if (!strcmp(word, truth[i]))
      return i < 2 ? "classes = (\"false\", \"true\"), as the file writes them, reads 0 and 1"
                   : "classes = (\"no\", \"yes\"), as the file writes them, reads 0 and 1";
  for (size_t i = 0; i < countof(infinite); i++)
    if (!strcmp(word, infinite[i]))
      return "numbers are finite: write a large one, or leave it empty";
  return NULL;
}

static void advise_number(const CsvFile *f, const CsvField *field, char *out, size_t room) {
  double x;
  char other = f->format.decimal == '.' ? ',' : '.';
  const char *date = date_option(field->text, field->n);
  size_t numeric = 0;
  while (numeric < field->n && strchr("+-.,' 0123456789", field->text[numeric])) numeric++;
  char *end, digits[64] = {0};
  memcpy(digits, field->text, field->n < sizeof digits ? field->n : sizeof digits - 1);
  bool large = isinf(strtod(digits, &end)) && *end == 0 && numeric > 0;
  if (csv_number(field->text, field->n, other, &x))
    snprintf(out, room,
             "decimal = \"%c\" reads numbers with a decimal %s; digits in groups (%s) are not read",
             other, other == ',' ? "comma" : "point", other == ',' ? "1,000" : "1.000");
  else if (date)
    snprintf(out, room, "date = %s reads dates", date);
  else if (numeric == field->n)
    snprintf(out, room, "digits must not be in groups: write 1200, not 1.200 or 1,200");
  else if (large)
    snprintf(out, room, "the largest numbers are those of f64, about 1.8e308");
  else if (numeric > 0 || is_amount(field))
    snprintf(out, room, "a field must be a number alone, without a unit");
  else if (f->headed)
    snprintf(out, room, "classes = auto reads texts");
  else
    snprintf(out, room, "classes = auto reads texts; header = true says that line 1 is a header");
}

void csv_advise(CsvDecoder *c, const CsvFile *f, const CsvField *field, int64_t column) {
  const DataSource *s = c->input->source;
  size_t room = sizeof c->advice;
  const char *word = s->classes ? NULL : advise_word(f, field, column);
  if (word)
    snprintf(c->advice, room, "%s", word);
  else if (csv_means_missing(field->text, field->n))
    advise_missing(c, c->advice, room);
  else if (s->classes)
    advise_class(c, c->advice, room);
  else if (s->date)
    snprintf(c->advice, room, "dates are read as date = %s", s->date);
  else
    advise_number(f, field, c->advice, room);
  size_t n = strlen(c->advice);
  if (f->name && f->name[column])
    snprintf(c->advice + n, room - n, "; column %lld is \"%.80s\"", (long long)column,
             f->name[column]);
  else
    snprintf(c->advice + n, room - n, "; columns count from 0");
  c->hint = c->advice;
}
