// The parts of --emit: the C interface of a package that is compiled into an object.
#ifndef FRONTEND_PACKAGE_EMIT_INTERNAL_H
#define FRONTEND_PACKAGE_EMIT_INTERNAL_H

#include "frontend/driver/package_internal.h"

typedef struct Interface {
  Arena *arena;
  const char *name, *model; // the prefix of the functions; the path of the model
  const Program *program;
  const char *const *names; // of its inputs and outputs in C, by their numbers
  bool text;                // it generates text
  const Result *result;     // what its outputs stand for, by their numbers
} Interface;
// package_names.c: returns the text with every character that no name in C has replaced by '_', and
// with '_' behind a word of C or C++.
const char *c_name(Arena *a, const char *text);
// Returns the names of the parameters of NAME_run, by the numbers of their tensors: no two are
// equal.
const char *const *c_names(Arena *a, const Program *p);
// package_header.c
void put_header(FILE *f, const Interface *i);
// `packed`: the path of the packed package, which the object contains.
void put_source(FILE *f, const Interface *i, const char *packed);

#endif
