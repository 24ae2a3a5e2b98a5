// Declarations that the files of the runtime share: threads, data files, elements in files, and the
// formats of arrays in files. Functions that allocate with malloc say "malloc'd": the caller frees
// the result. `why` is always a buffer of WHY bytes, which gets the reason of a failure.
#ifndef RUNTIME_INTERNAL_H
#define RUNTIME_INTERNAL_H

#include "ir/base/disk.h"
#include "runtime/runtime.h"

// -- crc32c.c -----------------------------------------------------------------------------------
// Returns the checksum CRC-32C of data that continues with n bytes; `crc` is the checksum of the
// data before, 0 at first. Any thread may call it.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

// -- team.c: the threads of a process -----------------------------------------------------------
// The workers of a process, each a thread. The thread that calls team_run is worker 0; the others
// sleep between runs. A team counts its references, because programs that share tensors also share
// the threads.
typedef struct Team Team;
typedef void TeamWork(void *context, int worker);
Team *team_new(int workers); // returns NULL if the system cannot start the threads
Team *team_share(Team *t);
void team_free(Team *t);
int team_workers(const Team *t);
bool team_spins(const Team *t); // returns true if there is a core for every worker
// Runs work(context, w) on every worker w, and returns when all are done. Only one run at a time.
void team_run(Team *t, TeamWork *work, void *context);

// Size in bytes of the buffer to which functions that read files write the reason of a failure.
// Their caller adds the path of the file and a place in the model to the reason.
enum { WHY = 200 };
// Writes the reason of a failure to `why`, formatted as by printf. Returns false.
bool why_not(char *why, const char *fmt, ...) PRINTF_LIKE(2, 3);

// -- draw.c: many random numbers at once --------------------------------------------------------
// How many numbers one call draws. The number is constant, so that compilers vectorise the loops.
enum { DRAW_PIECE = 256 };
// Draws two uniform random numbers in (0, 1) for each of DRAW_PIECE elements of a tensor: u[i] and
// v[i] are those of element index[i] of the full tensor. v may be NULL.
void draw_uniforms(uint64_t key, const int64_t *index, double *u, double *v);
// Replaces each u[i] by a normal random number, computed from the uniform ones u[i] and v[i] (Box
// and Muller, Annals of Mathematical Statistics 29, 1958), for DRAW_PIECE elements.
void draw_normals(double *u, const double *v);
// Sets out[i] = a + scale * x[i] rounded to f32, for DRAW_PIECE elements.
void draw_floats(double a, double scale, const double *x, float *out);

// -- orthogonal.c: random orthogonal matrices ----------------------------------------------------
// Draws the elements of the full tensor t, which consists of orthogonal matrices, and returns them
// in declared order of dims. The caller frees the result.
double *orthogonal_draw(const ProgTensor *t, uint64_t key);

// -- file.c: bytes of files ---------------------------------------------------------------------
// A data file that is open for reading.
typedef struct Datafile {
  int fd;
  int64_t size;
  const char *path;
} Datafile;
// Records a file in the list by which ranks (processes) compare what they have read (digest.c).
// datafile_open calls this function.
void digest_file(const Datafile *f);

// Opens a regular file for reading. Returns false after an error in d.
MUST_USE bool datafile_open(Datafile *out, const char *path, Diag *d, Pos at);
void datafile_close(Datafile *f);
// Opens a file again whose path and size are known, and which ranks do not compare. Returns false
// with a reason in `why` if it cannot be opened or has another size.
MUST_USE bool datafile_again(Datafile *f, char *why);
// Returns what a file of another program is, and how to make one of it that meshc reads; NULL if
// the file does not begin as one of these. The text is static.
const char *foreign_hint(const Datafile *f);
// Reports that the file at `path` is malformed: `why` is the rest of a sentence that begins with
// the path. If it is the file of another program, a hint says so. Returns false.
bool file_malformed(const char *path, const char *why, Diag *d, Pos at);
// Reports that the file at `path` cannot be written. `error` is the errno, or 0 if the content of
// the file could not be made.
void file_unwritten(const char *path, int error, Diag *d);
// Reads n bytes at `offset` to `out`. If they cannot all be read, returns false with a reason in
// `why`. Any thread may call it.
MUST_USE bool datafile_read(const Datafile *f, int64_t offset, int64_t n, void *out, char *why);
// Returns all bytes of a file that has at most `most`, with a NUL behind them; the caller frees
// them. Returns NULL with a reason in `why`.
char *datafile_whole(const Datafile *f, int64_t most, char *why);
// Inflates a gzip file, but at most `limit` bytes of its content. *out gets the content, malloc'd,
// *n its length. Returns false with a reason in `why` if that fails.
MUST_USE bool gzip_inflate(const char *path, int64_t limit, char **out, int64_t *n, char *why);
// Returns `path`, with `directory` before it if it is relative; malloc'd.
char *path_under(const char *directory, const char *path);

