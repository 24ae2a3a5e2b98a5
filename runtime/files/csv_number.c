// Parses decimal numbers, with exactly rounded results.
//
// A number is m * 10^k, m an integer of its digits. Three ways give the nearest double:
//   m < 2^53, |k| <= 22   one multiplication or division of exact doubles [Clinger 1990]
//   m < 2^64, |k| <= 27   m * 5^k or m / 5^-k in integers of 128 bits, which are then rounded
//   else                  strtod
// The second way serves numbers with up to 19 digits, as programs print doubles.
#include "runtime/files/csv_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 Wide;

enum { EXACT_TENS = 22, FIVES = 27, DIGITS = 19 };

static const double ten[EXACT_TENS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                           1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                           1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(char c) { return (unsigned char)(c - '0') < 10; }

// Returns x * 2^e rounded to the nearest double, ties to even. `rest`: the value is a little more
// than x * 2^e. x != 0, and the result is a normal number.
static double round_wide(Wide x, int e, bool rest) {
  uint64_t high = (uint64_t)(x >> 64);
  int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)x),
      drop = bits - 53;
  if (drop <= 0) return ldexp((double)(uint64_t)x, e);
  Wide half = (Wide)1 << (drop - 1), tail = x & (2 * half - 1);
  uint64_t kept = (uint64_t)(x >> drop);
  kept += tail > half || (tail == half && (rest || (kept & 1)));
  return ldexp((double)kept, e + drop);
}

static uint64_t five_to(int k) {
  uint64_t five = 1;
  while (k--) five *= 5;
  return five;
}

static double scale_wide(uint64_t m, int k) {
  if (k >= 0) return round_wide((Wide)m * five_to(k), k, false);
  int shift = __builtin_clzll(m);
  Wide x = (Wide)(m << shift) << 64;
  uint64_t five = five_to(-k);
  return round_wide(x / five, k - 64 - shift, x % five != 0);
}

static const char *by_library(const char *p, const char *end, char decimal, double *out) {
  size_t n = (size_t)(end - p);
  char *text = mem_text_n(p, n), *point = strchr(text, decimal), *stop;
  if (point) *point = '.';
  *out = strtod(text, &stop);
  bool all = stop == text + n;
  free(text);
  return all && isfinite(*out) ? end : NULL;
}

// Reads the exponent behind a number, if there is one. Returns the first byte behind it.
static const char *read_exponent(const char *p, int *k) {
  if (*p != 'e' && *p != 'E') return p;
  const char *q = p + 1;
  bool minus = *q == '-';
  q += minus || *q == '+';
  if (!is_digit(*q)) return NULL;
  int x = 0;
  for (; is_digit(*q); q++) x = x < 100000 ? 10 * x + (*q - '0') : x;
  *k += minus ? -x : x;
  return q;
}

const char *csv_number_at(const char *start, char decimal, double *out) {
  const char *p = start;
  bool minus = *p == '-';
  p += minus || *p == '+';
  const char *digits = p;
  uint64_t m = 0;
  for (; is_digit(*p); p++) m = 10 * m + (uint64_t)(*p - '0');
  int64_t n = p - digits;
  int k = 0;
  if (*p == decimal) {
    const char *fraction = ++p;
    for (; is_digit(*p); p++) m = 10 * m + (uint64_t)(*p - '0');
    int64_t places = p - fraction;
    n += places;
    k = places > DIGITS ? 0 : -(int)places; // with more places strtod reads them
  }
  if (n == 0 || !(p = read_exponent(p, &k))) return NULL;
  if (n > DIGITS) return by_library(start, p, decimal, out);
  double x = 0;
  if (m < (uint64_t)1 << 53 && -EXACT_TENS <= k && k <= EXACT_TENS)
    x = k < 0 ? (double)m / ten[-k] : (double)m * ten[k];
  else if (m && -FIVES <= k && k <= FIVES)
    x = scale_wide(m, k);
  else if (m)
    return by_library(start, p, decimal, out);
  *out = minus ? -x : x;
  return p;
}

bool csv_number(const char *text, size_t n, char decimal, double *out) {
  char small[64];
  if (n < sizeof small) {
    memcpy(small, text, n);
    small[n] = 0;
    return n && csv_number_at(small, decimal, out) == small + n;
  }
  char *copy = mem_text_n(text, n);
  bool good = csv_number_at(copy, decimal, out) == copy + n;
  free(copy);
  return good;
}
