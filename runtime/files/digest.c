// Digests of the data files that this process opens: name, size and a checksum. Ranks compare them
// before the first step, because ranks that read different files would train on without an error.
//
// A sampled checksum covers all of a small file. Of a larger file it covers the first and the last
// block, and blocks at equal distances between them; it does not notice a change of other bytes.
#include "ir/base/hash.h"
#include "runtime/runtime_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCKS = 64, PIECE = 1 << 20 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static DigestMode mode;
static FileDigest *list;
static uint32_t count, room;

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Returns the key of a file: a hash of its name without the folder, plus the number of files
// recorded earlier under this name. Folders are left out because they may differ between machines.
static uint64_t key_of(const char *path) {
  const char *name = base_name(path);
  uint64_t h = fnv_text(name);
  for (uint32_t i = 0; i < count; i++) h += strcmp(base_name(list[i].path), name) == 0;
  return h;
}

// Adds a file to the list of recorded files and returns its new entry; NULL if the list has the
// file already.
static FileDigest *add(const char *path) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(list[i].path, path) == 0) return NULL;
  if (count == room) {
    room = room ? 2 * room : 16;
    list = mem_grow(list, room * sizeof *list);
  }
  char *own = mem_text(path);
  list[count] = (FileDigest){.path = own, .key = key_of(path)};
  list[count].name = base_name(own);
  return &list[count++];
}

static bool add_piece(const Datafile *f, int64_t at, int64_t n, char *bytes, uint32_t *sum) {
  char why[WHY];
  if (!datafile_read(f, at, n, bytes, why)) return false;
  *sum = crc32c(*sum, bytes, (size_t)n);
  return true;
}

// Returns the checksum of samples of a file or, with `full`, of all its bytes. Returns 0 if the
// file cannot be read; the error is reported when the file is used.
static uint32_t checksum(const Datafile *f, bool full) {
  char *bytes = mem_alloc(PIECE);
  uint32_t sum = 0;
  bool good = true;
  if (full || f->size <= (int64_t)BLOCK * BLOCKS) {
    for (int64_t at = 0; good && at < f->size; at += PIECE)
      good = add_piece(f, at, f->size - at < PIECE ? f->size - at : PIECE, bytes, &sum);
  } else {
    for (int64_t i = 0; good && i < BLOCKS; i++)
      good = add_piece(f,
                       (f->size - BLOCK) / (BLOCKS - 1) * i +
                           (f->size - BLOCK) % (BLOCKS - 1) * i / (BLOCKS - 1),
                       BLOCK, bytes, &sum);
  }
  free(bytes);
  return good ? sum : 0;
}

void digest_record(DigestMode how) {
  pthread_mutex_lock(&gate);
  mode = how;
  pthread_mutex_unlock(&gate);
}

// Records a file if recording is on (digest_record). Its content is that of the open file f or, if
// f is NULL, text[0..n).
static void record(const char *path, const Datafile *f, const char *text, int64_t n) {
  pthread_mutex_lock(&gate);
  FileDigest *d = mode == DIGEST_OFF ? NULL : add(path);
  if (d) {
    d->size = n;
    d->sum = f ? checksum(f, mode == DIGEST_FULL) : crc32c(0, text, (size_t)n);
  }
  pthread_mutex_unlock(&gate);
}

void digest_file(const Datafile *f) { record(f->path, f, NULL, f->size); }
void digest_text(const char *path, const char *text, size_t n) {
  record(path, NULL, text, (int64_t)n);
}

uint32_t digest_list(const FileDigest **out) {
  *out = list;
  return count;
}
