// Emits the instructions of kernels, GEMMs and ordered work, such as cumulative sums and sorting.
#include "codegen/program/program_internal.h"
#include "ir/base/hash.h"

enum { FLOPS_A_BYTE = 8 }; // number of operations that take about as long as moving one byte

uint32_t kernel_share(Builder *b, Kernel *k) {
  const char *text =
      b->opt->simulated ? kernel_number(b->identities, k) : kernel_text(b->identities, k);
  uintptr_t known = (uintptr_t)map_get(&b->kernel_at, text);
  if (known) return (uint32_t)known - 1;
  k->name = arena_printf(b->a, "k%016llx", (unsigned long long)fnv_text(text));
  vec_push(b->a, b->kernels) = k;
  vec_push(b->a, b->kernel) = (ProgKernel){.name = k->name,
                                           .text = text,
                                           .nptr = k->nptr,
                                           .nslot = k->nslots,
                                           .nnum = k->nnum,
                                           .partial_bytes = kernel_partial_bytes(k)};
  map_put(b->a, &b->kernel_at, text, (void *)(uintptr_t)b->kernel.n);
  return b->kernel.n - 1;
}

void kernels_drop_unused(Builder *b) {
  uint32_t *at = arena_array(b->a, uint32_t, b->kernel.n + 1), n = 0;
  for (uint32_t i = 0; i < b->instr.n; i++)
    if (b->instr.at[i].kind == INSTR_KERNEL) at[b->instr.at[i].u.kernel.kernel] = 1;
  for (uint32_t k = 0; k < b->kernel.n; k++) {
    if (!at[k]) continue;
    b->kernel.at[n] = b->kernel.at[k];
    b->kernels.at[n] = b->kernels.at[k];
    at[k] = n++;
  }
  b->kernel.n = b->kernels.n = n;
  for (uint32_t i = 0; i < b->instr.n; i++)
    if (b->instr.at[i].kind == INSTR_KERNEL)
      b->instr.at[i].u.kernel.kernel = at[b->instr.at[i].u.kernel.kernel];
}

// -- checks of indices -------------------------------------------------------------------------

static void check_dims(Builder *b, Check *c, const Dims *dims, const Dims *ids) {
  for (int i = 0; i < dims->n && c->rank < MAX_RANK; i++) {
    if (!dims_has(ids, dims->at[i])) c->without |= (uint16_t)(1U << c->rank);
    c->loop[c->rank++] = builder_dim(b, dims->at[i]);
  }
}

// Says which rows of the batch the ids of node n are, if the step splits the batch into parts.
static void check_part(Builder *b, Check *c, NodeId n) {
  const DataBlock *data = &b->g->spec.data[DATA_TRAIN];
  if (!data->micro) return;
  const Dim *rows = dim_get(b->g->dims, data->over), *parts = dim_get(b->g->dims, data->micro);
  for (int i = 0; i < c->rank; i++)
    if (!strcmp(c->loop[i].name, rows->name)) c->row = (uint8_t)(i + 1);
  if (!b->micro) b->micro = graph_micro_batches(b->a, b->g);
  c->first = b->micro && b->micro[n] ? (b->micro[n] - 1) * rows->size : 0;
  c->batch = rows->size * parts->size;
}

static KLevel level_of_check(const Kernel *k, NodeId n) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].node == n && k->stmt[i].op == OP_BOUND) return k->stmt[i].level;
  return LEVEL_PROLOGUE;
}

// Adds to the Program the check that the indices of node n, a bound_index, are in range. Returns
// the status code that a failed check reports: 1 + the index of the check in Program.check.
static double check_add(Builder *b, const BuiltKernel *built, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const Dim *dim = dim_get(b->g->dims, x->attr->dims[0]);
  Check c = {.value = x->origin->value, .dim = dim->name, .size = dim->size, .pos = x->origin->pos};
  KLevel level = level_of_check(built->kernel, n);
  if (level >= LEVEL_OUTER) check_dims(b, &c, &built->outer, x->dims);
  if (level == LEVEL_INNER) check_dims(b, &c, &built->inner, x->dims);
  check_part(b, &c, n);
  vec_push(b->a, b->check) = c;
  return b->check.n;
}

