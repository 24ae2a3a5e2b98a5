// Macros for tables of formals, such as (const Formal[]){V(x), D(slope, 0.01), END}.
#ifndef FRONTEND_FORMAL_H
#define FRONTEND_FORMAL_H

#include "frontend/model/build_internal.h"

// clang-format off
#define V(name)        {#name, false, true, 0}      // a value
#define D(name, value) {#name, false, false, value} // a value with a default
#define A(name)        {#name, true, true, 0}       // not evaluated: the rule reads the tree
#define O(name)        {#name, true, false, 0}      // likewise, and optional
#define END            {NULL, false, false, 0}
// clang-format on

#endif
