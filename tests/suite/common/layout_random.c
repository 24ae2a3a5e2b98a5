// Builds random graphs: operations of every class on inputs, states and parameters over a few dims,
// and loops with bodies of their own.
#include "tests/suite/common/layout_random.h"

enum { POOL = 64 };
typedef struct Pool {
  NodeId at[POOL];
  int n;
} Pool;

static NodeId pick(Maker *m, const Pool *p) { return p->at[maker_draw(m, (uint32_t)p->n)]; }

DimId random_dim(Maker *m, const Dims *s) { return s->at[maker_draw(m, s->n)]; }

static NodeId random_input(Maker *m) {
  const DimId all[] = {m->b, m->d, m->h, m->k, m->e, m->v, m->m, m->n};
  DimId list[3];
  int n = 0;
  for (uint32_t tries = 1 + maker_draw(m, 3); tries > 0; tries--) {
    DimId d = all[maker_draw(m, countof(all))];
    bool have = false;
    for (int i = 0; i < n; i++) have |= list[i] == d;
    if (!have) list[n++] = d;
  }
  static const DeclKind kind[] = {DECL_INPUT, DECL_PARAM, DECL_STATE, DECL_SLOT};
  return maker_declared(m, kind[maker_draw(m, 4)], TYPE_F32, n, list);
}

static NodeId random_ids(Maker *m) {
  const DimId all[] = {m->b, m->d, m->h, m->k};
  DimId d = all[maker_draw(m, 4)];
  return maker_declared(m, DECL_INPUT, TYPE_I32, 1, &d);
}

bool random_fits(Maker *m, NodeId x, NodeId y) {
  Dims all = *graph_node(m->g, x)->dims;
  const Dims *more = graph_node(m->g, y)->dims;
  int64_t n;
  for (int i = 0; i < more->n; i++)
    if (!dims_add(m->dims, &all, more->at[i])) return false;
  return dims_elements(m->dims, &all, &n) && n <= 3000;
}

NodeId random_scaled(Maker *m, NodeId x) {
  return graph_binary(m->g, OP_MUL, x, graph_const(m->g, TYPE_F32, 0.25));
}

static NodeId random_unary(Maker *m, NodeId x, NodeId y) {
  static const Op ops[] = {OP_NEG, OP_TANH, OP_RELU, OP_SIGMOID, OP_ABS, OP_SIN};
  (void)y;
  return graph_unary(m->g, ops[maker_draw(m, countof(ops))], x);
}
static NodeId random_binary(Maker *m, NodeId x, NodeId y) {
  static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_ADD, OP_MAXIMUM, OP_MINIMUM};
  return random_fits(m, x, y) ? graph_binary(m->g, ops[maker_draw(m, countof(ops))], x, y) : 0;
}
static NodeId random_where(Maker *m, NodeId x, NodeId y) {
  return random_fits(m, x, y)
             ? graph_where(m->g, graph_binary(m->g, OP_LT, x, graph_const(m->g, TYPE_F32, 0.5)), y,
                           maker_draw(m, 2) ? x : graph_const(m->g, TYPE_F32, 0))
             : 0;
}
static NodeId random_reduce(Maker *m, NodeId x, NodeId y) {
  static const Op ops[] = {OP_SUM, OP_SUM, OP_MEAN, OP_MAX, OP_MIN, OP_LOGSUMEXP};
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  return graph_reduce(m->g, ops[maker_draw(m, countof(ops))], x,
                      &(Dims){.n = 1, .at = {random_dim(m, s)}});
}
static NodeId random_contract(Maker *m, NodeId x, NodeId y) {
  if (!random_fits(m, x, y)) return 0;
  DimId list[3];
  int n = 0;
  const Dims *s = graph_node(m->g, x)->dims;
  for (int i = 0; i < s->n && n < 3; i++)
    if (dims_has(graph_node(m->g, y)->dims, s->at[i]) ? maker_draw(m, 3) : !maker_draw(m, 4))
      list[n++] = s->at[i];
  return random_scaled(m, graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                                    &(Attr){.type = TYPE_F32, .ndims = (uint8_t)n, .dims = list}));
}
static NodeId random_move(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  bool d = dims_has(s, m->d), k = dims_has(s, m->k), two = dims_has(s, m->two),
       b = dims_has(s, m->b);
  if (dims_has(s, m->m) && !d && !k)
    return maker_op(m, OP_SPLIT, 1, &x, 1, &m->m, 2, (DimId[]){m->d, m->k});
  if (dims_has(s, m->n) && !b && !two)
    return maker_op(m, OP_SPLIT, 1, &x, 1, &m->n, 2, (DimId[]){m->b, m->two});
  if (d && k && !dims_has(s, m->m))
    return maker_op(m, OP_MERGE, 1, &x, 2, (DimId[]){m->d, m->k}, 1, &m->m);
  if (b && two && !dims_has(s, m->n))
    return maker_op(m, OP_MERGE, 1, &x, 2, (DimId[]){m->b, m->two}, 1, &m->n);
  if (d && !dims_has(s, m->e)) return maker_op(m, OP_RENAME, 1, &x, 1, &m->d, 1, &m->e);
  if (dims_has(s, m->e) && !d) return maker_op(m, OP_RENAME, 1, &x, 1, &m->e, 1, &m->d);
  return 0;
}
static NodeId random_lookup(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  DimId d = random_dim(m, s);
  if (d == m->two) return 0; // ids go up to 2
  if (m->ninputs + 1 >= MAX_INPUTS) return 0;
  NodeId ids = random_ids(m);
  if (maker_draw(m, 2))
    return random_fits(m, x, ids) ? maker_op(m, OP_TAKE, 2, (NodeId[]){x, ids}, 1, &d, 0, NULL) : 0;
  DimId from = graph_node(m->g, ids)->dims->at[0];
  if (!dims_has(s, from) || (dims_has(s, m->v) && from != m->v)) return 0;
  return maker_op(m, OP_SCATTER_ADD, 2, (NodeId[]){x, ids}, 1, &from, 1, &m->v);
}
static NodeId random_narrow(Maker *m, NodeId x, NodeId y) {
  (void)y;
  return graph_cast(m->g, graph_cast(m->g, x, TYPE_BF16), TYPE_F32);
}

