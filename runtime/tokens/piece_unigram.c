// Splits a text into the pieces of a unigram language model with the highest sum of scores, which
// are logarithms of probabilities (Kudo, "Subword Regularization", 2018). The best split up to each
// place of the text follows from those up to earlier places (Viterbi, 1967). A character without a
// piece has a score 10 below the least one.
#include "runtime/tokens/vocabulary_internal.h"

#include <stdlib.h>

static const float UNKNOWN_PENALTY = 10;

// The best split up to a place: its score, and where its last piece begins.
typedef struct Split {
  size_t from;
  float score;
  int32_t id; // of its last piece, or -1: no split ends here
} Split;

static void offer(Split *split, size_t from, float score, int32_t id) {
  if (split->id < 0 || score > split->score) *split = (Split){from, score, id};
}

// Offers all pieces that begin at `from` to the places where they end.
static void extend(const Vocabulary *v, const char *text, size_t n, size_t from, Split *split) {
  int32_t code;
  size_t one = utf8_next(text + from, n - from, &code);
  bool single = false;
  for (size_t k = 1; from + k <= n; k++) {
    int32_t id = vocabulary_find(v, text + from, k);
    if (id == NO_PREFIX) break;
    if (id < 0 || v->piece[id].kind == PIECE_UNUSED) continue;
    // a symbol of the user is better than any other split of its text
    float score = v->piece[id].kind == PIECE_DEFINED ? (float)((double)((float)k * v->most) - 0.1)
                                                     : v->piece[id].score;
    offer(&split[from + k], from, split[from].score + score, id);
    single |= k == one;
  }
  if (!single)
    offer(&split[from + one], from, split[from].score + (v->least - UNKNOWN_PENALTY), v->unknown);
}

void piece_unigram(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  Split *split = mem_alloc((n + 1) * sizeof *split);
  int32_t code;
  for (size_t i = 1; i <= n; i++) split[i] = (Split){.id = -1};
  split[0] = (Split){.id = 0};
  for (size_t i = 0; i < n; i += utf8_next(text + i, n - i, &code)) extend(v, text, n, i, split);
  // the split is read from its end: each place gets the end of the piece that begins there
  size_t *end = mem_alloc((n + 1) * sizeof *end);
  for (size_t at = n; at > 0; at = split[at].from) end[split[at].from] = at;
  bool follows = false;
  for (size_t i = 0; i < n; i = end[i]) {
    int32_t id = split[end[i]].id;
    bool unknown = id == v->unknown;
    if (unknown)
      piece_unknown(v, text + i, end[i] - i, follows, out);
    else
      id_list_push(out, id);
    follows = unknown;
  }
  free(end);
  free(split);
}
