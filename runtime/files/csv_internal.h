// A reader of CSV text, which consists of records (lines) of fields.
#ifndef RUNTIME_CSV_H
#define RUNTIME_CSV_H

#include "runtime/runtime_internal.h"

typedef struct CsvField {
  char *text; // text of the field, NUL-terminated, without quotes and surrounding blanks
} CsvField;

typedef struct Csv {
  char *at, *end;
  int64_t line;  // line number, from 1, of the position `at`
  int64_t began; // line number at which the last record began
  size_t n, room;
  CsvField *field; // the n fields of the last record; the caller frees the array at the end
  bool broken;     // reading has failed: a quote is not closed, or there is not enough memory
} Csv;

// Returns the text of a file, malloc'd; *n gets its length. A NUL byte in the file is an error.
// Returns NULL after an error in d.
char *csv_load(const char *path, int64_t *n, Diag *d, Pos at);
// Reads the next record that is not an empty line into c->field. Returns false at the end of the
// text, or with c->broken if reading fails.
bool csv_next(Csv *c);
// Begins to read text[0..n), which it changes; a byte order mark is skipped. Reads the first record
// into *head and the second into *next; csv_next then continues with *next. Sets *more to whether
// there is a second record. Returns false if there is no first record. The caller frees head->field
// and next->field.
bool csv_begin(char *text, int64_t n, Csv *head, Csv *next, bool *more);
// Parses `text`, which must be a finite decimal number and nothing else. Returns false if `text` is
// anything else.
bool csv_number(const char *text, double *out);
// Returns true if the first record is a header: one of its fields is not a number, although a
// number is expected in that column. That is so if the caller needs numbers in the column (columns
// asked_first..asked_last-1), or if the second record has a number there.
bool csv_header(const Csv *first, const Csv *second, int64_t asked_first, int64_t asked_last);

#endif