static NodeId random_window(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  const DimId lengths[] = {m->b, m->d, m->h, m->v, m->n};
  DimId from = random_dim(m, s),
        to[2] = {maker_draw(m, 2) ? from : lengths[maker_draw(m, countof(lengths))], m->two};
  if (to[0] != from && dims_has(s, to[0])) return 0;
  Attr t = {.ndims = 1, .dims = &from, .nto = (uint8_t)(1 + maker_draw(m, 2)), .to = to};
  if (to[0] == m->two || from == m->two || dims_has(s, m->two)) t.nto = 1;
  if (to[0] == m->two) return 0;
  t.affine = (Affine){1 + maker_draw(m, 2), t.nto > 1 ? 1 + maker_draw(m, 2) : 0,
                      (int64_t)maker_draw(m, 7) - 3, 1 + maker_draw(m, 2)};
  if (!maker_draw(m, 4)) t.affine.out = -t.affine.out, t.affine.offset += 6;
  if (!maker_draw(m, 4)) t.num[0] = 0.5;
  if (maker_draw(m, 4)) return graph_add(m->g, OP_WINDOW, 1, &x, &t);
  if (maker_draw(m, 2)) t.nto = 0, t.affine.out = t.affine.tap = 0;
  return graph_add(m->g, OP_WINDOW_AT, 2, (NodeId[]){x, graph_add(m->g, OP_STEP, 0, NULL, NULL)},
                   &t);
}
static NodeId random_ordered(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  DimId d = random_dim(m, s);
  Attr t = {.ndims = 1, .dims = &d, .flags = maker_draw(m, 4)};
  if (maker_draw(m, 2)) return random_scaled(m, graph_add(m->g, OP_CUMSUM, 1, &x, &t));
  if (!maker_draw(m, 4)) return random_scaled(m, graph_add(m->g, OP_CUMPROD, 1, &x, &t));
  t.flags &= ORDER_REVERSE;
  return graph_add(m->g, OP_CUMMAX, 1, &x, &t);
}
static NodeId random_pin(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  DimId dims[MAX_AXES];
  Attr t = {.dims = dims};
  for (int a = m->mesh.naxes - 1; a >= 0 && s->n; a--) {
    if (maker_draw(m, 2)) continue;
    t.axes.at[t.axes.n++] = (uint8_t)a;
    dims[t.ndims++] = random_dim(m, s);
  }
  return graph_add(m->g, OP_PIN, 1, &x, &t);
}

