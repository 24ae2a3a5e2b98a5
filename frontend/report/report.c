// Writes report.html of a training: curves of the metrics, and the parts of `explain` for its step.
// The page needs no external files.
#include "frontend/report/explain.h"
#include "frontend/report/log_directory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  WIDTH = 720,
  HEIGHT = 220,
  TOP = 8,
  LEFT = 60,
  BOTTOM = 24,
  MOST_POINTS = 1000,
  MOST_CURVES = 64,
  MOST_DOTS = 40
};

// -- curves -------------------------------------------------------------------------------------

// The values y of one metric at the steps x. y is NaN where a value was not finite.
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
  if (i == MOST_CURVES) return;
  if (i == c->n) c->curve[c->n++] = (Curve){.name = arena_text(c->a, name, strlen(name))};
  vec_push(c->a, c->curve[i].x) = step;
  vec_push(c->a, c->curve[i].y) = isfinite(value) ? value : (double)NAN;
}

// Adds one value of a metric to its curve. A JSON null in the log stands for a value that was not
// finite.
static void add_value(Curves *c, const char *name, double step, const json_t *value) {
  if (json_is_number(value) || json_is_null(value))
    add_point(c, name, step, json_is_null(value) ? (double)NAN : json_number_value(value));
}

static void add_line(Curves *c, json_t *line) {
  double step = json_number_value(json_object_get(line, "step"));
  const char *key, *inner;
  json_t *value, *part;
  json_object_foreach(line, key, value) {
    if (strcmp(key, "step") == 0 || strcmp(key, "seconds") == 0) continue;
    add_value(c, key, step, value);
    json_object_foreach(value, inner, part)
        add_value(c, arena_printf(c->a, "%s %s", key, inner), step, part);
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
  return s.high > s.low ? s.from + (x - s.low) / (s.high - s.low) * (s.to - s.from)
                        : (s.from + s.to) / 2;
}

// Returns the linear scale that maps the range of the n values x to the pixels `from` ... `to`; NaN
// values are left out. If all values are NaN, `low` of the result is greater than `high`.
static Scale scale_of(uint32_t n, const double *x, double from, double to) {
  Scale s = {.low = HUGE_VAL, .high = -HUGE_VAL, .from = from, .to = to};
  for (uint32_t i = 0; i < n; i++) {
    s.low = fmin(s.low, x[i]);
    s.high = fmax(s.high, x[i]);
  }
  return s;
}

static void put_label(FILE *f, double x, double y, const char *anchor, const char *what,
                      double value) {
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s%.6g</text>", x, y, anchor, what,
          value);
}

// Writes the two axes of a plot. A scale whose low equals its high gets one label, at the middle of
// its axis.
static void put_axes(FILE *f, Scale x, Scale y) {
  double bottom = HEIGHT - BOTTOM, under = HEIGHT - 8;
  fprintf(f, "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\"/>", LEFT, bottom, WIDTH, bottom);
  fprintf(f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%.0f\"/>", LEFT, TOP, LEFT, bottom);
  if (y.low < y.high) put_label(f, LEFT - 4, TOP + 6, "end", "", y.high);
  put_label(f, LEFT - 4, y.low < y.high ? bottom : scaled(y, y.low) + 4, "end", "", y.low);
  bool wide = x.low < x.high;
  if (wide) put_label(f, LEFT, under, "start", "step ", x.low);
  put_label(f, wide ? WIDTH : scaled(x, x.low), under, wide ? "end" : "middle", "step ", x.high);
}

static void put_line(FILE *f, const Curve *c, uint32_t first, uint32_t end, Scale x, Scale y) {
  uint32_t each = c->x.n / MOST_POINTS + 1;
  fprintf(f, "<polyline points=\"");
  for (uint32_t i = first; i < end; i += each)
    fprintf(f, "%.1f,%.1f ", scaled(x, c->x.at[i]), scaled(y, c->y.at[i]));
  if ((end - 1 - first) % each)
    fprintf(f, "%.1f,%.1f ", scaled(x, c->x.at[end - 1]), scaled(y, c->y.at[end - 1]));
  fprintf(f, "\"/>");
}

// Writes the curve of a metric. The curve has gaps at values that are not finite, and these are
// marked at the axis. A single value between gaps, and every value of a short curve, is drawn as a
// dot.
static void put_points(FILE *f, const Curve *c, Scale x, Scale y) {
  for (uint32_t i = 0, end; i < c->y.n; i = end) {
    end = i + 1;
    if (isnan(c->y.at[i])) {
      fprintf(f, "<path class=\"nan\" d=\"M%.1f %dv-8\"/>", scaled(x, c->x.at[i]), HEIGHT - BOTTOM);
      continue;
    }
    while (end < c->y.n && !isnan(c->y.at[end])) end++;
    if (end > i + 1) put_line(f, c, i, end, x, y);
    for (uint32_t k = i; k < end && (c->y.n <= MOST_DOTS || end == i + 1); k++)
      fprintf(f,
              "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>step %.6g: %.6g</title></circle>",
              scaled(x, c->x.at[k]), scaled(y, c->y.at[k]), c->x.at[k], c->y.at[k]);
  }
}

static void put_curve(FILE *f, const Curve *c) {
  Scale x = scale_of(c->x.n, c->x.at, LEFT, WIDTH - 8),
        y = scale_of(c->y.n, c->y.at, HEIGHT - BOTTOM, TOP);
  uint32_t bad = 0;
  for (uint32_t i = 0; i < c->y.n; i++) bad += isnan(c->y.at[i]) != 0;
  fprintf(f, "<h3>");
  html_text(f, c->name);
  fprintf(f, " <small>");
  if (!isnan(c->y.at[c->y.n - 1])) fprintf(f, "%.6g", c->y.at[c->y.n - 1]);
  if (bad == c->y.n)
    fprintf(f, "no finite value in %u", bad);
  else if (bad)
    fprintf(f, " %u of %u value%s not finite, marked red", bad, c->y.n, plural(c->y.n));
  fprintf(f, "</small></h3>\n");
  if (bad == c->y.n) return;
  fprintf(f, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">", WIDTH, HEIGHT,
          WIDTH, HEIGHT);
  put_axes(f, x, y);
  put_points(f, c, x, y);
  fprintf(f, "</svg>\n");
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
  Selected of = {.graph = train->selected, .purpose = "train"};
  Explain *e = explain_new(s, train, &of, (WhatIfAsk){.depth = WHAT_IF_RULES});
  if (e) html_explained(f, e);
  html_end(f);
  mem_stream_close(f);
  bool good = session_write(s, path, text, n, false, (Pos){0});
  free(text);
  return good;
}
