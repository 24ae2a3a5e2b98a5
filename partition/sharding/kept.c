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
  const Sharding **at; // hash table
  uint32_t n, cap;     // cap is a power of two
};

enum { FIRST_CAP = 64 };

Shardings *shardings_new(Arena *a) {
  Shardings *all = arena_new_of(a, Shardings);
  *all = (Shardings){a, arena_array(a, const Sharding *, FIRST_CAP), 0, FIRST_CAP};
  return all;
}

static uint64_t hash_split(uint64_t h, Axes s, int k) {
  for (int i = 0; i < s.n; i++) h = hash_word(h, (uint64_t)k << 8 | s.at[i]);
  return h;
}

static uint64_t hash_of(const Sharding *s) {
  uint64_t h = hash_split(FNV_START, s->partial, MAX_RANK);
  for (int k = 0; k < MAX_RANK; k++) h = hash_split(h, s->split[k], k);
  return hash_bytes(h, s->rule, sizeof s->rule);
}

// Compares all members: unlike sharding_equal also the rules.
static bool is_same(const Sharding *a, const Sharding *b) {
  return !memcmp(a->split, b->split, sizeof a->split) &&
         !memcmp(&a->partial, &b->partial, sizeof a->partial) && a->monoid == b->monoid &&
         !memcmp(a->rule, b->rule, sizeof a->rule);
}

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

const Sharding *sharding_keep(Shardings *all, const Sharding *s) {
  uint64_t h = hash_of(s);
  const Sharding **at = find(all, s, h);
  if (*at) return *at;
  if (2 * ++all->n > all->cap) {
    grow(all);
    at = find(all, s, h);
  }
  return *at = arena_copy(all->arena, s, sizeof *s);
}
