// Makes the directory of tensors: declarations, constants, outputs. Also decides where updates go:
// a new value is written straight into its tensor if no group reads the old value later, else into
// a buffer that is copied at the end.
#include "codegen/program/program_internal.h"

#include <string.h>

static int32_t add_tensor(Builder *b, ProgTensor t) {
  vec_push(b->a, b->tensor) = t;
  return (int32_t)(b->tensor.n - 1);
}

// Sets the dims of tensor t, in physical order. Sets t->declared[i] to the index in t->dim of
// order[i], dim i of the tensor as the model declares it. `order` has `rank` dims.
static void set_dims(Builder *b, ProgTensor *t, const DimList *physical, int rank,
                     const DimId *order) {
  t->rank = physical->n;
  t->bytes = dtype_bytes(t->type);
  for (int i = 0; i < physical->n; i++) {
    t->dim[i] = builder_dim(b, physical->at[i]);
    t->bytes *= t->dim[i].block;
    t->declared[i] = (uint8_t)i;
  }
  for (int i = 0; i < rank && i < physical->n; i++)
    for (int j = 0; j < physical->n; j++)
      if (dim_get(b->g->dims, physical->at[j])->whole == order[i]) t->declared[i] = (uint8_t)j;
}

TensorKind tensor_kind(DeclKind k) {
  static const TensorKind kind[] = {[DECL_INPUT] = TENSOR_INPUT,
                                    [DECL_PARAM] = TENSOR_PARAM,
                                    [DECL_STATE] = TENSOR_STATE,
                                    [DECL_SLOT] = TENSOR_SLOT};
  return kind[k];
}

TensorKind tensor_kind_of_output(const Graph *g, const Output *o) {
  return o->kind == OUT_VALUE ? TENSOR_OUTPUT : tensor_kind(g->decl.at[o->target - 1].kind);
}

// Returns a node that has the dims and the physical order of declaration d. It is the node that
// reads the declared tensor or, if none does, the value of its update. Returns 0 if the tensor is
// neither read nor updated.
static NodeId shape_of(const Builder *b, DeclId d) {
  const Decl *decl = &b->g->decl.at[d - 1];
  if (decl->node) return decl->node;
  for (uint32_t i = 0; i < b->g->output.n; i++)
    if (b->g->output.at[i].kind == OUT_UPDATE && b->g->output.at[i].target == d)
      return b->g->output.at[i].value;
  return 0;
}

static void add_decl(Builder *b, DeclId d) {
  const Decl *decl = &b->g->decl.at[d - 1];
  NodeId n = shape_of(b, d);
  b->decl_tensor[d] = -1;
  bool unused = !n && b->opt->keep && (decl->kind == DECL_PARAM || decl->kind == DECL_STATE);
  if (!n && !unused) return;
  ProgTensor t = {.kind = tensor_kind(decl->kind),
                  .name = decl->name,
                  .type = decl->type,
                  .init = decl->init,
                  .of = -1,
                  .pos = decl->pos};
  Dims declared = {.n = decl->rank}; // no layout splits an unused tensor: its dims are whole
  memcpy(declared.at, decl->dims, sizeof *decl->dims * decl->rank);
  set_dims(b, &t, unused ? &declared : &b->f->order->at[n], decl->rank, decl->dims);
  if (decl->kind == DECL_SLOT && decl->of) t.of = b->decl_tensor[decl->of];
  t.at = decl->kind == DECL_INPUT ? builder_ref(b, n) : (Ref){.tensor = (int32_t)b->tensor.n};
  b->decl_tensor[d] = add_tensor(b, t);
  if (decl->kind == DECL_INPUT) {
    b->buffer.at[t.at.offset].kept = true;
    b->buffer.at[t.at.offset].value = decl->name;
  }
}

static void place_source(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  if (op_is_decl((Op)x->op) && x->op != OP_INPUT) {
    b->place[n] = (Ref){.tensor = b->decl_tensor[x->attr->decl]};
    b->placed[n] = true;
  }
  if (x->op != OP_VALUES) return;
  ProgTensor t = {.kind = TENSOR_CONSTANT,
                  .name = arena_printf(b->a, "constant.%u", n),
                  .type = (Dtype)x->type,
                  .of = -1,
                  .pos = x->origin->pos,
                  .data = x->attr->data};
  t.at = (Ref){.tensor = (int32_t)b->tensor.n};
  set_dims(b, &t, &b->f->order->at[n], 0, NULL);
  b->place[n] = t.at;
  b->placed[n] = true;
  add_tensor(b, t);
}

void directory_make(Builder *b) {
  for (DeclId d = 1; d <= b->g->decl.n; d++) add_decl(b, d);
  for (NodeId n = 1; n <= graph_count(b->g); n++) place_source(b, n);
}

