// Meshes: coordinates in mixed radix, groups of processors along axes, and name patterns.
#include "ir/base/mesh.h"

#include <string.h>

int64_t mesh_size(const Mesh *m) {
  int64_t n = 1;
  for (int a = 0; a < m->naxes; a++)
    if (!size_mul(n, m->axis[a].size, &n)) BUG("mesh of more than 2^63 processors");
  return n;
}

Axes mesh_axes(const Mesh *m) {
  Axes all = {.n = (uint8_t)m->naxes};
  for (int a = 0; a < m->naxes; a++) all.at[a] = (uint8_t)a;
  return all;
}

// Returns the difference of the numbers of two processors that are neighbours on axis a.
static int64_t axis_stride(const Mesh *m, int a) {
  int64_t s = 1;
  for (int i = a + 1; i < m->naxes; i++) s *= m->axis[i].size;
  return s;
}

int64_t mesh_coord(const Mesh *m, int64_t r, int a) {
  return r / axis_stride(m, a) % m->axis[a].size;
}

int mesh_axis(const Mesh *m, const char *name) {
  for (int a = 0; a < m->naxes; a++)
    if (m->axis[a].name == name || strcmp(m->axis[a].name, name) == 0) return a;
  return -1;
}

int64_t axes_size(const Mesh *m, Axes a) {
  int64_t n = 1;
  for (int i = 0; i < a.n; i++) n *= m->axis[a.at[i]].size;
  return n;
}

int64_t block_length(const Mesh *m, int64_t n, Axes axes) {
  for (int i = 0; i < axes.n; i++) n = ceil_div(n, m->axis[axes.at[i]].size);
  return n;
}

int64_t axes_rank(const Mesh *m, Axes a, int64_t r) {
  int64_t k = 0;
  for (int i = 0; i < a.n; i++) k = k * m->axis[a.at[i]].size + mesh_coord(m, r, a.at[i]);
  return k;
}

int64_t axes_peer(const Mesh *m, Axes a, int64_t r, int64_t k) {
  for (int i = a.n - 1; i >= 0; i--) {
    int64_t size = m->axis[a.at[i]].size;
    r += (k % size - mesh_coord(m, r, a.at[i])) * axis_stride(m, a.at[i]);
    k /= size;
  }
  return r;
}

// Matches greedily: after a mismatch the last star so far in the pattern takes one more character.
// What earlier stars matched need not be changed.
bool name_matches(const char *pattern, const char *name) {
  const char *star = NULL, *back = NULL;
  while (*name) {
    if (*pattern == '*') {
      star = pattern++;
      back = name;
    } else if (*pattern == *name) {
      pattern++;
      name++;
    } else if (star) {
      pattern = star + 1;
      name = ++back;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return *pattern == 0;
}
