// Writes the graph of values as a drawing (SVG). Each box is below all boxes that it is computed
// from (layered.h). Its colour shows the axes that split the value. Collectives are listed in the
// box of the value that they move. Rounds of a loop that look alike are one box, and one of them
// has a drawing of its own that can be opened.
#include "frontend/report/explain.h"
#include "frontend/report/svg_internal.h"

#include <stdlib.h>
#include <string.h>

// A line of text in a box of the drawing, about collectives that move the value of the box. A row
// of the ledger is one collective. A line of the ledger joins rows that differ only in the round
// (iteration) of a loop.
typedef struct Badge {
  uint32_t line;  // index into Ledger.line
  uint32_t calls; // number of collectives of this ledger line that are shown in the box
  uint32_t row;   // index into Ledger.row of the last of these collectives
} Badge;

// A box of the drawing: one value, or several rounds (iterations) of a loop that look alike.
typedef struct Item {
  const char *title, *state;
  int value; // index into ExplainedValues.at; -1: the box shows rounds, and `round` is the first
  int round;
  int colour;
  bool ghost; // drawn with a dashed border, because the value is outside the round that is drawn
  VEC(Badge) badge;
} Item;

typedef struct Edge {
  uint32_t from, to;
  bool moved; // a collective moves the value along this edge
} Edge;

typedef struct Drawing {
  Arena *a;
  const Explain *e;
  const ValueGraph *g;
  int *item_of; // indexed as ValueGraph.box: index into `item`; -1: not in this drawing
  VEC(Item) item;
  VEC(Edge) edge;
} Drawing;

// -- boxes and edges ----------------------------------------------------------------------------

static const char *value_state(const Explain *e, const ExplainedValue *v) {
  Arena *a = e->session->arena;
  const char *text = "[";
  for (int k = 0; k < v->ndims; k++)
    text = arena_printf(
        a, "%s%s%s%s%s", text, k ? ", " : "", v->dim[k].name, v->dim[k].axes.n ? "/" : "",
        v->dim[k].axes.n ? axes_text(a, &e->session->model->mesh, v->dim[k].axes) : "");
  return arena_printf(a, "%s]%s", text, v->partial.n ? " partial" : "");
}

static void add_box(Drawing *d, uint32_t b, const char *title, bool ghost) {
  const GraphBox *box = &d->g->box[b];
  const ExplainedValue *v = &d->e->values->at[box->value];
  d->item_of[b] = (int)d->item.n;
  vec_push(d->a, d->item) = (Item){.title = title,
                                   .state = value_state(d->e, v),
                                   .value = box->value,
                                   .colour = state_colour(d->e, v),
                                   .ghost = ghost};
}

// Adds a collective to a box of the drawing, as a badge (line of text). `row` is the collective's
// row in the ledger. Rows that the ledger joins into one line share a badge.
static void add_badge(Drawing *d, Item *item, uint32_t row) {
  uint32_t line = d->e->ledger->row[row].line;
  for (uint32_t i = 0; i < item->badge.n; i++) {
    Badge *b = &item->badge.at[i];
    if (b->line != line) continue;
    b->calls += b->row != row;
    b->row = row;
    return;
  }
  vec_push(d->a, item->badge) = (Badge){line, 1, row};
}

// Adds an edge between boxes `from` and `to` of the graph. Does nothing if both are in one box of
// the drawing, or if one is not in the drawing.
static void add_edge(Drawing *d, uint32_t from, uint32_t to, bool moved) {
  int x = d->item_of[from], y = d->item_of[to];
  if (x < 0 || y < 0 || x == y) return;
  for (uint32_t i = 0; i < d->edge.n; i++)
    if (d->edge.at[i].from == (uint32_t)x && d->edge.at[i].to == (uint32_t)y) {
      d->edge.at[i].moved |= moved;
      return;
    }
  vec_push(d->a, d->edge) = (Edge){(uint32_t)x, (uint32_t)y, moved};
}

static void connect(Drawing *d) {
  for (uint32_t i = 0; i < d->g->nedges; i++)
    add_edge(d, d->g->edge[i].from, d->g->edge[i].to, false);
  for (uint32_t i = 0; i < d->g->nmoves; i++) {
    const GraphMove *m = &d->g->move[i];
    const LedgerRow *row = &d->e->ledger->row[m->row];
    if (d->item_of[m->from] >= 0 && !d->item.at[d->item_of[m->from]].ghost)
      add_badge(d, &d->item.at[d->item_of[m->from]], m->row);
    if (m->from != m->to && !row->fact->backward) add_edge(d, m->from, m->to, true);
  }
}

