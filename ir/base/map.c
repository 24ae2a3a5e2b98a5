// Maps from interned names to pointers: a hash table with open addressing, whose hash is the
// address of the name.
#include "ir/base/map.h"

#include "ir/base/hash.h"

static uint32_t map_slot(const NameMap *m, const char *name) {
  uint32_t i = hash_address(name) & (m->cap - 1);
  while (m->key[i] && m->key[i] != name) i = (i + 1) & (m->cap - 1);
  return i;
}

void *map_get(const NameMap *m, const char *interned) {
  return m->cap ? m->value[map_slot(m, interned)] : NULL;
}

static void map_grow(Arena *a, NameMap *m) {
  NameMap big = {.n = m->n, .cap = m->cap ? m->cap * 2 : 16};
  big.key = arena_array(a, const char *, big.cap);
  big.value = arena_array(a, void *, big.cap);
  for (uint32_t i = 0; i < m->cap; i++) {
    if (!m->key[i]) continue;
    uint32_t at = map_slot(&big, m->key[i]);
    big.key[at] = m->key[i];
    big.value[at] = m->value[i];
  }
  *m = big;
}

void map_put(Arena *a, NameMap *m, const char *interned, void *value) {
  if (m->n * 2 >= m->cap) map_grow(a, m);
  uint32_t i = map_slot(m, interned);
  m->n += !m->key[i];
  m->key[i] = interned;
  m->value[i] = value;
}
