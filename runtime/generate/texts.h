// Generates texts with a causal language model: one for each prompt, greedily, by draws, or by beam
// search. Input: a decoder, prompts, how ids are chosen. Output: the texts, which may be shown
// while they are made.
//
// The rows of the decoder are texts at one position: the ids that the shortest prompt has are run
// at once. After that each run is one position: a text whose prompt goes on takes its next id, any
// other text the id that its logits give. If there are more texts than rows, groups of them follow
// one another.
#ifndef RUNTIME_TEXTS_H
#define RUNTIME_TEXTS_H

#include "runtime/generate/decoder.h"
#include "runtime/generate/sampler.h"
#include "runtime/generate/token_codec.h"

// One text: the ids of a prompt, and those that follow.
typedef struct GeneratedText {
  int64_t prompt, n, room; // number of ids of the prompt, of all, and that fit `id`
  int32_t *id;
  int64_t shown;   // ids that have been shown
  const char *end; // why it ended: "stop", "end", "length" or "context"; NULL: it goes on
  size_t dropped;  // bytes at the end of the last id's text that belong to a stop
} GeneratedText;

// A text that ends a generated one.
typedef struct StopText {
  const char *text;
  size_t n;
} StopText;

// Receives bytes[0..n), which follow what was shown of text number `text`; `last`: the text has
// ended. Texts are shown one after the other. If it returns false, the texts end here.
typedef bool ShowText(void *context, uint32_t text, const char *bytes, size_t n, bool last);

typedef struct Texts {
  Arena *arena; // for the texts
  Diag *diag;
  Decoder *decoder;
  TokenCodec codec;
  SamplerOptions sampling;
  int64_t most;  // most ids after a prompt
  int64_t beams; // 0: no beam search; else at most the number of rows of the decoder
  uint32_t n, nstops;
  const TokenList *prompt; // n; each has an id
  const StopText *stop;
  bool new_only;  // what is shown does not begin with the prompt
  ShowText *show; // NULL: nothing is shown
  void *context;  // of `show`
  // Results.
  GeneratedText *text;           // n
  bool interrupted;              // `show` has ended the texts
  double first_seconds, seconds; // of the first runs, with the prompts; of all others
  int64_t timed;                 // ids that were generated in `seconds`
  // While they are made.
  Sampler *sampler;
  uint32_t shown; // texts that have been shown in full
} Texts;

// Makes the texts. Returns false after an error: a prompt does not fit the context, logits are not
// finite. After success and after an error the caller calls texts_free.
MUST_USE bool texts_run(Texts *x);
void texts_free(Texts *x); // but not the arena
// Returns a stop as it is compared with generated text: ids that are written as numbers have one
// space before each. Returns false after an error in the diag at `at`.
MUST_USE bool texts_stop(const Texts *x, const char *text, Pos at, StopText *out);
// Returns the text of ids from..to-1 of a text, malloc'd, and its bytes.
char *texts_bytes(const Texts *x, const GeneratedText *t, int64_t from, int64_t to, size_t *bytes);

#endif
