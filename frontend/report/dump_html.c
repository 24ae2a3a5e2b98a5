// Writes a stage of the compiler (`dump`) as one HTML page without external files. A graph is a
// table, in which arguments are links to the lines of their nodes. Any other stage is its text.
#include "frontend/report/explain.h"

#include <string.h>

#include "ir/base/stream.h"

static void head(const Session *s, FILE *f, const char *stage) {
  const char *model = s->opt->argument.n ? s->opt->argument.at[0] : "a dumped graph";
  html_head(f, arena_printf(s->arena, "%s: %s", model, stage));
  fprintf(f, "<h2>%s</h2>\n", stage);
  for (int i = 0; i < stage_name_count; i++) {
    if (strcmp(stage_names[i].name, stage) != 0) continue;
    html_in(f, "<p>", stage_names[i].holds, "</p>\n");
  }
}

static void put_type(FILE *f, const Graph *g, const Node *n) {
  fprintf(f, "<td>%s[", dtype_text((Dtype)n->type));
  for (int i = 0; i < n->dims->n; i++) {
    if (i) fputs(", ", f);
    html_text(f, dim_get(g->dims, n->dims->at[i])->name);
  }
  fprintf(f, "]</td>");
}

static void put_node(FILE *f, const Graph *g, NodeId id, const char *note) {
  const Node *n = graph_node(g, id);
  fprintf(f, "<tr id=\"n%u\"%s><td>%%%u</td><td>%s</td><td>", id,
          op_row((Op)n->op)->cls == COLLECTIVE ? " class=\"collective\"" : "", id,
          op_row((Op)n->op)->text);
  for (int i = 0; i < n->nargs; i++)
    fprintf(f, "%s<a href=\"#n%u\">%%%u</a>", i ? ", " : "", n->args[i], n->args[i]);
  fprintf(f, "</td>");
  put_type(f, g, n);
  html_in(f, "<td>", note ? note : "", "</td><td>");
  if (n->origin->pos.line) fprintf(f, "%u", n->origin->pos.line);
  html_in(f, "</td><td>", n->origin->value ? n->origin->value : "", "</td>");
  html_in(f, "<td class=\"why\">", n->origin->why ? n->origin->why : "", "</td></tr>\n");
}

char *dump_html_graph(const Session *s, const Graph *g, const char *stage, GraphNote *note,
                      const void *table) {
  TextStream out;
  FILE *f = stream_begin(&out);
  head(s, f, stage);
  html_table(f, "", "node|operation|of|type|state|line|value|why");
  for (NodeId i = 1; i <= graph_count(g); i++) put_node(f, g, i, note ? note(table, i) : NULL);
  html_table_end(f);
  fprintf(f, "<h2>outputs</h2>\n<ul>\n");
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    html_in(f, o->kind == OUT_UPDATE ? "<li>update " : "<li>", o->name, " = ");
    fprintf(f, "<a href=\"#n%u\">%%%u</a></li>\n", o->value, o->value);
  }
  fprintf(f, "</ul>\n");
  html_end(f);
  return stream_end(&out, s->arena);
}

char *dump_html_text(const Session *s, const char *stage, const char *plain) {
  TextStream out;
  FILE *f = stream_begin(&out);
  head(s, f, stage);
  html_in(f, "<pre>\n", plain, "</pre>\n");
  html_end(f);
  return stream_end(&out, s->arena);
}
