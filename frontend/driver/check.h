// The facts of `meshc check`, for the program and the library.
#ifndef FRONTEND_CHECK_H
#define FRONTEND_CHECK_H

#include "frontend/driver/params_internal.h"

typedef struct CheckFacts {
  const char *purpose; // "train", "eval", "run"
  Compilation made;    // up to the program
  ParamTable params;   // of --params
} CheckFacts;

// Compiles what --for, --fetch and --training ask of the loaded model. False after an error.
MUST_USE bool check_compile(Session *s, CheckFacts *out);
// The object of `check --json`; the caller owns it.
json_t *check_json(const Session *s, const CheckFacts *c);

#endif
