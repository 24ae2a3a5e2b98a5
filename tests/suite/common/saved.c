// A program that has tensors to save and computes nothing.
#include "tests/suite/common/saved.h"

const Program *saved_program(void) {
  static const Axes rows = {1, {0}};
  static Slot slot[1];
  static ProgTensor tensor[2];
  static Program p;
  slot[0] = (Slot){.kind = SLOT_EXTENT, .dim = "b", .whole = SAVED_ROWS, .axes = rows};
  tensor[0] = (ProgTensor){.kind = TENSOR_PARAM,
                           .name = "w",
                           .type = TYPE_F32,
                           .rank = 1,
                           .dim = {{"b", SAVED_ROWS, SAVED_ROWS / 2, rows, 0}},
                           .bytes = SAVED_ROWS / 2 * 4,
                           .at = {0, 0, NULL, 0}};
  tensor[1] = (ProgTensor){.kind = TENSOR_SLOT,
                           .name = "m",
                           .type = TYPE_F64,
                           .rank = 1,
                           .dim = {{"k", SAVED_STATES, SAVED_STATES, {0, {0}}, -1}},
                           .bytes = SAVED_STATES * 8,
                           .at = {1, 0, NULL, 0}};
  p = (Program){.model = "saved",
                .for_ = "train",
                .over = "b",
                .arena_bytes = 64,
                .nslots = 1,
                .ntensors = 2,
                .slot = slot,
                .tensor = tensor,
                .mesh = {.naxes = 1, .axis = {{.name = "rows", .size = 2}}}};
  return &p;
}
