// Checks the drawings of a page as text: boxes do not overlap unless one contains the other, and
// edges cross no box.
#ifndef TESTS_SUITE_COMMON_DRAWINGS_H
#define TESTS_SUITE_COMMON_DRAWINGS_H

#include "ir/base/arena.h"

// Returns NULL when all drawings (<div class="graph">) of the page are correct, otherwise what is
// wrong. *boxes and *edges count what was seen.
const char *drawings_fault(Arena *a, const char *page, uint32_t *boxes, uint32_t *edges);

#endif
