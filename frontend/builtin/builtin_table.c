// The table of built-in functions: the rows of builtin.def and the rules that they name.
#include <math.h>
#include <string.h>

#include "frontend/model/build_internal.h"
#include "frontend/model/formal_internal.h"

const Builtin builtins[] = {
#define BUILTIN(name, bracket, rule, op, typing, ...)                                              \
  {#name, BRACKET_##bracket, builtin_##rule, op, typing, (const Formal[]){__VA_ARGS__, END}},
#include "frontend/model/builtin.def"
#undef BUILTIN
    {0},
};

const Builtin *builtin_find(const char *name) {
  for (const Builtin *f = builtins; f->name; f++)
    if (!strcmp(f->name, name)) return f;
  return NULL;
}
