// Writes what processors compute and keep alike, and which are idle, as JSON and on the page of
// `explain`.
#include "frontend/report/explain.h"

json_t *idle_json(const Explain *e) {
  const WhatIfs *w = e->what_if;
  json_t *out = json_array();
  for (uint32_t i = 0; i < w->nidle; i++) {
    const IdleBlocks *b = &w->idle[i];
    json_t *one = json_pack("{s:s, s:o, s:I, s:I, s:I, s:I}", "dim", b->dim, "axes",
                            axes_json(w->now.choice.mesh, b->axes), "size", (json_int_t)b->size,
                            "block", (json_int_t)b->block, "processors", (json_int_t)b->parts,
                            "used", (json_int_t)b->used);
    json_object_set_new(one, "fewer", what_if_json(e, &w->fewer[i]));
    json_array_append_new(out, one);
  }
  return out;
}

json_t *alike_json(const Explain *e, const AlikeList *list, const char *unit) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < list->n; i++) {
    const Alike *g = &list->at[i];
    json_t *values = json_array(), *dims = json_array();
    for (uint32_t k = 0; k < g->value.n; k++)
      json_array_append_new(values, json_pack("{s:s, s:f}", "value", g->value.at[k].name, unit,
                                              g->value.at[k].amount));
    for (uint32_t k = 0; k < g->ndims; k++) json_array_append_new(dims, json_string(g->dim[k]));
    json_array_append_new(out, json_pack("{s:o, s:f, s:o, s:o}", "axes",
                                         axes_json(e->ledger->graph->mesh, g->axes), unit, g->total,
                                         "values", values, "dims", dims));
  }
  return out;
}

// -- the page -----------------------------------------------------------------------------------

enum { VALUES_SHOWN = 8 };

// Returns the first values of a group, each with its amount.
static const char *values_of(Arena *a, const Alike *g, const char *(*amount)(Arena *a, double x)) {
  const char *text = "";
  for (uint32_t i = 0; i < g->value.n && i < VALUES_SHOWN; i++)
    text = arena_printf(a, "%s%s%s %s", text, i ? ", " : "", g->value.at[i].name,
                        amount(a, g->value.at[i].amount));
  return g->value.n > VALUES_SHOWN ? arena_printf(a, "%s, ...", text) : text;
}

static const char *bytes_amount(Arena *a, double x) { return bytes_text(a, (int64_t)x); }

static void put_alike(FILE *f, const Explain *e, const AlikeList *list, const char *what,
                      const char *(*amount)(Arena *a, double x)) {
  Arena *a = e->session->arena;
  const Mesh *m = e->ledger->graph->mesh;
  for (uint32_t i = 0; i < list->n; i++) {
    const Alike *g = &list->at[i];
    html_in(f, "<tr><td>", what, "</td>");
    html_in(f, "<td>", axes_text(a, m, g->axes), "</td>");
    html_number(f, g->total, amount(a, g->total));
    html_in(f, "<td>", values_of(a, g, amount), "</td></tr>\n");
  }
}

void html_alike(FILE *f, const Explain *e) {
  const Ledger *l = e->ledger;
  const char *idle = what_if_idle_lines(e->session->arena, e->what_if);
  if (l->work.n + l->of_sums.n + l->copies.n) {
    fprintf(f,
            "<h3>What processors do alike</h3>\n<p>Products that the processors along these axes "
            "repeat, or compute each of its own partial sums, and tensors of which each has a "
            "copy, with the bytes that a split would spare a processor.</p>\n");
    html_table(f, "", "what|along|a processor|values");
    put_alike(f, e, &l->work, "computed", flops_text);
    put_alike(f, e, &l->of_sums, "computed of partial sums", flops_text);
    put_alike(f, e, &l->copies, "kept", bytes_amount);
    html_table_end(f);
  }
  if (*idle) html_in(f, "<p>", idle, "</p>\n");
}
