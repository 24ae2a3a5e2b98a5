// Reads the options of the command generate: how ids are chosen, the prompts, the stops.
#include "frontend/command/generate_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_number(const Session *s, OptionId id, double otherwise, double low, double high,
                        double *out) {
  const OptionUse *use = option_use(s->opt, id);
  *out = otherwise;
  if (!use) return true;
  char *end;
  *out = strtod(use->text, &end);
  if (end != use->text && !*end && *out >= low && *out <= high) return true;
  return diag_error(s->diag, DIAG_USAGE, use->pos, "%s takes a number from %g to %g, not '%s'",
                    option_name(id), low, high, use->text);
}

static bool apart(const Session *s, OptionId x, OptionId y, const char *why) {
  if (!option_given(s->opt, x) || !option_given(s->opt, y)) return true;
  return diag_error(s->diag, DIAG_USAGE, option_use(s->opt, y)->pos, "%s and %s: %s",
                    option_name(x), option_name(y), why);
}

static bool read_choice(Generate *x) {
  Session *s = x->s;
  double p = 1;
  bool good =
      read_number(s, OPTION_TEMPERATURE, 0, 0, 1000, &x->texts.sampling.temperature) &&
      option_integer(s->opt, OPTION_TOP_K, 0, 1, INT32_MAX, s->diag, &x->texts.sampling.top_k) &&
      read_number(s, OPTION_TOP_P, 1, 0, 1, &p) &&
      option_integer(s->opt, OPTION_BEAMS, 0, 1, MOST_BEAMS, s->diag, &x->texts.beams) &&
      option_integer(s->opt, OPTION_MAX_TOKENS, 200, 1, INT32_MAX, s->diag, &x->texts.most);
  x->texts.sampling.top_p = p;
  bool draws = option_given(s->opt, OPTION_TOP_K) || option_given(s->opt, OPTION_TOP_P);
  if (good && draws && !option_given(s->opt, OPTION_TEMPERATURE)) x->texts.sampling.temperature = 1;
  return good && apart(s, OPTION_BEAMS, OPTION_TEMPERATURE, "beam search draws no ids") &&
         apart(s, OPTION_BEAMS, OPTION_TOP_K, "beam search draws no ids") &&
         apart(s, OPTION_BEAMS, OPTION_TOP_P, "beam search draws no ids");
}

bool generate_codec(Generate *x, const DataSource *source, const char *path, int64_t vocab) {
  const Session *s = x->s;
  const OptionUse *use = option_use(s->opt, OPTION_VOCAB);
  int kind;
  if (!option_word(s->opt, OPTION_TOKENS, 2, token_kinds, s->diag, &kind)) return false;
  bool stated = option_given(s->opt, OPTION_TOKENS);
  if (use) path = use->text;
  if (path && !stated) {
    x->vocabulary = vocabulary_open(path, s->diag,
                                    use      ? use->pos
                                    : source ? source->pos
                                             : (Pos){0});
    if (!x->vocabulary) return false;
  }
  x->texts.codec = token_codec(source, x->vocabulary, vocab);
  if (stated) x->texts.codec.kind = (TokenKind)kind;
  return true;
}

static bool add_text(Generate *x, const char *text, size_t n, Pos at, TokenList *out) {
  if (!token_encode(&x->texts.codec, x->s->arena, text, n, x->s->diag, at, out)) return false;
  if (out->n) return true;
  diag_error(x->s->diag, DIAG_USAGE, at,
             "the prompt is empty, and the model needs an id to begin with");
  return diag_hint(x->s->diag, "begin the text: --prompt TEXT");
}

// Reports that a prompt cannot be read, as errno says. Returns false.
static bool unreadable(const Generate *x, Pos at, const char *from) {
  diag_error(x->s->diag, DIAG_FILE_MISSING, at, "cannot read %s: %s", from,
             errno == EFBIG ? "it has more than 64 MiB" : strerror(errno));
  return errno == EFBIG && diag_hint(x->s->diag, "a prompt is a text for the context of the model");
}

static bool add_file(Generate *x, const OptionUse *use, TokenList *out) {
  size_t n;
  const char *text = model_text(x->s->arena, use->text, &n);
  if (!text) return unreadable(x, use->pos, arena_printf(x->s->arena, "the prompt %s", use->text));
  return add_text(x, text, n, use->pos, out);
}

static bool add_stdin(Generate *x, TokenList *out) {
  const Session *s = x->s;
  size_t n;
  if (session_from_stdin(s) || s->ranks || isatty(0)) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "there is no prompt");
    return diag_hint(s->diag, "say --prompt TEXT or --prompt-file FILE");
  }
  const char *text = model_stream(s->arena, stdin, &n);
  if (!text) return unreadable(x, (Pos){0}, "standard input");
  return add_text(x, text, n, (Pos){0}, out);
}

static bool read_prompts(Generate *x) {
  const Options *o = x->s->opt;
  uint32_t texts = (uint32_t)o->use[OPTION_PROMPT].n,
           files = (uint32_t)o->use[OPTION_PROMPT_FILE].n;
  x->texts.n = texts + files ? texts + files : 1;
  TokenList *prompt = arena_array(x->s->arena, TokenList, x->texts.n);
  x->texts.prompt = prompt;
  if (!texts && !files) return add_stdin(x, &prompt[0]);
  for (uint32_t i = 0; i < texts; i++) {
    const OptionUse *use = &o->use[OPTION_PROMPT].at[i];
    if (!add_text(x, use->text, strlen(use->text), use->pos, &prompt[i])) return false;
  }
  for (uint32_t i = 0; i < files; i++)
    if (!add_file(x, &o->use[OPTION_PROMPT_FILE].at[i], &prompt[texts + i])) return false;
  return true;
}

static bool read_stops(Generate *x) {
  const Options *o = x->s->opt;
  x->texts.nstops = (uint32_t)o->use[OPTION_STOP].n;
  StopText *stop = arena_array(x->s->arena, StopText, x->texts.nstops + 1);
  x->texts.stop = stop;
  for (uint32_t i = 0; i < x->texts.nstops; i++) {
    const OptionUse *use = &o->use[OPTION_STOP].at[i];
    if (!texts_stop(&x->texts, use->text, use->pos, &stop[i])) return false;
  }
  return true;
}

bool generate_options(Generate *x, uint64_t seed) {
  x->texts.arena = x->s->arena;
  x->texts.diag = x->s->diag;
  x->texts.sampling.seed = seed;
  return read_choice(x) && read_prompts(x) && read_stops(x);
}
