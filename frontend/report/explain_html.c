// Writes the page of `explain`: mesh, graph, ledger, rules, memory and values. The page needs no
// external files and has styles for light and dark.
#include "frontend/report/explain.h"
#include "frontend/report/svg_internal.h"

#include <string.h>

enum {
  WIDTH = 900,
  HEIGHT = 220,
  LEFT = 70,
  BOTTOM = 24,
  LABEL_GAP = 14,
  MOST_POINTS = 1000,
  MOST_ALIVE = 20,
  MOST_CELLS = 256
};

static const Mesh *mesh_of(const Explain *e) { return &e->session->model->mesh; }
static const char *axes_of(const Explain *e, Axes axes) {
  return axes_text(e->session->arena, mesh_of(e), axes);
}
static const char *size_of(const Explain *e, int64_t bytes) {
  return bytes_text(e->session->arena, bytes);
}

// -- summary of the step ------------------------------------------------------------------------

static void put_tile(FILE *f, const char *number, const char *what) {
  html_in(f, "<div class=\"tile\"><b>", number, "</b>");
  fprintf(f, "%s</div>\n", what);
}

static void put_tiles(FILE *f, const Explain *e) {
  Arena *a = e->session->arena;
  const Ledger *l = e->ledger;
  const PartitionFacts *p = &l->partition;
  fprintf(f, "<div class=\"tiles\">\n");
  put_tile(f, arena_printf(a, "%lld", (long long)l->calls), "collective calls a step");
  put_tile(f, size_of(e, l->wire_bytes), "sent by a processor");
  put_tile(f, seconds_text(a, e->step->seconds), "a step, predicted");
  put_tile(f, seconds_text(a, l->seconds), "of collectives, predicted");
  put_tile(f, flops_text(a, (double)p->flops),
           arena_printf(a, "a processor, of %s in all", flops_text(a, (double)p->flops_whole)));
  put_tile(f, arena_printf(a, "%.1f %%", 100 * p->redundant_flops), "redundant flops");
  put_tile(f, size_of(e, l->peak_bytes), "at the peak, a processor");
  put_tile(f, arena_printf(a, "%.1f %%", 100 * p->padding), "padding");
  fprintf(f, "</div>\n");
}

// -- the mesh -----------------------------------------------------------------------------------

static void put_cell(FILE *f, int64_t r) {
  fprintf(f, "<div class=\"cell\" data-r=\"%lld\"><b>%lld</b><div class=\"holds\"></div></div>",
          (long long)r, (long long)r);
}

static void put_axis(FILE *f, const char *name, int64_t at) {
  fprintf(f, "<div class=\"axis\">");
  if (name) html_text(f, name), fprintf(f, " %lld", (long long)at);
  fprintf(f, "</div>");
}

// Writes one grid of the processors of a mesh: the last axis runs to the right, the axis before the
// last one runs downwards. Each position along the other axes has a separate grid.
static void put_grid(FILE *f, const Mesh *m, int64_t first, int64_t down, int64_t right) {
  int n = m->naxes;
  fprintf(f, "<div class=\"mesh\" style=\"grid-template-columns:repeat(%lld,auto)\">",
          (long long)right + 1);
  put_axis(f, NULL, 0);
  for (int64_t k = 0; k < right; k++) put_axis(f, n > 0 ? m->axis[n - 1].name : NULL, k);
  for (int64_t i = 0; i < down; i++) {
    put_axis(f, n > 1 ? m->axis[n - 2].name : NULL, i);
    for (int64_t k = 0; k < right; k++) put_cell(f, first + i * right + k);
  }
  fprintf(f, "</div>\n");
}

static void put_grids(FILE *f, const Mesh *m) {
  int64_t right = m->naxes > 0 ? m->axis[m->naxes - 1].size : 1,
          down = m->naxes > 1 ? m->axis[m->naxes - 2].size : 1;
  for (int64_t first = 0; first < mesh_size(m) && first < MOST_CELLS; first += right * down) {
    for (int axis = 0; axis < m->naxes - 2; axis++) {
      html_in(f, "<small>", m->axis[axis].name, "");
      fprintf(f, " %lld </small>", (long long)mesh_coord(m, first, axis));
    }
    put_grid(f, m, first, down, right);
  }
  if (mesh_size(m) > MOST_CELLS)
    fprintf(f, "<p><small>the first of %lld processors</small></p>\n", (long long)mesh_size(m));
}

