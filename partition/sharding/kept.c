// Keeps each sharding once. The values of a deep model have few different shardings, so a placement
// refers to them: its tables are small, and what is often read stays in the cache.
//
//   computed[layer.0.q] ---.
//   computed[layer.1.q] -----> b/rows heads/cols
#include "ir/base/hash.h"
#include "partition/sharding/sharding_internal.h"

#include <string.h>

struct Shardings {
  Arena *arena;
  const Sharding **at;  // hash table
  uint32_t n, cap;      // cap is a power of two
  const Sharding *last; // that sharding_keep returned: it is often asked for twice in a row
};

enum { FIRST_CAP = 64 };

Shardings *shardings_new(Arena *a) {
  Shardings *all = arena_new_of(a, Shardings);
  *all = (Shardings){a, arena_array(a, const Sharding *, FIRST_CAP), 0, FIRST_CAP, NULL};
  return all;
}

// All bytes are members, so that shardings are compared and hashed as bytes.
_Static_assert(sizeof(Sharding) == (MAX_RANK + 1) * sizeof(Axes) + 1 + MAX_AXES * sizeof(uint16_t),
               "a sharding has no padding");

// Most words are zero: these are skipped.
static uint64_t hash_of(const Sharding *s) {
  uint64_t h = FNV_START, word;
  const char *bytes = (const char *)s;
  size_t i = 0;
  for (; i + sizeof word <= sizeof *s; i += sizeof word) {
    memcpy(&word, bytes + i, sizeof word);
    if (word) h = hash_word(h + i, word);
  }
  return fnv_bytes(h, bytes + i, sizeof *s - i);
}

// Compares all members: unlike sharding_equal also the rules.
static bool is_same(const Sharding *a, const Sharding *b) { return !memcmp(a, b, sizeof *a); }

// Returns the place of *s, which has hash h, or the free one for it.
static const Sharding **find(const Shardings *all, const Sharding *s, uint64_t h) {
  uint32_t i = (uint32_t)h & (all->cap - 1);
  while (all->at[i] && !is_same(all->at[i], s)) i = (i + 1) & (all->cap - 1);
  return &all->at[i];
}

static void grow(Shardings *all) {
  Shardings more = *all;
  more.cap *= 2;
  more.at = arena_array(all->arena, const Sharding *, more.cap);
  for (uint32_t i = 0; i < all->cap; i++)
    if (all->at[i]) *find(&more, all->at[i], hash_of(all->at[i])) = all->at[i];
  *all = more;
}

static KeptSharding *kept_new(Arena *a, const Sharding *s) {
  KeptSharding *k = arena_new_of(a, KeptSharding);
  k->s = *s;
  for (int axis = 0; axis < MAX_AXES; axis++) k->dim[axis] = (int8_t)sharding_dim_of(s, axis);
  return k;
}

static const Sharding *look_up(Shardings *all, const Sharding *s) {
  uint64_t h = hash_of(s);
  const Sharding **at = find(all, s, h);
  if (*at) return *at;
  if (2 * ++all->n > all->cap) {
    grow(all);
    at = find(all, s, h);
  }
  return *at = &kept_new(all->arena, s)->s;
}

const Sharding *sharding_keep(Shardings *all, const Sharding *s) {
  if (!all->last || !is_same(all->last, s)) all->last = look_up(all, s);
  return all->last;
}
