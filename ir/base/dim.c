// The table of dims, blocks of dims over mesh axes, and sets of dims.
//
//   A dim h of 5 elements over the axes cols (2) and rows (2) has the blocks "h/cols+rows". Over cols
//   the blocks have ceil(5/2) = 3 elements, then over rows ceil(3/2) = 2:
//     col 0: row 0 has elements 0-1, row 1 element 2;   col 1: row 0 has 3-4, row 1 none
#include "ir/base/dim.h"

#include "ir/base/map.h"

#include <stdio.h>
#include <string.h>

typedef struct Entry {
  DimId id;
  Dim dim;
  DimId first_block, next_block; // id of the first block of a whole dim; of a block: id of the next
                                 // block of its whole dim
} Entry;

struct DimTable {
  Arena *arena;
  Intern *names;
  // Dim d is entry.at[d - 1]. Entries are never moved, so pointers from dim_get stay valid.
  VEC(Entry *) entry;
  NameMap by_name; // dims by full name
};

DimTable *dim_table_new(Arena *a, Intern *names) {
  DimTable *t = arena_new_of(a, DimTable);
  t->arena = a;
  t->names = names;
  return t;
}

static Entry *entry_of(const DimTable *t, DimId d) {
  if (d == 0 || d > t->entry.n) BUG("no dim %u", d);
  return t->entry.at[d - 1];
}

const Dim *dim_get(const DimTable *t, DimId d) { return &entry_of(t, d)->dim; }
uint32_t dim_count(const DimTable *t) { return t->entry.n; }

static DimId insert(DimTable *t, Dim dim) {
  Entry *e = arena_new_of(t->arena, Entry);
  *e = (Entry){.id = t->entry.n + 1, .dim = dim};
  vec_push(t->arena, t->entry) = e;
  if (!e->dim.whole) e->dim.whole = e->id;
  map_put(t->arena, &t->by_name, dim.name, e);
  return e->id;
}

DimId dim_add(DimTable *t, const char *name, int64_t size, Pos pos) {
  return insert(t, (Dim){.name = intern(t->names, name), .size = size, .pos = pos});
}

DimId dim_add_live(DimTable *t, const char *name, int64_t size, DimId by, const int64_t *live) {
  return insert(
      t, (Dim){.name = intern(t->names, name),
               .size = size,
               .local = true,
               .by = by,
               .live = arena_copy(t->arena, live, (size_t)dim_get(t, by)->size * sizeof *live)});
}

int64_t dim_mean(const DimTable *t, DimId d) {
  const Dim *dim = dim_get(t, d);
  if (!dim->live) return dim->size;
  int64_t sum = 0, n = dim_get(t, dim->by)->size;
  for (int64_t i = 0; i < n; i++) sum += dim->live[i];
  return ceil_div(sum, n);
}

DimId dim_find(const DimTable *t, const char *name) {
  const Entry *e = map_get(&t->by_name, intern(t->names, name));
  return e ? e->id : 0;
}

DimId dim_local(DimTable *t, const char *name, int64_t size) {
  for (;; name = arena_printf(t->arena, "%s.again", name)) {
    DimId d = dim_find(t, name);
    if (!d) return insert(t, (Dim){.name = intern(t->names, name), .size = size, .local = true});
    if (dim_get(t, d)->size == size && dim_get(t, d)->local) return d;
  }
}

DimId dim_derived(DimTable *t, DimId d, const char *mark, int64_t size) {
  const char *name = arena_printf(t->arena, "%s.%s", dim_get(t, d)->name, mark);
  for (;; name = arena_printf(t->arena, "%s.again", name)) {
    DimId have = dim_find(t, name);
    if (!have) return dim_add(t, name, size, (Pos){0});
    if (dim_get(t, have)->size == size) return have;
  }
}

DimId dim_twin(DimTable *t, DimId d, const char *mark) {
  return dim_derived(t, d, mark, dim_get(t, d)->size);
}

const char *dim_intern(const DimTable *t, const char *text) { return intern(t->names, text); }

void dim_set_follows(DimTable *t, DimId d, DimId first) { entry_of(t, d)->dim.follows = first; }

