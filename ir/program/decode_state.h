// The programs that generate text position by position (frontend/step/decode.h): names of their
// tensors, and the states that they keep for a text that is being generated. The names of these
// states begin with DECODE_STATE. No file has them.
#ifndef IR_DECODE_STATE_H
#define IR_DECODE_STATE_H

#include <string.h>

#include "ir/program/program.h"

// Inputs: the ids of the new positions (i32, dims as the model's ids); the number of earlier
// positions (i32); the number of valid positions (i32), in programs for up to many positions.
#define DECODE_IDS "decode.ids"
#define DECODE_POSITION "decode.position"
#define DECODE_COUNT "decode.count"
// The output: logits of the last valid position, over rows, a dim of size 1, and the vocabulary.
#define DECODE_LOGITS "decode.logits"

// A state with a row for each position. A run reads the rows of earlier positions, and outputs its
// own: after it the caller writes them to the state, from the position of the run on.
typedef struct DecodeKept {
  const char *state, *rows; // names of the state and of the output
  int axis;                 // the axis of both, in declared order, that runs over positions
} DecodeKept;

#define DECODE_STATE "decode.kept."
static inline bool tensor_is_of_text(const ProgTensor *t) {
  return t->kind == TENSOR_STATE && strncmp(t->name, DECODE_STATE, sizeof DECODE_STATE - 1) == 0;
}

#endif
