// The compile cache that the suites share in a run of the test command.
#ifndef TESTS_SUITE_COMMON_CACHE_H
#define TESTS_SUITE_COMMON_CACHE_H

// $XDG_CACHE_HOME/meshc, which scripts/test.sh sets; NULL: a suite that is run by itself compiles
// everything. The text is static.
const char *suite_cache(void);

#endif
