// Reads rows of tokens from many files (token_shards.h). At most MOST_OPEN of them are open at a
// time; the one that was opened first is closed for another one.
#include "runtime/data/token_shards.h"

#include "runtime/data/file_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_OPEN = 64 };

typedef struct Shard {
  Datafile file; // fd: -1 while it is not open
  int64_t first; // number of its first row
} Shard;

struct TokenShards {
  TokenForm form;
  FileList files;
  Shard *shard; // by file
  int64_t rows;
  uint32_t open[MOST_OPEN]; // numbers of the open shards; the next one takes place `opened` modulo
  uint64_t opened;          // MOST_OPEN
};

// Finds the size and the number of rows of shard k. Returns false after an error.
static bool measure(TokenShards *t, uint32_t k, Diag *d, Pos at) {
  const TokenForm *form = &t->form;
  const char *path = t->files.path[k];
  struct stat s;
  char why[WHY];
  if (stat(path, &s) != 0 || !S_ISREG(s.st_mode)) {
    diag_error(d, DIAG_FILE_MISSING, at, "%s is not a regular file", path);
    return false;
  }
  int64_t bytes = s.st_size - form->skip;
  if (bytes < 0 || bytes % form->bytes != 0) {
    why_not(why, "has %lld byte%s, from byte %lld on no whole number of tokens of %lld bytes",
            (long long)s.st_size, plural(s.st_size), (long long)form->skip, (long long)form->bytes);
    return file_malformed(path, why, d, at);
  }
  t->shard[k] = (Shard){.file = {.fd = -1, .size = s.st_size, .path = path}, .first = t->rows};
  if (bytes > 0) t->rows += (bytes / form->bytes - 1) / form->n;
  return true;
}

// Records names and sizes of all shards for the comparison of ranks: each of them opens those that
// it needs.
static void record(const TokenShards *t, const char *path) {
  Arena *a = arena_new();
  size_t room = 1, n = 0;
  for (uint32_t k = 0; k < t->files.n; k++) room += strlen(t->files.path[k]) + 24;
  char *text = arena_alloc(a, room);
  for (uint32_t k = 0; k < t->files.n; k++) {
    const char *slash = strrchr(t->files.path[k], '/');
    n += (size_t)snprintf(text + n, room - n, "%s %lld\n", slash ? slash + 1 : t->files.path[k],
                          (long long)t->shard[k].file.size);
  }
  digest_text(path, text, n);
  arena_free(a);
}

TokenShards *token_shards_open(const char *path, const TokenForm *form, Diag *d, Pos at) {
  TokenShards *t = mem_zeroed(1, sizeof *t);
  t->form = *form;
  bool good = file_list_find(&t->files, path, d, at);
  t->shard = mem_zeroed(t->files.n + 1u, sizeof *t->shard);
  for (uint32_t k = 0; k < t->files.n; k++) t->shard[k].file.fd = -1;
  for (uint32_t k = 0; k < t->files.n && good; k++) good = measure(t, k, d, at);
  if (good) {
    record(t, path);
    return t;
  }
  token_shards_close(t);
  return NULL;
}

void token_shards_close(TokenShards *t) {
  if (!t) return;
  for (uint32_t k = 0; k < t->files.n; k++) datafile_close(&t->shard[k].file);
  file_list_free(&t->files);
  free(t->shard);
  free(t);
}

int64_t token_shards_rows(const TokenShards *t) { return t->rows; }

// Returns the number of the shard that has a row: the last one that begins at or before it. Shards
// without rows begin where the next one does.
static uint32_t shard_of(const TokenShards *t, int64_t row) {
  uint32_t low = 0, high = t->files.n - 1;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (t->shard[middle].first <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

const char *token_shards_path(const TokenShards *t, int64_t *row) {
  uint32_t k = shard_of(t, *row);
  *row -= t->shard[k].first;
  return t->files.path[k];
}

static bool open_shard(TokenShards *t, uint32_t k, char *why) {
  Datafile *f = &t->shard[k].file;
  if (f->fd >= 0) return true;
  if (!datafile_again(f, why)) return false;
  uint32_t *place = &t->open[t->opened % MOST_OPEN];
  if (t->opened++ >= MOST_OPEN) datafile_close(&t->shard[*place].file);
  *place = k;
  return true;
}

bool token_shards_read(TokenShards *t, int64_t row, void *out, char *why) {
  uint32_t k = shard_of(t, row);
  const Shard *s = &t->shard[k];
  int64_t first = (row - s->first) * t->form.n + t->form.offset;
  char reason[WHY];
  if (open_shard(t, k, reason) && datafile_read(&s->file, t->form.skip + first * t->form.bytes,
                                                t->form.n * t->form.bytes, out, reason))
    return true;
  return why_not(why, "%.120s %.90s", s->file.path, reason);
}
