// Names of the data blocks of a model.
#include "ir/program/spec.h"

const char *block_text(BlockKind k) {
  static const char *const text[DATA_BLOCKS] = {
      [DATA_TRAIN] = "train", [DATA_VALID] = "valid", [DATA_TEST] = "test"};
  return text[k];
}

const char *source_kind_text(SourceKind k) {
  static const char *const text[] = {
#define SOURCE(id, name, opener) #name,
#include "ir/program/source.def"
  };
  return text[k];
}
