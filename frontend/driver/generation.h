// Runs a language model position by position: the programs of its decoding form
// (frontend/step/decode.h), one for a single position and one for many, which share parameters and
// states. Input: a loaded session. Output: logits of the last position, for each row.
#ifndef FRONTEND_GENERATION_H
#define FRONTEND_GENERATION_H

#include "frontend/driver/training.h"
#include "frontend/step/decode.h"

typedef struct GenerationAsk {
  const char *logits; // --logits, or NULL
  Pos at;
  int64_t rows;     // number of texts
  int64_t together; // positions that are run at once at the start: the shortest prompt
  int64_t total;    // most positions of a text that will be run
} GenerationAsk;

// The tensors of a state with a row for each position, in a program (Program.tensor).
typedef struct KeptRows {
  uint32_t state, rows;
  int axis;
} KeptRows;

typedef struct Generation {
  Session *s;
  const Model *model; // the model with ask.rows rows
  LanguageModel lm;
  int64_t rows, vocab;
  int64_t context;  // most positions of a text; INT64_MAX: no limit
  int64_t position; // positions that have been run
  // The programs for one position and for up to `many`. `chunk` has no program if many is 1.
  ProgramRun step, chunk;
  int64_t many;
  uint32_t nkept;
  const DecodeKept *kept;
  KeptRows *of_step, *of_chunk; // nkept each
  void *room;                   // for the rows of one of them
  Dtype type;                   // of the logits
  void *logits;                 // rows x vocab
  int32_t *ids;                 // rows x many
} Generation;

// Makes the programs. Returns false after an error, such as a model that is not causal. After
// success and after an error the caller calls generation_free.
MUST_USE bool generation_open(Session *s, const GenerationAsk *ask, Generation *out);
void generation_free(Generation *g);
// Runs the next n positions of all rows. ids[r * stride + i]: id number i of row r. Sets g->logits
// to those that follow the last of them. All ranks call it together. Returns false after an error;
// the caller has checked the context.
MUST_USE bool generation_run(Generation *g, int64_t n, const int32_t *ids, int64_t stride);
// Begins new texts in all rows.
void generation_restart(Generation *g);
// Lets row r go on from what row source[r] has run. All ranks call it together. Returns false after
// an error.
MUST_USE bool generation_reorder(Generation *g, const int64_t *source);

#endif
