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

// A level of GPUs: the compute capability (times 10) from which on its code runs.
typedef struct GpuLevel {
  const char *name; // "sm_80"
  GpuTarget target;
  int capability;
} GpuLevel;

// A level of --cpu or --gpu, for one way to compute products.
typedef struct PackageBuild {
  const char *name;    // the level's, in package.json
  const char *level;   // CodeOptions.level; NULL: this CPU
  const GpuLevel *gpu; // NULL: it is for CPUs
  DtypeSet products;   // types whose products are none of generated kernels
  uint32_t epilogues;  // of a GPU: those that the products have (gpu_epilogues)
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
  bool gpu;         // it is for GPUs
  int64_t gpus;     // how many share the mesh
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

// -- package_check.c
// Reads --emit, a PackageEmit. Returns false after an error.
MUST_USE bool package_emit_kind(const Session *s, int *kind);
// Returns the word for it: "shared".
const char *package_emit_word(PackageEmit kind);
// -- package_make.c
// Returns what an output of graph g stands for: its dims, and the names of classes; no values.
Result package_result(Session *s, const ProgTensor *t, const Graph *g);
// -- package_programs.c
// Selects the graphs of the parts. Returns false after an error.
MUST_USE bool package_parts(Session *s, PackagePlan *plan);
// -- package_text.c: adds the programs that generate text. Returns false after an error.
MUST_USE bool package_text_parts(Session *s, PackagePlan *plan);
// Returns what package.json says about them.
json_t *package_text_json(const PackageText *x);
// -- package_builds.c
// Reads --for, and --cpu or --gpu. Returns false after an error.
MUST_USE bool package_options(Session *s, PackagePlan *plan);
// Compiles the parts up to their programs, for every build. Returns false after an error.
MUST_USE bool package_builds(Session *s, PackagePlan *plan);
// -- package_data.c: adds the data block of a package that trains, if the model has one. *out gets
// what package.json says about it, or NULL. Returns false after an error.
struct PackageWriter;
MUST_USE bool package_data(Session *s, struct PackageWriter *w, const Graph *train, json_t **out);
// -- package_gpu.c: the builds for GPUs
// Returns the level of this name, or NULL; the names of all, with NULL behind the last one.
const GpuLevel *gpu_level(const char *name);
extern const char *const gpu_level_names[];
// Compiles the parts for a level, as often as libraries of products may differ. Returns false after
// an error.
MUST_USE bool package_gpu_builds(Session *s, PackagePlan *plan, const GpuLevel *level);
// Writes the launches and the code of part k. Returns the files, or NULL after an error.
json_t *package_gpu_code(Session *s, struct PackageWriter *w, const char *stem, const Program *p,
                         const PackageBuild *b, uint32_t k);
// Returns the code of the kernels of part k as text, or NULL after an error.
char *package_gpu_text(Session *s, const PackageBuild *b, uint32_t k);
// -- package_builds.c
// Returns the types of the products in all parts that are none of generated kernels.
DtypeSet package_products(const PackagePlan *plan, const PackageBuild *b);
// Compiles the parts for a build, with products of these types left to the machine. Returns false
// after an error.
MUST_USE bool package_compile(Session *s, PackagePlan *plan, PackageBuild *b, DtypeSet products);
// Returns the index of the part that objects and executables run, or -1.
int package_emitted(const PackagePlan *plan);
// -- package_make.c
// Writes the package to folder `path`. Returns false after an error.
MUST_USE bool package_write(Session *s, PackagePlan *plan, const char *path);
// -- package_emit.c
// Writes another kind of file than a package to `out`. Returns false after an error.
MUST_USE bool package_emit(Session *s, PackagePlan *plan, const char *out, PackageEmit kind);

#endif
