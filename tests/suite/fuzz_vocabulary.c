// A fuzzer of vocabularies: vocab.json, merges.txt and models of SentencePiece. Bytes, words,
// values and fields of the small ones in tests/vocabularies are dropped, doubled, cut off and
// changed. A vocabulary that is accepted encodes texts, all of whose ids must be its own, and shows
// the pieces of its ids. A file may be refused with a message; it must not cause a crash or a hang.
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
#include "tests/suite/common/fuzz_files.h"

enum { COUNT = 3000 };

// Valid files, and where their mutations are written: the folders have what else they need.
static const struct Whole {
  const char *from, *folder, *name;
  FuzzForm form;
} whole[] = {{"bpe.model", "bpe", "tokenizer.model", FORM_PROTO},
             {"unigram.model", "unigram", "tokenizer.model", FORM_PROTO},
             {"space_last.model", "space", "tokenizer.model", FORM_PROTO},
             {"gpt/vocab.json", "pieces", "vocab.json", FORM_JSON},
             {"gpt/merges.txt", "merges", "merges.txt", FORM_LINES}};
enum { VOCAB = 3, MERGES = 4 };

static void write_file(const char *folder, const char *name, const FuzzText *bytes) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s/%s", fuzz_folder(), folder, name);
  if (!fuzz_write(bytes, path)) BUG("cannot write %s", path);
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

static bool run(uint32_t k, const FuzzText *bytes) {
  const struct Whole *w = &whole[k];
  static const char text[] =
      "The house's  caf\xc3\xa9 \xe2\x96\x81x 12\n\n\xff<|endoftext|></s>\0 end";
  char path[96];
  size_t n;
  write_file(w->folder, w->name, bytes);
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), w->folder);
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

static const char *files_make(void) {
  char path[128];
  for (size_t i = 0; i < countof(whole); i++) {
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), whole[i].folder);
    if (mkdir(path, 0700) != 0) return "a folder cannot be made";
    snprintf(path, sizeof path, "tests/vocabularies/%s", whole[i].from);
    if (!fuzz_read(fuzz_add(whole[i].from, whole[i].form), path))
      return "tests/vocabularies is not there";
  }
  write_file("pieces", "merges.txt", fuzz_file(MERGES));
  write_file("merges", "vocab.json", fuzz_file(VOCAB));
  return NULL;
}

int main(int argc, char **argv) {
  static const FuzzFiles fuzzer = {
      .name = "fuzz_vocabulary", .count = COUNT, .open = files_make, .run = run};
  return fuzz_files_run(argc, argv, &fuzzer);
}
