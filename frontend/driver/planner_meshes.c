// Lists the meshes on which a layout is searched: all shapes of a number of processors, with the
// axes that pins (layout(...) in the model) name.
#include <string.h>

#include "frontend/driver/planner_internal.h"

enum { SEARCHED_AXES = 3 };

int planner_pinned(const Session *s, const char *names[MAX_AXES]) {
  const Graph *g = s->model->graph;
  int n = 0;
  for (int k = 0; k < g->mesh->naxes; k++)
    if (axis_is_pinned(g, k)) names[n++] = g->mesh->axis[k].name;
  return n;
}

// Returns a mesh of one processor, whose axes are those that pins (layout(...) in the model) name.
// A pin of an axis that the mesh does not have would be an error.
static const Mesh *mesh_of_one(Session *s, int npinned, const char *const names[]) {
  Mesh *m = arena_new_of(s->arena, Mesh);
  *m = (Mesh){.naxes = (uint8_t)(npinned ? npinned : 1)};
  for (int k = 0; k < m->naxes; k++)
    m->axis[k] = (MeshAxis){.name = npinned ? names[k] : intern(s->names, "rows"), .size = 1};
  return m;
}

static void no_mesh_for_pins(Session *s, int64_t processors, int npinned,
                             const char *const names[]) {
  const char *list = "";
  for (int k = 0; k < npinned; k++)
    list = arena_printf(s->arena, "%s%s'%s'", list, k ? ", " : "", names[k]);
  diag_error(
      s->diag, DIAG_BAD_LAYOUT, (Pos){0},
      "no mesh of %lld processor%s with at most %d axes has all axes that layout(...) names: %s",
      (long long)processors, plural(processors), SEARCHED_AXES, list);
  diag_hint(s->diag, "give the mesh with --mesh, or name fewer axes in layout(...)");
}

static bool has_axis(const Mesh *m, const char *name) {
  for (int k = 0; k < m->naxes; k++)
    if (!strcmp(m->axis[k].name, name)) return true;
  return false;
}

// Warns if the machine has links of some axes and no mesh of the search has any of these axes:
// then all processors are taken to be as near to each other as those of a host.
static void check_links(const Session *s, uint32_t n, const Mesh *mesh) {
  const Machine *m = &s->machine;
  const OptionUse *machine = option_use(s->opt, OPTION_MACHINE);
  if (!m->naxes || !machine) return;
  for (uint32_t i = 0; i < n; i++)
    for (int k = 0; k < m->naxes; k++)
      if (has_axis(&mesh[i], m->axis[k].axis)) return;
  const char *axis = m->axis[0].axis;
  diag_warning(s->diag, DIAG_LINK_UNUSED, machine->pos,
               "the machine has links of their own along the axis '%s', which no mesh of "
               "--processors has: they are not in the prices",
               axis);
  diag_hint(s->diag, "for processors on several '%s' give the mesh: --mesh %s=2,...", axis, axis);
}

// Sets *mesh to the meshes to search. Their first axes get the names that pins (layout(...) in the
// model) use. Meshes with fewer axes than such names are dropped.
bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh) {
  static const char *const usual[SEARCHED_AXES] = {"rows", "cols", "deep"};
  const char *names[MAX_AXES + SEARCHED_AXES];
  int npinned = planner_pinned(s, names), nnames = npinned;
  *n = 1;
  *mesh = processors == 1 ? mesh_of_one(s, npinned, names) : &s->model->mesh;
  if (processors <= 1) return true;
  for (int k = 0; k < SEARCHED_AXES; k++) {
    bool taken = false;
    for (int i = 0; i < npinned; i++) taken |= !strcmp(names[i], usual[k]);
    if (!taken) names[nnames++] = usual[k];
  }
  const Mesh *all;
  uint32_t nall =
      search_meshes(s->arena, processors, names, s->machine.naxes > 0 || npinned > 0, &all);
  Mesh *kept = arena_array(s->arena, Mesh, nall + 1);
  *mesh = kept;
  *n = 0;
  for (uint32_t i = 0; i < nall; i++)
    if (all[i].naxes >= npinned) kept[(*n)++] = all[i];
  if (!*n) return no_mesh_for_pins(s, processors, npinned, names), false;
  check_links(s, *n, kept);
  return true;
}