static void put_choice(FILE *f, const Explain *e) {
  fprintf(f, "<p>What each processor holds of <select id=\"which\">");
  for (uint32_t i = 0; i < e->values->n; i++) {
    fprintf(f, "<option value=\"%u\"", i);
    html_in(f, ">", e->values->at[i].name, "</option>");
  }
  fprintf(f, "</select></p>\n");
}

static void put_mesh(FILE *f, const Explain *e) {
  html_in(f, "<div class=\"held\">\n<h2>Mesh <small>", mesh_text(e->session->arena, mesh_of(e)),
          "</small></h2>\n");
  put_choice(f, e);
  put_grids(f, mesh_of(e));
  fprintf(f, "</div>\n");
}

// -- facts for the script: names as JSON, in which `<`, `>` and `&` are written as escapes ------

static void put_string(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' || c == 0x7f)
      fprintf(f, "\\u%04x", c);
    else
      fputc(c, f);
  }
  fputc('"', f);
}

static void put_axes(FILE *f, Axes axes) {
  fputc('[', f);
  for (int i = 0; i < axes.n; i++) fprintf(f, "%s%d", i ? "," : "", axes.at[i]);
  fputc(']', f);
}

static void put_value_facts(FILE *f, const ExplainedValue *v) {
  fprintf(f, "{\"d\":[");
  for (int k = 0; k < v->ndims; k++) {
    fprintf(f, "%s[", k ? "," : "");
    put_string(f, v->dim[k].name);
    fprintf(f, ",%lld,", (long long)v->dim[k].size);
    put_axes(f, v->dim[k].axes);
    fputc(']', f);
  }
  fprintf(f, "],\"t\":");
  put_axes(f, v->partial);
  fputc('}', f);
}

// Returns the index of the value that the page shows first: the one with the most split dims.
static uint32_t telling_value(const ExplainedValues *v) {
  uint32_t best = 0;
  int most = -1;
  for (uint32_t i = 0; i < v->n; i++) {
    int splits = 0;
    for (int k = 0; k < v->at[i].ndims; k++) splits += v->at[i].dim[k].axes.n;
    if (splits > most) most = splits, best = i;
  }
  return best;
}

static void put_facts(FILE *f, const Explain *e) {
  const Mesh *m = mesh_of(e);
  fprintf(f, "<script type=\"application/json\" id=\"facts\">{\"mesh\":[");
  for (int i = 0; i < m->naxes; i++) {
    fprintf(f, "%s[", i ? "," : "");
    put_string(f, m->axis[i].name);
    fprintf(f, ",%lld]", (long long)m->axis[i].size);
  }
  fprintf(f, "],\"first\":%u,\"values\":[", telling_value(e->values));
  for (uint32_t i = 0; i < e->values->n; i++) {
    if (i) fputs(",\n", f);
    put_value_facts(f, &e->values->at[i]);
  }
  fprintf(f, "]}</script>\n");
}

// -- the ledger ---------------------------------------------------------------------------------

static void put_cell_text(FILE *f, const char *text) { html_in(f, "<td>", text, "</td>"); }

static void put_calls(FILE *f, const Explain *e, const LedgerLine *line) {
  const Ledger *l = e->ledger;
  const LedgerRow *first = &l->row[line->row[0]];
  Arena *a = e->session->arena;
  if (line->n == 1 && first->nparts == 1) return;
  fprintf(f, "<details><summary>%u call%s</summary><ul>", line->n, plural(line->n));
  for (uint32_t i = 0; i < line->n; i++)
    for (uint32_t k = 0; k < l->row[line->row[i]].nparts; k++) {
      const LedgerPart *p = &l->row[line->row[i]].part[k];
      const char *wants = ledger_sharding(a, l, &p->wants), *has = ledger_sharding(a, l, &p->has);
      html_in(f, "<li>",
              arena_printf(a, "%s%s: %s to %s, %s", p->value, ledger_dims(a, l, &p->wants), has,
                           wants, size_of(e, p->bytes)),
              "</li>");
    }
  fprintf(f, "</ul></details>");
}

