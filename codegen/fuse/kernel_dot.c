// Builds K_DOT statements: contractions that are computed in each kernel which reads them, as the
// scores of an attention on a GPU (codegen/order/attention.c). Their factors are in memory.
//
// A dim may be a dot loop and an outer loop of one kernel. In the gradient of the keys
// dk[s, k] = sum[t] ds(sum[k](q[t, k] * keys[s, k])) * q[t, k], for example, dim k is both.
#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

#include <string.h>

bool is_dot(const Fusion *f, NodeId n) {
  return graph_node(f->graph, n)->op == OP_CONTRACT && f->recomputed[n];
}

static Dims summed(const Fusion *f, NodeId n) {
  const Node *x = graph_node(f->graph, n);
  return dims_make(x->attr->ndims, x->attr->dims);
}

Dims dots_of(const Fusion *f, const Group *g) {
  Dims all = {0};
  for (uint32_t i = 0; i < g->nnodes; i++) {
    if (!is_dot(f, g->node[i])) continue;
    Dims dims = summed(f, g->node[i]);
    for (int j = 0; j < 2; j++) { // a factor alone may have a dim
      const DimList *order = &f->order->at[graph_node(f->graph, g->node[i])->args[j]];
      for (int d = 0; d < order->n; d++)
        if (dims_has(&dims, order->at[d]) && !dims_has(&all, order->at[d]))
          list_insert(&all, all.n, order->at[d]);
    }
  }
  return all;
}

// Returns the index of a pointer to factor `node` of dot n: along the summed dims it moves with the
// dot loops, along all others with the loops of the kernel.
static int32_t factor(KernelBuilder *k, NodeId n, NodeId node) {
  KPtr ptr;
  memset(&ptr, 0, sizeof ptr); // pointers are compared byte by byte, padding included
  ptr.type = (Dtype)graph_node(k->g, node)->type;
  Dims dims = summed(k->f, n);
  int loops = plan_loops(&k->plan), first = loops - k->plan.dots.n;
  for (int i = 0; i < loops; i++) {
    DimId d = plan_dim(&k->plan, i);
    if (dims_has(&dims, d) == (i >= first))
      ptr.stride[i] = order_stride(k->g, &k->f->order->at[node], d);
  }
  return kernel_add_pointer(k, node, &ptr, true);
}

int32_t dot_emit(KernelBuilder *k, NodeId n, int phase) {
  const Node *x = graph_node(k->g, n);
  Dtype type = dtype_accumulator((Dtype)x->type);
  for (int i = 0; i < 2; i++)
    type = dtype_join(type, dtype_accumulator((Dtype)graph_node(k->g, x->args[i])->type));
  KStmt s = stmt_new(K_DOT, OP_SUM, type, LEVEL_INNER, phase, n);
  s.index = factor(k, n, x->args[0]);
  s.other = factor(k, n, x->args[1]);
  return kernel_add(k, s);
}
