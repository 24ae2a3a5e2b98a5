// Makes notes on instructions: the values of the model that each computes, its bytes and
// operations. Traces, bench and messages read them; the result of a run does not depend on them.
#include "codegen/program/program_internal.h"

typedef VEC(InstrValue) ValueList;

static void add_value(Builder *b, ValueList *out, uint32_t set, uint32_t ptr, NodeId n) {
  const Node *x = graph_node(b->g, n);
  const DimList *order = &b->f->order->at[n];
  InstrValue m = {.set = set,
                  .ptr = ptr,
                  .type = (Dtype)x->type,
                  .rank = order->n,
                  .value = x->origin->value,
                  .op = node_source_name(b->g, n),
                  .backward = x->origin->backward,
                  .pos = x->origin->pos};
  ProgDim *dim = arena_array(b->a, ProgDim, order->n);
  for (int i = 0; i < order->n; i++) dim[i] = program_dim(b->g, order->at[i]);
  m.dim = dim;
  vec_push(b->a, *out) = m;
}

// Returns the flops of an operation on matrices: of the batch, with the other dims of a second
// argument as columns on the right-hand side.
static int64_t matrices_flops(const Graph *g, const Node *x, MatrixKind kind) {
  double m = (double)dim_get(g->dims, x->attr->dims[0])->size,
         n = (double)dim_get(g->dims, x->attr->dims[1])->size,
         batch = (double)list_elements(g->dims, graph_node(g, x->args[0])->dims) / (m * n),
         right = x->nargs > 1 ? (double)list_elements(g->dims, x->dims) / (batch * n) : 0;
  return (int64_t)(batch * matrix_flops(kind, m, n, right));
}

static int64_t node_flops(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  MatrixKind kind;
  if (op_matrix((Op)x->op, &kind)) return matrices_flops(g, x, kind);
  if (x->op == OP_CONTRACT) return contract_flops(g, n, NULL, NULL);
  OpClass cls = op_row((Op)x->op)->cls;
  if (cls == POINTWISE) return list_elements(g->dims, x->dims);
  return cls == REDUCE ? list_elements(g->dims, graph_node(g, x->args[0])->dims) : 0;
}

// Returns the share of its terms that the product of group g computes.
static double live_share(const Group *g) { return g->gemm->live ? g->gemm->live->share : 1; }

// Returns the bytes and the operations of one run of group g. `in` is the instruction that runs the
// group.
static GroupNote note_group(const Builder *b, const Group *g, const Instr *in) {
  GroupNote out = {0};
  const Node *x = graph_node(b->g, g->node[0]);
  if (in->kind == INSTR_KERNEL) {
    for (uint32_t i = 0; i < g->nnodes; i++) out.flops += node_flops(b->g, g->node[i]);
    out.bytes = g->load_bytes + g->store_bytes;
    out.written = g->store_bytes;
  } else if (in->kind == INSTR_COLLECTIVE) {
    out.bytes = in->u.collective.bytes;
  } else {
    if (in->kind == INSTR_MATRIX) out.flops = node_flops(b->g, g->node[0]);
    if (in->kind == INSTR_GEMM)
      out.flops = (int64_t)(live_share(g) * (double)node_flops(b->g, g->node[0]));
    const GemmTail *t = in->kind == INSTR_GEMM ? g->gemm->tail : NULL;
    for (int i = 0; i < x->nargs; i++) out.bytes += node_bytes(b->g, x->args[i]);
    for (int i = 0; t && i < GEMM_EXTRAS; i++)
      if (t->extra[i]) out.bytes += node_bytes(b->g, t->extra[i]);
    out.written = node_bytes(b->g, t ? t->result : g->node[0]);
    if (t && t->keeps) out.written += node_bytes(b->g, t->extra[GEMM_AUX]);
    out.bytes += node_bytes(b->g, t ? t->result : g->node[0]);
  }
  return out;
}

static void add_kernel_values(Builder *b, ValueList *values, uint32_t set,
                              const BuiltKernel *built) {
  for (uint32_t p = 0; p < built->kernel->nptr; p++)
    if (built->kernel->ptr[p].written) add_value(b, values, set, p, built->ptr[p]);
}

// Adds the values of a product: the result, and what it keeps beside it.
static void add_product_values(Builder *b, ValueList *values, const Group *g) {
  const GemmTail *t = g->gemm->tail;
  add_value(b, values, 0, 0, gemm_result(g->gemm, g->node[0]));
  if (t && t->keeps) add_value(b, values, 0, 1, t->extra[GEMM_AUX]);
}

// Adds notes on the groups that instruction `instr` runs. The first of them has index `first` in
// the schedule. A launch of a kernel runs as many groups, adjacent in the schedule, as it has sets
// of arguments.
static void note_instr(Builder *b, uint32_t first, uint32_t instr, ValueList *values,
                       InstrNote *out) {
  const Instr *in = &b->instr.at[instr];
  uint32_t n = in->kind == INSTR_KERNEL ? in->u.kernel.nsets : 1;
  for (uint32_t s = 0; s < n; s++) {
    uint32_t group = b->schedule.group[first + s];
    const Group *g = &b->f->group[group];
    GroupNote note = note_group(b, g, in);
    note.instr = instr + 1;
    note.together = n;
    b->note[group] = note;
    out->bytes += note.bytes;
    out->written += note.written;
    out->flops += note.flops;
    if (in->kind == INSTR_KERNEL) add_kernel_values(b, values, s, b->f->group[group].kernel);
    if (in->kind == INSTR_GEMM) add_product_values(b, values, g);
    if (in->kind == INSTR_ORDERED || in->kind == INSTR_MATRIX)
      add_value(b, values, 0, 0, g->node[0]);
    for (uint32_t i = 0; in->kind == INSTR_COLLECTIVE && i < g->nnodes; i++)
      add_value(b, values, 0, i, g->node[i]);
  }
}

void notes_make(Builder *b) {
  b->p->note = arena_array(b->a, InstrNote, b->instr.n + 1);
  b->note = arena_array(b->a, GroupNote, b->f->ngroups + 1);
  ValueList values = {0}; // of one instruction
  for (uint32_t i = 0; i < b->instr.n; i++) {
    const Instr *in = &b->instr.at[i];
    InstrNote *out = &b->p->note[i];
    uint32_t at = i < b->from.n ? b->from.at[i] : 0;
    values.n = 0;
    if (in->kind == INSTR_KERNEL || in->kind == INSTR_GEMM || in->kind == INSTR_COLLECTIVE ||
        in->kind == INSTR_ORDERED || in->kind == INSTR_MATRIX)
      note_instr(b, at - 1, i, &values, out);
    if (in->kind == INSTR_COPY) out->written = in->u.copy.bytes, out->bytes = 2 * out->written;
    if (in->kind == INSTR_FILL) out->written = out->bytes = in->u.fill.bytes;
    out->value = arena_copy(b->a, values.at, values.n * sizeof *values.at);
    out->nvalues = values.n;
  }
}
