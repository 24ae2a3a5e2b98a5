// Private to the room: objects kept on disk between runs.
#ifndef CODEGEN_CACHE_H
#define CODEGEN_CACHE_H

#include "codegen/cpu/llvm_internal.h"
#include "ir/base/arena.h"

enum { HASH_BYTES = 32 };

// SHA-256 (FIPS 180-4) of a text in pieces.
typedef struct Hash {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
} Hash;
void hash_start(Hash *h);
void hash_add(Hash *h, const void *at, size_t n);
void hash_text(Hash *h, const char *text); // with its final NUL, so that pieces do not run together
void hash_end(Hash *h, uint8_t out[HASH_BYTES]);

// Objects stored in directory `dir` under `key`: n > 0 of them in *out, an array on the heap as its
// elements are. 0 when there are none, or when directory, file or checksum are not to be trusted.
uint32_t cache_read(const char *dir, const uint8_t key[HASH_BYTES], Bytes **out);
// Stores them; a failure only means that they are compiled again. Creates dir (0700) where missing.
void cache_write(const char *dir, const uint8_t key[HASH_BYTES], uint32_t n, const Bytes *objects);
// Bytes that the folder may hold: MESHC_CACHE_MIB, default 512 MiB.
int64_t cache_limit(void);
// Removes what was not used for longest until the folder holds no more than that.
void cache_shrink(const char *dir);

#endif
