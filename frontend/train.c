// Train blocks: which loss, which optimiser with which arguments, schedule, clipping, and how long.
#include <math.h>
#include <string.h>

#include "frontend/build.h"
#include "frontend/formal.h"

// -- optimisers -----------------------------------------------------------------------------------

static const struct {
  const char *name;
  OptimizerKind kind;
  const Formal *formal;
} optimizers[] = {
    {"sgd", OPTIMIZER_SGD,
     (const Formal[]){V(lr), D(momentum, 0), O(nesterov), D(weight_decay, 0), END}},
    {"adam", OPTIMIZER_ADAM,
     (const Formal[]){D(lr, 1e-3), D(beta1, 0.9), D(beta2, 0.999), D(eps, 1e-8), END}},
    {"adamw", OPTIMIZER_ADAMW,
     (const Formal[]){D(lr, 1e-3), D(beta1, 0.9), D(beta2, 0.999), D(eps, 1e-8),
                      D(weight_decay, 0.01), O(no_decay), END}},
    {"adagrad", OPTIMIZER_ADAGRAD, (const Formal[]){V(lr), D(eps, 1e-10), END}},
    {"rmsprop", OPTIMIZER_RMSPROP,
     (const Formal[]){V(lr), D(rho, 0.99), D(momentum, 0), D(eps, 1e-8), D(decay, 0), END}},
    {"lion", OPTIMIZER_LION,
     (const Formal[]){V(lr), D(beta1, 0.9), D(beta2, 0.99), D(weight_decay, 0), END}},
    {"adafactor", OPTIMIZER_ADAFACTOR, (const Formal[]){V(lr), END}},
};

static double *number_field(OptimizerSpec *o, const char *name) {
  const struct {
    const char *name;
    double *at;
  } fields[] = {
      {"lr", &o->lr},       {"momentum", &o->momentum}, {"beta1", &o->beta1},
      {"beta2", &o->beta2}, {"eps", &o->eps},           {"weight_decay", &o->weight_decay},
      {"rho", &o->rho},     {"decay", &o->decay},
  };
  for (size_t i = 0; i < countof(fields); i++)
    if (!strcmp(fields[i].name, name)) return fields[i].at;
  BUG("no number %s of an optimiser", name);
}

static bool optimizer_argument(Build *b, const Formal *f, const Ast *e, OptimizerSpec *o) {
  if (!strcmp(f->name, "nesterov")) return !e || build_bool(b, e, &o->nesterov);
  if (!strcmp(f->name, "no_decay")) return !e || build_string(b, e, &o->no_decay);
  double *at = number_field(o, f->name);
  *at = f->value;
  return !e || build_number(b, e, at);
}

static bool train_optimizer(Build *b, const Ast *e, TrainSpec *t) {
  const char *near[countof(optimizers)];
  bool named = e->kind == AST_CALL || e->kind == AST_NAME;
  for (size_t i = 0; i < countof(optimizers); i++) {
    const Ast *arg[MAX_FORMALS];
    const Formal *f = optimizers[i].formal;
    near[i] = optimizers[i].name;
    if (!named || strcmp(e->text, optimizers[i].name)) continue;
    t->optimizer = (OptimizerSpec){.kind = optimizers[i].kind, .pos = e->pos};
    if (!call_bind(b, e, f, arg)) return false;
    for (int k = 0; f[k].name; k++)
      if (!optimizer_argument(b, &f[k], arg[k], &t->optimizer)) return false;
    if (t->optimizer.kind != OPTIMIZER_ADAFACTOR) return true;
    diag_error(b->d, DIAG_UNSUPPORTED, e->pos, "adafactor is not in this version");
    return false;
  }
  diag_error(b->d, DIAG_UNKNOWN_FUNCTION, e->pos, "an optimizer must stand here");
  if (named) diag_nearest(b->d, e->text, near, countof(near));
  return false;
}

// -- schedules ------------------------------------------------------------------------------------

