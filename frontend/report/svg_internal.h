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

// Begins a drawing of the given size, in pixels. With the script of the page it can be zoomed and
// moved. Without the script it has that size and scrolls.
void svg_begin(FILE *f, double width, double height, const char *label);
void svg_end(FILE *f);
// Writes an edge with an arrow at its end, with the CSS classes `css`. Points that another edge
// from the same box has already drawn (DrawnEdge.shared) are left out unless `whole` is true.
void svg_edge(FILE *f, const DrawnEdge *e, bool whole, const char *css);
void svg_box(FILE *f, const DrawnBox *b, const char *css);
// Writes a text that begins at (x, y), in pixels, with the CSS classes `css` (NULL: none).
void svg_text(FILE *f, const char *css, double x, double y, const char *text);
extern const char svg_script[]; // svg_script.c: write it once in a page, after all drawings
// Writes a message instead of a drawing that is too large.
void svg_too_large(FILE *f, uint32_t nboxes);

#endif