void directory_outputs(Builder *b) {
  for (uint32_t i = 0; i < b->g->output.n; i++) {
    const Output *o = &b->g->output.at[i];
    if (o->kind != OUT_VALUE) continue;
    const Node *x = graph_node(b->g, o->value);
    ProgTensor t = {.kind = TENSOR_OUTPUT,
                    .name = o->name,
                    .type = (Dtype)x->type,
                    .of = -1,
                    .pos = x->origin->pos};
    DimId canonical[MAX_RANK];
    for (int k = 0; k < x->dims->n; k++) canonical[k] = dim_get(b->g->dims, x->dims->at[k])->whole;
    // an output without a stated order has the order of its dims in the model
    set_dims(b, &t, &b->f->order->at[o->value], x->dims->n, o->rank ? o->dims : canonical);
    t.at = builder_ref(b, o->value);
    if (t.at.tensor < 0) b->buffer.at[plan_owner(b, t.at.offset)].kept = true;
    add_tensor(b, t);
  }
}

// -- where updates are written -----------------------------------------------------------------

// Returns whether kernel k may write value `root` into the memory of node `old`, a tensor that the
// kernel reads. It may if it reads each element of the tensor before it writes that element.
static bool element_by_element(const Builder *b, const BuiltKernel *k, NodeId root, NodeId old) {
  int store = -1;
  for (int i = 0; i < k->kernel->nptr; i++)
    if (k->kernel->ptr[i].written && memory_root(b->g, k->ptr[i]) == root) store = i;
  for (int i = 0; i < k->kernel->nptr; i++) {
    if (k->kernel->ptr[i].written || memory_root(b->g, k->ptr[i]) != old) continue;
    if (store < 0 || !pointers_overlay(k->kernel, i, store)) return false;
  }
  return store >= 0;
}

static bool group_reads(const Builder *b, uint32_t gi, NodeId old) {
  const Group *g = &b->f->group[gi];
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(b->g, g->node[i]);
    for (int j = 0; j < x->nargs; j++)
      if (memory_root(b->g, x->args[j]) == old) return true;
  }
  return false;
}

// The groups that read a declared tensor after the commit. `last` is the last of them in the order
// of the schedule, `other` the last one apart from that. Both are 1 + an index into Fusion.group,
// 0: none.
typedef struct Readers {
  uint32_t last, other;
} Readers;

static Readers *readers_find(const Builder *b) {
  const Schedule *s = &b->schedule;
  Readers *r = arena_array(b->a, Readers, graph_count(b->g) + 1);
  for (uint32_t i = s->commit; i < s->n; i++) {
    const Group *g = &b->f->group[s->group[i]];
    for (uint32_t j = 0; j < g->nnodes; j++) {
      const Node *x = graph_node(b->g, g->node[j]);
      for (int k = 0; k < x->nargs; k++) {
        Readers *at = &r[memory_root(b->g, x->args[k])];
        if (at->last == s->group[i] + 1) continue;
        *at = (Readers){s->group[i] + 1, at->last};
      }
    }
  }
  return r;
}

// Returns whether a group other than `writer` reads the old value of a tensor at the position of
// `writer` in the schedule or later. The groups that read the tensor are in r.
static bool read_later(const Builder *b, Readers r, uint32_t writer) {
  uint32_t other = r.last == writer + 1 ? r.other : r.last;
  return other && b->schedule.position[other - 1] >= b->schedule.position[writer];
}

static bool in_place(const Builder *b, const Readers *readers, const Output *o) {
  NodeId root = memory_root(b->g, o->value), old = b->g->decl.at[o->target - 1].node;
  uint32_t writer = b->f->of[root];
  if (!b->f->after_commit[writer]) return false;
  if (!old) return true;
  if (read_later(b, readers[old], writer)) return false;
  if (!group_reads(b, writer, old)) return true;
  return b->f->group[writer].kernel && element_by_element(b, b->f->group[writer].kernel, root, old);
}

void updates_place(Builder *b) {
  const Readers *readers = readers_find(b);
  for (uint32_t i = 0; i < b->g->output.n; i++) {
    const Output *o = &b->g->output.at[i];
    if (o->kind != OUT_UPDATE || !in_place(b, readers, o)) continue;
    NodeId root = memory_root(b->g, o->value);
    b->place[root] = (Ref){.tensor = b->decl_tensor[o->target]};
    b->placed[root] = true;
  }
}

void updates_copy(Builder *b) {
  for (uint32_t i = 0; i < b->g->output.n; i++) {
    const Output *o = &b->g->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    Ref to = {.tensor = b->decl_tensor[o->target]}, from = builder_ref(b, o->value);
    if (from.tensor != to.tensor) builder_copy(b, to, from, node_bytes(b->g, o->value));
  }
}
