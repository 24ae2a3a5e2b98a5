// Runs a step again with one kernel for each operation, to find the first value that is not finite.
#ifndef FRONTEND_UNFUSED_H
#define FRONTEND_UNFUSED_H

#include "frontend/driver/session.h"

typedef struct Unfused {
  Session session; // of this program: a copy that compiles without fusion
  Compilation made;
  Exec *exec; // the program, which has no inputs yet
} Unfused;

// Compiles g without fusion, and binds it to the parameters and states of `share`. `purpose` as for
// session_compile. All ranks call it together. Returns false after an error. The caller calls
// unfused_free in any case.
MUST_USE bool unfused_open(Session *s, const Graph *g, const char *purpose, const Exec *share,
                           Unfused *out);
void unfused_free(Unfused *u);
// Adds a note to the last message of d: the value that was found, its place, and what made it.
void unfused_note(const Session *s, const NotFinite *f, Diag *d);

#endif
