// What the files that make packages share: the programs and the builds of a package.
#ifndef FRONTEND_PACKAGE_INTERNAL_H
#define FRONTEND_PACKAGE_INTERNAL_H

#include "frontend/driver/generation.h"
#include "frontend/driver/package_make.h"
#include "runtime/generate/token_codec.h"

enum { PACKAGE_PARTS = 4, PACKAGE_BUILDS = 8, PACKAGE_ROWS = 64 };

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

// What a package says about its programs that generate text.
typedef struct PackageText {
  DecoderFacts facts, several; // of the programs of one text, and of several at a time
  int64_t texts;               // how many these are; 1: there are none
  TokenKind tokens;
  const VocabularyKind *kind; // of its vocabulary, with the files; NULL: it has none
  VocabularyFile file[VOCABULARY_FILES];
} PackageText;

typedef struct PackagePlan {
  bool trains, generates;
  PackageText text; // of a plan that generates
  uint32_t nlevels, nparts, nbuilds;
  uint32_t nvalues; // of the package that was written, and their bytes
  int64_t bytes;
  const char *level[PACKAGE_BUILDS]; // as --cpu names them
  PackagePart part[PACKAGE_PARTS];
  PackageBuild build[2 * PACKAGE_BUILDS];
} PackagePlan;

// The kinds of --emit.
typedef enum PackageEmit {
  EMIT_PACKAGE,
  EMIT_EXE,
  EMIT_OBJ,
  EMIT_SHARED,
  EMIT_LLVM,
  EMIT_ASM
} PackageEmit;

// -- package_programs.c
// Selects the graphs of the parts. Returns false after an error.
MUST_USE bool package_parts(Session *s, PackagePlan *plan);
// -- package_text.c: adds the programs that generate text. Returns false after an error.
MUST_USE bool package_text_parts(Session *s, PackagePlan *plan);
// Returns what package.json says about them.
json_t *package_text_json(const PackageText *x);
// -- package_builds.c
// Reads --cpu and --for. Returns false after an error.
MUST_USE bool package_options(Session *s, PackagePlan *plan);
// Compiles the parts up to their programs, for every build. Returns false after an error.
MUST_USE bool package_builds(Session *s, PackagePlan *plan);
// Returns the index of the part that objects and executables run, or -1.
int package_emitted(const PackagePlan *plan);
// -- package_make.c
// Writes the package to folder `path`. Returns false after an error.
MUST_USE bool package_write(Session *s, PackagePlan *plan, const char *path);
// -- package_emit.c
// Writes another kind of file than a package to `out`. Returns false after an error.
MUST_USE bool package_emit(Session *s, PackagePlan *plan, const char *out, PackageEmit kind);

#endif
