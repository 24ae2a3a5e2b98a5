// Finds devices by their coordinates: along each axis of the mesh a device has an interval of
// processors (devices.h).
#include "collectives/local/devices.h"

// Returns how many coordinates along axis a the processors of a device have. It divides the size of
// the axis.
static int64_t extent_along(const Mesh *m, int64_t each, int a) {
  for (int i = m->naxes - 1; i > a; i--) each = ceil_div(each, m->axis[i].size);
  return each < m->axis[a].size ? each : m->axis[a].size;
}

bool devices_fit(const Mesh *m, int64_t each) {
  for (int a = m->naxes - 1; a >= 0; a--) {
    int64_t size = m->axis[a].size;
    if (each < size ? size % each != 0 : each % size != 0) return false;
    each = ceil_div(each, size);
  }
  return true;
}

int64_t devices_along(const Mesh *m, Axes axes, int64_t each) {
  int64_t n = 1;
  for (int i = 0; i < axes.n; i++)
    n *= m->axis[axes.at[i]].size / extent_along(m, each, axes.at[i]);
  return n;
}

int64_t device_index(const Mesh *m, Axes axes, int64_t each, int64_t r) {
  int64_t k = 0;
  for (int i = 0; i < axes.n; i++) {
    int a = axes.at[i];
    int64_t extent = extent_along(m, each, a);
    k = k * (m->axis[a].size / extent) + mesh_coord(m, r, a) / extent;
  }
  return k;
}

int64_t device_place(const Mesh *m, Axes axes, int64_t each, int64_t r) {
  int64_t k = 0;
  for (int i = 0; i < axes.n; i++) {
    int64_t extent = extent_along(m, each, axes.at[i]);
    k = k * extent + mesh_coord(m, r, axes.at[i]) % extent;
  }
  return k;
}
