// Implements TextStream: text that is written through a FILE * and then kept in an arena.
#include "ir/base/stream.h"

#include <stdlib.h>

#include "ir/base/mem.h"

FILE *stream_begin(TextStream *s) { return s->file = mem_stream(&s->text, &s->n); }

char *stream_end(TextStream *s, Arena *a) {
  mem_stream_close(s->file);
  char *copy = arena_text(a, s->text, s->n);
  free(s->text);
  return copy;
}