static const struct {
  const char *name;
  ScheduleKind kind;
  const Formal *formal;
} schedules[] = {
    {"constant", SCHEDULE_CONSTANT, (const Formal[]){D(warmup, 0), END}},
    {"linear", SCHEDULE_LINEAR, (const Formal[]){V(total), D(final, 0), D(warmup, 0), END}},
    {"cosine", SCHEDULE_COSINE, (const Formal[]){V(total), D(final, 0), D(warmup, 0), END}},
    {"inverse_sqrt", SCHEDULE_INVERSE_SQRT, (const Formal[]){V(scale), D(warmup, 0), END}},
    {"exponential", SCHEDULE_EXPONENTIAL, (const Formal[]){V(rate), V(every), D(warmup, 0), END}},
    {"step", SCHEDULE_STEP, (const Formal[]){V(every), V(factor), D(warmup, 0), END}},
    {"piecewise", SCHEDULE_PIECEWISE, NULL},
};

static double *schedule_field(ScheduleSpec *s, const char *name) {
  const struct {
    const char *name;
    double *at;
  } fields[] = {
      {"warmup", &s->warmup}, {"total", &s->total}, {"final", &s->final},   {"scale", &s->scale},
      {"rate", &s->rate},     {"every", &s->every}, {"factor", &s->factor},
  };
  for (size_t i = 0; i < countof(fields); i++)
    if (!strcmp(fields[i].name, name)) return fields[i].at;
  BUG("no number %s of a schedule", name);
}

static bool schedule_pieces(Build *b, const Ast *e, ScheduleSpec *s) {
  for (uint32_t i = 0; i < e->nargs; i++) {
    const AstArg *arg = &e->args[i];
    if (arg->name && !strcmp(arg->name, "warmup")) {
      if (!build_number(b, arg->value, &s->warmup)) return false;
      continue;
    }
    int64_t n = s->npieces;
    if (!arg->key || n == MAX_PIECES) {
      diag_error(b->d, arg->key ? DIAG_UNSUPPORTED : DIAG_BAD_ARGUMENTS, arg->pos,
                 "piecewise takes up to %d pieces STEP: FACTOR", MAX_PIECES);
      return false;
    }
    if (!build_number(b, arg->key, &s->at[n]) || !build_number(b, arg->value, &s->value[n]))
      return false;
    if (n && s->at[n] <= s->at[n - 1]) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "the steps of piecewise ascend");
      return false;
    }
    s->npieces++;
  }
  if (!s->npieces)
    diag_error(b->d, DIAG_BAD_ARGUMENTS, e->pos, "piecewise needs pieces STEP: FACTOR");
  return s->npieces > 0;
}

static bool schedule_ok(Build *b, const Ast *e, const ScheduleSpec *s) {
  const char *bad =
      s->warmup < 0 ? "warmup"
      : (s->kind == SCHEDULE_LINEAR || s->kind == SCHEDULE_COSINE) && s->total <= s->warmup
          ? "total"
      : s->kind == SCHEDULE_INVERSE_SQRT && s->scale <= 0                              ? "scale"
      : (s->kind == SCHEDULE_EXPONENTIAL || s->kind == SCHEDULE_STEP) && s->every <= 0 ? "every"
                                                                                       : NULL;
  if (bad) diag_error(b->d, DIAG_BAD_ARGUMENTS, e->pos, "'%s' of %s is too small", bad, e->text);
  return !bad;
}