DimTable *dim_table_whole(Arena *a, const DimTable *t) {
  DimTable *out = dim_table_new(a, intern_over(a, t->names));
  for (DimId d = 1; d <= t->entry.n; d++) {
    Dim dim = *dim_get(t, d);
    if (dim.whole == d && !dim.local && insert(out, dim) != d)
      BUG("whole dim %s behind a block", dim.name);
  }
  return out;
}

DimTable *dim_table_copy(Arena *a, const DimTable *t) {
  DimTable *out = dim_table_new(a, intern_over(a, t->names));
  for (DimId d = 1; d <= t->entry.n; d++) {
    const Entry *e = entry_of(t, d);
    insert(out, e->dim);
    out->entry.at[d - 1]->first_block = e->first_block;
    out->entry.at[d - 1]->next_block = e->next_block;
  }
  return out;
}

static DimId insert_block(DimTable *t, Entry *whole, Dim block) {
  DimId b = insert(t, block);
  entry_of(t, b)->next_block = whole->first_block;
  return whole->first_block = b;
}

DimId dim_block(DimTable *t, const Mesh *m, DimId whole, Axes axes) {
  Entry *w = entry_of(t, whole);
  if (w->dim.whole != whole) BUG("%s is a block already", w->dim.name);
  if (axes.n == 0) return whole;
  for (DimId b = w->first_block; b; b = entry_of(t, b)->next_block)
    if (!entry_of(t, b)->dim.out && axes_equal(entry_of(t, b)->dim.axes, axes)) return b;
  return insert_block(
      t, w,
      (Dim){.name = intern_printf(t->names, "%s/%s", w->dim.name, axes_text(t->arena, m, axes)),
            .size = block_length(m, w->dim.size, axes),
            .whole = whole,
            .axes = axes,
            .pos = w->dim.pos});
}

// -- footprint dims -----------------------------------------------------------------------------