// -- launches of kernels -----------------------------------------------------------------------
//
// A launch runs one kernel for several groups. Each group has its set of arguments.

// Returns the number of units (iterations of the outer loops) of a kernel if all loops have full
// length.
static int64_t full_units(const Builder *b, const BuiltKernel *built) {
  const Kernel *k = built->kernel;
  if (!k->nouter || k->loop[0].size) return kernel_units(k);
  // the size of the only loop is known at run time only (any_size of kernel_build)
  int64_t elements = list_elements(b->g->dims, &built->outer);
  return k->vector == 0 ? ceil_div(elements, k->block) : elements;
}

// Returns the number of units (iterations of the outer loops) of a kernel as a Size. The Size names
// a run-time argument if a loop length is known at run time only. The number then follows that
// length.
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

// Emits instructions that fill with zeros the tensors to which the scatters in group g add values.
static void fill_targets(Builder *b, const Group *g) {
  for (uint32_t i = 0; i < g->nnodes; i++) {
    if (graph_node(b->g, g->node[i])->op != OP_SCATTER_ADD) continue;
    Ref target = builder_ref(b, g->node[i]);
    vec_push(b->a, b->instr) = (Instr){
        .kind = INSTR_FILL, .u.fill = {.dst = target, .bytes = node_bytes(b->g, g->node[i])}};
  }
}

// Returns the work of a group in bytes. It is the bytes that the group loads and stores or, if
// larger, the bytes that could be moved in the time of its contractions.
static int64_t weight_of(const Builder *b, const Group *g) {
  int64_t bytes = g->load_bytes + g->store_bytes;
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (graph_node(b->g, g->node[i])->op == OP_CONTRACT) {
      int64_t work = contract_flops(b->g, g->node[i], NULL, NULL) / FLOPS_A_BYTE;
      if (work > bytes) bytes = work;
    }
  return bytes;
}

// Into how many chunks a launch is divided: `most`, or fewer that move about `bytes` bytes each.
typedef struct Chunks {
  int64_t most, bytes;
} Chunks;

// Returns how many units (iterations of the outer loops) a chunk has. The launch has `units` units
// and moves `bytes` bytes.
static int64_t chunk_units(Chunks c, int64_t units, int64_t bytes) {
  double by_bytes = (double)c.bytes * (double)units / (double)(bytes ? bytes : 1);
  int64_t n = bytes ? clamp64((int64_t)by_bytes, 1, units) : units;
  return n < ceil_div(units, c.most) ? ceil_div(units, c.most) : n;
}

// Returns n or fewer units, with which a launch has an even number of equal chunks, if half of n is
// enough for that. Threads then get equal shares, and those rows that they get of products. grain:
// the result is a multiple of it, as n is.
static int64_t even_chunk(int64_t n, int64_t units, int64_t grain) {
  int64_t least = ceil_div(units, KERNEL_CHUNKS);
  for (int64_t each = n; n < units && each >= least && 2 * each > n; each -= grain)
    if (units % (2 * each) == 0) return each;
  return n;
}

// Returns the same for a CPU, where a chunk runs on one thread: a multiple of kernel_grain.
static int64_t cpu_chunk_units(const Kernel *k, int64_t units, int64_t bytes) {
  int64_t n = chunk_units((Chunks){KERNEL_CHUNKS, KERNEL_CHUNK_BYTES}, units, bytes);
  int64_t grain = kernel_grain(k), most = kernel_chunk_units(k);
  if (n > most) n = most;
  return even_chunk(ceil_div(n < 1 ? 1 : n, grain) * grain, units, grain);
}

// Returns the same for a GPU, where a block of threads runs a chunk: at most that for a CPU, so
// that the errors of sums are bounded as there. Chunks move more bytes than their partial rows
// have, so that these take little memory and time. The numbers depend on no GPU: all give the same
// results.
static int64_t gpu_chunk_units(const Kernel *k, int64_t units, int64_t bytes) {
  enum { MOST = 512, BYTES = 16384, ROWS = 4 };
  Chunks c = {MOST, ROWS * kernel_partial_bytes(k)};
  if (c.bytes < BYTES) c.bytes = BYTES;
  int64_t n = chunk_units(c, units, bytes), most = cpu_chunk_units(k, units, bytes);
  return clamp64(n, 1, most);
}

