// Makes the request for one tensor (struct Request) from the rules of a layout.
//
// General rules come first; rules for parameters, optimizer or gradients, then rules for the tensor
// by name replace them for the dims that they name. `all` takes the largest dim that no rule splits
// yet, a soft rule any axis that is still free. An optimizer's tensor follows the rules of its
// parameter, then those of gradients, because a gradient updates it.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

static Axes real_axes(const Mesh *m, Axes axes) {
  Axes out = {0};
  for (int i = 0; i < axes.n; i++)
    if (m->axis[axes.at[i]].size > 1) axes_append(&out, axes.at[i]);
  return out;
}

static bool rule_applies(const LayoutRule *r, LayoutScope scope, const char *name) {
  if (r->scope == LAYOUT_TENSOR)
    return scope == LAYOUT_TENSOR && name && name_matches(r->pattern, name);
  return r->scope == scope;
}

bool rule_names_dim(const LayoutRule *r, const char *name, const char *full) {
  if (name_matches(r->dim, full)) return true;
  if (r->scope != LAYOUT_TENSOR || !name) return false;
  size_t n = strlen(full), k = strlen(r->dim);
  bool local = n > k + 1 && full[n - k - 1] == '.' && !strcmp(full + n - k, r->dim);
  return local && !strncmp(name, full, n - k);
}

// Kinds of rules, in the order in which they apply.
enum { RULE_NAMED, RULE_ALL, RULE_SOFT, RULE_KINDS };

// A tensor over `dims` to which layout rules are applied, and the request that they have made so
// far.
typedef struct Resolver {
  const Graph *g;
  const Layout *layout;
  const Dims *dims;
  Request *out;
  uint32_t scopes[RULE_KINDS]; // [kind] bits of the scopes that rules of this kind have
} Resolver;

// Returns whether rule r names dim number i of tensor `name`.
static bool names(const Resolver *x, const LayoutRule *r, const char *name, int i) {
  return rule_names_dim(r, name, dim_get(x->g->dims, x->dims->at[i])->name);
}

// Applies rule number r, a hard rule `dim -> axes`, to the matching dims of tensor `name`.
static void apply_named(const Resolver *x, uint32_t r, const char *name) {
  const LayoutRule *rule = &x->layout->rule[r];
  for (int i = 0; i < x->dims->n; i++) {
    if (!names(x, rule, name, i)) continue;
    x->out->hard[i] = rule->none ? (Axes){0} : real_axes(x->g->mesh, rule->axes);
    x->out->replicated[i] = rule->none;
    x->out->rule[i] = (uint16_t)(r + 1);
  }
}

// Returns the axes of `rule` that split no dim in the request made so far.
static Axes free_axes(const Resolver *x, const LayoutRule *rule) {
  Axes used = {0};
  for (int i = 0; i < x->dims->n; i++)
    axes_join(&used, x->out->hard[i]), axes_join(&used, x->out->soft[i]);
  return axes_without(real_axes(x->g->mesh, rule->axes), used);
}

static void set_soft(Request *w, int k, Axes axes, uint32_t rule) {
  axes_join(&w->soft[k], axes);
  for (int i = 0; i < axes.n; i++) w->soft_rule[axes.at[i]] = (uint16_t)(rule + 1);
}

// Applies rule number r, of the form `all -> axes`, to the largest dim that no rule splits yet.
static void apply_all(const Resolver *x, uint32_t r, const char *name) {
  const LayoutRule *rule = &x->layout->rule[r];
  Request *w = x->out;
  Axes axes = free_axes(x, rule);
  int best = -1;
  int64_t size = 1;
  (void)name;
  for (int i = 0; i < x->dims->n; i++) {
    int64_t n = dim_get(x->g->dims, x->dims->at[i])->size;
    if (!w->hard[i].n && !w->replicated[i] && n > size) best = i, size = n;
  }
  if (best < 0 || !axes.n || rule->none) return;
  if (rule->soft)
    w->soft[best] = (Axes){0}, set_soft(w, best, axes, r);
  else
    w->hard[best] = axes, w->rule[best] = (uint16_t)(r + 1);
}

static void apply_soft(const Resolver *x, uint32_t r, const char *name) {
  const LayoutRule *rule = &x->layout->rule[r];
  for (int i = 0; i < x->dims->n; i++)
    if (!x->out->replicated[i] && names(x, rule, name, i))
      set_soft(x->out, i, free_axes(x, rule), r);
}

// Applies rule number `rule` to tensor `name`. Each kind of rule has one such function.
typedef void Apply(const Resolver *x, uint32_t rule, const char *name);
static Apply *const apply[] = {apply_named, apply_all, apply_soft};

static int rule_kind(const LayoutRule *r) {
  return !r->dim ? RULE_ALL : r->soft ? RULE_SOFT : RULE_NAMED;
}

