// Amounts with a unit, as all commands print them. Texts are allocated in arena a.
#ifndef IR_UNITS_H
#define IR_UNITS_H

#include "ir/base/arena.h"

const char *bytes_text(Arena *a, int64_t bytes); // "12 B", "12.3 KiB"
const char *flops_text(Arena *a, double flops);  // "12 FLOP", "12.3 MFLOP"
// Returns a time with three significant digits, in us, ms or s: "0.450 us", "85.2 us", "1.02 ms".
// The time is not negative.
const char *seconds_text(Arena *a, double seconds);
// Returns a change of a time with its sign: "+3.43 ms", "-85.2 us". "+0 us" if it is too small to
// be shown.
const char *seconds_change_text(Arena *a, double seconds);
// Returns by how many percent `now` is more than `base`, which is not 0: "+28.0 %". "+0.0 %" if it
// is less than can be shown.
const char *percent_change_text(Arena *a, double now, double base);

#endif
