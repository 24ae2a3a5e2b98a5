// Lookups: rows of a table by ids that are checked at run time, and ids as rows of a unit matrix.
#include "frontend/build.h"

static bool ids_ok(Build *b, const Call *c, int i, NodeId *out) {
  const Value *v = &c->arg[i];
  Dtype type = v->kind == VALUE_TENSOR ? (Dtype)graph_node(b->g, v->node)->type
               : v->integer            ? TYPE_I32
                                       : TYPE_F32;
  if (dtype_class(type) != CLASS_INT) {
    diag_error(b->d, DIAG_BAD_TYPE, c->raw[i]->pos, "ids are i32, these are %s", dtype_text(type));
    diag_hint(b->d, "use cast(x, i32)");
    return false;
  }
  *out = build_node(b, *v, TYPE_I32);
  return true;
}

Value builtin_take(Build *b, const Call *c) {
  NodeId ids;
  const Dims *have = build_dims(b, &c->arg[0]);
  if (!dims_has(have, c->dim[0])) {
    diag_error(b->d, DIAG_MISSING_DIM, c->ast->dims[0].pos,
               "take of dim '%s', which the table %s lacks", c->ast->dims[0].name,
               dims_listed(b, have));
    return value_poison;
  }
  if (!ids_ok(b, c, 1, &ids)) return value_poison;
  Attr attr = {.ndims = 1, .dims = c->dim};
  ids = build_emit(b, c->pos, OP_BOUND, 1, &ids, &attr);
  return value_tensor(
      ids ? build_emit(b, c->pos, OP_TAKE, 2, (NodeId[]){c->arg[0].node, ids}, &attr) : 0);
}

Value builtin_one_hot(Build *b, const Call *c) {
  NodeId ids;
  if (!ids_ok(b, c, 0, &ids)) return value_poison;
  if (dims_has(&graph_node(b->g, ids)->dims, c->dim[0])) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[0].pos, "the ids have dim '%s' already",
               c->ast->dims[0].name);
    return value_poison;
  }
  NodeId hit = build_emit(b, c->pos, OP_EQ, 2, (NodeId[]){graph_index(b->g, c->dim[0]), ids}, NULL);
  return value_tensor(hit ? graph_cast(b->g, hit, TYPE_F32) : 0);
}
