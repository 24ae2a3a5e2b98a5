// Nodes for numbers that depend on how many rows a batch has, such as size(b)
// (model/row_numbers.c). In an evaluation the last batch may have fewer rows, so these numbers are
// computed from a count of the valid rows.
#include "frontend/step/select_internal.h"

NodeId rows_count(Graph *g, DimId d) {
  Dims one = {.n = 1, .at = {d}};
  NodeId there = graph_binary(g, OP_LE, graph_const(g, TYPE_I32, 0), graph_index(g, d));
  return graph_reduce(g, OP_SUM, there, &one);
}

static NodeId leaf_node(Graph *g, const RowNumber *r, const bool *rows) {
  return r->d && rows[r->d] ? graph_cast(g, rows_count(g, r->d), TYPE_F64)
                            : graph_const(g, TYPE_F64, r->number);
}

NodeId *row_number_nodes(const Model *m, Graph *g, const bool *rows, const bool *need) {
  uint32_t n = m->numbers.n;
  bool *read = arena_array(m->arena, bool, n + 1);
  NodeId *node = arena_array(m->arena, NodeId, n + 1);
  for (NodeId i = 1; i <= graph_count(m->graph); i++) {
    const Node *x = graph_node(m->graph, i);
    if (need[i] && x->op == OP_CONST && x->attr->tag) read[x->attr->tag - 1] = true;
  }
  for (uint32_t i = n; i-- > 0;)
    for (int k = 0; read[i] && k < m->numbers.at[i].nargs; k++)
      read[m->numbers.at[i].arg[k]] = true;
  for (uint32_t i = 0; i < n; i++) {
    const RowNumber *r = &m->numbers.at[i];
    NodeId args[2] = {0};
    if (!read[i]) continue;
    for (int k = 0; k < r->nargs; k++) args[k] = node[r->arg[k]];
    node[i] = r->nargs ? graph_add(g, r->op, r->nargs, args, NULL) : leaf_node(g, r, rows);
  }
  return node;
}
