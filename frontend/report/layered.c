// Draws a graph in layers (layered.h): finds the ranks of boxes, the bends of long edges, and the
// path of each edge through the layers. layered_order.c orders the layers, layered_place.c finds x.
//
// Edges that close a cycle are reversed while the drawing is made. All edges that leave a box share
// their bends: a value with many readers is one line that branches.
#include "frontend/report/layered_internal.h"

#include <math.h>
#include <stdlib.h>

enum {
  LAYER_GAP = 26,
  MOST_LAYER_GAP = 90,
  BEND_WIDTH = 2,
  STEEPNESS = 14
}; // in pixels; STEEPNESS: the most horizontal pixels of an edge for each vertical pixel

typedef struct Link {
  uint32_t upper, lower; // indices into Layers.node
} Link;

typedef struct Layout {
  Arena *a;
  Drawn *d;
  uint32_t *upper, *lower; // indexed by edge: its boxes, after edges that close cycles are reversed
  uint32_t *place;         // indexed by box: its position in a topological order
  uint32_t *down;          // the drawn edges, sorted by `place` of the upper, then of the lower box
  uint32_t ndown;
  bool *reached;         // indexed by box: true if an edge leads to it
  VEC(uint32_t) bend_of; // indexed by bend: the box whose edges pass through it
  VEC(uint32_t) bend_layer;
  VEC(Link) link;
  uint32_t **way; // indexed by edge: the nodes of its bends, from top to bottom
  Layers layers;
} Layout;

#define NO_BOX UINT32_MAX

static bool is_loop(const DrawnEdge *e) { return e->from == e->to; }

// -- cycles -------------------------------------------------------------------------------------

typedef struct Visit {
  uint32_t box, next; // next: index into `out` (turn_cycles) of the next edge to follow
} Visit;

// Turns some edges round, so that the graph has no cycles. Visits boxes depth first, and reverses
// an edge to a box whose visit has not ended. Sets l->place from the reverse postorder. The edges
// that leave box i are out[first[i]] to out[first[i + 1] - 1].
static void turn_cycles(const Layout *l, const uint32_t *first, const uint32_t *out) {
  enum { NEW, OPEN, DONE };
  const Drawn *d = l->d;
  uint8_t *seen = arena_array(l->a, uint8_t, d->nboxes + 1);
  Visit *stack = arena_array(l->a, Visit, d->nboxes + 1);
  uint32_t left = d->nboxes;
  for (uint32_t root = 0; root < d->nboxes; root++) {
    uint32_t depth = 0, enter = root;
    if (seen[root] != NEW) continue;
    for (;;) {
      if (seen[enter] == NEW) stack[depth++] = (Visit){enter, first[enter]};
      seen[enter] = OPEN;
      Visit *v = &stack[depth - 1];
      while (v->next < first[v->box + 1] && seen[d->edge[out[v->next]].to] != NEW) {
        DrawnEdge *e = &d->edge[out[v->next++]];
        e->against = seen[e->to] == OPEN && !is_loop(e);
      }
      if (v->next < first[v->box + 1]) {
        enter = d->edge[out[v->next++]].to;
        continue;
      }
      seen[v->box] = DONE;
      l->place[v->box] = --left;
      if (--depth == 0) break;
      enter = stack[depth - 1].box;
    }
  }
}

static void find_cycles(Layout *l) {
  const Drawn *d = l->d;
  uint32_t *first = arena_array(l->a, uint32_t, d->nboxes + 2),
           *out = arena_array(l->a, uint32_t, d->nedges + 1);
  for (uint32_t i = 0; i < d->nedges; i++) first[d->edge[i].from + 1]++;
  for (uint32_t b = 0; b < d->nboxes; b++) first[b + 1] += first[b];
  uint32_t *next = arena_copy(l->a, first, (d->nboxes + 1) * sizeof *first);
  for (uint32_t i = 0; i < d->nedges; i++) {
    out[next[d->edge[i].from]++] = i;
    d->edge[i].against = false;
    d->edge[i].npoints = 0;
  }
  l->place = arena_array(l->a, uint32_t, d->nboxes + 1);
  turn_cycles(l, first, out);
}

typedef struct Sorted {
  uint32_t upper, lower, edge; // upper, lower: values of Layout.place
} Sorted;

static int by_places(const void *x, const void *y) {
  const Sorted *a = x, *b = y;
  if (a->upper != b->upper) return a->upper < b->upper ? -1 : 1;
  if (a->lower != b->lower) return a->lower < b->lower ? -1 : 1;
  return a->edge < b->edge ? -1 : a->edge > b->edge;
}

