// Beam search (texts.h): keeps the most probable texts of a prompt, each a row of
// the batch. A text that has ended leaves its row; the search ends when as many texts have ended as
// there are beams. The result is the ended text with the largest mean log probability of its ids.
#include "runtime/generate/texts_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Beam {
  GeneratedText text;
  double log_p; // of the ids after the prompt
} Beam;

typedef struct BeamSearch {
  Texts *x;
  uint32_t text;     // its number
  Beam *beam, *next; // x->beams each
  NextToken *token;  // the beams most probable next ids of each beam
  int64_t ended;
  Beam best;
  double best_mean;
} BeamSearch;

// A candidate: beam number `from` with one more id.
typedef struct Candidate {
  double log_p;
  int64_t from;
  int32_t id;
} Candidate;

static int compare(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->log_p != y->log_p) return x->log_p > y->log_p ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

static Beam new_beam(const BeamSearch *b, const GeneratedText *like) {
  Beam out = {.text = *like};
  out.text.id = arena_array(b->x->arena, int32_t, like->room);
  return out;
}

static void copy_beam(Beam *to, const Beam *from) {
  int32_t *id = to->text.id;
  memcpy(id, from->text.id, (size_t)from->text.n * sizeof *id);
  *to = *from;
  to->text.id = id;
}

// Records a text that has ended.
static void end_beam(BeamSearch *b, const Beam *beam) {
  double n = (double)(beam->text.n - beam->text.prompt), mean = beam->log_p / (n > 0 ? n : 1);
  b->ended++;
  if (b->best.text.end && mean <= b->best_mean) return;
  b->best_mean = mean;
  copy_beam(&b->best, beam);
}

// Lists the candidates of `live` beams, best first. Returns their number, or -1 after an error.
static int64_t candidates(BeamSearch *b, int64_t live, Candidate *out) {
  const Decoder *d = b->x->decoder;
  int64_t n = 0, bytes = d->vocab * dtype_bytes(d->type);
  int64_t each = 2 * b->x->beams < d->vocab ? 2 * b->x->beams : d->vocab;
  for (int64_t k = 0; k < live; k++) {
    if (!sampler_best(b->x->sampler, d->type, (const char *)d->logits + k * bytes, each,
                      b->token)) {
      (void)texts_not_finite(b->x, b->text);
      return -1;
    }
    for (int64_t i = 0; i < each; i++)
      out[n++] = (Candidate){b->beam[k].log_p + b->token[i].log_p, k, b->token[i].id};
  }
  qsort(out, (size_t)n, sizeof *out, compare);
  return n;
}

// Makes the next beams from the candidates; source[k] is the row from which beam k goes on. Returns
// their number.
static int64_t choose(BeamSearch *b, int64_t n, const Candidate *all, int64_t *source) {
  int64_t live = 0;
  for (int64_t i = 0; i < n && live < b->x->beams; i++) {
    Beam *to = &b->next[live];
    copy_beam(to, &b->beam[all[i].from]);
    to->log_p = all[i].log_p;
    texts_append(b->x, &to->text, all[i].id);
    if (to->text.end)
      end_beam(b, to);
    else
      source[live++] = all[i].from;
  }
  Beam *swap = b->beam;
  b->beam = b->next;
  b->next = swap;
  return live;
}

// Rows of the decoder without a beam go on, and nobody looks at them.
static bool run_beams(BeamSearch *b, int64_t live, int64_t *source, int32_t *ids) {
  int64_t rows = b->x->decoder->rows;
  for (int64_t k = live; k < rows; k++) source[k] = k;
  memset(ids, 0, (size_t)rows * sizeof *ids);
  for (int64_t k = 0; k < live; k++) ids[k] = b->beam[k].text.id[b->beam[k].text.n - 1];
  return decoder_reorder(b->x->decoder, source) && decoder_run(b->x->decoder, 1, ids, 1);
}

static bool search(BeamSearch *b) {
  Texts *x = b->x;
  Arena *a = x->arena;
  Candidate *all = arena_array(a, Candidate, 2 * x->beams * x->beams);
  int64_t *source = arena_array(a, int64_t, x->decoder->rows), live = 1;
  int32_t *ids = arena_array(a, int32_t, x->decoder->rows);
  while (live && b->ended < x->beams) {
    int64_t n = candidates(b, live, all);
    if (n < 0) return false;
    live = choose(b, n, all, source);
    x->timed++;
    if (x->decoder->position >= x->decoder->facts.context) {
      for (int64_t k = 0; k < live; k++) {
        b->beam[k].text.end = "context";
        end_beam(b, &b->beam[k]);
      }
      live = 0;
    }
    if (live && b->ended < x->beams && !run_beams(b, live, source, ids)) return false;
  }
  return true;
}

static bool search_prompt(Texts *x, uint32_t number) {
  GeneratedText *text = &x->text[number];
  BeamSearch b = {.x = x, .text = number};
  b.beam = arena_array(x->arena, Beam, x->beams);
  b.next = arena_array(x->arena, Beam, x->beams);
  b.token = arena_array(x->arena, NextToken, 2 * x->beams);
  for (int64_t k = 0; k < x->beams; k++) {
    b.beam[k] = new_beam(&b, text);
    b.next[k] = new_beam(&b, text);
  }
  b.best = new_beam(&b, text);
  memcpy(b.beam[0].text.id, text->id, (size_t)text->n * sizeof *text->id);
  double start = clock_seconds();
  bool good = search(&b);
  x->seconds += clock_seconds() - start;
  if (good) *text = b.best.text;
  return good;
}

bool texts_by_beams(Texts *x) {
  uint32_t *rows = arena_array(x->arena, uint32_t, x->decoder->rows);
  for (uint32_t i = 0; i < x->n && !x->interrupted; i++) {
    for (int64_t r = 0; r < x->decoder->rows; r++) rows[r] = i;
    if (!texts_begin(x, rows, x->prompt[i].n) || !search_prompt(x, i)) return false;
    x->interrupted = !texts_show(x);
  }
  return true;
}
