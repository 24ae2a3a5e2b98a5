// Builds lookups: `take` reads rows of a table by ids, `scatter_add` is its transpose,
// `scatter_max`, `scatter_min` and `scatter_set` choose one of the elements with an id, `one_hot`
// makes rows of a unit matrix. Ids are checked at run time.
//
//   scatter_set[t -> v](x, ids)   last = the largest 1 + index[t] of each id, 0 without one
//                                 where(last > 0, take[t](x, last - 1), 0)
//   scatter_max[t -> v](x, ids)   the same, with the keys of argmax in place of positions
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
    const char *name = x->origin->value;
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

// Reads the brackets of a scatter. Sets *over to the dims that are summed: those before the arrow
// or, if there are none, all dims of the ids. Returns false after an error.
static bool scattered(Build *b, const Call *c, const Value *ids, Dims *over) {
  uint32_t last = c->ndims ? c->ndims - 1 : 0;
  if (!call_map(b, c, last, 1)) return false;
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

// Reads brackets and ids of a scatter. Sets *ids to the ids, which are checked at run time. Returns
// false after an error.
static bool scatter_read(Build *b, const Call *c, NodeId *ids, Dims *over) {
  if (!ids_ok(b, c, 1, ids)) return false;
  Value places = value_tensor(*ids);
  if (!scattered(b, c, &places, over) || !rows_new(b, c, over)) return false;
  *ids = bound_emit(b, c->pos, *ids, c->dim[c->ndims - 1], *ids, c->raw[1]);
  return *ids;
}

static NodeId scatter_emit(Build *b, const Call *c, NodeId x, NodeId ids, const Dims *over,
                           Monoid monoid) {
  Attr attr = {
      .ndims = over->n, .dims = over->at, .nto = 1, .to = &c->dim[c->ndims - 1], .monoid = monoid};
  return build_emit(b, c->pos, OP_SCATTER_ADD, 2, (NodeId[]){x, ids}, &attr);
}

Value builtin_scatter_add(Build *b, const Call *c) {
  NodeId ids;
  Dims over;
  if (!scatter_read(b, c, &ids, &over)) return value_poison;
  NodeId x = build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg));
  return value_tensor(scatter_emit(b, c, x, ids, &over, MONOID_NONE));
}

// -- scatters that choose an element ------------------------------------------------------------

static NodeId number(Build *b, Dtype type, double x) { return graph_const(b->g, type, x); }

// Returns keys that are largest where x is largest or, for scatter_min, smallest: those of argmax.
static NodeId keys(Build *b, const Call *c, NodeId x, DimId t) {
  if (c->row->op == OP_ARGMIN)
    x = dtype_is_float((Dtype)graph_node(b->g, x)->type)
            ? graph_unary(b->g, OP_NEG, x)
            : graph_binary(b->g, OP_SUB, number(b, TYPE_I32, -1), x);
  return graph_binary(b->g, OP_ARG_KEY, x, graph_index(b->g, t));
}

// Returns the positions along `over`, one dim, of the elements that the rows of the result get: of
// the last element with this id, or of the first that is largest or smallest. -1: no element.
static NodeId chosen(Build *b, const Call *c, NodeId x, NodeId ids, const Dims *over) {
  DimId t = over->at[0];
  if (c->row->op == OP_INDEX) {
    NodeId at = graph_binary(b->g, OP_ADD, graph_index(b->g, t), number(b, TYPE_I32, 1));
    NodeId last = scatter_emit(b, c, at, ids, over, MONOID_MAX);
    return last ? graph_binary(b->g, OP_SUB, last, number(b, TYPE_I32, 1)) : 0;
  }
  NodeId best = scatter_emit(b, c, keys(b, c, x, t), ids, over, MONOID_MAX);
  return best ? graph_unary(b->g, OP_KEY_INDEX, best) : 0;
}

// Sets *x to the elements, with the dim t. Returns false after an error: keys hold no f64.
static bool elements(Build *b, const Call *c, DimId t, NodeId *x) {
  *x = c->row->op == OP_INDEX ? build_natural(b, c->arg[0])
                              : build_node(b, c->arg[0], build_join(b, ARITHMETIC, 1, c->arg));
  if (c->row->op != OP_INDEX && graph_node(b->g, *x)->type == TYPE_F64) {
    diag_error(b->d, DIAG_UNSUPPORTED, call_pos(c, 0), "%s of f64 is not supported", c->row->name);
    return diag_hint(b->d, "use cast(x, f32)");
  }
  Dims all = *graph_node(b->g, *x)->dims;
  if (!dims_has(&all, t) && !dims_add(b->g->dims, &all, t))
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "the operands have more than %d dims",
                      MAX_RANK);
  *x = graph_broadcast(b->g, *x, &all);
  return true;
}

// Sets *into to the argument `into`: what rows have that no id names. The default is 0. Returns
// false after an error.
static bool base(Build *b, const Call *c, Value *into) {
  *into = c->raw[2] ? build_expr(b, c->raw[2]) : value_number(0, true);
  return !c->raw[2] || value_is_tensor(b, into, c->raw[2]->pos);
}

// Builds scatter_max, scatter_min and scatter_set. `into` takes part in the maximum and minimum.
Value builtin_scatter_choose(Build *b, const Call *c) {
  NodeId ids, x;
  Dims over;
  Value into;
  if (!scatter_read(b, c, &ids, &over)) return value_poison;
  if (over.n != 1) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "%s takes one dim before the arrow, not %s",
               c->row->name, dims_listed(b, &over));
    diag_hint(b->d, "merge the dims of x and of the ids first: merge[a, b -> t](ids)");
    return value_poison;
  }
  if (!elements(b, c, over.at[0], &x) || !base(b, c, &into)) return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId zero = number(b, TYPE_I32, 0), at = chosen(b, c, x, ids, &over);
  Attr along = {.ndims = 1, .dims = over.at};
  NodeId place = at ? graph_binary(b->g, OP_MAXIMUM, at, zero) : 0;
  NodeId found = place ? build_emit(b, c->pos, OP_TAKE, 2, (NodeId[]){x, place}, &along) : 0;
  Value y[3] = {value_tensor(at ? graph_binary(b->g, OP_LE, zero, at) : 0), value_tensor(found),
                into};
  if (found && c->raw[2] && c->row->op != OP_INDEX) {
    Op op = c->row->op == OP_ARGMIN ? OP_MINIMUM : OP_MAXIMUM;
    y[1] = build_pointwise(b, c->pos, op, ARITHMETIC, 2, &y[1]);
  }
  group_end(b, before);
  if (!found || y[1].kind == VALUE_POISON) return value_poison;
  build_joined(b, c->pos, 3, y);
  before = group_begin(b, c->pos);
  Value out = build_pointwise(b, c->pos, OP_WHERE, CHOOSING, 3, y);
  group_end(b, before);
  return out;
}

Value builtin_one_hot(Build *b, const Call *c) {
  NodeId ids;
  if (!ids_ok(b, c, 0, &ids)) return value_poison;
  if (dims_has(graph_node(b->g, ids)->dims, c->dim[0])) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[0].pos, "the ids already have dim '%s'",
               c->ast->dims[0].name);
    return value_poison;
  }
  NodeId hit = build_emit(b, c->pos, OP_EQ, 2, (NodeId[]){graph_index(b->g, c->dim[0]), ids}, NULL);
  return value_tensor(hit ? graph_cast(b->g, hit, b->real) : 0);
}
