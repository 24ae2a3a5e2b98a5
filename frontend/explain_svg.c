// The graph of values as a drawing: boxes in rows below all that they are made of, coloured by the axes that cut them,
// collectives written in the box of the value that they move. Rounds of a loop that look alike are one box; what is
// within one of them is a drawing of its own that opens.
#include "frontend/explain.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1150, GAP = 14, ROW_GAP = 34, LINE = 14, SWEEPS = 4 };
static const double letter = 7.0; // width of one of 11 px monospace

// A collective at an item: a line of the ledger, how many of its calls are here, and the last of them.
typedef struct Badge {
  uint32_t line, calls, row;
} Badge;

typedef struct Item {
  const char *title, *state;
  int value;        // -1: rounds
  int colour;
  bool ghost;       // of outside
  uint32_t order;   // of its last box: what it is made of has a lower one
  uint32_t rank;
  double at, x, y, width, height; // at: of its neighbours, while rows are put in order
  VEC(Badge) badge;
} Item;

typedef struct Edge {
  uint32_t from, to;
  bool moved;       // a collective stands between
} Edge;

typedef struct Drawing {
  Arena *a;
  const Explain *e;
  const ValueGraph *g;
  int *item_of;     // of box, -1: not here
  VEC(Item) item;
  VEC(Edge) edge;
  uint32_t nranks;
  double height;
} Drawing;

// -- items ---------------------------------------------------------------------------------------------------

static const char *value_state(const Explain *e, const ExplainedValue *v) {
  Arena *a = e->session->arena;
  const char *text = "[";
  for (int k = 0; k < v->ndims; k++)
    text = arena_printf(a, "%s%s%s%s%s", text, k ? ", " : "", v->dim[k].name, v->dim[k].axes.n ? "/" : "",
                        v->dim[k].axes.n ? axes_text(a, &e->session->model->mesh, v->dim[k].axes) : "");
  return arena_printf(a, "%s]%s", text, v->terms.n ? " from terms" : "");
}

static void add_box(Drawing *d, uint32_t b, const char *title, bool ghost) {
  const GraphBox *box = &d->g->box[b];
  const ExplainedValue *v = &d->e->values->at[box->value];
  d->item_of[b] = (int)d->item.n;
  vec_push(d->a, d->item) = (Item){.title = title, .state = value_state(d->e, v), .value = box->value, .colour = state_colour(d->e, v), .ghost = ghost, .order = b};
}

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
  for (uint32_t i = 0; i < d->g->nedges; i++) add_edge(d, d->g->edge[i].from, d->g->edge[i].to, false);
  for (uint32_t i = 0; i < d->g->nmoves; i++) {
    const GraphMove *m = &d->g->move[i];
    const LedgerRow *row = &d->e->ledger->row[m->row];
    if (d->item_of[m->from] >= 0 && !d->item.at[d->item_of[m->from]].ghost) add_badge(d, &d->item.at[d->item_of[m->from]], m->row);
    if (m->from != m->to && !row->fact->backward) add_edge(d, m->from, m->to, true);
  }
}

static const char *badge_text(const Drawing *d, const Badge *b) {
  Arena *a = d->a;
  const LedgerRow *row = &d->e->ledger->row[b->row];
  const CollFact *c = row->fact;
  int64_t calls = c->times * b->calls;
  const char *what = arena_printf(a, "%s%s %s", c->backward ? "gradient: " : "", coll_text(c->kind), axes_text(a, &d->e->session->model->mesh, c->axes));
  if (row->nparts > 1) return arena_printf(a, "%s, %u packed", what, row->nparts); // the call's bytes are not this value's
  return arena_printf(a, "%s %lld B%s", what, (long long)c->wire_bytes, calls > 1 ? arena_printf(a, " x%lld", (long long)calls) : "");
}

// -- where they stand ------------------------------------------------------------------------------------------

static void measure(const Drawing *d, Item *i) {
  size_t longest = strlen(i->title) > strlen(i->state) ? strlen(i->title) : strlen(i->state);
  for (uint32_t b = 0; b < i->badge.n; b++) {
    size_t n = strlen(badge_text(d, &i->badge.at[b]));
    if (n > longest) longest = n;
  }
  i->width = (double)longest * letter + 14;
  i->height = LINE * (2 + i->badge.n) + 8;
}

// Edges against the order (loops that feed one another) are drawn, but push nothing down.
static bool downward(const Drawing *d, const Edge *e) { return d->item.at[e->from].order < d->item.at[e->to].order; }

static int by_target(const void *x, const void *y) {
  const Edge *a = x, *b = y;
  return a->to != b->to ? (a->to < b->to ? -1 : 1) : a->from < b->from ? -1 : a->from > b->from;
}

