// Builds functions that rename, split and merge dims, and constants over dims (index, size,
// values).
#include "frontend/builtin/builtin_internal.h"

// Checks that the sizes of the dims `from` and of the dims `to` have equal products. Returns false
// after an error.
static bool sizes_agree(Build *b, const Call *c, int nfrom, const DimId *from, int nto,
                        const DimId *to) {
  int64_t have = 1, want = 1;
  for (int i = 0; i < nfrom; i++)
    if (!size_mul(have, dim_get(b->g->dims, from[i])->size, &have)) return false;
  for (int i = 0; i < nto; i++)
    if (!size_mul(want, dim_get(b->g->dims, to[i])->size, &want)) want = INT64_MAX;
  if (have == want) return true;
  return diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos, "%s cannot turn %lld element%s into %lld",
                    c->row->name, (long long)have, plural(have), (long long)want);
}

static Value misuse(Build *b, const Call *c, const char *form) {
  diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "%s is written %s", c->row->name, form);
  return value_poison;
}

// Returns the operand with the dims `from` replaced by the dims `to`. A rename replaces from[i] by
// to[i], which must have equal sizes. For split and merge, the products of all sizes must be equal.
static Value move(Build *b, const Call *c, int nfrom, const DimId *from, int nto, const DimId *to) {
  for (int i = 0; i < nfrom; i++)
    for (int k = 0; k < nto; k++)
      if (c->row->op == OP_RENAME && i == k && !sizes_agree(b, c, 1, &from[i], 1, &to[k]))
        return value_poison;
  if (c->row->op != OP_RENAME && !sizes_agree(b, c, nfrom, from, nto, to)) return value_poison;
  Attr attr = {.ndims = (uint8_t)nfrom, .dims = from, .nto = (uint8_t)nto, .to = to};
  return value_tensor(build_emit(b, c->pos, c->row->op, 1, &c->arg[0].node, &attr));
}

Value builtin_rename(Build *b, const Call *c) {
  DimId from[MAX_RANK], to[MAX_RANK];
  int n = 0;
  for (uint32_t i = 0; i < c->ndims; i += 2) {
    if (i + 1 == c->ndims || c->arrow[i] || !c->arrow[i + 1])
      return call_misuse(b, c), value_poison;
    if (!call_has(b, c, i, c->arg)) return value_poison;
    from[n] = c->dim[i];
    to[n++] = c->dim[i + 1];
  }
  return move(b, c, n, from, n, to);
}

Value builtin_split(Build *b, const Call *c) {
  uint32_t n = c->ndims - 1;
  if (!call_map(b, c, 1, n) || !call_has(b, c, 0, c->arg)) return value_poison;
  return move(b, c, 1, c->dim, (int)n, c->dim + 1);
}

Value builtin_merge(Build *b, const Call *c) {
  uint32_t n = c->ndims - 1;
  if (!call_map(b, c, n, 1)) return value_poison;
  for (uint32_t i = 0; i < n; i++)
    if (!call_has(b, c, i, c->arg)) return value_poison;
  return move(b, c, (int)n, c->dim, 1, c->dim + n);
}

Value builtin_index(Build *b, const Call *c) {
  if (c->ast->has_parens) return misuse(b, c, "index[t], without parentheses");
  return value_tensor(graph_index(b->g, c->dim[0]));
}

Value builtin_size(Build *b, const Call *c) {
  if (c->raw[0]->kind != AST_NAME) return misuse(b, c, "size(d) with the name of a dim");
  DimId d = dim_lookup(b, c->raw[0]->text, c->raw[0]->pos);
  return d ? number_of_size(b, d) : value_poison;
}

// Reads the numbers of the call into data. *integer gets whether all are of type i32. Returns false
// after an error.
static bool read_numbers(Build *b, const Call *c, double *data, bool *integer) {
  *integer = true;
  for (uint32_t i = 0; i < c->ast->nargs; i++) {
    const AstArg *arg = &c->ast->args[i];
    Value v = build_expr(b, arg->value);
    if (v.kind != VALUE_NUMBER || arg->name || arg->key || arg->arrow)
      return v.kind != VALUE_POISON &&
             diag_error(b->d, DIAG_NOT_A_CONSTANT, arg->pos, "values takes plain numbers only");
    data[i] = v.number;
    *integer &= v.integer && v.number >= -2147483648.0 && v.number <= 2147483647.0;
  }
  return true;
}

Value builtin_values(Build *b, const Call *c) {
  Dims order;
  int64_t n;
  bool integer;
  if (!dims_stated(b, c->ast, &order) || !dims_fit(b, &order, c->pos, "this constant"))
    return value_poison;
  if (!dims_elements(b->g->dims, &order, &n)) return value_poison;
  if (c->ast->nargs != 1 && c->ast->nargs != n) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos, "%u numbers are given for %lld element%s",
               c->ast->nargs, (long long)n, plural(n));
    return value_poison;
  }
  double *data = arena_array(b->g->arena, double, c->ast->nargs);
  if (!read_numbers(b, c, data, &integer)) return value_poison;
  Dtype type = integer ? TYPE_I32 : b->real;
  Dims over = dims_set(b, order.n, order.at);
  if (c->ast->nargs == 1)
    return value_tensor(graph_broadcast(b->g, graph_const(b->g, type, data[0]), &over));
  double *rounded = arena_array(b->a, double, n);
  for (int64_t i = 0; i < n; i++) rounded[i] = dtype_round(type, data[i]);
  Attr attr = {.type = type, .ndims = order.n, .dims = order.at, .data = rounded, .ndata = n};
  NodeId y = build_emit(b, c->pos, OP_VALUES, 0, NULL, &attr);
  if (y && type == TYPE_F32) values_exact(b, y, data);
  return value_tensor(y);
}
