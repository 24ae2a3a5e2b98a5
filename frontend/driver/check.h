// The facts that `meshc check` reports about a model: dims, memory, flops and every collective. The
// command and the library (frontend/library) share it. Input: a loaded session. Output: CheckFacts,
// and the JSON object made from them.
#ifndef FRONTEND_CHECK_H
#define FRONTEND_CHECK_H

#include "frontend/driver/bits.h"
#include "frontend/driver/params_internal.h"

typedef struct CheckFacts {
  const char *purpose; // purpose of the program: "train", "eval" or "run"
  Selected of;         // the graph that is compiled
  Compilation made;    // results of the passes up to the program; no machine code
  // The file of --params compared with the model; without --params, params.path is NULL.
  ParamTable params;
} CheckFacts;

// Selects the graph that --for, --fetch and --training ask for, compiles the graph and fills *out
// with what `check` prints. Returns false after an error in s->diag.
MUST_USE bool check_compile(Session *s, CheckFacts *out);
// Returns the object that `check --json` prints, which the caller owns, or NULL after an error.
// Compiles what --exact would cost.
json_t *check_json(Session *s, const CheckFacts *c);

#endif
