// Loops under layouts: carries that are split, replicated and partial; loops after and inside one
// another.
#include "tests/suite/common/layout_maker.h"

#include <stdlib.h>

typedef struct Loop {
  Maker *m;
  RegionId region;
  DimId t;
  NodeId scan;
  uint64_t carries;
} Loop;

static Loop loop_begin(Maker *m, DimId t, RegionId parent, bool reverse) {
  return (Loop){.m = m,
                .t = t,
                .region =
                    graph_region(m->g, &(Region){.parent = parent, .t = t, .reverse = reverse})};
}
static NodeId carry(Loop *l, NodeId start) {
  return graph_add(l->m->g, OP_CARRY, 1, &start,
                   &(Attr){.region = l->region, .carry = l->carries++});
}
static NodeId at(const Loop *l, NodeId x) {
  return graph_add(l->m->g, OP_AT, 1, &x, &(Attr){.region = l->region, .ndims = 1, .dims = &l->t});
}
static void loop_end(Loop *l, int n, const NodeId *next) {
  l->scan = graph_add(l->m->g, OP_SCAN, n, next, &(Attr){.region = l->region});
}
static NodeId final(const Loop *l, NodeId c) {
  return graph_add(l->m->g, OP_FINAL, 2, (NodeId[]){l->scan, c}, NULL);
}
static NodeId collected(const Loop *l, NodeId x) {
  return graph_add(l->m->g, OP_COLLECT, 2, (NodeId[]){l->scan, x},
                   &(Attr){.ndims = 1, .dims = &l->t});
}

static NodeId add(Maker *m, NodeId x, NodeId y) { return graph_binary(m->g, OP_ADD, x, y); }
static NodeId mul(Maker *m, NodeId x, NodeId y) { return graph_binary(m->g, OP_MUL, x, y); }
static NodeId half(Maker *m, NodeId x) { return mul(m, x, graph_const(m->g, TYPE_F32, 0.5)); }
static NodeId zeros(Maker *m, int n, const DimId *dims) {
  Dims to = {0};
  for (int i = 0; i < n; i++)
    if (!dims_add(m->dims, &to, dims[i])) abort();
  return graph_broadcast(m->g, graph_const(m->g, TYPE_F32, 0), &to);
}
static NodeId product(Maker *m, NodeId x, NodeId y, DimId d) {
  return graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                   &(Attr){.type = TYPE_F32, .ndims = 1, .dims = &d});
}
static NodeId renamed(Maker *m, NodeId x, DimId d, DimId e) {
  return maker_op(m, OP_RENAME, 1, &x, 1, &d, 1, &e);
}

// Outputs both results of the loop as one value.
static void both(Maker *m, NodeId x, NodeId y) { maker_result(m, add(m, x, y)); }

