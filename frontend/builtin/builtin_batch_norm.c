// Builds batch normalisation. In training it uses the statistics of the batch and updates running
// statistics, which are states; otherwise it uses the running statistics.
//
//   batch_norm[b](x)    opens the scope batch_norm, with two states over the other dims of x:
//     state mean = 0, state variance = 1, or what the arguments `mean` and `variance` say
//     m = where(training, mean[b](x), mean),  v = where(training, variance[b](x), variance)
//     y = (x - m) / sqrt(v + eps)
//     update mean = momentum * mean + (1 - momentum) * mean[b](x), and variance in the same way
#include <string.h>

#include "frontend/builtin/builtin_internal.h"

// The mean or the variance of one call.
typedef struct Running {
  DeclId decl;         // the state with the running value
  NodeId state, batch; // the running value before this step; the value for this batch
} Running;

// Where the running value of a call starts.
typedef struct Start {
  const char *name; // of the state, and of the argument of the call that gives its initial value
  int arg;          // number of that argument
  double value;     // initial value if the argument is not given
} Start;
static const Start mean_start = {"mean", 4, 0}, variance_start = {"variance", 5, 1};

// Declares the state of s in the scope, with the type and dims of `like`. If the scope is shared
// and an earlier call has declared the state, returns that one. Returns 0 after an error.
static DeclId state_declare(Build *b, const Call *c, const Scope *scope, const Start *s,
                            const Node *like) {
  const char *full = name_join(b, scope->path, s->name);
  DeclId old = (DeclId)(uintptr_t)map_get(&b->decls, full);
  if (old && scope->shared) return old;
  Decl d = {.kind = DECL_STATE,
            .name = full,
            .type = (Dtype)like->type,
            .rank = like->dims->n,
            .pos = c->pos};
  memcpy(d.dims, like->dims->at, sizeof d.dims);
  d.init = (Init){.kind = INIT_CONSTANT, .a = s->value};
  if (c->raw[s->arg] && !init_start(b, c->raw[s->arg], &d, &d.init)) return 0;
  DeclId id = graph_decl(b->g, &d);
  map_put(b->a, &b->decls, full, (void *)(uintptr_t)id);
  Binding named = {.value = value_tensor(graph_decl_node(b->g, id)),
                   .graph = b->g,
                   .pos = c->pos,
                   .stated = true,
                   .rank = d.rank};
  memcpy(named.dims, d.dims, sizeof named.dims);
  name_register(b, full, NAME_DECL, &named);
  return id;
}

// Checks that a shared state has the dims of this call. Returns false after an error.
static bool state_fits(Build *b, const Call *c, const Running *r) {
  const Dims *have = graph_node(b->g, r->state)->dims, *want = graph_node(b->g, r->batch)->dims;
  if (dims_equal(have, want)) return true;
  return diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos,
                    "the shared statistics are over %s, and this call's over %s",
                    dims_listed(b, have), dims_listed(b, want));
}

// Returns the output that updates the state of r. If there is none yet, adds one that keeps the
// state as it is.
static Output *update_of(Build *b, const Running *r, Pos pos) {
  const Decl *d = &b->g->decl.at[r->decl - 1];
  for (uint32_t i = 0; i < b->g->output.n; i++)
    if (b->g->output.at[i].kind == OUT_UPDATE && b->g->output.at[i].target == r->decl)
      return &b->g->output.at[i];
  binding_put(b, &b->updated, d->name, value_poison, pos);
  vec_push(b->g->arena, b->g->output) =
      (Output){.kind = OUT_UPDATE, .name = d->name, .target = r->decl, .value = r->state};
  return &b->g->output.at[b->g->output.n - 1];
}

