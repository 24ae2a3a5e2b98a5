// Checks a layout against dims, tensors and mesh. Errors and warnings point to the rule.
//
//   layout b -> rows, h -> rows     # error: rows would split both b and h of hidden
#include <ctype.h>
#include <string.h>

#include "partition/sharding/sharding_internal.h"

typedef struct Checker {
  const Graph *g;
  const Layout *layout;
  Diag *d;
  Arena *scratch;
  VEC(const LayoutRule *) clash; // pairs of rules whose conflict was reported
} Checker;

static Pos rule_pos(const LayoutRule *r, Pos part) { return part.line ? part : r->pos; }

// -- names --------------------------------------------------------------------------------------

static bool dim_matches(const Graph *g, const char *pattern) {
  for (DimId i = 1; i <= dim_count(g->dims); i++) {
    const Dim *d = dim_get(g->dims, i);
    if (d->whole == i && name_matches(pattern, d->name)) return true;
  }
  return false;
}

static void check_axes(Checker *c, const LayoutRule *r) {
  for (int i = 0; i < r->axes.n; i++)
    for (int j = 0; j < i; j++)
      if (r->axes.at[i] == r->axes.at[j]) {
        diag_error(c->d, DIAG_BAD_LAYOUT, rule_pos(r, r->axis_pos),
                   "axis '%s' occurs twice in one rule", c->g->mesh->axis[r->axes.at[i]].name);
        diag_hint(c->d, "name each axis once");
        return;
      }
}

// Fills name[] with the names that a rule for one tensor may mean: those of declared tensors and of
// values. Returns the number of names.
static uint32_t tensor_names(const Checker *c, const char **name) {
  const Graph *g = c->g;
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) name[n++] = g->decl.at[i].name;
  for (uint32_t i = 0; i < g->name.n; i++) name[n++] = g->name.at[i].name;
  for (NodeId i = 1; i <= graph_count(g); i++)
    if (graph_node(g, i)->origin->value) name[n++] = graph_node(g, i)->origin->value;
  return n;
}

// Returns whether tensor `name` over `dims` has the dim that rule r names.
static bool has_dim(const Graph *g, const Dims *dims, const LayoutRule *r, const char *name) {
  for (int i = 0; i < dims->n; i++)
    if (rule_names_dim(r, name, dim_get(g->dims, dims->at[i])->name)) return true;
  return false;
}

// Returns whether some tensor to which rule r applies has the dim that the rule names.
static bool tensor_has_dim(const Checker *c, const LayoutRule *r) {
  const Graph *g = c->g;
  for (DeclId i = 1; i <= g->decl.n; i++) {
    Subject s = subject_of_decl(g, i);
    if (name_matches(r->pattern, s.name) && has_dim(g, &s.dims, r, s.name)) return true;
  }
  const Subject *subject = subjects_of_nodes(c->scratch, g);
  for (NodeId i = 1; i <= graph_count(g); i++) {
    const Subject *s = &subject[i];
    if (s->name && name_matches(r->pattern, s->name) && has_dim(g, &s->dims, r, s->name))
      return true;
  }
  for (uint32_t i = 0; i < g->name.n; i++)
    if (name_matches(r->pattern, g->name.at[i].name) &&
        has_dim(g, graph_node(g, g->name.at[i].value)->dims, r, g->name.at[i].name))
      return true;
  return false;
}

// Hints at what a rule whose dim is the name of tensors may mean.
static void hint_scope(Checker *c, const char *name) {
  static const char *const groups[] = {"optimizer", "gradients", "parameters"};
  for (size_t i = 0; i < countof(groups); i++)
    if (!strcmp(groups[i], name))
      diag_hint(c->d, "write %s: all -> AXIS, on the command line %s/all=AXIS", name, name);
  for (uint32_t i = 0; i < c->g->decl.n; i++)
    if (!strcmp(c->g->decl.at[i].name, name))
      diag_hint(c->d,
                "'%s' is a tensor: name the dim, %s: DIM -> AXIS, on the command line "
                "%s/DIM=AXIS",
                name, name, name);
}

