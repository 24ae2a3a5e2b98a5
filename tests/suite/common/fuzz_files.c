// The loop of the fuzzers of files (fuzz_files.h): draws a file and changes it in some places.
#include "tests/suite/common/fuzz_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/base.h"

enum { MOST_FILES = 160 };
typedef struct ValidFile {
  const char *name;
  FuzzForm form;
  FuzzText *bytes;
} ValidFile;
static ValidFile file[MOST_FILES];
static uint32_t nfiles, under_work;
static const FuzzFiles *fuzzer;

FuzzText *fuzz_add(const char *name, FuzzForm form) {
  FuzzText *bytes = calloc(1, sizeof *bytes);
  if (!bytes || nfiles == MOST_FILES) BUG("too many files for a fuzzer");
  file[nfiles++] = (ValidFile){name, form, bytes};
  return bytes;
}

uint32_t fuzz_added(void) { return nfiles; }
FuzzText *fuzz_file(uint32_t k) { return file[k].bytes; }
const char *fuzz_file_name(uint32_t k) { return file[k].name; }

static bool fits(const ValidFile *f, const char *only) {
  return f->form != FORM_KEPT && strstr(f->name, only);
}

static uint32_t count_fitting(const char *only) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < nfiles; i++) n += fits(&file[i], only);
  return n;
}

// Draws one of the files whose name has the text of only=; any, if there is none.
static uint32_t draw_file(void) {
  const char *only = count_fitting(fuzz_only()) ? fuzz_only() : "";
  uint32_t left = fuzz_below(count_fitting(only)), k = 0;
  while (!fits(&file[k], only) || left-- > 0) k++;
  return k;
}

static bool keep_form(FuzzForm form, FuzzText *t) {
  switch (form) {
  case FORM_KEPT:
  case FORM_BYTES: return false;
  case FORM_WORDS: return fuzz_words(t);
  case FORM_PACK: return fuzz_pack(t);
  case FORM_LINES: return fuzz_lines(t);
  case FORM_CSV: return fuzz_csv(t);
  case FORM_CSV_GZ: return fuzz_csv_gz(t);
  case FORM_JSON: return fuzz_json(t);
  case FORM_SAFETENSORS: return fuzz_safetensors(t);
  case FORM_PROTO: return fuzz_proto(t);
  }
  return false;
}

static void input_make(FuzzText *t) {
  if (!nfiles) return;
  under_work = draw_file();
  fuzz_copy(t, file[under_work].bytes);
  for (uint32_t k = 1 + fuzz_below(4); k; k--) {
    uint32_t how = fuzz_below(4);
    if (how < 2 && keep_form(file[under_work].form, t)) continue;
    if (how == 3)
      fuzz_tokens(t, file[fuzz_below(nfiles)].bytes);
    else
      fuzz_bytes(t);
  }
}

static bool input_run(const FuzzText *t, uint64_t number) {
  (void)number;
  return fuzzer->run(under_work, t);
}

// Opens the fuzzer. Every file must be accepted as it is, or mutations of it would test nothing.
static const char *files_open(void) {
  static char why[160];
  const char *wrong = fuzzer->open();
  for (uint32_t k = 0; k < nfiles && !wrong; k++) {
    if (fuzzer->run(k, file[k].bytes)) continue;
    snprintf(why, sizeof why, "%s is refused as it is", file[k].name);
    wrong = why;
  }
  return wrong;
}

int fuzz_files_run(int argc, char **argv, const FuzzFiles *f) {
  fuzzer = f;
  const Fuzzer all = {.count = f->count,
                      .fault = files_open,
                      .make = input_make,
                      .run = input_run,
                      .name = f->name};
  int code = fuzz_run(argc, argv, &all);
  for (uint32_t k = 0; k < nfiles; k++) free(file[k].bytes);
  nfiles = 0;
  return code;
}
