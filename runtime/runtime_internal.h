// Shared by the files of the runtime.
#ifndef RUNTIME_INTERNAL_H
#define RUNTIME_INTERNAL_H

#include "ir/base/disk.h"
#include "runtime/runtime.h"

// -- crc32c.c -----------------------------------------------------------------------------------
// Continues `crc`, 0 at first, with n bytes. Any thread.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

// -- team.c: the threads of a process -----------------------------------------------------------
// The caller of team_run is worker 0; the others sleep between runs. References are counted,
// because programs that share tensors also share the threads.
typedef struct Team Team;
typedef void TeamWork(void *context, int worker);
Team *team_new(int workers); // NULL: no threads or memory
Team *team_share(Team *t);
void team_free(Team *t);
int team_workers(const Team *t);
bool team_spins(const Team *t); // there is a core for every worker
// Runs work(context, w) on every worker; returns when all have. One run at a time.
void team_run(Team *t, TeamWork *work, void *context);

// Readers describe a fault of a file in why[0..WHY); the caller adds path and place.
enum { WHY = 200 };
bool why_not(char *why, const char *fmt, ...) PRINTF_LIKE(2, 3); // always false

// -- draw.c: many draws at once -----------------------------------------------------------------
// Draws two uniforms in (0, 1) for each of n elements: element i, which has index[i] in the whole
// tensor, gets u[i] and v[i].
void draw_uniforms(uint64_t key, int64_t n, const int64_t *index, double *u, double *v);
// Replaces u by normal draws made of the uniforms u and v (Box and Muller, Annals of Mathematical
// Statistics 29, 1958).
void draw_normals(int64_t n, double *u, const double *v);

// -- file.c: bytes of files ---------------------------------------------------------------------
typedef struct Datafile {
  int fd;
  int64_t size;
  const char *path;
} Datafile;
// -- digest.c: datafile_open calls it for every file.
void digest_file(const Datafile *f);

// Opens a regular file. Returns false after an error in d.
MUST_USE bool datafile_open(Datafile *out, const char *path, Diag *d, Pos at);
void datafile_close(Datafile *f);
// Reports that the file at `path` is malformed: `why` is the rest of a sentence that begins with
// the path. Returns false.
bool file_malformed(const char *path, const char *why, Diag *d, Pos at);
// Reports that the file at `path` cannot be written. `error`: the errno, or 0: its content could
// not be made.
void file_unwritten(const char *path, int error, Diag *d);
// Reads exactly n bytes from `offset`. Returns false with a reason in `why`. Any thread.
MUST_USE bool datafile_read(const Datafile *f, int64_t offset, int64_t n, void *out, char *why);
// Inflates the gzip file at path into *out, malloc'd: the first `limit` bytes, or all. Returns
// false with a reason in `why`.
MUST_USE bool gzip_inflate(const char *path, int64_t limit, char **out, int64_t *n, char *why);
// Prefixes a relative path by `directory`; malloc'd.
char *path_under(const char *directory, const char *path);

// -- mapped.c: a mapped file that shrinks ends the process with a message and exit code 5 --------
// Registers a mapping of n bytes at `at`; call mapped_remove before munmap. Returns false if the
// mapping cannot be guarded, so that it must not be used.
MUST_USE bool mapped_add(const void *at, size_t n, const char *path);
void mapped_remove(const void *at);

// Opens a file of a folder for reading and writing: with `fresh` a new file, which replaces an old
// one, otherwise the existing file. Does not follow links. Returns NULL with errno.
FILE *file_stream(const char *directory, const char *name, bool fresh);

// A file that replaces `path` once it is complete.
typedef struct AtomicFile {
  DiskFile file;
  const char *path;
  bool failed; // the content could not be made: `path` is not replaced
} AtomicFile;
MUST_USE bool atomic_file_open(AtomicFile *w, const char *path, Diag *d);
void atomic_file_put(AtomicFile *w, const void *bytes, size_t n);
// Syncs and renames the file, and syncs its folder. After a failure it removes the temporary file
// and returns false with an error in d.
MUST_USE bool atomic_file_close(AtomicFile *w, Diag *d);

// Copies a box of elements of `each` bytes; strides are in elements.
void box_copy(int rank, const int64_t *size, int64_t each, char *dst, const int64_t *dst_stride,
              const char *src, const int64_t *src_stride);

