// The commands run and predict on a package (docs/package.md) instead of a model.
#ifndef FRONTEND_PACKAGE_COMMAND_H
#define FRONTEND_PACKAGE_COMMAND_H

#include "frontend/driver/session.h"

// Returns whether the argument of the command is a package.
bool package_given(const Session *s);
// Runs the command of the session on the package. Returns its exit code, or 0 if the errors in
// s->diag give it.
int package_command(Session *s);

#endif
