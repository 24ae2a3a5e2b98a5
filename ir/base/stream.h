// Text written through a FILE * and kept in an arena.
#ifndef IR_STREAM_H
#define IR_STREAM_H

#include <stdio.h>

#include "ir/base/arena.h"

typedef struct TextStream {
  FILE *file; // write here
  char *text;
  size_t n;
} TextStream;

// Opens a stream into memory and returns its FILE. `s` must not move until stream_end.
FILE *stream_begin(TextStream *s);
// Closes the stream and returns its text, with a final NUL, in the arena `a`.
char *stream_end(TextStream *s, Arena *a);

#endif
