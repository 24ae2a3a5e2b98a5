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
    diag_hint(d, "check the path; paths in a model are relative to its folder, or to --data-dir");
}

bool file_malformed(const char *path, const char *why, Diag *d, Pos at) {
  diag_error(d, DIAG_FILE_MALFORMED, at, "%s %s", path, why);
  return false;
}

bool datafile_open(Datafile *out, const char *path, Diag *d, Pos at) {
  struct stat s;
  *out = (Datafile){open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0, path};
  if (out->fd < 0) {
    say_missing(d, at, path, strerror(errno));
    return false;
  }
  if (fstat(out->fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    diag_error(d, DIAG_FILE_MISSING, at, "%s is not a regular file", path);
    datafile_close(out);
    return false;
  }
  out->size = s.st_size;
  digest_file(out);
  return true;
}
