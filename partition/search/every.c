// All choices of the joint search's space, where it is small enough to price them all.
#include <math.h>

#include "partition/search/choices_internal.h"

double joint_count(const Joint *j) {
  double all = 0, of_an_axis = (double)j->space.nsets * (1 + j->space.ndims);
  if (!j->space.complete) return (double)INFINITY;
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    int naxes = j->task->mesh[i].naxes;
    all += pow(of_an_axis, naxes) * (1 + STAGES * ((1 << naxes) - 1));
  }
  return all;
}

// What the functions that list the choices of one mesh share.
typedef struct Every {
  Joint *j;
  Arena *a; // of layouts that are tried
  const Mesh *mesh;
  TriedList *out;
} Every;

static void add(const Every *e, const Layout *l) { joint_enter(e->j, e->mesh, l, 0, e->out); }

static Layout with_axis(const Every *e, const Layout *l, LayoutRule rule, int axis) {
  rule.axes = joint_axes(l, &rule);
  rule.axes.at[rule.axes.n++] = (uint8_t)axis;
  return joint_with(e->j, e->a, l, &rule);
}

static void add_stages(const Every *e, const Layout *l) {
  add(e, l);
  for (int i = 0; i < STAGES; i++)
    for (unsigned set = 1; set < 1u << e->mesh->naxes; set++) {
      LayoutRule r = {.scope = joint_stages[i]};
      for (int k = 0; k < e->mesh->naxes; k++)
        if (set >> k & 1) r.axes.at[r.axes.n++] = (uint8_t)k;
      Layout with = joint_with(e->j, e->a, l, &r);
      add(e, &with);
    }
}

// Adds all choices in which the axes order[0] .. order[axis - 1] have the dims and the soft dims
// that layout `l` gives them. The others take theirs in the order of `order`: of axes that split
// one dim, the first splits it into the outermost blocks.
static void add_axes(const Every *e, const uint8_t order[], int axis, const Layout *l) {
  const Space *s = &e->j->space;
  if (axis == e->mesh->naxes) {
    add_stages(e, l);
    return;
  }
  for (uint32_t set = 0; set < s->nsets; set++)
    for (uint32_t soft = 0; soft <= s->ndims; soft++) {
      Layout with = *l;
      for (uint32_t d = 0; d < s->ndims; d++)
        if (s->set[set] >> d & 1)
          with = with_axis(e, &with, (LayoutRule){.dim = s->dim[d]->name}, order[axis]);
      if (soft < s->ndims)
        with =
            with_axis(e, &with, (LayoutRule){.dim = s->dim[soft]->name, .soft = true}, order[axis]);
      add_axes(e, order, axis + 1, &with);
    }
}

// On meshes of two axes both orders are listed, on meshes of more axes only that of the mesh.
void joint_every(Joint *j, TriedList *out) {
  static const uint8_t usual[MAX_AXES] = {0, 1, 2, 3, 4, 5, 6, 7}, other[2] = {1, 0};
  Every e = {.j = j, .a = arena_new(), .out = out};
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    e.mesh = &j->task->mesh[i];
    add_axes(&e, usual, 0, &(Layout){0});
    if (e.mesh->naxes == 2) add_axes(&e, other, 0, &(Layout){0});
  }
  arena_free(e.a);
}
