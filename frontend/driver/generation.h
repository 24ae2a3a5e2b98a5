// Makes the programs of a language model's decoding form (frontend/step/decode.h), one for a single
// position and one for many, and a decoder of them. Input: a loaded session. Output: a Decoder.
#ifndef FRONTEND_GENERATION_H
#define FRONTEND_GENERATION_H

#include "frontend/driver/training.h"
#include "frontend/step/decode.h"
#include "runtime/generate/decoder.h"

typedef struct GenerationAsk {
  const char *logits; // --logits, or NULL
  Pos at;
  int64_t rows;     // number of texts
  int64_t together; // positions that are run at once at the start: the shortest prompt; 0: many
  int64_t total;    // most positions of a text that will be run; 0: the whole time dim
  bool shares;      // parameters are those of another program
} GenerationAsk;

// The graphs of both programs.
typedef struct GenerationPlan {
  const Model *model; // the model with ask.rows rows
  LanguageModel lm;
  DecoderFacts facts;
  const Graph *step, *chunk; // chunk: NULL if no more than one position is run at once
  const char *over;          // the dim of which `step` runs as many positions as there are, or NULL
} GenerationPlan;

typedef struct Generation {
  Session *s;
  GenerationPlan plan;
  ProgramRun step, chunk; // chunk shares the tensors of step
  Decoder decoder;
} Generation;

// Selects the graphs, before either is compiled. Returns false after an error, such as a model that
// is not causal.
MUST_USE bool generation_plan(Session *s, const GenerationAsk *ask, GenerationPlan *out);
// Makes the programs. `share` is an Exec whose parameters they use, or NULL: they are loaded.
// Returns false after an error. After success and after an error the caller calls generation_free.
MUST_USE bool generation_open(Session *s, const GenerationAsk *ask, const Exec *share,
                              Generation *out);
void generation_free(Generation *g);
// Returns the source of the ids in the data blocks, or NULL. *vocabulary gets the path of its
// vocabulary, or NULL.
const DataSource *generation_source(const Session *s, const LanguageModel *lm,
                                    const char **vocabulary);

#endif
