// Remembers the conversions that were found: layers of a model convert equal values alike.
#include <string.h>

#include "ir/base/hash.h"
#include "partition/sharding/sharding_internal.h"

// A conversion of a value over `dims` from one sharding to another, and its result.
typedef struct Path Path;
struct Path {
  const Path *next; // with the same hash
  Dims dims;
  Dtype type;
  Sharding from, to;
  int n;
  const ConvertStep *step;
  double bytes;
};

enum { PATH_LISTS = 1 << 10 };
struct PathCache {
  const Path *list[PATH_LISTS]; // by hash
};

static uint64_t hash_axes(uint64_t h, Axes x) { return hash_bytes(hash_word(h, x.n), x.at, x.n); }

static uint64_t hash_sharding(uint64_t h, const Dims *dims, const Sharding *s) {
  for (int i = 0; i < dims->n; i++) h = hash_axes(h, s->split[i]);
  return hash_axes(h, s->partial);
}

// Returns whether a conversion from or to *a has the steps of one from or to *b. The shardings must
// also have the same rules, which the steps keep.
static bool same_end(const Sharding *a, const Sharding *b) {
  return sharding_equal(a, b) && axes_equal(a->partial, b->partial) && a->monoid == b->monoid &&
         !memcmp(a->rule, b->rule, sizeof a->rule);
}

static const Path *find_known(const Path *x, const Dims *dims, Dtype type, const Sharding *from,
                              const Sharding *to) {
  while (x && !(x->type == type && dims_equal(&x->dims, dims) && same_end(&x->from, from) &&
                same_end(&x->to, to)))
    x = x->next;
  return x;
}

PathCache *paths_new(Arena *a) { return arena_new_of(a, PathCache); }

int paths_find(PathCache *known, Arena *a, const Placer *p, const Dims *dims, Dtype type,
               const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
               double *bytes) {
  uint64_t h = hash_bytes(FNV_START, dims->at, dims->n * sizeof *dims->at);
  h = hash_sharding(hash_sharding(h, dims, from), dims, to);
  const Path **list = &known->list[(h ^ h >> 32) % PATH_LISTS];
  const Path *x = find_known(*list, dims, type, from, to);
  if (!x) {
    Path made = {.next = *list, .dims = *dims, .type = type, .from = *from, .to = *to};
    made.n = convert_path(a, p->machine, p->g, dims, type, from, to, step, &made.bytes);
    made.step = arena_copy(a, step, (size_t)made.n * sizeof *step);
    *list = x = arena_copy(a, &made, sizeof made);
  }
  memcpy(step, x->step, (size_t)x->n * sizeof *step);
  *bytes = x->bytes;
  return x->n;
}
