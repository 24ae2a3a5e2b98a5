// The files of a package, in a folder or in one block of bytes, and names that the writer and the
// reader of packages share.
#ifndef RUNTIME_PACKAGE_INTERNAL_H
#define RUNTIME_PACKAGE_INTERNAL_H

#include "runtime/package/package.h"
#include "runtime/runtime_internal.h"

#include <jansson.h>

typedef struct PackageEntry {
  const char *name;
  int64_t bytes, at; // at: its place in a packed package
  uint32_t sum;      // CRC-32C of its bytes
} PackageEntry;

struct PackageSource {
  const char *path;
  const char *memory; // a packed package; NULL: a folder
  int64_t bytes;      // of a packed package
  uint32_t n;
  PackageEntry *entry;
};

// The kinds of values, by name in package.json.
typedef struct ValueKind {
  const char *name;
  TensorKind kind;
} ValueKind;
extern const ValueKind package_kinds[];
enum { VALUE_KINDS = 3 };

// -- package_text.c -----------------------------------------------------------------------------
// Returns what a description says about generated text, or NULL if it is broken.
const PackageTextFacts *package_text_read(Arena *a, const json_t *x);

// -- package_train.c
// Returns what a description says about the training, or NULL if it is broken.
const PackageTrainFacts *package_train_read(Arena *a, const json_t *x);

// -- package_gpu.c: of packages for GPUs
// Opens the GPU of this process, as `root`, the description, says. Returns false after an error in
// d.
MUST_USE bool package_gpu_open(Arena *a, Package *p, const json_t *root, Ranks *ranks, Diag *d);
// Returns whether the GPU, with the libraries of this machine, runs a build.
bool package_gpu_fits(Arena *a, Gpu *gpu, const json_t *build);
// Loads the code of p->program, whose files the description lists. Returns false after an error in
// d.
MUST_USE bool package_gpu_load(Arena *a, Package *package, PackageProgram *p, const json_t *files,
                               Diag *d);

// -- package_source.c ---------------------------------------------------------------------------
// Reports that the package is damaged, and in which way. Returns false.
bool package_damaged(const PackageSource *s, const char *file, const char *why, Diag *d);
// Returns the description of the package, whose checksum is right, or NULL after an error. *text
// gets its text, *n the bytes of it. Fills the list of files.
json_t *source_describe(Arena *a, PackageSource *s, const char **text, size_t *n, Diag *d);
// Returns the bytes of a file, in the arena, with a NUL behind them, and their number. The checksum
// is right. Returns NULL after an error.
const char *source_file(Arena *a, const PackageSource *s, const char *name, size_t *n, Diag *d);
// A file that is read piece by piece, from its beginning.
typedef struct SourceStream {
  const PackageSource *source;
  const PackageEntry *entry;
  Datafile file; // of a folder
  int64_t at;
  uint32_t sum;
} SourceStream;
MUST_USE bool source_start(SourceStream *s, const PackageSource *from, const char *name, Diag *d);
// Reads the next n bytes to `to`, or passes over them. Return false after an error.
MUST_USE bool source_next(SourceStream *s, int64_t n, void *to, Diag *d);
MUST_USE bool source_skip(SourceStream *s, int64_t n, Diag *d);
// Reads the rest and checks the sum of all. Returns false after an error.
MUST_USE bool source_finish(SourceStream *s, Diag *d);
void source_stop(SourceStream *s);

#endif
