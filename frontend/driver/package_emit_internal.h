// The parts of --emit: the C interface of a package that is compiled into an object.
#ifndef FRONTEND_PACKAGE_EMIT_INTERNAL_H
#define FRONTEND_PACKAGE_EMIT_INTERNAL_H

#include "frontend/driver/package_internal.h"

typedef struct Interface {
  Arena *arena;
  const char *name, *model; // the prefix of the functions; the path of the model
  const Program *program;
  bool text; // it generates text
} Interface;
// Returns the text with every character that no name in C has replaced by '_'.
const char *c_name(Arena *a, const char *text);
void put_header(FILE *f, const Interface *i);
// `packed`: the path of the packed package, which the object contains.
void put_source(FILE *f, const Interface *i, const char *packed);

#endif
