// Simplification of loops: what is the same in all steps, and what is taken apart and put together again.
//
//   at(broadcast(x)) => broadcast(x);  collect(s, at(x)) => x;  collect(s, x), x from outside => broadcast(x)
#include "ir/simplify.h"

static NodeId simplify_at(Simplify *s) {
  NodeId x = simple_stripped(s->g, s->x[0]);
  return dims_has(&graph_node(s->g, x)->dims, s->n->attr.dims[0]) ? 0 : x;
}

static NodeId simplify_collect(Simplify *s) {
  const Node *x = simple_arg(s, 1);
  RegionId r = simple_arg(s, 0)->attr.region;
  if (!region_encloses(s->g, r, x->region)) return s->x[1];
  return x->op == OP_AT && x->region == r ? x->args[0] : 0;
}

NodeId simplify_region(Simplify *s) {
  if (s->n->op == OP_AT) return simplify_at(s);
  return s->n->op == OP_COLLECT ? simplify_collect(s) : 0;
}
