// Small values in the compile cache, such as the algorithms that were measured to be the fastest. A
// value is a file of the cache like those with code: named by the hash of its key, and listed,
// limited in size and removed together with them.
#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"

#include <stdlib.h>
#include <string.h>

static void hash_of(const void *key, size_t n, uint8_t out[HASH_BYTES]) {
  Hash h;
  hash_start(&h);
  hash_text(&h, "meshc value");
  hash_add(&h, key, n);
  hash_end(&h, out);
}

bool cache_recall(const char *dir, const void *key, size_t key_bytes, void *value, size_t bytes) {
  uint8_t hash[HASH_BYTES];
  Bytes *kept = NULL;
  hash_of(key, key_bytes, hash);
  uint32_t n = cache_read(dir, hash, &kept);
  bool found = n == 1 && kept[0].n == bytes;
  if (found) memcpy(value, kept[0].at, bytes);
  for (uint32_t i = 0; i < n; i++) free(kept[i].at);
  free(kept);
  return found;
}

void cache_keep(const char *dir, const void *key, size_t key_bytes, const void *value,
                size_t bytes) {
  uint8_t hash[HASH_BYTES];
  char *copy = mem_alloc(bytes + 1);
  memcpy(copy, value, bytes);
  hash_of(key, key_bytes, hash);
  cache_write(dir, hash, 1, &(Bytes){copy, bytes});
  free(copy);
}
