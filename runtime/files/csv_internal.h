// A reader of the records and fields of CSV text.
#ifndef RUNTIME_CSV_H
#define RUNTIME_CSV_H

#include "runtime/runtime_internal.h"

typedef struct CsvField {
  char *text; // NUL-terminated, without quotes and surrounding blanks
} CsvField;

typedef struct Csv {
  char *at, *end;
  int64_t line;  // line number of `at`, from 1
  int64_t began; // line number where the last record began
  size_t n, room;
  CsvField *field; // n fields of the last record; the caller frees the array at the end
  bool broken;     // an unfinished quote, or no memory
} Csv;

// Reads the file's text without NUL bytes, malloc'd. Returns NULL after an error in d.
char *csv_load(const char *path, int64_t *n, Diag *d, Pos at);
// Reads the next record that is not an empty line. Returns false at the end or if the text is
// broken.
bool csv_next(Csv *c);
// Reads text[0..n), which it changes, without a byte order mark: the first record into *head and
// the second into *next, which reads on from there. Returns false if there is no first record;
// *more tells whether there is a second one. free() both fields.
bool csv_begin(char *text, int64_t n, Csv *head, Csv *next, bool *more);
// Parses a finite decimal number, with nothing else in the text.
bool csv_number(const char *text, double *out);
// Returns true if the first record is a header. It is one if a field of it is not a number, and
// that field is in a column asked_first..asked_last-1 or has a number below it in the second
// record.
bool csv_header(const Csv *first, const Csv *second, int64_t asked_first, int64_t asked_last);

#endif
