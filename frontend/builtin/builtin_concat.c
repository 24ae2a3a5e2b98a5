// Builds concat and stack as choices by position. The pass `simplify` removes these choices again
// where it can.
//
//   concat[t1, t2 -> t](a, b)   where(index[t] < size(t1), pad[t1 -> t](a),
//                                     pad[t2 -> t](b, before = size(t1)))
//   stack[-> n](a, b)           where(index[n] == 0, a, b)
#include "frontend/builtin/builtin_internal.h"

// Evaluates the operands in the order of the text, and converts them to their common type. Returns
// false after an error.
static bool operands(Build *b, const Call *c, Value *out, Dtype *type) {
  bool good = true;
  for (uint32_t i = 0; i < c->ast->nargs; i++) {
    const AstArg *arg = &c->ast->args[i];
    if (arg->name || arg->key || arg->arrow)
      return diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "%s takes plain arguments only",
                        c->row->name);
    out[i] = build_expr(b, arg->value);
    good &= value_is_tensor(b, &out[i], arg->value->pos);
  }
  if (!good) return false;
  *type = build_join(b, COMPARING, (int)c->ast->nargs, out);
  for (uint32_t i = 0; i < c->ast->nargs; i++) out[i] = value_tensor(build_node(b, out[i], *type));
  b->g->origin.pos = c->pos;
  return true;
}

// Checks that v, operand number `operand`, does not have dim number `dim` of the brackets, which
// the call adds. The call removes the dim `gone` (0: none); if the added dim is the same dim, v may
// have it. Returns false after an error.
static bool free_of(Build *b, const Call *c, uint32_t dim, uint32_t operand, const Value *v,
                    DimId gone) {
  const Dims *have = build_dims(b, v);
  if (!dims_has(have, c->dim[dim]) || c->dim[dim] == gone) return true;
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->args[operand].pos,
                    "the operand over %s already has the dim '%s'", dims_listed(b, have),
                    c->ast->dims[dim].name);
}

// -- concat -------------------------------------------------------------------------------------

// Checks that there is one operand for each dim before the arrow, and that the sizes of these dims
// add up to that of the dim after it. Returns false after an error.
static bool concat_counts(Build *b, const Call *c) {
  uint32_t n = c->ndims - 1, pos = 0;
  int64_t total = 0;
  if (!call_map(b, c, n, 1)) return false;
  if (c->ast->nargs != n)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos,
                      "concat of %u dim%s takes %u operand%s, not %u", n, plural(n), n, plural(n),
                      c->ast->nargs);
  for (; pos < n; pos++) total += call_size(b, c, pos);
  if (total == call_size(b, c, n)) return true;
  diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[n].pos,
             "the operands have %lld element%s in all, but '%s' has size %lld", (long long)total,
             plural(total), c->ast->dims[n].name, (long long)call_size(b, c, n));
  return diag_hint(b->d, "dim %s = %lld", c->ast->dims[n].name, (long long)total);
}

static bool has_part(Build *b, const Call *c, uint32_t i, const Value *v) {
  const Dims *have = build_dims(b, v);
  if (dims_has(have, c->dim[i])) return true;
  return diag_error(b->d, DIAG_MISSING_DIM, c->ast->args[i].pos,
                    "operand %u of concat is over %s and has no dim '%s'", i + 1,
                    dims_listed(b, have), c->ast->dims[i].name);
}

// Returns the nested where() over the operands v, built from the last one to the first. `end` is
// the position along `to` after the last element of the current operand.
static NodeId concat_chain(Build *b, const Call *c, const Value *v, DimId to) {
  int64_t end = dim_get(b->g->dims, to)->size;
  NodeId y = 0, index = graph_index(b->g, to);
  for (uint32_t i = c->ast->nargs; i-- > 0;) {
    int64_t first = end - call_size(b, c, i);
    NodeId part =
        window_emit(b, c->pos, v[i].node, 0, c->dim[i], 1, &to, (Affine){1, 0, -first, 1}, 0);
    if (!part) return 0;
    NodeId limit = graph_const(b->g, TYPE_I32, (double)end);
    NodeId args[3] = {graph_binary(b->g, OP_LT, index, limit), part, y};
    y = y ? build_emit(b, c->pos, OP_WHERE, 3, args, NULL) : part;
    if (!y) return 0;
    end = first;
  }
  return y;
}

Value builtin_concat(Build *b, const Call *c) {
  Value *v = arena_array(b->a, Value, c->ast->nargs + 1);
  Dtype type;
  if (!concat_counts(b, c) || !operands(b, c, v, &type)) return value_poison;
  for (uint32_t i = 0; i < c->ast->nargs; i++)
    if (!has_part(b, c, i, &v[i]) || !free_of(b, c, c->ndims - 1, i, &v[i], c->dim[i]))
      return value_poison;
  return value_tensor(concat_chain(b, c, v, c->dim[c->ndims - 1]));
}

// -- stack --------------------------------------------------------------------------------------

static NodeId stack_chain(Build *b, const Call *c, const Value *v) {
  uint32_t last = c->ast->nargs - 1;
  NodeId y = v[last].node, index = graph_index(b->g, c->dim[0]);
  for (uint32_t i = last; i-- > 0;) {
    NodeId here = graph_binary(b->g, OP_EQ, index, graph_const(b->g, TYPE_I32, (double)i));
    y = build_emit(b, c->pos, OP_WHERE, 3, (NodeId[]){here, v[i].node, y}, NULL);
    if (!y) return 0;
  }
  if (last) return y;
  return build_emit(b, c->pos, OP_BROADCAST, 1, &y, &(Attr){.ndims = 1, .dims = c->dim});
}

Value builtin_stack(Build *b, const Call *c) {
  uint32_t n = c->ast->nargs;
  Value *v = arena_array(b->a, Value, n + 1);
  Dtype type;
  if (!call_map(b, c, 0, 1)) return value_poison;
  if (n != call_size(b, c, 0)) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos, "stack has %u operand%s, but '%s' has size %lld",
               n, plural(n), c->ast->dims[0].name, (long long)call_size(b, c, 0));
    diag_hint(b->d, "dim %s = %u", c->ast->dims[0].name, n);
    return value_poison;
  }
  if (!operands(b, c, v, &type)) return value_poison;
  for (uint32_t i = 0; i < n; i++)
    if (!free_of(b, c, 0, i, &v[i], 0)) return value_poison;
  return value_tensor(stack_chain(b, c, v));
}
