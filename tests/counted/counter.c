// The clock of meshc_counted, the compiler built with a call at each basic block (gcc and clang:
// -fsanitize-coverage=trace-pc). `meshc_counted check -v` prints how many blocks each stage ran,
// where meshc prints processor time: a block counts as a microsecond. Equal runs give equal counts.
// What the C library does, such as clearing and copying memory, is not counted.
//
// Thread rule: the stages that are counted run in one thread.
#include <stdint.h>

#include "frontend/driver/timings.h"

static uint64_t blocks;

void __sanitizer_cov_trace_pc(void); // the compiler calls it; no header declares it
void __sanitizer_cov_trace_pc(void) { blocks++; }

static double block_seconds(void) { return 1e-6 * (double)blocks; }

__attribute__((constructor)) static void begin(void) { timings_use_clock(block_seconds); }
