// Libraries whose functions are called through a struct of pointers, which is filled at run time.
// One binary of meshc then runs on machines with and without the library. What is missing is said
// in one sentence: which library, what brings it, and what works without it.
#ifndef IR_LIBRARY_TABLE_H
#define IR_LIBRARY_TABLE_H

#include "ir/base/guard.h"

// A function of a library, and the offset of its pointer in the struct.
typedef struct LibraryFunction {
  const char *name;
  size_t at;
} LibraryFunction;

typedef struct LibrarySpec {
  const char *what;        // the library in a sentence, such as "the CUDA driver"
  const char *const *file; // its file names, the one to be preferred first; NULL at the end
  const char *brings;      // what to install, such as "install NVIDIA's driver (Debian: libcuda1)"
  const char *without;     // what works without it, such as "--device cpu needs none"
  bool
      toolkit; // it is also looked for in the CUDA toolkit: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda
  size_t room; // bytes that loading needs (library_open)
  const LibraryFunction *function; // nfunctions functions, all of which are required
  size_t nfunctions;
} LibrarySpec;

typedef struct LibraryFound {
  void *library;  // of dlopen; NULL: the library cannot be used
  char path[512]; // the file that was opened
  char why[768];  // if `library` is NULL: the sentence that says what is missing
} LibraryFound;

// Opens the first file of the library that can be opened and has all functions. Writes their
// addresses to `table`, the struct to which the offsets refer, and what was found to *out. The
// library stays open. Thread rule: any thread, one for each `table`.
void library_fill(const LibrarySpec *spec, void *table, LibraryFound *out);

// A library that is opened when it is first asked for. A static one is zero.
typedef struct LibraryOnce {
  LibraryFound found;
  GuardOnce once;
} LibraryOnce;
// Calls library_fill once per process, with the same `table` each time. Returns what was found.
// Thread rule: any thread.
const LibraryFound *library_fill_once(const LibrarySpec *spec, void *table, LibraryOnce *l);

#endif
