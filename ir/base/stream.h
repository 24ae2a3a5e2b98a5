// TextStream: text that is written through a FILE * and then kept in an arena.
#ifndef IR_STREAM_H
#define IR_STREAM_H

#include <stdio.h>

#include "ir/base/arena.h"

typedef struct TextStream {
  FILE *file; // the caller writes here
  char *text;
  size_t n;
} TextStream;

// Opens the stream and returns s->file. *s must not move until stream_end.
FILE *stream_begin(TextStream *s);
// Closes the stream and returns its text in the arena `a`, with a final NUL.
char *stream_end(TextStream *s, Arena *a);

#endif
