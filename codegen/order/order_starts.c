// The orders from which the search for orders starts (order_search.c). Those of classes that follow
// from others are not set.
#include "codegen/order/order_class_internal.h"

void order_start_plain(OrderClasses *s, const Chooser *c) {
  for (NodeId n = graph_count(s->g); n; n--)
    if (s->of[n] && s->cls.at[s->of[n]].kind != CLASS_FIXED)
      s->cls.at[s->of[n]].order = c->at.at[c->map[n]];
}

// Returns a number by which dims are sorted, slowest first, whatever their declared order: dims of
// loops, dims of inputs, dims that count matrices in contractions, small dims.
static double *dim_weights(const OrderClasses *s) {
  const Graph *g = s->g;
  double *w = arena_array(s->a, double, dim_count(g->dims) + 1);
  for (DimId d = 1; d <= dim_count(g->dims); d++) w[d] = -(double)dim_get(g->dims, d)->size;
  for (uint32_t i = 1; i < s->use.n; i++) {
    const Node *x = graph_node(g, s->use.at[i].node);
    if (x->op == OP_AT) w[x->attr->dims[0]] = 1e30;
    if (x->op != OP_CONTRACT) continue;
    for (int k = 0; k < x->dims->n; k++)
      if (dims_has(graph_node(g, x->args[0])->dims, x->dims->at[k]) &&
          dims_has(graph_node(g, x->args[1])->dims, x->dims->at[k]))
        w[x->dims->at[k]] += 1e10;
  }
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    for (int k = 0; k < x->dims->n && x->op == OP_INPUT; k++) w[x->dims->at[k]] += 1e20;
  }
  return w;
}

void order_start_sorted(OrderClasses *s) {
  const double *w = dim_weights(s);
  for (ClassId i = 1; i < s->cls.n; i++) {
    OrderClass *x = &s->cls.at[i];
    if (x->kind != CLASS_POINT && x->kind != CLASS_CONTRACT && x->kind != CLASS_STORED) continue;
    DimList list = {0};
    for (int k = 0; k < x->dims.n; k++) {
      int at = 0;
      while (at < list.n && w[list.at[at]] >= w[x->dims.at[k]]) at++;
      list_insert(&list, at, x->dims.at[k]);
    }
    x->order = list;
  }
}
