// Reads and writes the files of a run: the model's text, folders, results; and finds the folder of
// the compile cache.
#include "frontend/driver/session.h"
#include "ir/base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool session_from_stdin(const Session *s) {
  return s->opt->argument.n > 0 && strcmp(s->opt->argument.at[0], "-") == 0;
}

const char *path_folder(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_text(a, path, slash == path ? 1 : (size_t)(slash - path)) : ".";
}

bool folder_writable(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  if (S_ISDIR(info.st_mode)) return access(path, W_OK | X_OK) == 0;
  errno = ENOTDIR;
  return false;
}

bool session_folder(Session *s, const char *path) {
  char *part = arena_text(s->arena, path, strlen(path));
  for (char *c = part + 1;; c++) {
    if (*c != '/' && *c != '\0') continue;
    char kept = *c;
    *c = '\0';
    if (!disk_make(AT_FDCWD, part, 0777) && errno != EEXIST)
      return diag_error(s->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0},
                        "cannot make the folder %s: %s", part, strerror(errno));
    if (!kept)
      return folder_writable(path) ||
             diag_error(s->diag, DIAG_FAILURE, (Pos){0}, "cannot write to the folder %s: %s", path,
                        strerror(errno));
    *c = kept;
  }
}

bool session_cannot_write(const Session *s, const char *path, Pos at) {
  int error = errno;
  diag_error(s->diag, disk_full(error) ? DIAG_NO_DISK : DIAG_FAILURE, at, "cannot write %s: %s",
             path, strerror(error));
  return error == ENOENT && strchr(path, '/') &&
         diag_hint(s->diag, "make the folder first: mkdir -p %s", path_folder(s->arena, path));
}

bool session_write(const Session *s, const char *path, const char *text, size_t n, bool fast,
                   Pos at) {
  errno = ENOMEM;
  return (text && disk_write_file(path, text, n, fast)) || session_cannot_write(s, path, at);
}

const char *cache_folder(Session *s) {
  if (option_given(s->opt, OPTION_NO_CACHE)) return NULL;
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (base && *base == '/') return arena_printf(s->arena, "%s/meshc", base);
  return home && *home == '/' ? arena_printf(s->arena, "%s/.cache/meshc", home) : NULL;
}