static const char *badge_text(const Drawing *d, const Badge *b) {
  Arena *a = d->a;
  const LedgerRow *row = &d->e->ledger->row[b->row];
  const CollFact *c = row->fact;
  int64_t calls = c->times * b->calls;
  const char *what = arena_printf(a, "%s%s %s", c->backward ? "gradient: " : "", coll_text(c->kind),
                                  axes_text(a, &d->e->session->model->mesh, c->axes));
  if (row->nparts > 1)
    // The text has no bytes, because those of the call are for all values that it moves.
    return arena_printf(a, "%s, %u packed", what, row->nparts);
  return arena_printf(a, "%s %s%s", what, bytes_text(a, c->wire_bytes),
                      calls > 1 ? arena_printf(a, " x%lld", (long long)calls) : "");
}

// -- sizes of boxes -----------------------------------------------------------------------------

static void measure(const Drawing *d, const Item *i, DrawnBox *out) {
  size_t longest = strlen(i->title) > strlen(i->state) ? strlen(i->title) : strlen(i->state);
  for (uint32_t b = 0; b < i->badge.n; b++) {
    size_t n = strlen(badge_text(d, &i->badge.at[b]));
    if (n > longest) longest = n;
  }
  out->width = (double)longest * SVG_LETTER + 14;
  out->height = SVG_LINE * (2 + i->badge.n) + 8;
}

// -- the drawing --------------------------------------------------------------------------------

static void put_words(FILE *f, const DrawnBox *b, int line, const char *css, const char *text) {
  svg_text(f, css, b->x + 7, b->y + SVG_LINE * line - 1, text);
}

static void put_item(FILE *f, const Drawing *d, const Item *i, const DrawnBox *box) {
  fprintf(f, "<g class=\"box\"");
  if (i->value >= 0) fprintf(f, " data-v=\"%d\" tabindex=\"0\"", i->value);
  fprintf(f, ">");
  svg_box(f, box, arena_printf(d->a, "c%d%s", i->colour, i->ghost ? " ghost" : ""));
  if (i->value < 0) fprintf(f, "<a href=\"#round%d\">", i->round);
  put_words(f, box, 1, NULL, i->title);
  if (i->value < 0) fprintf(f, "</a>");
  put_words(f, box, 2, "s", i->state);
  for (uint32_t b = 0; b < i->badge.n; b++) {
    fprintf(f, "<a href=\"#line%u\">", i->badge.at[b].line);
    put_words(f, box, 3 + (int)b, d->e->ledger->row[i->badge.at[b].row].fact->backward ? "b" : "f",
              badge_text(d, &i->badge.at[b]));
    fprintf(f, "</a>");
  }
  fprintf(f, "</g>\n");
}

static void draw(FILE *f, Drawing *d, const char *label) {
  connect(d);
  Drawn drawn = {.nboxes = d->item.n, .nedges = d->edge.n, .most_width = SVG_WIDTH};
  drawn.box = arena_array(d->a, DrawnBox, d->item.n + 1);
  drawn.edge = arena_array(d->a, DrawnEdge, d->edge.n + 1);
  for (uint32_t i = 0; i < d->item.n; i++) measure(d, &d->item.at[i], &drawn.box[i]);
  for (uint32_t i = 0; i < d->edge.n; i++)
    drawn.edge[i] = (DrawnEdge){.from = d->edge.at[i].from, .to = d->edge.at[i].to};
  if (!layered_draw(d->a, &drawn)) {
    svg_too_large(f, drawn.nboxes);
    return;
  }
  svg_begin(f, drawn.width, drawn.height, label);
  for (int moved = 0; moved < 2; moved++) // edges with a collective are drawn last, on top
    for (uint32_t i = 0; i < d->edge.n; i++)
      if (d->edge.at[i].moved == moved) svg_edge(f, &drawn.edge[i], moved, moved ? "e move" : "e");
  for (uint32_t i = 0; i < d->item.n; i++) put_item(f, d, &d->item.at[i], &drawn.box[i]);
  svg_end(f);
}

static Drawing drawing(const Explain *e, const ValueGraph *g, Arena *a) {
  Drawing d = {.a = a, .e = e, .g = g, .item_of = arena_array(a, int, g->nboxes + 1)};
  for (uint32_t b = 0; b < g->nboxes; b++) d.item_of[b] = -1;
  return d;
}

// -- rounds -------------------------------------------------------------------------------------

// Consecutive rounds (iterations) of a loop that look alike: rounds `first` to `last`, both
// included.
typedef struct Run {
  uint32_t first, last;
} Run;

