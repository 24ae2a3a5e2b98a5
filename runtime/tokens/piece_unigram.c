// Cuts a text into the pieces of a unigram language model with the highest sum of scores, which are
// logarithms of probabilities (Kudo, "Subword Regularization", 2018). The best cut up to each place
// of the text follows from those up to earlier places (Viterbi, 1967). A character without a piece
// has a score 10 below the least one.
#include "runtime/tokens/vocabulary_internal.h"

#include <stdlib.h>

static const float UNKNOWN_PENALTY = 10;

// The best cut up to a place: its score, and where its last piece begins.
typedef struct Cut {
  size_t from;
  float score;
  int32_t id; // of its last piece, or -1: no cut ends here
} Cut;

static void offer(Cut *cut, size_t from, float score, int32_t id) {
  if (cut->id < 0 || score > cut->score) *cut = (Cut){from, score, id};
}

// Offers all pieces that begin at `from` to the places where they end.
static void extend(const Vocabulary *v, const char *text, size_t n, size_t from, Cut *cut) {
  int32_t code;
  size_t one = utf8_next(text + from, n - from, &code);
  bool single = false;
  for (size_t k = 1; from + k <= n; k++) {
    int32_t id = vocabulary_find(v, text + from, k);
    if (id == NO_PREFIX) break;
    if (id < 0 || v->piece[id].kind == PIECE_UNUSED) continue;
    // a symbol of the user is better than any other cut of its text
    float score = v->piece[id].kind == PIECE_DEFINED ? (float)((double)((float)k * v->most) - 0.1)
                                                     : v->piece[id].score;
    offer(&cut[from + k], from, cut[from].score + score, id);
    single |= k == one;
  }
  if (!single)
    offer(&cut[from + one], from, cut[from].score + (v->least - UNKNOWN_PENALTY), v->unknown);
}

void piece_unigram(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  Cut *cut = mem_alloc((n + 1) * sizeof *cut);
  int32_t code;
  for (size_t i = 1; i <= n; i++) cut[i] = (Cut){.id = -1};
  cut[0] = (Cut){.id = 0};
  for (size_t i = 0; i < n; i += utf8_next(text + i, n - i, &code)) extend(v, text, n, i, cut);
  // the cut is read from its end: each place gets the end of the piece that begins there
  size_t *end = mem_alloc((n + 1) * sizeof *end);
  for (size_t at = n; at > 0; at = cut[at].from) end[cut[at].from] = at;
  bool follows = false;
  for (size_t i = 0; i < n; i = end[i]) {
    int32_t id = cut[end[i]].id;
    bool unknown = id == v->unknown;
    if (unknown)
      piece_unknown(v, text + i, end[i] - i, follows, out);
    else
      id_list_push(out, id);
    follows = unknown;
  }
  free(end);
  free(cut);
}
