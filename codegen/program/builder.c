// Adds parts to a Program under construction: slots, sizes, dims, buffers, and the memory of each
// value.
#include "codegen/program/program_internal.h"

#include <string.h>

// Sets the loop on which slot s depends. Outside of it all elements are needed.
static void find_loop(const Builder *b, Slot *s) {
  int32_t at = -1, depth = 0;
  for (RegionId r = b->open; r; r = region_get(b->g, r)->parent, depth++)
    if (at < 0 && strcmp(dim_get(b->g->dims, region_get(b->g, r)->t)->name, s->by) == 0) at = depth;
  s->loop = depth - 1 - at;
  if (at < 0)
    *s = (Slot){.kind = SLOT_EXTENT,
                .dim = s->dim,
                .whole = s->whole,
                .scale = s->scale,
                .div = s->div,
                .times = s->times};
}

int32_t builder_slot(Builder *b, Slot s) {
  if (s.live) find_loop(b, &s);
  for (uint32_t i = 0; i < b->slot.n; i++)
    if (slot_equal(&b->slot.at[i], &s)) return (int32_t)i;
  vec_push(b->a, b->slot) = s;
  return (int32_t)(b->slot.n - 1);
}

Size builder_size(Builder *b, const DimList *list) {
  Size s = {.base = 1, .slot = -1};
  bool uneven;
  Slot slot;
  if (!extent_list(b->g, b->f->rows, list, &s.base, &uneven, &slot))
    BUG("dims that are short inside a nest");
  if (uneven) s.slot = builder_slot(b, slot);
  return s;
}

Size builder_dim_size(Builder *b, DimId d) { return builder_size(b, &(Dims){.n = 1, .at = {d}}); }

ProgDim program_dim(const Graph *g, DimId d) {
  const Dim *dim = dim_get(g->dims, d), *full = dim_get(g->dims, dim->whole);
  return (ProgDim){
      .name = full->name, .whole = full->size, .block = dim->size, .axes = dim->axes, .extent = -1};
}

ProgDim builder_dim(Builder *b, DimId d) {
  ProgDim p = program_dim(b->g, d);
  Slot slot;
  if (extent_slot(b->g, b->f->rows, d, &slot)) p.extent = builder_slot(b, slot);
  return p;
}

Ref builder_buffer(Builder *b, const char *value, int64_t bytes) {
  vec_push(b->a, b->buffer) =
      (PlanBuffer){.value = value, .bytes = bytes > 0 ? bytes : 1, .first = UINT32_MAX};
  return (Ref){.tensor = -1, .offset = b->buffer.n - 1};
}

// Returns the number of loops around a node of region r, where r is the innermost of these loops.
// It is 0 outside all loops.
static int depth_of(const Graph *g, RegionId r) {
  int depth = 0;
  for (; r; r = region_get(g, r)->parent) depth++;
  if (depth > LOOP_DEPTH) BUG("loops nest deeper than %d", LOOP_DEPTH);
  return depth;
}

Ref builder_step_ref(Builder *b, Ref r, RegionId loop, int64_t bytes) {
  int64_t *stride = arena_array(b->a, int64_t, LOOP_DEPTH);
  for (int i = 0; r.stride && i < LOOP_DEPTH; i++) stride[i] = r.stride[i];
  stride[depth_of(b->g, loop) - 1] += bytes;
  r.stride = stride;
  return r;
}

RegionId collect_loop(const Graph *g, NodeId collect) {
  return graph_node(g, graph_node(g, collect)->args[0])->attr->region;
}

Ref builder_ref(Builder *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  if (b->placed[n]) return b->place[n];
  if (op_is_view((Op)x->op)) {
    Ref of = builder_ref(b, view_of(b->g, n));
    return x->op == OP_AT ? builder_step_ref(b, of, x->attr->region, node_bytes(b->g, n)) : of;
  }
  b->placed[n] = true;
  // A value that a guarded loop brings in stays where it is. The guard has a byte of its own, which
  // the copy writes before all workers.
  if (carry_is_constant(b->g, b->scan, n) && x->attr->carry != 0)
    return b->place[n] = builder_ref(b, x->args[0]);
  if (b->collected_in[n]) {
    Ref all = builder_ref(b, b->collected_in[n]);
    return b->place[n] = builder_step_ref(b, all, collect_loop(b->g, b->collected_in[n]),
                                          node_bytes(b->g, n));
  }
  const char *value = x->origin->value ? x->origin->value : op_row((Op)x->op)->text;
  b->place[n] = builder_buffer(b, arena_printf(b->a, "%%%u %s", n, value), node_bytes(b->g, n));
  b->buffer.at[b->place[n].offset].node = n;
  return b->place[n];
}

// Returns whether offsets x and y of Refs into the arena name the same memory.
static bool same_buffer(const Builder *b, int64_t x, int64_t y) {
  return plan_owner(b, x) == plan_owner(b, y) && b->buffer.at[x].shift == b->buffer.at[y].shift;
}

static bool same_memory(const Builder *b, Ref x, Ref y) {
  bool same = x.tensor == y.tensor &&
              (x.tensor < 0 ? same_buffer(b, x.offset, y.offset) : x.offset == y.offset);
  for (int i = 0; i < LOOP_DEPTH; i++)
    same = same && (x.stride ? x.stride[i] : 0) == (y.stride ? y.stride[i] : 0);
  return same;
}

void builder_copy(Builder *b, Ref to, Ref from, int64_t bytes) {
  if (same_memory(b, to, from)) return;
  vec_push(b->a, b->instr) =
      (Instr){.kind = INSTR_COPY, .u.copy = {.dst = to, .src = from, .bytes = bytes}};
}
