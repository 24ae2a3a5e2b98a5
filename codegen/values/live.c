// Finds the blocks of products that are computed (live_internal.h).
//
//   s = contract(q, k) {dims=[d]}       s is needed where s <= t: elsewhere `where` discards it
//   p = softmax(where(s <= t, s, -inf)) 0 elsewhere
//   o = contract(p, v) {dims=[s]}       sums over s <= t
//
// The result of a product may be left out where no operation reads it. A term of its sum may be
// left out where a factor is 0.
#include "codegen/values/live_internal.h"

#include <math.h>
#include <string.h>

enum {
  GRAIN = 16,        // least elements of a dim that are looked at together
  MOST_GRAINS = 32,  // parts of a dim that are looked at
  LEAST_BLOCK = 32,  // elements of a block of a product that sums `span`
  MOST_BLOCKS = 8,   // blocks of a product
  MOST_PERCENT = 90, // of the elements that are computed: with more of them nothing is left out
};

// -- masks ---------------------------------------------------------------------------------------

// Sets *out to the dims of the indices from which alone node n is computed. Returns false if it is
// computed from other values too.
static bool indices_of(const Live *l, const Node *n, Dims *out) {
  *out = (Dims){0};
  if (n->op == OP_INDEX) return list_insert(out, 0, n->attr->dims[0]), true;
  OpClass cls = op_row((Op)n->op)->cls;
  bool view = n->op == OP_RENAME || n->op == OP_SPLIT || n->op == OP_AT || n->op == OP_BROADCAST;
  if (n->op != OP_CONST && cls != POINTWISE && !view) return false;
  for (int i = 0; i < n->nargs; i++) {
    const Dims *more = &l->indices[n->args[i]];
    if (!l->indexed[n->args[i]] || out->n + more->n > MAX_RANK) return false;
    *out = list_union(out, more);
  }
  for (int i = 0; i < n->attr->ndims && (n->op == OP_RENAME || n->op == OP_SPLIT); i++)
    dims_remove(out, n->attr->dims[i]);
  for (int i = 0; i < n->attr->nto && out->n < MAX_RANK; i++)
    list_insert(out, out->n, n->attr->to[i]);
  return true;
}

static void add_pair(Live *l, DimId x, DimId y) {
  if (dim_get(l->g->dims, x)->live || dim_get(l->g->dims, y)->live) return; // split already
  for (int i = 0; i < l->npairs; i++)
    if (l->pair[0][i] == x && l->pair[1][i] == y) return;
  if (l->npairs == (int)countof(l->pair[0])) return;
  l->pair[0][l->npairs] = x;
  l->pair[1][l->npairs++] = y;
}

static void find_pairs(Live *l) {
  for (NodeId n = 1; n <= l->count; n++) {
    const Node *x = graph_node(l->g, n);
    l->indexed[n] = indices_of(l, x, &l->indices[n]);
    bool mask = l->indexed[n] && x->type == TYPE_BOOL && op_row((Op)x->op)->cls == POINTWISE;
    for (int i = 0; i < l->indices[n].n && mask; i++)
      for (int k = 0; k < i; k++) add_pair(l, l->indices[n].at[k], l->indices[n].at[i]);
  }
}

// -- users ---------------------------------------------------------------------------------------

static void find_users(Live *l) {
  uint32_t *at = l->user_at = arena_array(l->a, uint32_t, l->count + 3), edges = 0;
  for (NodeId n = 1; n <= l->count; n++)
    for (int i = 0; i < graph_node(l->g, n)->nargs; i++, edges++)
      at[graph_node(l->g, n)->args[i] + 2]++;
  for (uint32_t i = 2; i < l->count + 3; i++) at[i] += at[i - 1];
  l->user = arena_array(l->a, uint32_t, edges + 1);
  for (NodeId n = 1; n <= l->count; n++)
    for (int i = 0; i < graph_node(l->g, n)->nargs; i++)
      l->user[at[graph_node(l->g, n)->args[i] + 1]++] = n;
}

