// Processors that share devices (GPUs): device i has processors i * each .. (i + 1) * each - 1 of a
// mesh. They have to be a box of the mesh (devices_fit). So all groups of a collective have the
// same number of members on each of their devices.
//
// Processors of a mesh rows=2, cols=4, with two to a device. A group along cols has two devices
// with two members each, a group along rows two devices with one member each:
//
//   device 0: 0 1    device 1: 2 3
//   device 2: 4 5    device 3: 6 7
#ifndef COLLECTIVES_DEVICES_H
#define COLLECTIVES_DEVICES_H

#include <stdbool.h>

#include "ir/base/mesh.h"

// Returns whether each run of `each` processors is a box of the mesh. `each` divides its size.
bool devices_fit(const Mesh *m, int64_t each);

// The following take axes along which the members of a group differ.
// Returns the number of devices of a group.
int64_t devices_along(const Mesh *m, Axes axes, int64_t each);
// Returns the number of the device of processor r among those of its group. If each is 1, that is
// axes_rank.
int64_t device_index(const Mesh *m, Axes axes, int64_t each, int64_t r);
// Returns the number of processor r among the members of its group on its device.
int64_t device_place(const Mesh *m, Axes axes, int64_t each, int64_t r);

#endif
