// The compile cache: objects with machine code, kept on disk between runs of meshc.
#ifndef CODEGEN_CACHE_H
#define CODEGEN_CACHE_H

#include "codegen/codegen.h"
#include "codegen/cpu/llvm_internal.h"
#include "ir/base/arena.h"

enum { HASH_BYTES = 32 };

// The state of a SHA-256 computation (FIPS 180-4) whose input is added in several calls.
typedef struct Hash {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
} Hash;
void hash_start(Hash *h);
void hash_add(Hash *h, const void *at, size_t n);
// Adds the text with its final NUL to the input of hash h. So the texts "a", "bc" give another hash
// than "ab", "c".
void hash_text(Hash *h, const char *text);
void hash_end(Hash *h, uint8_t out[HASH_BYTES]);

struct stat;
// Returns whether a file or folder with status s can be trusted: it belongs to this user, and
// nobody else may write it. Machine code from elsewhere is not run.
bool cache_is_ours(const struct stat *s);
// Reads the objects stored in directory `dir` under `key`. Returns their number; *out is an array
// on the heap, and so is each element. Returns 0 if there are none or they cannot be trusted.
uint32_t cache_read(const char *dir, const uint8_t key[HASH_BYTES], Bytes **out);
// Stores n objects under `key` in dir, which is created if necessary (mode 0700). A failure is
// ignored: the kernels are compiled again next time.
void cache_write(const char *dir, const uint8_t key[HASH_BYTES], uint32_t n, const Bytes *objects);
// -- code.c
// Adds to hash h what machine code depends on beside its kernels: the emitter's sources, LLVM, the
// host and the options.
void hash_target(Hash *h, Arena *a, const CodeOptions *opt);
// Returns the key of the entry of c in the cache.
const uint8_t *code_key(const Code *c);
// Maps the code of all kernels of p from the entry with that key, as code_load does. Returns NULL
// if there is no such entry.
Code *code_recall(Program *p, const uint8_t key[HASH_BYTES], const CodeOptions *opt);
// -- cache_files.c
// Returns how many bytes the cache folder may hold: MESHC_CACHE_MIB in the environment, default 512
// MiB.
int64_t cache_limit(void);
// Removes the least recently used files of cache folder `dir` until the rest is within the size
// limit (cache_limit).
void cache_shrink(const char *dir);

#endif
