// Lists the layouts that differ from a given one in one rule, or in two. See moves.h.
#include "frontend/driver/moves.h"

#include <string.h>

const char *const move_kinds[] = {"add", "replace", "exchange", "both"};

// What the functions of this file share: the layout from which moves are made, and those so far.
typedef struct Mover {
  Arena *a;
  const Graph *g;
  const Layout *from;
  Moves out;
} Mover;

// -- which layouts are valid --------------------------------------------------------------------

// Returns the size of dim `name`, or 0 if the graph has no such dim.
static int64_t dim_size_of(const Graph *g, const char *name) {
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->whole == d && !strcmp(dim_get(g->dims, d)->name, name))
      return dim_get(g->dims, d)->size;
  return 0;
}

// Returns whether every processor gets a part of the dim that rule r splits.
static bool gives_to_all(const Graph *g, const LayoutRule *r) {
  int64_t size = r->dim ? dim_size_of(g, r->dim) : 0;
  return !size || size >= axes_size(g->mesh, r->axes);
}

static bool valid(const Mover *m, const Layout *l) {
  Arena *scratch = arena_new();
  bool good = layout_check(m->g, l, diag_new(scratch));
  arena_free(scratch);
  return good;
}

// Adds the move to m->out if its layout is valid.
static void offer(Mover *m, MoveKind kind, Layout layout, const char *text) {
  if (valid(m, &layout))
    vec_push(m->a, m->out.move) = (Move){.kind = kind, .text = text, .layout = layout};
}

static const char *rule_text(const Mover *m, const LayoutRule *r) {
  return layout_rule_text(m->a, m->g->mesh, r);
}

// Returns a copy of m->from with room for one rule more.
static Layout copy_of(const Mover *m) {
  Layout out = {m->from->n, arena_array(m->a, LayoutRule, m->from->n + 1)};
  if (out.n) memcpy(out.rule, m->from->rule, out.n * sizeof *out.rule);
  return out;
}

// Returns whether rules x and y place the same dims of the same tensors.
static bool same_target(const LayoutRule *x, const LayoutRule *y) {
  bool same_dim = x->dim && y->dim ? !strcmp(x->dim, y->dim) : x->dim == y->dim;
  bool same_tensors =
      x->pattern && y->pattern ? !strcmp(x->pattern, y->pattern) : x->pattern == y->pattern;
  return x->scope == y->scope && x->soft == y->soft && same_dim && same_tensors;
}

static bool has_target(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++)
    if (same_target(&l->rule[i], r)) return true;
  return false;
}

// -- one more rule ------------------------------------------------------------------------------

static void add_rule(Mover *m, LayoutRule r) {
  if (has_target(m->from, &r) || !gives_to_all(m->g, &r)) return;
  Layout layout = copy_of(m);
  layout.rule[layout.n++] = r;
  offer(m, MOVE_ADD, layout, arena_printf(m->a, "+ %s", rule_text(m, &r)));
}

// Returns whether a rule can split dim d: some value has it, and users can name it. Dims of
// functions and of rounds (iterations) of a `for` have a dot in their name.
static bool is_splittable(const Graph *g, DimId d) {
  const Dim *dim = dim_get(g->dims, d);
  if (dim->whole != d || dim->size < 2 || strchr(dim->name, '.')) return false;
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (dims_has(graph_node(g, n)->dims, d)) return true;
  return false;
}

static void add_rules_of_dims(Mover *m, Axes axes, bool soft) {
  for (DimId d = 1; d <= dim_count(m->g->dims); d++)
    if (is_splittable(m->g, d))
      add_rule(m, (LayoutRule){.dim = dim_get(m->g->dims, d)->name, .axes = axes, .soft = soft});
}

// Adds the moves with one more rule for `axes`: of a dim, and for all tensors of the optimizer, all
// gradients or all parameters (ZeRO). For a single axis also soft rules.
static void add_rules(Mover *m, Axes axes) {
  static const LayoutScope scopes[] = {LAYOUT_OPTIMIZER, LAYOUT_GRADIENTS, LAYOUT_PARAMETERS};
  add_rules_of_dims(m, axes, false);
  if (axes.n == 1) add_rules_of_dims(m, axes, true);
  for (size_t i = 0; i < countof(scopes) && m->g->spec.ntrain; i++)
    add_rule(m, (LayoutRule){.scope = scopes[i], .axes = axes});
}

