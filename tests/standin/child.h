// For tests of the stand-ins: runs code that must end its process with an error of a stand-in.
#ifndef TESTS_STANDIN_CHILD_H
#define TESTS_STANDIN_CHILD_H

#include <stddef.h>

// Runs code(argument) in a child process. Returns its exit code (0 if it returned; -N if signal N
// ended it) and writes what it printed on standard error to text[0..n).
int child_run(void (*code)(void *), void *argument, char *text, size_t n);
// Returns whether code(argument) ends with STANDIN_EXIT and a message that contains all of the
// words[0..nwords). Otherwise prints what it did.
int child_fails(void (*code)(void *), void *argument, const char *const *words, size_t nwords);

#endif
