// Runs prompts and generates what follows them (texts.h): groups of texts, position by position.
#include "runtime/generate/texts_internal.h"
#include "runtime/runtime_internal.h"

#include <stdlib.h>

// The texts first .. first + n - 1. Rows from n on repeat the first text, and are ignored.
typedef struct TextGroup {
  Texts *x;
  uint32_t first, n;
} TextGroup;

static int64_t longest(const Texts *x) {
  int64_t n = 0;
  for (uint32_t i = 0; i < x->n; i++)
    if (x->prompt[i].n > n) n = x->prompt[i].n;
  return n;
}

static bool fits(const Texts *x) {
  const DecoderFacts *f = &x->decoder->facts;
  if (longest(x) <= f->context) return true;
  diag_error(x->diag, DIAG_USAGE, (Pos){0},
             "a prompt has %lld ids, and the context of the model is %s = %lld",
             (long long)longest(x), f->time, (long long)f->context);
  return diag_hint(x->diag,
                   "shorten the prompt, or say --set %s=%lld if no parameter has the dim %s",
                   f->time, (long long)longest(x), f->time);
}

static void make_texts(Texts *x) {
  int64_t context = x->decoder->facts.context;
  x->text = arena_array(x->arena, GeneratedText, x->n);
  for (uint32_t i = 0; i < x->n; i++) {
    GeneratedText *t = &x->text[i];
    *t = (GeneratedText){.prompt = x->prompt[i].n, .n = x->prompt[i].n};
    t->room = t->n + x->most;
    if (context < INT64_MAX && t->room > context + 1) t->room = context + 1;
    t->id = arena_array(x->arena, int32_t, t->room);
    memcpy(t->id, x->prompt[i].id, (size_t)t->n * sizeof *t->id);
  }
}

bool texts_not_finite(const Texts *x, uint32_t text) {
  diag_error(x->diag, DIAG_NOT_FINITE, (Pos){0},
             "a logit of position %lld of text %u is NaN, or none is finite",
             (long long)x->decoder->position, text + 1);
  return diag_hint(x->diag, "check the parameters: --params FILE, or --checkpoint DIR");
}

bool texts_begin(Texts *x, const uint32_t *text, int64_t n) {
  int64_t rows = x->decoder->rows;
  int32_t *ids = mem_alloc((size_t)(rows * n) * sizeof *ids);
  for (int64_t r = 0; r < rows; r++)
    memcpy(&ids[r * n], x->prompt[text[r]].id, (size_t)n * sizeof *ids);
  double start = clock_seconds();
  decoder_restart(x->decoder);
  bool good = decoder_run(x->decoder, n, ids, n);
  x->first_seconds += clock_seconds() - start;
  free(ids);
  return good;
}

// -- a group -------------------------------------------------------------------------------------

static bool begin(const TextGroup *g) {
  Texts *x = g->x;
  int64_t n = INT64_MAX, rows = x->decoder->rows;
  uint32_t *text = arena_array(x->arena, uint32_t, rows);
  for (int64_t r = 0; r < rows; r++) text[r] = g->first + (r < g->n ? (uint32_t)r : 0);
  for (int64_t r = 0; r < rows; r++)
    if (x->prompt[text[r]].n < n) n = x->prompt[text[r]].n;
  return texts_begin(x, text, n);
}

// Sets *id to the next id of row r: of its prompt, or the one that its logits give, which is
// appended to its text. Returns false after an error.
static bool next_id(const TextGroup *g, uint32_t r, int32_t *id) {
  Texts *x = g->x;
  const Decoder *d = x->decoder;
  GeneratedText *t = &x->text[g->first + r];
  *id = 0;
  if (t->end) return true;
  if (d->position < t->prompt) return *id = t->id[d->position], true;
  const char *logits = (const char *)d->logits + r * d->vocab * dtype_bytes(d->type);
  *id = sampler_next(x->sampler, d->type, logits, g->first + r, d->position);
  if (*id < 0) return texts_not_finite(x, g->first + r);
  texts_append(x, t, *id);
  x->timed++;
  return true;
}

static bool all_ended(const TextGroup *g) {
  for (uint32_t r = 0; r < g->n; r++)
    if (!g->x->text[g->first + r].end) return false;
  return true;
}

// Ends the texts that have not ended, because the context has.
static void context_ends(const TextGroup *g) {
  for (uint32_t r = 0; r < g->n; r++)
    if (!g->x->text[g->first + r].end) g->x->text[g->first + r].end = "context";
}

static bool go_on(const TextGroup *g) {
  Texts *x = g->x;
  Decoder *d = x->decoder;
  int32_t *ids = arena_array(x->arena, int32_t, d->rows);
  double start = clock_seconds();
  for (bool good = true; good;) {
    for (uint32_t r = 0; r < g->n && good; r++) good = next_id(g, r, &ids[r]);
    if (!good) return false;
    if (d->position >= d->facts.context) context_ends(g);
    x->interrupted = !texts_show(x);
    if (x->interrupted || all_ended(g)) break;
    if (!decoder_run(d, 1, ids, 1)) return false;
  }
  x->seconds += clock_seconds() - start;
  return true;
}

static bool run_groups(Texts *x) {
  for (TextGroup g = {.x = x}; g.first < x->n && !x->interrupted; g.first += g.n) {
    g.n = x->n - g.first;
    if (g.n > x->decoder->rows) g.n = (uint32_t)x->decoder->rows;
    if (!begin(&g) || !go_on(&g)) return false;
  }
  return true;
}

bool texts_run(Texts *x) {
  if (!fits(x)) return false;
  x->sampler = sampler_new(&x->sampling, x->decoder->vocab);
  make_texts(x);
  return x->beams ? texts_by_beams(x) : run_groups(x);
}

void texts_free(Texts *x) {
  sampler_free(x->sampler);
  x->sampler = NULL;
}
