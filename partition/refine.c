// Beyond a layout of dims: rules for optimisers and soft rules that make it cheaper or smaller, and shapes of meshes.
#include <string.h>

#include "partition/space.h"

bool search_cheaper(const SearchChoice *a, const SearchChoice *b) {
  if (a->price.seconds != b->price.seconds) return a->price.seconds < b->price.seconds;
  if (a->price.memory != b->price.memory) return a->price.memory < b->price.memory;
  return a->layout.n < b->layout.n;
}

static bool gains(const SearchTask *t, const Price *now, const Price *then, bool by_memory) {
  if (by_memory) return now->memory < 0.99 * then->memory && now->seconds <= 1.05 * then->seconds;
  return now->memory <= t->memory && now->seconds < 0.98 * then->seconds;
}

static bool has_target(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++) {
    const LayoutRule *x = &l->rule[i];
    if (x->scope == r->scope && x->soft == r->soft && (x->dim == r->dim || (x->dim && r->dim && !strcmp(x->dim, r->dim))))
      return true;
  }
  return false;
}

// The layout with that rule more, if it is cheaper than *best.
static void try_rule(Arena *a, const SearchTask *t, const SearchChoice *from, const LayoutRule *r, bool by_memory,
                     SearchChoice *best) {
  if (has_target(&from->layout, r)) return;
  SearchChoice c = {.mesh = from->mesh, .layout = {from->layout.n + 1, NULL}};
  c.layout.rule = arena_array(a, LayoutRule, c.layout.n);
  memcpy(c.layout.rule, from->layout.rule, from->layout.n * sizeof *c.layout.rule);
  c.layout.rule[from->layout.n] = *r;
  c.price = search_price(t, c.mesh, &c.layout);
  if (!gains(t, &c.price, &from->price, by_memory)) return;
  bool better = by_memory ? c.price.memory < best->price.memory : search_cheaper(&c, best);
  if (better) *best = c;
}

static void try_axes(Arena *a, const SearchTask *t, const Space *s, const SearchChoice *from, Axes axes, bool by_memory,
                     SearchChoice *best) {
  LayoutRule optimizer = {.scope = LAYOUT_OPTIMIZER, .axes = axes};
  try_rule(a, t, from, &optimizer, by_memory, best);
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule soft = {.dim = s->dim[d]->name, .soft = true, .axes = axes};
    if (s->dim[d]->size >= axes_size(from->mesh, axes)) try_rule(a, t, from, &soft, by_memory, best);
  }
}

SearchChoice search_refine(Arena *a, const SearchTask *t, const SearchChoice *from, bool by_memory) {
  Space s;
  space_dims(&s, a, t);
  SearchChoice now = *from;
  for (;;) {
    SearchChoice best = now;
    Axes all = {0};
    for (int k = 0; k < now.mesh->naxes; k++) {
      all.at[all.n++] = (uint8_t)k;
      try_axes(a, t, &s, &now, (Axes){1, {(uint8_t)k}}, by_memory, &best);
    }
    if (all.n > 1) try_axes(a, t, &s, &now, all, by_memory, &best);
    if (best.layout.n == now.layout.n) return now;
    now = best;
  }
}

// -- shapes of meshes ------------------------------------------------------------------------------------

uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], const Mesh **out) {
  VEC(Mesh) list = {0};
  for (int64_t x = 2; x <= processors; x++) {
    if (processors % x) continue;
    for (int64_t y = 1; y <= x; y++) {
      int64_t z = processors / x / (y ? y : 1);
      if (processors / x % y || z > y || (y == 1 && z > 1)) continue;
      Mesh m = {.axis = {{.name = names[0], .size = x}, {.name = names[1], .size = y}, {.name = names[2], .size = z}}};
      m.naxes = (uint8_t)(1 + (y > 1) + (z > 1));
      vec_push(a, list) = m;
    }
  }
  *out = list.at;
  return list.n;
}
