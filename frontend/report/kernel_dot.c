// Writes the fuse stage as DOT: each kernel is a cluster with its operations inside, labelled with
// the bytes that it moves and saves, and its time.
#include "frontend/report/dot_internal.h"
#include "frontend/report/kernel_facts.h"
#include "ir/base/stream.h"

typedef struct Source {
  Arena *a;
  const Compilation *made;
  const Simulation *step;
  const uint32_t *group; // indices of the fusion groups that have an instruction
} Source;

static void put_group(FILE *f, const void *context, uint32_t item, const char *indent) {
  static const char *const colour[] = {[GROUP_KERNEL] = "#e3f2fd",
                                       [GROUP_GEMM] = "#e8f5e9",
                                       [GROUP_COLLECTIVE] = "#fff3e0",
                                       [GROUP_ORDERED] = "#f3e5f5"};
  const Source *s = context;
  uint32_t group = s->group[item];
  const Group *g = &s->made->fusion->group[group];
  KernelFact k = kernel_fact(s->a, s->made, s->step, group);
  const char *apart = kernel_apart(s->a, s->made, group);
  fprintf(f, "%ssubgraph cluster_k%u {\n%s  label=\"#%u %s: ", indent, group, indent, group,
          k.kind);
  dot_text(f, k.value);
  fprintf(f, "\\n%s\\n", k.cost);
  dot_text(f, g->why ? g->why : "");
  if (*apart) fprintf(f, "\\napart from "), dot_text(f, apart);
  fprintf(f, "\"; style=filled; fillcolor=\"%s\"\n", colour[g->kind]);
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(s->made->fusion->graph, g->node[i]);
    if (!kernel_shows(s->made, g->node[i])) continue;
    fprintf(f, "%s  k%un%u [label=\"%s", indent, group, g->node[i],
            node_source_name(s->made->fusion->graph, g->node[i]));
    if (x->origin->value) fprintf(f, "\\n"), dot_text(f, x->origin->value);
    fprintf(f, "\"]\n");
  }
  fprintf(f, "%s}\n", indent);
}

// Writes the edges between the operations of a fusion group, and one edge to the group from each
// group whose values it reads. In DOT an edge between clusters must join two nodes inside them.
// Here it joins the last value that the source group stores and the first value that the reading
// group stores.
static void put_edges(FILE *f, const Source *s, uint32_t group) {
  const Fusion *u = s->made->fusion;
  const Group *g = &u->group[group];
  for (uint32_t i = 0; i < g->nnodes; i++) {
    const Node *x = graph_node(u->graph, g->node[i]);
    if (!kernel_shows(s->made, g->node[i])) continue;
    for (int k = 0; k < x->nargs; k++) {
      bool inside = false;
      for (uint32_t j = 0; j < g->nnodes; j++) inside |= g->node[j] == x->args[k];
      if (inside && kernel_shows(s->made, x->args[k]))
        fprintf(f, "  k%un%u -> k%un%u\n", group, x->args[k], group, g->node[i]);
    }
  }
  uint32_t n, *from = kernel_sources(s->a, s->made, group, &n);
  for (uint32_t i = 0; i < n; i++) {
    const Group *source = &u->group[from[i]];
    fprintf(f,
            "  k%un%u -> k%un%u [ltail=cluster_k%u, lhead=cluster_k%u, color=\"#546e7a\", "
            "penwidth=1.5]\n",
            from[i], source->stored[source->nstored - 1], group, g->stored[0], from[i], group);
  }
}

char *kernels_dot(Session *session, const Compilation *c) {
  Source s = {.a = session->arena, .made = c, .step = session_simulate(session, c)};
  uint32_t *group = arena_array(s.a, uint32_t, c->fusion->ngroups + 1), n = 0, nodes = 0;
  const char **path = arena_array(s.a, const char *, c->fusion->ngroups + 1);
  for (uint32_t i = 0; i < c->fusion->ngroups; i++) {
    if (!kernel_runs(c, i)) continue;
    KernelFact k = kernel_fact(s.a, c, s.step, i);
    path[n] = dot_path(s.a, k.of, k.backward);
    nodes += c->fusion->group[i].nnodes;
    group[n++] = i;
  }
  s.group = group;
  TextStream out;
  FILE *f = stream_begin(&out);
  fprintf(f, "digraph \"fuse\" {\n  compound=true\n  node [shape=box, fontname=monospace, "
             "fontsize=10]\n  graph [fontname=monospace, fontsize=10]\n");
  for (uint32_t i = 0; nodes <= DOT_PLAIN && i < n; i++) put_group(f, &s, i, "  ");
  if (nodes > DOT_PLAIN) dot_scopes(f, n, path, put_group, &s);
  for (uint32_t i = 0; i < n; i++) put_edges(f, &s, group[i]);
  fprintf(f, "}\n");
  return stream_end(&out, s.a);
}
