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
  bool good = read_number(s, OPTION_TEMPERATURE, 0, 0, 1000, &x->sampling.temperature) &&
              option_integer(s->opt, OPTION_TOP_K, 0, 1, INT32_MAX, s->diag, &x->sampling.top_k) &&
              read_number(s, OPTION_TOP_P, 1, 0, 1, &p) &&
              option_integer(s->opt, OPTION_BEAMS, 0, 1, 64, s->diag, &x->beams) &&
              option_integer(s->opt, OPTION_MAX_TOKENS, 200, 1, INT32_MAX, s->diag, &x->most);
  x->sampling.top_p = p;
  x->sampling.seed = s->model->graph->spec.seed;
  bool draws = option_given(s->opt, OPTION_TOP_K) || option_given(s->opt, OPTION_TOP_P);
  if (good && draws && !option_given(s->opt, OPTION_TEMPERATURE)) x->sampling.temperature = 1;
  return good && apart(s, OPTION_BEAMS, OPTION_TEMPERATURE, "beam search draws no ids") &&
         apart(s, OPTION_BEAMS, OPTION_TOP_K, "beam search draws no ids") &&
         apart(s, OPTION_BEAMS, OPTION_TOP_P, "beam search draws no ids");
}

// Returns the source of the ids in the data blocks, or NULL.
static const DataSource *source_of_ids(const Generate *x) {
  const Graph *g = x->s->model->graph;
  const char *ids = g->decl.at[x->lm.ids - 1].name;
  for (int k = 0; k < DATA_BLOCKS; k++)
    for (uint32_t i = 0; g->spec.data[k].present && i < g->spec.data[k].nfields; i++)
      if (strcmp(g->spec.data[k].field[i].input, ids) == 0) return &g->spec.data[k].field[i].source;
  return NULL;
}

// Opens the vocabulary of --vocab, or that of the source, whose path starts at the model's folder.
// Returns false after an error; without either there is none.
static bool open_vocabulary(Generate *x, const DataSource *source) {
  const Session *s = x->s;
  const OptionUse *use = option_use(s->opt, OPTION_VOCAB);
  const char *path = use ? use->text : source ? source->vocabulary : NULL;
  if (!path) return true;
  if (!use && *path != '/') path = arena_printf(s->arena, "%s/%s", s->directory, path);
  x->vocabulary = vocabulary_open(path, s->diag, use ? use->pos : source->pos);
  return x->vocabulary != NULL;
}

static bool choose_codec(Generate *x) {
  const Session *s = x->s;
  const DataSource *source = source_of_ids(x);
  int kind;
  if (!option_word(s->opt, OPTION_TOKENS, 2, token_kinds, s->diag, &kind)) return false;
  bool stated = option_given(s->opt, OPTION_TOKENS);
  if (!stated && !open_vocabulary(x, source)) return false;
  x->codec = token_codec(source, x->vocabulary, dim_get(s->model->graph->dims, x->lm.vocab)->size);
  if (stated) x->codec.kind = (TokenKind)kind;
  return true;
}

static bool add_text(Generate *x, const char *text, size_t n, Pos at, TokenList *out) {
  if (!token_encode(&x->codec, x->s->arena, text, n, x->s->diag, at, out)) return false;
  return out->n || diag_error(x->s->diag, DIAG_USAGE, at,
                              "a text is empty, and the model needs an id to begin with");
}

static bool add_file(Generate *x, const OptionUse *use, TokenList *out) {
  size_t n;
  const char *text = file_text(x->s->arena, use->text, &n);
  if (!text)
    return diag_error(x->s->diag, DIAG_FILE_MISSING, use->pos, "cannot read the prompt %s: %s",
                      use->text, strerror(errno));
  return add_text(x, text, n, use->pos, out);
}

static bool add_stdin(Generate *x, TokenList *out) {
  const Session *s = x->s;
  size_t n;
  if (session_from_stdin(s) || s->ranks || isatty(0)) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "there is no prompt");
    return diag_hint(s->diag, "say --prompt TEXT or --prompt-file FILE");
  }
  const char *text = stream_text(s->arena, stdin, &n);
  if (!text)
    return diag_error(s->diag, DIAG_FILE_MISSING, (Pos){0}, "cannot read standard input: %s",
                      strerror(errno));
  return add_text(x, text, n, (Pos){0}, out);
}

static bool read_prompts(Generate *x) {
  const Options *o = x->s->opt;
  uint32_t texts = (uint32_t)o->use[OPTION_PROMPT].n,
           files = (uint32_t)o->use[OPTION_PROMPT_FILE].n;
  x->nprompts = texts + files ? texts + files : 1;
  x->prompt = arena_array(x->s->arena, TokenList, x->nprompts);
  if (!texts && !files) return add_stdin(x, &x->prompt[0]);
  for (uint32_t i = 0; i < texts; i++) {
    const OptionUse *use = &o->use[OPTION_PROMPT].at[i];
    if (!add_text(x, use->text, strlen(use->text), use->pos, &x->prompt[i])) return false;
  }
  for (uint32_t i = 0; i < files; i++)
    if (!add_file(x, &o->use[OPTION_PROMPT_FILE].at[i], &x->prompt[texts + i])) return false;
  return true;
}

// Returns the text of ids that are written as numbers, as it is generated.
static StopText numbers_as_generated(const Generate *x, const TokenList *ids) {
  StopText out = {"", 0};
  for (int64_t i = 0; i < ids->n; i++) {
    char room[TOKEN_ROOM];
    size_t n;
    const char *text = token_text(&x->codec, ids->id[i], false, room, &n);
    out.text = arena_printf(x->s->arena, "%s%.*s", out.text, (int)n, text);
    out.n += n;
  }
  return out;
}

static bool read_stops(Generate *x) {
  const Options *o = x->s->opt;
  x->nstops = (uint32_t)o->use[OPTION_STOP].n;
  x->stop = arena_array(x->s->arena, StopText, x->nstops + 1);
  for (uint32_t i = 0; i < x->nstops; i++) {
    const OptionUse *use = &o->use[OPTION_STOP].at[i];
    TokenList ids;
    if (!add_text(x, use->text, strlen(use->text), use->pos, &ids)) return false;
    x->stop[i] = x->codec.kind == TOKEN_NUMBERS ? numbers_as_generated(x, &ids)
                                                : (StopText){use->text, strlen(use->text)};
  }
  return true;
}

bool generate_options(Generate *x) {
  const OptionUse *logits = option_use(x->s->opt, OPTION_LOGITS);
  return language_model_find(x->s->model, logits ? logits->text : NULL,
                             logits ? logits->pos : (Pos){0}, &x->lm) &&
         read_choice(x) && choose_codec(x) && read_prompts(x) && read_stops(x);
}
