// Figures of a machine, from which costs are computed. They come from a text file or are built in,
// and are never measured while a model is compiled. The same files therefore give the same program
// on every machine (decision 15 of docs/decisions.md).
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include "ir/base/mesh.h"

// The connection between the processors along an axis.
typedef struct Link {
  double latency; // seconds of one collective; an all_reduce takes it twice unless memory is shared
  double bandwidth; // bytes a second between two processors
} Link;

enum { AXIS_NAME = 32 };
// Figures of the axis with this name (`latency.rows = ...`). A figure below 0 means that of
// Machine.
typedef struct AxisLink {
  char axis[AXIS_NAME];
  Link link;
} AxisLink;

typedef struct Machine {
  double latency; // these two are the figures of axes that have no AxisLink
  double bandwidth;
  double memory_rate;      // bytes a second from the memory of a processor
  double flops;            // flops a second of one processor in f32 products
  int64_t memory;          // bytes of memory of a processor
  int64_t l2, l3;          // bytes of the cache of a core, and of the cache that all cores share
  double l2_rate, l3_rate; // bytes a second from these caches; 0 means memory_rate
  double launch;           // seconds that a kernel, product or copy takes in addition to its work
  double operations; // additions of f32 a second of one processor in kernels; 0: they take no time
  double half;    // a product [m, k] x [k, n] takes the time of 2 (mnk + half (mn + nk + km)) flops
  double cores;   // cores that all processors of the mesh share; 0: each processor has its own
  double shared;  // 1: processors share one memory, and a collective reads and writes it, at twice
                  // `bandwidth` at most; 0: they send messages
  double overlap; // 1: a collective runs while other instructions do; 0: a processor waits for it
  bool states_memory; // `memory` comes from a machine file, so that larger programs are refused
  uint8_t naxes;
  AxisLink axis[MAX_AXES];
} Machine;

// Returns the built-in figures, those of a small desktop machine.
Machine machine_default(void);
// Reads a machine file into *m: lines `name = number`, comments after #, and `kind = cpu` or `kind
// = gpu`. The file of a CPU changes the figures that it has. The file of a GPU (kind = gpu, or no
// kind and more flops than a CPU has) must have every rate; other figures that it lacks become 0.
// Returns false after an error in d.
MUST_USE bool machine_read(Machine *m, Diag *d, const char *path);
// Returns the figures as the text of a machine file, with six digits, those of axes last.
char *machine_print(Arena *a, const Machine *m);
// Returns the connection along the axis with that name; figures of the machine if it has none of
// its own.
Link machine_link(const Machine *m, const char *axis);

#endif
