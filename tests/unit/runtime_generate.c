// The sampler and the token codec of text generation (runtime/generate).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/generate/sampler.h"
#include "runtime/generate/token_codec.h"

enum { VOCAB = 5, DRAWS = 20000 };
// the logarithms of 0.5, 0.25, 0.125, 0.0625, 0.0625, plus an offset that must not matter
static const double shares[VOCAB] = {0.25, 0.5, 0.0625, 0.125, 0.0625};

static void make_logits(float *out) {
  for (int i = 0; i < VOCAB; i++) out[i] = (float)(log(shares[i]) + 40);
}

// Draws at many positions. Checks that each id comes as often as `want` says, within five standard
// deviations.
static void check_shares(const SamplerOptions *opt, const double *want) {
  float logits[VOCAB];
  int count[VOCAB] = {0};
  make_logits(logits);
  Sampler *s = sampler_new(opt, VOCAB);
  for (int i = 0; i < DRAWS; i++) count[sampler_next(s, TYPE_F32, logits, 3, i)]++;
  for (int i = 0; i < VOCAB; i++) {
    double spread = 5 * sqrt(want[i] * (1 - want[i]) / DRAWS);
    assert_true(fabs((double)count[i] / DRAWS - want[i]) <= spread);
  }
  sampler_free(s);
}

static void greedy(void **state) {
  (void)state;
  const double equal[3] = {1, 7, 7}, bad[3] = {1, (double)NAN, 2},
               none[3] = {(double)-INFINITY, (double)-INFINITY, (double)-INFINITY};
  Sampler *s = sampler_new(&(SamplerOptions){.top_p = 1}, 3);
  assert_int_equal(sampler_next(s, TYPE_F64, equal, 0, 0), 1); // the first of equals
  assert_int_equal(sampler_next(s, TYPE_F64, bad, 0, 0), -1);
  assert_int_equal(sampler_next(s, TYPE_F64, none, 0, 0), -1);
  sampler_free(s);
}

// The same for many logits of f32, which are compared in lanes.
static void greedy_of_many(void **state) {
  (void)state;
  enum { MANY = 37 };
  float x[MANY];
  Sampler *s = sampler_new(&(SamplerOptions){.top_p = 1}, MANY);
  for (int top = 0; top < MANY; top++) {
    for (int i = 0; i < MANY; i++) x[i] = -1 - (float)(i % 5);
    x[top] = -0.5F;
    assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), top);
    x[MANY - 1] = -0.5F; // the first of equals
    assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), top);
    x[top] = NAN;
    assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), -1);
    x[top] = INFINITY;
    assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), -1);
  }
  for (int i = 0; i < MANY; i++) x[i] = -INFINITY;
  assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), -1);
  x[20] = -7;
  assert_int_equal(sampler_next(s, TYPE_F32, x, 0, 0), 20);
  sampler_free(s);
}

static void draws_by_probability(void **state) {
  (void)state;
  check_shares(&(SamplerOptions){.temperature = 1, .top_p = 1}, shares);
  // temperature 0.5 squares the probabilities
  double squared[VOCAB], sum = 0;
  for (int i = 0; i < VOCAB; i++) sum += squared[i] = shares[i] * shares[i];
  for (int i = 0; i < VOCAB; i++) squared[i] /= sum;
  check_shares(&(SamplerOptions){.temperature = 0.5, .top_p = 1}, squared);
}

static void draws_among_some(void **state) {
  (void)state;
  const double two[VOCAB] = {1.0 / 3, 2.0 / 3}, three[VOCAB] = {2.0 / 7, 4.0 / 7, 0, 1.0 / 7},
               one[VOCAB] = {0, 1};
  check_shares(&(SamplerOptions){.temperature = 1, .top_k = 2, .top_p = 1}, two);
  check_shares(&(SamplerOptions){.temperature = 1, .top_p = 0.8}, three);
  check_shares(&(SamplerOptions){.temperature = 1, .top_p = 0.5}, one);
  check_shares(&(SamplerOptions){.temperature = 1, .top_p = 0}, one);
  check_shares(&(SamplerOptions){.temperature = 1, .top_k = 3, .top_p = 0.7}, two);
}

