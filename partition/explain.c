// Tells the user what moves, why, and what would stop it: the ledger of all collectives, and the chain
// of reasons behind one value.
#include <string.h>

#include "partition/state.h"

static const char *axes_group(Arena *a, const Graph *g, Axes axes, int64_t group) {
  return arena_printf(a, "%s x%lld", axes_text(a, g->mesh, axes), (long long)group);
}

static const char *place_text(Arena *a, const Graph *g, const Diag *d, Pos pos) {
  if (!pos.line) return "";
  const char *file = d && pos.source ? diag_source_name(d, pos.source) : g->model;
  return file ? arena_printf(a, "%s:%u", file, pos.line) : arena_printf(a, "line %u", pos.line);
}

// -- the ledger -------------------------------------------------------------------------------------------

static char *fact_text(Arena *a, const Graph *g, const CollFact *f, const Diag *d) {
  const char *place = place_text(a, g, d, f->pos);
  const char *times = f->times > 1 ? arena_printf(a, " x%lld", (long long)f->times) : "";
  return arena_printf(a, "%-14s %-12s %12lld B%s  %-8s %s%s%s  %s  %.1f us", coll_text(f->kind),
                      axes_group(a, g, f->axes, f->group), (long long)f->wire_bytes, times,
                      f->backward ? "backward" : "forward", f->value, *place ? "  " : "", place,
                      f->why ? f->why : "", f->seconds * 1e6);
}

typedef struct Total {
  Axes axes;
  int64_t group, calls, bytes;
} Total;

static char *totals_text(Arena *a, const Graph *g, const CollFacts *facts, char *text) {
  Total *total = arena_array(a, Total, facts->n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    uint32_t k = 0;
    while (k < n && !axes_equal(total[k].axes, f->axes)) k++;
    if (k == n) total[n++] = (Total){.axes = f->axes, .group = f->group};
    total[k].calls += f->times;
    total[k].bytes += f->wire_bytes * f->times;
  }
  for (uint32_t k = 0; k < n; k++)
    text = arena_printf(a, "%sover %s: %lld call%s, %lld B\n", text, axes_group(a, g, total[k].axes, total[k].group),
                        (long long)total[k].calls, total[k].calls == 1 ? "" : "s", (long long)total[k].bytes);
  return text;
}

static const char *mesh_text(Arena *a, const Mesh *m) {
  const char *text = "";
  for (int i = 0; i < m->naxes; i++)
    text = arena_printf(a, "%s%s%s=%lld", text, i ? "," : "", m->axis[i].name, (long long)m->axis[i].size);
  return *text ? text : "of one processor";
}

char *explain_ledger(Arena *a, const Placement *p, const Graph *lowered, const CollFacts *facts, const Diag *d) {
  PartitionFacts f = partition_facts(p->graph, lowered);
  double seconds = 0;
  char *text = arena_printf(a, "mesh %s: %u collective%s, %lld bytes sent by a processor in a step\n",
                            mesh_text(a, lowered->mesh), facts->n, facts->n == 1 ? "" : "s",
                            (long long)facts->wire_bytes);
  for (uint32_t i = 0; i < facts->n; i++) {
    text = arena_printf(a, "%s%s\n", text, fact_text(a, lowered, &facts->fact[i], d));
    seconds += facts->fact[i].seconds * (double)facts->fact[i].times;
  }
  text = totals_text(a, lowered, facts, text);
  return arena_printf(a,
                      "%spredicted time of all collectives: %.1f us\n"
                      "flops of a processor %lld of %lld, redundant %.1f %%; padding %.1f %%\n"
                      "parameters %lld B, optimizer %lld B\n",
                      text, seconds * 1e6, (long long)f.flops, (long long)f.flops_whole, f.redundant_flops * 100,
                      f.padding * 100, (long long)f.parameter_bytes, (long long)f.optimizer_bytes);
}

// -- one value -----------------------------------------------------------------------------------------------

static NodeId find_value(const Plan *p, const char *name) {
  const Graph *g = p->door.graph;
  for (uint32_t o = 0; o < g->output.n; o++)
    if (g->output.at[o].kind == OUT_VALUE && !strcmp(g->output.at[o].name, name)) return g->output.at[o].value;
  for (NodeId n = graph_count(g); n > 0; n--)
    if (p->subject[n].name && !strcmp(p->subject[n].name, name)) return n;
  for (NodeId n = graph_count(g); n > 0; n--)
    if (graph_node(g, n)->origin.value && !strcmp(graph_node(g, n)->origin.value, name)) return n;
  return 0;
}