static void put_line(FILE *f, const Explain *e, uint32_t i) {
  Arena *a = e->session->arena;
  const LedgerLine *line = &e->ledger->line[i];
  const LedgerRow *row = &e->ledger->row[line->row[0]];
  const CollFact *c = row->fact;
  fprintf(f, "<tr id=\"line%u\">", i);
  put_cell_text(f, coll_text(c->kind));
  put_cell_text(f, arena_printf(a, "%s x%lld", axes_of(e, c->axes), (long long)c->group));
  html_number(f, (double)line->calls, arena_printf(a, "%lld", (long long)line->calls));
  html_number(f, (double)c->wire_bytes,
              arena_printf(a, "%s%s", size_of(e, c->wire_bytes), line->unequal ? " ..." : ""));
  html_number(f, (double)line->wire_bytes, size_of(e, line->wire_bytes));
  html_number(f, line->seconds, seconds_text(a, line->seconds));
  put_cell_text(f, c->backward ? "backward" : "forward");
  html_in(f, "<td>", line->value, "");
  if (row->nparts == 1) html_in(f, " ", ledger_dims(a, e->ledger, &row->part[0].wants), "");
  put_calls(f, e, line);
  fprintf(f, "</td>");
  put_cell_text(f, ledger_place(a, e->ledger, c->pos));
  html_in(f, "<td class=\"why\">", c->why ? c->why : "", "</td>");
  html_in(f, "<td class=\"why\">", ledger_remedy(a, e->ledger, row), "</td>");
  html_in(f, "<td class=\"why\">",
          c->end_next ? arena_printf(a, "%s (%s)", bucket_end_text(c->end), c->end_next)
                      : bucket_end_text(c->end),
          "</td></tr>\n");
}

static void put_ledger(FILE *f, const Explain *e) {
  fprintf(f, "<h2>Collectives</h2>\n<p>What moves between processors in a step, in the order of "
             "the program. Equal calls of the rounds of a loop are "
             "one line. A click on a head sorts.</p>\n<div class=\"scroll\">");
  html_table(f, " class=\"sort\"",
             "kind|over|calls|sent, a call|sent, a step|time|phase|value|place|why|"
             "what would remove it|why the call has no more parts");
  for (uint32_t i = 0; i < e->ledger->nlines; i++) put_line(f, e, i);
  html_table_end(f);
  fprintf(f, "</div>\n<h3>By axes</h3>\n");
  html_table(f, "", "over|processors|calls|sent|time");
  for (uint32_t i = 0; i < e->ledger->ntotals; i++) {
    const LedgerTotal *t = &e->ledger->total[i];
    fprintf(f, "<tr>");
    put_cell_text(f, axes_of(e, t->axes));
    fprintf(f,
            "<td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">%s</td><td "
            "class=\"n\">%s</td></tr>\n",
            (long long)t->group, (long long)t->calls, size_of(e, t->wire_bytes),
            seconds_text(e->session->arena, t->seconds));
  }
  html_table_end(f);
}

// -- time of the step ---------------------------------------------------------------------------

static double put_share(FILE *f, const Explain *e, double x, double seconds, int colour,
                        const char *what) {
  const Simulation *t = e->step;
  double width = seconds / (t->compute + t->transfer) * WIDTH;
  if (seconds <= 0) return x;
  fprintf(f,
          "<rect class=\"c%d\" x=\"%.1f\" y=\"2\" width=\"%.1f\" height=\"26\"><title>%s "
          "%s</title></rect>",
          colour, x, width, what, seconds_text(e->session->arena, seconds));
  if (width > 90) fprintf(f, "<text x=\"%.1f\" y=\"19\">%s</text>", x + 5, what);
  return x + width;
}

static void put_step(FILE *f, const Explain *e) {
  const Simulation *t = e->step;
  double products = t->of_kind[INSTR_GEMM], kernels = t->of_kind[INSTR_KERNEL], x = 0;
  if (t->compute + t->transfer <= 0) return;
  html_in(f, "<h2>Time of the step</h2>\n<p>Predicted by the figures of the machine: ",
          simulation_text(e->session->arena, t), ".</p>\n");
  fprintf(f, "<svg viewBox=\"0 0 %d 30\" width=\"%d\" height=\"30\">", WIDTH, WIDTH);
  x = put_share(f, e, x, products, 1, "products");
  x = put_share(f, e, x, kernels, 2, "kernels");
  x = put_share(f, e, x, t->compute - products - kernels, 0, "other work");
  x = put_share(f, e, x, t->transfer - t->hidden, 3, "collectives");
  put_share(f, e, x, t->hidden, 4, "hidden collectives");
  fprintf(f, "</svg>\n");
}

