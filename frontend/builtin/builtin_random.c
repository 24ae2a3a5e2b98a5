// Builds random draws, shuffle and dropout. A drawn number is a function of the seed, the step, the
// call in the model and the position of the element (ir/base/philox.h). It does not depend on the
// mesh.
//
//   categorical[v](x)       argmax[v](x - log(-log(u))): x plus noise of Gumbel's distribution
//   categorical[v -> n](x)  the same with u over the dims of x and n
//   shuffle[t](x)           take[t](x, argsort[t](u)), u over t alone
//   dropout(x, rate = r)    where(training, where(r <= u, x / (1 - r), 0), x)
#include "frontend/builtin/builtin_internal.h"
#include "ir/base/philox.h"

// Returns the number of this draw among the draws of its scope, whose name is `path`. Calls that
// share a scope continue the count.
static uint32_t draw_number(Build *b, const char *path) {
  uint32_t *n = map_get(&b->draws, path);
  if (!n) map_put(b->a, &b->draws, path, n = arena_new_of(b->a, uint32_t));
  return (*n)++;
}

NodeId build_draw(Build *b, Pos pos, Op op, Dtype type, const Dims *dims) {
  const char *path = b->initial ? b->initial : b->frame->scope->path;
  Dims all = *dims;
  if (!loop_dims(b, &all)) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, pos,
               "a draw in a scan has the dim of the scan too: more than %d dims", MAX_RANK);
    return 0;
  }
  Attr attr = {
      .type = type, .ndims = all.n, .dims = all.at, .key = philox_key(path, draw_number(b, path))};
  return loop_view(b, value_tensor(build_emit(b, pos, op, 0, NULL, &attr)), pos).node;
}

// Reads the dims in the brackets into *out; without brackets the draw is a scalar. Returns false
// after an error.
static bool draw_dims(Build *b, const Call *c, Dims *out) {
  *out = (Dims){0};
  bool arrows = false;
  for (uint32_t i = 0; i < c->ndims; i++) arrows |= c->arrow[i];
  if (arrows || c->ast->all_but)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "%s takes dims in brackets", c->row->name);
  for (uint32_t i = 0; i < c->ndims; i++)
    if (!call_add(b, c, i, out)) return false;
  return dims_fit(b, out, c->pos, "a draw");
}

// Checks that arguments 0 to n - 1 have only dims in `dims`, those of the draw. Returns false after
// an error.
static bool within(Build *b, const Call *c, int n, const Dims *dims) {
  for (int i = 0; i < n; i++) {
    const Dims *have = build_dims(b, &c->arg[i]);
    for (int k = 0; k < have->n; k++) {
      if (dims_has(dims, have->at[k])) continue;
      return diag_error(b->d, DIAG_EXTRA_DIM, call_pos(c, i),
                        "%s over %s has no dim '%s', but its argument has", c->row->name,
                        dims_listed(b, dims), dim_get(b->g->dims, have->at[k])->name);
    }
  }
  return true;
}

static Value mixed(Build *b, const Call *c, Op op, Value x, Value y) {
  return build_pointwise(b, c->pos, op, FLOATING, 2, (Value[]){x, y});
}

static bool is_number(const Value *v, double x) {
  return v->kind == VALUE_NUMBER && v->number == x;
}

Value builtin_random_normal(Build *b, const Call *c) {
  Dims dims;
  if (!draw_dims(b, c, &dims) || !within(b, c, 1, &dims)) return value_poison;
  Value x = value_tensor(build_draw(b, c->pos, OP_RANDOM_NORMAL, b->real, &dims));
  return is_number(&c->arg[0], 1) ? x : mixed(b, c, OP_MUL, x, c->arg[0]);
}

Value builtin_random_uniform(Build *b, const Call *c) {
  Dims dims;
  if (!draw_dims(b, c, &dims) || !within(b, c, 2, &dims)) return value_poison;
  Value low = c->arg[0], high = c->arg[1], width = value_number(high.number - low.number, false);
  if (low.kind != VALUE_NUMBER || high.kind != VALUE_NUMBER) width = mixed(b, c, OP_SUB, high, low);
  Value u = value_tensor(build_draw(b, c->pos, OP_RANDOM_UNIFORM, b->real, &dims));
  if (!is_number(&width, 1)) u = mixed(b, c, OP_MUL, u, width);
  return is_number(&low, 0) ? u : mixed(b, c, OP_ADD, u, low);
}

Value builtin_bernoulli(Build *b, const Call *c) {
  Dims dims;
  if (!draw_dims(b, c, &dims) || !within(b, c, 1, &dims)) return value_poison;
  Value u = value_tensor(build_draw(b, c->pos, OP_RANDOM_UNIFORM, b->real, &dims));
  Value hit = build_pointwise(b, c->pos, OP_LT, COMPARING, 2, (Value[]){u, c->arg[0]});
  return hit.kind == VALUE_TENSOR ? value_tensor(graph_cast(b->g, hit.node, b->real)) : hit;
}

// -- categorical, shuffle -----------------------------------------------------------------------

