// Makes the texts of small random models that can be trained, for suites that plan and explain
// whole models.
#ifndef TESTS_SUITE_COMMON_RANDOM_MODEL_H
#define TESTS_SUITE_COMMON_RANDOM_MODEL_H

#include <stdint.h>

#include "ir/base/arena.h"

// Returns random model number `seed`, the same in every call: an input of a batch of rows or of
// sequences, one to three layers of several kinds over few dims, a loss and an optimizer. Sizes are
// such that splits are worthwhile for some models and not for others.
const char *random_model(Arena *a, uint64_t seed);

#endif
