// Keeps blocks of a file in memory (file_cache.h). The memory is reserved for the whole file, and
// the system provides a page of it when a block is read.
#include "runtime/data/file_cache.h"

#include <stdlib.h>

enum { BLOCK = 1 << 16 };

struct FileCache {
  int64_t size, kept;
  char *bytes;
  bool *have; // by block: it was read
};

FileCache *file_cache_new(const Datafile *f, int64_t most) {
  if (f->size < 1 || f->size > most) return NULL;
  FileCache *c = mem_zeroed(1, sizeof *c);
  c->size = f->size;
  c->bytes = mem_alloc((size_t)f->size);
  c->have = mem_zeroed((size_t)ceil_div(f->size, BLOCK), sizeof *c->have);
  return c;
}

void file_cache_free(FileCache *c) {
  if (!c) return;
  free(c->bytes);
  free(c->have);
  free(c);
}

static bool read_block(FileCache *c, const Datafile *f, int64_t block, char *why) {
  int64_t at = block * BLOCK, n = c->size - at < BLOCK ? c->size - at : BLOCK;
  if (!datafile_read(f, at, n, c->bytes + at, why)) return false;
  c->have[block] = true;
  c->kept += n;
  return true;
}

const char *file_cache_at(FileCache *c, const Datafile *f, int64_t at, int64_t n, char *why) {
  for (int64_t block = at / BLOCK; block * BLOCK < at + n; block++)
    if (!c->have[block] && !read_block(c, f, block, why)) return NULL;
  return c->bytes + at;
}

int64_t file_cache_bytes(const FileCache *c) { return c ? c->kept : 0; }
