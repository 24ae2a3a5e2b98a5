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

static const Pos nowhere = {0};

bool text_ends(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

bool session_from_stdin(const Session *s) {
  return s->opt->argument.n > 0 && strcmp(s->opt->argument.at[0], "-") == 0;
}

// Checks that `path` is a folder that this user can write. Returns false after an error.
static bool folder_writable(Session *s, const char *path) {
  struct stat info;
  bool there = stat(path, &info) == 0;
  if (there && !S_ISDIR(info.st_mode))
    errno = ENOTDIR;
  else if (there && access(path, W_OK | X_OK) == 0)
    return true;
  return diag_error(s->diag, DIAG_FAILURE, nowhere, "cannot write to the folder %s: %s", path,
                    strerror(errno));
}

bool session_folder(Session *s, const char *path) {
  char *part = arena_text(s->arena, path, strlen(path));
  for (char *c = part + 1;; c++) {
    if (*c != '/' && *c != '\0') continue;
    char kept = *c;
    *c = '\0';
    if (!disk_make(AT_FDCWD, part, 0777) && errno != EEXIST)
      return diag_error(s->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, nowhere,
                        "cannot make the folder %s: %s", part, strerror(errno));
    if (!kept) return folder_writable(s, path);
    *c = kept;
  }
}

bool session_cannot_write(const Session *s, const char *path, Pos at) {
  return diag_error(s->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, at,
                    "cannot write %s: %s", path, strerror(errno));
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
