// The commands run and predict on a package (docs/package.md) instead of a model.
#ifndef FRONTEND_PACKAGE_COMMAND_H
#define FRONTEND_PACKAGE_COMMAND_H

#include "frontend/driver/session.h"
#include "runtime/package/package_batch.h"

// Returns whether the argument of the command is a package.
bool package_given(const Session *s);
// Checks that all options of the command are those of a run. Returns false after an error.
MUST_USE bool package_options_fit(const Session *s);
// Sets how a program of the package runs: threads, seed, ranks, which must be able to share its
// mesh. Returns false after an error.
MUST_USE bool package_exec_options(const Session *s, const Package *p, const Program *program,
                                   ExecOptions *out);
// Runs the command of the session on the package. Returns its exit code, or 0 if the errors in
// s->diag give it.
int package_command(Session *s);

// package_train.c: the command train.
int package_train_command(Session *s, const Package *p);

#endif
