// The tables behind ops.def and stages.def.
#include <string.h>

#include "ir/graph/graph.h"

enum { ANY = -1 }; // number of arguments

const OpRow op_rows[OP_COUNT] = {
#define OP(id, text, args, cls, flags, linear, infer, eval, grad, emit)                            \
  {text, args, cls, flags, LINEAR_##linear},
#include "ir/graph/ops.def"
#undef OP
};

bool op_parse(const char *text, Op *out) {
  for (int op = 0; op < OP_COUNT; op++) {
    if (strcmp(op_rows[op].text, text) != 0) continue;
    *out = (Op)op;
    return true;
  }
  return false;
}

const char *stage_text(Stage s) {
  static const char *const text[STAGE_COUNT] = {
#define STAGE(id, text, legal, holds) text,
#include "ir/graph/stages.def"
#undef STAGE
  };
  return text[s];
}

const char *stage_holds(Stage s) {
  static const char *const text[STAGE_COUNT] = {
#define STAGE(id, text, legal, holds) holds,
#include "ir/graph/stages.def"
#undef STAGE
  };
  return text[s];
}

const char *monoid_text(Monoid m) {
  static const char *const text[] = {"none", "sum", "max", "min", "prod"};
  return text[m];
}

Op decl_op(DeclKind k) {
  static const Op op[] = {[DECL_INPUT] = OP_INPUT,
                          [DECL_PARAM] = OP_PARAM,
                          [DECL_STATE] = OP_STATE,
                          [DECL_SLOT] = OP_STATE};
  return op[k];
}
