// report.html of a training: curves, and what `explain` tells of its step; one page that needs nothing else.
#include "frontend/explain.h"
#include "frontend/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 220, LEFT = 60, BOTTOM = 24, MOST_POINTS = 1000, MOST_CURVES = 64 };

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
  FILE *f = mem_fopen(path, "re");
  char *text = NULL;
  size_t room = 0;
  while (f && getline(&text, &room, f) > 0) {
    json_t *line = json_loads(text, 0, NULL);
    if (line) add_line(c, line);
    json_decref(line);
  }
  if (f && !feof(f)) mem_check_errno();
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
  html_text(f, c->name);
  fprintf(f, " <small>%.6g</small></h3>\n<svg width=\"%d\" height=\"%d\">", c->y.at[c->y.n - 1], WIDTH, HEIGHT);
  put_axes(f, x, y, "steps");
  fprintf(f, "<polyline points=\"");
  put_points(f, c->x.n, c->x.at, c->y.at, x, y);
  fprintf(f, "\"/></svg>\n");
}

bool report_write(Session *s, const char *folder, const Compilation *train) {
  const char *path = arena_printf(s->arena, "%s/report.html", folder);
  Curves *c = arena_new_of(s->arena, Curves);
  c->a = s->arena;
  read_curves(c, arena_printf(s->arena, "%s/metrics.jsonl", folder));
  char *text = NULL;
  size_t n = 0;
  FILE *f = mem_stream(&text, &n);
  html_head(f, s->opt->argument.at[0]);
  fprintf(f, "<h2>Curves</h2>\n");
  for (uint32_t i = 0; i < c->n; i++) put_curve(f, &c->curve[i]);
  html_explained(f, explain_new(s, train, "train"));
  html_end(f);
  mem_stream_close(f);
  bool good = session_write(s, path, text, n, false, (Pos){0});
  free(text);
  return good;
}
