// The texts that the command generate makes: where they end, and how they are printed.
#include "frontend/command/generate_internal.h"

#include <stdlib.h>
#include <string.h>

// Returns whether the last n generated ids of t are the first n of the stop.
static bool ends_with(const GeneratedText *t, const TokenList *stop, int64_t n) {
  return t->n - t->prompt >= n &&
         memcmp(&t->id[t->n - n], stop->id, (size_t)n * sizeof *t->id) == 0;
}

void generate_append(const Generate *x, GeneratedText *t, int32_t id) {
  t->id[t->n++] = id;
  if (t->n - t->prompt >= x->most) t->end = "length";
  for (uint32_t i = 0; i < x->nstops; i++) {
    if (!ends_with(t, &x->stop[i], x->stop[i].n)) continue;
    t->n -= x->stop[i].n;
    t->end = "stop";
    return;
  }
}

void generate_context_ends(Generate *x) {
  for (uint32_t r = 0; r < x->nprompts; r++)
    if (!x->text[r].end) x->text[r].end = "context";
}

// -- printing ------------------------------------------------------------------------------------

// Returns how many ids of t are sure to be a part of the text: the last ones may begin a stop.
static int64_t sure(const Generate *x, const GeneratedText *t) {
  int64_t held = 0;
  for (uint32_t i = 0; i < x->nstops && !t->end; i++)
    for (int64_t n = x->stop[i].n - 1; n > held; n--)
      if (ends_with(t, &x->stop[i], n)) held = n;
  return t->n - held;
}

static void show_ids(const Generate *x, GeneratedText *t, int64_t end) {
  char text[TOKEN_MOST_TEXT];
  int64_t first = option_given(x->s->opt, OPTION_QUIET) ? t->prompt : 0;
  if (t->shown < first) t->shown = first;
  for (; t->shown < end; t->shown++)
    (void)fwrite(text, 1, token_decode(&x->codec, t->id[t->shown], t->shown == first, text),
                 stdout);
}

bool generate_show(Generate *x) {
  if (!session_first(x->s) || option_given(x->s->opt, OPTION_JSON)) return true;
  for (; x->printed < x->nprompts; x->printed++) {
    GeneratedText *t = &x->text[x->printed];
    if (x->nprompts > 1 && !t->shown) printf("--- %u\n", x->printed + 1);
    show_ids(x, t, sure(x, t));
    if (!t->end) break;
    putchar('\n');
  }
  return fflush(stdout) == 0 || session_cannot_write(x->s, "standard output", (Pos){0});
}

// -- JSON ----------------------------------------------------------------------------------------

static json_t *text_json(const Generate *x, const GeneratedText *t, int64_t from, int64_t to) {
  Arena *a = arena_new();
  char *all = arena_array(a, char, (size_t)(to - from) * TOKEN_MOST_TEXT + 1);
  size_t n = 0;
  for (int64_t i = from; i < to; i++) n += token_decode(&x->codec, t->id[i], i == from, all + n);
  all[n] = 0;
  json_t *out = json_text(all);
  arena_free(a);
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

void generate_json(const Generate *x) {
  json_t *out = json_object(), *texts = json_array();
  json_object_set_new(out, "schema", json_string("meshc.generate/1"));
  json_object_set_new(out, "model", json_text(x->s->opt->argument.at[0]));
  for (uint32_t i = 0; i < x->nprompts; i++) json_array_append_new(texts, one_json(x, &x->text[i]));
  json_object_set_new(out, "texts", texts);
  json_object_set_new(out, "prompt_seconds", json_real(x->first_seconds));
  json_object_set_new(out, "seconds", json_real(x->seconds));
  json_object_set_new(out, "tokens", json_integer(x->timed));
  json_finish(out);
}
