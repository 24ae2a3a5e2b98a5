// What the fuzzers share: numbers at random, mutations, and inputs that run in a child process,
// which is started again behind an input that kills it or takes too long.
#ifndef TESTS_SUITE_COMMON_FUZZ_H
#define TESTS_SUITE_COMMON_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUZZ_TEXT = 1 << 17, FUZZ_MODELS = 256 };
typedef struct FuzzText {
  char at[FUZZ_TEXT]; // NUL-terminated
  size_t n;
} FuzzText;

// SplitMix64 from a state that fuzz_run sets for each input.
uint64_t fuzz_draw(void);
uint32_t fuzz_below(uint32_t n);
// Appends n bytes, nothing if there is no room.
void fuzz_put(FuzzText *t, const char *s, size_t n);
// The models of this repository (from its top folder); their number.
uint32_t fuzz_models(const FuzzText **out);
// Length of the word, number or mark at p; 0 at the end.
size_t fuzz_token(const char *p);
// The start of some token of t.
const char *fuzz_somewhere(const FuzzText *t);
// Drops, doubles or exchanges some tokens, or mixes in some of `other`; cuts, doubles or changes
// bytes.
void fuzz_tokens(FuzzText *t, const FuzzText *other);
void fuzz_bytes(FuzzText *t);

typedef struct Fuzzer {
  uint64_t count; // of inputs, unless count=N is given
  const char *(*fault)(
      void); // what is wrong with the fuzzer itself, or NULL; once, before all inputs; or NULL
  void (*make)(FuzzText *t);                       // the next input, from numbers at random alone
  bool (*run)(const FuzzText *t, uint64_t number); // true: it was accepted
} Fuzzer;
// SUITE [count=N] [first=N] [seed=S]: prints failures and the line of totals; the exit code. Input
// i of seed S is the same everywhere; SHOW=1 prints those that fail.
int fuzz_run(int argc, char **argv, const Fuzzer *f);

#endif
