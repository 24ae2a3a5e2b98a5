// Reads the text of a file or a stream into an arena (frontend.h) and ends it with NUL. If reading
// fails, the functions return NULL with errno set; for a folder errno is EISDIR.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "frontend/frontend.h"

static char *read_within(Arena *a, FILE *f, size_t most, size_t *n) {
  VEC(char) text = {0};
  char piece[65536];
  for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0;) {
    if (got > most - text.n) return errno = EFBIG, NULL;
    for (size_t i = 0; i < got; i++) vec_push(a, text) = piece[i];
  }
  if (ferror(f)) return NULL;
  *n = text.n;
  vec_push(a, text) = '\0';
  return text.at;
}

char *stream_text(Arena *a, FILE *f, size_t *n) { return read_within(a, f, SIZE_MAX, n); }

char *model_stream(Arena *a, FILE *f, size_t *n) { return read_within(a, f, MODEL_BYTES, n); }

static char *file_within(Arena *a, const char *path, size_t most, size_t *n) {
  struct stat info;
  FILE *f = mem_fopen(path, "rb");
  if (!f) return NULL;
  bool folder = fstat(fileno(f), &info) == 0 && S_ISDIR(info.st_mode);
  char *text = folder ? NULL : read_within(a, f, most, n);
  int error = folder ? EISDIR : errno;
  fclose(f);
  errno = error;
  return text;
}

char *file_text(Arena *a, const char *path, size_t *n) { return file_within(a, path, SIZE_MAX, n); }

char *model_text(Arena *a, const char *path, size_t *n) {
  return file_within(a, path, MODEL_BYTES, n);
}
