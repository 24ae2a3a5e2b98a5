// Generates text (meshc_generate): one prompt at a time, with a decoder that the model's kind makes
// at the first call and keeps.
#include "runtime/library/library.h"

#include <math.h>
#include <string.h>

enum { USUAL_TOKENS = 200 };

typedef struct TextCall {
  const char *prompt;
  size_t size;
  meshc_sampling how;
  meshc_text_function *text;
  void *context;
} TextCall;

static bool show(void *context, uint32_t text, const char *bytes, size_t n, bool last) {
  const TextCall *c = context;
  (void)text, (void)last;
  return n == 0 || !c->text || c->text(c->context, bytes, n) == 0;
}

static bool usage(const meshc_model *m, const char *what) {
  return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "%s", what);
}

static bool check(const meshc_model *m, const TextCall *c) {
  const meshc_sampling *h = &c->how;
  if (!c->prompt && c->size) return usage(m, "the prompt is NULL");
  if (h->max_tokens < 0) return usage(m, "max_tokens is negative");
  if (h->top_k < 0) return usage(m, "top_k is negative");
  if (!(h->temperature >= 0 && h->temperature <= 1000))
    return usage(m, "temperature is a number from 0 to 1000");
  if (!(h->top_p >= 0 && h->top_p <= 1)) return usage(m, "top_p is a number from 0 to 1");
  return (h->stop || !h->stops) || usage(m, "the list of stops is NULL");
}

static bool fill(Texts *x, const TextCall *c, TokenList *prompt) {
  const meshc_sampling *h = &c->how;
  StopText *stop = arena_array(x->arena, StopText, h->stops + 1);
  x->most = h->max_tokens ? h->max_tokens : USUAL_TOKENS;
  x->sampling = (SamplerOptions){.temperature = h->temperature,
                                 .top_k = h->top_k,
                                 .top_p = h->top_p > 0 ? h->top_p : 1,
                                 .seed = h->seed};
  x->n = 1;
  x->prompt = prompt;
  x->stop = stop;
  x->nstops = (uint32_t)h->stops;
  for (size_t i = 0; i < h->stops; i++)
    if (!texts_stop(x, h->stop[i] ? h->stop[i] : "", (Pos){0}, &stop[i])) return false;
  if (!token_encode(&x->codec, x->arena, c->prompt ? c->prompt : "", c->size, x->diag, (Pos){0},
                    prompt))
    return false;
  return prompt->n || diag_error(x->diag, DIAG_USAGE, (Pos){0},
                                 "the prompt is empty, and the model needs an id to begin with");
}

static bool generate(meshc_model *m, void *context) {
  TextCall *c = context;
  LibraryText with;
  TokenList prompt;
  if (!check(m, c) || !m->kind->text(m, &with)) return false;
  Texts x = {.arena = arena_new(),
             .diag = m->diag,
             .decoder = with.decoder,
             .codec = with.codec,
             .new_only = true,
             .show = show,
             .context = c};
  bool good = fill(&x, c, &prompt) && texts_run(&x);
  texts_free(&x);
  arena_free(x.arena);
  return good;
}

int meshc_generate(meshc_model *m, const char *prompt, size_t size, const meshc_sampling *how,
                   meshc_text_function *text, void *context, meshc_error **error) {
  TextCall c = {prompt, size, how ? *how : (meshc_sampling){0}, text, context};
  return library_call(m, generate, &c, error);
}
