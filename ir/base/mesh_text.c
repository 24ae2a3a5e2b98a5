// Meshes, processors and layout rules as text: for messages, tables and the command line.
#include "ir/base/mesh.h"

#include <stdio.h>
#include <string.h>

const char *axes_text(Arena *a, const Mesh *m, Axes s) {
  const char *text = "";
  for (int i = 0; i < s.n; i++)
    text = arena_printf(a, "%s%s%s", text, i ? "+" : "", m->axis[s.at[i]].name);
  return text;
}

static const char *sizes_text(Arena *a, const Mesh *m, const char *between) {
  const char *text = "";
  for (int i = 0; i < m->naxes; i++)
    text = arena_printf(a, "%s%s%s=%lld", text, i ? between : "", m->axis[i].name,
                        (long long)m->axis[i].size);
  return m->naxes ? text : "one processor";
}

const char *mesh_text(Arena *a, const Mesh *m) { return sizes_text(a, m, " "); }
const char *mesh_option(Arena *a, const Mesh *m) { return sizes_text(a, m, ","); }

char *mesh_coordinates(const Mesh *m, int64_t r, const char *between, char *out, size_t room) {
  size_t n = 0;
  *out = 0;
  for (int i = 0; i < m->naxes && n < room; i++)
    n += (size_t)snprintf(out + n, room - n, "%s%s=%lld", i ? between : "", m->axis[i].name,
                          (long long)mesh_coord(m, r, i));
  return out;
}

static const char *rule_axes(Arena *a, const Mesh *m, const LayoutRule *r) {
  return r->axes.n ? axes_text(a, m, r->axes) : "none";
}

// Returns the left side of a layout rule: `soft` if the rule is soft, its scope and `between`, then
// the dim. A rule for all tensors has no scope in the text.
static const char *left_side(Arena *a, const LayoutRule *r, const char *soft, const char *between) {
  const char *const scope[] = {[LAYOUT_ALL] = "",
                               [LAYOUT_OPTIMIZER] = "optimizer",
                               [LAYOUT_PARAMETERS] = "parameters",
                               [LAYOUT_GRADIENTS] = "gradients",
                               [LAYOUT_TENSOR] = r->pattern};
  return arena_printf(a, "%s%s%s%s", r->soft ? soft : "", scope[r->scope],
                      r->scope == LAYOUT_ALL ? "" : between, r->dim ? r->dim : "all");
}

const char *layout_rule_text(Arena *a, const Mesh *m, const LayoutRule *r) {
  return arena_printf(a, "%s -> %s", left_side(a, r, "soft ", ": "), rule_axes(a, m, r));
}

const char *rule_key(Arena *a, const LayoutRule *r) { return left_side(a, r, "soft/", "/"); }

const char *layout_text(Arena *a, const Mesh *m, const Layout *l, const char *arrow,
                        const char *between) {
  const char *text = "";
  for (uint32_t i = 0; i < l->n; i++)
    text = arena_printf(a, "%s%s%s%s%s", text, i ? between : "", rule_key(a, &l->rule[i]), arrow,
                        rule_axes(a, m, &l->rule[i]));
  return text;
}

const char *layout_option(Arena *a, const Mesh *m, const Layout *l) {
  return l->n ? layout_text(a, m, l, "=", ",") : "none";
}
