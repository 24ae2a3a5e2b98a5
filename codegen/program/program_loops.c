// Emits the loops of a Program: finds the memory of values in each step, and copies values before a
// loop and in it.
//
//   copy   carry = start                     for each carry
//   loop t = 64
//     ...                                    groups of the loop; an AT reads base + t*stride
//     copy collected + t*stride = value      unless the group writes the value there
//     copy carry = next                      unless the group writes the next value there (carries.c)
//   end
#include "codegen/program/program_internal.h"

// Returns whether each iteration of the loop writes `root`. It does if a group of the loop computes
// `root`, or if `root` is the COLLECT (values of all iterations) of an inner loop.
static bool written_in(const Builder *b, NodeId root, RegionId loop) {
  const Node *x = graph_node(b->g, root);
  const Group *g = &b->f->group[b->f->of[root]];
  return x->region == loop && (x->op == OP_COLLECT || (group_executes(g) && g->kind != GROUP_LOOP));
}

void collected_find(Builder *b) {
  b->collected_in = arena_array(b->a, NodeId, graph_count(b->g) + 1);
  for (NodeId n = 1; n <= graph_count(b->g); n++) {
    if (graph_node(b->g, n)->op != OP_COLLECT) continue;
    NodeId root = graph_node(b->g, n)->args[1];
    while (op_is_alias((Op)graph_node(b->g, root)->op)) root = view_of(b->g, root);
    if (!b->collected_in[root] && written_in(b, root, collect_loop(b->g, n)))
      b->collected_in[root] = n;
  }
}

// Clears what loop r collects: it stays zero in rounds that do not run.
static void clear_collected(Builder *b, RegionId r) {
  for (uint32_t i = b->collects.first[r]; i < b->collects.first[r + 1]; i++) {
    NodeId n = b->collects.node[i];
    vec_push(b->a, b->instr) = (Instr){
        .kind = INSTR_FILL, .u.fill = {.dst = builder_ref(b, n), .bytes = node_bytes(b->g, n)}};
  }
}

static void open_one(Builder *b, RegionId r) {
  const Region *region = region_get(b->g, r);
  Ref guard = {.tensor = -1};
  NodeId outside = 0;
  if (region->guarded || b->stop[r]) clear_collected(b, r);
  for (uint32_t i = b->carries.first[r]; i < b->carries.first[r + 1]; i++) {
    NodeId n = b->carries.node[i];
    const Node *x = graph_node(b->g, n);
    if (region->guarded && x->attr->carry == 0) {
      guard = builder_ref(b, n);
      outside = x->args[0];
    }
    builder_copy(b, carry_start_ref(b, n), builder_ref(b, x->args[0]), node_bytes(b->g, n));
  }
  if (outside) guard_note(b, outside, b->open);
  vec_push(b->a, b->begin) = b->instr.n;
  vec_push(b->a, b->instr) = (Instr){.kind = INSTR_LOOP,
                                     .u.loop = {.count = builder_dim_size(b, region->t),
                                                .reverse = region->reverse,
                                                .guarded = region->guarded,
                                                .guard = guard,
                                                .dim = dim_get(b->g->dims, region->t)->name}};
  b->open = r;
}

void loops_open(Builder *b, RegionId r) {
  while (b->open != r) {
    RegionId next = r;
    while (region_get(b->g, next)->parent != b->open) next = region_get(b->g, next)->parent;
    open_one(b, next);
  }
}

static void copy_collected(Builder *b) {
  for (uint32_t i = b->collects.first[b->open]; i < b->collects.first[b->open + 1]; i++) {
    NodeId n = b->collects.node[i], value = graph_node(b->g, n)->args[1];
    int64_t bytes = node_bytes(b->g, value);
    Ref step = builder_step_ref(b, builder_ref(b, n), b->open, bytes);
    builder_copy(b, step, builder_ref(b, value), bytes);
  }
}

static void copy_carries(Builder *b, NodeId scan) {
  const Node *x = graph_node(b->g, scan);
  for (uint32_t i = b->carries.first[b->open]; i < b->carries.first[b->open + 1]; i++) {
    NodeId n = b->carries.node[i];
    if (b->history[n]) continue;
    carry_in_place(b, scan, n);
    builder_copy(b, builder_ref(b, n), builder_ref(b, x->args[graph_node(b->g, n)->attr->carry]),
                 node_bytes(b->g, n));
  }
}

// Returns how many rows a worker must have to run the loop from instruction `begin` on for its rows
// alone; 0: it cannot, because not all instructions are kernels with rows.
static int64_t rows_of_worker(const Builder *b, uint32_t begin) {
  for (uint32_t i = begin + 1; i < b->instr.n; i++)
    if (b->instr.at[i].kind != INSTR_KERNEL || !b->instr.at[i].u.kernel.strips) return 0;
  return b->f->loop_rows[b->open].least;
}

void loop_close(Builder *b, NodeId scan) {
  copy_collected(b);
  copy_carries(b, scan);
  uint32_t begin = b->begin.at[--b->begin.n];
  b->instr.at[begin].u.loop.rows = rows_of_worker(b, begin);
  b->instr.at[begin].u.loop.end = b->instr.n;
  NodeId stop = b->stop[b->open];
  vec_push(b->a, b->instr) =
      (Instr){.kind = INSTR_END,
              .u.end = {.begin = begin,
                        .stops = stop != 0,
                        .alive = stop ? builder_ref(b, stop) : (Ref){.tensor = -1}}};
  b->open = region_get(b->g, b->open)->parent;
}
