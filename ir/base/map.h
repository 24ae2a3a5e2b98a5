// Maps from interned names to pointers. A zeroed map is empty; it grows in an arena.
#ifndef IR_MAP_H
#define IR_MAP_H

#include "ir/base/arena.h"

typedef struct NameMap {
  uint32_t n, cap;
  const char **key;
  void **value;
} NameMap;

void *map_get(const NameMap *m, const char *interned); // NULL: the map does not have the name
void map_put(Arena *a, NameMap *m, const char *interned, void *value);

#endif
