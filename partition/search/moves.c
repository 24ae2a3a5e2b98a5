// Moves of the joint search: the choices that differ from a given one by one rule, by an exchange
// of two axes, or by the sizes of the axes.
//
//   b=rows                 ->  b=rows+cols, b=rows,ff=cols, (no rule)       a dim
//   b=rows,ff=cols         ->  b=rows,ff=cols,soft/t=cols                   a soft rule
//   soft/b=rows            ->  soft/t=rows (quick searches)                 an axis of a soft rule
//   b=rows                 ->  ff=rows+cols (quick searches)                all axes at once
//   b=rows                 ->  b=rows,parameters/all=rows                   ZeRO, stages 1 to 3
//   b=rows,ff=cols         ->  b=cols,ff=rows; the same on rows=2 cols=4    axes, mesh
#include <string.h>

#include "partition/search/choices_internal.h"

typedef struct Moves {
  Joint *j;
  Arena *a; // of layouts that are tried
  const Tried *from;
  Axes axes; // of its mesh, those that can split something
  TriedList *out;
} Moves;

static void add(Moves *m, const Mesh *mesh, const Layout *l, uint8_t family) {
  joint_enter(m->j, mesh, l, family, m->out);
}

static void add_rule(Moves *m, const LayoutRule *rule, uint8_t family) {
  const SearchChoice *from = &m->from->choice;
  Layout l = joint_with(m->j, m->a, &from->layout, rule);
  add(m, from->mesh, &l, family);
}

static Axes without(Axes of, int axis) {
  Axes left = {0};
  for (int i = 0; i < of.n; i++)
    if (of.at[i] != axis) left.at[left.n++] = of.at[i];
  return left;
}

// Gives the axis to the rule, or takes it away.
static void toggle(Moves *m, LayoutRule rule, int axis, uint8_t family) {
  Axes now = joint_axes(&m->from->choice.layout, &rule);
  rule.axes = without(now, axis);
  if (rule.axes.n == now.n) rule.axes.at[rule.axes.n++] = (uint8_t)axis;
  add_rule(m, &rule, family);
}

// Gives all axes to the rule, or takes all away, where that is more than one step of `toggle`.
static void toggle_all(Moves *m, LayoutRule rule, uint8_t family) {
  int n = joint_axes(&m->from->choice.layout, &rule).n;
  rule.axes = m->axes;
  if (n < m->axes.n - 1) add_rule(m, &rule, family);
  rule.axes = (Axes){0};
  if (n > 1) add_rule(m, &rule, family);
}

static void toggle_rule(Moves *m, LayoutRule rule, uint8_t family) {
  for (int k = 0; k < m->axes.n; k++) toggle(m, rule, m->axes.at[k], family);
  if (m->j->quick) toggle_all(m, rule, family);
}

// Takes each axis of the soft rules of other dims, one at a time, for this soft rule. Without the
// axis, or with it in both rules, a step may need more than the memory.
static void take_axes(Moves *m, LayoutRule to) {
  const SearchChoice *from = &m->from->choice;
  Axes has = joint_axes(&from->layout, &to);
  for (uint32_t i = 0; i < from->layout.n; i++) {
    LayoutRule r = from->layout.rule[i];
    for (int k = 0; r.soft && strcmp(r.dim, to.dim) && k < from->layout.rule[i].axes.n; k++) {
      int axis = from->layout.rule[i].axes.at[k];
      if (axes_has(has, axis)) continue;
      r.axes = without(from->layout.rule[i].axes, axis);
      to.axes = has;
      to.axes.at[to.axes.n++] = (uint8_t)axis;
      Layout l = joint_with(m->j, m->a, &from->layout, &r);
      l = joint_with(m->j, m->a, &l, &to);
      add(m, from->mesh, &l, MOVE_SOFT);
    }
  }
}

static void toggle_dims(Moves *m) {
  const Space *s = &m->j->space;
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule hard = {.dim = s->dim[d]->name}, soft = {.dim = s->dim[d]->name, .soft = true};
    if (m->j->useful >> d & 1) toggle_rule(m, hard, MOVE_DIM);
    if (!(m->j->useful_soft >> d & 1)) continue;
    toggle_rule(m, soft, MOVE_SOFT);
    if (m->j->quick) take_axes(m, soft);
  }
}

// Returns whether the set has no axis, one, all, or all but one.
static bool is_usual(unsigned set, int naxes) {
  int n = 0;
  for (int k = 0; k < naxes; k++) n += set >> k & 1;
  return n <= 1 || n >= naxes - 1;
}

// Splits parameters, gradients or the optimizer's tensors over usual sets of axes. Stages of ZeRO
// include those below, so other stages are dropped; but parameters over some of the axes also go
// with the optimizer's tensors over all of them.
static void shard(Moves *m) {
  const SearchChoice *from = &m->from->choice;
  for (int i = 0; i < STAGES; i++)
    for (unsigned set = 0; set < 1u << m->axes.n; set++) {
      if (!is_usual(set, m->axes.n)) continue;
      LayoutRule r = {.scope = joint_stages[i]};
      for (int k = 0; k < m->axes.n; k++)
        if (set >> k & 1) r.axes.at[r.axes.n++] = m->axes.at[k];
      Layout l = joint_with(m->j, m->a, &from->layout, &r);
      add(m, from->mesh, &l, MOVE_SHARD);
      for (int o = 0; o < STAGES; o++)
        if (o != i) l = joint_with(m->j, m->a, &l, &(LayoutRule){.scope = joint_stages[o]});
      add(m, from->mesh, &l, MOVE_SHARD);
    }
}

// Exchanges two axes in all rules.
static void exchange(Moves *m, int x, int y) {
  const SearchChoice *from = &m->from->choice;
  Layout l = {from->layout.n, arena_array(m->a, LayoutRule, from->layout.n + 1)};
  if (l.n) memcpy(l.rule, from->layout.rule, l.n * sizeof *l.rule);
  for (uint32_t i = 0; i < l.n; i++)
    for (int k = 0; k < l.rule[i].axes.n; k++) {
      uint8_t *axis = &l.rule[i].axes.at[k];
      *axis = (uint8_t)(*axis == x ? y : *axis == y ? x : *axis);
    }
  add(m, from->mesh, &l, MOVE_MESH);
}

// Reverses the order of the axes of each rule that has several.
static void reverse(Moves *m) {
  const SearchChoice *from = &m->from->choice;
  for (uint32_t i = 0; i < from->layout.n; i++) {
    LayoutRule r = from->layout.rule[i];
    if (r.scope != LAYOUT_ALL || r.axes.n < 2) continue;
    for (int k = 0; k < r.axes.n; k++)
      r.axes.at[k] = from->layout.rule[i].axes.at[r.axes.n - 1 - k];
    add_rule(m, &r, MOVE_MESH);
  }
}

void joint_moves(Joint *j, const Tried *c, TriedList *out) {
  const Mesh *mesh = c->choice.mesh;
  Moves m = {.j = j, .a = arena_new(), .from = c, .axes = joint_splitting(mesh), .out = out};
  toggle_dims(&m);
  shard(&m);
  reverse(&m);
  for (int y = 1; y < m.axes.n; y++)
    for (int x = 0; x < y; x++) exchange(&m, m.axes.at[x], m.axes.at[y]);
  for (uint32_t i = 0; i < j->task->nmeshes; i++)
    if (j->task->mesh[i].naxes == mesh->naxes)
      add(&m, &j->task->mesh[i], &c->choice.layout, MOVE_MESH);
  arena_free(m.a);
}
