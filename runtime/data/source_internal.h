// Sources of rows: what a feed reads from, whatever the file format.
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
  int64_t rows, first; // rows that count; the first of them in the file
  bool sliding;        // rows are cut from a stream: the last one may be left out
  bool endless;        // as many rows as wanted
  // Row i's bytes stand at base + i * stride of the memory, or else of the file.
  char *memory;
  Datafile file;
  int64_t base, stride;
  int64_t *line, column; // csv: line of every row; first column
  uint64_t key;          // synthetic
};

// Opens s->input->source: rows, element type and axes of a row are set, and rows are within the
// source's range and have the input's elements. False after an error in d.
MUST_USE bool source_open(RowSource *s, const FeedInput *input, const char *directory,
                          uint64_t seed, Diag *d);
void source_close(RowSource *s);
// Row `row` (0 is the first that counts) in the input's type; room for raw bytes in `scratch`.
// False with why, which names file and place.
MUST_USE bool source_row(const RowSource *s, int64_t row, void *scratch, void *out, char *why);
int64_t source_scratch(const RowSource *s); // bytes of scratch

// Openers of formats; s->path is set.
bool source_csv(RowSource *s, Diag *d);   // source_csv.c
bool source_array(RowSource *s, Diag *d); // source_array.c: npy, npz, safetensors
bool source_idx(RowSource *s, Diag *d);   // source_binary.c
bool source_cifar10(RowSource *s, Diag *d);
bool source_stream(RowSource *s, Diag *d); // tokens, text

#endif
