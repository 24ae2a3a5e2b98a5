// Figures of a machine, from which costs are computed. They come from a text file or are built in,
// and are never measured while a model is compiled. The same files therefore give the same program
// on every machine.
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include "ir/base/dtype.h"
#include "ir/base/mesh.h"

// The connection between the processors along an axis.
typedef struct Link {
  // Seconds that one collective takes in addition to its bytes. An all_reduce takes it twice,
  // unless the processors share memory.
  double latency;
  double bandwidth; // bytes per second between two processors
} Link;

enum { AXIS_NAME = 32 };
// The connection along the mesh axis with this name (`latency.rows = ...`). A figure below 0 is not
// stated: the figure of Machine applies.
typedef struct AxisLink {
  char axis[AXIS_NAME];
  Link link;
} AxisLink;

typedef struct Machine {
  bool gpu;       // its processors are GPUs; figures that mean something else there say so
  double latency; // latency and bandwidth of mesh axes that have no AxisLink
  double bandwidth;
  double memory_rate; // bytes per second between a processor and its memory
  double flops;       // flops per second of one processor in f32 products
  // Flops per second of one processor in kernels: in register tiles, and in the products of
  // Winograd's algorithm. 0: a share of `flops` (machine_tile_flops, machine_winograd_flops).
  double tile_flops, winograd_flops;
  double bf16_flops; // those in products of bf16; 0: kernels compute them, as fast as f32
  double tf32_flops; // those in products of f32 whose factors may be rounded to TF32; 0: flops
  bool tf32;         // such factors may be rounded (--precision tf32); no figure of machine files
  double f64_flops;  // those in products of f64; 0: half of flops
  int64_t memory;    // bytes of memory that a processor has
  int64_t l2, l3;    // bytes of the cache of a core, and of the cache that all cores share
  double l2_rate, l3_rate; // bytes per second from these caches; 0: memory_rate
  // Bytes per second that a core takes over from the cache of another core of the same processor;
  // 0: these bytes take no more time than others.
  double core_rate;
  double launch; // seconds that a kernel, product or copy takes in addition to its work
  // Additions of f32 per second of one processor in kernels; 0: operations in kernels take no time.
  double operations;
  // What small products lose: a product [m, k] x [k, n] takes the time of 2 (mnk + half (mn + nk +
  // km)) flops. On a GPU a tile of the result takes as long as one whose sums have `half` more
  // terms.
  double half;
  // Of a GPU: tiles of products and blocks of threads are divided among so many multiprocessors.
  double multiprocessors;
  // Cores, or GPUs, that all processors of the mesh share; 0: each processor has its own.
  double cores;
  // 1: the processors share one memory. A collective reads and writes this memory, at a rate of at
  // most twice `bandwidth`. 0: the processors send messages.
  double shared;
  double overlap;     // 1: a collective runs beside other instructions; 0: a processor waits for it
  bool states_memory; // `memory` was stated in a machine file: programs that need more are refused
  uint8_t naxes;
  AxisLink axis[MAX_AXES];
} Machine;

// Returns the built-in figures, those of a small desktop machine.
Machine machine_default(void);
// Reads a machine file into *m: lines `name = number`, comments after #, and `kind = cpu` or `kind
// = gpu`. Without a `kind` line, more flops than any CPU has mean a GPU. The file of a CPU changes
// only the figures that it states. The file of a GPU must state every rate; its other figures
// become 0 if it does not state them. Returns false after an error in d.
MUST_USE bool machine_read(Machine *m, Diag *d, const char *path);
// As machine_read, for the text of a machine file. *m needs no value before; `name` stands for the
// file in messages.
MUST_USE bool machine_read_text(Machine *m, Diag *d, const char *name, const char *text);
// Returns the figures as the text of a machine file. Numbers have six digits; figures of axes come
// last.
char *machine_print(Arena *a, const Machine *m);
// As machine_print, with comments: note(name, m->gpu) is a word on the figure `name`, or NULL.
// Figures of axes get none.
typedef const char *MachineNote(const char *name, bool gpu);
char *machine_print_notes(Arena *a, const Machine *m, MachineNote *note);
// Sets *m to the figures of a built-in machine, the file of a GPU in examples/machines without
// .txt: h100, h200 (all processors on one GPU), h100x8 (eight GPUs), h100x512 (64 hosts of eight),
// ... Returns false if there is none of that name.
MUST_USE bool machine_named(Machine *m, const char *name);
const char *machine_names(Arena *a); // these names, separated by commas
// Returns the flops per second of products with factors of type t in a library.
double machine_flops(const Machine *m, Dtype t);
// Return the flops per second of kernels in register tiles, and in products of Winograd's
// algorithm.
double machine_tile_flops(const Machine *m);
double machine_winograd_flops(const Machine *m);
// Returns the connection along the mesh axis with that name. Figures that the axis lacks are those
// of the machine.
Link machine_link(const Machine *m, const char *axis);

#endif
