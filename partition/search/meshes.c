// The shapes of a mesh that a search tries.
#include "partition/search/search.h"

uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], bool unlike,
                       const Mesh **out) {
  VEC(Mesh) list = {0};
  for (int64_t x = 2; x <= processors; x++) {
    if (processors % x) continue;
    for (int64_t y = 1; y <= processors / x; y++) {
      int64_t z = processors / x / y;
      if (processors / x % y || (y == 1 && z > 1) || (!unlike && (y > x || z > y))) continue;
      Mesh m = {.axis = {{.name = names[0], .size = x},
                         {.name = names[1], .size = y},
                         {.name = names[2], .size = z}}};
      m.naxes = (uint8_t)(1 + (y > 1) + (z > 1));
      vec_push(a, list) = m;
    }
  }
  *out = list.at;
  return list.n;
}
