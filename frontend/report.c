// report.html of a training: curves, mesh, layout, collectives, memory over the step; one page that needs
// nothing else.
#include "frontend/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 220, LEFT = 60, BOTTOM = 24, MOST_POINTS = 1000, MOST_CURVES = 64 };

static const char style[] =
    "body{font:14px sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse;font:13px monospace}"
    "td,th{padding:2px 10px;text-align:left;vertical-align:top}th{border-bottom:1px solid #888}"
    "svg{font:11px sans-serif;display:block}polyline{fill:none;stroke:#2060c0;stroke-width:1.5}"
    "polygon{fill:#b8d0f0}line{stroke:#888}td.why{color:#555;font-family:sans-serif}";

static void put(FILE *f, const char *text) {
  static const char *const entity[256] = {['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};
  for (; *text; text++)
    if (entity[(unsigned char)*text])
      fputs(entity[(unsigned char)*text], f);
    else
      fputc(*text, f);
}

// -- curves --------------------------------------------------------------------------------------

typedef struct Curve {
  const char *name;
  VEC(double) x;
  VEC(double) y;
} Curve;
typedef struct Curves {
  Arena *a;
  uint32_t n;
  Curve curve[MOST_CURVES];
} Curves;

static void add_point(Curves *c, const char *name, double step, double value) {
  uint32_t i = 0;
  while (i < c->n && strcmp(c->curve[i].name, name) != 0) i++;
  if (i == MOST_CURVES || !isfinite(value)) return;
  if (i == c->n) c->curve[c->n++] = (Curve){.name = arena_text(c->a, name, strlen(name))};
  vec_push(c->a, c->curve[i].x) = step;
  vec_push(c->a, c->curve[i].y) = value;
}

static void add_line(Curves *c, json_t *line) {
  double step = json_number_value(json_object_get(line, "step"));
  const char *key, *inner;
  json_t *value, *part;
  json_object_foreach(line, key, value) {
    if (strcmp(key, "step") == 0 || strcmp(key, "seconds") == 0) continue;
    if (json_is_number(value)) add_point(c, key, step, json_number_value(value));
    json_object_foreach(value, inner, part) if (json_is_number(part))
        add_point(c, arena_printf(c->a, "%s %s", key, inner), step, json_number_value(part));
  }
}

static void read_curves(Curves *c, const char *path) {
  FILE *f = fopen(path, "re");
  char *text = NULL;
  size_t room = 0;
  while (f && getline(&text, &room, f) > 0) {
    json_t *line = json_loads(text, 0, NULL);
    if (line) add_line(c, line);
    json_decref(line);
  }
  free(text);
  if (f) fclose(f);
}

typedef struct Scale {
  double low, high, from, to;
} Scale;
static double scaled(Scale s, double x) {
  return s.high > s.low ? s.from + (x - s.low) / (s.high - s.low) * (s.to - s.from) : (s.from + s.to) / 2;
}

static Scale scale_of(uint32_t n, const double *x, double from, double to) {
  Scale s = {.low = x[0], .high = x[0], .from = from, .to = to};
  for (uint32_t i = 1; i < n; i++) {
    s.low = fmin(s.low, x[i]);
    s.high = fmax(s.high, x[i]);
  }
  return s;
}

static void put_axes(FILE *f, Scale x, Scale y, const char *unit) {
  fprintf(f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>", LEFT, HEIGHT - BOTTOM, WIDTH, HEIGHT - BOTTOM);
  fprintf(f, "<line x1=\"%d\" y1=\"8\" x2=\"%d\" y2=\"%d\"/>", LEFT, LEFT, HEIGHT - BOTTOM);
  fprintf(f, "<text x=\"2\" y=\"14\">%.4g</text><text x=\"2\" y=\"%d\">%.4g</text>", y.high, HEIGHT - BOTTOM, y.low);
  fprintf(f, "<text x=\"%d\" y=\"%d\">%.6g</text>", LEFT, HEIGHT - 8, x.low);
  fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.6g %s</text>", WIDTH, HEIGHT - 8, x.high, unit);
}

static void put_points(FILE *f, uint32_t n, const double *x, const double *y, Scale sx, Scale sy) {
  uint32_t each = n / MOST_POINTS + 1;
  for (uint32_t i = 0; i < n; i += each) fprintf(f, "%.1f,%.1f ", scaled(sx, x[i]), scaled(sy, y[i]));
  if ((n - 1) % each) fprintf(f, "%.1f,%.1f ", scaled(sx, x[n - 1]), scaled(sy, y[n - 1]));
}

static void put_curve(FILE *f, const Curve *c) {
  Scale x = scale_of(c->x.n, c->x.at, LEFT, WIDTH - 8), y = scale_of(c->y.n, c->y.at, HEIGHT - BOTTOM, 8);
  fprintf(f, "<h3>");
  put(f, c->name);
  fprintf(f, " <small>%.6g</small></h3>\n<svg width=\"%d\" height=\"%d\">", c->y.at[c->y.n - 1], WIDTH, HEIGHT);
  put_axes(f, x, y, "steps");
  fprintf(f, "<polyline points=\"");
  put_points(f, c->x.n, c->x.at, c->y.at, x, y);
  fprintf(f, "\"/></svg>\n");
}

// -- the compile ---------------------------------------------------------------------------------

static void put_mesh(const Session *s, FILE *f) {
  const Mesh *m = &s->model->mesh;
  fprintf(f, "<h2>Mesh</h2>\n<p>%s</p>\n<table><tr><th>processor</th>", mesh_text(s->arena, m));
  for (int a = 0; a < m->naxes; a++) fprintf(f, "<th>%s</th>", m->axis[a].name);
  fprintf(f, "</tr>\n");
  for (int64_t r = 0; r < mesh_size(m) && r < 64; r++) {
    fprintf(f, "<tr><td>%lld</td>", (long long)r);
    for (int a = 0; a < m->naxes; a++) fprintf(f, "<td>%lld</td>", (long long)mesh_coord(m, r, a));
    fprintf(f, "</tr>\n");
  }
  fprintf(f, "</table>\n");
}

static void put_layout(const Session *s, FILE *f) {
  const char *key;
  json_t *layout = layout_json(s), *axes, *axis;
  size_t i;
  fprintf(f, "<h2>Layout</h2>\n<table><tr><th>of</th><th>over</th></tr>\n");
  json_object_foreach(layout, key, axes) {
    fprintf(f, "<tr><td>");
    put(f, key);
    fprintf(f, "</td><td>");
    json_array_foreach(axes, i, axis) fprintf(f, "%s%s", i ? "+" : "", json_string_value(axis));
    fprintf(f, "</td></tr>\n");
  }
  json_decref(layout);
  fprintf(f, "</table>\n");
}

static void put_collectives(const Session *s, FILE *f, const CollFacts *facts) {
  fprintf(f, "<h2>Collectives</h2>\n<p>%u a processor and step, %s on the wire</p>\n<table><tr><th>kind</th><th>group</th>"
             "<th>bytes</th><th>times</th><th>phase</th><th>value</th><th>line</th><th>why</th></tr>\n",
          facts->n, bytes_text(s->arena, facts->wire_bytes));
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *c = &facts->fact[i];
    fprintf(f, "<tr><td>%s</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%s</td><td>", coll_text(c->kind),
            (long long)c->group, (long long)c->bytes, (long long)c->times, c->backward ? "backward" : "forward");
    put(f, c->value ? c->value : "");
    fprintf(f, "</td><td>%u</td><td class=\"why\">", c->pos.line);
    put(f, c->why ? c->why : "");
    fprintf(f, "</td></tr>\n");
  }
  fprintf(f, "</table>\n");
}

// Bytes of the work arena that live at each instruction, from the lifetimes of buffers.
static double *live_bytes(const Session *s, const Compiled *c) {
  uint32_t n = c->program->ninstrs;
  double *live = arena_array(s->arena, double, n + 2);
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    uint32_t first = b->kept ? 0 : b->first, last = b->kept ? n : b->last;
    if (b->same) continue; // counted with the buffer that it took over
    for (uint32_t k = first; k <= last && k <= n; k++) live[k] += (double)b->bytes;
  }
  return live;
}

static void put_memory(const Session *s, FILE *f, const Compilation *c) {
  const Compiled *made = c->compiled;
  uint32_t n = made->program->ninstrs;
  double *live = live_bytes(s, made), *at = arena_array(s->arena, double, n + 1);
  for (uint32_t i = 0; i < n; i++) at[i] = i;
  fprintf(f, "<h2>Memory over the step</h2>\n<p>parameters %s, optimiser %s, activations %s a processor; below: bytes of "
             "the work arena that live at each instruction</p>\n",
          bytes_text(s->arena, c->partition.parameter_bytes), bytes_text(s->arena, c->partition.optimizer_bytes),
          bytes_text(s->arena, made->activation_bytes));
  if (n < 2) return;
  Scale x = scale_of(n, at, LEFT, WIDTH - 8), y = scale_of(n, live, HEIGHT - BOTTOM, 8);
  y.low = 0;
  fprintf(f, "<svg width=\"%d\" height=\"%d\"><polygon points=\"%d,%d ", WIDTH, HEIGHT, LEFT, HEIGHT - BOTTOM);
  put_points(f, n, at, live, x, y);
  fprintf(f, "%d,%d\"/>", WIDTH - 8, HEIGHT - BOTTOM);
  put_axes(f, x, y, "instructions");
  fprintf(f, "</svg>\n");
}

bool report_write(Session *s, const char *folder, const Compilation *train) {
  const char *path = arena_printf(s->arena, "%s/report.html", folder);
  Curves *c = arena_new_of(s->arena, Curves);
  c->a = s->arena;
  read_curves(c, arena_printf(s->arena, "%s/metrics.jsonl", folder));
  FILE *f = fopen(path, "we");
  if (f) {
    fprintf(f, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    put(f, s->opt->argument.at[0]);
    fprintf(f, "</title><style>%s</style></head><body>\n<h1>", style);
    put(f, s->opt->argument.at[0]);
    fprintf(f, "</h1>\n<h2>Curves</h2>\n");
    for (uint32_t i = 0; i < c->n; i++) put_curve(f, &c->curve[i]);
    put_mesh(s, f);
    put_layout(s, f);
    put_collectives(s, f, train->facts);
    put_memory(s, f, train);
    fprintf(f, "</body></html>\n");
  }
  bool good = f && !ferror(f);
  if (f && fclose(f) != 0) good = false;
  if (!good)
    diag_error(s->diag, errno == ENOSPC ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0}, "cannot write %s: %s", path, strerror(errno));
  return good;
}
