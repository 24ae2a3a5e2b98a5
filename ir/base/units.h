// Amounts with a unit, as all commands print them. Texts are allocated in arena a.
#ifndef IR_UNITS_H
#define IR_UNITS_H

#include "ir/base/arena.h"

const char *bytes_text(Arena *a, int64_t bytes);    // "12 B", "12.3 KiB"
const char *flops_text(Arena *a, double flops);     // "12 FLOP", "12.3 MFLOP"
const char *seconds_text(Arena *a, double seconds); // "85.2 us" below 0.1 ms, else "12.345 ms"

#endif
