// A source of rows, from which a feed reads, in any file format.
#ifndef RUNTIME_SOURCE_H
#define RUNTIME_SOURCE_H

#include "runtime/runtime_internal.h"

typedef struct RowSource RowSource;
struct RowSource {
  const FeedInput *input;
  char *path; // resolved; NULL for synthetic
  Raw raw;
  double scale;
  int rank; // axes of a row
  int64_t size[MAX_RANK];
  int64_t row_elements;
  int64_t rows,
      first;    // number of rows in the range of the data block; row of the file at its start
  bool sliding; // tokens or text: may have one row less than other sources
  bool endless; // any number of rows
  // Row i is at base + i * stride in `memory`, or if that is NULL in the file.
  char *memory;
  Datafile file;
  int64_t base, stride;
  int64_t *line, column; // csv: by row, its line number in the file; number of the first column
  uint64_t key;          // synthetic: the key of its random draws
};

// Opens s->input->source: sets rows, element type and axes of a row, and checks that the rows are
// within the source and have as many elements as the input needs. False after an error in d.
MUST_USE bool source_open(RowSource *s, const FeedInput *input, const char *directory,
                          uint64_t seed, Diag *d);
void source_close(RowSource *s);
// Writes row number `row` of the range to `out`, converted to the type of the input. `scratch` has
// source_scratch bytes. Returns false with a reason in `why` that names file and place.
MUST_USE bool source_row(const RowSource *s, int64_t row, void *scratch, void *out, char *why);
int64_t source_scratch(const RowSource *s); // bytes of scratch

// Sets what a source takes from the place of an array in the file or in `memory`: rows along its
// first axis, the axes and type of a row, and where rows are. The array has at least one axis.
void source_place(RowSource *s, const ArrayPlace *p);

// Open functions by format; s->path is set.
bool source_csv(RowSource *s, Diag *d);   // source_csv.c
bool source_array(RowSource *s, Diag *d); // source_array.c: npy, npz, safetensors
bool source_idx(RowSource *s, Diag *d);   // source_binary.c
bool source_cifar10(RowSource *s, Diag *d);
bool source_stream(RowSource *s, Diag *d); // tokens, text

#endif
