// Reads the files of a package and checks that they are complete and unchanged. Input: a folder, or
// one block of bytes. The description has a checksum in its last line, and those of all other
// files.
#include "runtime/package/package_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DESCRIPTION_MOST = 64 << 20, PIECE = 1 << 20 };

const ValueKind package_kinds[] = {
    {"parameter", TENSOR_PARAM}, {"state", TENSOR_STATE}, {"optimizer", TENSOR_SLOT}};

bool package_damaged(const PackageSource *s, const char *file, const char *why, Diag *d) {
  diag_error(d, DIAG_FILE_MALFORMED, (Pos){0}, "%s%s%s %s", s->path, s->memory ? ": " : "/", file,
             why);
  return diag_hint(d, "make the package again with meshc compile, or copy it again");
}

bool package_is(const char *path) {
  Arena *a = arena_new();
  struct stat s;
  bool is = stat(arena_printf(a, "%s/" PACKAGE_FILE, path), &s) == 0 && S_ISREG(s.st_mode);
  arena_free(a);
  return is;
}

// -- the description ----------------------------------------------------------------------------

// Returns the description in a packed package, in the arena with a NUL behind it, or NULL if it is
// cut off.
static const char *packed_text(Arena *a, const PackageSource *s, size_t *n) {
  uint64_t bytes;
  if (s->bytes < (int64_t)sizeof bytes) return NULL;
  memcpy(&bytes, s->memory, sizeof bytes);
  *n = (size_t)bytes;
  if (bytes > (uint64_t)s->bytes - sizeof bytes) return NULL;
  return arena_text(a, s->memory + sizeof bytes, *n);
}

// Returns the text of package.json in a folder, as packed_text does, or NULL after an error.
static const char *folder_text(Arena *a, const PackageSource *s, size_t *n, Diag *d) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, arena_printf(a, "%s/" PACKAGE_FILE, s->path), d, (Pos){0})) return NULL;
  char *text = datafile_whole(&f, DESCRIPTION_MOST, why);
  *n = (size_t)f.size;
  datafile_close(&f);
  if (!text) (void)package_damaged(s, PACKAGE_FILE, why, d);
  const char *kept = text ? arena_text(a, text, *n) : NULL;
  free(text);
  return kept;
}

static bool list_files(Arena *a, PackageSource *s, json_t *files, Diag *d) {
  const char *name, *sum;
  json_t *entry;
  json_int_t bytes;
  int64_t at = 0;
  s->entry = arena_array(a, PackageEntry, json_object_size(files) + 1);
  json_object_foreach(files, name, entry) {
    if (json_unpack(entry, "{s:I, s:s}", "bytes", &bytes, "crc32c", &sum) != 0 || bytes < 0 ||
        strchr(name, '/') || name[0] == '.')
      return package_damaged(s, PACKAGE_FILE, "has a broken entry of a file", d);
    s->entry[s->n++] = (PackageEntry){arena_text(a, name, strlen(name)), bytes, at,
                                      (uint32_t)strtoul(sum, NULL, 16)};
    if (bytes > INT64_MAX / 2 || !size_add(at, ceil_div(bytes, PACK_ALIGN) * PACK_ALIGN, &at))
      return package_damaged(s, PACKAGE_FILE, "gives a file a size that cannot be", d);
  }
  return true;
}

// Sets the places of the files of a packed package, which follow the description.
static bool place_files(PackageSource *s, size_t description, Diag *d) {
  int64_t start = ceil_div((int64_t)(description + sizeof(uint64_t)), PACK_ALIGN) * PACK_ALIGN;
  for (uint32_t i = 0; s->memory && i < s->n; i++) {
    s->entry[i].at += start;
    if (s->entry[i].at > s->bytes || s->entry[i].bytes > s->bytes - s->entry[i].at)
      return package_damaged(s, s->entry[i].name, "is cut off", d);
  }
  return true;
}

