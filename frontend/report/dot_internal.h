// Private: helpers for DOT, the language of Graphviz: text in labels, clusters for scopes.
#ifndef FRONTEND_DOT_H
#define FRONTEND_DOT_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { DOT_PLAIN = 200 }; // a graph with more nodes has a cluster for each scope

// Writes text for a label: escapes quotes and backslashes, and writes control characters as blanks.
void dot_text(FILE *f, const char *text);

// Writes clusters for the scopes of n items, and inside them the items: calls put(f, context, i,
// indent) once for each item i. `indent` has the blanks before its line. path[i] is the full name
// of item i, or NULL: "h.0.attention.q" is in the cluster "h.0.attention", inside "h.0", inside
// "h".
typedef void DotItem(FILE *f, const void *context, uint32_t item, const char *indent);
void dot_scopes(FILE *f, uint32_t n, const char *const *path, DotItem *put, const void *context);
// Returns the path by which DOT groups a value. Values of the backward pass are in the scope
// "gradients".
const char *dot_path(Arena *a, const char *value, bool backward);

#endif
