// Figures of a machine that cost decisions use: a small text file parsed into numbers, so that
// decisions are the same everywhere (decision 15).
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include "ir/base/mesh.h"

// What the processors along an axis reach one another by.
typedef struct Link {
  double latency;   // seconds of one collective; between memories an all_reduce takes two
  double bandwidth; // bytes a second between two processors
} Link;

enum { AXIS_NAME = 32 };
// Figures of an axis by name (`latency.rows = ...`); below 0: the machine's.
typedef struct AxisLink {
  char axis[AXIS_NAME];
  Link link;
} AxisLink;

typedef struct Machine {
  double latency; // of axes without figures of their own, as in Link
  double bandwidth;
  double memory_rate;      // bytes a second of a processor's memory
  double flops;            // a second, f32 products, one processor
  int64_t memory;          // bytes a processor
  int64_t l2, l3;          // bytes of cache: a core's, the machine's
  double l2_rate, l3_rate; // bytes a second out of them; 0: as memory
  double launch;           // seconds that a kernel, product or copy takes besides its work
  double operations; // a second, simple ones of f32 in kernels, one processor; 0: they hide behind
                     // the bytes
  double half;       // product: a side of this length costs as much again as its work
  double cores;      // that the processors of the mesh share; 0: each has its own
  double shared; // 1: processors share one memory: a collective is reads and writes in it, at twice
                 // `bandwidth` at most
  double overlap;     // 1: collectives run beside work that does not need them; 0: they block
  bool states_memory; // `memory` comes from a machine file: programs are held to it
  uint8_t naxes;
  AxisLink axis[MAX_AXES];
} Machine;

// The built-in figures.
Machine machine_default(void);
// Lines `name = number`, # comments; `kind = cpu` or `kind = gpu`. What a file of a CPU leaves out
// is as built in. A GPU (kind = gpu, or no kind and more flops than a CPU has) shares no figure
// with the built-in CPU: its file must state every rate; caches and switches that it leaves out are
// 0. False after an error in d.
MUST_USE bool machine_read(Machine *m, Diag *d, const char *path);
// The figures as such a file, six digits each, those of axes last.
char *machine_print(Arena *a, const Machine *m);
// What the processors along the axis of that name reach one another by.
Link machine_link(const Machine *m, const char *axis);

#endif