// Returns the longest sequence of rounds (iterations of a loop) that look alike, beginning with
// round r.
static Run run_at(const ValueGraph *g, uint32_t r) {
  Run run = {r, r};
  while (run.last + 1 < g->nrounds && g->round[run.last + 1].alike == g->round[r].alike &&
         !strcmp(g->round[run.last + 1].loop, g->round[r].loop))
    run.last++;
  return run;
}

static const char *run_title(Arena *a, const ValueGraph *g, Run run) {
  if (run.first == run.last) return g->round[run.first].name;
  return arena_printf(a, "%s ... %s", g->round[run.first].name, g->round[run.last].name);
}

static const char *run_state(Arena *a, Run run, uint32_t values) {
  uint32_t n = run.last - run.first + 1;
  return n == 1 ? arena_printf(a, "%u value%s, below", values, plural(values))
                : arena_printf(a, "%u alike, %u value%s each, below", n, values, plural(values));
}

static void add_run(Drawing *d, Run run) {
  uint32_t values = 0, item = d->item.n; // number of values in one round; index of the new item
  for (uint32_t b = 0; b < d->g->nboxes; b++) {
    if (d->g->box[b].round < (int)run.first || d->g->box[b].round > (int)run.last) continue;
    d->item_of[b] = (int)item;
    values += d->g->box[b].round == (int)run.first;
  }
  vec_push(d->a, d->item) = (Item){.title = run_title(d->a, d->g, run),
                                   .state = run_state(d->a, run, values),
                                   .value = -1,
                                   .round = (int)run.first};
}

// Writes a drawing for several loop rounds that look alike: the first of these rounds, and the
// values outside this round that it reads.
static void put_run(FILE *f, const Explain *e, const ValueGraph *g, Run run) {
  Arena *scratch = arena_new();
  Drawing d = drawing(e, g, scratch);
  for (uint32_t b = 0; b < g->nboxes; b++)
    if (g->box[b].round == (int)run.first) add_box(&d, b, g->box[b].rest, false);
  for (uint32_t i = 0; i < g->nedges; i++) {
    uint32_t from = g->edge[i].from, to = g->edge[i].to;
    if (g->box[to].round == (int)run.first && d.item_of[from] < 0)
      add_box(&d, from, g->box[from].name, true);
  }
  fprintf(f, "<details id=\"round%u\"><summary>", run.first);
  html_in(f, "within ", run_title(scratch, g, run), "");
  if (run.last > run.first)
    fprintf(f, ": %u rounds alike, the first of them", run.last - run.first + 1);
  fprintf(f, "</summary>\n");
  draw(f, &d, run_title(scratch, g, run));
  fprintf(f, "</details>\n");
  arena_free(scratch);
}

static void put_key(FILE *f, const Explain *e) {
  const Mesh *m = &e->session->model->mesh;
  bool used[STATE_COLOURS] = {false};
  fprintf(f, "<p>A box is a value; arrows lead to it from what it is made of. Its colour shows the "
             "mesh axes that split it:");
  for (uint32_t i = 0; i < e->values->n; i++) {
    const ExplainedValue *v = &e->values->at[i];
    int colour = state_colour(e, v);
    const char *text = "";
    if (used[colour]) continue;
    used[colour] = true;
    for (int axis = 0; axis < m->naxes; axis++)
      for (int k = 0; k < v->ndims; k++)
        if (axes_has(v->dim[k].axes, axis))
          text = arena_printf(e->session->arena, "%s%s%s", text, *text ? " and " : "",
                              m->axis[axis].name);
    fprintf(f, " <span class=\"key\" style=\"background:var(--c%d)\"></span> ", colour);
    html_text(f, *text ? text : "none");
  }
  fprintf(f, ". Collectives are written in the box of the value that they move, those of its "
             "gradient too; orange arrows pass through one.</p>\n");
}

void html_graph(FILE *f, const Explain *e) {
  Arena *scratch = arena_new();
  const ValueGraph *g = value_graph(scratch, e);
  Drawing d = drawing(e, g, scratch);
  fprintf(f, "<h2>Graph</h2>\n");
  put_key(f, e);
  for (uint32_t b = 0; b < g->nboxes; b++)
    if (g->box[b].round < 0) add_box(&d, b, g->box[b].name, false);
  for (uint32_t r = 0; r < g->nrounds; r = run_at(g, r).last + 1) add_run(&d, run_at(g, r));
  draw(f, &d, "the values of the model and what each is made of");
  for (uint32_t r = 0; r < g->nrounds; r = run_at(g, r).last + 1) put_run(f, e, g, run_at(g, r));
  arena_free(scratch);
}
