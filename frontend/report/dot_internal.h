// Private: helpers for DOT, the language of Graphviz: text in labels, clusters for scopes.
#ifndef FRONTEND_DOT_H
#define FRONTEND_DOT_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { DOT_PLAIN = 200 }; // graphs with more nodes are grouped by scope

// Writes text for a label: escapes quotes and backslashes, and writes control characters as blanks.
void dot_text(FILE *f, const char *text);

// Calls put(f, context, i, indent) once for each of n items, inside the clusters of its scopes.
// path[i] is the name of the item, or NULL. "h.0.attention.q" is inside the clusters "h", "h.0" and
// "h.0.attention".
typedef void DotItem(FILE *f, const void *context, uint32_t item, const char *indent);
void dot_scopes(FILE *f, uint32_t n, const char *const *path, DotItem *put, const void *context);
// Returns the path by which DOT groups a value. Values of the backward pass are in the scope
// "gradients".
const char *dot_path(Arena *a, const char *value, bool backward);

#endif