static void check_dim(Checker *c, const LayoutRule *r) {
  if (!r->dim || dim_matches(c->g, r->dim)) return;
  if (r->scope == LAYOUT_TENSOR && (c->g->stage != STAGE_GRAPH || tensor_has_dim(c, r)))
    return; // a tensor of the rule has a dim with this short name
  uint32_t n = dim_count(c->g->dims), k = 0;
  const char **name = arena_array(c->scratch, const char *, n + 1);
  for (DimId i = 1; i <= n; i++)
    if (dim_get(c->g->dims, i)->whole == i) name[k++] = dim_get(c->g->dims, i)->name;
  diag_error(c->d, DIAG_LAYOUT_UNKNOWN_DIM, rule_pos(r, r->dim_pos),
             "unknown dim '%s' in the layout", r->dim);
  if (k && k <= 12) diag_one_of(c->d, name, k);
  if (!diag_nearest(c->d, r->dim, name, k)) hint_scope(c, r->dim);
}

// Returns whether names a and b differ only in the numbers of rounds (iterations) of a `for`, as
// layer.0.w and layer.3.w do.
static bool other_round(const char *a, const char *b) {
  bool differ = false;
  for (; *a && *b; a++, b++) {
    if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b) && a[-1] == '.' && b[-1] == '.') {
      size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
      differ |= n != m || memcmp(a, b, n) != 0;
      a += n - 1, b += m - 1;
    } else if (*a != *b) {
      return false;
    }
  }
  return differ && *a == *b;
}

// Reports rule r if it covers a tensor of some rounds (iterations) of a `for` but not of others.
// All rounds share their kernels, so they must have equal shardings.
static void check_rounds(Checker *c, const LayoutRule *r, uint32_t n, const char **name) {
  for (uint32_t i = 0; i < n; i++) {
    if (!name_matches(r->pattern, name[i])) continue;
    for (uint32_t j = 0; j < n; j++) {
      if (name_matches(r->pattern, name[j]) || !other_round(name[i], name[j])) continue;
      diag_error(c->d, DIAG_LAYOUT_ROUNDS, r->pos,
                 "the rule covers %s, but not %s in another round of the loop", name[i], name[j]);
      return;
    }
  }
}

// Reports rule r if it names a tensor that does not exist or that lacks the dim of the rule. Only
// the whole graph is checked: after `select` a tensor of the model may be absent.
static void check_tensor(Checker *c, const LayoutRule *r) {
  if (r->scope != LAYOUT_TENSOR || c->g->stage != STAGE_GRAPH) return;
  const char **name =
      arena_array(c->scratch, const char *, c->g->decl.n + c->g->name.n + graph_count(c->g) + 1);
  uint32_t n = tensor_names(c, name);
  for (uint32_t i = 0; i < n; i++) {
    if (!name_matches(r->pattern, name[i])) continue;
    if (r->dim && dim_matches(c->g, r->dim) && !tensor_has_dim(c, r)) {
      diag_error(c->d, DIAG_LAYOUT_UNKNOWN_DIM, rule_pos(r, r->dim_pos), "%s has no dim '%s'",
                 r->pattern, r->dim);
      diag_hint(c->d, "name a dim that it has, or drop the rule");
    }
    check_rounds(c, r, n, name);
    return;
  }
  if (!strncmp(r->pattern, "optimizer.", 10))
    return; // optimizer states are declared later, with the update
  diag_error(c->d, DIAG_LAYOUT_NO_TENSOR, r->pos, "no tensor is named '%s'", r->pattern);
  diag_nearest(c->d, r->pattern, name, n);
}

// -- rules against each other -------------------------------------------------------------------

static bool same_target(const LayoutRule *a, const LayoutRule *b) {
  if (a->scope != b->scope || a->soft != b->soft || (a->dim == NULL) != (b->dim == NULL))
    return false;
  if (a->dim && strcmp(a->dim, b->dim) != 0) return false;
  return a->scope != LAYOUT_TENSOR || !strcmp(a->pattern, b->pattern);
}

static void check_duplicates(Checker *c) {
  for (uint32_t i = 0; i < c->layout->n; i++)
    for (uint32_t j = 0; j < i; j++) {
      const LayoutRule *r = &c->layout->rule[i], *first = &c->layout->rule[j];
      if (!same_target(r, first)) continue;
      diag_error(c->d, DIAG_LAYOUT_DUPLICATE, rule_pos(r, r->dim_pos), "two rules place dim '%s'",
                 r->dim ? r->dim : "all");
      diag_note(c->d, rule_pos(first, first->dim_pos), "the first one");
      break;
    }
}