static const char *value_dims(Arena *a, const Graph *g, const Dims *dims) {
  const char *text = "[";
  for (int i = 0; i < dims->n; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", dim_get(g->dims, dims->at[i])->name);
  return arena_printf(a, "%s]", text);
}

static char *rules_text(Arena *a, const Plan *p, NodeId n, const Diag *d, char *text) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const Wish *w = &p->wish[n];
  for (int k = 0; k < node->dims.n; k++) {
    const char *dim = dim_get(g->dims, node->dims.at[k])->name;
    const LayoutRule *r = w->rule[k] ? w->rule[k] : w->soft_rule[k];
    if (!r) text = arena_printf(a, "%s  %s: no rule\n", text, dim);
    else
      text = arena_printf(a, "%s  %s -> %s%s: %s\n", text, dim, r->none ? "none" : axes_text(a, g->mesh, r->axes),
                          r->soft ? " (soft)" : "", place_text(a, g, d, r->pos));
  }
  return text;
}

static const char *arg_name(Arena *a, const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  const char *name = node->attr.decl ? g->decl.at[node->attr.decl - 1].name : node->origin.value;
  return name ? name : arena_printf(a, "%s %%%u", op_row((Op)node->op)->text, n);
}

static char *chain_text(Arena *a, const Plan *p, NodeId n, char *text) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    const Dims *dims = &graph_node(g, arg)->dims;
    State need = plan_need(p, n, i);
    text = arena_printf(a, "%s  reads %s%s: %s; wants %s\n", text, arg_name(a, g, arg), value_dims(a, g, dims),
                        state_text(a, g, dims, &p->door.at[arg]), state_text(a, g, dims, &need));
  }
  for (uint32_t k = p->use_start[n]; k < p->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n || (k > p->use_start[n] && p->use[k] == p->use[k - 1])) continue;
      State need = plan_need(p, p->use[k], i);
      text = arena_printf(a, "%s  read by %s%s: wants %s\n", text, op_row((Op)user->op)->text,
                          user->origin.pos.line ? arena_printf(a, " at line %u", user->origin.pos.line) : "",
                          state_text(a, g, &node->dims, &need));
      break;
    }
  }
  return text;
}

// What would take a collective away, from the kind and the axes.
static const char *remedy(Arena *a, const Graph *g, const CollFact *f) {
  const char *axes = axes_text(a, g->mesh, f->axes);
  if (f->kind == COLL_ALL_REDUCE || f->kind == COLL_REDUCE_SCATTER)
    return arena_printf(a, "leaving the summed dim whole over %s would remove it", axes);
  if (f->kind == COLL_ALL_GATHER)
    return arena_printf(a, "a use that is split over %s too, or a value that is whole over it, would remove it", axes);
  return arena_printf(a, "splitting the same dim over %s on both sides would remove it", axes);
}

static bool lists_name(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n])) return true;
  return false;
}

char *explain_value(Arena *a, const Placement *placement, const Graph *lowered, const CollFacts *facts, const Diag *d,
                    const char *name) {
  const Plan *p = plan_of(placement);
  const Graph *g = placement->graph;
  NodeId n = find_value(p, name);
  if (!n) return NULL;
  const Node *node = graph_node(g, n);
  const char *place = place_text(a, g, d, node->origin.pos);
  char *text = arena_printf(a, "%s%s%s%s\n  computed: %s\n  seen by its uses: %s\n  because: %s\n", name,
                            value_dims(a, g, &node->dims), *place ? "  " : "", place,
                            state_text(a, g, &node->dims, &placement->at[n]),
                            state_text(a, g, &node->dims, &placement->reduced[n]), placement_why(placement, n));
  text = rules_text(a, p, n, d, text);
  text = chain_text(a, p, n, text);
  bool any = false;
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    if (!lists_name(f->value, name)) continue;
    any = true;
    text = arena_printf(a, "%s  costs %s\n    %s\n", text, fact_text(a, lowered, f, d), remedy(a, lowered, f));
  }
  return any ? text : arena_printf(a, "%s  costs nothing: no collective moves it\n", text);
}
