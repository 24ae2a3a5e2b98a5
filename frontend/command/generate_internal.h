// What the files of the command generate share: the options, and the texts that are generated.
#ifndef FRONTEND_GENERATE_H
#define FRONTEND_GENERATE_H

#include "frontend/driver/session.h"
#include "runtime/generate/texts.h"

enum { MOST_BEAMS = 64 };

typedef struct Generate {
  Session *s;
  Vocabulary *vocabulary; // of the ids, or NULL
  Texts texts;
  uint32_t begun; // texts of which a part has been printed
} Generate;

// generate_options.c
// Reads how ids are chosen and the prompts to x->texts, whose codec the caller has set. `seed`:
// that of the draws. Returns false after an error.
MUST_USE bool generate_options(Generate *x, uint64_t seed);
// Opens the vocabulary of --vocab, or that at `path`, which may be NULL, and sets the codec of ids
// that come from `source` (token_codec). Returns false after an error.
MUST_USE bool generate_codec(Generate *x, const DataSource *source, const char *path,
                             int64_t vocab);
// generate_output.c: makes the texts with a decoder, and prints them, or JSON. Returns false after
// an error.
MUST_USE bool generate_texts(Generate *x, Decoder *d);
void generate_free(Generate *x);
// generate_package.c: the command on a package.
int generate_package(Session *s);

#endif