// Sets how the units of a launch divide into rows, if the loop around group g has rows.
static void set_rows(const Builder *b, const Group *g, KernelLaunch *l) {
  const Kernel *k = g->kernel->kernel;
  int rows = loop_of_rows(b->f, g, k);
  if (rows < 0) return;
  l->strips = l->row_units = 1;
  for (int i = 0; i < k->nouter; i++) {
    int64_t units = i == k->vector ? ceil_div(k->loop[i].size, k->block) : k->loop[i].size;
    if (i < rows) l->strips *= units;
    if (i > rows) l->row_units *= units;
  }
}

void launch_emit(Builder *b, uint32_t n, const uint32_t *group) {
  Instr in = {.kind = INSTR_KERNEL};
  KernelLaunch *l = &in.u.kernel;
  Kernel *k = b->f->group[group[0]].kernel->kernel;
  int64_t units = 0, bytes = 0;
  l->kernel = kernel_share(b, k);
  l->nsets = n;
  l->set = arena_array(b->a, KernelSet, n);
  for (uint32_t i = 0; i < n; i++) {
    const Group *g = &b->f->group[group[i]];
    fill_targets(b, g);
    l->set[i] = set_of(b, g->kernel);
    units += full_units(b, g->kernel);
    bytes += weight_of(b, g);
  }
  l->grain = b->opt->gpu ? gpu_chunk_units(k, units, bytes) : cpu_chunk_units(k, units, bytes);
  if (n == 1) set_rows(b, &b->f->group[group[0]], l);
  for (uint32_t i = 0; i < n; i++)
    l->chunks += ceil_div(full_units(b, b->f->group[group[i]].kernel), l->grain);
  int64_t partial = b->kernel.at[l->kernel].partial_bytes;
  l->partial = (Ref){.tensor = -1, .offset = -1};
  if (partial)
    l->partial = builder_buffer(b, "partial results", partial * (l->chunks ? l->chunks : 1));
  vec_push(b->a, b->instr) = in;
}

// -- instructions of GEMMs ---------------------------------------------------------------------

// Returns the part of role dims `role` that piece i computes. A role whose dim the pieces do not
// split has all its elements.
static void split_role(const Builder *b, const LivePieces *l, const DimList *role, int i,
                       GemmPiece *p, int at) {
  bool whole = role->n != 1;
  int64_t size = list_elements(b->g->dims, role), end = (i + 1) * l->block;
  p->to[at] = size;
  if (!whole && role->at[0] == l->span) p->from[at] = l->from[i], p->to[at] = l->to[i];
  if (whole || l->rounds || role->at[0] != l->blocks) return;
  p->from[at] = i * l->block;
  p->to[at] = end < size ? end : size;
}

// Returns 1 + the index, outermost first, of the loop over dim d around region r.
static int32_t step_of(const Graph *g, RegionId r, DimId d) {
  int32_t depth = 0, at = 0;
  for (; r; r = region_get(g, r)->parent, depth++)
    if (region_get(g, r)->t == d) at = depth + 1;
  return depth - at + 1;
}

static void gemm_pieces(const Builder *b, NodeId n, const GemmForm *form, Gemm *out) {
  const LivePieces *l = form->live;
  if (!l) return;
  GemmPiece *p = arena_array(b->a, GemmPiece, l->n);
  for (int i = 0; i < l->n; i++) {
    split_role(b, l, &form->m, i, &p[i], 0);
    split_role(b, l, &form->n, i, &p[i], 1);
    split_role(b, l, &form->k, i, &p[i], 2);
  }
  out->npieces = l->n;
  out->piece = p;
  out->by_step = l->rounds ? step_of(b->g, graph_node(b->g, n)->region, l->blocks) : 0;
}