static bool train_schedule(Build *b, const Ast *e, TrainSpec *t) {
  const char *near[countof(schedules)];
  bool named = e->kind == AST_CALL || e->kind == AST_NAME;
  for (size_t i = 0; i < countof(schedules); i++) {
    double v[MAX_FORMALS];
    const Formal *f = schedules[i].formal;
    near[i] = schedules[i].name;
    if (!named || strcmp(e->text, schedules[i].name)) continue;
    ScheduleSpec *s = &t->schedule;
    *s = (ScheduleSpec){.kind = schedules[i].kind};
    if (!f) return schedule_pieces(b, e, s);
    for (uint32_t k = 0; k < e->nargs; k++) {
      const Ast *x = e->args[k].value;
      if (x->kind != AST_CALL || strcmp(x->text, "epochs")) continue;
      diag_error(b->d, DIAG_UNSUPPORTED, x->pos,
                 "epochs(...) in a schedule is not in this version");
      return false;
    }
    if (!call_numbers(b, e, f, v)) return false;
    for (int k = 0; f[k].name; k++) *schedule_field(s, f[k].name) = v[k];
    return schedule_ok(b, e, s);
  }
  diag_error(b->d, DIAG_UNKNOWN_FUNCTION, e->pos, "a schedule must stand here");
  if (named) diag_nearest(b->d, e->text, near, countof(near));
  return false;
}

// -- keys -----------------------------------------------------------------------------------------

static bool count_of(Build *b, const Ast *e, int64_t *out) {
  if (!build_integer(b, e, out)) return false;
  if (*out >= 0) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "a count must stand here");
  return false;
}

static bool train_steps(Build *b, const Ast *e, TrainSpec *t) { return count_of(b, e, &t->steps); }
static bool train_epochs(Build *b, const Ast *e, TrainSpec *t) {
  return count_of(b, e, &t->epochs);
}
static bool train_evaluate(Build *b, const Ast *e, TrainSpec *t) {
  return count_of(b, e, &t->evaluate);
}
static bool train_log(Build *b, const Ast *e, TrainSpec *t) { return count_of(b, e, &t->log); }
static bool train_checkpoint(Build *b, const Ast *e, TrainSpec *t) {
  return count_of(b, e, &t->checkpoint);
}

static bool limit_of(Build *b, const Ast *e, double *out) {
  if (!build_number(b, e, out)) return false;
  if (*out > 0) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "a limit above 0 must stand here");
  return false;
}

static bool train_clip_norm(Build *b, const Ast *e, TrainSpec *t) {
  return limit_of(b, e, &t->clip_norm);
}
static bool train_clip_value(Build *b, const Ast *e, TrainSpec *t) {
  return limit_of(b, e, &t->clip_value);
}

static bool matches_any(Build *b, const char *patterns, const char *name) {
  char *list = arena_printf(b->a, "%s", patterns), *save = NULL;
  for (char *p = strtok_r(list, ", ", &save); p; p = strtok_r(NULL, ", ", &save))
    if (name_matches(p, name)) return true;
  return false;
}

static bool train_frozen(Build *b, const Ast *e, TrainSpec *t) {
  const char *patterns;
  bool any = false;
  (void)t;
  if (!build_string(b, e, &patterns)) return false;
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    Decl *d = &b->g->decl.at[i];
    if (d->kind == DECL_PARAM && matches_any(b, patterns, d->name)) d->frozen = any = true;
  }
  if (!any) diag_error(b->d, DIAG_UNKNOWN_NAME, e->pos, "no parameter matches '%s'", patterns);
  return any;
}

static bool train_precision(Build *b, const Ast *e, TrainSpec *t) {
  (void)t;
  if (e->kind == AST_NAME && !strcmp(e->text, "f32")) return true;
  diag_error(b->d, DIAG_UNSUPPORTED, e->pos, "a precision other than f32 is not in this version");
  return false;
}

static bool train_accumulate(Build *b, const Ast *e, TrainSpec *t) {
  int64_t n;
  (void)t;
  if (!count_of(b, e, &n)) return false;
  if (n <= 1) return true;
  diag_error(b->d, DIAG_UNSUPPORTED, e->pos, "accumulate is not in this version");
  return false;
}

static const struct {
  const char *name;
  bool (*set)(Build *, const Ast *, TrainSpec *);
} keys[] = {
    {"optimizer", train_optimizer},
    {"schedule", train_schedule},
    {"steps", train_steps},
    {"epochs", train_epochs},
    {"evaluate", train_evaluate},
    {"log", train_log},
    {"checkpoint", train_checkpoint},
    {"clip_norm", train_clip_norm},
    {"clip_value", train_clip_value},
    {"frozen", train_frozen},
    {"precision", train_precision},
    {"accumulate", train_accumulate},
    {"stop_early", NULL},
    {"average", NULL},
    {"groups", NULL},
    {"parameters", NULL},
    {"repeat", NULL},
};

