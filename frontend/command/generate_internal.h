// What the files of the command generate share: the options, and the texts that are generated.
#ifndef FRONTEND_GENERATE_H
#define FRONTEND_GENERATE_H

#include "frontend/driver/generation.h"
#include "runtime/generate/sampler.h"
#include "runtime/generate/token_codec.h"

// One text: the ids of a prompt, and those that follow.
typedef struct GeneratedText {
  int64_t prompt, n, room; // number of ids of the prompt, of all, and that fit `id`
  int32_t *id;
  int64_t shown;   // ids that have been printed
  const char *end; // why it ended: "stop", "end", "length" or "context"; NULL: it goes on
  size_t dropped;  // bytes at the end of the last id's text that belong to a stop
} GeneratedText;

// A text that ends a generated one.
typedef struct StopText {
  const char *text;
  size_t n;
} StopText;

typedef struct Generate {
  Session *s;
  LanguageModel lm;
  Vocabulary *vocabulary; // of the ids, or NULL
  TokenCodec codec;
  SamplerOptions sampling;
  int64_t most;  // most ids after a prompt
  int64_t beams; // 0: no beam search
  uint32_t nprompts, nstops;
  TokenList *prompt;
  StopText *stop;
  Generation g;
  Sampler *sampler;
  GeneratedText *text;  // one for each prompt
  uint32_t printed;     // texts that have been printed in full
  double seconds;       // of all runs after the first of each prompt
  int64_t timed;        // ids that were generated in these seconds
  double first_seconds; // of the first run: the prompts
} Generate;

// generate_options.c: reads the options and encodes the prompts. Returns false after an error.
MUST_USE bool generate_options(Generate *x);
// generate_text.c
// Appends an id to a text, and ends it if it has come to a stop or to its length.
void generate_append(const Generate *x, GeneratedText *t, int32_t id);
// Ends the texts that have not ended, because the context has.
void generate_context_ends(Generate *x);
// Prints what can be printed now: the first text that is not printed in full, as far as it cannot
// become a part of a stop, and later ones that have ended. Returns false after an error.
MUST_USE bool generate_show(Generate *x);
void generate_json(const Generate *x);
// cmd_generate.c: runs the first n ids of the prompts, or in all rows those of prompt number
// `first` for beam search. Returns false after an error.
MUST_USE bool generate_begin(Generate *x, uint32_t first, int64_t n);
// generate_beams.c: beam search for each prompt in turn. Returns false after an error.
MUST_USE bool generate_beams(Generate *x);

#endif
