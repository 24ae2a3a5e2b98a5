// Writes the graph of values as DOT: boxes have the colour of the axes that split them, each round
// of a loop is a cluster, collectives are edges with labels.
#include "frontend/report/dot_internal.h"
#include "frontend/report/explain.h"

static void put_box(FILE *f, const Explain *e, const ValueGraph *g, uint32_t b,
                    const char *indent) {
  static const char *const shape[] = {"invhouse", "box3d", "box3d", "box3d", "box", "box"};
  const ExplainedValue *v = &e->values->at[g->box[b].value];
  fprintf(f, "%sv%u [label=\"", indent, b);
  dot_text(f, g->box[b].name);
  fprintf(f, "\\n%s[", dtype_text(v->type));
  for (int k = 0; k < v->ndims; k++) {
    fputs(k ? ", " : "", f);
    dot_text(f, v->dim[k].name);
    if (v->dim[k].axes.n)
      fputc('/', f),
          dot_text(f, axes_text(e->session->arena, &e->session->model->mesh, v->dim[k].axes));
  }
  fprintf(f, "]\\n%s a processor\", shape=%s, style=filled, fillcolor=\"%s\"]\n",
          bytes_text(e->session->arena, v->block_bytes), shape[v->kind],
          state_colours[state_colour(e, v)]);
}

typedef struct Boxes {
  const Explain *e;
  const ValueGraph *g;
} Boxes;

static void put_item(FILE *f, const void *context, uint32_t item, const char *indent) {
  const Boxes *b = context;
  put_box(f, b->e, b->g, item, indent);
}

// Writes the boxes of a large graph, with a cluster for each scope (values whose dotted names begin
// alike) instead of each loop round.
static void put_boxes_by_scope(FILE *f, const Explain *e, const ValueGraph *g) {
  const char **path = arena_array(e->session->arena, const char *, g->nboxes + 1);
  for (uint32_t b = 0; b < g->nboxes; b++) path[b] = g->box[b].name;
  dot_scopes(f, g->nboxes, path, put_item, &(Boxes){e, g});
}

// Adds invisible edges that keep the rounds (iterations) of a loop below one another. They lead
// from the value that enters a round to those boxes of the round to which no other edge leads.
// Without them Graphviz would put such a box beside the previous round, and push that round to the
// side.
static void put_ranks(FILE *f, const Explain *e, const ValueGraph *g) {
  // indexed by round: 1 + the index of the last box outside the round that has an edge into it; 0:
  // there is none
  uint32_t *enters = arena_array(e->session->arena, uint32_t, g->nrounds + 1);
  bool *made = arena_array(e->session->arena, bool, g->nboxes + 1);
  for (uint32_t i = 0; i < g->nedges; i++) {
    uint32_t from = g->edge[i].from, to = g->edge[i].to;
    int round = g->box[to].round;
    made[to] = true;
    if (round >= 0 && g->box[from].round != round && from < to && from + 1 > enters[round])
      enters[round] = from + 1;
  }
  for (uint32_t b = 0; b < g->nboxes; b++) {
    uint32_t from = g->box[b].round >= 0 ? enters[g->box[b].round] : 0;
    if (!made[b] && from) fprintf(f, "  v%u -> v%u [style=invis]\n", from - 1, b);
  }
}

static void put_boxes(FILE *f, const Explain *e, const ValueGraph *g) {
  for (uint32_t b = 0; b < g->nboxes; b++)
    if (g->box[b].round < 0) put_box(f, e, g, b, "  ");
  for (uint32_t r = 0; r < g->nrounds; r++) {
    fprintf(f, "  subgraph cluster_%u {\n    label=\"", r);
    dot_text(f, g->round[r].name);
    fprintf(f, "\"\n");
    for (uint32_t b = 0; b < g->nboxes; b++)
      if (g->box[b].round == (int)r) put_box(f, e, g, b, "    ");
    fprintf(f, "  }\n");
  }
}

// Writes a collective as an edge between two boxes. Collectives of the backward pass are dashed and
// labelled "gradient".
static void put_move(FILE *f, const Explain *e, const GraphMove *m) {
  const CollFact *c = e->ledger->row[m->row].fact;
  const char *axes = axes_text(e->session->arena, &e->session->model->mesh, c->axes);
  fprintf(f, "  v%u -> v%u [label=\"%s%s ", m->from, m->to, c->backward ? "gradient: " : "",
          coll_text(c->kind));
  dot_text(f, axes);
  fprintf(f, "\\n%s", bytes_text(e->session->arena, c->wire_bytes));
  if (c->times > 1) fprintf(f, " x%lld", (long long)c->times);
  fprintf(f, "\", color=\"%s\", fontcolor=\"%s\", penwidth=2%s]\n",
          c->backward ? "#6a1b9a" : "#d84315", c->backward ? "#6a1b9a" : "#d84315",
          c->backward ? ", style=dashed" : "");
}

void explain_dot(FILE *f, const Explain *e) {
  const ValueGraph *g = value_graph(e->session->arena, e);
  fprintf(f, "digraph \"");
  dot_text(f, e->session->opt->argument.at[0]);
  fprintf(f, "\" {\n  node [fontname=monospace, fontsize=10]\n  edge [fontname=monospace, "
             "fontsize=9, color=\"#78909c\"]\n");
  if (g->nboxes > DOT_PLAIN)
    put_boxes_by_scope(f, e, g);
  else
    put_boxes(f, e, g);
  for (uint32_t i = 0; i < g->nedges; i++)
    fprintf(f, "  v%u -> v%u\n", g->edge[i].from, g->edge[i].to);
  if (g->nboxes > DOT_PLAIN) put_ranks(f, e, g);
  for (uint32_t i = 0; i < g->nmoves; i++) put_move(f, e, &g->move[i]);
  fprintf(f, "}\n");
}