// -- two dims on one axis -----------------------------------------------------------------------

static bool said_already(const Checker *c, const LayoutRule *a, const LayoutRule *b) {
  for (uint32_t i = 0; i + 1 < c->clash.n; i += 2)
    if (c->clash.at[i] == a && c->clash.at[i + 1] == b) return true;
  return false;
}

static void say_conflict(Checker *c, const Subject *s, const char *name, Pos pos, const Request *w,
                         int i, int j, int axis) {
  const LayoutRule *a = &c->layout->rule[w->rule[i] - 1], *b = &c->layout->rule[w->rule[j] - 1];
  int first = i, second = j;
  if (a > b) {
    const LayoutRule *t = a;
    a = b, b = t;
    first = j, second = i;
  }
  if (said_already(c, a, b)) return;
  vec_push(c->scratch, c->clash) = a;
  vec_push(c->scratch, c->clash) = b;
  const char *x = dim_get(c->g->dims, s->dims.at[first])->name,
             *y = dim_get(c->g->dims, s->dims.at[second])->name;
  const char *on = c->g->mesh->axis[axis].name, *dims = dims_text(c->scratch, c->g->dims, &s->dims);
  diag_error(c->d, DIAG_LAYOUT_CONFLICT, b->pos,
             "axis '%s' would split both '%s' and '%s' of %s[%s]", on, x, y, name, dims);
  diag_note(c->d, pos, "%s is made here", name);
  if (a != b) diag_note(c->d, a->pos, "'%s' is split here", x);
  diag_hint(c->d,
            "drop %s -> %s or %s -> %s, use another axis for one of them, or rename one of the "
            "dims in %s",
            x, on, y, on, name);
}

static void check_subject(Checker *c, const Subject *s, const char *name, Pos pos) {
  Request w;
  request_resolve(c->g, c->layout, s, &w);
  for (int i = 0; i < s->dims.n; i++)
    for (int j = 0; j < i; j++)
      for (int k = 0; k < w.hard[i].n; k++)
        if (axes_has(w.hard[j], w.hard[i].at[k])) {
          say_conflict(c, s, name, pos, &w, j, i, w.hard[i].at[k]);
          return;
        }
}

// Checks named values, and results of reductions and contractions, for two dims on one axis. Other
// values, such as sums of gradients, may have two dims on one axis; the axis then splits only one
// of them.
static void check_values(Checker *c) {
  const Graph *g = c->g;
  Subject *subject = subjects_of_nodes(c->scratch, g);
  bool *named = arena_array(c->scratch, bool, graph_count(g) + 1);
  for (uint32_t i = 0; i < g->name.n; i++) named[g->name.at[i].value] = true;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    OpClass cls = op_row((Op)node->op)->cls;
    if (node->op == OP_PIN) continue; // layout(...) in the model replaces the rules
    if (node->attr->decl || (node->origin->backward && !named[n])) continue;
    if (!named[n] && !subject[n].name && cls != REDUCE && cls != CONTRACT) continue;
    const char *name = subject[n].name ? subject[n].name : node->origin->value;
    check_subject(c, &subject[n], name ? name : op_row((Op)node->op)->text, node->origin->pos);
  }
}

// Checks the tensors that training will add for parameter `id`: its gradient, and the states of its
// optimizer.
static void check_trained(Checker *c, DeclId id) {
  const Decl *d = &c->g->decl.at[id - 1];
  if (d->kind != DECL_PARAM || d->frozen || !c->g->spec.ntrain) return;
  Subject slot = subject_of_decl(c->g, id), gradient = slot;
  slot.param = d->name;
  slot.scope = LAYOUT_OPTIMIZER;
  slot.name = arena_printf(c->scratch, "optimizer.%s", d->name);
  gradient.scope = LAYOUT_GRADIENTS;
  gradient.name = arena_printf(c->scratch, "grad(%s)", d->name);
  for (uint32_t r = 0; r < c->layout->n; r++) {
    if (c->layout->rule[r].scope == LAYOUT_OPTIMIZER) check_subject(c, &slot, slot.name, d->pos);
    if (c->layout->rule[r].scope == LAYOUT_GRADIENTS)
      check_subject(c, &gradient, gradient.name, d->pos);
  }
}

