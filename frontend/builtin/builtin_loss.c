// Builds losses from primitives, each as one composite.
//
//   cross_entropy[c](x, k)    log(s) - (x[k] - m),  m = max[c](x), s = sum[c](exp(x - m))
//
// Every part is relative to the row maximum m, so an offset that all logits of a row share costs no
// accuracy. The form log(s) + m - x[k] would round to the digits of m. x[k] is selected by
// comparing positions, so a split class dim needs no lookup across processors. The gradient of
// log(s) by x is exp(x - m) / s.
#include <math.h>

#include "frontend/builtin/builtin_internal.h"

typedef struct Entropy {
  Build *b;
  const Call *c;
  Dims over; // the class dim
  NodeId logits, labels;
  LogSum row;
  NodeId log;                       // logarithm of row.sum
  Dtype type;                       // type of the arithmetic: f32, or f64 for f64 operands
  double smoothing, z_loss, ignore; // ignore: NAN if not given
} Entropy;

static NodeId real(const Entropy *e, double x) { return graph_const(e->b->g, e->type, x); }
static NodeId two(const Entropy *e, Op op, NodeId x, NodeId y) {
  return graph_binary(e->b->g, op, x, y);
}

static bool option(Build *b, const Call *c, int i, double *out) {
  *out = c->arg[i].number;
  if (c->arg[i].kind == VALUE_NUMBER) return true;
  return diag_error(b->d, DIAG_NOT_A_CONSTANT, c->raw[i]->pos,
                    "'%s' of cross_entropy must be a number", c->row->formal[i].name);
}

// Returns `picked`, the logit of the label relative to the row maximum. With label smoothing,
// returns a weighted sum of all logits: the weight of every class is smoothing / size(c), plus
// 1 - smoothing for the label.
static NodeId smooth(const Entropy *e, NodeId picked) {
  double share = e->smoothing / (double)dim_get(e->b->g->dims, e->over.at[0])->size;
  if (e->smoothing == 0) return picked;
  NodeId all = graph_reduce(e->b->g, OP_SUM, e->row.shifted, &e->over);
  return two(e, OP_ADD, two(e, OP_MUL, picked, real(e, 1 - e->smoothing)),
             two(e, OP_MUL, all, real(e, share)));
}

// Returns loss + z_loss * logsumexp^2. Only the second term depends on an offset that all logits of
// a row share.
static NodeId penalised(const Entropy *e, NodeId loss) {
  if (e->z_loss == 0) return loss;
  NodeId lse = two(e, OP_ADD, e->log, e->row.shift);
  return two(e, OP_ADD, loss, two(e, OP_MUL, two(e, OP_MUL, lse, lse), real(e, e->z_loss)));
}

// Returns the loss for labels that are class ids. Rows whose label is e->ignore have loss 0.
static NodeId of_ids(Entropy *e) {
  Graph *g = e->b->g;
  NodeId ids = e->labels, ignored = 0;
  if (!isnan(e->ignore)) {
    ignored = graph_binary(g, OP_EQ, ids, graph_const(g, TYPE_I32, e->ignore));
    ids = graph_where(g, ignored, graph_const(g, TYPE_I32, 0), ids);
  }
  ids = bound_emit(e->b, e->c->pos, ids, e->over.at[0], e->labels, e->c->raw[1]);
  NodeId hit = graph_binary(g, OP_EQ, graph_index(g, e->over.at[0]), ids);
  // All elements but one are 0, so the sum is exact. If the class dim is split, the all_reduce of
  // this sum and that of the sum in smooth become one collective.
  NodeId picked =
      graph_reduce(g, OP_SUM, graph_where(g, hit, e->row.shifted, real(e, 0)), &e->over);
  NodeId loss = penalised(e, two(e, OP_SUB, e->log, smooth(e, picked)));
  return ignored ? graph_where(g, ignored, real(e, 0), loss) : loss;
}

