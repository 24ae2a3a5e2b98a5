// Builds lookups: `take` reads rows of a table by ids, `scatter_add` is its transpose, `one_hot`
// makes rows of a unit matrix. Ids of take and scatter_add are checked at run time.
#include <string.h>

#include "frontend/builtin/builtin_internal.h"

// Sets *out to an i32 node for argument i, which must have an integer type. Returns false after an
// error.
static bool ids_ok(Build *b, const Call *c, int i, NodeId *out) {
  const Value *v = &c->arg[i];
  Dtype type = v->kind == VALUE_TENSOR ? (Dtype)graph_node(b->g, v->node)->type
               : v->integer            ? TYPE_I32
                                       : TYPE_F32;
  if (dtype_class(type) != CLASS_INT) {
    diag_error(b->d, DIAG_BAD_TYPE, c->raw[i]->pos, "ids must be i32, not %s", dtype_text(type));
    return diag_hint(b->d, "use cast(x, i32)");
  }
  *out = build_node(b, *v, TYPE_I32);
  return true;
}

static bool is_constant(const Node *x) {
  return op_row((Op)x->op)->cls == SOURCE && !op_is_decl((Op)x->op);
}

// Returns the text of expression e in quotes, such as 'ids % 7 + 3'. Returns NULL if e is a name or
// NULL, or if its text is missing or incomplete.
static const char *written(const Build *b, const Ast *e) {
  const Ast *first = e;
  if (!e || e->kind == AST_NAME) return NULL;
  while (first->kind == AST_BINARY) first = first->kids[0];
  const char *text = diag_text_between(b->d, b->g->arena, first->pos, e->end);
  int open = 0;
  for (const char *c = text; c && *c && open >= 0; c++) open += (*c == '(') - (*c == ')');
  return text && open == 0 ? arena_printf(b->g->arena, "'%s'", text) : NULL;
}

// Returns what a message calls node n, the ids: its name, unless the current statement binds it;
// else the text of `as`; else the name of a value from which n is computed; else NULL.
static const char *ids_name(const Build *b, NodeId n, const Ast *as) {
  const char *text = written(b, as);
  const char *here = b->g->origin.value;
  for (bool computed = false;; computed = true) {
    const Node *x = graph_node(b->g, n);
    const char *name = x->origin.value;
    if (computed && text) return text;
    if (is_constant(x)) return text;
    if (name && !(here && !strcmp(name, here)))
      return computed ? arena_printf(b->g->arena, "a value computed from %s", name) : name;
    int i = 0;
    while (i < x->nargs && is_constant(graph_node(b->g, x->args[i]))) i++;
    if (i == x->nargs) return text;
    n = x->args[i];
  }
}

NodeId bound_emit(Build *b, Pos pos, NodeId ids, DimId d, NodeId named, const Ast *as) {
  Origin before = b->g->origin;
  const char *name = ids_name(b, named, as);
  const Round *round = b->frame->round;
  if (round && !round->scan && name)
    name = arena_printf(b->g->arena, "in round %u of the loop %s", round->number, name);
  Attr attr = {.ndims = 1, .dims = &d};
  if (name) b->g->origin.value = name;
  ids = build_emit(b, pos, OP_BOUND, 1, &ids, &attr);
  b->g->origin = before;
  return ids;
}

NodeId take_emit(Build *b, const Call *c, NodeId x, NodeId at) {
  return build_emit(b, c->pos, OP_TAKE, 2, (NodeId[]){x, at}, &(Attr){.ndims = 1, .dims = c->dim});
}

Value builtin_take(Build *b, const Call *c) {
  NodeId ids;
  const Dims *have = build_dims(b, &c->arg[0]);
  if (!dims_has(have, c->dim[0])) {
    diag_error(b->d, DIAG_MISSING_DIM, c->ast->dims[0].pos,
               "take over dim '%s', but the table is over %s", c->ast->dims[0].name,
               dims_listed(b, have));
    return value_poison;
  }
  if (!ids_ok(b, c, 1, &ids)) return value_poison;
  ids = bound_emit(b, c->pos, ids, c->dim[0], ids, c->raw[1]);
  return value_tensor(ids ? take_emit(b, c, c->arg[0].node, ids) : 0);
}

// Reads the brackets of scatter_add. Sets *over to the dims that are summed: those before the arrow
// or, if there are none, all dims of the ids. Returns false after an error.
static bool scattered(Build *b, const Call *c, const Value *ids, Dims *over) {
  uint32_t last = c->ndims ? c->ndims - 1 : 0;
  if (!call_map(b, c, last, 1, "scatter_add[-> v](x, ids) or scatter_add[t -> v](x, ids)"))
    return false;
  *over = last ? (Dims){0} : *build_dims(b, ids);
  for (uint32_t i = 0; i < last; i++) {
    if (!call_has(b, c, i, ids) || !call_add(b, c, i, over)) return false;
  }
  return true;
}

// Checks that the operands do not keep the dim that the call adds. Returns false after an error.
static bool rows_new(Build *b, const Call *c, const Dims *over) {
  DimId v = c->dim[c->ndims - 1];
  for (int i = 0; i < 2; i++) {
    const Dims *have = build_dims(b, &c->arg[i]);
    if (!dims_has(have, v) || dims_has(over, v)) continue;
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[c->ndims - 1].pos,
                      "the operand over %s already has the dim '%s'", dims_listed(b, have),
                      c->ast->dims[c->ndims - 1].name);
  }
  return true;
}

Value builtin_scatter_add(Build *b, const Call *c) {
  NodeId ids;
  Dims over;
  if (!ids_ok(b, c, 1, &ids)) return value_poison;
  Value places = value_tensor(ids);
  if (!scattered(b, c, &places, &over) || !rows_new(b, c, &over)) return value_poison;
  const DimId *to = &c->dim[c->ndims - 1];
  ids = bound_emit(b, c->pos, ids, *to, ids, c->raw[1]);
  if (!ids) return value_poison;
  NodeId x = build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg));
  Attr attr = {.ndims = over.n, .dims = over.at, .nto = 1, .to = to};
  return value_tensor(build_emit(b, c->pos, OP_SCATTER_ADD, 2, (NodeId[]){x, ids}, &attr));
}

Value builtin_one_hot(Build *b, const Call *c) {
  NodeId ids;
  if (!ids_ok(b, c, 0, &ids)) return value_poison;
  if (dims_has(&graph_node(b->g, ids)->dims, c->dim[0])) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[0].pos, "the ids already have dim '%s'",
               c->ast->dims[0].name);
    return value_poison;
  }
  NodeId hit = build_emit(b, c->pos, OP_EQ, 2, (NodeId[]){graph_index(b->g, c->dim[0]), ids}, NULL);
  return value_tensor(hit ? graph_cast(b->g, hit, b->real) : 0);
}
