// A fuzzer of vocabularies: vocab.json, merges.txt and models of SentencePiece. Bytes and words of
// the small ones in tests/vocabularies are dropped, doubled, cut off and changed. A vocabulary that
// is accepted encodes texts, all of whose ids must be its own, and shows the pieces of its ids. A
// file may be refused with a message; it must not cause a crash or a hang.
//
//   suite_fuzz_vocabulary [count=N] [first=N] [seed=S] [only=NAME]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "runtime/runtime_internal.h"
#include "runtime/tokens/vocabulary.h"
#include "tests/suite/common/fuzz.h"

enum { COUNT = 3000 };

// A valid file, and where its mutations are written: the folders have what else they need.
static struct Whole {
  const char *from, *folder, *name;
  FuzzText bytes;
} whole[] = {{"bpe.model", "bpe", "tokenizer.model", {.n = 0}},
             {"unigram.model", "unigram", "tokenizer.model", {.n = 0}},
             {"space_last.model", "space", "tokenizer.model", {.n = 0}},
             {"gpt/vocab.json", "pieces", "vocab.json", {.n = 0}},
             {"gpt/merges.txt", "merges", "merges.txt", {.n = 0}}};
static char directory[] = "/tmp/suite_fuzz_vocabulary_XXXXXX";
static const char *only = "";
static const struct Whole *under_work;

static void write_file(const char *folder, const char *name, const FuzzText *bytes) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s/%s", directory, folder, name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes->at, 1, bytes->n, f) != bytes->n) BUG("cannot write %s", path);
  fclose(f);
}

static bool read_file(struct Whole *w) {
  char path[128];
  snprintf(path, sizeof path, "tests/vocabularies/%s", w->from);
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  w->bytes.n = fread(w->bytes.at, 1, FUZZ_TEXT - 1, f);
  fclose(f);
  return true;
}

static void encode(const Vocabulary *v, const char *text, size_t n) {
  IdList ids = {0};
  size_t k;
  vocabulary_encode(v, text, n, &ids);
  for (int64_t i = 0; i < ids.n; i++) {
    if (ids.id[i] < 0 || ids.id[i] >= vocabulary_size(v)) BUG("id %d is no piece", ids.id[i]);
    const char *piece = vocabulary_text(v, ids.id[i], i == 0, &k);
    if (k && !piece) BUG("id %d has no text", ids.id[i]);
  }
  free(ids.id);
}

static bool run(const struct Whole *w, const FuzzText *bytes) {
  static const char text[] =
      "The house's  caf\xc3\xa9 \xe2\x96\x81x 12\n\n\xff<|endoftext|></s>\0 end";
  char path[96];
  size_t n;
  write_file(w->folder, w->name, bytes);
  snprintf(path, sizeof path, "%s/%s", directory, w->folder);
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Vocabulary *v = vocabulary_open(path, d, (Pos){0});
  if (!v && !diag_errors(d)) BUG("%s is refused without a word", w->from);
  if (v) {
    encode(v, text, sizeof text - 1);
    encode(v, bytes->at, bytes->n < 200 ? bytes->n : 200);
    for (int32_t i = -1; i < 40; i++) (void)vocabulary_text(v, i, i & 1, &n);
    (void)vocabulary_text(v, vocabulary_size(v), false, &n);
  }
  bool good = v != NULL;
  vocabulary_free(v);
  arena_free(a);
  return good;
}

// Every file must be accepted as it is, or mutations of it would test nothing.
static const char *files_make(void) {
  static char why[100];
  char path[96];
  for (size_t i = 0; i < countof(whole); i++) {
    snprintf(path, sizeof path, "%s/%s", directory, whole[i].folder);
    if (mkdir(path, 0700) != 0 || !read_file(&whole[i])) return "tests/vocabularies is not there";
  }
  write_file("pieces", "merges.txt", &whole[4].bytes);
  write_file("merges", "vocab.json", &whole[3].bytes);
  for (size_t i = 0; i < countof(whole); i++) {
    snprintf(why, sizeof why, "%s is refused as it is", whole[i].from);
    if (!run(&whole[i], &whole[i].bytes)) return why;
  }
  return NULL;
}

static const char *name_of(uint32_t i) { return whole[i].from; }

static void input_make(FuzzText *t) {
  under_work = &whole[fuzz_choose(countof(whole), name_of, only)];
  *t = under_work->bytes;
  for (uint32_t k = 1 + fuzz_below(4); k; k--) {
    if (fuzz_below(4))
      fuzz_bytes(t);
    else
      fuzz_tokens(t, &whole[fuzz_below(countof(whole))].bytes);
  }
}

static bool input_run(const FuzzText *t, uint64_t number) {
  (void)number;
  return run(under_work, t);
}

int main(int argc, char **argv) {
  static const Fuzzer fuzzer = {.count = COUNT,
                                .fault = files_make,
                                .make = input_make,
                                .run = input_run,
                                .folder = directory,
                                .only = &only};
  return fuzz_run(argc, argv, &fuzzer);
}
