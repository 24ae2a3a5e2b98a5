// Keeps the memory of programs by hashes: a table with chains. See frontend.h.
#include "frontend/frontend.h"

enum { PLACES = 1 << 12 };

typedef struct Known Known;
struct Known {
  uint64_t program;
  int64_t bytes;
  Known *next; // of those in one place of the table
};

struct KnownBytes {
  Arena *a;
  KnownBytes *below; // a table whose entries this one has, too, or NULL
  Known *at[PLACES];
};

KnownBytes *known_bytes_over(Arena *a, KnownBytes *below) {
  KnownBytes *k = arena_new_of(a, KnownBytes);
  k->a = a;
  k->below = below;
  return k;
}

KnownBytes *known_bytes_new(Arena *a) { return known_bytes_over(a, NULL); }

static const Known *find(const KnownBytes *k, uint64_t program) {
  const Known *at = k->at[program % PLACES];
  while (at && at->program != program) at = at->next;
  return at || !k->below ? at : find(k->below, program);
}

int64_t *known_bytes(KnownBytes *k, uint64_t program) {
  Known **at = &k->at[program % PLACES];
  while (*at && (*at)->program != program) at = &(*at)->next;
  if (!*at) {
    const Known *below = k->below ? find(k->below, program) : NULL;
    *at = arena_new_of(k->a, Known);
    **at = (Known){.program = program, .bytes = below ? below->bytes : 0};
  }
  return &(*at)->bytes;
}

void known_bytes_merge(const KnownBytes *k) {
  for (size_t i = 0; i < PLACES; i++)
    for (const Known *x = k->at[i]; x; x = x->next)
      if (x->bytes) *known_bytes(k->below, x->program) = x->bytes;
}