// -- mapped.c: a mapped file that shrinks ends the process with a message and exit code 5 --------
// Registers a mapping of n bytes of file `path` at address `at`; call mapped_remove before munmap.
// Returns false if the mapping cannot be registered; then it must not be used.
MUST_USE bool mapped_add(const void *at, size_t n, const char *path);
void mapped_remove(const void *at);

// Opens a file of a folder for reading and writing: with `fresh` a new file, which replaces an old
// one, otherwise the existing file. Does not follow links. Returns NULL after an error in errno.
FILE *file_stream(const char *directory, const char *name, bool fresh);

// A file that replaces `path` once it is complete.
typedef struct AtomicFile {
  DiskFile file;
  const char *path;
  bool failed; // the content could not be made, so `path` will not be replaced
} AtomicFile;
MUST_USE bool atomic_file_open(AtomicFile *w, const char *path, Diag *d);
void atomic_file_put(AtomicFile *w, const void *bytes, size_t n);
// Syncs the temporary file, renames it to `path`, and syncs the folder. After a failure removes the
// temporary file and returns false with an error in d.
MUST_USE bool atomic_file_close(AtomicFile *w, Diag *d);

// Copies a box (a range of indices in each dim) of elements of `each` bytes from one array to
// another. `size` has the sizes of the box; strides are in elements.
void box_copy(int rank, const int64_t *size, int64_t each, char *dst, const int64_t *dst_stride,
              const char *src, const int64_t *src_stride);

// -- raw.c: elements as files store them --------------------------------------------------------
// The type of the elements in a file.
typedef struct Raw {
  char kind; // 'f' float, 'b' bfloat, 'i' signed integer, 'u' unsigned integer, '?' bool
  uint8_t bytes;
  bool big; // bytes are in big-endian order
} Raw;
Raw raw_of(Dtype t);
Dtype raw_type(Raw r); // returns an element type of meshc that has all values of r
// The names of an element type in files: `text` is the name in messages ("f32", "bool"),
// `safetensors` the name in safetensors files ("F32", "BOOL").
typedef struct RawNames {
  Raw raw;
  const char *text, *safetensors;
} RawNames;
const RawNames *raw_names(Raw r);
// Returns the element type called `name` in safetensors files, or NULL if meshc does not support
// it.
const RawNames *raw_of_safetensors(const char *name);
double raw_value(Raw r, const void *p);
// Converts n elements from `src` to type `to` in `dst` and multiplies them by `scale`. Floats may
// be rounded. Returns false if any other element would lose its value; *bad is then its index.
MUST_USE bool raw_convert(Raw r, const void *src, int64_t n, double scale, Dtype to, void *dst,
                          int64_t *bad);
// Converts n doubles to type `to`. Floats may be rounded. Returns false if any other element would
// lose its value; *bad is then its index.
MUST_USE bool raw_from_doubles(const double *src, int64_t n, Dtype to, void *dst, int64_t *bad);