// -- raw.c: elements as files hold them ---------------------------------------------------------
typedef struct Raw {
  char kind; // 'f' float, 'b' bfloat, 'i', 'u', '?' bool
  uint8_t bytes;
  bool big; // big-endian
} Raw;
Raw raw_of(Dtype t);
Dtype raw_type(Raw r); // the element type that holds all its values
// The names of a type of elements in files: that of messages ("f32", "bool"), and that of
// safetensors ("F32", "BOOL").
typedef struct RawNames {
  Raw raw;
  const char *text, *safetensors;
} RawNames;
const RawNames *raw_names(Raw r);
// Returns the type with that name in safetensors files, or NULL.
const RawNames *raw_of_safetensors(const char *name);
double raw_value(Raw r, const void *p);
// Converts n elements, times `scale`, into type `to`; floats round to narrower floats. Returns
// false if a value would be lost: *bad is its index.
MUST_USE bool raw_convert(Raw r, const void *src, int64_t n, double scale, Dtype to, void *dst,
                          int64_t *bad);
// Converts n doubles into type `to`, with the result and *bad of raw_convert.
MUST_USE bool raw_from_doubles(const double *src, int64_t n, Dtype to, void *dst, int64_t *bad);

// -- npy.c, npz.c, safetensors.c ----------------------------------------------------------------
// The place of an array in its file.
typedef struct ArrayPlace {
  Raw raw;
  bool fortran; // first axis fastest
  int rank;
  int64_t size[MAX_RANK], elements;
  int64_t offset; // offset of the first byte in the file
} ArrayPlace;
// Computes the elements of a place from its sizes. False: more than 2^40 elements.
MUST_USE bool place_count(ArrayPlace *p);
// Parses an npy header in bytes[0..n); `offset` is then where the data begins. Returns false with a
// reason in `why`.
MUST_USE bool npy_header(const unsigned char *bytes, int64_t n, ArrayPlace *out, char *why);
enum { NPY_HEADER_MAX = 65536 + 12 };
// Writes the header of an array of `type` (version 1, data at a multiple of 64). Returns its
// length.
size_t npy_header_text(const Array *x, Dtype type, char *out, size_t room);
// Finds the array in a plain .npy file and checks that all its bytes are there.
MUST_USE bool npy_find(const Datafile *f, ArrayPlace *out, char *why);
MUST_USE bool safetensors_find(const Datafile *f, const char *key, ArrayPlace *out, char *why);
// Lists entries in the order of the file, and the texts of __metadata__.
MUST_USE bool safetensors_list(Arena *a, const Datafile *f, ArrayList *out, char *why);
MUST_USE bool safetensors_names(Arena *a, const Datafile *f, const char ***out, char *why);
// Returns a JSON list of n integers.
struct json_t;
struct json_t *json_numbers(int n, const int64_t *x);
// Returns the entry of a tensor in a header: type, sizes, and the bytes begin..end-1 of the data.
struct json_t *safetensors_entry(Dtype type, int rank, const int64_t *size, int64_t begin,
                                 int64_t end);
// Returns the bytes of a file before its data: the length, and the entries as text, padded so that
// the data begins at a multiple of `unit`. malloc'd; *n gets their number. Frees `entries`. Returns
// NULL if a name is no UTF-8.
char *safetensors_header(struct json_t *entries, size_t unit, size_t *n);
// Lists the names of all tensors in a set of shards. `path` is its index file.
bool safetensors_index_names(Arena *a, const char *path, const char ***out, char *why);
// Returns the path, malloc'd, of the shard that has tensor `key`. Returns NULL with a reason in
// `why`.
char *safetensors_shard(const char *index_path, const char *key, char *why);
// Inflates member `key` (with or without .npy) of a zip file into *out, malloc'd.
MUST_USE bool npz_member(const Datafile *f, const char *key, char **out, int64_t *n, char *why);
MUST_USE bool npz_names(Arena *a, const Datafile *f, const char ***out, char *why);

// Finds the elements of an idx file, plain or gzip, by its header only.
MUST_USE bool idx_place(const Datafile *f, ArrayPlace *p, char *why);

// -- array.c ------------------------------------------------------------------------------------
typedef enum ArrayFormat {
  FORMAT_NONE,
  FORMAT_NPY,
  FORMAT_NPZ,
  FORMAT_SAFETENSORS,
  FORMAT_INDEX
} ArrayFormat;
ArrayFormat array_format(const Datafile *f);
// Finds the file that has array `key`. If path is the index of a set of shards, *shard gets the
// path of that shard, malloc'd; otherwise NULL, because path itself has the arrays. Returns false
// after an error in d.
MUST_USE bool array_file(const char *path, const char *key, char **shard, Diag *d, Pos at);
// Adds a hint to the last error that lists the arrays of the file. Adds none if the file has an
// array `key`; key may be NULL.
void array_hint(const char *path, const char *key, Diag *d);

#endif
