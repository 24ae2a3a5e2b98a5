// Explains one part of a collective call: its sharding before and after, the layout rule behind
// each, and the reader that needs the second one. The placement recorded the rules when it chose
// the shardings (placement_rule); nothing is searched here.
#include "partition/explain/ledger_internal.h"

// -- why the reader needs another sharding ------------------------------------------------------

// Returns the dim that `axis` splits where node `reader` is computed: a dim of its result or a dim
// over which it sums. Returns 0 if the axis splits neither.
static DimId dim_split_by(const Placer *p, NodeId reader, int axis) {
  const Node *node = graph_node(p->g, reader);
  int k = sharding_dim_of(p->result.computed[reader], axis);
  if (k >= 0) return node->dims->at[k];
  for (int i = 0; p->inner[reader] && i < node_inner(node); i++)
    if (axes_has(p->inner[reader][i], axis)) return node->attr->dims[i];
  return 0;
}

// Fills *out with the reason why node `reader` needs dim `whole` of its argument `of` unsplit along
// `axis`: the axis splits another dim of the reader, or the operation cannot work on blocks of this
// dim.
static void explain_full_dim(Arena *a, const Placer *p, NodeId of, NodeId reader, DimId whole,
                             int axis, LedgerSide *out) {
  if (!reader || reader == of) return;
  DimId other = dim_split_by(p, reader, axis);
  if (other) {
    out->rule = placement_rule(&p->result, reader, other, axis);
    out->why = arena_printf(a, "%s splits %s there", p->g->mesh->axis[axis].name,
                            dim_get(p->g->dims, other)->name);
    return;
  }
  const Node *node = graph_node(p->g, reader);
  int k = dims_index(graph_node(p->g, of)->dims, whole);
  for (int i = 0; i < node->nargs && k >= 0; i++)
    if (node->args[i] == of && dim_role_of(p->g, reader, i, k).kind == ROLE_FULL)
      out->why = arena_printf(a, "%s takes %s in full", op_row((Op)node->op)->text,
                              dim_get(p->g->dims, whole)->name);
}

// Sets out->why for a call that adds up partial sums: the reader is not linear and cannot work on
// partial sums. For a linear reader, and for layout(...), which asks for a split, sets nothing.
// Such a reader could work on partial sums, and the placement chose the call because it sends fewer
// bytes.
static void explain_full_sum(Arena *a, const Graph *g, NodeId reader, LedgerSide *out) {
  const OpRow *row = reader ? op_row((Op)graph_node(g, reader)->op) : NULL;
  if (row && row->linear == LINEAR_NO && graph_node(g, reader)->op != OP_PIN)
    out->why = arena_printf(a, "%s is not linear", node_source_name(g, reader));
}

// -- shardings before and after a call ------------------------------------------------------------

static Axes axes_of(const Graph *low, const Dims *dims, DimId whole) {
  for (int i = 0; i < dims->n; i++)
    if (dim_get(low->dims, dims->at[i])->whole == whole)
      return dim_get(low->dims, dims->at[i])->axes;
  return (Axes){0};
}

// Explains the splits of dims that the collective call of `part` removes. Sets the layout rule that
// made these splits, and why the reader needs the dims unsplit.
static void explain_gathered(Arena *a, const Placer *p, const Graph *low, LedgerPart *part) {
  for (int i = 0; i < part->has.dims.n; i++) {
    const Dim *block = dim_get(low->dims, part->has.dims.at[i]);
    Axes after = axes_of(low, &part->wants.dims, block->whole);
    for (int x = 0; x < block->axes.n; x++) {
      int axis = block->axes.at[x];
      if (axes_has(after, axis)) continue;
      if (part->has.rule < 0)
        part->has.rule = placement_rule(&p->result, part->node, block->whole, axis);
      if (part->wants.rule < 0 && !part->wants.why)
        explain_full_dim(a, p, part->node, part->reader, block->whole, axis, &part->wants);
    }
  }
}

// Explains the splits of dims that the collective call of `part` adds. Sets the layout rule that
// asks for these splits.
static void explain_scattered(const Placer *p, const Graph *low, LedgerPart *part) {
  const Dims *dims = graph_node(p->g, part->node)->dims;
  for (int i = 0; i < part->wants.dims.n; i++) {
    const Dim *block = dim_get(low->dims, part->wants.dims.at[i]);
    Axes before = axes_of(low, &part->has.dims, block->whole);
    for (int x = 0; x < block->axes.n; x++) {
      int axis = block->axes.at[x];
      if (axes_has(before, axis) || dims_index(dims, block->whole) < 0) continue;
      int rule = placement_rule(&p->result, part->node, block->whole, axis);
      if (rule >= 0) part->wants.rule = rule, part->wants.why = NULL;
    }
  }
}

// Sets the causes of a halo (an exchange of block edges): the layout rule that splits the dim of
// the source, and the window that reads it.
static void explain_halo(const Placer *p, const Graph *low, const Node *halo, LedgerPart *out) {
  const Dim *have = dim_get(low->dims, halo->attr->dims[0]);
  if (have->axes.n)
    out->has.rule = placement_rule(&p->result, out->node, have->whole, have->axes.at[0]);
  out->wants.why = "a window reads beyond its own block";
}

void sides_find(Arena *a, const Placer *p, const Graph *low, NodeId moved, LedgerPart *out) {
  const Node *node = graph_node(low, moved);
  bool reduces = node->op == OP_ALL_REDUCE || node->op == OP_REDUCE_SCATTER;
  out->has = (LedgerSide){.dims = *graph_node(low, node->args[0])->dims, .rule = -1};
  out->wants = (LedgerSide){.dims = *node->dims, .rule = -1};
  if (reduces) out->has.partial = node->attr->axes, out->has.monoid = node->attr->monoid;
  if (!out->node) return;
  int axis = node->attr->axes.at[0];
  if (reduces) {
    out->has.rule = placement_partial_rule(&p->result, out->node, axis);
    explain_full_sum(a, p->g, out->reader, &out->wants);
  }
  explain_gathered(a, p, low, out);
  explain_scattered(p, low, out);
  if (node->op == OP_HALO) explain_halo(p, low, node, out);
  // A cumsum or top_k sends block totals or candidates, not its argument. The cause of the call is
  // the split of the dim along which it works.
  const Node *placed = graph_node(p->g, out->node);
  if (out->has.rule < 0 && out->node == out->reader && op_row((Op)placed->op)->cls == ORDERED)
    out->has.rule = placement_rule(&p->result, placed->args[0], placed->attr->dims[0], axis);
}
