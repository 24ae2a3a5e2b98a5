// Makes the list of collectives that `check` prints and `explain` reads: one entry for each bucket,
// in the order of Buckets.
#include <string.h>

#include "collectives/collectives.h"
#include "ir/base/hash.h"

static const struct {
  const char *name, *text;
} ends[] = {
#define BUCKET_END(reason, text) {#reason, text},
#include "collectives/passes/bucket_ends.def"
#undef BUCKET_END
};

const char *bucket_end_text(BucketEnd end) { return ends[end].text; }
const char *bucket_end_name(BucketEnd end) { return ends[end].name; }

bool names_mention(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; n && (at = strstr(at, name)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n])) return true;
  return false;
}

const Node *coll_moved_value(const Graph *g, const Node *n) {
  while (!n->origin->value && op_row((Op)n->op)->cls == COLLECTIVE) n = graph_node(g, n->args[0]);
  return n;
}

const char *coll_value_name(const Graph *g, const Node *n) {
  NodeId id = 0;
  while (!n->origin->value && op_row((Op)n->op)->cls == COLLECTIVE)
    id = n->args[0], n = graph_node(g, id);
  if (n->origin->value) return n->origin->value;
  return id ? node_source_name(g, id) : op_row((Op)n->op)->text;
}

// Returns the slot of `name` in a hash table, or the free slot (NULL) where it belongs. At least
// one of the `slots` slots must be free.
static const char **name_slot(const char **table, uint32_t slots, const char *name) {
  uint32_t i = (uint32_t)(fnv_text(name) % slots);
  while (table[i] && strcmp(table[i], name)) i = (i + 1) % slots;
  return &table[i];
}

// Returns the names of the values that the bucket moves, each once, with commas between them
// (CollFact.value), in `a`.
static const char *value_names(Arena *a, const Graph *g, const Bucket *b) {
  Arena *scratch = arena_new();
  uint32_t slots = 2 * b->n + 1, n = 0;
  const char **table = arena_array(scratch, const char *, slots),
             **name = arena_array(scratch, const char *, b->n);
  size_t length = 0;
  for (uint32_t i = 0; i < b->n; i++) {
    const char *one = coll_value_name(g, graph_node(g, b->node[i])),
               **slot = name_slot(table, slots, one);
    if (*slot) continue;
    name[n++] = *slot = one;
    length += strlen(one) + 2;
  }
  char *out = arena_array(a, char, length + 1), *end = out;
  for (uint32_t i = 0; i < n; i++) end = stpcpy(stpcpy(end, i ? ", " : ""), name[i]);
  arena_free(scratch);
  return out;
}

static CollFact fact_of(Arena *a, const Graph *g, CollSizes *sizes, const Bucket *b,
                        const Machine *machine) {
  const Node *first = graph_node(g, b->node[0]);
  CollFact f = {.axes = first->attr->axes,
                .type = (Dtype)first->type,
                .times = 1,
                .backward = first->origin->backward,
                .value = value_names(a, g, b),
                .pos = first->origin->pos,
                .why = first->origin->why,
                .end = b->end};
  if (b->next) f.end_next = coll_value_name(g, graph_node(g, b->next));
  f.times = region_times(g, first->region);
  if (!coll_of((Op)first->op, &f.kind)) BUG("%s is no collective", op_row((Op)first->op)->text);
  f.group = axes_size(g->mesh, f.axes);
  f.bytes = coll_call_bytes(sizes, b->node, b->n);
  f.elements = f.bytes / dtype_bytes(f.type);
  f.wire_bytes = coll_wire_bytes(f.kind, f.group, f.bytes);
  f.seconds = coll_seconds(machine, g->mesh, f.kind, f.axes, f.bytes);
  return f;
}

CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine) {
  CollFacts *out = arena_new_of(a, CollFacts);
  Arena *scratch = arena_new();
  CollSizes *sizes = coll_sizes_new(scratch, g);
  out->n = b->n;
  out->fact = arena_array(a, CollFact, b->n + 1);
  for (uint32_t i = 0; i < b->n; i++) {
    out->fact[i] = fact_of(a, g, sizes, &b->bucket[i], machine);
    out->wire_bytes += out->fact[i].wire_bytes * out->fact[i].times;
  }
  arena_free(scratch);
  return out;
}
