// Writes a stage of the compiler (`dump`) as one HTML page without external files. A graph is a
// table, in which arguments are links to the lines of their nodes. Any other stage is its text.
#include "frontend/report/explain.h"

#include <stdlib.h>
#include <string.h>

static void head(const Session *s, FILE *f, const char *stage) {
  const char *model = s->opt->argument.n ? s->opt->argument.at[0] : "a dumped graph";
  html_head(f, arena_printf(s->arena, "%s: %s", model, stage));
  fprintf(f, "<h2>%s</h2>\n", stage);
  for (int i = 0; i < stage_name_count; i++) {
    if (strcmp(stage_names[i].name, stage) != 0) continue;
    fprintf(f, "<p>");
    html_text(f, stage_names[i].holds);
    fprintf(f, "</p>\n");
  }
}

static char *finish(const Session *s, FILE *f, char **text, size_t *n) {
  html_end(f);
  mem_stream_close(f);
  char *kept = arena_text(s->arena, *text, *n);
  free(*text);
  return kept;
}

static void put_type(FILE *f, const Graph *g, const Node *n) {
  fprintf(f, "<td>%s[", dtype_text((Dtype)n->type));
  for (int i = 0; i < n->dims.n; i++) {
    if (i) fputs(", ", f);
    html_text(f, dim_get(g->dims, n->dims.at[i])->name);
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
  fprintf(f, "<td>");
  html_text(f, note ? note : "");
  fprintf(f, "</td><td>");
  if (n->origin.pos.line) fprintf(f, "%u", n->origin.pos.line);
  fprintf(f, "</td><td>");
  html_text(f, n->origin.value ? n->origin.value : "");
  fprintf(f, "</td><td class=\"why\">");
  html_text(f, n->origin.why ? n->origin.why : "");
  fprintf(f, "</td></tr>\n");
}

char *dump_html_graph(const Session *s, const Graph *g, const char *stage, GraphNote *note,
                      const void *table) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = mem_stream(&text, &n);
  head(s, f, stage);
  fprintf(f, "<table>\n<tr><th>node</th><th>operation</th><th>of</th><th>type</th><th>state</th>"
             "<th>line</th><th>value</th><th>why</th></tr>\n");
  for (NodeId i = 1; i <= graph_count(g); i++) put_node(f, g, i, note ? note(table, i) : NULL);
  fprintf(f, "</table>\n<h2>outputs</h2>\n<ul>\n");
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    fprintf(f, "<li>%s", o->kind == OUT_UPDATE ? "update " : "");
    html_text(f, o->name);
    fprintf(f, " = <a href=\"#n%u\">%%%u</a></li>\n", o->value, o->value);
  }
  fprintf(f, "</ul>\n");
  return finish(s, f, &text, &n);
}

char *dump_html_text(const Session *s, const char *stage, const char *plain) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = mem_stream(&text, &n);
  head(s, f, stage);
  fprintf(f, "<pre>\n");
  html_text(f, plain);
  fprintf(f, "</pre>\n");
  return finish(s, f, &text, &n);
}
