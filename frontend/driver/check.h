// The facts that `meshc check` reports about a model: dims, memory, flops and every collective. The
// command and the library (frontend/library) share it. Input: a loaded session. Output: CheckFacts,
// and the JSON object made from them.
#ifndef FRONTEND_CHECK_H
#define FRONTEND_CHECK_H

#include "frontend/driver/bits.h"
#include "frontend/driver/params_internal.h"

// With the key `sync`, the program that joins the replicas: `made` has the results of the passes up
// to the program. It runs once in `every` steps. With asynchronous updates `ahead` is as in
// TrainSpec, and the program is that of the servers, which runs once for each step of a replica.
// Without the key `replicas` is 0.
typedef struct SyncFacts {
  Compilation made;
  int64_t every, ahead, replicas;
  int64_t pushed,
      pulled; // with `ahead`: the most bytes that a replica sends to and gets from servers
} SyncFacts;
// Compiles the program that joins the replicas of the step `of`, if it is a training step with
// replicas. Returns false after an error in s->diag.
MUST_USE bool sync_compile(Session *s, const Selected *of, SyncFacts *out);
// Returns a line that says how often the replicas meet and what they send, in the session's arena.
const char *sync_text(const Session *s, const SyncFacts *f);

typedef struct CheckFacts {
  const char *purpose; // purpose of the program: "train", "eval" or "run"
  Selected of;         // the graph that is compiled
  Compilation made;    // results of the passes up to the program; no machine code
  SyncFacts sync;
  // The file of --params compared with the model; without --params, params.path is NULL.
  ParamTable params;
} CheckFacts;

// Selects the graph that --for, --fetch and --training ask for, compiles the graph and fills *out
// with what `check` prints. Returns false after an error in s->diag.
MUST_USE bool check_compile(Session *s, CheckFacts *out);
// Returns the bytes that a processor allocates: with asynchronous updates those of its replica and
// of the server on it.
int64_t check_peak(const CheckFacts *c);
// Returns the object that `check --json` prints, which the caller owns, or NULL after an error.
// Compiles what --exact would cost.
json_t *check_json(Session *s, const CheckFacts *c);

#endif