static void sort_edges(Layout *l) {
  const Drawn *d = l->d;
  Sorted *list = arena_array(l->a, Sorted, d->nedges + 1);
  l->upper = arena_array(l->a, uint32_t, d->nedges + 1);
  l->lower = arena_array(l->a, uint32_t, d->nedges + 1);
  l->down = arena_array(l->a, uint32_t, d->nedges + 1);
  l->reached = arena_array(l->a, bool, d->nboxes + 1);
  for (uint32_t i = 0; i < d->nedges; i++) {
    const DrawnEdge *e = &d->edge[i];
    l->upper[i] = e->against ? e->to : e->from;
    l->lower[i] = e->against ? e->from : e->to;
    if (is_loop(e)) continue;
    l->reached[l->lower[i]] = true;
    list[l->ndown++] = (Sorted){l->place[l->upper[i]], l->place[l->lower[i]], i};
  }
  if (l->ndown) qsort(list, l->ndown, sizeof *list, by_places);
  for (uint32_t i = 0; i < l->ndown; i++) l->down[i] = list[i].edge;
}

// -- layers -------------------------------------------------------------------------------------

// Sets rank[i] for each box i: the number of edges on the longest path that leads to the box. A box
// without incoming edges gets the rank just before that of its first reader. Returns the number of
// ranks.
static uint32_t find_ranks(const Layout *l, uint32_t *rank) {
  uint32_t n = 0, *least = arena_array(l->a, uint32_t, l->d->nboxes + 1);
  for (uint32_t i = 0; i < l->ndown; i++) {
    uint32_t from = l->upper[l->down[i]], to = l->lower[l->down[i]];
    if (rank[to] <= rank[from]) rank[to] = rank[from] + 1;
  }
  for (uint32_t i = 0; i < l->ndown; i++) {
    uint32_t from = l->upper[l->down[i]], to = rank[l->lower[l->down[i]]];
    if (!least[from] || to < least[from]) least[from] = to;
  }
  for (uint32_t b = 0; b < l->d->nboxes; b++) {
    if (!l->reached[b] && least[b]) rank[b] = least[b] - 1;
    if (rank[b] + 1 > n) n = rank[b] + 1;
  }
  return n;
}

// Assigns the n boxes of one rank to layers, from `layer` on: to several layers if the boxes are
// too wide for one. No edge joins two boxes of a rank. Boxes without incoming edges get the upper
// layers, so that the incoming edges of the other boxes stay short. Returns the number of the layer
// after those used.
static uint32_t divide_rank(const Layout *l, const uint32_t *box, uint32_t n, uint32_t layer) {
  double width = 0;
  uint32_t last = layer;
  for (int reached = 0; reached < 2; reached++)
    for (uint32_t i = 0; i < n; i++) {
      DrawnBox *b = &l->d->box[box[i]];
      if (l->reached[box[i]] != reached) continue;
      if (width > 0 && width + b->width > l->d->most_width) layer = ++last, width = 0;
      b->layer = layer;
      width += b->width;
    }
  return n ? last + 1 : layer;
}

static uint32_t find_layers(const Layout *l) {
  const Drawn *d = l->d;
  uint32_t *rank = arena_array(l->a, uint32_t, d->nboxes + 1), nranks = find_ranks(l, rank),
           layer = 0;
  uint32_t *first = arena_array(l->a, uint32_t, nranks + 2),
           *box = arena_array(l->a, uint32_t, d->nboxes + 1);
  for (uint32_t b = 0; b < d->nboxes; b++) first[rank[b] + 1]++;
  for (uint32_t r = 0; r < nranks; r++) first[r + 1] += first[r];
  uint32_t *next = arena_copy(l->a, first, (nranks + 1) * sizeof *first);
  for (uint32_t b = 0; b < d->nboxes; b++) box[next[rank[b]]++] = b;
  for (uint32_t r = 0; r < nranks; r++)
    layer = divide_rank(l, box + first[r], first[r + 1] - first[r], layer);
  return layer;
}

// -- bends --------------------------------------------------------------------------------------

static uint32_t add_bend(Layout *l, uint32_t of, uint32_t layer, uint32_t above) {
  uint32_t node = l->d->nboxes + l->bend_of.n;
  vec_push(l->a, l->bend_of) = of;
  vec_push(l->a, l->bend_layer) = layer;
  vec_push(l->a, l->link) = (Link){above, node};
  return node;
}