static NodeId random_sorted(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  DimId d = random_dim(m, s), few = m->two;
  bool top = d != few && !dims_has(s, few) && maker_draw(m, 2);
  Attr t = {.ndims = 1, .dims = &d, .nto = top, .to = &few};
  if (!top && maker_draw(m, 2)) t.flags = ORDER_DESCENDING;
  NodeId ids = graph_add(m->g, top ? OP_TOP_K : OP_ARGSORT, 1, &x, &t);
  return maker_op(m, OP_TAKE, 2, (NodeId[]){x, ids}, 1, &d, 0, NULL);
}
static NodeId random_ranked(Maker *m, NodeId x, NodeId y) { // the index of an element, as f32
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  if (!s->n) return 0;
  DimId d = random_dim(m, s);
  static const Op ops[] = {OP_CUM_INDEX, OP_ARGMAX, OP_ARGMIN};
  NodeId index = graph_add(m->g, ops[maker_draw(m, 3)], 1, &x, &(Attr){.ndims = 1, .dims = &d});
  return random_scaled(m, graph_cast(m->g, index, TYPE_F32));
}
static NodeId random_draw(Maker *m, NodeId x, NodeId y) {
  (void)y;
  const Dims *s = graph_node(m->g, x)->dims;
  Attr t = {.ndims = s->n, .dims = s->at, .key = 1 + maker_draw(m, 1000)};
  NodeId noise =
      graph_add(m->g, maker_draw(m, 2) ? OP_RANDOM_UNIFORM : OP_RANDOM_NORMAL, 0, NULL, &t);
  return graph_binary(m->g, maker_draw(m, 2) ? OP_ADD : OP_MUL, x, noise);
}
static NodeId random_mark(Maker *m, NodeId x, NodeId y) {
  (void)y;
  return graph_unary(m->g, OP_CHECKPOINT, x);
}

static NodeId random_loop(Maker *m, NodeId x, NodeId y);

static Grow *const grow_plain[] = {random_unary,  random_binary,   random_binary,   random_where,
                                   random_reduce, random_contract, random_contract, random_move,
                                   random_lookup, random_narrow};
static Grow *const grow_other[] = {random_window, random_window, random_window, random_ordered,
                                   random_sorted, random_ranked, random_pin,    random_draw,
                                   random_mark,   random_loop,   random_loop};

NodeId random_node(Maker *m, NodeId x, NodeId y) {
  if (m->more && !maker_draw(m, 3)) return random_more(m, x, y);
  Grow *one = maker_draw(m, 3) ? grow_plain[maker_draw(m, countof(grow_plain))]
                               : grow_other[maker_draw(m, countof(grow_other))];
  return one(m, x, y);
}

// -- loops --------------------------------------------------------------------------------------

bool random_loop_fits(Maker *m, RegionId r, DimId t) {
  for (; r; r = region_get(m->g, r)->parent)
    if (region_get(m->g, r)->t == t) return false;
  return true;
}

NodeId random_start(Maker *m, const Dims *dims, NodeId x, NodeId y, DimId t) {
  uint32_t kind = maker_draw(m, 3);
  if (kind == 0) return graph_reduce(m->g, OP_MEAN, x, &(Dims){.n = 1, .at = {t}});
  if (kind == 1 && dims_equal(graph_node(m->g, y)->dims, dims)) return y;
  return graph_broadcast(m->g, graph_const(m->g, TYPE_F32, maker_draw(m, 2)), dims);
}

NodeId random_next(Maker *m, NodeId carry, NodeId z) {
  const Dims *keep = graph_node(m->g, carry)->dims;
  Dims over = {0};
  Dims have = *graph_node(m->g, z)->dims;
  for (int i = 0; i < have.n; i++)
    if (!dims_has(keep, have.at[i])) over.at[over.n++] = have.at[i];
  NodeId half = graph_binary(m->g, OP_MUL, carry, graph_const(m->g, TYPE_F32, 0.5));
  NodeId next = graph_binary(m->g, OP_ADD, half, graph_reduce(m->g, OP_MEAN, z, &over));
  return maker_draw(m, 2) ? graph_unary(m->g, OP_TANH, next) : next;
}

typedef struct Body {
  RegionId region;
  DimId t;
  Pool pool;
  NodeId carry[2], next[2];
  int carries;
} Body;

