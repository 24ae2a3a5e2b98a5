// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and its
// counter and key for the draws of a graph. The evaluator, the runtime and generated code draw the
// same numbers.
//
// The words of a draw are philox(counter, key) with
//
//   key      the low and high half of attr.key ^ philox_seed(seed)
//   counter  {low half of p, high half of p, step, repeat}
//
// where p is the element's position in the whole tensor, row-major over the node's dims in order of
// declaration (a lowered graph adds the offsets of blocks), `step` is the step counter and `repeat`
// the number of the update within the step, usually 0. From words w0, w1:
//
//   uniform  (w0 >> 8) * 2^-24                                   in [0, 1), exact in f32
//   normal   sqrt(-2 log(u1)) * cos(2 pi u2)                     Box and Muller, 1958
//            u1 = ((w0 >> 8) + 1) * 2^-24 in (0, 1], u2 = (w1 >> 8) * 2^-24 in [0, 1)
//
// In f64 a fraction has 53 bits, the upper ones those of f32: (w0 2^21 + (w2 >> 11)) 2^-53 replaces
// the first fraction, and w1 and w3 give the second.
//
// The absolute value of a normal draw is thus at most 5.77 (in f64 8.58). Code that computes in f32
// takes the fraction of a turn before it multiplies by 2 pi. Its error may be PHILOX_NORMAL_ERROR
// times the radius sqrt(-2 log(u1)).
#ifndef IR_PHILOX_H
#define IR_PHILOX_H

#include "ir/base/base.h"

// Allowed error of a normal draw, as a multiple of its radius sqrt(-2 log(u1)), in f32 and in f64.
#define PHILOX_NORMAL_ERROR 0x1p-19
#define PHILOX_NORMAL_ERROR64 0x1p-46

// Constants of Philox: the multipliers of a round (M0, M1), and the numbers that each round adds to
// the two words of the key (W0, W1).
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u
enum { PHILOX_ROUNDS = 10 };

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// Returns x mixed by the finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014).
static inline uint64_t philox_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
// Returns a number derived from the seed of a run. philox_words combines it with the keys of draws.
uint64_t philox_seed(uint64_t seed);
// Returns the key of a draw, a node that makes random numbers (Attr.key). `path` is the scope of
// the draw in the model, `ordinal` its number in this scope, from 0.
uint64_t philox_key(const char *path, uint32_t ordinal);

// Computes the four random words of one element of a draw. `position` is the index of the element
// in the whole tensor.
void philox_words(uint64_t key, uint64_t seed, int64_t position, int64_t step, uint32_t repeat,
                  uint32_t out[4]);
// Return the number that a uniform or normal draw gives for the words w, in f32 or in f64.
double philox_uniform(const uint32_t w[4], bool f64);
double philox_normal(const uint32_t w[4], bool f64);
// Returns sqrt(-2 log(u1)) for the words w: the radius of the normal draw.
double philox_radius(const uint32_t w[4], bool f64);

#endif