static void rank(Drawing *d) {
  bool *made = arena_array(d->a, bool, d->item.n + 1);
  uint32_t *least = arena_array(d->a, uint32_t, d->item.n + 1);
  for (uint32_t pass = 0; pass < d->item.n; pass++) {
    bool changed = false;
    for (uint32_t i = 0; i < d->edge.n; i++) {
      const Edge *e = &d->edge.at[i];
      if (!downward(d, e)) continue;
      made[e->to] = true;
      if (d->item.at[e->to].rank > d->item.at[e->from].rank) continue;
      d->item.at[e->to].rank = d->item.at[e->from].rank + 1;
      changed = true;
    }
    if (!changed) break;
  }
  for (uint32_t i = 0; i < d->edge.n; i++) {
    const Edge *e = &d->edge.at[i];
    if (downward(d, e) && (!least[e->from] || d->item.at[e->to].rank < least[e->from])) least[e->from] = d->item.at[e->to].rank;
  }
  for (uint32_t i = 0; i < d->item.n; i++) {
    Item *item = &d->item.at[i];
    if (!made[i] && least[i]) item->rank = least[i] - 1;
    if (item->rank + 1 > d->nranks) d->nranks = item->rank + 1;
  }
}

// One row, then one below it when it is too wide.
static void place_row(Drawing *d, Item **row, uint32_t n) {
  for (uint32_t from = 0; from < n;) {
    double width = 0, tallest = 0, x;
    uint32_t to = from;
    for (; to < n && (to == from || width + row[to]->width < WIDTH); to++) width += row[to]->width + GAP;
    x = (WIDTH - (width - GAP)) / 2;
    if (x < 0) x = 0;
    for (uint32_t i = from; i < to; i++) {
      row[i]->x = x;
      row[i]->y = d->height;
      x += row[i]->width + GAP;
      if (row[i]->height > tallest) tallest = row[i]->height;
    }
    d->height += tallest + ROW_GAP;
    from = to;
  }
}

static int by_place(const void *x, const void *y) {
  const Item *const *a = x, *const *b = y;
  if ((*a)->at < (*b)->at || (*a)->at > (*b)->at) return (*a)->at < (*b)->at ? -1 : 1;
  return *a < *b ? -1 : *a > *b;
}

static void place_rows(Drawing *d) {
  Item **row = arena_array(d->a, Item *, d->item.n + 1);
  d->height = 4;
  for (uint32_t r = 0; r < d->nranks; r++) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->item.n; i++)
      if (d->item.at[i].rank == r) row[n++] = &d->item.at[i];
    if (n) qsort(row, n, sizeof *row, by_place);
    place_row(d, row, n);
  }
}

static double middle(const Item *i) { return i->x + i->width / 2; }

// Each item moves to the middle of those above it and below it, in turn; fewer edges cross then.
static void untangle(Drawing *d) {
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    double *sum = arena_array(d->a, double, d->item.n + 1), *count = arena_array(d->a, double, d->item.n + 1);
    for (uint32_t i = 0; i < d->edge.n; i++) {
      uint32_t from = d->edge.at[i].from, to = d->edge.at[i].to;
      sum[to] += middle(&d->item.at[from]), count[to]++;
      sum[from] += middle(&d->item.at[to]), count[from]++;
    }
    for (uint32_t i = 0; i < d->item.n; i++) d->item.at[i].at = count[i] > 0 ? sum[i] / count[i] : middle(&d->item.at[i]);
    place_rows(d);
  }
}

// -- the drawing -----------------------------------------------------------------------------------------------

static void put_edge(FILE *f, const Drawing *d, const Edge *e) {
  const Item *x = &d->item.at[e->from], *y = &d->item.at[e->to];
  double y1 = x->y + x->height, y2 = y->y, bend = (y2 - y1) / 2;
  if (bend < 12) bend = 12;
  fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", e->moved ? "e move" : "e", middle(x), y1, middle(x), y1 + bend, middle(y),
          y2 - bend, middle(y), y2);
}

static void put_words(FILE *f, const Item *i, int line, const char *css, const char *text) {
  fprintf(f, "<text%s%s%s x=\"%.1f\" y=\"%.1f\">", css ? " class=\"" : "", css ? css : "", css ? "\"" : "", i->x + 7, i->y + LINE * line - 1);
  html_text(f, text);
  fprintf(f, "</text>");
}

static void put_item(FILE *f, const Drawing *d, const Item *i) {
  fprintf(f, "<g class=\"box\"");
  if (i->value >= 0) fprintf(f, " data-v=\"%d\"", i->value);
  fprintf(f, "><rect class=\"c%d%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\"/>", i->colour, i->ghost ? " ghost" : "", i->x, i->y,
          i->width, i->height);
  put_words(f, i, 1, NULL, i->title);
  put_words(f, i, 2, "s", i->state);
  for (uint32_t b = 0; b < i->badge.n; b++) {
    fprintf(f, "<a href=\"#line%u\">", i->badge.at[b].line);
    put_words(f, i, 3 + (int)b, d->e->ledger->row[i->badge.at[b].row].fact->backward ? "b" : "f", badge_text(d, &i->badge.at[b]));
    fprintf(f, "</a>");
  }
  fprintf(f, "</g>\n");
}

