// Philox4x32-10, and the random draws of graphs in double.
#include "ir/base/philox.h"

#include "ir/base/hash.h"

#include <math.h>

static void round_words(uint32_t c[4], const uint32_t k[2]) {
  uint64_t a = (uint64_t)PHILOX_M0 * c[0], b = (uint64_t)PHILOX_M1 * c[2];
  uint32_t c1 = c[1], c3 = c[3];
  c[0] = (uint32_t)(b >> 32) ^ c1 ^ k[0];
  c[1] = (uint32_t)b;
  c[2] = (uint32_t)(a >> 32) ^ c3 ^ k[1];
  c[3] = (uint32_t)a;
}

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t k[2] = {key[0], key[1]};
  for (int i = 0; i < 4; i++) out[i] = counter[i];
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    round_words(out, k);
    k[0] += PHILOX_W0;
    k[1] += PHILOX_W1;
  }
}

uint64_t philox_seed(uint64_t seed) { return philox_mix(seed + 0x9e3779b97f4a7c15u); }

uint64_t philox_key(const char *path, uint32_t ordinal) {
  return philox_mix(fnv_text(path) ^ philox_mix(ordinal + 0x9e3779b97f4a7c15u));
}

void philox_words(uint64_t key, uint64_t seed, int64_t position, int64_t step, uint32_t repeat,
                  uint32_t out[4]) {
  uint64_t at = (uint64_t)position, k = key ^ philox_seed(seed);
  uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)step, repeat};
  uint32_t halves[2] = {(uint32_t)k, (uint32_t)(k >> 32)};
  philox4x32(counter, halves, out);
}

// Returns a fraction in [0, 1) made from the random word w[i], where i is 0 or 1. In f64 w[i + 2]
// gives more digits. `more` is 0, or 1 to add one unit of the last digit. The fraction is then in
// (0, 1], so that it has a logarithm.
static double fraction(const uint32_t w[4], int i, double more, bool f64) {
  if (!f64) return ((double)(w[i] >> 8) + more) * 0x1p-24;
  uint64_t bits = (uint64_t)w[i] << 21 | w[i + 2] >> 11;
  return ((double)bits + more) * 0x1p-53;
}

double philox_uniform(const uint32_t w[4], bool f64) { return fraction(w, 0, 0, f64); }

double philox_radius(const uint32_t w[4], bool f64) {
  return sqrt(-2 * log(fraction(w, 0, 1, f64)));
}

double philox_normal(const uint32_t w[4], bool f64) {
  return philox_radius(w, f64) * cos(6.283185307179586477 * fraction(w, 1, 0, f64));
}
