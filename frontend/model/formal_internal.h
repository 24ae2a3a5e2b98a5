// Macros for tables of formals, such as (const Formal[]){V(x), D(slope, 0.01), END}.
#ifndef FRONTEND_FORMAL_H
#define FRONTEND_FORMAL_H

#include "frontend/model/build_internal.h"

// clang-format off
#define V(name)        {#name, false, true, 0}      // a value
#define D(name, value) {#name, false, false, value} // a value with a default
#define A(name)        {#name, true, true, 0}       // not evaluated: the rule reads the tree
#define O(name)        {#name, true, false, 0}      // as A, but optional
#define END            {NULL, false, false, 0}
// clang-format on

// A row of a table of forms that an entry may have, such as sgd(...) and adam(...).
typedef struct Form {
  const char *name;
  int kind;             // the value of the table's enum
  const Formal *formal; // NULL: the reader of the entry checks the arguments
} Form;

// Returns the row that the name or call e names; NULL if there is none.
const Form *form_of(const Ast *e, size_t n, const Form *form);
// Reports that e names no row of the table, with the names of the rows and the nearest one.
void form_unknown(Build *b, const Ast *e, size_t n, const Form *form, DiagId id, const char *what);

#endif
