// Remembers the conversions that were found: layers of a model convert values of equal sizes alike.
#include <string.h>

#include "ir/base/hash.h"
#include "partition/sharding/sharding_internal.h"

// The sizes of the dims of a value.
typedef struct Sizes {
  int n;
  int64_t at[MAX_RANK];
} Sizes;

// A conversion of a value over dims of these sizes from one sharding to another, and its result.
typedef struct Path Path;
struct Path {
  const Path *next; // with the same hash
  Sizes sizes;
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

static uint64_t hash_sharding(uint64_t h, int rank, const Sharding *s) {
  for (int i = 0; i < rank; i++) h = hash_axes(h, s->split[i]);
  return hash_axes(h, s->partial);
}

// Returns whether a conversion from or to *a has the steps of one from or to *b. The shardings must
// also have the same rules, which the steps keep.
static bool same_end(const Sharding *a, const Sharding *b) {
  return sharding_equal(a, b) && axes_equal(a->partial, b->partial) && a->monoid == b->monoid &&
         !memcmp(a->rule, b->rule, sizeof a->rule);
}

static Sizes sizes_of(const DimTable *t, const Dims *dims) {
  Sizes out = {.n = dims->n};
  for (int i = 0; i < dims->n; i++) out.at[i] = dim_get(t, dims->at[i])->size;
  return out;
}

static bool same_sizes(const Sizes *a, const Sizes *b) {
  return a->n == b->n && !memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at);
}

static const Path *find_known(const Path *x, const Sizes *sizes, Dtype type, const Sharding *from,
                              const Sharding *to) {
  while (x && !(x->type == type && same_sizes(&x->sizes, sizes) && same_end(&x->from, from) &&
                same_end(&x->to, to)))
    x = x->next;
  return x;
}

PathCache *paths_new(Arena *a) { return arena_new_of(a, PathCache); }

int paths_find(PathCache *known, Arena *a, const Placer *p, const Dims *dims, Dtype type,
               const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
               double *bytes) {
  Sizes sizes = sizes_of(p->g->dims, dims);
  uint64_t h = hash_bytes(FNV_START, sizes.at, (size_t)sizes.n * sizeof *sizes.at);
  h = hash_sharding(hash_sharding(h, sizes.n, from), sizes.n, to);
  const Path **list = &known->list[(h ^ h >> 32) % PATH_LISTS];
  const Path *x = find_known(*list, &sizes, type, from, to);
  if (!x) {
    Path made = {.next = *list, .sizes = sizes, .type = type, .from = *from, .to = *to};
    made.n = convert_path(a, p->machine, p->g, dims, type, from, to, step, &made.bytes);
    made.step = arena_copy(a, step, (size_t)made.n * sizeof *step);
    *list = x = arena_copy(a, &made, sizeof made);
  }
  memcpy(step, x->step, (size_t)x->n * sizeof *step);
  *bytes = x->bytes;
  return x->n;
}
