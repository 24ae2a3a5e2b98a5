// Shared by the fuzzers: random numbers, mutations, and the loop over inputs. Inputs run in a child
// process. If an input kills it or takes too long, a new child continues with the next input.
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

// Returns the next number of SplitMix64, from a state that fuzz_run sets for each input.
uint64_t fuzz_draw(void);
uint32_t fuzz_below(uint32_t n);
// Appends n bytes; appends nothing if there is no room.
void fuzz_put(FuzzText *t, const char *s, size_t n);
void fuzz_copy(FuzzText *to, const FuzzText *from);
// Read and write a file. Return false if it cannot be opened, or has no room in a FuzzText.
bool fuzz_read(FuzzText *t, const char *path);
bool fuzz_write(const FuzzText *t, const char *path);
// Reads the models of this repository (the current folder is its top). *out gets them; returns
// their number.
uint32_t fuzz_models(const FuzzText **out);
// Returns the length of the word, number or mark at p; 0 at the end.
size_t fuzz_token(const char *p);
// Returns the start of some token of t.
const char *fuzz_somewhere(const FuzzText *t);
// Mutations. fuzz_tokens drops, doubles or exchanges some tokens, or inserts some of `other`.
// fuzz_bytes cuts, doubles or changes bytes.
void fuzz_tokens(FuzzText *t, const FuzzText *other);
void fuzz_bytes(FuzzText *t);
// Returns a number that is often wrong in files.
uint64_t fuzz_odd(void);

typedef struct Fuzzer {
  uint64_t count; // number of inputs, unless count=N is given
  const char *(*fault)(
      void); // may be NULL; called once, first: what is wrong with the fuzzer itself, or NULL
  void (*make)(FuzzText *t);                       // makes the next input, from fuzz_draw alone
  bool (*run)(const FuzzText *t, uint64_t number); // runs an input; true: it was accepted
  const char *name; // NULL, or there is a folder with this name in its path (fuzz_folder)
} Fuzzer;
// Runs a fuzzer: SUITE [count=N] [first=N] [seed=S] [only=NAME]. Prints failures and the line of
// totals, and returns the exit code. Input i of seed S is always the same; SHOW=1 prints inputs
// that fail.
int fuzz_run(int argc, char **argv, const Fuzzer *f);
// Returns the folder of the fuzzer: made before `fault`, removed at the end. It is in memory where
// the machine has such a file system: on a disk, a file that is written again waits for the disk.
const char *fuzz_folder(void);
// Returns the text behind only= in the arguments, else "".
const char *fuzz_only(void);

#endif
