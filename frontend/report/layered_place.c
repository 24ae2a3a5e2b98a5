// Finds the horizontal positions of a layered drawing. Sweeps down and up move every box near the
// middle of its neighbours, and every bend near the node that the sweep comes from. The order of
// each layer is kept. A long edge thus becomes a vertical line that avoids boxes. It would become a
// diagonal if bends moved to the middle of both neighbours. Bends pull harder than boxes (the
// weights of Gansner et al. 1993).
//
// For one layer this is a least-squares problem with an order constraint. After subtracting the
// gaps, neighbours that would be in the wrong order are joined into blocks at their common mean
// (pool adjacent violators, Ayer et al. 1955).
#include "frontend/report/layered_internal.h"

enum { ROUNDS = 16, BOX_GAP = 16, BEND_GAP = 10 };

// Returns the least horizontal distance, in pixels, between the middles of adjacent nodes x and y
// of a layer.
static double apart(const LayerNode *x, const LayerNode *y) {
  return x->width / 2 + y->width / 2 + (x->bend || y->bend ? BEND_GAP : BOX_GAP);
}

static double pull(const LayerNode *x, const LayerNode *y) {
  return x->bend && y->bend ? 8 : x->bend || y->bend ? 2 : 1;
}

static void add_pull(const Layers *l, const LayerNode *n, uint32_t count, const uint32_t *near,
                     double *weight, double *sum) {
  for (uint32_t k = 0; k < count; k++) {
    const LayerNode *x = &l->node[near[k]];
    *weight += pull(n, x);
    *sum += pull(n, x) * x->x;
  }
}

// Adjacent nodes of a layer that are moved together. The position of these nodes is sum / weight.
typedef struct Block {
  double weight, sum; // over its nodes: sum of weights; sum of weight * (target - offset)
  uint32_t first;
} Block;

// Places the nodes of one layer near the nodes linked to them: those in the layer above if `down`,
// else those below. With `both`, boxes go to the middle of the linked nodes on both sides. A node
// without links goes to `middle`, the middle of the drawing. block and offset are scratch memory
// for the nodes of a layer.
static void place_layer(const Layers *l, uint32_t layer, bool down, bool both, double middle,
                        Block *block, double *offset) {
  static const double still = 0.01; // the weight of a node's current position, or of `middle`
  uint32_t n = 0, size = l->size[layer];
  for (uint32_t i = 0; i < size; i++) {
    const LayerNode *x = &l->node[l->at[layer][i]];
    double weight = still, sum = still * (x->nup + x->ndown ? x->x : middle);
    if (down || (both && !x->bend)) add_pull(l, x, x->nup, x->up, &weight, &sum);
    if (!down || (both && !x->bend)) add_pull(l, x, x->ndown, x->down, &weight, &sum);
    offset[i] = i ? offset[i - 1] + apart(&l->node[l->at[layer][i - 1]], x) : 0;
    block[n++] = (Block){weight, sum - weight * offset[i], i};
    for (; n > 1 && block[n - 2].sum * block[n - 1].weight > block[n - 1].sum * block[n - 2].weight;
         n--) {
      block[n - 2].weight += block[n - 1].weight;
      block[n - 2].sum += block[n - 1].sum;
    }
  }
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = block[k].first; i < (k + 1 < n ? block[k + 1].first : size); i++)
      l->node[l->at[layer][i]].x = block[k].sum / block[k].weight + offset[i];
}

// Sets the first positions of all nodes: those of a layer are side by side, with the middle of the
// layer at x = 0.
static void place_first(const Layers *l) {
  for (uint32_t k = 0; k < l->nlayers; k++) {
    double x = 0;
    for (uint32_t i = 0; i < l->size[k]; i++) {
      LayerNode *n = &l->node[l->at[k][i]];
      x += i ? apart(&l->node[l->at[k][i - 1]], n) : 0;
      n->x = x;
    }
    for (uint32_t i = 0; i < l->size[k]; i++) l->node[l->at[k][i]].x -= x / 2;
  }
}

static double middle_of(const Layers *l) {
  double sum = 0, n = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->node[i].nup + l->node[i].ndown) sum += l->node[i].x, n++;
  return n > 0 ? sum / n : 0;
}

void layers_place(Layers *l) {
  uint32_t widest = 0;
  for (uint32_t k = 0; k < l->nlayers; k++) widest = l->size[k] > widest ? l->size[k] : widest;
  Block *block = arena_array(l->a, Block, widest + 1);
  double *offset = arena_array(l->a, double, widest + 1);
  place_first(l);
  for (int round = 0; round < ROUNDS; round++) {
    bool both = round >= ROUNDS / 4;
    double middle = middle_of(l);
    for (uint32_t k = l->nlayers; k-- > 0;) place_layer(l, k, false, both, middle, block, offset);
    for (uint32_t k = 0; k < l->nlayers; k++) place_layer(l, k, true, both, middle, block, offset);
  }
}