// Adds a bend, a point through which an edge is drawn, in every layer between the ends of an edge.
// Edges that leave one box share bends, except reversed edges, which lead to their upper box.
// Returns false if there would be too many bends.
static bool add_bends(Layout *l) {
  const DrawnBox *box = l->d->box;
  uint32_t *trunk = arena_array(l->a, uint32_t, l->layers.nlayers + 1), of = NO_BOX,
           last = 0; // trunk[layer]: the bend of box `of` there, for layers down to `last`
  l->way = arena_array(l->a, uint32_t *, l->d->nedges + 1);
  for (uint32_t k = 0; k < l->ndown; k++) {
    uint32_t i = l->down[k], upper = l->upper[i], from = box[upper].layer,
             to = box[l->lower[i]].layer, above = upper;
    bool shared = of == upper && !l->d->edge[i].against;
    if (!l->d->edge[i].against && !shared) of = upper, last = from;
    l->d->edge[i].shared = shared ? 2 * ((to - 1 < last ? to - 1 : last) - from) + 2 : 0;
    l->way[i] = arena_array(l->a, uint32_t, to - from);
    for (uint32_t layer = from + 1; layer < to; layer++) {
      bool own = l->d->edge[i].against;
      if (own || layer > last)
        above = add_bend(l, upper, layer, above);
      else
        above = trunk[layer];
      if (!own && layer > last) trunk[layer] = above, last = layer;
      l->way[i][layer - from - 1] = above;
    }
    vec_push(l->a, l->link) = (Link){above, l->lower[i]};
    if (l->d->nboxes + l->bend_of.n > LAYERED_MOST) return false;
  }
  return true;
}

static void link_nodes(const Layout *l) {
  LayerNode *node = l->layers.node;
  for (uint32_t i = 0; i < l->link.n; i++)
    node[l->link.at[i].upper].ndown++, node[l->link.at[i].lower].nup++;
  for (uint32_t i = 0; i < l->layers.n; i++) {
    node[i].up = arena_array(l->a, uint32_t, node[i].nup + 1);
    node[i].down = arena_array(l->a, uint32_t, node[i].ndown + 1);
    node[i].nup = node[i].ndown = 0;
  }
  for (uint32_t i = 0; i < l->link.n; i++) {
    LayerNode *upper = &node[l->link.at[i].upper], *lower = &node[l->link.at[i].lower];
    upper->down[upper->ndown++] = l->link.at[i].lower;
    lower->up[lower->nup++] = l->link.at[i].upper;
  }
}

// Fills each layer of the drawing with its boxes and bends, in the order of the boxes. A bend
// (where an edge crosses the layer) gets the place of the box whose edges pass through it.
static void fill_layers(Layout *l) {
  Layers *layers = &l->layers;
  uint32_t nboxes = l->d->nboxes, *next = arena_array(l->a, uint32_t, nboxes + 2), *order;
  layers->n = nboxes + l->bend_of.n;
  layers->node = arena_array(l->a, LayerNode, layers->n + 1);
  order = arena_array(l->a, uint32_t, layers->n + 1);
  for (uint32_t i = 0; i < layers->n; i++) next[(i < nboxes ? i : l->bend_of.at[i - nboxes]) + 1]++;
  for (uint32_t b = 0; b < nboxes; b++) next[b + 1] += next[b];
  for (uint32_t i = 0; i < layers->n; i++)
    order[next[i < nboxes ? i : l->bend_of.at[i - nboxes]]++] = i;
  for (uint32_t i = 0; i < layers->n; i++) {
    bool bend = i >= nboxes;
    layers->node[i] = (LayerNode){.layer = bend ? l->bend_layer.at[i - nboxes] : l->d->box[i].layer,
                                  .bend = bend,
                                  .width = bend ? BEND_WIDTH : l->d->box[i].width};
    layers->size[layers->node[i].layer]++;
  }
  for (uint32_t k = 0; k < layers->nlayers; k++) {
    layers->at[k] = arena_array(l->a, uint32_t, layers->size[k] + 1);
    layers->size[k] = 0;
  }
  for (uint32_t i = 0; i < layers->n; i++) {
    LayerNode *n = &layers->node[order[i]];
    n->place = layers->size[n->layer]++;
    layers->at[n->layer][n->place] = order[i];
  }
}

// -- coordinates --------------------------------------------------------------------------------

typedef struct Band {
  double top, bottom; // upper and lower edge of a layer
} Band;

