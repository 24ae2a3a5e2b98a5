// Macros for tables of formals, such as (const Formal[]){V(x), D(slope, 0.01), END}.
#ifndef FRONTEND_FORMAL_H
#define FRONTEND_FORMAL_H

#include "frontend/model/build_internal.h"

// clang-format off
#define V(name)        {#name, false, true, 0}      // a value
#define D(name, value) {#name, false, false, value} // a value with a default
#define A(name)        {#name, true, true, 0}       // not evaluated: the rule reads the Ast
#define O(name)        {#name, true, false, 0}      // not evaluated, and optional
#define END            {NULL, false, false, 0}
// clang-format on

// One form that an entry may have, such as sgd(...) or adam(...) for `optimizer`: a row of a table.
typedef struct Form {
  const char *name;
  int kind;             // a value of the enum that the table is for, such as InitKind
  const Formal *formal; // NULL: the reader of the entry checks the arguments
} Form;

// Returns the row of the table `form` (n rows) with the name of e, a name or a call; NULL if there
// is none.
const Form *form_of(const Ast *e, size_t n, const Form *form);
// Reports the error that e is no row of the table, as "adm is not NOUN" ("an optimizer"). The hint
// has the nearest name and the list of all.
void form_unknown(Build *b, const Ast *e, size_t n, const Form *form, DiagId id, const char *noun);

#endif
