// Small things that every file may use: limits, checked sizes, and BUG for broken invariants.
#ifndef IR_BASE_H
#define IR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define countof(a) (sizeof(a) / sizeof((a)[0]))

enum {
  MAX_RANK = 16, // the most dims that a tensor can have
  MAX_AXES = 8,  // the most axes that a mesh can have
};

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#define MUST_USE __attribute__((warn_unused_result))
#else
#define PRINTF_LIKE(fmt, first)
#define MUST_USE
#endif

// Reports a broken invariant of meshc itself, never a mistake of the user. Prints the text, and the
// current pass and node if bug_context has set them, then aborts. In the library meshc it jumps to
// guard_run (ir/base/guard.h) instead, which returns false.
#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void bug_at(const char *file, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Sets the pass and node that BUG prints, for the calling thread. `pass` must live until the next
// call.
void bug_context(const char *pass, uint32_t node);

// Multiply or add two sizes. If the result does not fit, return false and do not change *out.
MUST_USE bool size_mul(int64_t a, int64_t b, int64_t *out);
MUST_USE bool size_add(int64_t a, int64_t b, int64_t *out);

// Returns ceil(n / p) for n >= 0, p >= 1.
static inline int64_t ceil_div(int64_t n, int64_t p) { return n / p + (n % p != 0); }
// Returns the number of bits of x that are 1.
static inline int count_bits(uint64_t x) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}
// Returns the ending that a regular noun has after the number n: "" for 1, else "s".
static inline const char *plural(int64_t n) { return n == 1 ? "" : "s"; }
// Returns whether a text, such as a path, ends with `end`, in upper or lower case.
bool text_ends(const char *text, const char *end);
// Returns the greatest common divisor, not negative; gcd64(0, 0) is 0.
int64_t gcd64(int64_t a, int64_t b);
// Returns the seconds of a monotonic clock.
double clock_seconds(void);

static inline int64_t clamp64(int64_t x, int64_t lo, int64_t hi) {
  return x < lo ? lo : x > hi ? hi : x;
}
// Writes the strides, in elements, of a row-major array of these sizes. Returns its number of
// elements. The sizes must not overflow.
static inline int64_t row_strides(int rank, const int64_t *size, int64_t *stride) {
  int64_t n = 1;
  for (int d = rank - 1; d >= 0; d--) {
    stride[d] = n;
    n *= size[d];
  }
  return n;
}

#endif
