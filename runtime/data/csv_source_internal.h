// The rows of CSV files as numbers: which columns are read and what their fields mean
// (csv_decode.c), names of classes (csv_classes.c), where the rows are (csv_rows.c).
#ifndef RUNTIME_CSV_SOURCE_H
#define RUNTIME_CSV_SOURCE_H

#include "runtime/data/source_internal.h"
#include "runtime/files/csv_internal.h"

// -- csv_classes.c: a table from texts to numbers -----------------------------------------------
typedef struct Classes {
  uint32_t n, room; // number of texts; places of `slot`, a power of 2
  uint32_t *slot;   // 1 + the number of a text, or 0
  char **name;
} Classes;
enum { MOST_CLASSES = 65536 };
// Returns the number of a text, or -1. With `add` a new text is added, if there are fewer than
// MOST_CLASSES.
int64_t classes_find(Classes *c, const char *text, size_t n, bool add);
// Sorts the names: by value if all are numbers, else by their bytes. Numbers of texts change.
void classes_sort(Classes *c);
void classes_free(Classes *c);

// -- csv_decode.c -------------------------------------------------------------------------------
// A file of a source: its format, and which of its columns the source reads.
typedef struct CsvFile {
  char *path;
  CsvText text; // open as long as rows are read from it
  CsvFormat format;
  int64_t width;       // columns of a row
  int32_t *slot;       // by column: its place in a row of numbers, or -1
  char **name;         // by column that is read: its name in the header, or NULL
  int64_t begin;       // offset of the first row behind the header
  bool headed;         // the first row is a header
  int64_t first, rows; // number of its first row in the source, and of its rows
  int64_t *block;      // offset of every CSV_BLOCK-th row
  int64_t end;         // offset behind its last row
} CsvFile;
enum { CSV_BLOCK = 16 };

typedef struct CsvDecoder {
  const FeedInput *input;
  int64_t columns; // numbers in a row
  Classes classes;
  const double *mean; // by place; NULL while means are learned: missing values are NaN then
  bool learning;      // texts that are no class yet become one
  CsvSpare spare;
  // of the row that was read last: its numbers, the places of missing values, and whether the row
  // is left out
  double *value;
  int32_t *missing;
  int64_t nmissing;
  bool dropped;
  int64_t *missed; // by place: number of missing values in all rows
  DiagId fault;    // of a row that is refused
  const char *hint;
  char advice[400]; // `hint` of a field that is refused
} CsvDecoder;
// Finds format, header and columns of an open file from its first rows. Returns false after an
// error in d.
MUST_USE bool csv_columns(CsvDecoder *c, CsvFile *f, Diag *d);
// Reads the row at p. Returns in *out as CsvRow says.
void csv_decode(CsvDecoder *c, const CsvFile *f, const char *p, const char *end, CsvRow *out);
void csv_decoder_free(CsvDecoder *c);

// -- csv_advice.c -------------------------------------------------------------------------------
// Sets c->hint to what to change about a field that is refused.
void csv_advise(CsvDecoder *c, const CsvFile *f, const CsvField *field, int64_t column);
// Writes up to eight of n names, and how many more there are. Returns `out`.
const char *csv_list(const char *const *name, int64_t n, char *out, size_t room);

// -- csv_rows.c ---------------------------------------------------------------------------------
typedef struct CsvRows CsvRows;
// Opens the files of a source, reads their rows or finds where they are. Returns NULL after an
// error in d. `path` may have the stars of glob.
CsvRows *csv_rows_open(const FeedInput *input, const char *path, Diag *d);
void csv_rows_close(CsvRows *c);            // c may be NULL
int64_t csv_rows_count(const CsvRows *c);   // all rows of the files, or up to DataSource.row_last
int64_t csv_rows_columns(const CsvRows *c); // numbers in a row
bool csv_rows_headed(const CsvRows *c);     // the first file has a header
// Writes the rows first + row[0..n) of the files, which are in the range of the source, in the type
// of the input. Returns false with a reason in `why` that names file and line.
MUST_USE bool csv_rows_get(CsvRows *c, int64_t first, int64_t n, const int64_t *row, char *out,
                           char *why);
// Sets *row to the rows that the source leaves out, counted from DataSource.row_first. With ranks
// each has told those of its share: they are not sorted, and some may occur twice.
int64_t csv_rows_dropped(const CsvRows *c, const int64_t **row);
int64_t csv_rows_kept(const CsvRows *c); // bytes of memory that rows take
// Returns, by place, how many values are missing in the rows that were read.
const int64_t *csv_rows_missed(const CsvRows *c);

#endif
