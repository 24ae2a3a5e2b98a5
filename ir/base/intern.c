// Interned text: a hash table with open addressing, which has one copy of each text.
#include "ir/base/intern.h"

#include "ir/base/hash.h"

#include <string.h>

typedef struct Entry {
  const char *text;
  size_t n;
  uint32_t hash;
} Entry;

struct Intern {
  Arena *arena;
  const Intern *below; // a table that is searched before this one, or NULL
  Entry *slot; // a table of `cap` entries; cap is a power of two, or 0 before the first text
  uint32_t n, cap;
};

enum { FIRST_CAP = 64 };

Intern *intern_over(Arena *a, const Intern *below) {
  Intern *t = arena_new_of(a, Intern);
  *t = (Intern){.arena = a, .below = below};
  return t;
}

Intern *intern_new(Arena *a) { return intern_over(a, NULL); }

static Entry *find_slot(const Intern *t, const char *text, size_t n, uint32_t hash) {
  uint32_t i = hash & (t->cap - 1);
  for (;; i = (i + 1) & (t->cap - 1)) {
    Entry *e = &t->slot[i];
    if (!e->text) return e;
    if (e->hash == hash && e->n == n && memcmp(e->text, text, n) == 0) return e;
  }
}

static void grow(Intern *t) {
  Entry *old = t->slot;
  uint32_t cap = t->cap;
  t->cap = cap ? cap * 2 : FIRST_CAP;
  t->slot = arena_array(t->arena, Entry, t->cap);
  for (uint32_t i = 0; i < cap; i++)
    if (old[i].text) *find_slot(t, old[i].text, old[i].n, old[i].hash) = old[i];
}

const char *intern_n(Intern *t, const char *text, size_t n) {
  uint32_t hash = (uint32_t)fnv_bytes(FNV_START, text, n);
  for (const Intern *in = t; in; in = in->below) {
    const char *known = in->cap ? find_slot(in, text, n, hash)->text : NULL;
    if (known) return known;
  }
  if (t->n >= t->cap / 2) grow(t);
  const char *copy = arena_text(t->arena, text, n);
  *find_slot(t, text, n, hash) = (Entry){.text = copy, .n = n, .hash = hash};
  t->n++;
  return copy;
}

const char *intern(Intern *t, const char *text) { return intern_n(t, text, strlen(text)); }

const char *intern_printf(Intern *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(t->arena, fmt, ap);
  va_end(ap);
  return intern(t, text);
}
