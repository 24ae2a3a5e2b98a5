// DOT, the language of Graphviz: text in labels, clusters of scopes.
#ifndef FRONTEND_DOT_H
#define FRONTEND_DOT_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { DOT_PLAIN = 200 }; // graphs of more nodes are grouped by scope

// Quotes and backslashes escaped, line ends and other controls as blanks.
void dot_text(FILE *f, const char *text);

// Item i is written by put(f, context, i, indent), each once. path[i] is its name, or NULL:
// "h.0.attention.q" is within the clusters "h", "h.0" and "h.0.attention".
typedef void DotItem(FILE *f, const void *context, uint32_t item, const char *indent);
void dot_scopes(FILE *f, uint32_t n, const char *const *path, DotItem *put, const void *context);
// The path of a value (origin_subject) under which DOT groups it: what belongs to the backward pass
// is within "gradients".
const char *dot_path(Arena *a, const char *value, bool backward);

#endif