// Sets the update to momentum * old + (1 - momentum) * batch. If several calls share the state,
// `old` of a call is the updated value of the previous call.
static void move_running(Build *b, const Running *r, double momentum, Pos pos) {
  Graph *g = b->g;
  Dtype type = (Dtype)graph_node(g, r->state)->type;
  Output *o = update_of(b, r, pos);
  NodeId old = graph_binary(g, OP_MUL, o->value, graph_const(g, type, dtype_round(type, momentum)));
  NodeId new =
      graph_binary(g, OP_MUL, r->batch, graph_const(g, type, dtype_round(type, 1 - momentum)));
  o->value = graph_binary(g, OP_ADD, old, new);
}

// Returns the statistic by which x is normalised: in training that of the batch, otherwise the
// running one.
static NodeId chosen(Build *b, const Call *c, const Running *r) {
  NodeId training = build_emit(b, c->pos, OP_TRAINING, 0, NULL, NULL);
  return graph_where(b->g, training, r->batch, r->state);
}

static Scope *scope_of(Build *b, const Call *c) {
  const char *name = "batch_norm";
  if (c->raw[3] && !build_string(b, c->raw[3], &name)) return NULL;
  return scope_open(b, intern(b->names, name), c->raw[3] != NULL, NULL,
                    c->raw[3] ? c->raw[3]->pos : c->pos);
}

// Computes the statistics of x over `over`, and declares the states. x has the type of the states.
// Returns false after an error.
static bool statistics(Build *b, const Call *c, const Dims *over, NodeId x, Running *mean,
                       Running *variance) {
  Scope *scope = scope_of(b, c);
  if (!scope) return false;
  mean->batch = graph_reduce(b->g, OP_MEAN, x, over);
  NodeId off = graph_binary(b->g, OP_SUB, x, mean->batch);
  variance->batch = graph_reduce(b->g, OP_MEAN, graph_binary(b->g, OP_MUL, off, off), over);
  Node like = *graph_node(b->g, mean->batch);
  mean->decl = state_declare(b, c, scope, &mean_start, &like);
  variance->decl = mean->decl ? state_declare(b, c, scope, &variance_start, &like) : 0;
  if (!variance->decl) return false;
  mean->state = graph_decl_node(b->g, mean->decl);
  variance->state = graph_decl_node(b->g, variance->decl);
  return state_fits(b, c, mean) && state_fits(b, c, variance);
}

static bool states_possible(Build *b, const Call *c) {
  if (b->g != b->model->graph)
    diag_error(b->d, DIAG_NOT_A_CONSTANT, c->pos,
               "batch_norm has states: an initial value cannot use it");
  else if (b->loop)
    diag_error(b->d, DIAG_MISPLACED, c->pos,
               "batch_norm updates its states once a step, not in each step of a scan");
  else
    return true;
  return false;
}

Value builtin_batch_norm(Build *b, const Call *c) {
  double momentum, eps;
  Dims over;
  Running mean, variance;
  if (!call_over(b, c, build_dims(b, &c->arg[0]), &over) || !call_number(b, c, 1, &momentum) ||
      !call_number(b, c, 2, &eps))
    return value_poison;
  NodeId given = build_float(b, c->arg[0]);
  Dtype type = (Dtype)graph_node(b->g, given)->type, wide = dtype_accumulator(type);
  if (!states_possible(b, c)) return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId x = graph_cast(b->g, given, wide), y = 0;
  if (statistics(b, c, &over, x, &mean, &variance)) {
    move_running(b, &mean, momentum, c->pos);
    move_running(b, &variance, momentum, c->pos);
    NodeId spread = graph_binary(b->g, OP_ADD, chosen(b, c, &variance),
                                 graph_const(b->g, wide, dtype_round(wide, eps)));
    NodeId off = graph_binary(b->g, OP_SUB, x, chosen(b, c, &mean));
    y = graph_cast(b->g, graph_binary(b->g, OP_MUL, off, graph_unary(b->g, OP_RSQRT, spread)),
                   type);
  }
  group_end(b, before);
  return value_tensor(y);
}