void block_interval(const Mesh *m, Axes axes, int64_t length, int64_t rows, int64_t r,
                    int64_t *first, int64_t *valid) {
  *first = 0;
  *valid = rows;
  for (int i = 0; i < axes.n; i++) {
    length = ceil_div(length, m->axis[axes.at[i]].size);
    int64_t skip = mesh_coord(m, r, axes.at[i]) * length;
    *first += skip;
    *valid = clamp64(*valid - skip, 0, length);
  }
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Adds the range of factor * i to the range *lo to *hi, where i runs from first to first + n - 1.
static void widen_range(int64_t factor, int64_t first, int64_t n, int64_t *lo, int64_t *hi) {
  int64_t a = factor * first, b = factor * (first + n - 1);
  *lo += a < b ? a : b;
  *hi += a < b ? b : a;
}

void footprint_interval(const Mesh *m, const Footprint *x, int64_t whole, int64_t r, int64_t *first,
                        int64_t *n) {
  int64_t o, k, outs, taps, lo = x->affine.offset, hi = x->affine.offset;
  block_interval(m, x->out_axes, x->out_size, x->out_size, r, &o, &outs);
  block_interval(m, x->tap_axes, x->tap_size, x->tap_size, r, &k, &taps);
  *first = *n = 0;
  if (!outs || !taps) return;
  widen_range(x->affine.out, o, outs, &lo, &hi);
  widen_range(x->affine.tap, k, taps, &lo, &hi);
  lo = -floor_div(-lo, x->affine.divisor);
  hi = floor_div(hi, x->affine.divisor);
  if (lo < 0) lo = 0;
  if (hi > whole - 1) hi = whole - 1;
  if (hi < lo) return;
  *first = lo;
  *n = hi - lo + 1;
}

// Returns the name of a footprint dim, such as "y/oy/rows*1+ky*1-1": the part of dim y that the
// positions 1 * o + 1 * k - 1 cover, for o in the block oy/rows and k in the dim ky.
static const char *footprint_name(const DimTable *t, const Dim *x) {
  const Affine *f = &x->footprint.affine;
  const char *name = intern_printf(t->names, "%s/%s*%lld", dim_get(t, x->whole)->name,
                                   dim_get(t, x->out)->name, (long long)f->out);
  if (x->tap)
    name = intern_printf(t->names, "%s+%s*%lld", name, dim_get(t, x->tap)->name, (long long)f->tap);
  if (f->offset) name = intern_printf(t->names, "%s%+lld", name, (long long)f->offset);
  return f->divisor == 1 ? name : intern_printf(t->names, "%s/%lld", name, (long long)f->divisor);
}

static Footprint footprint_make(const DimTable *t, DimId of, DimId tap, Affine affine) {
  const Dim *o = dim_get(t, of), *k = tap ? dim_get(t, tap) : NULL;
  Footprint x = {
      .out_size = dim_get(t, o->whole)->size, .tap_size = 1, .out_axes = o->axes, .affine = affine};
  if (!k) return x;
  x.tap_size = dim_get(t, k->whole)->size;
  x.tap_axes = k->axes;
  return x;
}

static bool affine_equal(const Affine *a, const Affine *b) {
  return a->out == b->out && a->tap == b->tap && a->offset == b->offset && a->divisor == b->divisor;
}

DimId dim_footprint(DimTable *t, const Mesh *m, DimId whole, DimId of, DimId tap, Affine affine) {
  Entry *w = entry_of(t, whole);
  if (w->dim.whole != whole || affine.divisor <= 0) BUG("no footprint of %s", w->dim.name);
  for (DimId b = w->first_block; b; b = entry_of(t, b)->next_block) {
    const Dim *d = dim_get(t, b);
    if (d->out == of && d->tap == tap && affine_equal(&d->footprint.affine, &affine)) return b;
  }
  Dim x = {.size = 1,
           .whole = whole,
           .pos = w->dim.pos,
           .out = of,
           .tap = tap,
           .footprint = footprint_make(t, of, tap, affine)};
  x.axes = x.footprint.out_axes;
  for (int i = 0; i < x.footprint.tap_axes.n; i++)
    if (!axes_has(x.axes, x.footprint.tap_axes.at[i]))
      x.axes.at[x.axes.n++] = x.footprint.tap_axes.at[i];
  for (int64_t k = 0; k < axes_size(m, x.axes); k++) {
    int64_t first, n;
    footprint_interval(m, &x.footprint, w->dim.size, axes_peer(m, x.axes, 0, k), &first, &n);
    if (n > x.size) x.size = n;
  }
  x.name = footprint_name(t, &x);
  return insert_block(t, w, x);
}

// -- the part of a processor --------------------------------------------------------------------

// Computes processor r's part of dim d: its first index in the whole dim and its number of valid
// elements.
static void own_part(const DimTable *t, const Mesh *m, DimId d, int64_t r, int64_t rows,
                     int64_t *first, int64_t *n) {
  const Dim *dim = dim_get(t, d);
  int64_t size = dim_get(t, dim->whole)->size;
  if (!dim->out) {
    block_interval(m, dim->axes, size, rows, r, first, n);
    return;
  }
  footprint_interval(m, &dim->footprint, size, r, first, n);
  *n = clamp64(rows - *first, 0, *n);
}

int64_t dim_offset(const DimTable *t, const Mesh *m, DimId d, int64_t r) {
  int64_t first, n;
  own_part(t, m, d, r, dim_get(t, dim_get(t, d)->whole)->size, &first, &n);
  return first;
}

int64_t dim_valid(const DimTable *t, const Mesh *m, DimId d, int64_t r, int64_t rows) {
  int64_t first, n;
  own_part(t, m, d, r, rows, &first, &n);
  return n;
}

// Compares the valid length of each processor's part with the size of d. For blocks the last
// processor is enough, because it has the shortest block. The intervals of a footprint dim can be
// shorter at either edge, so all processors are compared.
bool dim_uneven(const DimTable *t, const Mesh *m, DimId d) {
  const Dim *dim = dim_get(t, d);
  int64_t whole = dim_get(t, dim->whole)->size, n = axes_size(m, dim->axes);
  for (int64_t k = dim->out ? 0 : n - 1; k < n; k++)
    if (dim_valid(t, m, d, axes_peer(m, dim->axes, 0, k), whole) != dim->size) return true;
  return false;
}

Dims dims_make(int n, const DimId *list) {
  Dims s = {.n = (uint8_t)n};
  for (int i = 0; i < n; i++) s.at[i] = list[i];
  return s;
}

double dims_product(const DimTable *t, int n, const DimId *list) {
  double product = 1;
  for (int i = 0; i < n; i++) product *= (double)dim_get(t, list[i])->size;
  return product;
}

bool dims_equal(const Dims *a, const Dims *b) {
  return a == b || (a->n == b->n && memcmp(a->at, b->at, a->n * sizeof a->at[0]) == 0);
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