Live *live_new(Arena *a, const Graph *g, int64_t rows) {
  Live *l = arena_new_of(a, Live);
  uint32_t n = graph_count(g) + 1;
  *l = (Live){.a = a, .g = g, .count = n - 1, .reach = (double)INFINITY};
  l->grain = rows ? rows : GRAIN;
  l->block = rows ? rows : LEAST_BLOCK;
  l->indices = arena_array(a, Dims, n);
  l->indexed = arena_array(a, bool, n);
  find_pairs(l);
  if (!l->npairs) return NULL;
  find_users(l);
  l->ranged = arena_array(a, uint32_t, n);
  l->needed = arena_array(a, uint32_t, n);
  l->range = arena_array(a, Range, n);
  l->need = arena_array(a, uint8_t, n);
  l->output = arena_array(a, bool, n);
  for (uint32_t i = 0; i < g->output.n; i++) l->output[g->output.at[i].value] = true;
  return l;
}

void live_at(Live *l, const Span *spans) {
  l->spans = spans;
  l->masked = 0;
  l->stamp++;
}

void live_where_masked(Live *l, NodeId mask) {
  live_at(l, NULL);
  l->masked = mask;
}

bool live_has(const Live *l, NodeId n, DimId d) {
  const Node *x = graph_node(l->g, n);
  if (dims_has(x->dims, d)) return true;
  for (RegionId r = x->region; r; r = region_get(l->g, r)->parent)
    if (region_get(l->g, r)->t == d) return true;
  return false;
}

static int64_t multiple(int64_t n, int64_t of) { return ceil_div(n, of) * of; }

LiveGrains live_grains(const Live *l, DimId d) {
  LiveGrains g = {.dim = d, .size = dim_get(l->g->dims, d)->size};
  g.length = multiple(ceil_div(g.size, MOST_GRAINS), l->grain);
  for (RegionId r = 1; r <= l->g->region.n; r++)
    if (region_get(l->g, r)->t == d) g.length = 1;
  g.n = ceil_div(g.size, g.length);
  return g;
}

// -- what is needed ------------------------------------------------------------------------------

static Need least(Need x, Need y) { return x < y ? x : y; }

static bool is_zero(Live *l, NodeId n) { return range_is(live_range(l, n, l->spans, 0), 0); }

// Returns what user u needs of its argument i.
static Need need_of_user(Live *l, NodeId u, int i, int depth) {
  const Node *x = graph_node(l->g, u);
  if (x->op == OP_CONTRACT) return is_zero(l, x->args[1 - i]) ? NEED_FINITE : NEED_VALUE;
  bool copies = x->op == OP_BROADCAST && !x->attr->ndims;
  if (op_row((Op)x->op)->cls != POINTWISE && !copies) return NEED_VALUE;
  if (op_row((Op)x->op)->flags & CHECKS) return NEED_VALUE;
  if (x->op == OP_WHERE && i) {
    Range c = live_range(l, x->args[0], l->spans, 0);
    if (range_is(c, i == 2)) return NEED_NOTHING;
  }
  Need n = live_need(l, u, depth);
  return range_is_single(live_range(l, u, l->spans, 0)) ? least(n, NEED_FINITE) : n;
}

static Need find_need(Live *l, NodeId n, int depth) {
  Need most = NEED_NOTHING;
  for (uint32_t k = l->user_at[n]; k < l->user_at[n + 1] && most < NEED_VALUE; k++) {
    const Node *u = graph_node(l->g, l->user[k]);
    for (int i = 0; i < u->nargs; i++) {
      Need need = u->args[i] == n ? need_of_user(l, l->user[k], i, depth) : NEED_NOTHING;
      if (need > most) most = need;
    }
  }
  return most;
}

Need live_need(Live *l, NodeId n, int depth) {
  if (l->needed[n] == l->stamp) return (Need)l->need[n];
  if (depth == LIVE_DEPTH || l->output[n]) return NEED_VALUE;
  l->need[n] = (uint8_t)find_need(l, n, depth + 1);
  l->needed[n] = l->stamp;
  return (Need)l->need[n];
}

// -- blocks of products --------------------------------------------------------------------------

static bool alone(const DimList *role, DimId d) { return role->n == 1 && role->at[0] == d; }