// -- a rule in place of another -----------------------------------------------------------------

static void replace_rule(Mover *m, uint32_t i, LayoutRule r) {
  const LayoutRule *old = &m->from->rule[i];
  Layout layout = copy_of(m);
  if (!gives_to_all(m->g, &r)) return;
  layout.rule[i] = r;
  offer(m, MOVE_REPLACE, layout,
        arena_printf(m->a, "%s in place of %s", rule_text(m, &r), rule_text(m, old)));
}

// Adds the moves that give rule i other axes: one that it does not have in place of all of its own,
// or after them.
static void replace_axes(Mover *m, uint32_t i) {
  const LayoutRule *old = &m->from->rule[i];
  for (int k = 0; k < m->g->mesh->naxes; k++) {
    LayoutRule other = *old, more = *old;
    if (m->g->mesh->axis[k].size < 2 || axes_has(old->axes, k)) continue;
    other.axes = (Axes){1, {(uint8_t)k}};
    replace_rule(m, i, other);
    more.axes.at[more.axes.n++] = (uint8_t)k;
    replace_rule(m, i, more);
  }
}

// Adds the moves that let rule i split another dim, which no rule splits yet.
static void replace_dim(Mover *m, uint32_t i) {
  LayoutRule r = m->from->rule[i];
  if (r.scope != LAYOUT_ALL || !r.dim || r.soft) return;
  for (DimId d = 1; d <= dim_count(m->g->dims); d++) {
    r.dim = dim_get(m->g->dims, d)->name;
    if (is_splittable(m->g, d) && !has_target(m->from, &r)) replace_rule(m, i, r);
  }
}

static void exchange_axes(Mover *m, uint32_t i, uint32_t j) {
  Layout layout = copy_of(m);
  LayoutRule *x = &layout.rule[i], *y = &layout.rule[j];
  if (x->none || y->none || axes_equal(x->axes, y->axes)) return;
  Axes kept = x->axes;
  x->axes = y->axes;
  y->axes = kept;
  if (!gives_to_all(m->g, x) || !gives_to_all(m->g, y)) return;
  offer(m, MOVE_EXCHANGE, layout,
        arena_printf(m->a, "%s and %s, exchanged", rule_text(m, x), rule_text(m, y)));
}

// -- all of them --------------------------------------------------------------------------------

// Adds the moves with one more rule: first those of one axis, then those of all axes together.
static void add_to_axes(Mover *m) {
  Axes all = {0};
  for (int k = 0; k < m->g->mesh->naxes; k++) {
    if (m->g->mesh->axis[k].size < 2) continue;
    add_rules(m, (Axes){1, {(uint8_t)k}});
    all.at[all.n++] = (uint8_t)k;
  }
  if (all.n > 1) add_rules(m, all);
}

Moves moves_list(Arena *a, const Graph *g, const Layout *from) {
  Mover m = {.a = a, .g = g, .from = from};
  for (uint32_t i = 0; i < from->n; i++) {
    if (from->rule[i].none || from->rule[i].scope == LAYOUT_TENSOR) continue;
    replace_axes(&m, i);
    replace_dim(&m, i);
    for (uint32_t j = 0; j < i; j++)
      if (from->rule[j].scope == from->rule[i].scope) exchange_axes(&m, j, i);
  }
  add_to_axes(&m);
  return m.out;
}

bool moves_join(Arena *a, const Graph *g, const Layout *from, const Move *x, const Move *y,
                Move *out) {
  Mover m = {.a = a, .g = g, .from = &x->layout};
  const LayoutRule *second = &y->layout.rule[from->n];
  if (has_target(m.from, second)) return false;
  Layout both = copy_of(&m);
  both.rule[both.n++] = *second;
  *out =
      (Move){.kind = MOVE_BOTH, .text = arena_printf(a, "%s %s", x->text, y->text), .layout = both};
  return valid(&m, &both);
}
