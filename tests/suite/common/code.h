// How suites compile: the compile cache that they share in a run of the test command, and the
// options that a run may set for all of them.
//
//   SUITE_FLAGS="--no-fuse --opt 3" build/release/suite_models
#ifndef TESTS_SUITE_COMMON_CODE_H
#define TESTS_SUITE_COMMON_CODE_H

#include <stdbool.h>

// Returns the folder of the compile cache, $XDG_CACHE_HOME/meshc, which scripts/test.sh sets.
// Returns NULL for a suite that is run by itself: it compiles everything. The text is static.
const char *suite_cache(void);
// Returns whether a suite fuses: `usual`, but never if SUITE_FLAGS has --no-fuse.
bool suite_fuses(bool usual);
// Returns the level of optimization: N if SUITE_FLAGS has `--opt N`, else `usual`.
int suite_opt(int usual);
// Returns suite_opt(usual) as an option of meshc. The text is static, until the next call.
const char *suite_opt_option(int usual);
// Returns the features of the processor that code must not use (CodeOptions.without): SUITE_WITHOUT
// of the environment, NULL if it is not set. "fma,f16c" makes the code of a processor without AVX.
const char *suite_without(void);
// Returns whether the environment sets SUITE_FLAGS or MESHC_WIDTH. Numbers then hold, but not the
// bits and bytes that depend on how kernels are made.
bool suite_varied(void);
// Returns whether a suite runs the case that it comes to next. Of N shares, SUITE_PART=K/N selects
// the K-th (0 to N-1): cases K, K+N, K+2N and so on. Without SUITE_PART all cases run.
bool suite_takes(void);
// Returns whether SUITE_PART is set: checks that need all cases are left out.
bool suite_partial(void);

#endif