// Returns noise of Gumbel's distribution over dims. A draw u = 0 would give -inf: it counts as half
// of the least other one.
static NodeId gumbel(Build *b, Pos pos, Dtype type, const Dims *dims) {
  NodeId u = build_draw(b, pos, OP_RANDOM_UNIFORM, type, dims);
  if (!u) return 0;
  NodeId least = graph_const(b->g, type, type == TYPE_F64 ? 0x1p-54 : 0x1p-25);
  NodeId log = graph_unary(b->g, OP_LOG, graph_binary(b->g, OP_MAXIMUM, u, least));
  return graph_unary(b->g, OP_NEG, graph_unary(b->g, OP_LOG, graph_unary(b->g, OP_NEG, log)));
}

// Reads the brackets of categorical. Adds the dim after the arrow, if there is one, to the dims of
// the noise. Returns false after an error.
static bool categories(Build *b, const Call *c, Dims *noise) {
  bool good = c->ndims > 0 && c->ndims < 3 && !c->ast->all_but && !c->arrow[0];
  if (!good || c->arrow[1] != (c->ndims == 2))
    return diag_error(
        b->d, DIAG_BAD_ARGUMENTS, c->pos,
        "categorical is written categorical[v](logits), or categorical[v -> n](logits) "
        "for n draws");
  if (!call_has(b, c, 0, &c->arg[0])) return false;
  return c->ndims == 1 || (call_new(b, c, 1, &c->arg[0], 0) && call_add(b, c, 1, noise));
}

// The largest of the logits plus Gumbel noise is category k with the probability softmax(logits)[k]
// (Gumbel, "Statistical Theory of Extreme Values", 1954; the "Gumbel-max trick").
Value builtin_categorical(Build *b, const Call *c) {
  Dims dims = *build_dims(b, &c->arg[0]);
  if (!categories(b, c, &dims) || !dims_fit(b, &dims, c->pos, "a draw")) return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId x = build_float(b, c->arg[0]);
  x = graph_cast(b->g, x, dtype_accumulator((Dtype)graph_node(b->g, x)->type));
  NodeId noise = gumbel(b, c->pos, (Dtype)graph_node(b->g, x)->type, &dims);
  if (!noise) return value_poison;
  NodeId y = graph_reduce(b->g, OP_ARGMAX, graph_binary(b->g, OP_ADD, x, noise),
                          &(Dims){.n = 1, .at = {c->dim[0]}});
  group_end(b, before);
  return value_tensor(y);
}

// The order is drawn in f64: equal draws, which would keep their order, are then too rare to count.
Value builtin_shuffle(Build *b, const Call *c) {
  if (!call_has(b, c, 0, &c->arg[0])) return value_poison;
  Dims over = {.n = 1, .at = {c->dim[0]}};
  NodeId u = build_draw(b, c->pos, OP_RANDOM_UNIFORM, TYPE_F64, &over);
  if (!u) return value_poison;
  Attr attr = {.ndims = 1, .dims = c->dim};
  NodeId order = build_emit(b, c->pos, OP_ARGSORT, 1, &u, &attr);
  return value_tensor(order ? take_emit(b, c, c->arg[0].node, order) : 0);
}

// -- dropout ------------------------------------------------------------------------------------

// Sets *out to the dims of the dropout mask: those in the brackets, or all dims of x. Returns false
// after an error.
static bool mask_dims(Build *b, const Call *c, Dims *out) {
  for (uint32_t i = 0; i < c->ndims; i++)
    if (c->arrow[i])
      return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "dropout takes dims in brackets");
  return call_over(b, c, build_dims(b, &c->arg[0]), out);
}

// Returns x / (1 - rate) in the type of x; narrow floats are multiplied in f32.
static NodeId enlarged(Build *b, NodeId x, double rate) {
  Dtype type = (Dtype)graph_node(b->g, x)->type, wide = dtype_accumulator(type);
  NodeId factor = graph_const(b->g, wide, 1 / (1 - rate));
  return graph_cast(b->g, graph_binary(b->g, OP_MUL, graph_cast(b->g, x, wide), factor), type);
}

Value builtin_dropout(Build *b, const Call *c) {
  double rate;
  Dims dims;
  if (!call_number(b, c, 1, &rate) || !mask_dims(b, c, &dims)) return value_poison;
  NodeId x = build_float(b, c->arg[0]);
  if (rate == 0) return value_tensor(x);
  NodeId zero = graph_const(b->g, (Dtype)graph_node(b->g, x)->type, 0), kept = zero;
  if (rate < 1) {
    Dtype drawn = graph_node(b->g, x)->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
    NodeId u = build_draw(b, c->pos, OP_RANDOM_UNIFORM, drawn, &dims);
    NodeId keep = graph_binary(b->g, OP_LE, graph_const(b->g, drawn, rate), u);
    kept = graph_where(b->g, keep, enlarged(b, x, rate), zero);
  }
  NodeId training = build_emit(b, c->pos, OP_TRAINING, 0, NULL, NULL);
  return value_tensor(graph_where(b->g, training, kept, x));
}
