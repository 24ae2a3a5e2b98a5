// Reports an error of the code that the stand-ins run, and ends the process.
#include "tests/standin/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void standin_fail(const char *format, ...) {
  char text[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "stand-in: %s\n", text);
  fflush(stderr);
  _exit(STANDIN_EXIT);
}
