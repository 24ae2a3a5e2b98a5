// Instructions: launches of kernels over sets of operands, library products, ordered work,
// collectives.
#include "codegen/program/program_internal.h"

#include <string.h>

enum { FLOPS_A_BYTE = 8 };

static uint64_t hash_text(const char *text) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (; *text; text++) h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
  return h;
}

static void hash_grow(Builder *b) {
  if (b->kernel.n * 2 < b->hash_size) return;
  b->hash_size = b->hash_size ? b->hash_size * 2 : 64;
  b->hash = arena_array(b->a, uint32_t, b->hash_size);
  for (uint32_t i = 0; i < b->kernel.n; i++) {
    uint32_t at = (uint32_t)hash_text(b->kernel.at[i].text) & (b->hash_size - 1);
    while (b->hash[at]) at = (at + 1) & (b->hash_size - 1);
    b->hash[at] = i + 1;
  }
}

static uint32_t kernel_share(Builder *b, Kernel *k) {
  hash_grow(b);
  const char *text = kernel_identity(b->a, k);
  uint64_t h = hash_text(text);
  uint32_t at = (uint32_t)h & (b->hash_size - 1);
  for (; b->hash[at]; at = (at + 1) & (b->hash_size - 1))
    if (strcmp(b->kernel.at[b->hash[at] - 1].text, text) == 0) return b->hash[at] - 1;
  k->name = arena_printf(b->a, "k%016llx", (unsigned long long)h);
  vec_push(b->a, b->kernels) = k;
  vec_push(b->a, b->kernel) = (ProgKernel){.name = k->name,
                                           .text = text,
                                           .nptr = k->nptr,
                                           .nslot = k->nslots,
                                           .nnum = k->nnum,
                                           .partial_bytes = kernel_partial_bytes(k)};
  b->hash[at] = b->kernel.n;
  return b->kernel.n - 1;
}

// -- checks -------------------------------------------------------------------------------------

static void check_dims(Builder *b, Check *c, const Dims *dims, const Dims *ids) {
  for (int i = 0; i < dims->n && c->rank < MAX_RANK; i++) {
    if (!dims_has(ids, dims->at[i])) c->without |= (uint16_t)(1U << c->rank);
    c->loop[c->rank++] = builder_dim(b, dims->at[i]);
  }
}

static KLevel level_of_check(const Kernel *k, NodeId n) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].node == n && k->stmt[i].op == OP_BOUND) return k->stmt[i].level;
  return LEVEL_PROLOGUE;
}

// Status code of a bound_index: 1 + its check.
static double check_add(Builder *b, const BuiltKernel *built, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const Dim *dim = dim_get(b->g->dims, x->attr.dims[0]);
  Check c = {.value = x->origin.value, .dim = dim->name, .size = dim->size, .pos = x->origin.pos};
  KLevel level = level_of_check(built->kernel, n);
  if (level >= LEVEL_OUTER) check_dims(b, &c, &built->outer, &x->dims);
  if (level == LEVEL_INNER) check_dims(b, &c, &built->inner, &x->dims);
  vec_push(b->a, b->check) = c;
  return b->check.n;
}

// -- sets ---------------------------------------------------------------------------------------

// Work units at full blocks, and as the executor computes them when bound.
static int64_t full_units(const Builder *b, const BuiltKernel *built) {
  const Kernel *k = built->kernel;
  int64_t units = 1;
  for (int i = 0; i < k->nouter; i++) {
    int64_t size = k->loop[i].size ? k->loop[i].size : list_elements(b->g->dims, &built->outer);
    units *= i == k->vector ? ceil_div(size, k->block) : size;
  }
  return units;
}

static Size units_of(Builder *b, const BuiltKernel *built) {
  const Kernel *k = built->kernel;
  Size s = {.base = 1, .slot = -1};
  for (int i = 0; i < k->nouter; i++) {
    int64_t block = i == k->vector ? k->block : 1;
    if (k->loop[i].slot < 0) {
      s.base *= ceil_div(k->loop[i].size, block);
      continue;
    }
    Slot slot = built->slot[k->loop[i].slot];
    int64_t scale = slot.scale ? slot.scale : 1, div = slot.div ? slot.div : 1;
    if (!*slot.dim) {
      s.base *= ceil_div(slot.whole * scale, div * block);
      continue;
    }
    slot.div = div * block > 1 ? div * block : 0;
    slot.times = s.slot + 1;
    s.slot = builder_slot(b, slot);
  }
  return s;
}

static KernelSet set_of(Builder *b, const BuiltKernel *built) {
  const Kernel *k = built->kernel;
  KernelSet s = {.ptr = arena_array(b->a, Ref, k->nptr + 1),
                 .slot = arena_array(b->a, int32_t, k->nslots + 1),
                 .num = arena_array(b->a, double, k->nnum + 1)};
  for (int i = 0; i < k->nptr; i++) s.ptr[i] = builder_ref(b, built->ptr[i]);
  for (int i = 0; i < k->nslots; i++) s.slot[i] = builder_slot(b, built->slot[i]);
  for (int i = 0; i < k->nnum; i++)
    s.num[i] = built->check[i] ? check_add(b, built, built->check[i]) : built->num[i];
  s.units = units_of(b, built);
  return s;
}

