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
  Known *at[PLACES];
};

KnownBytes *known_bytes_new(Arena *a) {
  KnownBytes *k = arena_new_of(a, KnownBytes);
  k->a = a;
  return k;
}

int64_t *known_bytes(KnownBytes *k, uint64_t program) {
  Known **at = &k->at[program % PLACES];
  while (*at && (*at)->program != program) at = &(*at)->next;
  if (!*at) {
    *at = arena_new_of(k->a, Known);
    (*at)->program = program;
  }
  return &(*at)->bytes;
}