static void draw(FILE *f, Drawing *d) {
  connect(d);
  for (uint32_t i = 0; i < d->item.n; i++) measure(d, &d->item.at[i]);
  if (d->edge.n) qsort(d->edge.at, d->edge.n, sizeof *d->edge.at, by_target);
  rank(d);
  place_rows(d);
  untangle(d);
  double width = WIDTH;
  for (uint32_t i = 0; i < d->item.n; i++)
    if (d->item.at[i].x + d->item.at[i].width + 2 > width) width = d->item.at[i].x + d->item.at[i].width + 2;
  fprintf(f, "<svg viewBox=\"-2 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\">\n", width + 4, d->height, width + 4, d->height);
  for (uint32_t i = 0; i < d->edge.n; i++) put_edge(f, d, &d->edge.at[i]);
  for (uint32_t i = 0; i < d->item.n; i++) put_item(f, d, &d->item.at[i]);
  fprintf(f, "</svg>\n");
}

static Drawing drawing(const Explain *e, const ValueGraph *g, Arena *a) {
  Drawing d = {.a = a, .e = e, .g = g, .item_of = arena_array(a, int, g->nboxes + 1)};
  for (uint32_t b = 0; b < g->nboxes; b++) d.item_of[b] = -1;
  return d;
}

// -- rounds ------------------------------------------------------------------------------------------------------

// Rounds first..last of a loop, one after the other, that look alike.
typedef struct Run {
  uint32_t first, last;
} Run;

static Run run_at(const ValueGraph *g, uint32_t r) {
  Run run = {r, r};
  while (run.last + 1 < g->nrounds && g->round[run.last + 1].alike == g->round[r].alike && !strcmp(g->round[run.last + 1].loop, g->round[r].loop)) run.last++;
  return run;
}

static const char *run_title(Arena *a, const ValueGraph *g, Run run) {
  if (run.first == run.last) return g->round[run.first].name;
  return arena_printf(a, "%s ... %s", g->round[run.first].name, g->round[run.last].name);
}

static const char *run_state(Arena *a, Run run, uint32_t values) {
  uint32_t n = run.last - run.first + 1;
  return n == 1 ? arena_printf(a, "%u values, below", values) : arena_printf(a, "%u alike, %u values each, below", n, values);
}

static void add_run(Drawing *d, Run run) {
  uint32_t values = 0, item = d->item.n, order = 0; // values: of the first
  for (uint32_t b = 0; b < d->g->nboxes; b++) {
    if (d->g->box[b].round < (int)run.first || d->g->box[b].round > (int)run.last) continue;
    d->item_of[b] = (int)item;
    order = b;
    values += d->g->box[b].round == (int)run.first;
  }
  vec_push(d->a, d->item) = (Item){.title = run_title(d->a, d->g, run), .state = run_state(d->a, run, values), .value = -1, .order = order};
}

static void put_run(FILE *f, const Explain *e, const ValueGraph *g, Run run) {
  Arena *scratch = arena_new();
  Drawing d = drawing(e, g, scratch);
  for (uint32_t b = 0; b < g->nboxes; b++)
    if (g->box[b].round == (int)run.first) add_box(&d, b, g->box[b].rest, false);
  for (uint32_t i = 0; i < g->nedges; i++) {
    uint32_t from = g->edge[i].from, to = g->edge[i].to;
    if (g->box[to].round == (int)run.first && d.item_of[from] < 0) add_box(&d, from, g->box[from].name, true);
  }
  fprintf(f, "<details><summary>within ");
  html_text(f, run_title(scratch, g, run));
  if (run.last > run.first) fprintf(f, ": %u rounds alike, the first of them", run.last - run.first + 1);
  fprintf(f, "</summary>\n");
  draw(f, &d);
  fprintf(f, "</details>\n");
  arena_free(scratch);
}

static void put_key(FILE *f, const Explain *e) {
  const Mesh *m = &e->session->model->mesh;
  bool used[STATE_COLOURS] = {false};
  fprintf(f, "<p>A box is a value, below what it is made of. Colours tell the axes that cut it:");
  for (uint32_t i = 0; i < e->values->n; i++) {
    const ExplainedValue *v = &e->values->at[i];
    int colour = state_colour(e, v);
    const char *text = "";
    if (used[colour]) continue;
    used[colour] = true;
    for (int axis = 0; axis < m->naxes; axis++)
      for (int k = 0; k < v->ndims; k++)
        if (axes_has(v->dim[k].axes, axis)) text = arena_printf(e->session->arena, "%s%s%s", text, *text ? " and " : "", m->axis[axis].name);
    fprintf(f, " <span class=\"key\" style=\"background:var(--c%d)\"></span> ", colour);
    html_text(f, *text ? text : "none");
  }
  fprintf(f, ". Collectives stand in the box of the value that they move, those of its gradient too.</p>\n");
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
  draw(f, &d);
  for (uint32_t r = 0; r < g->nrounds; r = run_at(g, r).last + 1) put_run(f, e, g, run_at(g, r));
  arena_free(scratch);
}
