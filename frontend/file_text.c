// A file's text in an arena.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "frontend/frontend.h"

char *file_text(Arena *a, const char *path, size_t *n) {
  struct stat info;
  FILE *f = mem_fopen(path, "rb");
  if (!f) return NULL;
  if (fstat(fileno(f), &info) == 0 && S_ISDIR(info.st_mode)) {
    fclose(f);
    errno = EISDIR;
    return NULL;
  }
  VEC(char) text = {0};
  char piece[65536];
  for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0;)
    for (size_t i = 0; i < got; i++) vec_push(a, text) = piece[i];
  bool failed = ferror(f);
  fclose(f);
  if (failed) return NULL;
  *n = text.n;
  vec_push(a, text) = '\0';
  return text.at;
}
