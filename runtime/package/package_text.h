// Generates text with a package: binds its programs and opens its vocabulary.
#ifndef RUNTIME_PACKAGE_TEXT_H
#define RUNTIME_PACKAGE_TEXT_H

#include "runtime/generate/texts.h"
#include "runtime/package/package.h"

typedef struct PackageGenerator {
  Exec *step, *chunk; // chunk: NULL if the package has no program for many positions
  bool own_step;      // package_generator_free frees `step`
  Decoder decoder;
  Vocabulary *vocabulary; // or NULL
  TokenCodec codec;
} PackageGenerator;
typedef struct PackageTextAsk {
  uint32_t prompts; // that will be run
  int64_t beams;    // Texts.beams
  // An Exec of the program PACKAGE_GENERATE with its values, which the generator uses, one prompt
  // at a time; NULL: it makes one, and loads the values of the package.
  Exec *step;
} PackageTextAsk;
// Binds the programs, those of several texts if there are several prompts or beams. Returns false
// after an error in d, such as a package that generates no text, or fewer than `beams` at a time.
// After success and after an error the caller calls package_generator_free.
MUST_USE bool package_generator_open(Arena *a, const Package *p, const ExecOptions *options,
                                     const PackageTextAsk *ask, Diag *d, PackageGenerator *out);
void package_generator_free(PackageGenerator *g);

#endif
