// Arithmetic of shardings: lists of axes, block lengths, comparison and text.
#include "partition/sharding/sharding_internal.h"

#include <stdlib.h>
#include <string.h>

void axes_append(Axes *s, int axis) {
  if (!axes_has(*s, axis)) s->at[s->n++] = (uint8_t)axis;
}

void axes_remove(Axes *s, int axis) {
  int n = 0;
  for (int i = 0; i < s->n; i++)
    if (s->at[i] != axis) s->at[n++] = s->at[i];
  for (int i = n; i < s->n; i++) s->at[i] = 0;
  s->n = (uint8_t)n;
}

void axes_join(Axes *s, Axes more) {
  for (int i = 0; i < more.n; i++) axes_append(s, more.at[i]);
}

Axes axes_head(Axes s, int n) {
  for (int i = n; i < s.n; i++) s.at[i] = 0;
  if (n < s.n) s.n = (uint8_t)n;
  return s;
}

bool axes_starts(Axes s, Axes prefix) {
  if (prefix.n > s.n) return false;
  for (int i = 0; i < prefix.n; i++)
    if (s.at[i] != prefix.at[i]) return false;
  return true;
}

bool axes_meet(Axes a, Axes b) { return axes_without(a, b).n < a.n; }

bool axes_within(Axes s, Axes all) { return !axes_without(s, all).n; }

Axes axes_without(Axes s, Axes gone) {
  Axes out = {0};
  for (int i = 0; i < s.n; i++)
    if (!axes_has(gone, s.at[i])) axes_append(&out, s.at[i]);
  return out;
}

Axes axes_sorted(Axes s) {
  if (s.n < 2) return s;
  Axes out = {0};
  for (int axis = 0; axis < MAX_AXES; axis++)
    if (axes_has(s, axis)) axes_append(&out, axis);
  return out;
}

// Placement asks this most often of all: few dims are split, so four are looked at together.
int sharding_dim_of(const Sharding *s, int axis) {
  enum { TOGETHER = 4 };
  _Static_assert(MAX_RANK % TOGETHER == 0, "all dims are looked at");
  for (int i = 0; i < MAX_RANK; i += TOGETHER) {
    const Axes *x = &s->split[i];
    if (!(x[0].n | x[1].n | x[2].n | x[3].n)) continue;
    for (int k = 0; k < TOGETHER; k++)
      if (axes_has(x[k], axis)) return i + k;
  }
  return -1;
}

void sharding_remove(Sharding *s, int axis) {
  for (int i = 0; i < MAX_RANK; i++)
    if (s->split[i].n) axes_remove(&s->split[i], axis);
}

void sharding_unsplit(Sharding *s, int axis) {
  sharding_remove(s, axis);
  s->rule[axis] = 0;
}

bool sharding_equal(const Sharding *a, const Sharding *b) {
  if (a == b) return true; // the most frequent case
  bool same = !memcmp(a->split, b->split, sizeof a->split);
  for (int i = 0; i < MAX_RANK && !same; i++)
    if (!axes_equal(a->split[i], b->split[i])) return false;
  if (a->partial.n != b->partial.n) return false;
  if (!a->partial.n) return true;
  return axes_equal(axes_sorted(a->partial), axes_sorted(b->partial)) && a->monoid == b->monoid;
}

int64_t sharding_elements(const Graph *g, const Dims *dims, const Sharding *s) {
  int64_t n = 1;
  for (int i = 0; i < dims->n; i++)
    n *= block_length(g->mesh, dim_get(g->dims, dims->at[i])->size, s->split[i]);
  return n;
}

int64_t sharding_bytes(const Graph *g, NodeId n, const Sharding *s) {
  const Node *node = graph_node(g, n);
  return sharding_elements(g, node->dims, s) * dtype_bytes((Dtype)node->type);
}

Dims sharding_dims(const Graph *g, const Dims *dims, const Sharding *s) {
  Dims out = *dims;
  for (int i = 0; i < dims->n; i++)
    if (s->split[i].n) out.at[i] = dim_block(g->dims, g->mesh, dims->at[i], s->split[i]);
  return out;
}

const char *sharding_text(Arena *a, const Graph *g, const Dims *dims, const Sharding *s) {
  const char *text = "";
  if (s->partial.n)
    text = arena_printf(a, "%s over %s", monoid_text(s->monoid), axes_text(a, g->mesh, s->partial));
  for (int i = 0; i < dims->n; i++)
    if (s->split[i].n)
      text = arena_printf(a, "%s%s%s/%s", text,
                          *text ? (s->partial.n && !strchr(text, '/') ? ", " : " ") : "",
                          dim_get(g->dims, dims->at[i])->name, axes_text(a, g->mesh, s->split[i]));
  return *text ? text : "replicated";
}
