// What suites that drive the program itself share: running it, and the models that it is run on.
#ifndef TESTS_SUITE_COMMON_COMMAND_H
#define TESTS_SUITE_COMMON_COMMAND_H

#include "ir/base/arena.h"

// meshc as the first word of a command of the shell: its absolute path, in quotes.
const char *command_program(Arena *a);
// Standard output of a command, its exit code in *code.
char *command_output(Arena *a, const char *command, int *code);
// Calls it with the path of every model of tests/models, then of examples, each in order of names.
void models_each(void (*one)(const char *model));

#endif
