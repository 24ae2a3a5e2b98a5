// How the stand-ins and the emulator report an error of the code that they run: one line on
// standard error that begins with "stand-in: ", and the end of the process with an exit code of its
// own, so that no test takes it for another failure or for success.
#ifndef TESTS_STANDIN_FAIL_H
#define TESTS_STANDIN_FAIL_H

#include "ir/base/base.h"

enum { STANDIN_EXIT = 86 };

// Prints the sentence and ends the process at once: no exit handlers run, nothing is flushed.
_Noreturn void standin_fail(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