// -- memory over the step -----------------------------------------------------------------------

static double across(const Timeline *t, uint32_t i) {
  return LEFT + (double)i / (double)(t->n > 1 ? t->n - 1 : 1) * (WIDTH - LEFT - 8);
}

static double above(const Timeline *t, int64_t bytes) {
  double most = (double)(t->persistent + t->live[t->peak]);
  return HEIGHT - BOTTOM - (double)bytes / (most > 0 ? most : 1) * (HEIGHT - BOTTOM - 12);
}

// Writes the curve of live bytes over the instructions of a step. Where several instructions share
// one point of the drawing, the point shows the largest of their values.
static void put_live(FILE *f, const Timeline *t) {
  uint32_t each = t->n / MOST_POINTS + 1;
  for (uint32_t i = 0; i < t->n; i += each) {
    int64_t most = 0;
    for (uint32_t k = i; k < i + each && k < t->n; k++)
      if (t->live[k] > most) most = t->live[k];
    fprintf(f, "%.1f,%.1f ", across(t, i), above(t, t->persistent + most));
  }
}

static void put_alive(FILE *f, const Explain *e) {
  const Timeline *t = &e->memory;
  fprintf(f,
          "<details open=\"open\"><summary>alive at the peak: %u buffer%s, the largest "
          "first</summary>\n",
          t->nalive, plural(t->nalive));
  html_table(f, "", "value|size|instructions");
  for (uint32_t i = 0; i < t->nalive && i < MOST_ALIVE; i++) {
    const PlanBuffer *b = t->alive[i];
    fprintf(f, "<tr>");
    put_cell_text(f, b->value);
    fprintf(f, "<td class=\"n\">%s</td><td>%u to %u%s</td></tr>\n", size_of(e, b->bytes), b->first,
            b->last, b->kept ? ", kept" : "");
  }
  int64_t rest = 0;
  for (uint32_t i = MOST_ALIVE; i < t->nalive; i++) rest += t->alive[i]->bytes;
  if (rest)
    fprintf(f, "<tr><td>%u more</td><td class=\"n\">%s</td><td></td></tr>\n",
            t->nalive - MOST_ALIVE, size_of(e, rest));
  html_table_end(f);
  fprintf(f, "</details>\n");
}

// Returns the y coordinate, in pixels, of the label for persistent memory. `floor` is the y
// coordinate of the top of persistent memory. The label is put at `floor`, or lower if it would
// cover the label of the peak.
static double floor_label(double floor) {
  double least = 16 + LABEL_GAP, most = HEIGHT - BOTTOM;
  return floor < least ? least : floor > most - 4 ? most : floor;
}

// Draws the bytes over the instructions: what lives in the arena above what stays all the time,
// whose y coordinate is `floor`.
static void put_timeline(FILE *f, const Timeline *t, double floor) {
  fprintf(f, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n<polygon points=\"%d,%.1f ",
          WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, floor);
  put_live(f, t);
  fprintf(f,
          "%d,%.1f\"/>\n<rect class=\"band\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n",
          WIDTH - 8, floor, LEFT, floor, WIDTH - 8 - LEFT, HEIGHT - BOTTOM - floor);
  fprintf(f,
          "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/><line x1=\"%d\" y1=\"8\" x2=\"%d\" "
          "y2=\"%d\"/>",
          LEFT, HEIGHT - BOTTOM, WIDTH, HEIGHT - BOTTOM, LEFT, LEFT, HEIGHT - BOTTOM);
}

