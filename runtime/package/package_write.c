// Writes a package: its files into a new folder beside the old one, which takes its place when it
// is complete.
#include "runtime/package/package_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct PackageWriter {
  Arena *arena;
  Diag *diag;
  const char *path, *in;                    // of the package; of the folder in which it is
  int parent, folder;                       // descriptors
  char name[DISK_NAME], partial[DISK_NAME]; // in the parent folder
  json_t *files, *values;
};

static bool fails(const PackageWriter *w, const char *what) {
  int error = errno;
  DiagId id = disk_full(error) ? DIAG_NO_DISK : DIAG_FAILURE;
  diag_error(w->diag, id, (Pos){0}, "cannot write %s: %s: %s", w->path, what, strerror(error));
  return false;
}

static bool ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// Returns whether a file of a folder is one of a package, or a part of one that was not completed.
static bool is_ours(const char *name) {
  static const char *const end[] = {".program",     ".launches", ".data",           ".o",
                                    PACKAGE_FILE,   ".ptx",      ".partial",        PACKAGE_WEIGHTS,
                                    "encoder.json", "vocab.bpe", "tokenizer.model", "vocab.json",
                                    "merges.txt"};
  for (size_t i = 0; i < countof(end); i++)
    if (ends(name, end[i])) return true;
  return false;
}

// Splits the path into its folder and its last part. Returns false if there is no last part.
static bool split_path(PackageWriter *w) {
  size_t n = strlen(w->path);
  char *path = arena_text(w->arena, w->path, n);
  while (n > 1 && path[n - 1] == '/') path[--n] = '\0';
  char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  w->in = !slash ? "." : slash == path ? "/" : path;
  if (slash && slash != path) *slash = '\0';
  if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) > DISK_NAME - 16)
    return false;
  strcpy(w->name, name);
  return true;
}

// A package replaces an older one or an empty folder, and nothing else.
static bool may_replace(const PackageWriter *w) {
  struct stat s;
  if (lstat(w->path, &s) != 0 || package_is(w->path)) return true;
  if (S_ISDIR(s.st_mode) && rmdir(w->path) == 0) return true;
  diag_error(w->diag, DIAG_FAILURE, (Pos){0}, "%s exists and is no package", w->path);
  return diag_hint(w->diag, "name a new folder, or remove this one");
}

PackageWriter *package_begin(Arena *a, const char *path, Diag *d) {
  PackageWriter *w = arena_new_of(a, PackageWriter);
  *w = (PackageWriter){.arena = a, .diag = d, .path = path, .parent = -1, .folder = -1};
  if (!split_path(w)) {
    diag_error(d, DIAG_USAGE, (Pos){0}, "'%s' is no name for a new folder", path);
    return NULL;
  }
  if (!may_replace(w)) return NULL;
  w->parent = disk_folder(w->in);
  w->files = json_object();
  w->values = json_object();
  bool ok = w->parent >= 0 || fails(w, w->in);
  if (ok) w->folder = disk_make_partial(w->parent, w->name, is_ours, w->partial);
  ok = ok && (w->folder >= 0 || fails(w, w->partial));
  if (ok) return w;
  package_abandon(w);
  return NULL;
}

void package_abandon(PackageWriter *w) {
  if (!w) return;
  if (w->folder >= 0) {
    (void)disk_remove_folder(w->parent, w->partial, is_ours);
    close(w->folder); // and so unlocks it
  }
  if (w->parent >= 0) close(w->parent);
  json_decref(w->files);
  json_decref(w->values);
}

static bool put(PackageWriter *w, const char *name, const void *bytes, size_t n) {
  DiskFile f;
  if (!disk_begin_in(&f, w->folder, name, 0666)) return fails(w, name);
  disk_put(&f, bytes, n);
  return disk_commit(&f) || fails(w, name);
}

static void list_file(PackageWriter *w, const char *name, size_t n, uint32_t crc) {
  char sum[16];
  snprintf(sum, sizeof sum, "%08x", crc);
  json_object_set_new(w->files, name,
                      json_pack("{s:I, s:s}", "bytes", (json_int_t)n, "crc32c", sum));
}

bool package_put(PackageWriter *w, const char *name, const void *bytes, size_t n) {
  if (!put(w, name, bytes, n)) return false;
  list_file(w, name, n, crc32c(0, bytes, n));
  return true;
}

// -- weights ------------------------------------------------------------------------------------

static const char *kind_name(TensorKind kind) {
  for (size_t i = 0; i < VALUE_KINDS; i++)
    if (package_kinds[i].kind == kind) return package_kinds[i].name;
  return package_kinds[0].name;
}

