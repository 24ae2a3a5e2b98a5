// The graph of values for Graphviz: coloured by the axes that cut them, a cluster a round, collectives as labelled
// edges.
#include "frontend/explain.h"


// Text in a label: quotes and backslashes escaped, line ends and other controls as blanks.
static void put(FILE *f, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') fputc('\\', f);
    fputc(c < 0x20 || c == 0x7f ? ' ' : c, f);
  }
}

static void put_box(FILE *f, const Explain *e, const ValueGraph *g, uint32_t b, const char *indent) {
  static const char *const shape[] = {"invhouse", "box3d", "box3d", "box3d", "box", "box"};
  const ExplainedValue *v = &e->values->at[g->box[b].value];
  fprintf(f, "%sv%u [label=\"", indent, b);
  put(f, g->box[b].name);
  fprintf(f, "\\n%s[", dtype_text(v->type));
  for (int k = 0; k < v->ndims; k++) {
    fputs(k ? ", " : "", f);
    put(f, v->dim[k].name);
    if (v->dim[k].axes.n) fputc('/', f), put(f, axes_text(e->session->arena, &e->session->model->mesh, v->dim[k].axes));
  }
  fprintf(f, "]\\n%s a processor\", shape=%s, style=filled, fillcolor=\"%s\"]\n", bytes_text(e->session->arena, v->block_bytes), shape[v->kind],
          state_colours[state_colour(e, v)]);
}

static void put_boxes(FILE *f, const Explain *e, const ValueGraph *g) {
  for (uint32_t b = 0; b < g->nboxes; b++)
    if (g->box[b].round < 0) put_box(f, e, g, b, "  ");
  for (uint32_t r = 0; r < g->nrounds; r++) {
    fprintf(f, "  subgraph cluster_%u {\n    label=\"", r);
    put(f, g->round[r].name);
    fprintf(f, "\"\n");
    for (uint32_t b = 0; b < g->nboxes; b++)
      if (g->box[b].round == (int)r) put_box(f, e, g, b, "    ");
    fprintf(f, "  }\n");
  }
}

// Forward with the data, backward against it.
static void put_move(FILE *f, const Explain *e, const GraphMove *m) {
  const CollFact *c = e->ledger->row[m->row].fact;
  const char *axes = axes_text(e->session->arena, &e->session->model->mesh, c->axes);
  fprintf(f, "  v%u -> v%u [label=\"%s%s ", m->from, m->to, c->backward ? "gradient: " : "", coll_text(c->kind));
  put(f, axes);
  fprintf(f, "\\n%s", bytes_text(e->session->arena, c->wire_bytes));
  if (c->times > 1) fprintf(f, " x%lld", (long long)c->times);
  fprintf(f, "\", color=\"%s\", fontcolor=\"%s\", penwidth=2%s]\n", c->backward ? "#6a1b9a" : "#d84315", c->backward ? "#6a1b9a" : "#d84315",
          c->backward ? ", style=dashed" : "");
}

void explain_dot(FILE *f, const Explain *e) {
  const ValueGraph *g = value_graph(e->session->arena, e);
  fprintf(f, "digraph \"");
  put(f, e->session->opt->argument.at[0]);
  fprintf(f, "\" {\n  node [fontname=monospace, fontsize=10]\n  edge [fontname=monospace, fontsize=9, color=\"#78909c\"]\n");
  put_boxes(f, e, g);
  for (uint32_t i = 0; i < g->nedges; i++) fprintf(f, "  v%u -> v%u\n", g->edge[i].from, g->edge[i].to);
  for (uint32_t i = 0; i < g->nmoves; i++) put_move(f, e, &g->move[i]);
  fprintf(f, "}\n");
}