// Returns the height of the gap below a layer. The gap grows with the horizontal distance that
// edges cover in it, to keep them from being too flat.
static double gap_below(const Layers *l, uint32_t layer) {
  double most = 0;
  for (uint32_t i = 0; i < l->size[layer]; i++) {
    const LayerNode *n = &l->node[l->at[layer][i]];
    for (uint32_t k = 0; k < n->ndown; k++) most = fmax(most, fabs(n->x - l->node[n->down[k]].x));
  }
  return fmin(LAYER_GAP + most / STEEPNESS, MOST_LAYER_GAP);
}

// Returns the vertical position of each layer, computed from the tallest box of each layer and the
// gaps between layers.
static Band *find_bands(const Layout *l) {
  const Drawn *d = l->d;
  Band *band = arena_array(l->a, Band, l->layers.nlayers + 1);
  double *tallest = arena_array(l->a, double, l->layers.nlayers + 1), y = 0;
  for (uint32_t b = 0; b < d->nboxes; b++)
    tallest[d->box[b].layer] = fmax(tallest[d->box[b].layer], d->box[b].height);
  for (uint32_t k = 0; k < l->layers.nlayers; k++) {
    band[k] = (Band){y, y + tallest[k]};
    y += tallest[k] + gap_below(&l->layers, k);
  }
  return band;
}

// Moves all boxes and bends so that the leftmost one is at x = 0. Sets the positions of the boxes
// and the size of the drawing.
static void place_boxes(const Layout *l, const Band *band) {
  Drawn *d = l->d;
  double left = HUGE_VAL;
  d->width = d->height = 0;
  for (uint32_t i = 0; i < l->layers.n; i++)
    left = fmin(left, l->layers.node[i].x - l->layers.node[i].width / 2);
  for (uint32_t i = 0; i < l->layers.n; i++) {
    LayerNode *n = &l->layers.node[i];
    n->x -= left;
    d->width = fmax(d->width, n->x + n->width / 2);
    d->height = fmax(d->height, band[n->layer].bottom);
    if (n->bend) continue;
    DrawnBox *b = &d->box[i];
    b->x = n->x - n->width / 2;
    b->y = (band[n->layer].top + band[n->layer].bottom - b->height) / 2;
  }
}

// Sets the points through which edge i is drawn: two for its upper box, two for each bend, two for
// its lower box.
static void place_edge(const Layout *l, Arena *a, const Band *band, uint32_t i) {
  DrawnEdge *e = &l->d->edge[i];
  const DrawnBox *upper = &l->d->box[l->upper[i]], *lower = &l->d->box[l->lower[i]];
  double x = l->layers.node[l->upper[i]].x, end = l->layers.node[l->lower[i]].x;
  uint32_t n = 0, bends = lower->layer - upper->layer - 1;
  e->point = arena_array(a, DrawnPoint, 2 * (bends + 2));
  e->point[n++] = (DrawnPoint){x, upper->y + upper->height};
  e->point[n++] = (DrawnPoint){x, band[upper->layer].bottom};
  for (uint32_t k = 0; k < bends; k++) {
    x = l->layers.node[l->way[i][k]].x;
    e->point[n++] = (DrawnPoint){x, band[upper->layer + 1 + k].top};
    e->point[n++] = (DrawnPoint){x, band[upper->layer + 1 + k].bottom};
  }
  e->point[n++] = (DrawnPoint){end, band[lower->layer].top};
  e->point[n++] = (DrawnPoint){end, lower->y};
  e->npoints = n;
}

static bool lay_out(Layout *l) {
  Layers *layers = &l->layers;
  find_cycles(l);
  sort_edges(l);
  layers->a = l->a;
  layers->nlayers = find_layers(l);
  layers->size = arena_array(l->a, uint32_t, layers->nlayers + 1);
  layers->at = arena_array(l->a, uint32_t *, layers->nlayers + 1);
  if (l->d->nboxes > LAYERED_MOST || !add_bends(l)) return false;
  fill_layers(l);
  link_nodes(l);
  layers_order(layers);
  layers_place(layers);
  return true;
}

bool layered_draw(Arena *a, Drawn *d) {
  Layout l = {.a = arena_new(), .d = d};
  bool good = lay_out(&l);
  const Band *band = good ? find_bands(&l) : NULL;
  if (good) place_boxes(&l, band);
  for (uint32_t k = 0; good && k < l.ndown; k++) place_edge(&l, a, band, l.down[k]);
  arena_free(l.a);
  return good;
}
