// Reads files with checked sizes, and writes files under a temporary name, so that no half-written
// file is left.
//
// Data is read, not mapped: if a mapped file becomes shorter, an access causes a signal and not an
// error. Only files of initial values are mapped (array_map, mapped.c).
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

bool why_not(char *why, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, WHY, fmt, ap);
  va_end(ap);
  return false;
}

void datafile_close(Datafile *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
}

bool datafile_read(const Datafile *f, int64_t offset, int64_t n, void *out, char *why) {
  char *p = out;
  while (n > 0) {
    ssize_t got = pread(f->fd, p, (size_t)n, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return why_not(why, "reading at byte %lld: %s", (long long)offset, strerror(errno));
    if (got == 0)
      return why_not(why, "ends at byte %lld, %lld bytes too early", (long long)offset,
                     (long long)n);
    p += got;
    n -= got;
    offset += got;
  }
  return true;
}

char *datafile_whole(const Datafile *f, int64_t most, char *why) {
  if (f->size > most) {
    why_not(why, "has %lld bytes, more than the %lld that are read", (long long)f->size,
            (long long)most);
    return NULL;
  }
  char *text = mem_alloc((size_t)f->size + 1);
  text[f->size] = '\0';
  if (datafile_read(f, 0, f->size, text, why)) return text;
  free(text);
  return NULL;
}

// Inflates at most `limit` bytes into *out, malloc'd; *n gets their number. The buffer grows as
// bytes arrive, so that a high limit needs no memory for a short file. Returns false with a reason
// in `why` if the bytes cannot be inflated.
static bool inflate_all(gzFile in, int64_t limit, char **out, int64_t *n, char *why) {
  int64_t room = 0;
  *out = NULL;
  *n = 0;
  while (*n < limit) {
    if (*n == room) {
      room = clamp64(room ? 2 * room : 1 << 16, 1, limit);
      *out = mem_grow(*out, (size_t)room);
    }
    int got = gzread(in, *out + *n, (unsigned)clamp64(room - *n, 0, 1 << 24));
    int code;
    if (got < 0 && (gzerror(in, &code), code == Z_MEM_ERROR)) mem_exhausted(0);
    if (got < 0) return why_not(why, "broken gzip data after %lld bytes", (long long)*n);
    if (got == 0) break;
    *n += got;
  }
  return true;
}

bool gzip_inflate(const char *path, int64_t limit, char **out, int64_t *n, char *why) {
  gzFile in = gzopen(path, "rb");
  *out = NULL;
  if (!in) mem_check_errno();
  if (!in) return why_not(why, "cannot be opened");
  bool ok = inflate_all(in, limit, out, n, why);
  int code = Z_OK;
  if (ok) gzerror(in, &code);
  if (ok && code != Z_OK) ok = why_not(why, "broken gzip data after %lld bytes", (long long)*n);
  gzclose_r(in);
  if (ok) return true;
  free(*out);
  *out = NULL;
  return false;
}

char *path_under(const char *directory, const char *path) {
  bool alone = !directory || !*directory || path[0] == '/';
  size_t n = (alone ? 0 : strlen(directory) + 1) + strlen(path) + 1;
  char *out = mem_alloc(n);
  if (alone)
    memcpy(out, path, n);
  else
    snprintf(out, n, "%s/%s", directory, path);
  return out;
}

FILE *file_stream(const char *directory, const char *name, bool fresh) {
  int folder = disk_folder(directory), fd = folder < 0 ? -1 : disk_open_file(folder, name, fresh),
      error = errno;
  if (folder >= 0) close(folder);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
  if (fd >= 0 && !f) mem_check_errno();
  if (fd < 0) errno = error;
  return f;
}

// -- writing files under a temporary name -------------------------------------------------------

void file_unwritten(const char *path, int error, Diag *d) {
  diag_error(d, disk_full(error) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0}, "cannot write %s: %s",
             path, error ? strerror(error) : "a name in it is too long, or no text");
}

bool atomic_file_open(AtomicFile *w, const char *path, Diag *d) {
  *w = (AtomicFile){.path = path};
  if (disk_begin(&w->file, path)) return true;
  file_unwritten(path, errno, d);
  return false;
}

void atomic_file_put(AtomicFile *w, const void *bytes, size_t n) { disk_put(&w->file, bytes, n); }

bool atomic_file_close(AtomicFile *w, Diag *d) {
  int error = w->file.error;
  if (w->failed)
    disk_abandon(&w->file);
  else if (disk_commit(&w->file))
    return true;
  else
    error = errno;
  file_unwritten(w->path, error, d);
  return false;
}
