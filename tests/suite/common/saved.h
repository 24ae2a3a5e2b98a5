// A program that has tensors to save and computes nothing: w[b], split over two processors, and
// m[k], replicated on both.
#ifndef TESTS_SUITE_COMMON_SAVED_H
#define TESTS_SUITE_COMMON_SAVED_H

#include "ir/program/program.h"

enum { SAVED_ROWS = 6000, SAVED_STATES = 700 };
const Program *saved_program(void);

#endif