static void apply_scope(const Resolver *x, int kind, LayoutScope scope, const char *name) {
  if (!(x->scopes[kind] >> scope & 1)) return;
  for (uint32_t r = 0; r < x->layout->n; r++)
    if (rule_kind(&x->layout->rule[r]) == kind && rule_applies(&x->layout->rule[r], scope, name))
      apply[kind](x, r, name);
}

void request_resolve(const Graph *g, const Layout *layout, const Subject *s, Request *out) {
  Resolver x = {g, layout, &s->dims, out, {0}};
  memset(out, 0, sizeof *out);
  out->rank = s->dims.n;
  for (uint32_t r = 0; layout && r < layout->n; r++)
    x.scopes[rule_kind(&layout->rule[r])] |= 1u << layout->rule[r].scope;
  for (int kind = 0; layout && kind < RULE_KINDS; kind++) {
    apply_scope(&x, kind, LAYOUT_ALL, NULL);
    if (s->param) {
      apply_scope(&x, kind, LAYOUT_PARAMETERS, NULL);
      apply_scope(&x, kind, LAYOUT_TENSOR, s->param);
      apply_scope(&x, kind, LAYOUT_GRADIENTS, NULL);
    }
    if (s->scope != LAYOUT_ALL) apply_scope(&x, kind, s->scope, NULL);
    if (s->name) apply_scope(&x, kind, LAYOUT_TENSOR, s->name);
  }
}

void request_add_soft(const Request *w, Sharding *s) {
  for (int k = 0; k < w->rank; k++)
    for (int i = 0; i < w->soft[k].n; i++) {
      int axis = w->soft[k].at[i];
      if (sharding_dim_of(s, axis) >= 0) continue;
      axes_append(&s->split[k], axis);
      s->rule[axis] = w->soft_rule[axis];
    }
}

Subject subject_of_decl(const Graph *g, DeclId d) {
  static const LayoutScope scope[] = {[DECL_INPUT] = LAYOUT_ALL,
                                      [DECL_PARAM] = LAYOUT_PARAMETERS,
                                      [DECL_STATE] = LAYOUT_ALL,
                                      [DECL_SLOT] = LAYOUT_OPTIMIZER};
  const Decl *decl = &g->decl.at[d - 1];
  Subject s = {.scope = scope[decl->kind], .name = decl->name};
  for (int i = 0; i < decl->rank; i++)
    if (!dims_add(g->dims, &s.dims, decl->dims[i])) BUG("decl %s has too many dims", decl->name);
  if (decl->kind == DECL_SLOT && decl->of) s.param = g->decl.at[decl->of - 1].name;
  return s;
}

static bool is_param(const Graph *g, const char *name) {
  DeclId d = name ? graph_find_decl(g, name) : 0;
  return d && g->decl.at[d - 1].kind == DECL_PARAM;
}

static void name_subject(const Graph *g, Subject *s, const char *name, const char *gradient_of) {
  s->name = name;
  s->gradient_of = gradient_of;
  if (is_param(g, gradient_of)) s->scope = LAYOUT_GRADIENTS;
}

// Returns for each node whether it is read within its statement: then it is not the result.
static bool *find_inside(Arena *a, const Graph *g) {
  bool *inside = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    for (int i = 0; i < node->nargs; i++) {
      const Node *arg = graph_node(g, node->args[i]);
      if (arg->origin->value && arg->origin->value == node->origin->value &&
          arg->origin->backward == node->origin->backward)
        inside[node->args[i]] = true;
    }
  }
  return inside;
}

static Subject subject_of_node(const Graph *g, NodeId n, bool inside) {
  const Node *node = graph_node(g, n);
  const Origin *o = node->origin;
  if (node->attr->decl && op_row((Op)node->op)->cls == SOURCE)
    return subject_of_decl(g, node->attr->decl);
  Subject s = {.dims = *node->dims};
  if (o->value && !inside && (!o->backward || is_param(g, o->gradient_of)))
    name_subject(g, &s, o->value, o->gradient_of);
  return s;
}

// Gives values that are outputs the names of these, if they have no names of their own.
static void name_outputs(const Graph *g, Subject *s) {
  for (uint32_t o = 0; o < g->output.n; o++) {
    const Output *out = &g->output.at[o];
    Subject *subject = &s[out->value];
    if (out->kind == OUT_VALUE && out->name && !graph_node(g, out->value)->attr->decl &&
        (!subject->name || is_param(g, out->gradient_of)))
      name_subject(g, subject, out->name, out->gradient_of);
  }
}

Subject *subjects_of_nodes(Arena *a, const Graph *g) {
  Subject *s = arena_array(a, Subject, graph_count(g) + 1);
  const bool *inside = find_inside(a, g);
  for (NodeId n = 1; n <= graph_count(g); n++) s[n] = subject_of_node(g, n, inside[n]);
  name_outputs(g, s);
  return s;
}
