// Private: helpers for DOT, the language of Graphviz: text in labels, clusters for scopes.
#ifndef FRONTEND_DOT_H
#define FRONTEND_DOT_H

#include <stdio.h>

#include "ir/base/arena.h"

// Number of nodes up to which a graph is drawn without clusters for scopes (values whose dotted
// names begin alike).
enum { DOT_PLAIN = 200 };

// Writes text inside the quotes of a label: escapes quotes and backslashes, and writes control
// characters as blanks.
void dot_text(FILE *f, const char *text);

// A function that writes one item of a DOT graph for dot_scopes. `indent` is the blanks with which
// the lines of the item begin.
typedef void DotItem(FILE *f, const void *context, uint32_t item, const char *indent);
// Writes n items inside nested clusters, one cluster for each scope. Calls put(f, context, i,
// indent) once for each item i. path[i] is the full name of item i: "h.0.attention.q" is in the
// cluster "h.0.attention", which is inside "h.0", which is inside "h". An item with path NULL is
// outside all clusters.
void dot_scopes(FILE *f, uint32_t n, const char *const *path, DotItem *put, const void *context);
// Returns the path that dot_scopes needs for a value: its full dotted name, with "gradients."
// before it for a value of the backward pass.
const char *dot_path(Arena *a, const char *value, bool backward);

#endif
