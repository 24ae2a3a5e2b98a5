// Makes packages (runtime/package): programs for the levels of CPUs that --cpu names, and values.
#ifndef FRONTEND_PACKAGE_MAKE_H
#define FRONTEND_PACKAGE_MAKE_H

#include "frontend/driver/session.h"

// What was written, for the report of the command.
typedef struct PackageFacts {
  const char *path, *programs, *builds; // lists: "train, predict"
  const char *text; // of --emit llvm and asm: what the file has of the program; else NULL
  uint32_t nvalues;
  int64_t bytes; // of the values
} PackageFacts;
// Writes the package of the loaded model to the folder of --out. Returns false after an error.
MUST_USE bool package_make(Session *s, PackageFacts *out);
// Checks the options of the command before the model is read. Returns false after an error.
MUST_USE bool package_check(Session *s);

#endif