typedef struct PieceSearch {
  Live *l;
  NodeId n;
  bool sums;    // `span` is summed: terms with a factor 0 are left out
  bool columns; // blocks are columns of the product: each packs other columns of the right factor
  LivePieces p;
} PieceSearch;

static bool is_dead(PieceSearch *s) {
  const Node *x = graph_node(s->l->g, s->n);
  if (s->sums) return is_zero(s->l, x->args[0]) || is_zero(s->l, x->args[1]);
  return live_need(s->l, s->n, 0) == NEED_NOTHING;
}

// Finds the part of dim `span` that block i needs. An empty part becomes the first grain, so that
// each element of the result is written.
static void find_part(PieceSearch *s, int i, int64_t rows) {
  LivePieces *p = &s->p;
  LiveGrains g = live_grains(s->l, p->span);
  int64_t first = i * p->block, last = first + p->block < rows ? first + p->block : rows;
  Span block = {p->blocks, {(double)first, (double)(last - 1)}, NULL};
  p->from[i] = p->to[i] = 0;
  for (int64_t k = 0; k < g.n; k++) {
    Span both = live_grain(&g, k, &block);
    live_at(s->l, &both);
    if (is_dead(s)) continue;
    if (!p->to[i]) p->from[i] = k * g.length;
    p->to[i] = (int64_t)both.at.hi + 1;
  }
  if (!p->to[i]) p->to[i] = (int64_t)live_grain(&g, 0, NULL).at.hi + 1;
}

// Finds the blocks of the pair (s->p.blocks, s->p.span). Returns false if too little is left out.
static bool find_parts(PieceSearch *s, Arena *a) {
  LivePieces *p = &s->p;
  int64_t rows = dim_get(s->l->g->dims, p->blocks)->size, done = 0;
  p->block = p->rounds ? 1 : multiple(ceil_div(rows, MOST_BLOCKS), s->l->grain);
  bool packs_once = s->sums || s->columns; // otherwise packing takes too long
  int64_t least = packs_once ? s->l->block : 2 * s->l->block;
  if (!p->rounds && p->block < least) p->block = least;
  p->n = (int)ceil_div(rows, p->block);
  if (p->n < 2) return false;
  p->from = arena_array(a, int64_t, p->n);
  p->to = arena_array(a, int64_t, p->n);
  for (int i = 0; i < p->n; i++) {
    find_part(s, i, rows);
    int64_t length = (i + 1) * p->block > rows ? rows - i * p->block : p->block;
    done += length * (p->to[i] - p->from[i]);
  }
  p->share = (double)done / (double)(rows * dim_get(s->l->g->dims, p->span)->size);
  return p->share * 100 <= MOST_PERCENT;
}

// Returns whether the product of this form can be computed in blocks of s->p.blocks, each with a
// part of s->p.span.
static bool fits(PieceSearch *s, const GemmForm *form) {
  DimId blocks = s->p.blocks, span = s->p.span;
  const Node *x = graph_node(s->l->g, s->n);
  s->sums = alone(&form->k, span);
  if (!s->sums && !alone(&form->m, span) && !alone(&form->n, span)) return false;
  s->columns = alone(&form->n, blocks);
  s->p.rounds = !dims_has(x->dims, blocks) && !dim_in(blocks, x->attr->ndims, x->attr->dims);
  if (s->p.rounds) return live_has(s->l, s->n, blocks);
  return alone(&form->m, blocks) || alone(&form->n, blocks);
}

const LivePieces *live_pieces(Live *l, Arena *a, NodeId n, const GemmForm *form) {
  LivePieces best = {.share = 1};
  for (int i = 0; i < 2 * l->npairs; i++) {
    PieceSearch s = {.l = l, .n = n};
    s.p.blocks = l->pair[i % 2][i / 2];
    s.p.span = l->pair[1 - i % 2][i / 2];
    bool rows = alone(&form->m, s.p.blocks);
    if (!fits(&s, form) || !find_parts(&s, a)) continue;
    if (s.p.share < best.share || (rows && s.p.share == best.share)) best = s.p;
  }
  return best.share < 1 ? arena_copy(a, &best, sizeof best) : NULL;
}
