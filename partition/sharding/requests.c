// Resolves the rules of a layout to the request for one tensor.
//
// General rules come first; rules for parameters, optimizer or gradients, then rules for the tensor
// by name replace them for the dims that they name. `all` takes the largest dim that no rule splits
// yet, a soft rule any axis that is still free. A slot of the optimizer follows the rules of its
// parameter, then those of gradients, with which it is updated.
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
  size_t n = strlen(full), k = strlen(r->dim);
  bool local = r->scope == LAYOUT_TENSOR && name && n > k + 1 && full[n - k - 1] == '.' &&
               !strcmp(full + n - k, r->dim);
  return local && !strncmp(name, full, n - k);
}

// Applies the hard rules of one scope that name dims.
static void apply_named(const Graph *g, const Layout *layout, LayoutScope scope, const char *name,
                        const Dims *dims, Request *w) {
  for (uint32_t r = 0; r < layout->n; r++) {
    const LayoutRule *rule = &layout->rule[r];
    if (!rule->dim || rule->soft || !rule_applies(rule, scope, name)) continue;
    for (int i = 0; i < dims->n; i++) {
      if (!rule_names_dim(rule, name, dim_get(g->dims, dims->at[i])->name)) continue;
      w->hard[i] = rule->none ? (Axes){0} : real_axes(g->mesh, rule->axes);
      w->replicated[i] = rule->none;
      w->rule[i] = (uint16_t)(r + 1);
    }
  }
}

static bool request_uses(const Request *w, int ndims, int axis) {
  for (int i = 0; i < ndims; i++)
    if (axes_has(w->hard[i], axis) || axes_has(w->soft[i], axis)) return true;
  return false;
}

static Axes free_axes(const Graph *g, const Request *w, int ndims, const LayoutRule *rule) {
  Axes real = real_axes(g->mesh, rule->axes), out = {0};
  for (int i = 0; i < real.n; i++)
    if (!request_uses(w, ndims, real.at[i])) axes_append(&out, real.at[i]);
  return out;
}

static void set_soft(Request *w, int k, Axes axes, uint32_t rule) {
  axes_join(&w->soft[k], axes);
  for (int i = 0; i < axes.n; i++) w->soft_rule[axes.at[i]] = (uint16_t)(rule + 1);
}

static void apply_all(const Graph *g, const Layout *layout, LayoutScope scope, const char *name,
                      const Dims *dims, Request *w) {
  for (uint32_t r = 0; r < layout->n; r++) {
    const LayoutRule *rule = &layout->rule[r];
    if (rule->dim || rule->none || !rule_applies(rule, scope, name)) continue;
    Axes axes = free_axes(g, w, dims->n, rule);
    int best = -1;
    int64_t size = 1;
    for (int i = 0; i < dims->n; i++) {
      int64_t n = dim_get(g->dims, dims->at[i])->size;
      if (!w->hard[i].n && !w->replicated[i] && n > size) best = i, size = n;
    }
    if (best < 0 || !axes.n) continue;
    if (rule->soft)
      w->soft[best] = (Axes){0}, set_soft(w, best, axes, r);
    else
      w->hard[best] = axes, w->rule[best] = (uint16_t)(r + 1);
  }
}

static void apply_soft(const Graph *g, const Layout *layout, LayoutScope scope, const char *name,
                       const Dims *dims, Request *w) {
  for (uint32_t r = 0; r < layout->n; r++) {
    const LayoutRule *rule = &layout->rule[r];
    if (!rule->dim || !rule->soft || !rule_applies(rule, scope, name)) continue;
    for (int i = 0; i < dims->n; i++) {
      if (w->replicated[i] || !rule_names_dim(rule, name, dim_get(g->dims, dims->at[i])->name))
        continue;
      Axes axes = free_axes(g, w, dims->n, rule);
      if (!axes.n) continue;
      set_soft(w, i, axes, r);
    }
  }
}

typedef void Apply(const Graph *, const Layout *, LayoutScope, const char *, const Dims *,
                   Request *);

static void apply_scopes(Apply *apply, const Graph *g, const Layout *layout, const Subject *s,
                         Request *w) {
  apply(g, layout, LAYOUT_ALL, NULL, &s->dims, w);
  if (s->param) {
    apply(g, layout, LAYOUT_PARAMETERS, NULL, &s->dims, w);
    apply(g, layout, LAYOUT_TENSOR, s->param, &s->dims, w);
    apply(g, layout, LAYOUT_GRADIENTS, NULL, &s->dims, w);
  }
  if (s->scope != LAYOUT_ALL) apply(g, layout, s->scope, NULL, &s->dims, w);
  if (s->name) apply(g, layout, LAYOUT_TENSOR, s->name, &s->dims, w);
}

void request_resolve(const Graph *g, const Layout *layout, const Subject *s, Request *out) {
  static Apply *const order[] = {apply_named, apply_all, apply_soft};
  memset(out, 0, sizeof *out);
  if (!layout) return;
  for (size_t i = 0; i < countof(order); i++) apply_scopes(order[i], g, layout, s, out);
}

void request_add_soft(const Request *w, int ndims, Sharding *s) {
  for (int k = 0; k < ndims; k++)
    for (int i = 0; i < w->soft[k].n; i++) {
      int axis = w->soft[k].at[i];
      if (sharding_dim_of(s, ndims, axis) >= 0) continue;
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

Subject *subjects_of_nodes(Arena *a, const Graph *g) {
  uint32_t n = graph_count(g);
  Subject *s = arena_array(a, Subject, n + 1);
  bool *inside = arena_array(a, bool, n + 1); // another node of the same line reads it
  for (NodeId u = 1; u <= n; u++) {
    const Node *node = graph_node(g, u);
    for (int i = 0; i < node->nargs; i++) {
      const Node *arg = graph_node(g, node->args[i]);
      if (arg->origin.value && arg->origin.value == node->origin.value &&
          arg->origin.backward == node->origin.backward)
        inside[node->args[i]] = true;
    }
  }
  for (NodeId u = 1; u <= n; u++) {
    const Node *node = graph_node(g, u);
    if (node->attr.decl && op_row((Op)node->op)->cls == SOURCE) {
      s[u] = subject_of_decl(g, node->attr.decl);
      continue;
    }
    s[u].dims = node->dims;
    const Origin *o = &node->origin;
    if (o->value && !inside[u] && (!o->backward || is_param(g, o->gradient_of)))
      name_subject(g, &s[u], o->value, o->gradient_of);
  }
  for (uint32_t o = 0; o < g->output.n; o++) {
    const Output *out = &g->output.at[o];
    Subject *subject = &s[out->value];
    if (out->kind == OUT_VALUE && out->name && !graph_node(g, out->value)->attr.decl &&
        (!subject->name || is_param(g, out->gradient_of)))
      name_subject(g, subject, out->name, out->gradient_of);
  }
  return s;
}