// -- npy.c, npz.c, safetensors.c ----------------------------------------------------------------
// The place of an array in its file, and its shape.
typedef struct ArrayPlace {
  Raw raw;
  bool fortran; // elements are in Fortran order: the first axis is the fastest
  int rank;
  int64_t size[MAX_RANK], elements;
  int64_t offset; // offset of the first byte in the file
} ArrayPlace;
// Sets p->elements, the number of elements, from p->size. Returns false if there are more than 2^40
// elements.
MUST_USE bool place_count(ArrayPlace *p);
// Parses a .npy header in bytes[0..n). out->offset gets the length of the header, at which the
// elements begin. Returns false with a reason in `why` if the header is malformed.
MUST_USE bool npy_header(const unsigned char *bytes, int64_t n, ArrayPlace *out, char *why);
enum { NPY_HEADER_MAX = 65536 + 12 };
// Writes the .npy header of array x to `out`, with `type` as the element type. It has version 1 and
// a length that is a multiple of 64. Returns the length.
size_t npy_header_text(const Array *x, Dtype type, char *out, size_t room);
// Finds the place of the array in a .npy file, and checks that the file has all its elements.
// Returns false with a reason in `why` if the file is malformed.
MUST_USE bool npy_find(const Datafile *f, ArrayPlace *out, char *why);
MUST_USE bool safetensors_find(const Datafile *f, const char *key, ArrayPlace *out, char *why);
// Lists the tensors of a safetensors file in the order of the file, and the texts of __metadata__.
// Returns false with a reason in `why` if the file is malformed.
MUST_USE bool safetensors_list(Arena *a, const Datafile *f, ArrayList *out, char *why);
MUST_USE bool safetensors_names(Arena *a, const Datafile *f, const char ***out, char *why);
struct json_t;
// Returns a JSON list of n integers.
struct json_t *json_numbers(int n, const int64_t *x);
// Returns the entry of a tensor in the header of a safetensors file: type, sizes, and the bytes
// begin..end-1 of its elements. These bytes are counted from the end of the header.
struct json_t *safetensors_entry(Dtype type, int rank, const int64_t *size, int64_t begin,
                                 int64_t end);
// Returns the header of a safetensors file, malloc'd: its length in bytes, then the entries as
// text. Padding makes *n, the number of bytes of the header, a multiple of `unit`. Frees `entries`.
// Returns NULL if a name is not UTF-8.
char *safetensors_header(struct json_t *entries, size_t unit, size_t *n);
// Lists the names of all tensors in a set of shards (several safetensors files with one index
// file); `path` is the index file. Returns false with a reason in `why` if the index file is
// malformed.
bool safetensors_index_names(Arena *a, const char *path, const char ***out, char *why);
// Returns the path, malloc'd, of the shard (one of several safetensors files) that has tensor
// `key`, or NULL with a reason in `why`.
char *safetensors_shard(const char *index_path, const char *key, char *why);
// Reads member `key` (given with or without .npy) of a zip file. *out gets its content, malloc'd,
// *n its length. Returns false with a reason in `why` if that fails.
MUST_USE bool npz_member(const Datafile *f, const char *key, char **out, int64_t *n, char *why);
MUST_USE bool npz_names(Arena *a, const Datafile *f, const char ***out, char *why);

// Finds the place and shape of the array in an idx file, plain or gzip, from its header. Returns
// false with a reason in `why` if the header is malformed.
MUST_USE bool idx_place(const Datafile *f, ArrayPlace *p, char *why);

// -- array.c: arrays in files of any format -----------------------------------------------------
typedef enum ArrayFormat {
  FORMAT_NONE,
  FORMAT_NPY,
  FORMAT_NPZ,
  FORMAT_SAFETENSORS,
  FORMAT_INDEX
} ArrayFormat;
ArrayFormat array_format(const Datafile *f);
// Finds the file that has array `key`. If `path` is the index file of several safetensors files,
// *shard gets the path, malloc'd, of the file that has the array. Otherwise *shard gets NULL: file
// `path` itself has the array. Returns false after an error in d.
MUST_USE bool array_file(const char *path, const char *key, char **shard, Diag *d, Pos at);
// Adds a hint to the last error in d: a list of the arrays in the file. Adds no hint if the file
// has an array named `key`; key may be NULL.
void array_hint(const char *path, const char *key, Diag *d);

// -- cgroup.c -----------------------------------------------------------------------------------
// Return the least that the control groups leave to this process: bytes of memory, INT64_MAX if
// they do not limit it, and cores, rounded up, or 0. `groups` is /proc/self/cgroup and `root` the
// folder of the groups, /sys/fs/cgroup. Any thread may call them.
int64_t cgroup_memory(const char *groups, const char *root);
int cgroup_cores(const char *groups, const char *root);

#endif
