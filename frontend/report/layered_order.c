// Orders the nodes of each layer of a drawing so that few links cross. Sweeps down and up put every
// node at the barycentre of its neighbours (Sugiyama et al. 1981). Exchanges of adjacent nodes
// remove more crossings (Gansner et al. 1993). The best order of all sweeps is kept.
#include "frontend/report/layered_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
  SWEEPS = 16,
  EXCHANGE_ROUNDS = 4,
  MOST_EXCHANGES = 20000
}; // MOST_EXCHANGES: graphs with more nodes skip the exchanges

// -- crossings ----------------------------------------------------------------------------------

static int by_number(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return a < b ? -1 : a > b;
}

// Returns the number of crossings of the links from a layer to the layer below. These are the
// inversions of the lower ends, counted with a binary indexed tree (Barth et al. 2002).
static uint64_t crossings_below(const Layers *l, uint32_t layer, uint32_t *tree, uint32_t *place) {
  uint32_t size = l->size[layer + 1];
  uint64_t crossings = 0, before = 0;
  memset(tree, 0, (size + 1) * sizeof *tree);
  for (uint32_t i = 0; i < l->size[layer]; i++) {
    const LayerNode *n = &l->node[l->at[layer][i]];
    for (uint32_t k = 0; k < n->ndown; k++) place[k] = l->node[n->down[k]].place;
    if (n->ndown > 1) qsort(place, n->ndown, sizeof *place, by_number);
    for (uint32_t k = 0; k < n->ndown;
         k++) { // earlier links that end to the left or at the same node do not cross
      uint64_t left = 0;
      for (uint32_t at = place[k] + 1; at; at &= at - 1) left += tree[at];
      crossings += before - left;
    }
    for (uint32_t k = 0; k < n->ndown; k++, before++)
      for (uint32_t at = place[k] + 1; at <= size; at += at & -at) tree[at]++;
  }
  return crossings;
}

static uint64_t crossings(const Layers *l, uint32_t *tree, uint32_t *place) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k + 1 < l->nlayers; k++) sum += crossings_below(l, k, tree, place);
  return sum;
}

// -- sweeps -------------------------------------------------------------------------------------

typedef struct Key {
  double at;
  uint32_t place, node;
} Key;

static int by_key(const void *x, const void *y) {
  const Key *a = x, *b = y;
  if (a->at < b->at || a->at > b->at) return a->at < b->at ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

static double share(const Layers *l, const LayerNode *n) {
  return ((double)n->place + 0.5) / (double)l->size[n->layer];
}

static double barycentre(const Layers *l, const LayerNode *n, uint32_t count,
                         const uint32_t *near) {
  double sum = 0;
  for (uint32_t k = 0; k < count; k++) sum += share(l, &l->node[near[k]]);
  return count ? sum / count : share(l, n);
}

// Sorts the nodes of a layer by barycentre, the mean place of the nodes linked to each. With `down`
// these are the linked nodes of the layer above, else below.
static void sort_layer(const Layers *l, uint32_t layer, bool down, Key *key) {
  uint32_t n = l->size[layer];
  for (uint32_t i = 0; i < n; i++) {
    const LayerNode *x = &l->node[l->at[layer][i]];
    key[i] = (Key){barycentre(l, x, down ? x->nup : x->ndown, down ? x->up : x->down), i,
                   l->at[layer][i]};
  }
  qsort(key, n, sizeof *key, by_key);
  for (uint32_t i = 0; i < n; i++) {
    l->at[layer][i] = key[i].node;
    l->node[key[i].node].place = i;
  }
}

static void sweep(const Layers *l, bool down, Key *key) {
  for (uint32_t k = 1; k < l->nlayers; k++) sort_layer(l, down ? k : l->nlayers - 1 - k, down, key);
}

// -- exchanges ----------------------------------------------------------------------------------

// Returns how many crossings are removed if two adjacent nodes of a layer are exchanged. x[0..nx)
// are the nodes of a neighbouring layer to which the left node is linked, y[0..ny) those of the
// right node.
static int64_t gain(const Layers *l, uint32_t nx, const uint32_t *x, uint32_t ny,
                    const uint32_t *y) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < nx; i++)
    for (uint32_t k = 0; k < ny; k++) {
      uint32_t a = l->node[x[i]].place, b = l->node[y[k]].place;
      sum += (a > b) - (a < b);
    }
  return sum;
}

// Exchanges adjacent nodes of a layer if this removes crossings of edges. Returns true if any nodes
// were exchanged.
static bool exchange_layer(const Layers *l, uint32_t layer) {
  bool any = false;
  for (uint32_t i = 0; i + 1 < l->size[layer]; i++) {
    uint32_t left = l->at[layer][i], right = l->at[layer][i + 1];
    LayerNode *x = &l->node[left], *y = &l->node[right];
    if (gain(l, x->nup, x->up, y->nup, y->up) + gain(l, x->ndown, x->down, y->ndown, y->down) <= 0)
      continue;
    l->at[layer][i] = right, l->at[layer][i + 1] = left;
    x->place = i + 1, y->place = i;
    any = true;
  }
  return any;
}

static void exchange(const Layers *l) {
  bool any = l->n <= MOST_EXCHANGES;
  for (int round = 0; any && round < EXCHANGE_ROUNDS; round++) {
    any = false;
    for (uint32_t k = 0; k < l->nlayers; k++) any |= exchange_layer(l, k);
  }
}

// -- the best order of all sweeps ---------------------------------------------------------------

void layers_order(Layers *l) {
  uint32_t widest = 0, degree = 0;
  for (uint32_t k = 0; k < l->nlayers; k++) widest = l->size[k] > widest ? l->size[k] : widest;
  for (uint32_t i = 0; i < l->n; i++)
    degree = l->node[i].ndown > degree ? l->node[i].ndown : degree;
  uint32_t *tree = arena_array(l->a, uint32_t, widest + 2),
           *place = arena_array(l->a, uint32_t, degree + 1);
  uint32_t *best = arena_array(l->a, uint32_t, l->n + 1);
  Key *key = arena_array(l->a, Key, widest + 1);
  uint64_t least = crossings(l, tree, place);
  for (uint32_t i = 0; i < l->n; i++) best[i] = l->node[i].place;
  for (int i = 0; i < SWEEPS && least; i++) {
    sweep(l, i % 2 == 0, key);
    exchange(l);
    uint64_t now = crossings(l, tree, place);
    if (now >= least) continue;
    least = now;
    for (uint32_t k = 0; k < l->n; k++) best[k] = l->node[k].place;
  }
  for (uint32_t i = 0; i < l->n; i++) {
    l->node[i].place = best[i];
    l->at[l->node[i].layer][best[i]] = i;
  }
}
