// Drawings in a page: what the graph of values and the graph of kernels share.
#ifndef FRONTEND_SVG_H
#define FRONTEND_SVG_H

#include <stdio.h>

#include "frontend/report/layered.h"

enum {
  SVG_WIDTH = 1000,
  SVG_LINE = 14
};                     // pixels: of the widest layer of several boxes, of a line of text
#define SVG_LETTER 7.0 // width of a letter of 11 px monospace

// A drawing of that size. Without the script of the page it is as large as it says and scrolls;
// with the script it can be zoomed and moved.
void svg_begin(FILE *f, double width, double height, const char *label);
void svg_end(FILE *f);
// An edge with an arrow at its end. `css`: classes. `whole`: with what another edge draws, too.
void svg_edge(FILE *f, const DrawnEdge *e, bool whole, const char *css);
void svg_box(FILE *f, const DrawnBox *b, const char *css);
void svg_text(FILE *f, const char *css, double x, double y, const char *text); // css: NULL for none
extern const char svg_script[];               // svg_script.c: once in a page, behind all drawings
void svg_too_large(FILE *f, uint32_t nboxes); // in place of a drawing

#endif
