// Writes the elements of drawings in a page: boxes, edges as curves between layers, text.
#include "frontend/report/svg_internal.h"

#include "frontend/report/explain.h"

void svg_begin(FILE *f, double width, double height, const char *label) {
  fprintf(f,
          "<div class=\"graph\"><svg viewBox=\"-4 -4 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
          "role=\"img\" aria-label=\"",
          width + 8, height + 8, width + 8, height + 8);
  html_text(f, label);
  fprintf(f, "\">\n");
}

void svg_end(FILE *f) { fprintf(f, "</svg></div>\n"); }

// Writes an edge as vertical lines within layers of boxes, and as curves between the layers. Both
// control points of a curve have the y coordinate of the middle of the curve, so that the curve
// stays between the layers.
void svg_edge(FILE *f, const DrawnEdge *e, bool whole, const char *css) {
  if (!e->npoints) return;
  const DrawnPoint *p = e->point, *end = e->against ? p : &p[e->npoints - 1];
  double back = e->against ? 5 : -5;
  uint32_t first = whole || !e->shared ? 0 : e->shared - 1; // index of the first point to draw
  fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1f", css, p[first].x, p[first].y);
  for (uint32_t i = first | 1; i < e->npoints; i += 2) {
    if (i > first && p[i].y > p[i - 1].y) fprintf(f, "V%.1f", p[i].y);
    if (i + 1 == e->npoints) break;
    double middle = (p[i].y + p[i + 1].y) / 2;
    if (p[i].x < p[i + 1].x || p[i].x > p[i + 1].x)
      fprintf(f, "C%.1f %.1f %.1f %.1f %.1f %.1f", p[i].x, middle, p[i + 1].x, middle, p[i + 1].x,
              p[i + 1].y);
    else
      fprintf(f, "V%.1f", p[i + 1].y);
  }
  fprintf(f, "M%.1f %.1fL%.1f %.1fL%.1f %.1f\"/>\n", end->x - 3, end->y + back, end->x, end->y,
          end->x + 3, end->y + back);
}

void svg_box(FILE *f, const DrawnBox *b, const char *css) {
  fprintf(f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\"/>",
          css, b->x, b->y, b->width, b->height);
}

void svg_text(FILE *f, const char *css, double x, double y, const char *text) {
  fprintf(f, "<text%s%s%s x=\"%.1f\" y=\"%.1f\">", css ? " class=\"" : "", css ? css : "",
          css ? "\"" : "", x, y);
  html_text(f, text);
  fprintf(f, "</text>");
}

void svg_too_large(FILE *f, uint32_t nboxes) {
  fprintf(f,
          "<p>The graph of %u boxes is too large to be drawn here: <code>--format dot</code> "
          "writes it for Graphviz.</p>\n",
          nboxes);
}
