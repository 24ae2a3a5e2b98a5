// Lets products leave out what a mask discards. In: a graph. Out: the same graph, or one in which a
// mask selects the elements of such products.
//
// Some operations multiply elements of a product by 0, because the weights of masked scores are 0.
// Such elements must be finite, so they would have to be computed. If 0 takes their place, nothing
// reads them, and the product leaves them out (values/live.c).
//
//   dp = contract(do, v); ds = p * (dp - sum[s](p * dp))
//   =>  dp = where(s <= t, contract(do, v), 0)                     p is 0 elsewhere
#include "codegen/order/order_internal.h"
#include "codegen/values/live_internal.h"

typedef struct Selector {
  const Graph *g;
  Graph *to;
  Live *live;
  NodeId *map;   // by old node: its copy, 0: not made yet
  NodeId *masks; // the masks of the graph: conditions of choices, computed from indices alone
  uint32_t nmasks;
} Selector;

static void find_masks(Arena *a, Selector *s) {
  bool *seen = arena_array(a, bool, graph_count(s->g) + 1);
  s->masks = arena_array(a, NodeId, graph_count(s->g) + 1);
  for (NodeId n = 1; n <= graph_count(s->g); n++) {
    const Node *x = graph_node(s->g, n);
    NodeId c = x->op == OP_WHERE ? x->args[0] : 0;
    if (!c || seen[c] || !s->live->indexed[c] || !s->live->indices[c].n) continue;
    seen[c] = true;
    s->masks[s->nmasks++] = c;
  }
}

// Returns the number of blocks of the pair of dims x, y in which mask c is false.
static int masked_blocks(Selector *s, NodeId c, DimId x, DimId y) {
  int dead = 0;
  LiveGrains gx = live_grains(s->live, x), gy = live_grains(s->live, y);
  for (int64_t i = 0; i < gx.n; i++)
    for (int64_t k = 0; k < gy.n; k++) {
      Span first = live_grain(&gx, i, NULL), both = live_grain(&gy, k, &first);
      live_at(s->live, &both);
      dead += range_is(live_range(s->live, c, &both, 0), 0);
    }
  return dead;
}

// Returns whether elements of product n are multiplied by 0 wherever mask c is false.
static bool masks(Selector *s, NodeId c, NodeId n) {
  const Node *x = graph_node(s->g, n), *mask = graph_node(s->g, c);
  if (!list_has_all(x->dims, mask->dims) || !region_encloses(s->g, mask->region, x->region))
    return false;
  live_where_masked(s->live, c);
  return live_need(s->live, n, 0) == NEED_FINITE;
}

// Returns the mask that discards most of product n, 0: none discards any of it.
static NodeId mask_of(Selector *s, NodeId n) {
  const Live *l = s->live;
  NodeId best = 0;
  int most = 0;
  for (uint32_t i = 0; i < s->nmasks; i++) {
    if (!masks(s, s->masks[i], n)) continue;
    for (int p = 0; p < l->npairs; p++) {
      DimId x = l->pair[0][p], y = l->pair[1][p];
      int dead = live_has(l, n, x) && live_has(l, n, y) ? masked_blocks(s, s->masks[i], x, y) : 0;
      if (dead > most) most = dead, best = s->masks[i];
    }
  }
  return best;
}

static NodeId copied(Selector *s, NodeId n) {
  const Node *x = graph_node(s->g, n);
  if (s->map[n]) return s->map[n];
  for (int i = 0; i < x->nargs; i++) (void)copied(s, x->args[i]);
  return s->map[n] = graph_copy(s->to, s->g, n, s->map);
}

// Sets mask[n] for each product n of which a mask discards elements. Returns whether there is one.
static bool find_selected(Selector *s, NodeId *mask) {
  bool any = false;
  for (NodeId n = 1; n <= graph_count(s->g); n++) {
    bug_context("select", n);
    if (graph_node(s->g, n)->op != OP_CONTRACT) continue;
    mask[n] = mask_of(s, n);
    any |= mask[n] != 0;
  }
  return any;
}

static void select_in(Selector *s, NodeId n, NodeId mask) {
  const Node *x = graph_node(s->g, n);
  NodeId made = copied(s, n), c = copied(s, mask);
  s->to->origin = *x->origin;
  s->to->origin.why = "a mask discards the rest of a product";
  Dims none = {0};
  NodeId zero = graph_zeros(s->to, (Dtype)x->type, &none);
  s->map[n] = graph_where(s->to, c, made, zero);
}

// Returns a copy of g in which masks select the elements of products, or g if none does. Tables are
// in `scratch`.
static const Graph *copy_selected(Arena *a, Arena *scratch, const Graph *g, Live *live) {
  Selector s = {.g = g, .live = live};
  NodeId *mask = arena_array(scratch, NodeId, graph_count(g) + 1);
  find_masks(scratch, &s);
  if (!find_selected(&s, mask)) return g;
  s.to = graph_like(a, g, g->stage);
  s.map = arena_array(scratch, NodeId, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    if (mask[n])
      select_in(&s, n, mask[n]);
    else
      (void)copied(&s, n);
  }
  graph_copy_outputs(s.to, g, s.map);
  return graph_prune_in_place(a, s.to, g->stage);
}

const Graph *live_select(Arena *a, const Graph *g, const CodegenOptions *opt) {
  if (opt->gpu || !opt->products) return g;
  Arena *scratch = arena_new();
  Live *live = live_new(scratch, g, opt->blocked_rows);
  const Graph *out = live ? copy_selected(a, scratch, g, live) : g;
  arena_free(scratch);
  return out;
}
