// Private: helpers for the drawings in a page, shared by the graph of values and the graph of
// kernels.
#ifndef FRONTEND_SVG_H
#define FRONTEND_SVG_H

#include <stdio.h>

#include "frontend/report/layered.h"

enum {
  SVG_WIDTH = 1000,
  SVG_LINE = 14
}; // in pixels: the maximum width of a layer with several boxes; the height of a line of text
#define SVG_LETTER 7.0 // in pixels: the width of a letter of 11 px monospace

// Begins an SVG drawing of the given size, in pixels. With the script of the page, users can zoom
// and move the drawing. Without the script the drawing has the given size and scrolls.
void svg_begin(FILE *f, double width, double height, const char *label);
void svg_end(FILE *f);
// Writes an edge with an arrow at its end, with the CSS classes `css`. Points that another edge
// from the same box has already drawn (DrawnEdge.shared) are left out unless `whole` is true.
void svg_edge(FILE *f, const DrawnEdge *e, bool whole, const char *css);
void svg_box(FILE *f, const DrawnBox *b, const char *css);
// Writes a text that begins at (x, y), in pixels, with the CSS classes `css` (NULL: none).
void svg_text(FILE *f, const char *css, double x, double y, const char *text);
extern const char svg_script[]; // svg_script.c: write it once in a page, after all drawings
// Writes a message that a drawing of `nboxes` boxes is too large to be shown.
void svg_too_large(FILE *f, uint32_t nboxes);

#endif
