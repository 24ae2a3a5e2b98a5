// Runs a program of a package on any number of rows, and moves its values from and to files. The
// program meshc and executables that contain a package do so.
#ifndef RUNTIME_PACKAGE_BATCH_H
#define RUNTIME_PACKAGE_BATCH_H

#include "runtime/package/package.h"

// A result with all rows.
typedef struct PackageResult {
  const char *name;
  const char *const *dim; // name of the dim along each axis
  Array array;
  ClassNames element, *axis; // names of classes, as array_print_named takes them
} PackageResult;

// The rows, and what is computed from them.
typedef struct PackageBatches {
  Arena *arena;
  Diag *diag;
  const Package *package;
  const PackageProgram *program;
  Exec *exec;
  bool first; // this process gets the results: rank 0, or the only one
  uint32_t nfeeds;
  NamedArray *feed;
  int64_t rows;      // computed by package_predict
  uint32_t nresults; // set by package_predict, which allocates the arrays (array_free)
  PackageResult *result;
} PackageBatches;

// Reads an input from the text "NAME=FILE[:KEY]" or "NAME=NUMBER" to *out, and checks it against
// the program: its type, and its sizes but the number of rows. Returns false after an error.
MUST_USE bool package_feed(Arena *a, const Package *package, const PackageProgram *p,
                           const char *text, Pos at, NamedArray *out, Diag *d);
// Computes the outputs for all rows that are fed, batch after batch. `fetch` has the n names of
// outputs that are wanted; n = 0: all. Returns false after an error.
MUST_USE bool package_predict(PackageBatches *b, uint32_t n, const char *const *fetch);
// Returns false after an error: `out` has the name of a file that package_write_results does not
// write. It would become the name of a folder.
MUST_USE bool package_may_write(const char *out, Diag *d);
// Writes the results to DIR/NAME.npy, or to one file if `out` ends in .npz or .safetensors. Returns
// false after an error.
MUST_USE bool package_write_results(const PackageBatches *b, const char *out);
// Runs `steps` training steps on the batch that is fed, the first with number `before`, and reads
// the outputs of the last one. Returns false after an error.
MUST_USE bool package_train(PackageBatches *b, uint32_t n, const char *const *fetch, int64_t before,
                            int64_t steps);
// Reads parameters, states and optimizer tensors that program p has from a file .safetensors or
// .npz. Every parameter must be there. *steps gets the number of training steps, if the file has
// it. Returns false after an error.
MUST_USE bool package_read_values(const Program *p, Exec *e, const char *path, int64_t *steps,
                                  Diag *d);
// Returns false after an error: nothing can be saved as `path`, for its ending or its folder.
// Writes nothing.
MUST_USE bool package_may_save(const char *path, Diag *d);
// Writes them, as `meshc train --save-params` does. All ranks call it together, and the one that is
// `first` writes. Returns false after an error.
MUST_USE bool package_save_values(const Program *p, const Exec *e, const char *path, int64_t steps,
                                  bool first, Diag *d);

#endif
