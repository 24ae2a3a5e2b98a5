// Reads the optimizer and the groups of a train block. Input: the entries `optimizer` and `groups`.
// Output: OptimizerSpec and GroupSpec in the TrainSpec; frontend/step/optim*.c write the updates.
#include <string.h>

#include "frontend/model/formal_internal.h"
#include "frontend/model/train_internal.h"

static const Form optimizers[] = {
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
    {"lamb", OPTIMIZER_LAMB,
     (const Formal[]){D(lr, 1e-3), D(beta1, 0.9), D(beta2, 0.999), D(eps, 1e-6),
                      D(weight_decay, 0.01), O(no_decay), END}},
    {"adadelta", OPTIMIZER_ADADELTA,
     (const Formal[]){D(lr, 1), D(rho, 0.9), D(eps, 1e-6), D(weight_decay, 0), END}},
    {"nadam", OPTIMIZER_NADAM,
     (const Formal[]){D(lr, 2e-3), D(beta1, 0.9), D(beta2, 0.999), D(eps, 1e-8), D(weight_decay, 0),
                      D(momentum_decay, 4e-3), END}},
    {"radam", OPTIMIZER_RADAM,
     (const Formal[]){D(lr, 1e-3), D(beta1, 0.9), D(beta2, 0.999), D(eps, 1e-8), D(weight_decay, 0),
                      END}},
    {"muon", OPTIMIZER_MUON,
     (const Formal[]){D(lr, 1e-3), D(momentum, 0.95), O(nesterov), D(weight_decay, 0.1),
                      O(no_decay), O(out), O(each), END}},
};

static double *number_field(OptimizerSpec *o, const char *name) {
  const struct {
    const char *name;
    double *at;
  } fields[] = {
      {"lr", &o->lr},       {"momentum", &o->momentum}, {"beta1", &o->beta1},
      {"beta2", &o->beta2}, {"eps", &o->eps},           {"weight_decay", &o->weight_decay},
      {"rho", &o->rho},     {"decay", &o->decay},       {"momentum_decay", &o->momentum_decay},
  };
  for (size_t i = 0; i < countof(fields); i++)
    if (!strcmp(fields[i].name, name)) return fields[i].at;
  BUG("no number %s of an optimizer", name);
}

static bool optimizer_argument(Build *b, const char *of, const Formal *f, const Ast *e,
                               OptimizerSpec *o) {
  if (!strcmp(f->name, "nesterov")) {
    o->nesterov = o->kind == OPTIMIZER_MUON; // the default
    return !e || build_bool(b, e, &o->nesterov);
  }
  if (!strcmp(f->name, "out")) return !e || dim_names_read(b, e, &o->out);
  if (!strcmp(f->name, "each")) return !e || dim_names_read(b, e, &o->each);
  if (!strcmp(f->name, "no_decay")) return !e || patterns_read(b, e, &o->no_decay);
  double *at = number_field(o, f->name);
  *at = f->value;
  return !e || (build_number(b, e, at) && range_ok(b, e->pos, of, f->name, *at));
}

bool optimizer_read(Build *b, const Ast *e, OptimizerSpec *out) {
  const Ast *arg[MAX_FORMALS];
  const Form *form = form_of(e, countof(optimizers), optimizers);
  if (!form) {
    form_unknown(b, e, countof(optimizers), optimizers, DIAG_UNKNOWN_FUNCTION, "an optimizer");
    return false;
  }
  *out = (OptimizerSpec){.kind = (OptimizerKind)form->kind, .pos = e->pos};
  if (!call_bind(b, e, form->formal, arg)) return false;
  for (int k = 0; form->formal[k].name; k++)
    if (!optimizer_argument(b, e->text, &form->formal[k], arg[k], out)) return false;
  return true;
}

bool groups_read(Build *b, const Ast *e, TrainSpec *t) {
  if (e->kind != AST_LIST)
    return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                      "expected groups: (\"PATTERN\": OPTIMIZER, ...)");
  t->group = arena_array(b->g->arena, GroupSpec, e->nargs);
  for (uint32_t i = 0; i < e->nargs; i++) {
    const AstArg *arg = &e->args[i];
    GroupSpec *group = &t->group[i];
    if (!arg->key)
      return diag_error(b->d, DIAG_BAD_BLOCK, arg->pos, "expected a group: \"PATTERN\": OPTIMIZER");
    if (!patterns_read(b, arg->key, &group->pattern) ||
        !optimizer_read(b, arg->value, &group->optimizer))
      return false;
    t->ngroups++;
  }
  return true;
}

const OptimizerSpec *train_optimizer(const Graph *g, const TrainSpec *t, const char *name) {
  for (uint32_t i = 0; i < t->ngroups; i++)
    if (patterns_match(g->arena, t->group[i].pattern, name)) return &t->group[i].optimizer;
  return &t->optimizer;
}
