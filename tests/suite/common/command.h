// For suites that run the program itself: commands, and the models of the repository.
#ifndef TESTS_SUITE_COMMON_COMMAND_H
#define TESTS_SUITE_COMMON_COMMAND_H

#include "ir/base/arena.h"

// Returns meshc as the first word of a shell command: its absolute path, in quotes, in the arena.
const char *command_program(Arena *a);
// Runs a shell command. Returns its standard output, in the arena; *code gets its exit code.
char *command_output(Arena *a, const char *command, int *code);
// Calls `one` with the path of every model of tests/models, then of examples, each sorted by name.
void models_each(void (*one)(const char *model));

#endif
