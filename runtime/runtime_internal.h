// What files of the runtime share among themselves.
#ifndef RUNTIME_INTERNAL_H
#define RUNTIME_INTERNAL_H

#include "ir/base/disk.h"
#include "runtime/runtime.h"

// -- crc32c.c -----------------------------------------------------------------------------------
// Of bytes that follow those of `crc`, 0 at first. Any thread.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

// -- team.c: the threads of a process
// --------------------------------------------------------------------- The caller of team_run is
// worker 0; the others sleep between runs. Counted references, because programs that share tensors
// share the threads too.
typedef struct Team Team;
typedef void TeamWork(void *context, int worker);
Team *team_new(int workers); // NULL: no threads or memory
Team *team_share(Team *t);
void team_free(Team *t);
int team_workers(const Team *t);
bool team_spins(const Team *t); // there is a core for every worker
// Runs work(context, w) on every worker; returns when all have. One run at a time.
void team_run(Team *t, TeamWork *work, void *context);

// Readers say what is wrong with a file in one sentence, why[0..WHY); the caller adds path and
// place.
enum { WHY = 200 };
bool why_not(char *why, const char *fmt, ...) PRINTF_LIKE(2, 3); // always false

// -- draw.c: many draws at once -----------------------------------------------------------------
// Two uniforms in (0, 1) of every element.
void draw_uniforms(uint64_t key, int64_t n, const int64_t *index, double *u, double *v);
// u and v, uniform, into a normal draw in u (Box and Muller, Annals of Mathematical Statistics 29,
// 1958).
void draw_normals(int64_t n, double *u, const double *v);

// -- file.c: bytes of files ---------------------------------------------------------------------
typedef struct Datafile {
  int fd;
  int64_t size;
  const char *path;
} Datafile;
// -- digest.c: datafile_open calls it for every file.
void digest_file(const Datafile *f);

// Regular files only. False after an error in d.
MUST_USE bool datafile_open(Datafile *out, const char *path, Diag *d, Pos at);
void datafile_close(Datafile *f);
// Exactly n bytes from `offset`; why says what went wrong. Safe from several threads.
MUST_USE bool datafile_read(const Datafile *f, int64_t offset, int64_t n, void *out, char *why);
// Inflates the gzip file at path: the first `limit` bytes or all, into *out (malloc'd). False with
// why.
MUST_USE bool gzip_inflate(const char *path, int64_t limit, char **out, int64_t *n, char *why);
// `directory`/path for relative paths; malloc'd.
char *path_under(const char *directory, const char *path);

// -- mapped.c: a mapped file that shrinks ends the process with a message and exit code 5
// Of a mapping of n bytes at `at`, until it is removed, before munmap. False: too many; then it is
// not to be used.
MUST_USE bool mapped_add(const void *at, size_t n, const char *path);
void mapped_remove(const void *at);

// A file of a folder that is written while it is read: a fresh one, or the old one opened for
// reading and writing. Links are not followed. NULL with errno.
FILE *file_stream(const char *directory, const char *name, bool fresh);

// A file that replaces `path` when it is complete.
typedef struct AtomicFile {
  DiskFile file;
  const char *path;
  bool failed; // the writer cannot make the content: nothing is installed
} AtomicFile;
MUST_USE bool atomic_file_open(AtomicFile *w, const char *path, Diag *d);
void atomic_file_put(AtomicFile *w, const void *bytes, size_t n);
// fsync, rename, fsync of the directory; removes the partial file and says why after a failure.
MUST_USE bool atomic_file_close(AtomicFile *w, Diag *d);

// Copies a box of elements of `each` bytes; strides in elements. Runs along the last dim are copied
// whole where both strides are 1.
void box_copy(int rank, const int64_t *size, int64_t each, char *dst, const int64_t *dst_stride,
              const char *src, const int64_t *src_stride);

// -- raw.c: elements as files hold them ---------------------------------------------------------
typedef struct Raw {
  char kind; // 'f' float, 'b' bfloat, 'i', 'u', '?' bool
  uint8_t bytes;
  bool big; // big-endian
} Raw;
Raw raw_of(Dtype t);
Dtype raw_type(Raw r);       // the element type that holds all its values
const char *raw_text(Raw r); // "f32", "i16", "bool"
double raw_value(Raw r, const void *p);
// n elements, times `scale` (1: none), into type `to`. False when a value would be lost: *bad is
// its index. Floats round to narrower floats.
MUST_USE bool raw_convert(Raw r, const void *src, int64_t n, double scale, Dtype to, void *dst,
                          int64_t *bad);
// n doubles into `to`; the same rules.
MUST_USE bool raw_from_doubles(const double *src, int64_t n, Dtype to, void *dst, int64_t *bad);

// -- npy.c, npz.c, safetensors.c
// --------------------------------------------------------------------------------- Where an array
// stands in its file.
typedef struct ArrayPlace {
  Raw raw;
  bool fortran; // first axis fastest
  int rank;
  int64_t size[MAX_RANK], elements;
  int64_t offset; // of the first byte
} ArrayPlace;
// Sizes and elements of a place from its sizes. False: more than 2^40 elements.
MUST_USE bool place_count(ArrayPlace *p);
// Parses an npy header in bytes[0..n); `offset` is where data starts. False with why.
MUST_USE bool npy_header(const unsigned char *bytes, int64_t n, ArrayPlace *out, char *why);
enum { NPY_HEADER_MAX = 65536 + 12 };
// Header text of an array of `type` (v1, data at a multiple of 64); returns its length.
size_t npy_header_text(const Array *x, Dtype type, char *out, size_t room);
// Finds the array in a plain .npy file, checks that the bytes are there.
MUST_USE bool npy_find(const Datafile *f, ArrayPlace *out, char *why);
MUST_USE bool safetensors_find(const Datafile *f, const char *key, ArrayPlace *out, char *why);
// Entries in the order of the file, and the texts of __metadata__.
MUST_USE bool safetensors_list(Arena *a, const Datafile *f, ArrayList *out, char *why);
MUST_USE bool safetensors_names(Arena *a, const Datafile *f, const char ***out, char *why);
const char *safetensors_type(Dtype t); // "F32"; of bf16 "BF16"
// A set of shards: the file that holds key, in the index's directory. malloc'd path, NULL with why.
bool safetensors_index_names(Arena *a, const char *path, const char ***out, char *why);
char *safetensors_shard(const char *index_path, const char *key, char *why);
// Member `key` (with or without .npy) of a zip file, inflated: *out is malloc'd.
MUST_USE bool npz_member(const Datafile *f, const char *key, char **out, int64_t *n, char *why);
MUST_USE bool npz_names(Arena *a, const Datafile *f, const char ***out, char *why);

// Where the elements of an idx file stand, packed by gzip or not, from its header alone.
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
// Of a set of shards the file that holds key, malloc'd; NULL where path holds its arrays itself.
// False after an error in d.
MUST_USE bool array_file(const char *path, const char *key, char **shard, Diag *d, Pos at);
// As the hint of what was said last: the arrays that the file holds, where key (or NULL) is none of
// them.
void array_hint(const char *path, const char *key, Diag *d);

#endif
