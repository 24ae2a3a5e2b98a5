// Shared by the fuzzers of files: a list of valid files, mutations that know the form of a file,
// and the loop over the results.
#ifndef TESTS_SUITE_COMMON_FUZZ_FILES_H
#define TESTS_SUITE_COMMON_FUZZ_FILES_H

#include "tests/suite/common/fuzz.h"

// What a file consists of. Half of its mutations keep the form: lengths and checksums of it fit, so
// that what is behind them is reached.
typedef enum FuzzForm {
  FORM_KEPT,  // it is not changed
  FORM_BYTES, // only bytes and words of it are changed
  FORM_WORDS, // integers of 2, 4 or 8 bytes
  FORM_PACK,  // integers of variable length (ir/program/pack.h)
  FORM_LINES,
  FORM_CSV,
  FORM_CSV_GZ,
  FORM_JSON,
  FORM_SAFETENSORS,
  FORM_PROTO, // a message of protocol buffers
} FuzzForm;

// Adds a valid file, whose name only= may choose; the name must live on. Returns its bytes, which
// the caller fills. Files have the numbers 0, 1, ...
FuzzText *fuzz_add(const char *name, FuzzForm form);
uint32_t fuzz_added(void);
// Returns the bytes, and the name, of valid file k.
FuzzText *fuzz_file(uint32_t k);
const char *fuzz_file_name(uint32_t k);

typedef struct FuzzFiles {
  const char *name; // Fuzzer.name
  uint64_t count;
  // Adds the valid files. Returns what is wrong, or NULL.
  const char *(*open)(void);
  // Reads file k with these bytes. Returns whether it was accepted. Every valid file must be.
  bool (*run)(uint32_t k, const FuzzText *bytes);
} FuzzFiles;
// Runs a fuzzer, as fuzz_run does.
int fuzz_files_run(int argc, char **argv, const FuzzFiles *f);

// -- fuzz_text.c, fuzz_binary.c -----------------------------------------------------------------
// Changes a text of this form in one place, and keeps the form. Returns false if it has lost it.
bool fuzz_lines(FuzzText *t);
bool fuzz_csv(FuzzText *t);
bool fuzz_json(FuzzText *t);
bool fuzz_words(FuzzText *t);
bool fuzz_pack(FuzzText *t);
bool fuzz_csv_gz(FuzzText *t);
bool fuzz_safetensors(FuzzText *t);
bool fuzz_proto(FuzzText *t);

#endif
