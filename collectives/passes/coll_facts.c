// Makes the list of collectives that `check` prints and `explain` reads: one entry for each bucket,
// in the order of Buckets.
#include <string.h>

#include "collectives/collectives.h"

bool names_mention(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; n && (at = strstr(at, name)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n])) return true;
  return false;
}

const Node *coll_moved_value(const Graph *g, const Node *n) {
  while (!n->origin.value && op_row((Op)n->op)->cls == COLLECTIVE) n = graph_node(g, n->args[0]);
  return n;
}

const char *coll_value_name(const Graph *g, const Node *n) {
  n = coll_moved_value(g, n);
  return n->origin.value ? n->origin.value : op_row((Op)n->op)->text;
}

static CollFact fact_of(Arena *a, const Graph *g, const Bucket *b, const Machine *machine) {
  const Node *first = graph_node(g, b->node[0]);
  CollFact f = {.axes = first->attr.axes,
                .type = (Dtype)first->type,
                .times = 1,
                .backward = first->origin.backward,
                .value = "",
                .pos = first->origin.pos,
                .why = first->origin.why};
  f.times = region_times(g, first->region);
  if (!coll_of((Op)first->op, &f.kind)) BUG("%s is no collective", op_row((Op)first->op)->text);
  f.group = axes_size(g->mesh, f.axes);
  for (uint32_t i = 0; i < b->n; i++) {
    const char *name = coll_value_name(g, graph_node(g, b->node[i]));
    if (!names_mention(f.value, name))
      f.value = arena_printf(a, "%s%s%s", f.value, *f.value ? ", " : "", name);
  }
  f.bytes = coll_call_bytes(g, b->node, b->n);
  f.elements = f.bytes / dtype_bytes(f.type);
  f.wire_bytes = coll_wire_bytes(f.kind, f.group, f.bytes);
  f.seconds = coll_seconds(machine, g->mesh, f.kind, f.axes, f.bytes);
  return f;
}

CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine) {
  CollFacts *out = arena_new_of(a, CollFacts);
  out->n = b->n;
  out->fact = arena_array(a, CollFact, b->n + 1);
  for (uint32_t i = 0; i < b->n; i++) {
    out->fact[i] = fact_of(a, g, &b->bucket[i], machine);
    out->wire_bytes += out->fact[i].wire_bytes * out->fact[i].times;
  }
  return out;
}