// Returns the loss for labels that give each class a share (soft labels). Returns 0 after an error.
static NodeId of_shares(Entropy *e) {
  Graph *g = e->b->g;
  NodeId share = e->labels;
  if (e->smoothing != 0) {
    double rest = e->smoothing / (double)dim_get(g->dims, e->over.at[0])->size;
    share = two(e, OP_ADD, two(e, OP_MUL, share, real(e, 1 - e->smoothing)), real(e, rest));
  }
  Dims keep = *graph_node(g, e->logits)->dims;
  const Dims *more = graph_node(g, share)->dims;
  for (int i = 0; i < more->n; i++)
    if (!dims_add(g->dims, &keep, more->at[i])) {
      diag_error(e->b->d, DIAG_BAD_ARGUMENTS, e->c->pos, "a call takes at most %d dims in brackets",
                 MAX_RANK);
      return 0;
    }
  dims_remove(&keep, e->over.at[0]);
  NodeId product[] = {share, two(e, OP_SUB, e->log, e->row.shifted)};
  return penalised(e, graph_contract(g, 2, product, &keep, e->type));
}

// Sets *ids to true if the labels are class ids (i32, without the class dim), to false if they are
// shares of classes (floats with the class dim). Returns false after an error.
static bool labels_ok(Entropy *e, bool *ids) {
  Build *b = e->b;
  const Value *v = &e->c->arg[1];
  Pos pos = e->c->raw[1]->pos;
  DimId d = e->over.at[0];
  Dtype type = v->kind == VALUE_TENSOR ? (Dtype)graph_node(b->g, v->node)->type
               : v->integer            ? TYPE_I32
                                       : TYPE_F32;
  *ids = !dims_has(build_dims(b, v), d);
  if (*ids && dtype_class(type) == CLASS_INT) return true;
  if (!*ids && dtype_is_float(type) && isnan(e->ignore)) return true;
  const char *name = dim_get(b->g->dims, d)->name;
  if (*ids) {
    diag_error(b->d, DIAG_BAD_TYPE, pos, "labels without dim '%s' must be i32, not %s", name,
               dtype_text(type));
    diag_hint(b->d, "declare them as i32, or use cast(x, i32); shares of classes have the dim '%s'",
              name);
  } else if (!dtype_is_float(type))
    diag_error(b->d, DIAG_BAD_TYPE, pos, "labels with dim '%s' must be floats, not %s", name,
               dtype_text(type));
  else
    diag_error(b->d, DIAG_BAD_ARGUMENTS, pos, "ignore needs i32 labels");
  return false;
}

Value builtin_cross_entropy(Build *b, const Call *c) {
  Entropy e = {.b = b, .c = c};
  bool ids;
  if (!option(b, c, 2, &e.smoothing) || !option(b, c, 3, &e.z_loss) || !option(b, c, 4, &e.ignore))
    return value_poison;
  if (!call_over(b, c, build_dims(b, &c->arg[0]), &e.over) || !labels_ok(&e, &ids))
    return value_poison;
  build_joined(b, c->pos, 2, c->arg);
  Origin before = group_begin(b, c->pos);
  Dtype joined = build_join(b, FLOATING, ids ? 1 : 2, c->arg);
  e.type = dtype_accumulator(joined);
  e.logits = build_node(b, c->arg[0], e.type);
  e.labels = build_node(b, c->arg[1], ids ? TYPE_I32 : e.type);
  e.row = graph_log_sum(b->g, e.logits, &e.over, true);
  e.log = graph_unary(b->g, OP_LOG, e.row.sum);
  NodeId loss = ids ? of_ids(&e) : of_shares(&e);
  if (loss) loss = graph_cast(b->g, loss, joined);
  group_end(b, before);
  return value_tensor(loss);
}

// Builds z softplus(-x) + (1 - z) softplus(x) for logits x and labels z. This form is accurate for
// large positive and negative x and has the right gradient at 0.
Value builtin_sigmoid_cross_entropy(Build *b, const Call *c) {
  build_joined(b, c->pos, 2, c->arg);
  Origin before = group_begin(b, c->pos);
  Graph *g = b->g;
  Dtype type = build_join(b, FLOATING, 2, c->arg);
  NodeId x = build_node(b, c->arg[0], type), z = build_node(b, c->arg[1], type);
  NodeId yes = graph_binary(g, OP_MUL, z, graph_unary(g, OP_SOFTPLUS, graph_unary(g, OP_NEG, x)));
  NodeId rest = graph_binary(g, OP_SUB, graph_const(g, type, 1), z);
  NodeId no = graph_binary(g, OP_MUL, rest, graph_unary(g, OP_SOFTPLUS, x));
  NodeId loss = graph_binary(g, OP_ADD, yes, no);
  group_end(b, before);
  return value_tensor(loss);
}
