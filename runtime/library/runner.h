// The program in the executables of `meshc compile --emit exe` (runner_main.c): its options, and
// what it does with a package of either kind.
#ifndef RUNTIME_RUNNER_H
#define RUNTIME_RUNNER_H

#include "ir/base/arena.h"
#include "runtime/package/package.h"

typedef VEC(const char *) Words;

typedef struct TextOptions {
  Words prompt, file, stop; // file: files with prompts
  int64_t most, top_k, seed, beams;
  double temperature, top_p; // temperature < 0: not given
  bool quiet;
} TextOptions;

typedef struct Runner {
  Arena *arena;
  Diag *diag;
  const char *name, *out, *params;
  const char *directory, *save; // of a training: where its data begins; a file for the parameters
  int64_t threads, steps;
  bool train;
  int code; // exit code of a run without errors
  Words feed, fetch;
  TextOptions text;
} Runner;

// runner_train.c: trains with the files of the data block, prints losses, and writes parameters.
void runner_train(Runner *r, const Package *p);
// runner_text.c: generates text with a package of --for generate, and prints it.
void runner_text(Runner *r, const Package *p);

#endif