// Records where each value is in the file of weights, and the sum of the file.
static bool list_values(PackageWriter *w, const char *path, uint32_t n, const NamedArray *x,
                        const TensorKind *kind) {
  Datafile f;
  char why[WHY];
  uint32_t sum = 0;
  if (!datafile_open(&f, path, w->diag, (Pos){0})) return false;
  bool ok = true;
  for (uint32_t i = 0; ok && i < n; i++) {
    ArrayPlace p;
    ok = safetensors_find(&f, x[i].name, &p, why);
    if (!ok) break;
    json_object_set_new(w->values, x[i].name,
                        json_pack("{s:s, s:s, s:I, s:I}", "kind", kind_name(kind[i]), "type",
                                  dtype_text(raw_type(p.raw)), "at", (json_int_t)p.offset, "bytes",
                                  (json_int_t)(p.elements * p.raw.bytes)));
  }
  enum { PIECE = 1 << 20 };
  char *room = mem_alloc(PIECE);
  for (int64_t at = 0; ok && at < f.size; at += PIECE) {
    int64_t m = f.size - at < PIECE ? f.size - at : PIECE;
    ok = datafile_read(&f, at, m, room, why);
    if (ok) sum = crc32c(sum, room, (size_t)m);
  }
  free(room);
  if (ok) list_file(w, PACKAGE_WEIGHTS, (size_t)f.size, sum);
  datafile_close(&f);
  return ok || file_malformed(path, why, w->diag, (Pos){0});
}

bool package_put_values(PackageWriter *w, uint32_t n, const NamedArray *x, const TensorKind *kind) {
  if (n == 0) return true;
  const char *path = arena_printf(w->arena, "%s/%s/" PACKAGE_WEIGHTS, w->in, w->partial);
  return safetensors_write(path, n, x, w->diag) && list_values(w, path, n, x, kind);
}

// -- the end ------------------------------------------------------------------------------------

// Returns the description as text, malloc'd, with its checksum as the last member.
static char *describe(json_t *description, size_t *n) {
  char *body = json_dumps(description, JSON_INDENT(1));
  if (!body) mem_exhausted(0);
  size_t length = strlen(body);
  char *text = mem_grow(body, length + MANIFEST_END);
  memcpy(text + length - 2, ",\n", 2); // replaces the final "\n}"
  manifest_end(text, length, text + length);
  *n = strlen(text);
  return text;
}

// After an exchange the old package has the name of the new one. A process that has just put it in
// its place has its lock for a moment. One that has the lock for longer takes it for a part of the
// same package that was not completed, and removes it.
static void remove_old(const PackageWriter *w) {
  enum { TRIES = 100 };
  const struct timespec moment = {.tv_nsec = 1000000};
  char old[DISK_NAME];
  int lock = disk_lock_folder(w->parent, w->partial);
  for (int i = 0; lock < 0 && errno == EWOULDBLOCK && i < TRIES; i++) {
    (void)nanosleep(&moment, NULL);
    lock = disk_lock_folder(w->parent, w->partial);
  }
  if (lock < 0) return;
  // by another name first: files of users that are in it must not look like parts of a package
  bool moved = false;
  for (int i = 0; !moved && i < TRIES && disk_free_name(w->parent, w->name, "old", old); i++)
    moved = disk_rename(w->parent, w->partial, old); // not if another process has taken the name
  if (moved) (void)disk_remove_folder(w->parent, old, is_ours);
  close(lock);
}

// The way of file systems that cannot exchange folders: for a moment there is no package.
static bool replace_aside(const PackageWriter *w) {
  char old[DISK_NAME];
  if (!checkpoint_set_aside(w->parent, w->name, old)) return false;
  if (disk_rename(w->parent, w->partial, w->name)) {
    (void)disk_sync(w->parent);
    (void)disk_remove_folder(w->parent, old, is_ours);
    return true;
  }
  int error = errno;
  (void)disk_rename(w->parent, old, w->name);
  errno = error;
  return false;
}

// Another process may replace the package from now on.
static void unlock(PackageWriter *w) {
  close(w->folder);
  w->folder = -1;
}

// Puts the new folder in the place of the old one, if there is one.
static bool place(PackageWriter *w) {
  if (!disk_is_folder(w->parent, w->name)) {
    if (!disk_rename(w->parent, w->partial, w->name)) return false;
    unlock(w);
    return true;
  }
  if (disk_exchange(w->parent, w->partial, w->name)) {
    unlock(w);
    (void)disk_sync(w->parent);
    remove_old(w);
    return true;
  }
  return (errno == EINVAL || errno == ENOSYS) && replace_aside(w);
}

// Processes that make the same package replace each other's, the last one wins.
static bool replace(PackageWriter *w) {
  enum { TRIES = 100 };
  bool placed = place(w);
  for (int i = 0;
       !placed && i < TRIES && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT); i++)
    placed = place(w);
  if (!placed) return fails(w, w->partial);
  (void)disk_sync(w->parent);
  return true;
}

bool package_end(PackageWriter *w, json_t *description) {
  size_t n;
  json_object_set(description, "values", w->values);
  json_object_set(description, "files", w->files);
  char *text = describe(description, &n);
  json_decref(description);
  bool ok = put(w, PACKAGE_FILE, text, n) && (disk_sync(w->folder) || fails(w, PACKAGE_FILE));
  free(text);
  ok = ok && replace(w);
  if (!ok) {
    package_abandon(w);
    return false;
  }
  if (w->folder >= 0) close(w->folder);
  close(w->parent);
  json_decref(w->files);
  json_decref(w->values);
  return true;
}
