// Sources in data blocks: what blocks.c, which reads all of them, shares with csv_source.c and
// image_source.c, which read the arguments of csv(...) and of images(...).
#ifndef FRONTEND_BLOCKS_H
#define FRONTEND_BLOCKS_H

#include "frontend/model/build_internal.h"

// Reads argument e of a data source, such as the path of csv(path), into s. Returns false after an
// error.
typedef bool SetSource(Build *b, const Ast *e, DataSource *s);
typedef struct SourceArgument {
  const char *name;
  SetSource *set;
} SourceArgument;
extern const SourceArgument csv_arguments[], image_arguments[]; // end with a row without a name

// Reads a range of integers FIRST..LAST, where LAST is excluded. Returns false after an error.
bool source_range(Build *b, const Ast *e, int64_t *first, int64_t *last);
// Checks that the arguments of csv(...) fit together. Returns false after an error.
bool csv_check(Build *b, const DataSource *s);
// As csv_check, for images(...).
bool images_check(Build *b, const DataSource *s);
// Returns whether images(...) changes images at random.
bool images_drawn(const DataSource *s);

#endif
