// Reads the text of a file or a stream into an arena (frontend.h) and ends it with NUL. If reading
// fails, the functions return NULL with errno set; for a folder errno is EISDIR.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "frontend/frontend.h"

char *stream_text(Arena *a, FILE *f, size_t *n) {
  VEC(char) text = {0};
  char piece[65536];
  for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0;)
    for (size_t i = 0; i < got; i++) vec_push(a, text) = piece[i];
  if (ferror(f)) return NULL;
  *n = text.n;
  vec_push(a, text) = '\0';
  return text.at;
}

char *file_text(Arena *a, const char *path, size_t *n) {
  struct stat info;
  FILE *f = mem_fopen(path, "rb");
  if (!f) return NULL;
  bool folder = fstat(fileno(f), &info) == 0 && S_ISDIR(info.st_mode);
  char *text = folder ? NULL : stream_text(a, f, n);
  int error = folder ? EISDIR : errno;
  fclose(f);
  errno = error;
  return text;
}
