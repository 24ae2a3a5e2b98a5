// Chooses the next id from logits (sampler.h). The k most probable ids are taken from a heap, so
// that a large vocabulary is not sorted (Williams, "Algorithm 232: heapsort", 1964).
#include "runtime/generate/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "ir/base/mem.h"
#include "ir/base/philox.h"

struct Sampler {
  SamplerOptions opt;
  int64_t vocab;
  uint64_t key;
  NextToken *token; // vocab entries: log_p is a logit first
};

Sampler *sampler_new(const SamplerOptions *opt, int64_t vocab) {
  Sampler *s = mem_alloc(sizeof *s);
  *s = (Sampler){.opt = *opt, .vocab = vocab, .key = philox_key("generate", 0)};
  s->token = mem_alloc((size_t)vocab * sizeof *s->token);
  return s;
}

void sampler_free(Sampler *s) {
  if (s) free(s->token);
  free(s);
}

// Returns the index of the largest of n logits of f32, the first of equals, or -1 if one is NaN or
// none is finite. Lanes are independent, so that the compiler makes vectors of them.
static int64_t largest(int64_t n, const float *x) {
  enum { LANES = 16 };
  float most[LANES];
  int bad[LANES] = {0};
  float top = -INFINITY;
  int64_t i = 0;
  for (int l = 0; l < LANES; l++) most[l] = -INFINITY;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) {
      most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
      bad[l] |= x[i + l] != x[i + l];
    }
  for (; i < n; i++) {
    most[0] = x[i] > most[0] ? x[i] : most[0];
    bad[0] |= x[i] != x[i];
  }
  for (int l = 0; l < LANES; l++) {
    if (bad[l]) return -1;
    top = most[l] > top ? most[l] : top;
  }
  if (!isfinite(top)) return -1;
  for (i = 0; x[i] != top;) i++;
  return i;
}

// Fills s->token with the logits over the temperature. *top gets the index of the largest. Returns
// false if a logit is NaN or none is finite.
static bool load(Sampler *s, Dtype type, const void *logits, int64_t *top) {
  int64_t bytes = dtype_bytes(type);
  double scale = s->opt.temperature > 0 ? 1 / s->opt.temperature : 1;
  bool good = true;
  *top = 0;
  for (int64_t i = 0; i < s->vocab; i++) {
    double x = dtype_load(type, (const char *)logits + i * bytes) * scale;
    good &= !isnan(x);
    s->token[i] = (NextToken){.log_p = x, .id = (int32_t)i};
    if (x > s->token[*top].log_p) *top = i;
  }
  return good && isfinite(s->token[*top].log_p);
}

// Subtracts the logarithm of the sum of exponentials, so that log_p is a logarithm of a
// probability.
static void normalise(Sampler *s, double most) {
  double sum = 0;
  for (int64_t i = 0; i < s->vocab; i++) sum += exp(s->token[i].log_p - most);
  double shift = most + log(sum);
  for (int64_t i = 0; i < s->vocab; i++) s->token[i].log_p -= shift;
}

static bool before(const NextToken *x, const NextToken *y) {
  return x->log_p > y->log_p || (x->log_p == y->log_p && x->id < y->id);
}

// Moves the token at place i down the heap of n tokens, in which no child comes before its parent.
static void sift(NextToken *heap, int64_t n, int64_t i) {
  NextToken x = heap[i];
  for (int64_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
    if (!before(&heap[child], &x)) break;
    heap[i] = heap[child];
  }
  heap[i] = x;
}

static void make_heap(Sampler *s) {
  for (int64_t i = s->vocab / 2; i-- > 0;) sift(s->token, s->vocab, i);
}

// Takes the first token out of the heap of n tokens.
static NextToken pop(NextToken *heap, int64_t n) {
  NextToken first = heap[0];
  heap[0] = heap[n - 1];
  sift(heap, n - 1, 0);
  return first;
}

// Returns a number in [0, 1) for a row and a position.
static double draw(const Sampler *s, int64_t row, int64_t position) {
  uint32_t words[4];
  philox_words(s->key, s->opt.seed, row, position, 0, words);
  return philox_uniform(words, true);
}

// Draws among all ids, in the order of ids.
static int32_t draw_any(const Sampler *s, double u) {
  double sum = 0;
  int32_t last = 0;
  for (int64_t i = 0; i < s->vocab; i++) {
    double p = exp(s->token[i].log_p);
    if (p > 0) last = s->token[i].id;
    sum += p;
    if (u < sum) return last;
  }
  return last; // the sum of all is a little less than 1
}

// Draws among the most probable ids that top_k and top_p leave. They end up at the end of s->token,
// most probable last.
static int32_t draw_top(Sampler *s, double u) {
  int64_t most = s->opt.top_k ? s->opt.top_k : s->vocab, n = 0;
  double sum = 0, part = 0;
  make_heap(s);
  for (; n < most && n < s->vocab; n++) {
    NextToken x = pop(s->token, s->vocab - n);
    s->token[s->vocab - 1 - n] = x;
    sum += exp(x.log_p);
    if (sum >= s->opt.top_p) {
      n++;
      break;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    const NextToken *x = &s->token[s->vocab - 1 - i];
    part += exp(x->log_p);
    if (u * sum < part) return x->id;
  }
  return s->token[s->vocab - n].id;
}

int32_t sampler_next(Sampler *s, Dtype type, const void *logits, int64_t row, int64_t position) {
  int64_t top;
  bool greedy = s->opt.temperature <= 0;
  if (greedy && type == TYPE_F32) return (int32_t)largest(s->vocab, logits);
  if (!load(s, type, logits, &top)) return -1;
  if (greedy) return (int32_t)top;
  normalise(s, s->token[top].log_p);
  double u = draw(s, row, position);
  bool all = (!s->opt.top_k || s->opt.top_k >= s->vocab) && s->opt.top_p >= 1;
  return all ? draw_any(s, u) : draw_top(s, u);
}

bool sampler_best(Sampler *s, Dtype type, const void *logits, int64_t n, NextToken *out) {
  int64_t top;
  if (!load(s, type, logits, &top)) return false;
  normalise(s, s->token[top].log_p);
  make_heap(s);
  for (int64_t i = 0; i < n; i++) out[i] = pop(s->token, s->vocab - i);
  return true;
}
