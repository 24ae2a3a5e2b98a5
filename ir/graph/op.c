// The tables made from ops.def and stages.def.
#include <string.h>

#include "ir/graph/graph.h"

enum { ANY = -1 }; // value in column `args` of ops.def: one or more arguments

// clang-format off
const OpRow op_rows[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval, grad, emit) \
  {text, args, cls, flags, ATTR_##attrs, LINEAR_##linear, MONOID_##monoid, ROWS_##rows, MEMORY_##memory, cost},
#include "ir/graph/ops.def"
};
// clang-format on

bool op_parse(const char *text, Op *out) {
  for (int op = 0; op < OP_COUNT; op++) {
    if (strcmp(op_rows[op].text, text) != 0) continue;
    *out = (Op)op;
    return true;
  }
  return false;
}

static const char *const stages[STAGE_COUNT][2] = {
#define STAGE(id, text, legal, holds) {text, holds},
#include "ir/graph/stages.def"
#undef STAGE
};

const char *stage_text(Stage s) { return stages[s][0]; }
const char *stage_holds(Stage s) { return stages[s][1]; }

bool op_matrix(Op op, MatrixKind *out) {
  static const MatrixKind kind[OP_COUNT] = {
#define MATRIX(id, ...) [OP_##id] = 1 + MATRIX_##id,
#include "ir/program/matrix.def"
#undef MATRIX
  };
  if (kind[op]) *out = kind[op] - 1;
  return kind[op];
}

Op monoid_op(Monoid m, Dtype t) {
  switch (m) {
  case MONOID_SUM: return OP_ADD;
  case MONOID_PROD: return OP_MUL;
  case MONOID_MAX: return t == TYPE_BOOL ? OP_OR : OP_MAXIMUM;
  case MONOID_MIN: return t == TYPE_BOOL ? OP_AND : OP_MINIMUM;
  case MONOID_NONE: break;
  }
  BUG("no monoid");
}

Op decl_op(DeclKind k) {
  static const Op op[] = {[DECL_INPUT] = OP_INPUT,
                          [DECL_PARAM] = OP_PARAM,
                          [DECL_STATE] = OP_STATE,
                          [DECL_SLOT] = OP_STATE};
  return op[k];
}