// Scatters add to zero.
static void fill_targets(Builder *b, const Group *g) {
  for (uint32_t i = 0; i < g->nnodes; i++) {
    if (graph_node(b->g, g->node[i])->op != OP_SCATTER_ADD) continue;
    Instr fill = {.kind = INSTR_FILL};
    fill.u.fill.dst = builder_ref(b, g->node[i]);
    fill.u.fill.bytes = node_bytes(b->g, g->node[i]);
    vec_push(b->a, b->instr) = fill;
  }
}

static int64_t weight_of(const Builder *b, const Group *g) {
  int64_t bytes = g->load_bytes + g->store_bytes;
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (graph_node(b->g, g->node[i])->op == OP_CONTRACT) {
      int64_t work = 2 * contract_work(b->g, g->node[i]) / FLOPS_A_BYTE;
      if (work > bytes) bytes = work;
    }
  return bytes;
}

void launch_emit(Builder *b, uint32_t n, const uint32_t *group) {
  Instr in = {.kind = INSTR_KERNEL};
  KernelLaunch *l = &in.u.kernel;
  int64_t units = 0, bytes = 0;
  l->kernel = kernel_share(b, b->f->group[group[0]].kernel->kernel);
  l->nsets = n;
  l->set = arena_array(b->a, KernelSet, n);
  for (uint32_t i = 0; i < n; i++) {
    fill_targets(b, &b->f->group[group[i]]);
    l->set[i] = set_of(b, b->f->group[group[i]].kernel);
    units += full_units(b, b->f->group[group[i]].kernel);
    bytes += weight_of(b, &b->f->group[group[i]]);
  }
  int64_t by_bytes =
      bytes
          ? clamp64((int64_t)((double)KERNEL_CHUNK_BYTES * (double)units / (double)bytes), 1, units)
          : units;
  l->grain = by_bytes > ceil_div(units, KERNEL_CHUNKS) ? by_bytes : ceil_div(units, KERNEL_CHUNKS);
  int64_t most = kernel_chunk_units(b->f->group[group[0]].kernel->kernel);
  if (l->grain > most) l->grain = most;
  int64_t whole = kernel_grain(b->f->group[group[0]].kernel->kernel);
  l->grain = ceil_div(l->grain < 1 ? 1 : l->grain, whole) * whole;
  for (uint32_t i = 0; i < n; i++)
    l->chunks += ceil_div(full_units(b, b->f->group[group[i]].kernel), l->grain);
  int64_t partial = b->kernel.at[l->kernel].partial_bytes;
  l->partial = (Ref){.tensor = -1, .offset = -1};
  if (partial)
    l->partial = builder_buffer(b, "partial results", partial * (l->chunks ? l->chunks : 1));
  vec_push(b->a, b->instr) = in;
}

// -- products -----------------------------------------------------------------------------------

void product_emit(Builder *b, const Group *g) {
  const GemmForm *form = g->gemm;
  NodeId n = g->node[0];
  const Node *x = graph_node(b->g, n);
  NodeId left = x->args[form->swapped], right = x->args[!form->swapped];
  Instr in = {.kind = INSTR_GEMM};
  Gemm *p = &in.u.gemm;
  *p = (Gemm){.type = (Dtype)x->type,
              .ta = form->ta,
              .tb = form->tb,
              .lda = form->lda,
              .ldb = form->ldb,
              .ldc = form->ldc};
  p->m = builder_size(b, &form->m);
  p->n = builder_size(b, &form->n);
  p->k = builder_size(b, &form->k);
  p->nbatch = form->batch.n;
  for (int i = 0; i < form->batch.n; i++) {
    Dims one = {.n = 1, .at = {form->batch.at[i]}};
    p->batch[i].count = builder_size(b, &one);
    p->batch[i].a = order_stride(b->g, &b->f->order->at[left], one.at[0]);
    p->batch[i].b = order_stride(b->g, &b->f->order->at[right], one.at[0]);
    p->batch[i].c = order_stride(b->g, &b->f->order->at[n], one.at[0]);
  }
  p->a = builder_ref(b, left);
  p->b = builder_ref(b, right);
  p->c = builder_ref(b, n);
  vec_push(b->a, b->instr) = in;
}

// -- ordered work -------------------------------------------------------------------------------

static OrderedKind ordered_kind(Op op) {
  switch ((int)op) {
  case OP_CUMSUM: return ORDERED_CUMSUM;
  case OP_CUMMAX: return ORDERED_CUMMAX;
  case OP_CUM_INDEX: return ORDERED_CUM_INDEX;
  case OP_ARGSORT: return ORDERED_ARGSORT;
  case OP_TOP_K: return ORDERED_TOP_K;
  }
  BUG("%s is no ordered op", op_row(op)->text);
}

