// Simplification of loops: values that are equal in all steps, and values that a loop reads step by
// step (at) and collects unchanged (collect). s is the scan of the loop.
//
//   at(broadcast(x))       => broadcast(x)
//   collect(s, at(x))      => x
//   collect(s, x)          => broadcast(x)               x from outside the loop
//   collect(s, rename(x))  => rename(collect(s, x));  collect(s, rename(at(y))) => rename(y)
//
// What a guarded loop collects is zero if it does not run, so that only renames pass.
#include "ir/passes/simplify_internal.h"

static NodeId simplify_at(Simplify *s) {
  NodeId x = simple_stripped(s->g, s->x[0]);
  return dims_has(graph_node(s->g, x)->dims, s->n->attr->dims[0]) ? 0 : x;
}

static NodeId simplify_collect(Simplify *s) {
  const Node *x = simple_arg(s, 1);
  RegionId r = simple_arg(s, 0)->attr->region;
  bool guarded = region_get(s->g, r)->guarded;
  if (!guarded && !region_encloses(s->g, r, x->region)) return s->x[1];
  if (!guarded && x->op == OP_AT && x->region == r) return x->args[0];
  if (x->op != OP_RENAME || attr_names(x->attr, s->n->attr->dims[0])) return 0;
  Attr attr = *x->attr;
  const Node *y = graph_node(s->g, x->args[0]);
  bool taken = !guarded && y->op == OP_AT && y->region == r;
  NodeId all = taken ? y->args[0]
                     : graph_add(s->g, OP_COLLECT, 2, (NodeId[]){s->x[0], x->args[0]}, s->n->attr);
  return graph_add(s->g, OP_RENAME, 1, &all, &attr);
}

NodeId simplify_region(Simplify *s) {
  if (s->n->op == OP_AT) return simplify_at(s);
  return s->n->op == OP_COLLECT ? simplify_collect(s) : 0;
}
