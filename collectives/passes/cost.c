// Computes how long collectives take, by latency and bandwidth.
//
// Rings: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005. Levels of axes of unequal speed: Thakur and Gropp, "Improving the Performance of
// Collective Operations in MPICH", 2003, and the hierarchical rings of NCCL and Horovod.
#include <string.h>

#include "collectives/collectives.h"

bool coll_of(Op op, CollKind *out) {
  static const struct {
    Op op;
    CollKind kind;
  } row[] = {
      {OP_ALL_REDUCE, COLL_ALL_REDUCE},
      {OP_ALL_GATHER, COLL_ALL_GATHER},
      {OP_REDUCE_SCATTER, COLL_REDUCE_SCATTER},
      {OP_ALL_TO_ALL, COLL_ALL_TO_ALL},
      {OP_PERMUTE, COLL_PERMUTE},
      {OP_HALO, COLL_PERMUTE},
  };
  for (size_t i = 0; i < countof(row); i++)
    if (row[i].op == op) {
      *out = row[i].kind;
      return true;
    }
  return false;
}

// -- seconds ------------------------------------------------------------------------------------

// The axes of a call that have one latency and bandwidth. `group` is the product of their sizes.
typedef struct Level {
  Link link;
  int64_t group;
} Level;

// Writes the levels of `axes` to `out`, the one with the most bandwidth first, and returns their
// number. A level is the axes of equal latency and bandwidth.
static int levels_of(const Machine *machine, const Mesh *mesh, Axes axes, Level out[MAX_AXES]) {
  int n = 0;
  for (int i = 0; i < axes.n; i++) {
    const MeshAxis *axis = &mesh->axis[axes.at[i]];
    Link link = machine_link(machine, axis->name);
    int at = 0;
    if (axis->size <= 1) continue;
    while (at < n && out[at].link.bandwidth > link.bandwidth) at++;
    while (at < n && out[at].link.bandwidth == link.bandwidth &&
           out[at].link.latency != link.latency)
      at++;
    if (at < n && out[at].link.bandwidth == link.bandwidth) {
      out[at].group *= axis->size;
      continue;
    }
    memmove(&out[at + 1], &out[at], sizeof *out * (size_t)(n - at));
    out[at] = (Level){link, axis->size};
    n++;
  }
  return n;
}

// In shared memory a collective is one exchange, so its latency counts once. Otherwise it runs as a
// ring of coll_rounds exchanges with the neighbours, and the latency counts once for each.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes) {
  Level level[MAX_AXES];
  int n = levels_of(machine, mesh, axes, level);
  double seconds = 0;
  for (int i = 0; i < n; i++)
    seconds += level[i].link.latency * (machine->shared > 0 ? 1 : coll_rounds(k));
  return seconds;
}

// All bytes of a permute may cross the slowest axis, so they all count at its rate. In other kinds,
// each level (the axes of equal speed) hands 1/n of its bytes to the next slower level. n is the
// product of the sizes of these axes.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes) {
  Level level[MAX_AXES];
  int n = levels_of(machine, mesh, axes, level);
  if (n == 0) return 0;
  if (n == 1 || k == COLL_PERMUTE)
    return (double)coll_wire_bytes(k, level[n - 1].group, bytes) *
           (machine->bandwidth / level[n - 1].link.bandwidth);
  double weight = 0, rest = (double)bytes;
  for (int i = 0; i < n; i++) {
    const Level *l = &level[k == COLL_ALL_TO_ALL ? n - 1 - i : i];
    double group = (double)l->group;
    weight +=
        coll_rounds(k) * rest * (group - 1) / group * (machine->bandwidth / l->link.bandwidth);
    rest /= group;
  }
  return weight;
}

double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes,
                    int64_t bytes) {
  return coll_latency(machine, mesh, k, axes) +
         coll_weight(machine, mesh, k, axes, bytes) / machine->bandwidth;
}
