// The states of a decoding program (frontend/step/decode.h) are values of a text that is being
// generated. Their names begin with DECODE_STATE. No file has them.
#ifndef IR_DECODE_STATE_H
#define IR_DECODE_STATE_H

#include <string.h>

#include "ir/program/program.h"

#define DECODE_STATE "decode.kept."
static inline bool tensor_is_of_text(const ProgTensor *t) {
  return t->kind == TENSOR_STATE && strncmp(t->name, DECODE_STATE, sizeof DECODE_STATE - 1) == 0;
}

#endif
