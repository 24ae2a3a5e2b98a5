// A map from interned names to pointers (names.c). Zero is an empty map; it grows in an arena.
#ifndef FRONTEND_NAME_MAP_H
#define FRONTEND_NAME_MAP_H

#include "ir/arena.h"

typedef struct NameMap {
  uint32_t n, cap;
  const char **key;
  void **value;
} NameMap;

void *map_get(const NameMap *m, const char *interned); // NULL: absent
void map_put(Arena *a, NameMap *m, const char *interned, void *value);

#endif