static void check_tensors(Checker *c) {
  for (DeclId i = 1; i <= c->g->decl.n; i++) {
    Subject s = subject_of_decl(c->g, i);
    check_subject(c, &s, s.name, c->g->decl.at[i - 1].pos);
    check_trained(c, i);
  }
  check_values(c);
}

// -- warnings -----------------------------------------------------------------------------------

bool axis_is_pinned(const Graph *g, int axis) {
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    for (int i = 0; node->op == OP_PIN && i < node->attr->ndims; i++)
      if (node->attr->axes.at[i] == axis) return true;
  }
  return false;
}

static void check_unused(Checker *c) {
  for (int a = 0; a < c->g->mesh->naxes; a++) {
    bool used = c->g->mesh->axis[a].size == 1 || axis_is_pinned(c->g, a);
    for (uint32_t r = 0; r < c->layout->n; r++) used |= axes_has(c->layout->rule[r].axes, a);
    if (!used)
      diag_warning(c->d, DIAG_AXIS_UNUSED, c->g->mesh->axis[a].pos, "no layout rule uses axis '%s'",
                   c->g->mesh->axis[a].name);
  }
}

static bool value_has(const Graph *g, const LayoutRule *r) {
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (has_dim(g, graph_node(g, n)->dims, r, NULL)) return true;
  for (DeclId i = 1; i <= g->decl.n; i++) {
    Subject s = subject_of_decl(g, i);
    if (has_dim(g, &s.dims, r, NULL)) return true;
  }
  return false;
}

static void check_never_split(Checker *c) {
  if (c->g->stage != STAGE_GRAPH) return;
  for (uint32_t i = 0; i < c->layout->n; i++) {
    const LayoutRule *r = &c->layout->rule[i];
    if (r->dim && dim_matches(c->g, r->dim) && !value_has(c->g, r))
      diag_warning(c->d, DIAG_DIM_NEVER_SPLIT, rule_pos(r, r->dim_pos),
                   "no tensor has the dim '%s'", r->dim);
  }
}

// Warns of rule r if it gives some processors no part of its dim, which is `dim`.
static void check_blocks(Checker *c, const LayoutRule *r, const Dim *dim) {
  const Mesh *m = c->g->mesh;
  int64_t parts = axes_size(m, r->axes), block = block_length(m, dim->size, r->axes),
          used = (dim->size + block - 1) / block;
  if (used == parts) return;
  const char *axes = axes_text(c->scratch, m, r->axes);
  diag_warning(c->d, DIAG_PROCESSORS_IDLE, rule_pos(r, r->dim_pos),
               "%lld of the %lld processors along %s have no part of '%s': it is %lld in blocks of "
               "%lld",
               (long long)(parts - used), (long long)parts, axes, dim->name, (long long)dim->size,
               (long long)block);
  diag_hint(c->d, "%lld processors along %s suffice, or make the dim a multiple of %lld",
            (long long)used, axes, (long long)parts);
}

static void check_idle(Checker *c) {
  const DimTable *t = c->g->dims;
  for (uint32_t i = 0; i < c->layout->n; i++) {
    const LayoutRule *r = &c->layout->rule[i];
    for (DimId d = 1; r->dim && !r->soft && !r->none && d <= dim_count(t); d++)
      if (dim_get(t, d)->whole == d && !strcmp(dim_get(t, d)->name, r->dim))
        check_blocks(c, r, dim_get(t, d));
  }
}

bool layout_check(const Graph *g, const Layout *layout, Diag *d) {
  Checker c = {.g = g, .layout = layout, .d = d, .scratch = arena_new()};
  int before = diag_errors(d);
  for (uint32_t i = 0; i < layout->n; i++) {
    check_dim(&c, &layout->rule[i]);
    check_axes(&c, &layout->rule[i]);
    check_tensor(&c, &layout->rule[i]);
  }
  check_duplicates(&c);
  if (diag_errors(d) == before) check_tensors(&c);
  check_unused(&c);
  check_never_split(&c);
  check_idle(&c);
  arena_free(c.scratch);
  return diag_errors(d) == before;
}