json_t *source_describe(Arena *a, PackageSource *s, const char **text, size_t *n, Diag *d) {
  json_error_t e;
  int before = diag_errors(d);
  *text = s->memory ? packed_text(a, s, n) : folder_text(a, s, n, d);
  if (diag_errors(d) > before) return NULL;
  if (!*text || !manifest_holds(*text, *n)) {
    (void)package_damaged(s, PACKAGE_FILE, "is cut off or was changed: its checksum is wrong", d);
    return NULL;
  }
  json_t *root = json_loadb(*text, *n, JSON_REJECT_DUPLICATES, &e);
  const char *schema = json_string_value(json_object_get(root, "schema"));
  if (!schema || strcmp(schema, PACKAGE_SCHEMA) != 0) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "%s is a package of schema %s, this is %s", s->path,
               schema ? schema : "unknown", PACKAGE_SCHEMA);
    diag_hint(d, "compile the model with meshc " MESHC_VERSION);
  } else if (list_files(a, s, json_object_get(root, "files"), d) && place_files(s, *n, d)) {
    return root;
  }
  json_decref(root);
  return NULL;
}

// -- files --------------------------------------------------------------------------------------

static const PackageEntry *find_entry(const PackageSource *s, const char *name) {
  for (uint32_t i = 0; i < s->n; i++)
    if (!strcmp(s->entry[i].name, name)) return &s->entry[i];
  return NULL;
}

bool source_start(SourceStream *s, const PackageSource *from, const char *name, Diag *d) {
  *s = (SourceStream){.source = from, .entry = find_entry(from, name), .file.fd = -1};
  if (!s->entry) return package_damaged(from, name, "is not in the list of files", d);
  if (from->memory) return true;
  char *path = path_under(from->path, name);
  bool ok = datafile_open(&s->file, path, d, (Pos){0});
  free(path);
  if (ok && s->file.size != s->entry->bytes) {
    datafile_close(&s->file);
    s->file.fd = -1;
    return package_damaged(from, name, "has another size than " PACKAGE_FILE " says", d);
  }
  return ok;
}

bool source_skip(SourceStream *s, int64_t n, Diag *d) {
  char *room = mem_alloc(PIECE);
  bool ok = n >= 0 || package_damaged(s->source, s->entry->name, "has values that overlap", d);
  for (; ok && n > 0; n -= PIECE) ok = source_next(s, n < PIECE ? n : PIECE, room, d);
  free(room);
  return ok;
}

bool source_next(SourceStream *s, int64_t n, void *to, Diag *d) {
  char why[WHY];
  if (n < 0 || n > s->entry->bytes - s->at)
    return package_damaged(s->source, s->entry->name, "is shorter than its values", d);
  if (s->source->memory) {
    const char *at = s->source->memory + s->entry->at + s->at;
    if (n) memcpy(to, at, (size_t)n);
    s->sum = crc32c(s->sum, at, (size_t)n);
  } else {
    if (!datafile_read(&s->file, s->at, n, to, why))
      return package_damaged(s->source, s->entry->name, why, d);
    s->sum = crc32c(s->sum, to, (size_t)n);
  }
  s->at += n;
  return true;
}

void source_stop(SourceStream *s) {
  if (s->file.fd >= 0) datafile_close(&s->file);
  s->file.fd = -1;
}

bool source_finish(SourceStream *s, Diag *d) {
  bool ok = source_skip(s, s->entry->bytes - s->at, d);
  source_stop(s);
  if (ok && s->sum != s->entry->sum)
    ok = package_damaged(s->source, s->entry->name, "was changed: its checksum is wrong", d);
  return ok;
}

const char *source_file(Arena *a, const PackageSource *s, const char *name, size_t *n, Diag *d) {
  SourceStream in;
  if (!source_start(&in, s, name, d)) return NULL;
  char *bytes = arena_alloc(a, (size_t)in.entry->bytes + 1);
  bool ok = source_next(&in, in.entry->bytes, bytes, d);
  source_stop(&in);
  *n = (size_t)in.entry->bytes;
  return ok && source_finish(&in, d) ? bytes : NULL;
}