void ordered_emit(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const Dims *from = &b->f->order->at[x->args[0]], *to = &b->f->order->at[n];
  DimId along = x->attr.dims[0], result = x->attr.nto ? x->attr.to[0] : along;
  Instr in = {.kind = INSTR_ORDERED};
  Ordered *o = &in.u.ordered;
  *o = (Ordered){.kind = ordered_kind((Op)x->op),
                 .type = (Dtype)graph_node(b->g, x->args[0])->type,
                 .flags = x->attr.flags,
                 .k = x->attr.nto ? dim_get(b->g->dims, result)->size : 0,
                 .src_step = order_stride(b->g, from, along),
                 .dst_step = order_stride(b->g, to, result)};
  o->n = builder_size(b, &(Dims){.n = 1, .at = {along}});
  for (int i = 0; i < from->n; i++) {
    Dims one = {.n = 1, .at = {from->at[i]}};
    if (one.at[0] == along) continue;
    o->row[o->nrows].count = builder_size(b, &one);
    o->row[o->nrows].src = order_stride(b->g, from, one.at[0]);
    o->row[o->nrows++].dst = order_stride(b->g, to, one.at[0]);
  }
  o->src = builder_ref(b, x->args[0]);
  o->dst = builder_ref(b, n);
  vec_push(b->a, b->instr) = in;
}

// -- collectives --------------------------------------------------------------------------------

static void part_dims(Builder *b, const Dims *order, int64_t *block, Size *valid) {
  for (int i = 0; i < order->n; i++) {
    Dims one = {.n = 1, .at = {order->at[i]}};
    block[i] = dim_get(b->g->dims, order->at[i])->size;
    valid[i] = builder_size(b, &one);
  }
}

// Axes that cut any of the dims.
static Axes axes_splitting(const Graph *g, const DimId *d, int n) {
  Axes all = {0};
  for (int i = 0; i < n; i++) {
    Axes cut = dim_get(g->dims, d[i])->axes;
    for (int k = 0; k < cut.n; k++)
      if (!axes_has(all, cut.at[k])) all.at[all.n++] = cut.at[k];
  }
  return all;
}

static CollPart part_of(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const Dims *to = &b->f->order->at[n];
  CollPart p = {.src = builder_ref(b, x->args[0]),
                .dst = builder_ref(b, n),
                .rank = to->n,
                .gathered = -1,
                .split = -1,
                .value = x->origin.value};
  part_dims(b, &b->f->order->at[x->args[0]], p.src_block, p.src_valid);
  part_dims(b, to, p.dst_block, p.dst_valid);
  const Attr *at = &x->attr;
  if (x->op == OP_ALL_GATHER || x->op == OP_ALL_TO_ALL)
    p.gathered = (int8_t)dims_index(to, at->to[0]);
  bool boxes = x->op == OP_PERMUTE && at->nto > 1;
  if (x->op == OP_REDUCE_SCATTER || (x->op == OP_PERMUTE && !boxes))
    p.split = (int8_t)dims_index(to, at->to[0]);
  for (int i = 0; i < at->nto && boxes; i++) {
    const Dim *have = dim_get(b->g->dims, at->dims[i]), *want = dim_get(b->g->dims, at->to[i]);
    p.moved[dims_index(to, at->to[i])] =
        (MovedDim){dim_get(b->g->dims, want->whole)->size, have->axes, want->axes};
  }
  if (x->op == OP_ALL_TO_ALL) p.split = (int8_t)dims_index(to, at->to[1]);
  if (x->op == OP_HALO) {
    const Dim *footprint = dim_get(b->g->dims, at->to[0]);
    p.split = (int8_t)dims_index(to, at->to[0]);
    p.whole = dim_get(b->g->dims, footprint->whole)->size;
    p.footprint = footprint->footprint;
  }
  if (x->op == OP_PERMUTE && !boxes)
    p.whole = dim_get(b->g->dims, dim_get(b->g->dims, at->to[0])->whole)->size;
  return p;
}

void collective_emit(Builder *b, const Group *g) {
  const Node *x = graph_node(b->g, g->node[0]);
  Instr in = {.kind = INSTR_COLLECTIVE};
  Collective *c = &in.u.collective;
  *c = (Collective){.axes = x->attr.axes,
                    .type = (Dtype)x->type,
                    .monoid = x->attr.monoid,
                    .backward = x->origin.backward,
                    .pos = x->origin.pos,
                    .why = x->origin.why};
  if (!coll_of((Op)x->op, &c->kind)) BUG("%s is no collective", op_row((Op)x->op)->text);
  if (x->op == OP_PERMUTE || x->op == OP_HALO) {
    c->axes = axes_splitting(b->g, x->attr.dims, x->attr.ndims);
    c->to = axes_splitting(b->g, x->attr.to, x->attr.nto);
  }
  c->nparts = g->nnodes;
  c->part = arena_array(b->a, CollPart, g->nnodes);
  for (uint32_t i = 0; i < g->nnodes; i++) c->part[i] = part_of(b, g->node[i]);
  c->bytes = coll_call_bytes(b->g, g->node, g->nnodes);
  c->wire_bytes = coll_wire_bytes(c->kind, axes_size(b->g->mesh, x->attr.axes), c->bytes);
  vec_push(b->a, b->instr) = in;
}