static GemmEpilogue *gemm_epilogue(Builder *b, const GemmTail *t) {
  if (!t) return NULL;
  GemmEpilogue *e = arena_new_of(b->a, GemmEpilogue);
  e->act = t->act;
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    e->has[i] = t->extra[i];
    if (e->has[i]) e->extra[i] = builder_ref(b, t->extra[i]);
  }
  return e;
}

// Sets the loops around a product: how many there are, and how far apart their operands are.
static void gemm_batches(Builder *b, const GemmForm *form, const NodeId operand[3], Gemm *p) {
  const DimList *order = b->f->order->at;
  p->nbatch = form->batch.n;
  for (int i = 0; i < form->batch.n; i++) {
    DimId d = form->batch.at[i];
    p->batch[i].count = builder_dim_size(b, d);
    p->batch[i].a = order_stride(b->g, &order[operand[0]], d);
    p->batch[i].b = order_stride(b->g, &order[operand[1]], d);
    p->batch[i].c = order_stride(b->g, &order[operand[2]], d);
  }
}

void gemm_emit(Builder *b, const Group *g) {
  const GemmForm *form = g->gemm;
  NodeId n = g->node[0];
  const Node *x = graph_node(b->g, n);
  NodeId left = x->args[form->swapped], right = x->args[!form->swapped],
         result = gemm_result(form, n);
  Instr in = {.kind = INSTR_GEMM};
  Gemm *p = &in.u.gemm;
  *p = (Gemm){.factors = (Dtype)graph_node(b->g, left)->type,
              .type = (Dtype)graph_node(b->g, result)->type,
              .tf32 = b->opt->tf32 && graph_node(b->g, left)->type == TYPE_F32,
              .ta = form->ta,
              .tb = form->tb,
              .lda = form->lda,
              .ldb = form->ldb,
              .ldc = form->ldc};
  p->m = builder_size(b, &form->m);
  p->n = builder_size(b, &form->n);
  p->k = builder_size(b, &form->k);
  gemm_batches(b, form, (NodeId[]){left, right, n}, p);
  p->a = builder_ref(b, left);
  p->b = builder_ref(b, right);
  p->c = builder_ref(b, result);
  gemm_pieces(b, n, form, p);
  p->epilogue = gemm_epilogue(b, form->tail);
  vec_push(b->a, b->instr) = in;
}

// -- instructions of ordered work: cumulative sums, sorting ------------------------------------

static OrderedKind ordered_kind(Op op) {
  switch ((int)op) {
  case OP_CUMSUM: return ORDERED_CUMSUM;
  case OP_CUMPROD: return ORDERED_CUMPROD;
  case OP_CUMMAX: return ORDERED_CUMMAX;
  case OP_CUM_INDEX: return ORDERED_CUM_INDEX;
  case OP_ARGSORT: return ORDERED_ARGSORT;
  case OP_TOP_K: return ORDERED_TOP_K;
  }
  BUG("%s is no ordered op", op_row(op)->text);
}

void ordered_emit(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const DimList *from = &b->f->order->at[x->args[0]], *to = &b->f->order->at[n];
  DimId along = x->attr->dims[0], result = x->attr->nto ? x->attr->to[0] : along;
  Instr in = {.kind = INSTR_ORDERED};
  Ordered *o = &in.u.ordered;
  *o = (Ordered){.kind = ordered_kind((Op)x->op),
                 .type = (Dtype)graph_node(b->g, x->args[0])->type,
                 .flags = x->attr->flags,
                 .k = x->attr->nto ? dim_get(b->g->dims, result)->size : 0,
                 .src_step = order_stride(b->g, from, along),
                 .dst_step = order_stride(b->g, to, result)};
  o->n = builder_dim_size(b, along);
  for (int i = 0; i < from->n; i++) {
    DimId d = from->at[i];
    if (d == along) continue;
    o->row[o->nrows].count = builder_dim_size(b, d);
    o->row[o->nrows].src = order_stride(b->g, from, d);
    o->row[o->nrows++].dst = order_stride(b->g, to, d);
  }
  o->src = builder_ref(b, x->args[0]);
  o->dst = builder_ref(b, n);
  vec_push(b->a, b->instr) = in;
}
