// Hashes for tables, random streams and comparisons between ranks. They do not resist an attacker:
// the compile cache uses SHA-256 (codegen/cpu/cache.c).
#ifndef IR_HASH_H
#define IR_HASH_H

#include <stdint.h>
#include <string.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

// Continues the FNV-1a hash h (Fowler, Noll, Vo; 64 bits) with n bytes. A new hash begins with
// FNV_START.
static inline uint64_t fnv_bytes(uint64_t h, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

// Returns the FNV-1a hash of a text without its NUL. A NULL pointer has the hash of the empty text.
static inline uint64_t fnv_text(const char *text) {
  return fnv_bytes(FNV_START, text, text ? strlen(text) : 0);
}

// Continues hash h with one word. A multiplication and a shift are faster than FNV over eight
// bytes.
static inline uint64_t hash_word(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

// Continues hash h with n bytes: words of eight bytes by hash_word, the rest by fnv_bytes.
static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = hash_word(h, word);
  }
  return fnv_bytes(h, p, n);
}

// Continues hash h with n words: three hashes of every third word each, none of which waits for the
// others, then the hash of these.
static inline uint64_t hash_lanes(uint64_t h, const uint64_t *word, int n) {
  uint64_t a = h, b = h, c = h;
  int i = 0;
  for (; i + 2 < n; i += 3) {
    a = hash_word(a, word[i]);
    b = hash_word(b, word[i + 1]);
    c = hash_word(c, word[i + 2]);
  }
  for (; i < n; i++) a = hash_word(a, word[i]);
  return hash_word(hash_word(a, b), c);
}

// Returns a hash of an interned name, computed from its address (Knuth's multiplicative hash).
static inline uint32_t hash_address(const void *p) {
  return (uint32_t)((uintptr_t)p >> 4) * UINT32_C(2654435761);
}

#endif
