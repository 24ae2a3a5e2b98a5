// Runs the texts of the command generate, and prints them as they are made, or JSON at the end.
#include "frontend/command/generate_internal.h"

#include <stdlib.h>
#include <string.h>

static bool print(void *context, uint32_t text, const char *bytes, size_t n, bool last) {
  Generate *x = context;
  if (x->texts.n > 1 && text >= x->begun) printf("--- %u\n", text + 1);
  x->begun = text + 1;
  (void)fwrite(bytes, 1, n, stdout);
  if (last) putchar('\n');
  return fflush(stdout) == 0 || session_cannot_write(x->s, "standard output", (Pos){0});
}

// -- JSON ----------------------------------------------------------------------------------------

static json_t *text_json(const Generate *x, const GeneratedText *t, int64_t from, int64_t to) {
  size_t n;
  char *text = texts_bytes(&x->texts, t, from, to, &n);
  json_t *out = json_text(text);
  free(text);
  return out;
}

static json_t *one_json(const Generate *x, const GeneratedText *t) {
  json_t *out = json_object(), *ids = json_array();
  for (int64_t i = t->prompt; i < t->n; i++) json_array_append_new(ids, json_integer(t->id[i]));
  json_object_set_new(out, "prompt", text_json(x, t, 0, t->prompt));
  json_object_set_new(out, "text", text_json(x, t, t->prompt, t->n));
  json_object_set_new(out, "ids", ids);
  json_object_set_new(out, "end", json_string(t->end));
  return out;
}

static void print_json(const Generate *x) {
  const Texts *all = &x->texts;
  json_t *out = json_object(), *texts = json_array();
  json_object_set_new(out, "schema", json_string("meshc.generate/1"));
  json_object_set_new(out, "model", json_text(x->s->opt->argument.at[0]));
  for (uint32_t i = 0; i < all->n; i++) json_array_append_new(texts, one_json(x, &all->text[i]));
  json_object_set_new(out, "texts", texts);
  json_object_set_new(out, "prompt_seconds", json_real(all->first_seconds));
  json_object_set_new(out, "seconds", json_real(all->seconds));
  json_object_set_new(out, "tokens", json_integer(all->timed));
  json_finish(out);
}

// -- all -----------------------------------------------------------------------------------------

static void say_rate(const Generate *x) {
  const Texts *all = &x->texts;
  if (!option_given(x->s->opt, OPTION_VERBOSE) || !session_first(x->s)) return;
  fprintf(stderr, "meshc: prompts in %s, then %lld ids in %s: %.1f ids/s\n",
          seconds_text(x->s->arena, all->first_seconds), (long long)all->timed,
          seconds_text(x->s->arena, all->seconds), (double)all->timed / all->seconds);
}

// Says that texts are shorter than --max-tokens allows, because the model sees no more ids.
static void say_context(const Generate *x, const Decoder *d) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->texts.n; i++) {
    const char *end = x->texts.text[i].end;
    n += end && !strcmp(end, "context");
  }
  if (!n || !session_remarks(x->s)) return;
  fprintf(stderr, "meshc: %u text%s ended because the context of %lld ids is full\n", n, plural(n),
          (long long)d->facts.context);
}

bool generate_texts(Generate *x, Decoder *d) {
  const Session *s = x->s;
  bool json = option_given(s->opt, OPTION_JSON);
  x->texts.decoder = d;
  x->texts.new_only = option_given(s->opt, OPTION_QUIET);
  x->texts.show = session_first(s) && !json ? print : NULL;
  x->texts.context = x;
  if (!texts_run(&x->texts) || x->texts.interrupted || !exec_check(d->step.exec, s->diag))
    return false;
  say_rate(x);
  say_context(x, d);
  if (json && session_first(s)) print_json(x);
  return true;
}

void generate_free(Generate *x) {
  texts_free(&x->texts);
  vocabulary_free(x->vocabulary);
}