static void random_body(Maker *m, Body *b, NodeId x, NodeId y) {
  Attr at = {.region = b->region, .ndims = 1, .dims = &b->t};
  Pool *p = &b->pool;
  p->at[p->n++] = graph_add(m->g, OP_AT, 1, &x, &at);
  bool along = dims_has(graph_node(m->g, y)->dims, b->t);
  p->at[p->n++] = along ? graph_add(m->g, OP_AT, 1, &y, &at) : y;
  for (int i = 0; i < b->carries; i++) p->at[p->n++] = b->carry[i];
  for (uint32_t i = 1 + maker_draw(m, 4), tries = 12; i > 0 && tries > 0; tries--) {
    NodeId z = random_node(m, maker_draw(m, 2) ? p->at[p->n - 1] : pick(m, p), pick(m, p));
    if (z && p->n < POOL) p->at[p->n++] = z, i--;
  }
  for (int i = 0; i < b->carries; i++)
    b->next[i] = random_next(m, b->carry[i], i ? pick(m, p) : p->at[p->n - 1]);
  if (b->carries == 2 &&
      dims_equal(graph_node(m->g, b->carry[0])->dims, graph_node(m->g, b->carry[1])->dims) &&
      maker_draw(m, 2))
    b->next[1] = b->carry[0];
}

// Adds a loop over a dim of x with one or two carries. Its result is the last value of a carry, or
// the values of all steps.
static NodeId random_loop(Maker *m, NodeId x, NodeId y) {
  Dims keep = *graph_node(m->g, x)->dims;
  RegionId around = graph_node(m->g, x)->region;
  if (!keep.n || region_depth(m->g, around) > 1 ||
      !region_encloses(m->g, graph_node(m->g, y)->region, around))
    return 0;
  Body b = {.t = random_dim(m, &keep), .carries = 1 + (int)maker_draw(m, 2)};
  if (!random_loop_fits(m, around, b.t)) return 0;
  dims_remove(&keep, b.t);
  bool read = maker_draw(m, 2), reverse = maker_draw(m, 2);
  b.region = graph_region(m->g, &(Region){.parent = around,
                                          .t = b.t,
                                          .reverse = reverse,
                                          .recompute = maker_draw(m, 3) == 0});
  for (int i = 0; i < b.carries; i++) {
    NodeId start = random_start(m, &keep, x, y, b.t);
    b.carry[i] =
        graph_add(m->g, OP_CARRY, 1, &start, &(Attr){.region = b.region, .carry = (uint32_t)i});
  }
  random_body(m, &b, x, y);
  NodeId scan = graph_add(m->g, OP_SCAN, b.carries, b.next, &(Attr){.region = b.region});
  NodeId z = read ? pick(m, &b.pool) : b.next[0];
  if (maker_draw(m, 3) == 0)
    return graph_add(m->g, OP_FINAL, 2, (NodeId[]){scan, b.carry[b.carries - 1]}, NULL);
  if (dims_has(graph_node(m->g, z)->dims, b.t)) z = b.next[0];
  return graph_add(m->g, OP_COLLECT, 2, (NodeId[]){scan, z}, &(Attr){.ndims = 1, .dims = &b.t});
}

// -- graphs -------------------------------------------------------------------------------------

// Updates states and parameters with values that have their dims.
static void random_updates(Maker *m, const Pool *pool) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    if (d->kind == DECL_INPUT || !d->node) continue;
    for (int k = pool->n - 1; k >= 0; k--)
      if (pool->at[k] != d->node &&
          dims_equal(graph_node(m->g, pool->at[k])->dims, graph_node(m->g, d->node)->dims)) {
        maker_update(m, d->node, pool->at[k]);
        break;
      }
  }
}

void random_graph(Maker *m) {
  Pool pool = {.n = 0};
  for (uint32_t i = 2 + maker_draw(m, 4); i > 0; i--) pool.at[pool.n++] = random_input(m);
  for (uint32_t i = 3 + maker_draw(m, 38), tries = 200; i > 0 && pool.n < POOL && tries > 0;
       tries--) {
    NodeId x = maker_draw(m, 3) ? pool.at[pool.n - 1] : pick(m, &pool), y = pick(m, &pool);
    m->g->origin.value = maker_draw(m, 3) ? NULL : intern_printf(m->names, "t%d", pool.n);
    NodeId z = random_node(m, x, y);
    m->g->origin = (Origin){0};
    if (z) pool.at[pool.n++] = z, i--;
  }
  if (maker_draw(m, 2)) maker_output(m, "other", pick(m, &pool));
  random_updates(m, &pool);
  if (maker_draw(m, 2) && m->ninputs + 1 < MAX_INPUTS)
    maker_result(m, pool.at[pool.n - 1]);
  else
    maker_output(m, "y", pool.at[pool.n - 1]);
}