// Labels the drawing: the peak and its instruction, and what stays all the time.
static void put_labels(FILE *f, const Explain *e, double floor) {
  const Timeline *t = &e->memory;
  double x = across(t, t->peak);
  fprintf(f,
          "<line x1=\"%.1f\" y1=\"8\" x2=\"%.1f\" y2=\"%d\" stroke-dasharray=\"4 3\"/><text "
          "x=\"2\" y=\"16\">%s</text><text x=\"2\" y=\"%.1f\">%s</text>\n",
          x, x, HEIGHT - BOTTOM, size_of(e, t->persistent + t->live[t->peak]), floor_label(floor),
          size_of(e, t->persistent));
  fprintf(f,
          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">peak at instruction %u</text><text "
          "x=\"%d\" y=\"%d\" text-anchor=\"end\">%u instruction%s</text></svg>\n",
          x < LEFT + 80     ? LEFT + 80
          : x > WIDTH - 220 ? WIDTH - 220
                            : x,
          HEIGHT - 8, t->peak, WIDTH, HEIGHT - 8, t->n, plural(t->n));
}

static void put_memory(FILE *f, const Explain *e) {
  const Timeline *t = &e->memory;
  const PartitionFacts *p = &e->ledger->partition;
  fprintf(f,
          "<h2>Memory over the step</h2>\n<p>A processor holds %s of parameters and %s of "
          "optimizer state all the time; above them what lives in its "
          "work arena at each instruction, %s at most.</p>\n",
          size_of(e, p->parameter_bytes), size_of(e, p->optimizer_bytes),
          size_of(e, t->n ? t->live[t->peak] : 0));
  if (e->ledger->memory) html_in(f, "<pre>", e->ledger->memory, "</pre>\n");
  if (!t->n) return;
  double floor = above(t, t->persistent);
  put_timeline(f, t, floor);
  put_labels(f, e, floor);
  put_alive(f, e);
}

// -- values -------------------------------------------------------------------------------------

static void put_value(FILE *f, const Explain *e, uint32_t i) {
  const ExplainedValue *v = &e->values->at[i];
  fprintf(f, "<tr class=\"value\" data-v=\"%u\">", i);
  put_cell_text(f, v->name);
  put_cell_text(f, value_kinds[v->kind]);
  fprintf(f, "<td>%s[", dtype_text(v->type));
  for (int k = 0; k < v->ndims; k++) {
    fprintf(f, "%s", k ? ", " : "");
    html_text(f, v->dim[k].name);
    fprintf(f, " %lld", (long long)v->dim[k].size);
  }
  fprintf(f, "]</td>");
  put_cell_text(f, v->computed);
  put_cell_text(f, v->seen);
  html_number(f, (double)v->block_bytes, size_of(e, v->block_bytes));
  html_number(f, (double)v->bytes, size_of(e, v->bytes));
  html_number(f, (double)v->wire_bytes, size_of(e, v->wire_bytes));
  html_in(f, "<td class=\"why\">", v->why, "</td></tr>\n");
}

static void put_values(FILE *f, const Explain *e) {
  fprintf(f, "<h2>Values</h2>\n<p>A click shows what each processor holds. <input id=\"find\" "
             "placeholder=\"part of a name\"/></p>\n<div class=\"scroll\">");
  html_table(f, " class=\"sort\" id=\"values\"",
             "name|kind|type|computed|for its uses|a processor|in all|sent|because");
  for (uint32_t i = 0; i < e->values->n; i++) put_value(f, e, i);
  html_table_end(f);
  fprintf(f, "</div>\n");
}

// -- the page -----------------------------------------------------------------------------------

// Puts the mesh in a part of the page that stays visible while the other parts scroll.
void html_explained(FILE *f, const Explain *e) {
  fprintf(f, "<div class=\"beside\">\n");
  put_mesh(f, e);
  fprintf(f, "<div>\n");
  html_graph(f, e);
  html_kernels(f, e);
  put_ledger(f, e);
  html_what_ifs(f, e);
  put_step(f, e);
  put_memory(f, e);
  put_values(f, e);
  fprintf(f, "</div></div>\n");
  put_facts(f, e);
  fputs(html_script, f);
  fputs(svg_script, f);
}

void explain_page(FILE *f, const Explain *e) {
  html_head(f, arena_printf(e->session->arena, "%s, for %s", e->session->opt->argument.at[0],
                            e->purpose));
  put_tiles(f, e);
  html_explained(f, e);
  html_end(f);
}
