// What a layout costs: the graph of one processor is made and counted, not run.
#include "partition/search.h"

// Of a value that stands in memory: it is written once and read by each of its users.
static bool stands_in_memory(const Node *n) {
  static const bool in_memory[] = {[REDUCE] = true, [CONTRACT] = true, [GATHER] = true, [COLLECTIVE] = true,
                                   [WINDOW] = false, [ORDERED] = true, [REGION] = true, [SOURCE] = false,
                                   [POINTWISE] = false, [MOVE] = false};
  return in_memory[op_row((Op)n->op)->cls];
}

static bool is_declared(const Node *n) { return n->op == OP_INPUT || n->op == OP_PARAM || n->op == OP_STATE; }

// The nearest values behind pointwise ones and moves are what a user really reads; counting direct
// arguments that stand in memory comes near enough: fused kernels read each of them once.
static double node_traffic(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  double bytes = stands_in_memory(node) ? (double)node_bytes(g, n) : 0;
  for (int i = 0; i < node->nargs; i++) {
    const Node *arg = graph_node(g, node->args[i]);
    if (stands_in_memory(arg) || is_declared(arg)) bytes += (double)node_bytes(g, node->args[i]);
  }
  return bytes * (double)region_times(g, node->region);
}

// Bytes of forward values that the backward pass reads, and of what is fed.
static double kept_bytes(Arena *a, const Graph *g) {
  bool *kept = arena_array(a, bool, graph_count(g) + 1);
  double bytes = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    kept[n] = node->op == OP_INPUT;
    for (int i = 0; i < node->nargs && node->origin.backward; i++)
      kept[node->args[i]] |= !graph_node(g, node->args[i])->origin.backward && stands_in_memory(graph_node(g, node->args[i]));
  }
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (kept[n]) bytes += (double)node_bytes(g, n);
  return bytes;
}

static void price_add(Price *sum, const Price *p, double weight) {
  sum->flops += weight * p->flops;
  sum->traffic += weight * p->traffic;
  sum->wire += weight * p->wire;
  sum->transfer += weight * p->transfer;
  sum->latency += weight * p->latency;
  sum->memory += weight * p->memory;
}

static Price price_of(const Graph *whole, const Graph *g, const Machine *machine, Arena *a) {
  PartitionFacts facts = partition_facts(whole, g);
  const CollFacts *coll = collectives_facts(a, g, collectives_pack(a, g, machine), machine);
  Price p = {.flops = (double)facts.flops, .wire = (double)coll->wire_bytes};
  for (uint32_t i = 0; i < coll->n; i++) {
    const CollFact *f = &coll->fact[i];
    p.transfer += f->seconds * (double)f->times;
    p.latency += coll_latency(machine, g->mesh, f->kind, f->axes) * (double)f->times;
  }
  for (NodeId n = 1; n <= graph_count(g); n++) p.traffic += node_traffic(g, n);
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_UPDATE) p.traffic += (double)node_bytes(g, g->output.at[i].value);
  p.memory = (double)facts.parameter_bytes + (double)facts.optimizer_bytes + kept_bytes(a, g);
  return p;
}

Price search_price(const SearchTask *t, const Mesh *mesh, const Layout *layout) {
  Price sum = {0};
  for (uint32_t i = 0; i < t->nterms; i++) {
    Arena *a = arena_new();
    Graph g = *t->term[i].graph; // its nodes under another mesh; dims of its own get the blocks
    g.dims = dim_table_whole(a, g.dims);
    g.mesh = mesh;
    g.layout = *layout;
    const Graph *lowered = collectives_share(a, lower(a, place(a, &g, layout, t->machine)));
    Price one = price_of(&g, lowered, t->machine, a);
    price_add(&sum, &one, t->term[i].weight);
    arena_free(a);
  }
  sum.seconds = sum.flops / t->machine->flops + sum.traffic / t->machine->memory_rate + sum.transfer;
  return sum;
}
