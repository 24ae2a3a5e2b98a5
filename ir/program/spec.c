// Names of the data blocks of a model.
#include "ir/program/spec.h"

const char *block_text(BlockKind k) {
  static const char *const text[DATA_BLOCKS] = {
      [DATA_TRAIN] = "train", [DATA_VALID] = "valid", [DATA_TEST] = "test"};
  return text[k];
}