static void running_sum(Maker *m) {
  NodeId x = X(m, m->b, m->v);
  Loop l = loop_begin(m, m->v, 0, false);
  NodeId s = carry(&l, zeros(m, 1, &m->b)), next = add(m, s, at(&l, x));
  loop_end(&l, 1, &next);
  both(m, collected(&l, next), final(&l, s));
}
static void recurrent(Maker *m, bool reverse) {
  NodeId x = X(m, m->b, m->v, m->h), w = X(m, m->h, m->d), u = X(m, m->e, m->d);
  NodeId z = product(m, x, half(m, w), m->h);
  Loop l = loop_begin(m, m->v, 0, reverse);
  NodeId h = carry(&l, zeros(m, 2, (DimId[]){m->b, m->d}));
  NodeId next = add(m, at(&l, z), product(m, renamed(m, h, m->d, m->e), half(m, u), m->e));
  next = graph_unary(m->g, OP_TANH, next);
  loop_end(&l, 1, &next);
  both(m, collected(&l, next), final(&l, h));
}
static void recurrent_forward(Maker *m) { recurrent(m, false); }
static void recurrent_reverse(Maker *m) { recurrent(m, true); }
static void started(Maker *m) { // the carry starts from a value, and is read before it changes
  NodeId x = X(m, m->b, m->v), start = X(m, m->b, m->d), w = X(m, m->e, m->d);
  Loop l = loop_begin(m, m->v, 0, false);
  NodeId h = carry(&l, product(m, renamed(m, start, m->d, m->e), w, m->e));
  NodeId next = half(m, add(m, product(m, renamed(m, h, m->d, m->e), w, m->e), at(&l, x)));
  loop_end(&l, 1, &next);
  both(m, collected(&l, h), final(&l, h));
}
static void exchanged(Maker *m) { // two carries, each of which is the other's next value
  NodeId x = X(m, m->b, m->k), y = X(m, m->b, m->h), z = X(m, m->b, m->h);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId p = carry(&l, y), q = carry(&l, z);
  loop_end(&l, 2, (NodeId[]){q, add(m, p, at(&l, x))});
  both(m, add(m, final(&l, p), final(&l, q)), collected(&l, q));
}
static void turned(Maker *m) { // a carry whose next value is itself with its dims exchanged
  NodeId x = X(m, m->d, m->e), y = X(m, m->k, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId c = carry(&l, x);
  NodeId next = maker_op(m, OP_RENAME, 1, &c, 2, (DimId[]){m->d, m->e}, 2, (DimId[]){m->e, m->d});
  loop_end(&l, 1, &next);
  both(m, final(&l, c), collected(&l, add(m, c, at(&l, y))));
}
static void
invariant(Maker *m) { // a next value that does not depend on the loop, and one that is collected
  NodeId x = X(m, m->b, m->d), y = X(m, m->k, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId c = carry(&l, zeros(m, 2, (DimId[]){m->b, m->d})), sum = add(m, c, at(&l, y));
  NodeId outside = graph_unary(m->g, OP_TANH, x);
  loop_end(&l, 1, &outside);
  both(m, add(m, collected(&l, sum), collected(&l, x)), final(&l, c));
}
static void accumulated(Maker *m) { // partial sums over b are added over the loop
  NodeId x = X(m, m->k, m->b, m->d), y = X(m, m->k, m->b, m->h);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId s = carry(&l, zeros(m, 2, (DimId[]){m->d, m->h}));
  NodeId next = add(m, s, product(m, at(&l, x), at(&l, y), m->b));
  loop_end(&l, 1, &next);
  maker_result(m, graph_unary(m->g, OP_TANH, half(m, final(&l, s))));
}
static void accumulated_read(Maker *m) { // as above, but each step reads the sum
  NodeId x = X(m, m->k, m->b, m->d), y = X(m, m->k, m->b, m->h);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId s = carry(&l, zeros(m, 2, (DimId[]){m->d, m->h}));
  NodeId next = half(m, add(m, s, product(m, at(&l, x), at(&l, y), m->b)));
  NodeId seen = graph_unary(m->g, OP_TANH, next);
  loop_end(&l, 1, &next);
  both(m, final(&l, s), collected(&l, seen));
}
static void terms_collected(Maker *m) {
  NodeId x = X(m, m->k, m->b, m->d), y = X(m, m->b, m->h), z = X(m, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId s = carry(&l, z), next = half(m, add(m, s, z));
  NodeId term = product(m, mul(m, at(&l, x), s), y, m->b);
  loop_end(&l, 1, &next);
  maker_result(m, collected(&l, term));
}
static void two_loops(Maker *m) { // the second starts where the first ends and reads its results
  NodeId x = X(m, m->b, m->k, m->d), w = X(m, m->e, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId h = carry(&l, zeros(m, 2, (DimId[]){m->b, m->d}));
  NodeId next =
      graph_unary(m->g, OP_TANH, add(m, at(&l, x), product(m, renamed(m, h, m->d, m->e), w, m->e)));
  loop_end(&l, 1, &next);
  NodeId all = collected(&l, next);
  Loop r = loop_begin(m, m->k, 0, true);
  NodeId g = carry(&r, final(&l, h));
  NodeId back =
      graph_unary(m->g, OP_TANH,
                  add(m, at(&r, all), half(m, renamed(m, renamed(m, g, m->d, m->e), m->e, m->d))));
  loop_end(&r, 1, &back);
  both(m, collected(&r, back), all);
}
static void nested(Maker *m) {
  NodeId x = X(m, m->b, m->k, m->v), y = X(m, m->k, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId outer = carry(&l, zeros(m, 1, &m->b)), xk = at(&l, x);
  Loop i = loop_begin(m, m->v, l.region, false);
  NodeId inner = carry(&i, outer), next = half(m, add(m, inner, at(&i, xk)));
  loop_end(&i, 1, &next);
  NodeId end = final(&i, inner), steps = collected(&i, next);
  loop_end(&l, 1, &end);
  NodeId all = collected(&l, steps); // [k, v, b]
  both(m, all, add(m, final(&l, outer), y));
}
static void nested_product(Maker *m) {
  NodeId x = X(m, m->b, m->two, m->k, m->d), w = X(m, m->e, m->d);
  Loop l = loop_begin(m, m->two, 0, false);
  NodeId c = carry(&l, zeros(m, 2, (DimId[]){m->b, m->d}));
  NodeId xs = at(&l, x);
  Loop i = loop_begin(m, m->k, l.region, true);
  NodeId h = carry(&i, c);
  NodeId next = graph_unary(m->g, OP_TANH,
                            add(m, at(&i, xs), product(m, renamed(m, h, m->d, m->e), w, m->e)));
  loop_end(&i, 1, &next);
  NodeId sum = half(m, add(m, final(&i, h), c));
  loop_end(&l, 1, &sum);
  both(m, collected(&l, collected(&i, next)), final(&l, c));
}
static void looked_up(Maker *m) { // ids that one step computes for the next one
  NodeId table = IDS(m, m->v), start = IDS(m, m->b), x = X(m, m->v, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId id = carry(&l, start);
  NodeId next = maker_op(m, OP_TAKE, 2, (NodeId[]){table, id}, 1, &m->v, 0, NULL);
  NodeId row = maker_op(m, OP_TAKE, 2, (NodeId[]){x, id}, 1, &m->v, 0, NULL);
  loop_end(&l, 1, &next);
  maker_result(m, collected(&l, row));
}
static void counted(Maker *m) { // the number of the step, as a scalar
  NodeId x = X(m, m->b);
  Loop l = loop_begin(m, m->v, 0, false);
  NodeId t = graph_cast(m->g, at(&l, graph_index(m->g, m->v)), TYPE_F32);
  NodeId c = carry(&l, x), s = carry(&l, graph_const(m->g, TYPE_F32, 1));
  loop_end(&l, 2, (NodeId[]){half(m, add(m, c, t)), half(m, s)});
  both(m, final(&l, c), add(m, collected(&l, s), final(&l, s)));
}
static void narrow(Maker *m) {
  NodeId x = graph_cast(m->g, X(m, m->b, m->k, m->d), TYPE_BF16),
         w = graph_cast(m->g, X(m, m->e, m->d), TYPE_BF16);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId h = carry(&l, graph_cast(m->g, zeros(m, 2, (DimId[]){m->b, m->d}), TYPE_BF16));
  NodeId z = graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){renamed(m, h, m->d, m->e), w},
                       &(Attr){.type = TYPE_BF16, .ndims = 1, .dims = &m->e});
  NodeId next = graph_unary(m->g, OP_TANH, add(m, at(&l, x), z));
  loop_end(&l, 1, &next);
  maker_result(m, graph_cast(m->g, collected(&l, next), TYPE_F32));
}
static void reduced(Maker *m) { // reductions over split dims, in each step
  NodeId x = X(m, m->k, m->b, m->d);
  Loop l = loop_begin(m, m->k, 0, false);
  NodeId c = carry(&l, zeros(m, 1, &m->b));
  NodeId z = add(m, at(&l, x), c),
         top = graph_unary(m->g, OP_STOP,
                           graph_reduce(m->g, OP_MAX, z, &(Dims){.n = 1, .at = {m->d}}));
  NodeId sum =
      graph_reduce(m->g, OP_SUM, graph_unary(m->g, OP_TANH, graph_binary(m->g, OP_SUB, z, top)),
                   &(Dims){.n = 1, .at = {m->d}});
  NodeId next = half(m, sum);
  loop_end(&l, 1, &next);
  both(m, collected(&l, half(m, top)), final(&l, c));
}

const LayoutCase region_cases[] = {
    {"loop_sum", running_sum},
    {"loop_forward", recurrent_forward},
    {"loop_reverse", recurrent_reverse},
    {"loop_started", started},
    {"loop_exchanged", exchanged},
    {"loop_turned", turned},
    {"loop_invariant", invariant},
    {"loop_accumulated", accumulated},
    {"loop_accumulated_read", accumulated_read},
    {"loop_terms_collected", terms_collected},
    {"loop_two", two_loops},
    {"loop_nested", nested},
    {"loop_nested_product", nested_product},
    {"loop_looked_up", looked_up},
    {"loop_counted", counted},
    {"loop_narrow", narrow},
    {"loop_reduced", reduced},
};
const size_t region_case_count = countof(region_cases);
