// The bytes of a data file in memory: a block of it is read from the file when it is needed first.
// So a row of few bytes costs no call of the system after the first epoch.
#ifndef RUNTIME_FILE_CACHE_H
#define RUNTIME_FILE_CACHE_H

#include "runtime/runtime_internal.h"

typedef struct FileCache FileCache;
// Returns a cache of a file, or NULL if the file has more than `most` bytes. The caller frees it
// with file_cache_free.
FileCache *file_cache_new(const Datafile *f, int64_t most);
void file_cache_free(FileCache *c); // NULL is allowed
// Returns the n bytes at `at` of file f, for which the cache was made; they are within the file,
// and valid as long as the cache. Returns NULL with a reason in `why` if the file cannot be read.
const char *file_cache_at(FileCache *c, const Datafile *f, int64_t at, int64_t n, char *why);
int64_t file_cache_bytes(const FileCache *c); // bytes that have been read; c may be NULL

#endif
