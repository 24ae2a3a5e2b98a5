// Tests vocabularies: ids and texts as the libraries that defined the formats give them
// (tests/vocabularies), any bytes as text, and damaged files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/disk.h"
#include "runtime/tokens/vocabulary.h"

static Arena *arena;
static Diag *diag;
static char directory[] = "/tmp/meshc_tokens_XXXXXX";

static const char *path_of(const char *name) {
  return arena_printf(arena, "tests/vocabularies/%s", name);
}

static Vocabulary *open_known(const char *name) {
  Vocabulary *v = vocabulary_open(path_of(name), diag, (Pos){0});
  if (!v) diag_print(diag, stderr, false);
  assert_non_null(v);
  return v;
}

// Returns the bytes of a word of hexadecimal digits, "-" for none.
static char *bytes_of_hex(const char *hex, size_t *n) {
  *n = *hex == '-' ? 0 : strlen(hex) / 2;
  char *out = arena_alloc(arena, *n + 1);
  for (size_t i = 0; i < *n; i++) {
    unsigned b;
    assert_int_equal(sscanf(hex + 2 * i, "%2x", &b), 1);
    out[i] = (char)b;
  }
  return out;
}

// Compares the text of the ids with n bytes of `text`.
static void expect_text(const Vocabulary *v, const IdList *ids, const char *text, size_t n) {
  size_t at = 0, k;
  for (int64_t i = 0; i < ids->n; i++) {
    const char *piece = vocabulary_text(v, ids->id[i], i == 0, &k);
    assert_true(at + k <= n && memcmp(text + at, piece, k) == 0);
    at += k;
  }
  assert_int_equal(at, n);
}

static void expect_line(char *line, int *count) {
  static Vocabulary *v;
  static char model[32];
  char *rest, *name = strtok_r(line, " \n", &rest);
  if (strcmp(name, model) != 0) {
    vocabulary_free(v);
    v = open_known(strcpy(model, name));
  }
  size_t n, k;
  const char *text = bytes_of_hex(strtok_r(NULL, " \n", &rest), &n);
  const char *back = bytes_of_hex(strtok_r(NULL, " \n", &rest), &k);
  IdList ids = {0};
  vocabulary_encode(v, text, n, &ids);
  int64_t i = 0;
  for (char *word; (word = strtok_r(NULL, " \n", &rest)); i++) {
    if (i >= ids.n || ids.id[i] != atoi(word)) fail_msg("%s: id %d of %s", model, (int)i, text);
  }
  assert_int_equal(i, ids.n);
  expect_text(v, &ids, back, k);
  free(ids.id);
  ++*count;
}

static void ids_of_libraries(void **state) {
  (void)state;
  FILE *f = fopen(path_of("expected.txt"), "r");
  assert_non_null(f);
  char line[8192];
  int count = 0;
  while (fgets(line, sizeof line, f)) expect_line(line, &count);
  fclose(f);
  assert_int_equal(count, 320);
}

static const char *const names[] = {"bpe.model", "unigram.model", "space_last.model", "gpt"};

// A small generator of numbers (Marsaglia, "Xorshift RNGs", 2003).
static uint64_t draw(uint64_t *x) {
  *x ^= *x << 13;
  *x ^= *x >> 7;
  return *x ^= *x << 17;
}

// Byte-level BPE gives any bytes back; the others encode them without a fault.
static void any_bytes(void **state) {
  (void)state;
  uint64_t x = 1;
  for (size_t m = 0; m < countof(names); m++) {
    Vocabulary *v = open_known(names[m]);
    for (int round = 0; round < 200; round++) {
      char text[64];
      size_t n = draw(&x) % sizeof text;
      for (size_t i = 0; i < n; i++)
        text[i] = (char)(draw(&x) % 3 ? draw(&x) : (uint64_t) " \n'a"[draw(&x) % 4]);
      IdList ids = {0};
      vocabulary_encode(v, text, n, &ids);
      for (int64_t i = 0; i < ids.n; i++) assert_in_range(ids.id[i], 0, vocabulary_size(v) - 1);
      if (m == 3) expect_text(v, &ids, text, n);
      free(ids.id);
    }
    size_t n;
    assert_string_equal(vocabulary_text(v, -1, true, &n), "");
    assert_string_equal(vocabulary_text(v, vocabulary_size(v), true, &n), "");
    vocabulary_free(v);
  }
}

static void facts(void **state) {
  (void)state;
  static const struct { int size, end; } want[] = {{420, 2}, {200, 2}, {200, 2}, {700, 0}};
  for (size_t m = 0; m < countof(names); m++) {
    Vocabulary *v = open_known(names[m]);
    assert_int_equal(vocabulary_size(v), want[m].size);
    assert_int_equal(vocabulary_end(v), want[m].end);
    vocabulary_free(v);
  }
}

// -- damaged files -------------------------------------------------------------------------------

static char *read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char *out = arena_alloc(arena, 1 << 16);
  *n = fread(out, 1, 1 << 16, f);
  fclose(f);
  return out;
}

