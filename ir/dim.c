// The table of dims, blocks of dims over mesh axes, and sets of dims.
//
//   h = 5 over cols = 2, rows = 2: blocks of ceil(5/2) = 3 by cols, each of ceil(3/2) = 2 by rows,
//   so "h/cols+rows" has length 2 and processors (col, row) hold h 0-1, 2 | 3-4, nothing.
#include "ir/dim.h"

#include <stdio.h>
#include <string.h>

typedef struct Entry {
  Dim dim;
  DimId first_block, next_block; // list of the blocks of a whole dim
} Entry;

struct DimTable {
  Arena *arena;
  Intern *names;
  VEC(Entry *) entry; // entries do not move, so that dim_get stays valid; id d is at d - 1
  DimId *slot;        // open addressing by interned name
  uint32_t cap;
};

DimTable *dim_table_new(Arena *a, Intern *names) {
  DimTable *t = arena_new_of(a, DimTable);
  t->arena = a;
  t->names = names;
  t->cap = 64;
  t->slot = arena_array(a, DimId, t->cap);
  return t;
}

static Entry *entry_of(const DimTable *t, DimId d) {
  if (d == 0 || d > t->entry.n) BUG("no dim %u", d);
  return t->entry.at[d - 1];
}

const Dim *dim_get(const DimTable *t, DimId d) { return &entry_of(t, d)->dim; }
uint32_t dim_count(const DimTable *t) { return t->entry.n; }

static DimId *find_slot(const DimTable *t, const char *interned) {
  uint32_t i = (uint32_t)((uintptr_t)interned >> 4) * 2654435761u & (t->cap - 1);
  while (t->slot[i] && t->entry.at[t->slot[i] - 1]->dim.name != interned)
    i = (i + 1) & (t->cap - 1);
  return &t->slot[i];
}

static DimId insert(DimTable *t, Dim dim) {
  Entry *e = arena_new_of(t->arena, Entry);
  e->dim = dim;
  vec_push(t->arena, t->entry) = e;
  DimId d = t->entry.n;
  if (!e->dim.whole) e->dim.whole = d;
  if (t->entry.n > t->cap / 2) {
    t->cap *= 2;
    t->slot = arena_array(t->arena, DimId, t->cap);
    for (DimId i = 1; i < d; i++) *find_slot(t, t->entry.at[i - 1]->dim.name) = i;
  }
  *find_slot(t, e->dim.name) = d;
  return d;
}

DimId dim_add(DimTable *t, const char *name, int64_t size, Pos pos) {
  return insert(t, (Dim){.name = intern(t->names, name), .size = size, .pos = pos});
}

DimId dim_find(const DimTable *t, const char *name) {
  return *find_slot(t, intern(t->names, name));
}

void dim_set_follows(DimTable *t, DimId d, DimId first) { entry_of(t, d)->dim.follows = first; }

static const char *block_name(const DimTable *t, const Mesh *m, const char *whole, Axes axes) {
  char text[MAX_AXES * 64];
  size_t n = 0;
  for (int i = 0; i < axes.n; i++) {
    int k = snprintf(text + n, sizeof text - n, "%s%s", i ? "+" : "", m->axis[axes.at[i]].name);
    n += (size_t)k;
    if (n >= sizeof text) return intern_printf(t->names, "%s/block%u", whole, t->entry.n + 1);
  }
  return intern_printf(t->names, "%s/%s", whole, text);
}

DimId dim_block(DimTable *t, const Mesh *m, DimId whole, Axes axes) {
  Entry *w = entry_of(t, whole);
  if (w->dim.whole != whole) BUG("%s is a block already", w->dim.name);
  if (axes.n == 0) return whole;
  for (DimId b = w->first_block; b; b = entry_of(t, b)->next_block)
    if (axes_equal(entry_of(t, b)->dim.axes, axes)) return b;
  int64_t size = w->dim.size;
  for (int i = 0; i < axes.n; i++) size = ceil_div(size, m->axis[axes.at[i]].size);
  DimId b = insert(t, (Dim){.name = block_name(t, m, w->dim.name, axes),
                            .size = size,
                            .whole = whole,
                            .axes = axes,
                            .pos = w->dim.pos});
  entry_of(t, b)->next_block = w->first_block;
  w->first_block = b;
  return b;
}

int64_t dim_offset(const DimTable *t, const Mesh *m, DimId d, int64_t r) {
  const Dim *dim = dim_get(t, d);
  int64_t length = dim_get(t, dim->whole)->size, offset = 0;
  for (int i = 0; i < dim->axes.n; i++) {
    int axis = dim->axes.at[i];
    length = ceil_div(length, m->axis[axis].size);
    offset += mesh_coord(m, r, axis) * length;
  }
  return offset;
}

int64_t dim_valid(const DimTable *t, const Mesh *m, DimId d, int64_t r, int64_t rows) {
  const Dim *dim = dim_get(t, d);
  int64_t length = dim_get(t, dim->whole)->size, valid = rows;
  for (int i = 0; i < dim->axes.n; i++) {
    int axis = dim->axes.at[i];
    length = ceil_div(length, m->axis[axis].size);
    valid = clamp64(valid - mesh_coord(m, r, axis) * length, 0, length);
  }
  return valid;
}

// Every processor is full exactly if each level divides.
bool dim_uneven(const DimTable *t, const Mesh *m, DimId d) {
  const Dim *dim = dim_get(t, d);
  int64_t length = dim_get(t, dim->whole)->size;
  for (int i = 0; i < dim->axes.n; i++) {
    int64_t p = m->axis[dim->axes.at[i]].size;
    if (length % p) return true;
    length /= p;
  }
  return false;
}

bool dims_has(const Dims *s, DimId d) { return dims_index(s, d) >= 0; }

int dims_index(const Dims *s, DimId d) {
  for (int i = 0; i < s->n; i++)
    if (s->at[i] == d) return i;
  return -1;
}

bool dims_equal(const Dims *a, const Dims *b) {
  return a->n == b->n && memcmp(a->at, b->at, a->n * sizeof a->at[0]) == 0;
}

bool dims_add(const DimTable *t, Dims *s, DimId d) {
  DimId whole = dim_get(t, d)->whole;
  if (dims_has(s, d)) return true;
  if (s->n == MAX_RANK) return false;
  int i = s->n++;
  for (; i > 0; i--) {
    DimId below = dim_get(t, s->at[i - 1])->whole;
    if (below < whole || (below == whole && s->at[i - 1] < d)) break;
    s->at[i] = s->at[i - 1];
  }
  s->at[i] = d;
  return true;
}

void dims_remove(Dims *s, DimId d) {
  int i = dims_index(s, d);
  if (i < 0) return;
  memmove(&s->at[i], &s->at[i + 1], (size_t)(s->n - i - 1) * sizeof s->at[0]);
  s->at[--s->n] = 0;
}

bool dims_elements(const DimTable *t, const Dims *s, int64_t *out) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++)
    if (!size_mul(n, dim_get(t, s->at[i])->size, &n) || n > (INT64_C(1) << 62)) return false;
  *out = n;
  return true;
}

char *dims_text(Arena *a, const DimTable *t, const Dims *s) {
  size_t n = 1;
  for (int i = 0; i < s->n; i++) n += strlen(dim_get(t, s->at[i])->name) + 2;
  char *text = arena_alloc(a, n), *p = text;
  for (int i = 0; i < s->n; i++) p += sprintf(p, "%s%s", i ? ", " : "", dim_get(t, s->at[i])->name);
  return text;
}
