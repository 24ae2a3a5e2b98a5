// Says what a conversion of a value would have cost in another way: a value that is gathered could
// be left split, so that its reader makes partial sums to be reduced, and the other way round.
#include "ir/base/units.h"
#include "partition/explain/ledger_internal.h"

#include <string.h>

// Returns whether node n sums over dim d: an argument has it and the result lacks it.
static bool sums(const Graph *g, NodeId n, DimId d) {
  const Node *x = graph_node(g, n);
  return (x->op == OP_CONTRACT || x->op == OP_SUM) && !dims_has(x->dims, d);
}

// Returns the name of node n for messages.
static const char *name_of(const Placer *p, NodeId n) {
  const Subject *s = &p->graph->subject[n];
  if (s->name) return s->name;
  const char *value = graph_node(p->g, n)->origin->value;
  return value ? value : node_source_name(p->g, n);
}

// Returns the name of node n, an argument of a value with the name `of`. A node without a name of
// its own has that of the statement; if this is `of`, too, its operation names it: "relu at line
// 7".
static const char *argument_name(Arena *a, const Placer *p, NodeId n, const char *of) {
  const char *name = name_of(p, n);
  if (strcmp(name, of) != 0) return name;
  return arena_printf(a, "%s at line %u", node_source_name(p->g, n),
                      graph_node(p->g, n)->origin->pos.line);
}

// Returns the name of an argument of contraction n for messages, with its dims if another argument
// has the same name: "x[b, h]".
static const char *argument_text(Arena *a, const Placer *p, NodeId n, int arg) {
  const Node *x = graph_node(p->g, n);
  const char *of = name_of(p, n), *name = argument_name(a, p, x->args[arg], of);
  bool alike = false;
  for (int i = 0; i < x->nargs; i++)
    alike |= i != arg && !strcmp(argument_name(a, p, x->args[i], of), name);
  if (!alike) return name;
  const Dims *dims = graph_node(p->g, x->args[arg])->dims;
  return arena_printf(a, "%s[%s]", name, dims_text(a, p->g->dims, dims));
}

// Returns the cost of summing over processors in the reader of a gathered value, or NULL if the
// reader does not sum over the dim that is gathered.
static const char *rather_than_reducing(Arena *a, const Placer *p, const LedgerPart *part,
                                        const CollFact *c) {
  const Graph *g = p->g;
  const Sharding *s = p->result.computed[part->node];
  int k = c->axes.n ? sharding_dim_of(s, c->axes.at[0]) : -1;
  if (!part->reader || k < 0 || !sums(g, part->reader, graph_node(g, part->node)->dims->at[k]))
    return NULL;
  int64_t bytes = sharding_bytes(g, part->reader, p->result.computed[part->reader]);
  return arena_printf(a, "rather than reducing %s (%s)", name_of(p, part->reader),
                      bytes_text(a, coll_wire_bytes(COLL_ALL_REDUCE, c->group, bytes)));
}

// Returns the cost of gathering the arguments of a contraction whose partial sums are reduced, or
// NULL if the value is no sum over a dim that the axes of the call split.
static const char *rather_than_gathering(Arena *a, const Placer *p, const LedgerPart *part,
                                         const CollFact *c) {
  const Graph *g = p->g;
  const Node *x = graph_node(g, part->node);
  const char *list = "";
  if (x->op != OP_CONTRACT) return NULL;
  for (int i = 0; i < x->nargs; i++) {
    const Sharding *s = p->result.settled[x->args[i]];
    int k = c->axes.n ? sharding_dim_of(s, c->axes.at[0]) : -1;
    if (k < 0 || !sums(g, part->node, graph_node(g, x->args[i])->dims->at[k])) continue;
    int64_t whole = sharding_bytes(g, x->args[i], s) * c->group;
    list = arena_printf(a, "%s%s%s (%s)", list, *list ? " and " : "",
                        argument_text(a, p, part->node, i),
                        bytes_text(a, coll_wire_bytes(COLL_ALL_GATHER, c->group, whole)));
  }
  return *list ? arena_printf(a, "rather than gathering %s", list) : NULL;
}

const char *ledger_choice(Arena *a, const Ledger *l, const LedgerRow *row, const LedgerPart *part) {
  const Placer *p = placer_of(l->placement);
  const CollFact *c = row->fact;
  bool gathers = c->kind == COLL_ALL_GATHER;
  if (!part->node || (!gathers && c->kind != COLL_ALL_REDUCE && c->kind != COLL_REDUCE_SCATTER))
    return NULL;
  const char *other =
      gathers ? rather_than_reducing(a, p, part, c) : rather_than_gathering(a, p, part, c);
  if (!other) return NULL;
  int64_t all = 0;
  for (uint32_t i = 0; i < row->nparts; i++) all += row->part[i].bytes;
  double own = all ? (double)c->wire_bytes * (double)part->bytes / (double)all : 0;
  return arena_printf(a, "%s (%s) %s", gathers ? "gathered" : "reduced",
                      bytes_text(a, (int64_t)own), other);
}
