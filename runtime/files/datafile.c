// Opens data files, and records them for the comparison between ranks (digest.c).
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Reports a missing file. A hint says to which folder a relative path is relative, if it comes from
// the model or from --set; a path in another option is relative to the current folder.
static void say_missing(Diag *d, Pos at, const char *path, const char *why) {
  const char *source = diag_source_name(d, at.source);
  bool option = !strncmp(source, "--", 2) && strncmp(source, "--set ", 6) != 0;
  diag_error(d, DIAG_FILE_MISSING, at, "%s: %s", path, why);
  if (at.line && !option)
    diag_hint(d, "check the path; relative ones begin at --data-dir, default the folder of the "
                 "model, with a package the current one");
}

// Opens the regular file at out->path, and sets its size. Returns false with the errno, or 0 if it
// is no regular file.
static bool open_regular(Datafile *out, int *error) {
  struct stat s;
  out->fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  *error = errno;
  if (out->fd < 0) return false;
  *error = 0;
  if (fstat(out->fd, &s) == 0 && S_ISREG(s.st_mode)) {
    out->size = s.st_size;
    return true;
  }
  datafile_close(out);
  return false;
}

bool file_malformed(const char *path, const char *why, Diag *d, Pos at) {
  Datafile f = {-1, 0, path};
  int error;
  diag_error(d, DIAG_FILE_MALFORMED, at, "%s %s", path, why);
  const char *hint = open_regular(&f, &error) ? foreign_hint(&f) : NULL;
  datafile_close(&f);
  return hint && diag_hint(d, "%s", hint);
}

bool datafile_open(Datafile *out, const char *path, Diag *d, Pos at) {
  int error;
  *out = (Datafile){-1, 0, path};
  if (open_regular(out, &error)) {
    digest_file(out);
    return true;
  }
  if (error)
    say_missing(d, at, path, strerror(error));
  else
    diag_error(d, DIAG_FILE_MISSING, at, "%s is not a regular file", path);
  return false;
}

bool datafile_again(Datafile *f, char *why) {
  int error;
  int64_t size = f->size;
  if (!open_regular(f, &error))
    return why_not(why, "%s", error ? strerror(error) : "is not a regular file");
  if (f->size == size) return true;
  why_not(why, "has %lld byte%s now, and had %lld", (long long)f->size, plural(f->size),
          (long long)size);
  f->size = size;
  datafile_close(f);
  return false;
}
