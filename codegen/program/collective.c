// Emits the instructions of collectives: one call for all nodes of a bucket.
#include "codegen/program/program_internal.h"

static void part_dims(Builder *b, const DimList *order, int64_t *block, Size *valid) {
  for (int i = 0; i < order->n; i++) {
    block[i] = dim_get(b->g->dims, order->at[i])->size;
    valid[i] = builder_dim_size(b, order->at[i]);
  }
}

// Returns the mesh axes over which any of the dims d[0..n) is split.
static Axes axes_splitting(const Graph *g, const DimId *d, int n) {
  Axes all = {0};
  for (int i = 0; i < n; i++) {
    Axes split = dim_get(g->dims, d[i])->axes;
    for (int k = 0; k < split.n; k++)
      if (!axes_has(all, split.at[k])) all.at[all.n++] = split.at[k];
  }
  return all;
}

// Sets which dims a permute moves. to: the order of its result.
static void part_permute(const Graph *g, const Attr *at, const DimList *to, CollPart *p) {
  if (at->nto == 1) {
    p->split = (int8_t)dims_index(to, at->to[0]);
    p->whole = dim_get(g->dims, dim_get(g->dims, at->to[0])->whole)->size;
  }
  for (int i = 0; i < at->nto && at->nto > 1; i++) {
    const Dim *have = dim_get(g->dims, at->dims[i]), *want = dim_get(g->dims, at->to[i]);
    p->moved[dims_index(to, at->to[i])] =
        (MovedDim){dim_get(g->dims, want->whole)->size, have->axes, want->axes};
  }
}

// Sets which dim a halo extends.
static void part_halo(const Graph *g, const Attr *at, const DimList *to, CollPart *p) {
  const Dim *footprint = dim_get(g->dims, at->to[0]);
  p->split = (int8_t)dims_index(to, at->to[0]);
  p->whole = dim_get(g->dims, footprint->whole)->size;
  p->footprint = footprint->footprint;
}

// Returns how collective node n uses its operand: the memory, the lengths of blocks, and which dims
// it splits, gathers or moves.
static CollPart collective_part(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const DimList *to = &b->f->order->at[n];
  const Attr *at = x->attr;
  CollPart p = {.src = builder_ref(b, x->args[0]),
                .dst = builder_ref(b, n),
                .rank = to->n,
                .gathered = -1,
                .split = -1,
                .value = x->origin->value};
  part_dims(b, &b->f->order->at[x->args[0]], p.src_block, p.src_valid);
  part_dims(b, to, p.dst_block, p.dst_valid);
  if (x->op == OP_ALL_GATHER || x->op == OP_ALL_TO_ALL)
    p.gathered = (int8_t)dims_index(to, at->to[0]);
  if (x->op == OP_REDUCE_SCATTER) p.split = (int8_t)dims_index(to, at->to[0]);
  if (x->op == OP_ALL_TO_ALL) p.split = (int8_t)dims_index(to, at->to[1]);
  if (x->op == OP_PERMUTE) part_permute(b->g, at, to, &p);
  if (x->op == OP_HALO) part_halo(b->g, at, to, &p);
  return p;
}

void collective_emit(Builder *b, const Group *g) {
  const Node *x = graph_node(b->g, g->node[0]);
  Instr in = {.kind = INSTR_COLLECTIVE};
  Collective *c = &in.u.collective;
  *c = (Collective){.axes = x->attr->axes,
                    .type = (Dtype)x->type,
                    .monoid = x->attr->monoid,
                    .backward = x->origin->backward,
                    .pos = x->origin->pos,
                    .why = x->origin->why};
  if (!coll_of((Op)x->op, &c->kind)) BUG("%s is no collective", op_row((Op)x->op)->text);
  if (x->op == OP_PERMUTE || x->op == OP_HALO) {
    c->axes = axes_splitting(b->g, x->attr->dims, x->attr->ndims);
    c->to = axes_splitting(b->g, x->attr->to, x->attr->nto);
  }
  c->nparts = g->nnodes;
  c->part = arena_array(b->a, CollPart, g->nnodes);
  for (uint32_t i = 0; i < g->nnodes; i++) c->part[i] = collective_part(b, g->node[i]);
  c->bytes = coll_call_bytes(b->sizes, g->node, g->nnodes);
  c->wire_bytes = coll_wire_bytes(c->kind, axes_size(b->g->mesh, x->attr->axes), c->bytes);
  vec_push(b->a, b->instr) = in;
}
