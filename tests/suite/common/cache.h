// The compile cache that the suites share in a run of the test command.
#ifndef TESTS_SUITE_COMMON_CACHE_H
#define TESTS_SUITE_COMMON_CACHE_H

// Returns the folder of the compile cache, $XDG_CACHE_HOME/meshc, which scripts/test.sh sets.
// Returns NULL for a suite that is run by itself: it compiles everything. The text is static.
const char *suite_cache(void);

#endif
