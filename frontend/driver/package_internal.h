// What the files that make packages share: the programs and the builds of a package.
#ifndef FRONTEND_PACKAGE_INTERNAL_H
#define FRONTEND_PACKAGE_INTERNAL_H

#include "frontend/driver/package_make.h"

enum { PACKAGE_PARTS = 3, PACKAGE_BUILDS = 8 };

// A program of the package.
typedef struct PackagePart {
  const char *name; // "predict"
  Selected of;
  bool any_rows;
} PackagePart;

// A level of --cpu, for one way to compute products.
typedef struct PackageBuild {
  const char *cpu;   // the name in package.json
  const char *level; // CodeOptions.level; NULL: this CPU
  DtypeSet products; // types whose products are none of generated kernels
  Compilation made[PACKAGE_PARTS];
} PackageBuild;

typedef struct PackagePlan {
  bool trains;
  uint32_t nlevels, nparts, nbuilds;
  const char *level[PACKAGE_BUILDS]; // as --cpu names them
  PackagePart part[PACKAGE_PARTS];
  PackageBuild build[2 * PACKAGE_BUILDS];
} PackagePlan;

// -- package_programs.c
// Selects the graphs of the parts. Returns false after an error.
MUST_USE bool package_parts(Session *s, PackagePlan *plan);
// -- package_builds.c
// Reads --cpu and --for. Returns false after an error.
MUST_USE bool package_options(Session *s, PackagePlan *plan);
// Compiles the parts up to their programs, for every build. Returns false after an error.
MUST_USE bool package_builds(Session *s, PackagePlan *plan);

#endif
