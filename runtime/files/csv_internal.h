// Records and fields of CSV text.
#ifndef RUNTIME_CSV_H
#define RUNTIME_CSV_H

#include "runtime/runtime_internal.h"

typedef struct CsvField {
  char *text; // terminated, unquoted in place, blanks around it gone
} CsvField;

typedef struct Csv {
  char *at, *end;
  int64_t line;  // of `at`
  int64_t began; // line of the last record
  size_t n, room;
  CsvField *field; // of the last record; free() it at the end
  bool broken;     // an unfinished quote, or no memory
} Csv;

// The file's text, malloc'd, without zero bytes; NULL after an error in d.
char *csv_load(const char *path, int64_t *n, Diag *d, Pos at);
// A reader of text[0..n), which it changes; a byte order mark is skipped.
Csv csv_open(char *text, int64_t n);
// The next record that is not an empty line; false at the end or when broken.
bool csv_next(Csv *c);
// A finite decimal number and nothing else.
bool csv_number(const char *text, double *out);
// A first line is a header if a column is no number there and one in the second line, or if a
// column from asked_first to asked_last - 1 is no number there.
bool csv_header(const Csv *first, const Csv *second, int64_t asked_first, int64_t asked_last);

#endif
