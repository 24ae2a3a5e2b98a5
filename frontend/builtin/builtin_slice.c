// Builds functions that read a part of a dim or move elements along it. Each is one WINDOW node:
// position o of the result reads position step * o + start of the operand. The pairs below are
// {step, start}.
//
//   slice[t -> t2](x, start = 3, step = 2)   {2, 3}
//   pad[t -> t2](x, before = 1)              {1, -1}
//   shift[t](x, by = 1)                      {1, -1}
//   roll[t](x, by = 1)                       {1, -1}, and {1, n - 1} for position 0
//   reverse[t](x)                            {-1, n - 1}
//   select[t](x, i)                          no new dim
//   put[s](cache, i, x)                      not a window: where(index[s] == i, x, cache)
//
// A computed position that is a tensor, one for each row, makes a lookup in place of the window:
//
//   slice[t -> t2](x, start = s[b])          take[t](x, s + index[t2]), over [b, t2]
//
// Positions known at compile time are checked here. Computed positions are checked at run time, by
// the BOUND node that bound_emit adds.
#include "frontend/builtin/builtin_internal.h"

static NodeId constant(Build *b, int64_t v) { return graph_const(b->g, TYPE_I32, (double)v); }

// -- slice --------------------------------------------------------------------------------------

static bool slice_fits(Build *b, const Call *c, int64_t start, int64_t last) {
  int64_t n = call_size(b, c, 0);
  if (start >= 0 && start < n && last >= 0 && last < n) return true;
  return diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos,
                    "slice reads positions %lld to %lld, but '%s' has positions 0 to %lld",
                    (long long)start, (long long)last, c->ast->dims[0].name, (long long)(n - 1));
}

// Returns node `start`, the first position that a slice reads, with run-time checks of the first
// and of the last position. `way` is the distance from the first to the last. Returns 0 after an
// error.
static NodeId slice_start(Build *b, const Call *c, NodeId start, int64_t way) {
  int64_t n = call_size(b, c, 0);
  if (way >= n || way <= -n) {
    (void)slice_fits(b, c, way < 0 ? n - 1 : 0, way < 0 ? n - 1 + way : way);
    return 0;
  }
  start = bound_emit(b, c->pos, start, c->dim[0], start, NULL);
  if (!start || way == 0) return start;
  NodeId last = graph_binary(b->g, OP_ADD, start, constant(b, way));
  last = bound_emit(b, c->pos, last, c->dim[0], last, NULL);
  return last ? graph_binary(b->g, OP_SUB, last, constant(b, way)) : 0;
}

// Returns the slices that begin at the positions `start`, which has dims: one slice for each of its
// elements.
static Value slice_rows(Build *b, const Call *c, NodeId start, int64_t step) {
  Value first = value_tensor(start);
  if (!call_new(b, c, 1, &first, 0)) return value_poison;
  NodeId way = graph_binary(b->g, OP_MUL, graph_index(b->g, c->dim[1]), constant(b, step));
  NodeId at = build_emit(b, c->pos, OP_ADD, 2, (NodeId[]){start, way}, NULL);
  return value_tensor(at ? take_emit(b, c, c->arg[0].node, at) : 0);
}

Value builtin_slice(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  int64_t start = 0, step;
  NodeId computed = 0;
  if (!call_map(b, c, 1, 1) || !call_has(b, c, 0, x) || !call_new(b, c, 1, x, 0) ||
      !call_integer(b, c, 2, -MAX_STEP, &step))
    return value_poison;
  int64_t way = step * (call_size(b, c, 1) - 1);
  if (step == 0) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, call_pos(c, 2), "the step must not be 0");
    return value_poison;
  }
  if (c->arg[1].kind == VALUE_TENSOR) {
    if (!call_positions(b, c, 1, &computed) || !(computed = slice_start(b, c, computed, way)))
      return value_poison;
    if (graph_node(b->g, computed)->dims->n) return slice_rows(b, c, computed, step);
  } else if (!call_integer(b, c, 1, -MAX_STEP, &start) || !slice_fits(b, c, start, start + way)) {
    return value_poison;
  }
  Affine f = {step, 0, start, 1};
  return value_tensor(window_emit(b, c->pos, x->node, computed, c->dim[0], 1, c->dim + 1, f, 0));
}

// -- pad, shift, roll, reverse ------------------------------------------------------------------

Value builtin_pad(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  int64_t before;
  double value;
  if (!call_map(b, c, 1, 1) || !call_has(b, c, 0, x) || !call_new(b, c, 1, x, 0) ||
      !call_integer(b, c, 1, 0, &before) || !call_number(b, c, 2, &value))
    return value_poison;
  int64_t n = call_size(b, c, 0), after = call_size(b, c, 1) - n - before;
  if (after < 0) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos,
               "%lld element%s before the %lld of '%s' leave room for %lld after them in '%s'",
               (long long)before, plural(before), (long long)n, c->ast->dims[0].name,
               (long long)after, c->ast->dims[1].name);
    diag_hint(b->d, "dim %s = %lld or more", c->ast->dims[1].name, (long long)(n + before));
    return value_poison;
  }
  Affine f = {1, 0, -before, 1};
  return value_tensor(window_emit(b, c->pos, x->node, 0, c->dim[0], 1, c->dim + 1, f, value));
}

