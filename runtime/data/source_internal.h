// A source of rows: a file of any format, or synthetic data, from which a feed reads the rows of
// one input. A data block of a model may limit a source to a range of its rows.
#ifndef RUNTIME_SOURCE_H
#define RUNTIME_SOURCE_H

#include "runtime/data/file_cache.h"
#include "runtime/data/token_shards.h"
#include "runtime/runtime_internal.h"
#include "runtime/tokens/encoded_text.h"

typedef struct RowSource RowSource;
struct RowSource {
  const FeedInput *input;
  char *path; // path of the file, with the directory of the model; NULL for synthetic data
  const char *directory; // of the model
  Raw raw;
  double scale;
  int rank; // number of axes of a row
  int64_t size[MAX_RANK];
  int64_t row_elements;
  int64_t rows,
      first;    // number of rows in the range, and the number of its first row in the file
  bool sliding; // tokens or text: the source may have one row less than others of its feed
  bool endless; // synthetic data: the source has any number of rows
  // Row i begins at byte base + i * stride of `memory` or, if that is NULL, of the file.
  char *memory;
  EncodedText *encoded; // owns `memory`; NULL: the source does
  TokenShards *shards;  // has the rows; NULL: they are in one file or in memory
  Datafile file;
  FileCache *cache; // of `file`, or NULL: it is too large
  int64_t base, stride;
  struct CsvRows *csv; // CSV: the rows of its files (csv_source_internal.h)
  const int64_t
      *dropped; // the ndropped rows that are left out, within the range; see csv_rows_dropped
  int64_t ndropped;
  struct ImageRows *images; // images: their files (source_images.c)
  uint64_t seed;            // of the random draws of the data block
  uint64_t key;             // synthetic data: the key of its random draws
};

// Opens s->input->source: sets rows, element type and axes of a row, and checks that the rows are
// within the source and have as many elements as the input needs. Returns false after an error in
// d.
MUST_USE bool source_open(RowSource *s, const FeedInput *input, const char *directory,
                          uint64_t seed, Diag *d);
void source_close(RowSource *s);
// Writes the n rows with the numbers row[0..n) of the source, converted to the type of the input,
// one after another to `out`. Rows are counted within the range of rows that the input uses.
// `scratch` has source_scratch bytes. Returns false with a reason in `why` that names file and
// place.
MUST_USE bool source_rows(const RowSource *s, int64_t n, const int64_t *row, void *scratch,
                          char *out, char *why);
int64_t source_scratch(const RowSource *s); // returns the bytes that source_rows needs as `scratch`
// As feed_row_place, for a row of the source.
bool source_row_place(const RowSource *s, int64_t row, char *out, size_t room);

// Fills the fields of a report, without open_seconds.
void source_report(const RowSource *s, SourceReport *out);

// Sets number, shape, type and places of the rows from an array in the file or in s->memory. Rows
// are along the first axis of the array, which has at least one axis.
void source_place(RowSource *s, const ArrayPlace *p);

// These functions open the file s->path, each for one format, and set the number, shape, type and
// places of its rows. They return false after an error in d.
bool source_csv(RowSource *s, Diag *d);
bool source_array(RowSource *s, Diag *d); // formats npy, npz and safetensors
bool source_idx(RowSource *s, Diag *d);
bool source_cifar10(RowSource *s, Diag *d);
bool source_stream(RowSource *s, Diag *d); // files of tokens or of text
bool source_images(RowSource *s, Diag *d);
bool source_labels(RowSource *s, Diag *d); // names of the folders of images

// As source_learn, for CSV files and for labels.
bool csv_learn(Arena *a, const FeedInput *input, const char *directory, SourceFacts *out, Diag *d);
bool labels_learn(Arena *a, const FeedInput *input, const char *directory, SourceFacts *out,
                  Diag *d);

// Sets *path to the file, and returns the line in it, from 1, of row number `row` of all files of a
// CSV source; 0 if it cannot be read. Reads the file from its start.
int64_t csv_rows_line(const struct CsvRows *c, int64_t row, const char **path);
// Writes the path of file `number` of those that a path of images stands for. Returns false if it
// cannot be listed.
bool image_file_name(const char *path, int64_t number, char *out, size_t room);
void image_rows_close(struct ImageRows *m); // m may be NULL
// Fills the fields of a report that are about images.
void image_rows_report(const struct ImageRows *m, SourceReport *out);
// Sets *path to the files of a source of images, and returns their number.
int64_t image_rows_files(const struct ImageRows *m, char *const **path);

#endif
