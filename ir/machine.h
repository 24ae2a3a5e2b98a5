// Figures of a machine that cost decisions use: a small text file parsed into numbers, so that
// decisions are the same everywhere (decision 15).
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include "ir/diag.h"

typedef struct Machine {
  double latency;       // seconds of one collective
  double bandwidth;     // bytes a second between two processors
  double memory_rate;   // bytes a second of a processor's memory
  double flops;         // a second, f32 products, one processor
  int64_t memory;       // bytes a processor
  int64_t l2, l3;       // bytes of cache a core, of the machine
} Machine;

// The built-in figures.
Machine machine_default(void);
// Lines `name = number`, # comments. False after an error in d.
MUST_USE bool machine_read(Machine *m, Diag *d, const char *path);

#endif
