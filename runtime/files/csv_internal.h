// A reader of CSV files: text in pieces (csv_text.c), rows and fields (csv.c) and numbers
// (csv_number.c).
//
// A row is a line that is not blank; inside quotes it may contain line ends. All functions read
// text that is followed by a line end and CSV_PAD more bytes, so loops need no test for its end.
// Thread rule: one thread for each CsvText; the other functions have no state.
#ifndef RUNTIME_CSV_H
#define RUNTIME_CSV_H

#include "runtime/runtime_internal.h"

enum { CSV_PAD = 64, CSV_ROW_MAX = 64 << 20, CSV_HEAD = 10 };

// The separator of fields, and the decimal sign of numbers.
typedef struct CsvFormat {
  char separator, decimal;
} CsvFormat;

// -- csv_text.c ---------------------------------------------------------------------------------
// The bytes of a file or of what a .gz holds, a piece at a time: at[0..n) are the bytes
// offset..offset + n - 1.
typedef struct CsvText {
  Datafile file;
  void *gzip; // gzFile; NULL for a file that is not compressed
  char *at;
  int64_t n, room, offset;
  bool end;    // at[n] is the end of the file
  bool quotes; // at[0..n) may contain quotes
} CsvText;
// Opens a file and skips a byte order mark. Returns false after an error in d. The caller closes t
// after success and after an error.
MUST_USE bool csv_text_open(CsvText *t, const char *path, Diag *d, Pos at);
void csv_text_close(CsvText *t);
// Drops the first `from` bytes and reads more behind the others. Returns false with a reason in
// `why` if the file cannot be read, has a zero byte, or if a row is longer than CSV_ROW_MAX.
MUST_USE bool csv_text_more(CsvText *t, int64_t from, char *why);
// Reads bytes offset..offset + n - 1, which are not more than CSV_ROW_MAX, in place of the piece.
// Not for a .gz.
MUST_USE bool csv_text_at(CsvText *t, int64_t offset, int64_t n, char *why);
// Returns the number of the line, from 1, that has byte `offset` of the file at t; 0 if it cannot
// be read. For messages only: it reads the file from its start, with a CsvText of its own.
int64_t csv_line(const char *path, int64_t offset);

// -- csv.c: rows and fields ---------------------------------------------------------------------
typedef struct CsvField {
  const char *text; // without quotes and the blanks around; not NUL-terminated
  size_t n;
  bool quoted;
} CsvField;
// Memory for the text of quoted fields that contain quotes. The caller frees `at`.
typedef struct CsvSpare {
  char *at;
  size_t room;
} CsvSpare;
// Returns the first separator or line end in the text from p on.
const char *csv_stop(const char *p, char separator);
// Reads the field that begins at p. Returns the separator or line end behind it. Returns NULL with
// a reason in `why` if a quote is not closed before `end` or text follows the closing quote;
// *stopped is then where the field was given up.
const char *csv_field(const char *p, const char *end, const CsvFormat *f, CsvSpare *spare,
                      CsvField *out, const char **stopped, char *why);
// As csv_field, without the text of the field.
const char *csv_pass(const char *p, const char *end, const CsvFormat *f, const char **stopped,
                     char *why);

// The result of a row: `next` is behind the row, or NULL with `why` and `stopped`.
typedef struct CsvRow {
  const char *next, *stopped;
  char why[WHY];
} CsvRow;
// Walks over the rows of a text:
//   while (csv_walk_row(&w)) {
//     read the row at w.p into `row`
//     if (csv_walk_incomplete(&w, &row)) continue; // the piece ended inside of the row: read it again
//     use it, or end if !row.next
//     w.p = row.next;
//   }
// w.why is not empty if reading the file failed.
typedef struct CsvWalk {
  CsvText *text;
  CsvFormat format;
  const char *p, *end; // the row, and the end of the piece
  char why[WHY];
} CsvWalk;
MUST_USE bool csv_walk_row(CsvWalk *w);
MUST_USE bool csv_walk_incomplete(CsvWalk *w, const CsvRow *row);
int64_t csv_walk_offset(const CsvWalk *w); // the offset of the row in the file
// Passes a row by its line end alone. A row of a text with quotes is passed field by field.
void csv_skip_row(const char *p, const char *end, const CsvFormat *f, bool quotes, CsvRow *out);
// Returns the start of the first row at or after p; `end` if there is none.
const char *csv_skip_blank(const char *p, const char *end, char separator);

// The fields of a row, copied and NUL-terminated.
typedef struct CsvRecord {
  uint32_t n;
  const char **field;
  int64_t offset, next; // of the row in the file, and of the first byte behind it
} CsvRecord;
// The first rows of a file: most files say by them what their columns are.
typedef struct CsvHead {
  CsvFormat format;
  uint32_t n; // number of rows
  CsvRecord row[CSV_HEAD];
} CsvHead;
// Reads the first rows of t, of which nothing has been read yet, into `a`. If f->separator is 0,
// the separator is found in the first row: a comma if it has one outside of quotes, else the first
// of ; tab | that it has, else a comma. Returns false with a reason in `why`, and the offset of the
// faulty row, or -1.
MUST_USE bool csv_head(Arena *a, CsvText *t, CsvFormat f, CsvHead *out, int64_t *offset, char *why);

// -- csv_header.c -------------------------------------------------------------------------------
// Returns true if text[0..n) is empty or one of the words for a missing value.
bool csv_means_missing(const char *text, size_t n);
// Returns whether the first row of a file is a header, which the file alone decides: a column has
// text in its first row, and below it only numbers or texts that begin like one, such as dates.
bool csv_has_header(const CsvHead *h);

// -- csv_number.c -------------------------------------------------------------------------------
// Parses the finite decimal number that begins at p, rounded correctly. Returns the first byte
// behind it, or NULL if there is none.
const char *csv_number_at(const char *p, char decimal, double *out);
// Parses text[0..n), which must be a finite decimal number and nothing else.
bool csv_number(const char *text, size_t n, char decimal, double *out);

#endif
