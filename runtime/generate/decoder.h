// Runs a language model position by position: the programs of its decoding form
// (frontend/step/decode.h), one for a single position and one for many, which share parameters and
// states. Input: both programs, bound to memory. Output: logits of the last position, for each row.
#ifndef RUNTIME_DECODER_H
#define RUNTIME_DECODER_H

#include "ir/program/decode_state.h"
#include "runtime/runtime.h"

// What the programs do not say themselves.
typedef struct DecoderFacts {
  const char *rows; // the dim of the ids that runs over texts; NULL: there is one text
  const char *time; // their other dim, for messages
  int64_t context;  // most positions of a text; INT64_MAX: no limit
  uint32_t nkept;
  const DecodeKept *kept; // the states with a row for each position
} DecoderFacts;

// The tensors of a state with a row for each position, in a program (Program.tensor).
typedef struct KeptRows {
  uint32_t state, rows;
  int axis;
} KeptRows;

typedef struct DecoderProgram {
  const Program *program; // NULL: there is none
  Exec *exec;
  int64_t positions; // that a run computes
  // positions for which the states have room, if a run may read only the first ones, those computed
  // so far (Program.over); else 0
  int64_t growing;
  KeptRows *kept; // DecoderFacts.nkept
} DecoderProgram;

typedef struct Decoder {
  DecoderFacts facts;
  Diag *diag;
  DecoderProgram step, chunk; // for one position, and for up to chunk.positions
  int64_t rows, vocab;
  bool time_first;  // the ids of a position follow one another, not those of a text
  int64_t position; // positions that have been run
  Dtype type;       // of the logits
  // rows x vocab: the memory of a program, which its next run overwrites, or `copy`
  const void *logits;
  void *copy;
  void *room;   // for the rows of one state
  int32_t *ids; // of a run
} Decoder;

enum { DECODER_WHY = 200 };
// Makes a decoder of two programs, of which chunk->program may be NULL; the caller sets `program`
// and `exec` of both, and keeps them and the facts. Lists are made in `a`. Returns false with a
// reason in `why` if the programs are not those of a decoding form. After success and after a
// failure the caller calls decoder_free.
MUST_USE bool decoder_open(Arena *a, const DecoderFacts *facts, const DecoderProgram *step,
                           const DecoderProgram *chunk, Diag *d, char why[DECODER_WHY],
                           Decoder *out);
void decoder_free(Decoder *d);
// Runs the next n positions of all rows. ids[r * stride + i]: id number i of row r. Sets d->logits
// to those that follow the last of them. All ranks call it together. Returns false after an error;
// the caller has checked the context.
MUST_USE bool decoder_run(Decoder *d, int64_t n, const int32_t *ids, int64_t stride);
// Begins new texts in all rows.
void decoder_restart(Decoder *d);
// Lets row r go on from what row source[r] has run. All ranks call it together. Returns false after
// an error.
MUST_USE bool decoder_reorder(Decoder *d, const int64_t *source);

#endif
