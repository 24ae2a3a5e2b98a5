// Permutations computed on demand, such as the order of the rows in an epoch: a Feistel network
// permutes the numbers of 2 * half bits, and is applied to a number until the result is below n
// (cycle walking), at most four times on average. `half` is the least with n <= 2^(2 half).
//
// LANES numbers go through the network together, so that compilers make vectors of them. A lane
// whose number is done takes the next one.
#include "ir/base/philox.h"
#include "runtime/runtime_internal.h"

enum { ROUNDS = 6, LANES = 32 };

typedef struct Permutation {
  int half;
  uint64_t n, mask, round[ROUNDS];
} Permutation;

// Defines the network, applied once to each lane.
#define NETWORK(name, TARGET)                                                                      \
  TARGET static void name(const Permutation *p, uint64_t *restrict x) {                            \
    uint64_t l[LANES], r[LANES];                                                                   \
    for (int i = 0; i < LANES; i++) l[i] = x[i] >> p->half, r[i] = x[i] & p->mask;                 \
    for (int k = 0; k < ROUNDS; k++)                                                               \
      for (int i = 0; i < LANES; i++) {                                                            \
        uint64_t next = l[i] ^ (philox_mix(r[i] ^ p->round[k]) & p->mask);                         \
        l[i] = r[i];                                                                               \
        r[i] = next;                                                                               \
      }                                                                                            \
    for (int i = 0; i < LANES; i++) x[i] = l[i] << p->half | r[i];                                 \
  }

NETWORK(network, )
#if defined(__x86_64__)
#if defined(__clang__)
#define AVX512 __attribute__((target("avx512f,avx512dq"), min_vector_width(512)))
#else
#define AVX512 __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif
NETWORK(network_avx512, AVX512)
#endif

typedef void Network(const Permutation *p, uint64_t *restrict x);
static Network *widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return network_avx512;
#endif
  return network;
}

static Permutation permutation(uint64_t key, int64_t n) {
  Permutation p = {.half = 1, .n = (uint64_t)n};
  while (p.half < 31 && (uint64_t)(n - 1) >> (2 * p.half)) p.half++;
  p.mask = ((uint64_t)1 << p.half) - 1;
  for (uint64_t i = 0; i < ROUNDS; i++) p.round[i] = philox_mix(key + i);
  return p;
}

void rng_permute(uint64_t key, int64_t n, int64_t first, int64_t count, int64_t *out) {
  uint64_t x[LANES] = {0};
  int64_t at[LANES], next = 0; // at: where the number of a lane goes in `out`
  int busy = 0;
  if (n <= 1) {
    for (int64_t i = 0; i < count; i++) out[i] = 0;
    return;
  }
  const Permutation p = permutation(key, n);
  Network *apply = widest();
  while (next < count || busy > 0) {
    for (; busy < LANES && next < count; busy++) {
      x[busy] = (uint64_t)(first + next);
      at[busy] = next++;
    }
    apply(&p, x);
    int kept = 0;
    for (int i = 0; i < busy; i++) {
      if (x[i] < p.n) {
        out[at[i]] = (int64_t)x[i];
      } else {
        x[kept] = x[i];
        at[kept++] = at[i];
      }
    }
    busy = kept;
  }
}
