// Checked sizes, endings of texts, the clock, and BUG: it prints one line with pass and node, then
// aborts.
#include "ir/base/base.h"

#include "ir/base/guard.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static _Thread_local const char *context_pass;
static _Thread_local uint32_t context_node;

void bug_context(const char *pass, uint32_t node) {
  context_pass = pass;
  context_node = node;
}

_Noreturn void bug_at(const char *file, int line, const char *fmt, ...) {
  char what[FAILURE_TEXT / 2], pass[FAILURE_TEXT / 4] = "";
  Failure f = {.internal = true};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  if (context_pass)
    snprintf(pass, sizeof pass, " (pass %s, node %%%u)", context_pass, context_node);
  snprintf(f.text, sizeof f.text, "internal error at %s:%d: %s%s", file, line, what, pass);
  guard_fail(&f);
  fflush(stdout);
  fprintf(stderr, "meshc: %s", f.text);
  fputs("\nThis is a mistake in meshc, not in the model. Please report it with the model file.\n",
        stderr);
  fflush(stderr);
  abort();
}

bool text_ends(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcasecmp(text + n - m, end) == 0;
}

bool size_mul(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

bool size_add(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

int64_t gcd64(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

double clock_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