Value builtin_shift(Build *b, const Call *c) {
  int64_t by;
  double fill;
  if (!call_has(b, c, 0, &c->arg[0]) || !call_integer(b, c, 1, -MAX_STEP, &by) ||
      !call_number(b, c, 2, &fill))
    return value_poison;
  Affine f = {1, 0, -by, 1};
  return value_tensor(window_emit(b, c->pos, c->arg[0].node, 0, c->dim[0], 1, c->dim, f, fill));
}

Value builtin_roll(Build *b, const Call *c) {
  int64_t by, n = call_size(b, c, 0);
  if (!call_has(b, c, 0, &c->arg[0]) || !call_integer(b, c, 1, -MAX_STEP, &by)) return value_poison;
  by = (by % n + n) % n;
  if (by == 0) return c->arg[0];
  Origin before = group_begin(b, c->pos);
  NodeId part[2], x = c->arg[0].node;
  for (int i = 0; i < 2; i++)
    part[i] = window_emit(b, c->pos, x, 0, c->dim[0], 1, c->dim, (Affine){1, 0, i * n - by, 1}, 0);
  NodeId around = graph_binary(b->g, OP_LT, graph_index(b->g, c->dim[0]), constant(b, by));
  NodeId y = graph_where(b->g, around, part[1], part[0]);
  group_end(b, before);
  return value_tensor(y);
}

Value builtin_reverse(Build *b, const Call *c) {
  if (!call_has(b, c, 0, &c->arg[0])) return value_poison;
  Affine f = {-1, 0, call_size(b, c, 0) - 1, 1};
  return value_tensor(window_emit(b, c->pos, c->arg[0].node, 0, c->dim[0], 1, c->dim, f, 0));
}

// -- select and put: one position ---------------------------------------------------------------

// Reads argument i as a position along dim 0; a negative one counts from the end. If it is known at
// compile time, sets *known to it and *computed to 0; otherwise sets *computed to its node. Returns
// false after an error.
static bool place_read(Build *b, const Call *c, int i, int64_t *known, NodeId *computed) {
  int64_t n = call_size(b, c, 0);
  *computed = 0;
  if (c->arg[i].kind == VALUE_NUMBER) {
    if (!call_integer(b, c, i, -MAX_STEP, known)) return false;
    if (*known >= -n && *known < n) {
      *known += *known < 0 ? n : 0;
      return true;
    }
    return diag_error(b->d, DIAG_SIZE_MISMATCH, call_pos(c, i),
                      "position %lld is outside the %lld element%s of '%s'", (long long)*known,
                      (long long)n, plural(n), c->ast->dims[0].name);
  }
  NodeId at;
  if (!call_positions(b, c, i, &at)) return false;
  // Only positions from -n to -1 get n added, so that the run-time message shows a position outside
  // the dim as it was given.
  NodeId negative = graph_binary(b->g, OP_AND, graph_binary(b->g, OP_LT, at, constant(b, 0)),
                                 graph_binary(b->g, OP_LE, constant(b, -n), at));
  NodeId from_end = graph_binary(b->g, OP_ADD, at, constant(b, n));
  *computed = bound_emit(b, call_pos(c, i), graph_where(b->g, negative, from_end, at), c->dim[0],
                         at, c->raw[i]);
  return *computed != 0;
}

Value builtin_select(Build *b, const Call *c) {
  int64_t at = 0;
  NodeId computed;
  if (!call_has(b, c, 0, &c->arg[0]) || !place_read(b, c, 1, &at, &computed)) return value_poison;
  if (computed && graph_node(b->g, computed)->dims->n)
    return value_tensor(take_emit(b, c, c->arg[0].node, computed));
  Affine f = {0, 0, at, 1};
  return value_tensor(window_emit(b, c->pos, c->arg[0].node, computed, c->dim[0], 0, NULL, f, 0));
}

// Checks that argument i, the position or x, has only dims of the cache, and not dim 0 of the
// brackets. Returns false after an error.
static bool put_fits(Build *b, const Call *c, int i) {
  const Dims *cache = build_dims(b, &c->arg[0]), *x = build_dims(b, &c->arg[i]);
  for (int k = 0; k < x->n; k++) {
    bool slot = x->at[k] == c->dim[0];
    if (dims_has(cache, x->at[k]) && !slot) continue;
    return diag_error(b->d, DIAG_EXTRA_DIM, call_pos(c, i),
                      "%s has dim '%s', but the slice that it replaces is over %s",
                      c->row->formal[i].name, dim_get(b->g->dims, x->at[k])->name,
                      dims_listed(b, cache));
  }
  return true;
}

Value builtin_put(Build *b, const Call *c) {
  int64_t at = 0;
  NodeId computed;
  if (!call_has(b, c, 0, &c->arg[0]) || !put_fits(b, c, 1) || !put_fits(b, c, 2) ||
      !place_read(b, c, 1, &at, &computed))
    return value_poison;
  if (!computed) computed = constant(b, at);
  NodeId here = graph_binary(b->g, OP_EQ, graph_index(b->g, c->dim[0]), computed);
  Value choice[3] = {value_tensor(here), c->arg[2], c->arg[0]};
  return build_pointwise(b, c->pos, OP_WHERE, CHOOSING, 3, choice);
}