static void put(const char *name, const char *bytes, size_t n) {
  assert_true(disk_write_file(arena_printf(arena, "%s/%s", directory, name), bytes, n, true));
}

// Opens a damaged vocabulary: that ends in a message, or in a vocabulary that works.
static void expect_handled(const char *name) {
  Diag *d = diag_new(arena);
  Vocabulary *v = vocabulary_open(arena_printf(arena, "%s/%s", directory, name), d, (Pos){0});
  if (!v) {
    assert_int_equal(diag_exit(d), EXIT_DATA);
    return;
  }
  IdList ids = {0};
  vocabulary_encode(v, "It's  a <sep> ROMEO \xC3\xA9\xEF\xAC\x81", 23, &ids);
  size_t n;
  for (int64_t i = 0; i < ids.n; i++) (void)vocabulary_text(v, ids.id[i], i == 0, &n);
  free(ids.id);
  vocabulary_free(v);
}

static void damage(const char *from, const char *name, uint64_t seed, int rounds) {
  size_t n;
  char *good = read_file(path_of(from), &n), *bad = arena_alloc(arena, n);
  for (int round = 0; round < rounds; round++) {
    ArenaMark mark = arena_mark(arena);
    size_t cut = draw(&seed) % 4 ? n : draw(&seed) % n;
    memcpy(bad, good, n);
    for (uint64_t k = draw(&seed) % 4 + (cut == n); k > 0; k--)
      bad[draw(&seed) % n] ^=
          (char)(draw(&seed) % 3 ? UINT64_C(1) << draw(&seed) % 8 : draw(&seed));
    put(name, bad, cut);
    expect_handled(name);
    arena_reset(arena, mark);
  }
  put(name, good, n);
}

static void damaged_files(void **state) {
  (void)state;
  damage("bpe.model", "tokenizer.model", 3, 400);
  damage("unigram.model", "tokenizer.model", 5, 400);
  assert_int_equal(unlink(arena_printf(arena, "%s/tokenizer.model", directory)), 0);
  size_t n;
  char *merges = read_file(path_of("gpt/merges.txt"), &n);
  put("merges.txt", merges, n);
  damage("gpt/vocab.json", "vocab.json", 7, 200);
  damage("gpt/merges.txt", "merges.txt", 9, 200);
}

static void expect_said(const char *name, const char *bytes, size_t n, const char *says) {
  put(name, bytes, n);
  Diag *d = diag_new(arena);
  assert_null(vocabulary_open(arena_printf(arena, "%s/%s", directory, name), d, (Pos){0}));
  assert_non_null(strstr(diag_entry(d, 0).text, says));
}

static void messages(void **state) {
  (void)state;
  static const char no_map[] = "[1]", no_id[] = "{\"a\": -1}", twice[] = "{\"a\": 0, \"b\": 0}",
                    bytes[] = "{\"a\": 0}", far[] = "{\"a\": 9000}", text[] = "a b";
  expect_said("vocab.json", no_map, 3, "is no JSON object of pieces and ids");
  expect_said("vocab.json", no_id, 9, "gives the piece 'a' no id");
  expect_said("vocab.json", twice, 16, "has two pieces of id 0");
  expect_said("vocab.json", bytes, 8, "has no piece for the byte 0x00");
  expect_said("vocab.json", far, 11, "has 1 pieces, and ids up to 9000");
  expect_said("x.model", "", 0, "has no pieces");
  expect_said("x.model", "\x0A\x05\x0A", 3, "is no model of SentencePiece, or is cut off");
  static const char sign[] = "\x0A\x0A\x0A\x06<0x-5>\x18\x06",
                    open[] = "\x0A\x0A\x0A\x06<0x41 \x18\x06";
  expect_said("x.model", sign, sizeof sign - 1, "has the piece '<0x-5>' of a byte that is none");
  expect_said("x.model", open, sizeof open - 1, "of a byte that is none");
  expect_said("tokenizer.json", "{}", 2, "is no vocabulary that meshc reads");
  size_t n;
  char *pieces = read_file(path_of("gpt/vocab.json"), &n);
  put("vocab.json", pieces, n);
  put("merges.txt", text, 3);
  Diag *d = diag_new(arena);
  assert_non_null(
      vocabulary_open(directory, d, (Pos){0}) ? "" : strstr(diag_entry(d, 0).text, "line 1"));
}

static int set_up(void **state) {
  (void)state;
  arena = arena_new();
  diag = diag_new(arena);
  return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  static const char *const made[] = {"tokenizer.model", "x.model", "vocab.json", "merges.txt",
                                     "tokenizer.json"};
  for (size_t i = 0; i < countof(made); i++)
    (void)unlink(arena_printf(arena, "%s/%s", directory, made[i]));
  int failed = rmdir(directory);
  arena_free(arena);
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_of_libraries), cmocka_unit_test(any_bytes), cmocka_unit_test(facts),
      cmocka_unit_test(damaged_files),    cmocka_unit_test(messages),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
