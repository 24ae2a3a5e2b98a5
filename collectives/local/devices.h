// Processors that share devices (GPUs). Each device has `each` processors: device i has processors
// i * each .. (i + 1) * each - 1 of a mesh. They have to be a box of the mesh (devices_fit): an
// interval of coordinates along each axis. So a group (processors that exchange blocks in a
// collective) has equally many members on each of its devices.
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

// The following take the axes along which the members of a group differ (group_axes), and
// processors that fit. All numbers count from 0.

// Returns how many devices a group has.
int64_t devices_along(const Mesh *m, Axes axes, int64_t each);
// Returns which of the devices of its group has processor r. If `each` is 1, that is axes_rank.
int64_t device_index(const Mesh *m, Axes axes, int64_t each, int64_t r);
// Returns which of the members that its group has on its device processor r is.
int64_t device_place(const Mesh *m, Axes axes, int64_t each, int64_t r);

#endif