static void key_build(Build *b, const Entry *e, TrainSpec *t) {
  const char *near[countof(keys)];
  for (size_t i = 0; i < countof(keys); i++) {
    near[i] = keys[i].name;
    if (strcmp(keys[i].name, e->key)) continue;
    if (!keys[i].set)
      diag_error(b->d, DIAG_UNSUPPORTED, e->pos, "'%s' is not in this version", e->key);
    else
      (void)!keys[i].set(b, e->value, t); // what is wrong has been said
    return;
  }
  diag_error(b->d, DIAG_UNKNOWN_KEY, e->pos, "a train block has no key '%s'", e->key);
  diag_nearest(b->d, e->key, near, countof(near));
}

// -- the loss -------------------------------------------------------------------------------------

static bool is_loss(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  return node->dims.n == 0 && dtype_is_float((Dtype)node->type);
}

static void loss_build(Build *b, const Ast *e, TrainSpec *t) {
  b->g->origin = (Origin){.value = "loss", .why = "loss"};
  Value v = build_expr(b, e);
  if (!value_is_tensor(b, &v, e->pos)) return;
  NodeId n = v.kind == VALUE_NUMBER ? graph_const(b->g, TYPE_F32, v.number) : v.node;
  if (!is_loss(b->g, n)) {
    bool scalar = graph_node(b->g, n)->dims.n == 0;
    diag_error(b->d, scalar ? DIAG_BAD_TYPE : DIAG_NOT_SCALAR, e->pos,
               "the loss is a float scalar, this is %s%s",
               dtype_text((Dtype)graph_node(b->g, n)->type),
               dims_listed(b, &graph_node(b->g, n)->dims));
    return;
  }
  t->loss = e->kind == AST_NAME ? e->text : graph_find_name(b->g, "loss") ? "train.loss" : "loss";
  if (e->kind != AST_NAME) {
    Binding bound = {.value = value_tensor(n), .pos = e->pos};
    name_register(b, intern(b->names, t->loss), NAME_VALUE, &bound);
  }
  b->model->loss = t->loss;
  b->model->loss_node = n;
}

// Without a train block a scalar of that name is the loss.
static void loss_by_name(Build *b) {
  const Name *n = graph_find_name(b->g, "loss");
  if (b->model->loss || !n || !is_loss(b->g, n->value)) return;
  b->model->loss = "loss";
  b->model->loss_node = n->value;
}

void train_build(Build *b, const Ast *file) {
  const Ast *first = NULL;
  for (uint32_t i = 0; i < file->nkids; i++) {
    const Ast *s = file->kids[i];
    if (s->kind != AST_TRAIN) continue;
    if (first) {
      diag_error(b->d, DIAG_UNSUPPORTED, s->pos, "a second train block is not in this version");
      diag_note(b->d, first->pos, "first here");
      continue;
    }
    first = s;
    TrainSpec *t = arena_new_of(b->g->arena, TrainSpec);
    t->pos = s->pos;
    bool has_optimizer = false;
    Entries e = entries_read(b, s, 1, "train");
    loss_build(b, s->kids[0], t);
    for (uint32_t k = 0; k < e.n; k++) {
      key_build(b, &e.at[k], t);
      has_optimizer |= !strcmp(e.at[k].key, "optimizer");
    }
    if (!has_optimizer) {
      diag_error(b->d, DIAG_MISSING_KEY, s->pos, "a train block needs an optimizer");
      diag_hint(b->d, "add: optimizer = adam(lr = 1e-3)");
    }
    b->g->spec.train = t;
    b->g->spec.ntrain = 1;
  }
  loss_by_name(b);
}
