// Raises the lower bounds of candidates by the exact costs of pairs of axes, which say how two axes
// interact (search.c). Candidates share pairs, so their costs are kept in a table.
#include <math.h>
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/search_internal.h"

enum { PAIRS = 1 << 12 }; // entries of the hash table

void pairs_new(Search *s) { s->pair = arena_array(s->a, PairEntry, PAIRS); }

// Returns the exact cost of two axes with the dims that they split, estimated on a mesh of these
// two axes only. `v` is a mesh with an order of its axes.
static const PairBound *estimate_pair(Search *s, const View *v, const int axis[2],
                                      const PairKey *key) {
  Arena *a = arena_new();
  Mesh both = {.naxes = 2,
               .axis = {v->mesh->axis[v->order[axis[0]]], v->mesh->axis[v->order[axis[1]]]}};
  View view = {.mesh = &both, .order = {0, 1}};
  DimSet set[2];
  Layout layout;
  for (int i = 0; i < 2; i++) set[i] = s->space.kind.at[key->kind[i]]->set[key->set[i]];
  if (!space_layout(&s->space, a, &view, set, &layout))
    BUG("a pair of axes splits a dim too often");
  PartCosts together = cost_in_parts(a, s->task, s->parts, &both, &layout);
  const PairBound *pair = bounds_pair(s->bounds, s->parts, &together);
  arena_free(a);
  return pair;
}

// Returns the entry of the hash table of axis pairs that has this key, or else a free entry.
// Returns NULL if the table is full and lacks the key.
static PairEntry *find_pair(Search *s, const PairKey *key) {
  uint64_t h = hash_bytes(FNV_START, key, sizeof *key);
  for (uint32_t i = (uint32_t)(h >> 40) % PAIRS, n = 0; n < PAIRS; n++, i = (i + 1) % PAIRS) {
    PairEntry *e = &s->pair[i];
    if (!e->pair || !memcmp(&e->key, key, sizeof *key)) return e;
  }
  return NULL;
}

// Sets axis[] to pair number n, from 0, of all pairs of the `naxes` axes of a mesh. Returns false
// if there are n pairs or fewer.
static bool nth_pair(int naxes, int n, int axis[2]) {
  for (axis[0] = 0; axis[0] < naxes; axis[0]++)
    for (axis[1] = axis[0] + 1; axis[1] < naxes; axis[1]++)
      if (n-- == 0) return true;
  return false;
}

// Raises the lower bound of candidate c by the exact cost of two of its axes. The bound is computed
// again with these two axes first, then the other axes. Returns true if the pair had to be
// estimated, false if its cost was known or the table of pairs is full.
static bool tighten(Search *s, Candidate *c, const int axis[2]) {
  const View *v = &s->space.view.at[c->view];
  const uint32_t *of = v->kind;
  PairKey key = {{of[axis[0]], of[axis[1]]}, {c->set[axis[0]], c->set[axis[1]]}};
  uint32_t kind[MAX_AXES] = {key.kind[0], key.kind[1]}, set[MAX_AXES] = {key.set[0], key.set[1]};
  int n = 2;
  for (int k = 0; k < v->mesh->naxes; k++)
    if (k != axis[0] && k != axis[1]) kind[n] = of[k], set[n++] = c->set[k];
  PairEntry *e = find_pair(s, &key);
  c->pairs++;
  if (!e) return false;
  bool isnew = !e->pair;
  if (isnew) *e = (PairEntry){key, estimate_pair(s, v, axis, &key)};
  bounds_begin_pair(s->bounds, n, kind, e->pair, key.set);
  for (int k = 2; k < n; k++) {
    bounds_enter(s->bounds, k);
    c->bound = fmax(c->bound, bounds_with(s->bounds, k, set[k], (double)INFINITY));
    bounds_assign(s->bounds, k, set[k]);
  }
  return isnew;
}

bool pairs_tighten(Search *s, Candidate *c, bool *estimated) {
  int axis[2], naxes = s->space.view.at[c->view].mesh->naxes;
  if (naxes <= 2 || !nth_pair(naxes, c->pairs, axis)) return false;
  *estimated = tighten(s, c, axis);
  return true;
}
