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

const char *builtin_form(const char *name) {
  static const struct {
    const char *name, *text;
  } forms[] = {
#define BUILTIN(...)
#define FORM(name, form) {#name, form},
#include "frontend/model/builtin.def"
#undef BUILTIN
  };
  for (size_t i = 0; i < countof(forms); i++)
    if (!strcmp(forms[i].name, name)) return forms[i].text;
  return NULL;
}

const Builtin *builtin_find(const char *name) {
  for (const Builtin *f = builtins; f->name; f++)
    if (!strcmp(f->name, name)) return f;
  return NULL;
}
