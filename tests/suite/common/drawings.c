// Reads the boxes and edges of drawings from the text of a page and checks their positions.
#include "tests/suite/common/drawings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 8 };           // straight pieces that stand for each curve
static const double eps = 0.2; // coordinates have one digit after the point

typedef struct Box {
  double x0, y0, x1, y1;
} Box;
typedef struct Point {
  double x, y;
} Point;
typedef struct Way {
  VEC(Point) point;
} Way;

static double attribute(const char *tag, const char *name) {
  const char *end = strchr(tag, '>'), *at = strstr(tag, name);
  return at && end && at < end ? strtod(at + strlen(name), NULL) : (double)NAN;
}

static Box read_box(const char *tag) {
  double x = attribute(tag, " x=\""), y = attribute(tag, " y=\"");
  return (Box){x, y, x + attribute(tag, " width=\""), y + attribute(tag, " height=\"")};
}

// Reads the path of an edge: M x y, then V y and C x y x y x y up to the arrow, which begins with
// another M.
static void read_way(Arena *a, const char *d, Way *out) {
  char *at = (char *)(uintptr_t)(d + 1);
  Point p = {strtod(at, &at), 0};
  p.y = strtod(at, &at);
  vec_push(a, out->point) = p;
  while (*at == 'V' || *at == 'C') {
    double v[6] = {0};
    bool curve = *at++ == 'C';
    for (int i = 0; i < (curve ? 6 : 1); i++) v[i] = strtod(at, &at);
    for (int k = 1; k <= (curve ? PIECES : 1); k++) {
      double t = (double)k / PIECES, s = 1 - t;
      Point q = curve ? (Point){s * s * s * p.x + 3 * s * s * t * v[0] + 3 * s * t * t * v[2] +
                                    t * t * t * v[4],
                                s * s * s * p.y + 3 * s * s * t * v[1] + 3 * s * t * t * v[3] +
                                    t * t * t * v[5]}
                      : (Point){p.x, v[0]};
      vec_push(a, out->point) = q;
    }
    p = out->point.at[out->point.n - 1];
  }
}

static bool apart(const Box *a, const Box *b) {
  return a->x1 <= b->x0 + eps || b->x1 <= a->x0 + eps || a->y1 <= b->y0 + eps ||
         b->y1 <= a->y0 + eps;
}
static bool within(const Box *a, const Box *b) {
  return a->x0 >= b->x0 - eps && a->x1 <= b->x1 + eps && a->y0 >= b->y0 - eps &&
         a->y1 <= b->y1 + eps;
}
static bool holds_point(const Box *b, Point p) {
  return p.x > b->x0 + eps && p.x < b->x1 - eps && p.y > b->y0 + eps && p.y < b->y1 - eps;
}

static bool crosses(Point p, Point q, const Box *b) {
  double from = 0, to = 1, low[2] = {b->x0 + eps, b->y0 + eps},
         high[2] = {b->x1 - eps, b->y1 - eps};
  double start[2] = {p.x, p.y}, way[2] = {q.x - p.x, q.y - p.y};
  for (int i = 0; i < 2; i++) {
    if (fabs(way[i]) < 1e-9) {
      if (start[i] <= low[i] || start[i] >= high[i]) return false;
      continue;
    }
    double x = (low[i] - start[i]) / way[i], y = (high[i] - start[i]) / way[i];
    from = fmax(from, fmin(x, y));
    to = fmin(to, fmax(x, y));
  }
  return from < to;
}

// Returns true if an edge crosses the box. A box that contains both ends of the edge is drawn
// around it and does not count.
static bool way_crosses(const Way *w, const Box *b) {
  if (holds_point(b, w->point.at[0]) && holds_point(b, w->point.at[w->point.n - 1])) return false;
  for (uint32_t i = 0; i + 1 < w->point.n; i++)
    if (crosses(w->point.at[i], w->point.at[i + 1], b)) return true;
  return false;
}

static const char *drawing_fault(Arena *a, const char *text, const char *end, uint32_t *boxes,
                                 uint32_t *edges) {
  VEC(Box) box = {0};
  VEC(Way) way = {0};
  for (const char *at = text; (at = strstr(at, "<rect ")) && at < end; at++)
    vec_push(a, box) = read_box(at);
  for (const char *at = text; (at = strstr(at, "<path class=\"e")) && at < end; at++) {
    Way w = {0};
    read_way(a, strstr(at, " d=\"") + 4, &w);
    vec_push(a, way) = w;
  }
  for (uint32_t i = 0; i < box.n; i++) {
    if (!(box.at[i].x1 > box.at[i].x0 && box.at[i].y1 > box.at[i].y0))
      return "a box without a size";
    for (uint32_t k = 0; k < i; k++)
      if (!apart(&box.at[i], &box.at[k]) && !within(&box.at[i], &box.at[k]) &&
          !within(&box.at[k], &box.at[i]))
        return arena_printf(a, "the boxes at (%.0f, %.0f) and (%.0f, %.0f) overlap", box.at[i].x0,
                            box.at[i].y0, box.at[k].x0, box.at[k].y0);
  }
  for (uint32_t i = 0; i < way.n; i++)
    for (uint32_t k = 0; k < box.n; k++)
      if (way_crosses(&way.at[i], &box.at[k]))
        return arena_printf(a, "the edge from (%.0f, %.0f) crosses the box at (%.0f, %.0f)",
                            way.at[i].point.at[0].x, way.at[i].point.at[0].y, box.at[k].x0,
                            box.at[k].y0);
  *boxes += box.n;
  *edges += way.n;
  return NULL;
}

const char *drawings_fault(Arena *a, const char *page, uint32_t *boxes, uint32_t *edges) {
  for (const char *at = page; (at = strstr(at, "<div class=\"graph\">")); at++) {
    const char *end = strstr(at, "</svg>");
    const char *fault = end ? drawing_fault(a, at, end, boxes, edges) : "a drawing without end";
    if (fault) return fault;
  }
  return NULL;
}
