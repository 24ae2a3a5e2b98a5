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
// Binds the programs. `step` is an Exec of the program PACKAGE_GENERATE with its values, which the
// generator uses; NULL: it makes one with `options`, and loads the values of the package. Returns
// false after an error in d, such as a package that generates no text. After success and after an
// error the caller calls package_generator_free.
MUST_USE bool package_generator_open(Arena *a, const Package *p, const ExecOptions *options,
                                     Exec *step, Diag *d, PackageGenerator *out);
void package_generator_free(PackageGenerator *g);

#endif