static void draws_depend_on_seed_row_and_position(void **state) {
  (void)state;
  float logits[VOCAB];
  int differ[3] = {0};
  make_logits(logits);
  Sampler *s = sampler_new(&(SamplerOptions){.temperature = 1, .top_p = 1, .seed = 7}, VOCAB);
  Sampler *t = sampler_new(&(SamplerOptions){.temperature = 1, .top_p = 1, .seed = 8}, VOCAB);
  for (int i = 0; i < 100; i++) {
    int32_t x = sampler_next(s, TYPE_F32, logits, 0, i);
    assert_int_equal(sampler_next(s, TYPE_F32, logits, 0, i), x);
    differ[0] += x != sampler_next(t, TYPE_F32, logits, 0, i);
    differ[1] += x != sampler_next(s, TYPE_F32, logits, 1, i);
    differ[2] += x != sampler_next(s, TYPE_F32, logits, 0, i + 1);
  }
  for (int i = 0; i < 3; i++) assert_true(differ[i] > 30);
  sampler_free(s);
  sampler_free(t);
}

static void best_ids(void **state) {
  (void)state;
  float logits[VOCAB];
  static const int32_t order[VOCAB] = {1, 0, 3, 2, 4};
  NextToken best[VOCAB];
  make_logits(logits);
  Sampler *s = sampler_new(&(SamplerOptions){.top_p = 1}, VOCAB);
  assert_true(sampler_best(s, TYPE_F32, logits, VOCAB, best));
  for (int i = 0; i < VOCAB; i++) {
    assert_int_equal(best[i].id, order[i]);
    assert_true(fabs(best[i].log_p - log(shares[order[i]])) < 1e-5);
  }
  sampler_free(s);
}

static void codecs(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  char room[TOKEN_ROOM];
  const char *text;
  size_t n;
  TokenList list;
  TokenCodec bytes = token_codec(&(DataSource){.kind = SOURCE_TEXT}, NULL, 256);
  TokenCodec numbers = token_codec(&(DataSource){.kind = SOURCE_TOKENS}, NULL, 50257);
  assert_int_equal(token_codec(NULL, NULL, 9).kind, TOKEN_NUMBERS);
  assert_true(token_encode(&bytes, a, "\xc3\xa9", 2, d, (Pos){0}, &list));
  assert_int_equal(list.n, 2);
  assert_int_equal(list.id[0], 0xc3);
  text = token_text(&bytes, 0xa9, false, room, &n);
  assert_int_equal(n, 1);
  assert_int_equal((unsigned char)text[0], 0xa9);
  assert_true(token_encode(&numbers, a, " 464, 50256\n7 ", 14, d, (Pos){0}, &list));
  assert_int_equal(list.n, 3);
  assert_int_equal(list.id[1], 50256);
  assert_string_equal(token_text(&numbers, 464, false, room, &n), " 464");
  assert_string_equal(token_text(&numbers, 464, true, room, &n), "464");
  assert_int_equal(diag_errors(d), 0);
  assert_false(token_encode(&numbers, a, "50257", 5, d, (Pos){0}, &list));
  assert_false(token_encode(&numbers, a, "-1", 2, d, (Pos){0}, &list));
  assert_false(token_encode(&numbers, a, "12x", 3, d, (Pos){0}, &list));
  assert_int_equal(diag_errors(d), 3);
  Vocabulary *v = vocabulary_open("tests/vocabularies/bpe.model", d, (Pos){0});
  assert_non_null(v);
  TokenCodec pieces = token_codec(NULL, v, 420);
  assert_int_equal(pieces.end, 2);
  assert_true(token_encode(&pieces, a, "abcdefgh", 8, d, (Pos){0}, &list));
  assert_int_equal(list.id[0], 262);
  assert_memory_equal(token_text(&pieces, 262, false, room, &n), " a", n);
  assert_memory_equal(token_text(&pieces, 262, true, room, &n), "a", n);
  TokenCodec few = token_codec(NULL, v, 300);
  assert_false(token_encode(&few, a, "abcdefgh", 8, d, (Pos){0}, &list));
  vocabulary_free(v);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(greedy),
                                     cmocka_unit_test(greedy_of_many),
                                     cmocka_unit_test(draws_by_probability),
                                     cmocka_unit_test(draws_among_some),
                                     cmocka_unit_test(draws_depend_on_seed_row_and_position),
                                     cmocka_unit_test(best_ids),
                                     cmocka_unit_test(codecs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
